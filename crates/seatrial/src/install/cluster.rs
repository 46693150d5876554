//! Everything that an installation consists of, as documents in the order in which they are applied.

use ::controllers::{ALL, Entry};
use api::names;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ObjectMeta;

use super::document::Document;
use super::{accounts, definitions, deployment, rights};

/// Pods of our namespace are held to the strictest of Kubernetes' standards.
const POD_SECURITY: (&str, &str) = ("pod-security.kubernetes.io/enforce", "restricted");

/// What is installed.
pub(crate) struct Installation {
    /// Where the controllers run.
    pub(crate) namespace: String,
    /// The image that they run from; they are run by other means if absent.
    pub(crate) image: Option<String>,
    /// Where machines boot, if they do from there.
    pub(crate) boots: Option<Boots>,
}

/// What machines that boot are told.
#[derive(Clone, Debug)]
pub(crate) struct Boots {
    /// How they reach the boot service.
    pub(crate) url: String,
    /// How they reach the Kubernetes API.
    pub(crate) api: String,
    /// Where images lie.
    pub(crate) images: String,
    /// Arguments of every kernel.
    pub(crate) arguments: Vec<String>,
}

/// The documents of an installation: what must be there first, and the rest.
pub(crate) struct Documents {
    /// Namespaces and kinds.
    pub(crate) first: Vec<Document>,
    /// Accounts, rights, and what runs.
    pub(crate) then: Vec<Document>,
}

impl Installation {
    /// Its documents.
    ///
    /// # Errors
    /// None, unless an object cannot be JSON.
    pub(crate) fn documents(&self) -> Result<Documents, serde_json::Error> {
        let entries: Vec<&Entry> = ALL.iter().filter(|entry| entry.fleet).collect();
        // Credentials of BMCs lie in the one, whatever the other is.
        let mut namespaces = vec![self.namespace.as_str(), names::NAMESPACE];
        namespaces.dedup();
        let mut first = Vec::new();
        for name in namespaces {
            first.push(Document::of(&namespace(name))?.labelled(&[POD_SECURITY]));
        }
        first.extend(definitions()?);
        // With the namespace of the machines' accounts, in which controllers have rights.
        let mut then = rights::of_agents()?;
        then.extend(rights::of_controllers(&entries, &self.namespace)?);
        then.extend(rights::of_process(rights::PROCESS, &entries, &self.namespace)?);
        then.extend(rights::of_people()?);
        then.extend(accounts()?);
        if let Some(image) = &self.image {
            then.push(Document::of(&deployment::disruption_budget(&self.namespace))?);
            let boots = self.boots.as_ref();
            then.push(Document::of(&deployment::deployment(&self.namespace, image, boots))?);
            if boots.is_some() {
                then.push(Document::of(&deployment::boot_service(&self.namespace))?);
            }
        }
        let installed =
            |documents: Vec<Document>| documents.into_iter().map(Document::installed).collect();
        Ok(Documents { first: installed(first), then: installed(then) })
    }
}

fn namespace(name: &str) -> Namespace {
    Namespace {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    }
}
