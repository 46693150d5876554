//! The API server in this process: its store, its certificates, its listener.
//!
//! `serve` and `up` start the same one. It is reachable in the process before it is on the network,
//! so that whoever starts it can prepare what clients shall find.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use apiserver::audit::{Audit, AuditFile, Policy};
use apiserver::auth::authn::Authenticator;
use apiserver::auth::certificate::ClientCertificates;
use apiserver::auth::signing::TokenKey;
use apiserver::auth::token_file::StaticTokens;
use apiserver::serve::{Counters, Limits, TlsConfig};
use apiserver::{ApiServer, InFlight, Plugin};
use kit::clock::Clock;
use kit::ids::Ids;
use kit::pki::{CertificateAuthority, Pki};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;
use store::{DiskOptions, DiskStore, Store};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::cmd::Outcome;
use crate::{kubeconfig, paths};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// How long history is kept for watches that come back; what a kube-apiserver keeps.
const HISTORY: Duration = Duration::from_secs(5 * 60);

/// How often the server looks for what has outlived its time.
const EXPIRY: Duration = Duration::from_secs(10);

/// How often watches that ask for bookmarks get them.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// Why the server cannot start or go on.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("cannot listen on {address}; choose another address with --listen")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("cannot read the token file {}; name another with --token-auth-file", path.display())]
    ReadTokens { path: PathBuf, source: std::io::Error },
    #[error("cannot use the token file {}; mend it", path.display())]
    ParseTokens { path: PathBuf, source: apiserver::auth::token_file::ReadTokenFile },
    #[error("cannot read the audit policy {}; name another with --audit-policy-file", path.display())]
    ReadPolicy { path: PathBuf, source: std::io::Error },
    #[error("cannot use the audit policy {}; mend it", path.display())]
    UsePolicy { path: PathBuf, source: Box<apiserver::audit::ReadPolicy> },
    #[error("cannot make a directory for certificates")]
    Scratch(#[source] std::io::Error),
    #[error("the cluster's certificate authority is unusable")]
    Authority,
}

/// How the server is started.
pub(crate) struct Options {
    /// Where it keeps its things.
    pub(crate) place: Place,
    /// Where it listens; port 0 takes any free one.
    pub(crate) listen: SocketAddr,
    /// Names beside the usual ones by which it is reached.
    pub(crate) tls_names: Vec<String>,
    /// Bearer tokens.
    pub(crate) token_auth_file: Option<PathBuf>,
    /// What the audit log tells.
    pub(crate) audit_policy_file: Option<PathBuf>,
    /// Where audit events go.
    pub(crate) audit_log_path: Option<PathBuf>,
    /// Rules of admission that are left out.
    pub(crate) without: Vec<Plugin>,
    /// How many requests may be under way at a time.
    pub(crate) inflight: InFlight,
}

/// A server that can be used in the process, and is not on the network yet.
pub(crate) struct Embedded {
    /// The server.
    pub(crate) server: ApiServer,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Where the network will find it.
    pub(crate) url: String,
    /// Who signs for the cluster.
    pub(crate) authority: CertificateAuthority,
    /// Where it keeps its things.
    pub(crate) place: Place,
    /// An administrator's kubeconfig.
    pub(crate) kubeconfig: Value,
    listener: TcpListener,
    tls: TlsConfig,
    store: Arc<dyn Store>,
    stop: tokio::sync::watch::Sender<bool>,
}

impl Embedded {
    /// Opens store and listener, and writes the administrator's kubeconfig into the directory.
    ///
    /// # Errors
    /// With a sentence and a remedy.
    pub(crate) async fn open(options: Options, clock: &Clock) -> Result<Self, Error> {
        allow_open_files();
        let place = options.place;
        let address = options.listen;
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| StartError::Listen { address, source })?;
        let address = listener.local_addr()?;
        let store = place.store()?;
        let pki = Pki::open(place.pki(), clock.clone())?;
        let authority = pki.authority("ca", "seatrial")?;
        let mut hosts: Vec<String> = HOSTS.map(str::to_owned).into();
        hosts.push(address.ip().to_string());
        hosts.extend(options.tls_names.iter().cloned());
        hosts.dedup();
        let credential = pki.server("apiserver", &authority, "kube-apiserver", &hosts)?;
        let admin =
            pki.client("admin", &authority, "seatrial-admin", &["system:masters".to_owned()])?;
        let (stop, stopping) = tokio::sync::watch::channel(false);
        let server = ApiServer::new(apiserver::Options {
            store: Arc::clone(&store),
            clock: clock.clone(),
            ids: Ids::system(),
            authenticator: authenticator(options.token_auth_file.as_deref(), &authority)?,
            token_key: Some(TokenKey::from_pem(&pki.signing_key("sa")?.private_key_pem)?),
            without: options.without,
            audit: audit(options.audit_log_path.as_deref(), options.audit_policy_file.as_deref())?,
            inflight: options.inflight,
            bookmark_every: Some(BOOKMARKS),
            stopping,
        })
        .await?;
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let host = if address.ip().is_unspecified() { local } else { address.ip() };
        let url = format!("https://{}", SocketAddr::new(host, address.port()));
        // The directory's own is how `backup` and the other verbs find the server.
        let kubeconfig = kubeconfig::document(&url, authority.certificate_pem(), &admin);
        kubeconfig::write(&paths::kubeconfig_of(place.directory()), &kubeconfig)?;
        let tls = TlsConfig::from_pem(
            &credential.certificate_pem,
            &credential.key_pem,
            Some(authority.certificate_pem()),
        )?;
        Ok(Self { server, address, url, authority, place, kubeconfig, listener, tls, store, stop })
    }

    /// Serves until `shutdown` resolves, then ends watches and what is under way.
    ///
    /// # Errors
    /// If the listener breaks.
    pub(crate) async fn serve(
        self,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Outcome {
        let stop = self.stop;
        let shutdown = async move {
            shutdown.await;
            // Watches would hold their connections open until the deadline.
            let _ = stop.send(true);
        };
        let (limits, counters) = (Limits::default(), Arc::new(Counters::default()));
        let service = self.server.service();
        let front =
            apiserver::serve::serve(self.listener, self.tls, service, limits, counters, shutdown);
        tokio::select! {
            served = front => served?,
            () = forget_history(&*self.store) => {}
            () = remove_expired(&self.server) => {}
        }
        Ok(())
    }
}

