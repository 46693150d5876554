//! `seatrial serve`: the embedded API server, until it is told to stop.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::controllers::Selection;
use ::controllers::Site;
use apiserver::audit::{Audit, AuditFile, Policy};
use apiserver::auth::authn::Authenticator;
use apiserver::auth::certificate::ClientCertificates;
use apiserver::auth::signing::TokenKey;
use apiserver::auth::token_file::StaticTokens;
use apiserver::serve::{Counters, Limits, TlsConfig};
use apiserver::{ApiServer, Plugin};
use kit::clock::Clock;
use kit::ids::Ids;
use kit::pki::{CertificateAuthority, Pki};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use store::{DiskOptions, DiskStore, Store};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::Outcome;
use crate::{controllers, kubeconfig, paths};

/// How long history is kept for watches that come back; what a kube-apiserver keeps.
const HISTORY: Duration = Duration::from_secs(5 * 60);

/// How often the server looks for what has outlived its time.
const EXPIRY: Duration = Duration::from_secs(10);

/// How often watches that ask for bookmarks get them.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// Arguments of `serve`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial serve --in-memory --kubeconfig /tmp/kubeconfig\n  seatrial serve --data-dir /var/lib/seatrial --listen 0.0.0.0:6443 --tls-name api.example.com\n\nThe first line that it prints after `ready` is what to give to kubectl."
)]
pub(crate) struct Args {
    /// Keep everything in this directory [default: ~/.local/share/seatrial/default]
    #[arg(long, value_name = "DIR", conflicts_with = "in_memory")]
    data_dir: Option<PathBuf>,
    /// Keep nothing: all is gone when the server stops
    #[arg(long)]
    in_memory: bool,
    /// Listen here; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Write an administrator's kubeconfig here too when ready, beside the data directory's own
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Another name or address that clients reach the server by (repeatable)
    #[arg(long = "tls-name", value_name = "NAME")]
    tls_names: Vec<String>,
    /// Controllers that run with the server, as kube-controller-manager takes them: `*` is all, a
    /// name takes one, `-name` leaves one out, `-*` takes none
    #[arg(long, value_name = "LIST", default_value = "*", value_parser = Selection::parse,
        allow_hyphen_values = true)]
    controllers: Selection,
    /// A file of bearer tokens, one `token,user,uid,"group1,group2"` a line
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// What the audit log tells, an audit.k8s.io/v1 Policy [default: who did what, never a secret]
    #[arg(long, value_name = "FILE", requires = "audit_log_path")]
    audit_policy_file: Option<PathBuf>,
    /// Append an audit event as a line of JSON for every request
    #[arg(long, value_name = "FILE")]
    audit_log_path: Option<PathBuf>,
    /// Leave out these rules of admission (repeatable or after commas)
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = plugin)]
    disable_admission_plugins: Vec<Plugin>,
}

fn plugin(name: &str) -> Result<Plugin, String> {
    let known =
        [("ServiceAccount", Plugin::ServiceAccount), ("NodeRestriction", Plugin::NodeRestriction)];
    let found = known.iter().find(|(known, _)| *known == name).map(|(_, plugin)| *plugin);
    found.ok_or_else(|| format!("can be left out: {}", known.map(|(name, _)| name).join(", ")))
}

/// Why the server cannot start or go on.
#[derive(Debug, thiserror::Error)]
enum ServeError {
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

/// Serves until SIGINT or SIGTERM.
pub(crate) fn run(args: &Args) -> Outcome {
    let clock = Clock::system();
    kit::telemetry::init(clock.clone())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(args, clock))
}

