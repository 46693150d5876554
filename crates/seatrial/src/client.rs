//! How verbs reach their cluster, and what they ask of it.
//!
//! The cluster is found by `--kubeconfig`, then `KUBECONFIG`, then, in a pod, its own; else the data
//! directory on this machine that was used last, then kubectl's own file.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kit::controller::WATCH_LIFETIME;
use kube::api::{ListParams, Patch, PatchParams};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::core::{DynamicObject, ObjectList, PartialObjectMeta, Status};
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::paths;

/// What a pod's own cluster is called.
const WITHIN: &str = "this pod's cluster";

/// How long an answer may come late.
const GRACE: Duration = Duration::from_secs(30);

/// Which cluster a verb is about.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Where {
    /// The cluster's kubeconfig [default: KUBECONFIG, else the server that ran last on this machine]
    #[arg(long, value_name = "FILE", global = true)]
    kubeconfig: Option<PathBuf>,
}

/// Why the cluster did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// No cluster was named, and none is known here.
    #[error(
        "no cluster is known here; start one with `seatrial up`, or name one with --kubeconfig or \
         KUBECONFIG"
    )]
    Nowhere,
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig {path}; name another with --kubeconfig")]
    Kubeconfig { path: String, source: Box<kube::config::KubeconfigError> },
    /// This is a pod that may not speak to its cluster.
    #[error("cannot use this pod's service account; name a cluster with --kubeconfig")]
    Within(#[source] kube::config::InClusterError),
    /// The API refused.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// The fleet's kinds are not installed.
    #[error(
        "the cluster at {url} has no {what}; `seatrial up` starts one that has, `seatrial install` puts it in"
    )]
    NoFleet { url: String, what: String },
    /// The API cannot be reached.
    #[error("cannot reach the API server at {url}; does it run?")]
    Unreachable { url: String, source: Box<kube::Error> },
    /// There is no object of that name.
    #[error("there is no {what} {name:?}{advice}")]
    Unknown { what: &'static str, name: String, advice: String },
}

/// A cluster that a verb talks to.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: Client,
    config: Config,
    url: String,
    kubeconfig: String,
    own_namespace: Option<String>,
    /// Who asks, as field manager: the person's name on this machine.
    pub(crate) person: String,
}

/// A kind whose objects verbs read.
pub(crate) trait Kind:
    Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
    + DeserializeOwned
    + Clone
    + Debug
    + Send
    + Sync
    + 'static
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
        + DeserializeOwned
        + Clone
        + Debug
        + Send
        + Sync
        + 'static
{
}

/// Runs a verb to its end.
///
/// # Errors
/// If the runtime cannot start, and what the verb returns.
pub(crate) fn run(verb: impl Future<Output = crate::cmd::Outcome>) -> crate::cmd::Outcome {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(verb)
}

impl Where {
    /// The cluster of a kubeconfig.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { kubeconfig: Some(path) }
    }

    /// Whether somebody said which.
    pub(crate) fn is_named(&self) -> bool {
        let listed = || std::env::var_os("KUBECONFIG").is_some_and(|listed| !listed.is_empty());
        self.kubeconfig.is_some() || listed()
    }

    /// Finds the cluster.
    ///
    /// # Errors
    /// If none is known, or its kubeconfig cannot be used.
    pub(crate) async fn connect(&self) -> Result<Cluster, ClientError> {
        let (name, mut config) = self.config().await?;
        // A watch may be silent for as long as it lasts.
        config.read_timeout = Some(WATCH_LIFETIME + GRACE);
        let within = name == WITHIN;
        let own_namespace = within.then(|| config.default_namespace.clone());
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let client = Client::try_from(config.clone()).map_err(|source| {
            ClientError::Unreachable { url: url.clone(), source: Box::new(source) }
        })?;
        let person = std::env::var("USER").ok().filter(|name| !name.is_empty());
        let person = person.unwrap_or_else(|| "somebody".to_owned());
        Ok(Cluster { client, config, url, kubeconfig: name, own_namespace, person })
    }

    /// What it was found by, and how it is reached.
    async fn config(&self) -> Result<(String, Config), ClientError> {
        let listed = std::env::var_os("KUBECONFIG").filter(|listed| !listed.is_empty());
        let (name, read) = match (&self.kubeconfig, listed) {
            (Some(path), _) => (path.display().to_string(), Kubeconfig::read_from(path)),
            (None, Some(listed)) => {
                let read = Kubeconfig::from_env().map(Option::unwrap_or_default);
                (listed.to_string_lossy().into_owned(), read)
            }
            // Kubernetes sets this in every container.
            (None, None) if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => {
                let config = Config::incluster().map_err(ClientError::Within)?;
                return Ok((WITHIN.to_owned(), config));
            }
            (None, None) => {
                let found = last_used().or_else(paths::user_kubeconfig);
                let path = found.filter(|path| path.is_file()).ok_or(ClientError::Nowhere)?;
                (path.display().to_string(), Kubeconfig::read_from(&path))
            }
        };
        let unusable =
            |source| ClientError::Kubeconfig { path: name.clone(), source: Box::new(source) };
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(read.map_err(unusable)?, &options).await;
        let config = config.map_err(unusable)?;
        Ok((name, config))
    }
}

