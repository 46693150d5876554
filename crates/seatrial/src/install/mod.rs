//! What Seatrial puts into a cluster beside the objects of a site: its kinds, accounts and rights, what
//! makes the audit log say why, and on a cluster of its own its Deployment. `up`, `simulate site` and `install` apply the very same.
//!
//! Nothing here is asked of the cluster before it is applied, so it can be printed as well.

mod cluster;
mod deployment;
mod document;
mod leftover;
pub(crate) mod rights;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::DeleteParams;
use kube::runtime::wait::delete::delete_and_finalize;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt as _};

pub(crate) use cluster::{Boots, Installation};
pub(crate) use document::{ApplyError, Change, Document, SELECTOR};
pub(crate) use leftover::{everything, kinds as leftover_kinds, obsolete};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The fleet's kinds.
///
/// # Errors
/// None, unless a definition cannot be JSON.
pub(crate) fn definitions() -> Result<Vec<Document>, serde_json::Error> {
    api::definitions().iter().map(|kind| Ok(Document::of(kind)?.installed())).collect()
}

/// What makes the audit log of the cluster say why.
///
/// # Errors
/// None, unless a policy cannot be JSON.
pub(crate) fn accounts() -> Result<Vec<Document>, serde_json::Error> {
    let mut documents = Vec::new();
    for account in &api::audit::ACCOUNTS {
        let (policy, binding) = account.policy();
        documents.push(Document::of(&policy)?.installed());
        documents.push(Document::of(&binding)?.installed());
    }
    Ok(documents)
}

/// Installs the fleet's kinds, and returns when they are served.
///
/// # Errors
/// What the API refuses.
pub(crate) async fn kinds(client: &Client) -> Result<(), Error> {
    apply(&definitions()?, client).await?;
    Ok(established(client).await?)
}

/// Returns when the fleet's kinds are served.
///
/// # Errors
/// If the API does not accept one.
pub(crate) async fn established(client: &Client) -> Result<(), ApplyError> {
    for definition in api::definitions() {
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let name = definition.name_any();
        await_condition(definitions, &name, conditions::is_crd_established())
            .await
            .map_err(|source| ApplyError::NotEstablished { name, source: Box::new(source) })?;
    }
    Ok(())
}

/// Deletes the fleet's kinds with all their objects, and returns when they are gone.
///
/// # Errors
/// What the API answered.
pub(crate) async fn delete_kinds(client: &Client) -> Result<(), Error> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in api::definitions() {
        let name = definition.name_any();
        if definitions.get_metadata_opt(&name).await?.is_some() {
            delete_and_finalize(definitions.clone(), &name, &DeleteParams::default()).await?;
        }
    }
    Ok(())
}

/// What the fleet's objects are called, and where their collections are.
pub(crate) fn collections() -> impl Iterator<Item = (String, String)> {
    api::definitions().into_iter().map(|definition| {
        let plural = definition.spec.names.plural;
        let path = format!("/apis/{}/{}/{plural}", api::GROUP, api::VERSION);
        (plural, path)
    })
}

/// Applies documents in their order.
///
/// # Errors
/// What the API refuses.
pub(crate) async fn apply(documents: &[Document], client: &Client) -> Result<(), ApplyError> {
    for document in documents {
        document.apply(client).await?;
    }
    Ok(())
}

/// Documents as one file for kubectl.
///
/// # Errors
/// None, unless one cannot be YAML.
pub(crate) fn printed(documents: &[Document]) -> Result<String, serde_saphyr::ser::Error> {
    let mut text = String::new();
    for document in documents {
        if !text.is_empty() {
            text.push_str("---\n");
        }
        text.push_str(&serde_saphyr::to_string(document.value())?);
    }
    Ok(text)
}