async fn serve(args: &Args, clock: Clock) -> Outcome {
    let began = Instant::now();
    let place = Place::of(args)?;
    let address = args.listen;
    let listener = TcpListener::bind(address)
        .await
        .map_err(|source| ServeError::Listen { address, source })?;
    let address = listener.local_addr()?;
    let store = place.store()?;

    let pki = Pki::open(place.pki(), clock.clone())?;
    let authority = pki.authority("ca", "seatrial")?;
    let mut hosts: Vec<String> = HOSTS.map(str::to_owned).into();
    hosts.push(address.ip().to_string());
    hosts.extend(args.tls_names.iter().cloned());
    hosts.dedup();
    let server_credential = pki.server("apiserver", &authority, "kube-apiserver", &hosts)?;
    let admin =
        pki.client("admin", &authority, "seatrial-admin", &["system:masters".to_owned()])?;

    let (stop, stopping) = tokio::sync::watch::channel(false);
    let server = ApiServer::new(apiserver::Options {
        store: Arc::clone(&store),
        clock: clock.clone(),
        ids: Ids::system(),
        authenticator: authenticator(args, &authority)?,
        token_key: Some(TokenKey::from_pem(&pki.signing_key("sa")?.private_key_pem)?),
        without: args.disable_admission_plugins.clone(),
        audit: audit(args)?,
        bookmark_every: Some(BOOKMARKS),
        stopping,
    })
    .await?;

    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let host = if address.ip().is_unspecified() { local } else { address.ip() };
    let url = format!("https://{}", SocketAddr::new(host, address.port()));
    // The directory's own is how `backup` and `kubeconfig` find the server.
    let own = paths::kubeconfig_of(place.directory());
    let document = kubeconfig::document(&url, authority.certificate_pem(), &admin);
    kubeconfig::write(&own, &document)?;
    if let Some(asked) = &args.kubeconfig {
        kubeconfig::write(asked, &document)?;
    }
    announce(&url, &place, args.kubeconfig.as_ref().unwrap_or(&own), began.elapsed())?;

    let site = Site { authority: Some(authority.clone()), address: Some(url), ..Site::default() };
    let controllers = controllers::start(&args.controllers, &server, &site, clock).await?;
    let shutdown = async move {
        terminated().await;
        // Controllers first: they finish what they do while there is an API to do it with.
        controllers.stop().await;
        // Then watches: they would hold their connections open until the deadline.
        let _ = stop.send(true);
    };
    let tls = TlsConfig::from_pem(
        &server_credential.certificate_pem,
        &server_credential.key_pem,
        Some(authority.certificate_pem()),
    )?;
    let (limits, counters) = (Limits::default(), Arc::new(Counters::default()));
    let service = server.service();
    let front = apiserver::serve::serve(listener, tls, service, limits, counters, shutdown);
    tokio::select! {
        served = front => served?,
        () = forget_history(&*store) => {}
        () = remove_expired(&server) => {}
    }
    Ok(())
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
enum Place {
    Disk(PathBuf),
    Memory(tempfile::TempDir),
}

impl Place {
    fn of(args: &Args) -> Result<Self, ServeError> {
        if args.in_memory {
            return tempfile::tempdir().map(Self::Memory).map_err(ServeError::Scratch);
        }
        let directory = args.data_dir.clone().unwrap_or_else(|| paths::data_dir("default"));
        Ok(Self::Disk(directory))
    }

    fn directory(&self) -> &Path {
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

    fn describe(&self) -> String {
        match self {
            Self::Disk(directory) => format!("data {}", paths::short(directory)),
            Self::Memory(_) => "in memory".to_owned(),
        }
    }
}

fn authenticator(
    args: &Args,
    authority: &CertificateAuthority,
) -> Result<Authenticator, Box<dyn std::error::Error + Send + Sync>> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(authority.certificate_pem().as_bytes())
        .map_err(|_| ServeError::Authority)?;
    roots.add(certificate).map_err(|_| ServeError::Authority)?;
    let mut authenticator = Authenticator {
        client_certificates: Some(ClientCertificates::new(Arc::new(roots))?),
        anonymous: true,
        ..Authenticator::default()
    };
    if let Some(path) = &args.token_auth_file {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ServeError::ReadTokens { path: path.clone(), source })?;
        let tokens = StaticTokens::parse(&text)
            .map_err(|source| ServeError::ParseTokens { path: path.clone(), source })?;
        authenticator.tokens.push(Box::new(tokens));
    }
    Ok(authenticator)
}

/// What is told of requests, if that is asked for.
fn audit(args: &Args) -> Result<Option<Audit>, Box<dyn std::error::Error + Send + Sync>> {
    let Some(path) = &args.audit_log_path else { return Ok(None) };
    let policy = match &args.audit_policy_file {
        None => Policy::standard()?,
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|source| ServeError::ReadPolicy { path: path.clone(), source })?;
            Policy::parse(&text).map_err(|why| ServeError::UsePolicy {
                path: path.clone(),
                source: Box::new(why),
            })?
        }
    };
    Ok(Some(Audit { policy: Arc::new(policy), sink: Arc::new(AuditFile::open(path)?) }))
}

fn announce(url: &str, place: &Place, kubeconfig: &Path, took: Duration) -> std::io::Result<()> {
    let (_, _, kubernetes) = apiserver::KUBERNETES_VERSION;
    let mut out = std::io::stdout().lock();
    writeln!(out, "Seatrial {} · Kubernetes API {kubernetes}", super::version::LINE)?;
    let (took, place) = (took.as_secs_f64(), place.describe());
    writeln!(out, "  api server   ready   {took:.2} s   {url} · {place}")?;
    writeln!(out)?;
    // Absolute and quoted, so that the line works from anywhere.
    let kubeconfig = std::path::absolute(kubeconfig)?;
    writeln!(out, "  export KUBECONFIG='{}'", kubeconfig.display())?;
    writeln!(out, "  kubectl get namespaces")?;
    writeln!(out, "Ctrl-C stops.")?;
    out.flush()
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

/// Resolves at SIGINT or SIGTERM.
async fn terminated() {
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
