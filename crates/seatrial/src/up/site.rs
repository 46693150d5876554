//! What a data directory says about its site, and how the site's objects get into the API.
//!
//! The description is written once, when the site is made: a later start goes on with it. Objects that
//! are there are left as they are, since people may have changed them; only the address of a BMC
//! follows the simulator's listener.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use api::Machine;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sim::datacentre::{Demo, Layout, LayoutError, Objects};

/// Who writes the objects of a site.
const MANAGER: &str = "seatrial-up";
/// How many requests are under way at once.
const AT_ONCE: usize = 64;

/// What is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Source {
    /// A site that nobody described.
    #[serde(rename_all = "camelCase")]
    Demo { gpu_nodes: u32, cpu_nodes: u32, racks: u32, spares: u32, seed: u64 },
    /// The text of a file that describes it.
    #[serde(rename_all = "camelCase")]
    Described { yaml: String, seed: u64 },
}

impl Source {
    /// What stands where.
    ///
    /// # Errors
    /// Which field is wrong, and what would be right.
    pub(crate) fn layout(&self) -> Result<Layout, LayoutError> {
        match *self {
            Self::Demo { gpu_nodes, cpu_nodes, racks, spares, seed } => {
                Layout::demo(&Demo { gpu_nodes, cpu_nodes, racks, spares, seed })
            }
            Self::Described { ref yaml, .. } => Layout::read(yaml),
        }
    }

    /// Decides everything that is drawn.
    pub(crate) fn seed(&self) -> u64 {
        match self {
            Self::Demo { seed, .. } | Self::Described { seed, .. } => *seed,
        }
    }
}

/// What a directory remembers of its site.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Remembered {
    /// What it is.
    pub(crate) source: Source,
    /// Where its API listened last.
    pub(crate) api: Option<SocketAddr>,
    /// Where its BMCs answered last.
    pub(crate) bmc: Option<SocketAddr>,
}

/// Why a site cannot be started or gone on with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SiteError {
    #[error("cannot use {}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{} is damaged; remove it to begin with a new site, or choose another directory with --data-dir", path.display())]
    Damaged { path: PathBuf, source: serde_json::Error },
    #[error(
        "{} holds another site; leave out --nodes, --cpu-nodes, --racks, --spares, --seed and --site to go on with it, or choose another directory with --data-dir",
        path.display()
    )]
    Another { path: PathBuf },
    #[error("cannot write {what} to the API")]
    Write { what: String, source: Box<kube::Error> },
    #[error("the definition {name} is not accepted")]
    NotEstablished { name: String, source: Box<kube::runtime::wait::Error> },
}

impl Remembered {
    fn path(directory: &Path) -> PathBuf {
        directory.join("site.json")
    }

    /// What a directory remembers, if anything.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn read(directory: &Path) -> Result<Option<Self>, SiteError> {
        let path = Self::path(directory);
        match std::fs::read(&path) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(remembered) => Ok(Some(remembered)),
                Err(source) => Err(SiteError::Damaged { path, source }),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(SiteError::File { path, source }),
        }
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// If there is no room.
    pub(crate) fn write(&self, directory: &Path) -> Result<(), SiteError> {
        let path = Self::path(directory);
        let done = || -> std::io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(directory)?;
            serde_json::to_writer_pretty(&mut file, self)?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            Ok(())
        };
        done().map_err(|source| SiteError::File { path: path.clone(), source })
    }
}

/// Puts kinds and objects of a site into the API.
///
/// # Errors
/// What the API refuses.
pub(crate) async fn install(client: &Client, objects: Objects) -> Result<(), SiteError> {
    for definition in api::definitions() {
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let name = definition.name_any();
        let apply = PatchParams::apply(MANAGER).force();
        let done = definitions.patch(&name, &apply, &Patch::Apply(&definition)).await;
        done.map_err(|source| failed(&name, source))?;
        await_condition(definitions, &name, conditions::is_crd_established())
            .await
            .map_err(|source| SiteError::NotEstablished { name, source: Box::new(source) })?;
    }
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let apply = PatchParams::apply(MANAGER).force();
    let role = agent::cluster_role();
    let done = roles.patch(&role.name_any(), &apply, &Patch::Apply(&role)).await;
    done.map_err(|source| failed("the role of agents", source))?;
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let binding = agent::cluster_role_binding();
    let done = bindings.patch(&binding.name_any(), &apply, &Patch::Apply(&binding)).await;
    done.map_err(|source| failed("the role of agents", source))?;
    let Objects { namespace, credential, instance_types, racks, switches, machines, pools, ledger } =
        objects;
    make(Api::all(client.clone()), vec![namespace]).await?;
    let secrets = credential.namespace().unwrap_or_default();
    make(Api::namespaced(client.clone(), &secrets), vec![credential]).await?;
    make(Api::all(client.clone()), instance_types).await?;
    make(Api::all(client.clone()), racks).await?;
    make(Api::all(client.clone()), switches).await?;
    make(Api::all(client.clone()), vec![ledger]).await?;
    make(Api::all(client.clone()), pools).await?;
    let addresses: Vec<(String, String)> =
        machines.iter().map(|m| (m.name().to_owned(), m.spec.bmc.address.clone())).collect();
    make(Api::all(client.clone()), machines).await?;
    readdress(&Api::all(client.clone()), addresses).await
}

/// Creates what is not there.
async fn make<K>(api: Api<K>, objects: Vec<K>) -> Result<(), SiteError>
where
    K: Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let post = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    let (api, post) = (&api, &post);
    futures::stream::iter(objects)
        .map(|object| async move {
            match api.create(post, &object).await {
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
                Err(source) => Err(failed(&object.name_any(), source)),
                Ok(_) => Ok(()),
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

/// Tells machines where their BMCs answer now.
async fn readdress(
    machines: &Api<Machine>,
    addresses: Vec<(String, String)>,
) -> Result<(), SiteError> {
    let all = machines.list(&kube::api::ListParams::default()).await;
    let all = all.map_err(|source| failed("machines", source))?;
    let old: std::collections::BTreeMap<&str, &str> =
        all.items.iter().map(|m| (m.name(), m.spec.bmc.address.as_str())).collect();
    let moved = addresses.into_iter().filter(|(name, address)| {
        old.get(name.as_str()).is_some_and(|old| *old != address.as_str())
    });
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let params = &params;
    futures::stream::iter(moved)
        .map(|(name, address)| async move {
            let patch = Patch::Merge(json!({"spec": {"bmc": {"address": address}}}));
            let done = machines.patch(&name, params, &patch).await;
            done.map(drop).map_err(|source| failed(&name, source))
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

fn failed(what: &str, source: kube::Error) -> SiteError {
    SiteError::Write { what: what.to_owned(), source: Box::new(source) }
}