/// Names by which a server on this machine is known inside and outside the cluster.
const HOSTS: [&str; 7] = [
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// Where the server keeps its things.
pub(crate) enum Place {
    /// In a directory.
    Disk(PathBuf),
    /// In memory, but for certificates.
    Memory(tempfile::TempDir),
}

impl Place {
    /// A place that is gone with the process.
    ///
    /// # Errors
    /// If there is no room for certificates.
    pub(crate) fn memory() -> Result<Self, Error> {
        Ok(tempfile::tempdir().map(Self::Memory).map_err(StartError::Scratch)?)
    }

    /// The directory of certificates and kubeconfig, and of the store where it is kept.
    pub(crate) fn directory(&self) -> &Path {
        match self {
            Self::Disk(directory) => directory,
            Self::Memory(scratch) => scratch.path(),
        }
    }

    fn pki(&self) -> PathBuf {
        self.directory().join("pki")
    }

    fn store(&self) -> Result<Arc<dyn Store>, store::Error> {
        Ok(match self {
            Self::Disk(directory) => {
                Arc::new(DiskStore::open(directory.join("store"), DiskOptions::default())?)
            }
            Self::Memory(_) => Arc::new(store::MemoryStore::new()),
        })
    }

    /// For people.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Disk(directory) => format!("data {}", paths::short(directory)),
            Self::Memory(_) => "in memory".to_owned(),
        }
    }
}

fn authenticator(
    token_auth_file: Option<&Path>,
    authority: &CertificateAuthority,
) -> Result<Authenticator, Error> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(authority.certificate_pem().as_bytes())
        .map_err(|_| StartError::Authority)?;
    roots.add(certificate).map_err(|_| StartError::Authority)?;
    let mut authenticator = Authenticator {
        client_certificates: Some(ClientCertificates::new(Arc::new(roots))?),
        anonymous: true,
        ..Authenticator::default()
    };
    if let Some(path) = token_auth_file {
        let text = std::fs::read_to_string(path)
            .map_err(|source| StartError::ReadTokens { path: path.to_owned(), source })?;
        let tokens = StaticTokens::parse(&text)
            .map_err(|source| StartError::ParseTokens { path: path.to_owned(), source })?;
        authenticator.tokens.push(Box::new(tokens));
    }
    Ok(authenticator)
}

/// What is told of requests, if that is asked for.
fn audit(log: Option<&Path>, policy: Option<&Path>) -> Result<Option<Audit>, Error> {
    let Some(log) = log else { return Ok(None) };
    let policy = match policy {
        None => Policy::standard()?,
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|source| StartError::ReadPolicy { path: path.to_owned(), source })?;
            Policy::parse(&text).map_err(|why| StartError::UsePolicy {
                path: path.to_owned(),
                source: Box::new(why),
            })?
        }
    };
    Ok(Some(Audit { policy: Arc::new(policy), sink: Arc::new(AuditFile::open(log)?) }))
}

/// Forgets what is older than [`HISTORY`], for as long as the server runs.
async fn forget_history(store: &dyn Store) {
    loop {
        let then = store.revision();
        tokio::time::sleep(HISTORY).await;
        if then > store.compacted()
            && let Err(error) = store.compact(then).await
        {
            tracing::warn!(%error, "cannot forget old history");
        }
    }
}

/// Removes what has outlived its time, so that watchers hear of it even if nobody else asks.
async fn remove_expired(server: &ApiServer) {
    loop {
        tokio::time::sleep(EXPIRY).await;
        server.expire().await;
    }
}

/// Lets this process have as many files open as the system permits: each connection is one, and what
/// shells permit at first is enough for a few hundred nodes.
pub(crate) fn allow_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "cannot raise the limit of open files; connections may be refused");
    }
}

/// Resolves at SIGINT or SIGTERM.
pub(crate) async fn terminated() {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