/// The kubeconfig of the data directory that was written to last.
fn last_used() -> Option<PathBuf> {
    let all = std::fs::read_dir(paths::data_dir("")).ok()?;
    let written = |path: &Path| std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
    all.filter_map(Result::ok)
        .map(|entry| paths::kubeconfig_of(&entry.path()))
        .filter_map(|path| Some((written(&path)?, path)))
        .max()
        .map(|(_, path)| path)
}

impl Cluster {
    /// A kind's objects.
    pub(crate) fn all<K: Kind>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// Where it is.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The namespace of the pod that this process runs in, if it does.
    pub(crate) fn own_namespace(&self) -> Option<&str> {
        self.own_namespace.as_deref()
    }

    /// What to give to kubectl.
    pub(crate) fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// The client itself.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// How it is reached by whoever is not the kubeconfig's user: with all but what says who asks.
    pub(crate) fn as_nobody(&self) -> Config {
        let mut config = self.config.clone();
        config.auth_info = AuthInfo::default();
        config
    }

    /// What went wrong, in words for people.
    pub(crate) fn explain(&self, error: kube::Error) -> ClientError {
        match error {
            kube::Error::Api(status) => ClientError::Refused(status),
            source => ClientError::Unreachable { url: self.url.clone(), source: Box::new(source) },
        }
    }

    /// Every object of a kind; none where the kind is not served.
    ///
    /// # Errors
    /// What the API answered.
    pub(crate) async fn list<K: Kind>(&self) -> Result<Vec<K>, ClientError> {
        match self.all::<K>().list(&ListParams::default()).await {
            Ok(list) => Ok(list.items),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// How many objects a collection holds; none where it is not served.
    ///
    /// # Errors
    /// What the API answered.
    pub(crate) async fn count(&self, collection: &str) -> Result<usize, ClientError> {
        let request = kube::core::Request::new(collection).list_metadata(&ListParams::default());
        let request = request.map_err(|error| self.explain(kube::Error::BuildRequest(error)))?;
        match self.client.request::<ObjectList<PartialObjectMeta<DynamicObject>>>(request).await {
            Ok(list) => Ok(list.items.len()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(0),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// Every object of a kind of the fleet.
    ///
    /// # Errors
    /// What the API answered, also that it does not serve the kind.
    pub(crate) async fn fleet<K: Kind>(&self) -> Result<Vec<K>, ClientError> {
        match self.all::<K>().list(&ListParams::default()).await {
            Ok(list) => Ok(list.items),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let what = format!("{}.{}", K::plural(&()), K::group(&()));
                Err(ClientError::NoFleet { url: self.url.clone(), what })
            }
            Err(error) => Err(self.explain(error)),
        }
    }

    /// An object, if it is there.
    ///
    /// # Errors
    /// What the API answered.
    pub(crate) async fn find<K: Kind>(&self, name: &str) -> Result<Option<K>, ClientError> {
        match self.all::<K>().get(name).await {
            Ok(found) => Ok(Some(found)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// Patches an object or its status.
    ///
    /// # Errors
    /// What the API answered.
    pub(crate) async fn patch<K: Kind>(
        &self,
        name: &str,
        status: bool,
        patch: &Patch<Value>,
    ) -> Result<K, ClientError> {
        let params =
            PatchParams { field_manager: Some(self.person.clone()), ..PatchParams::default() };
        let api = self.all::<K>();
        let done = match status {
            true => api.patch_status(name, &params, patch).await,
            false => api.patch(name, &params, patch).await,
        };
        done.map_err(|error| self.explain(error))
    }
}

/// What is said of a name that nothing has: the nearest that there is.
pub(crate) fn unknown<'a>(
    what: &'static str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> ClientError {
    let mut known: Vec<&str> = known.collect();
    known.sort_unstable();
    known.dedup();
    let list = match what {
        "node or machine" => Some("node"),
        "pool" => Some("pool"),
        "rack" => Some("rack"),
        "training job" => None,
        _ => Some("machine"),
    };
    let advice = match plan::tell::nearest(name, known.iter().copied()) {
        Some(near) => match list {
            Some(list) => {
                format!("; did you mean {near:?}? ({} known: seatrial {list} get)", known.len())
            }
            None => format!("; did you mean {near:?}? ({} known)", known.len()),
        },
        None => "; there is none at all".to_owned(),
    };
    ClientError::Unknown { what, name: name.to_owned(), advice }
}
