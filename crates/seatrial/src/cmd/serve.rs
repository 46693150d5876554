//! `seatrial serve`: the embedded API server, until it is told to stop.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ::controllers::{Selection, Site};
use apiserver::{InFlight, Plugin};
use kit::clock::Clock;

use super::Outcome;
use crate::embedded::{self, Embedded, Place};
use crate::{controllers, kubeconfig, paths};

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
    /// How many requests that only read may be under way at a time, watches aside; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = InFlight::default().reading)]
    max_requests_inflight: usize,
    /// How many requests that write may be under way at a time; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = InFlight::default().writing)]
    max_mutating_requests_inflight: usize,
}

fn plugin(name: &str) -> Result<Plugin, String> {
    let known = [
        ("ServiceAccount", Plugin::ServiceAccount),
        ("NodeRestriction", Plugin::NodeRestriction),
        ("StorageObjectInUseProtection", Plugin::StorageObjectInUseProtection),
    ];
    let found = known.iter().find(|(known, _)| *known == name).map(|(_, plugin)| *plugin);
    found.ok_or_else(|| format!("can be left out: {}", known.map(|(name, _)| name).join(", ")))
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
    let place = if args.in_memory {
        Place::memory()?
    } else {
        Place::Disk(args.data_dir.clone().unwrap_or_else(|| paths::data_dir("default")))
    };
    let options = embedded::Options {
        place,
        listen: args.listen,
        tls_names: args.tls_names.clone(),
        token_auth_file: args.token_auth_file.clone(),
        audit_policy_file: args.audit_policy_file.clone(),
        audit_log_path: args.audit_log_path.clone(),
        without: args.disable_admission_plugins.clone(),
        inflight: InFlight {
            reading: args.max_requests_inflight,
            writing: args.max_mutating_requests_inflight,
        },
    };
    let embedded = Embedded::open(options, &clock).await?;
    if let Some(asked) = &args.kubeconfig {
        kubeconfig::write(asked, &embedded.kubeconfig)?;
    }
    let site = Site {
        authority: Some(embedded.authority.clone()),
        address: Some(embedded.url.clone()),
        ..Site::default()
    };
    let controllers = controllers::start(&args.controllers, &embedded.server, &site, clock).await?;
    let own = paths::kubeconfig_of(embedded.place.directory());
    announce(&embedded, args.kubeconfig.as_ref().unwrap_or(&own), began.elapsed())?;
    embedded
        .serve(async move {
            embedded::terminated().await;
            // Before the API goes: they finish what they do while there is one to do it with.
            controllers.stop().await;
        })
        .await
}

fn announce(embedded: &Embedded, kubeconfig: &Path, took: Duration) -> std::io::Result<()> {
    let (_, _, kubernetes) = apiserver::KUBERNETES_VERSION;
    let mut out = std::io::stdout().lock();
    writeln!(out, "Seatrial {} · Kubernetes API {kubernetes}", super::version::LINE)?;
    let (took, place) = (took.as_secs_f64(), embedded.place.describe());
    let url = &embedded.url;
    writeln!(out, "  api server   ready   {took:.2} s   {url} · {place}")?;
    writeln!(out)?;
    // Absolute and quoted, so that the line works from anywhere.
    let kubeconfig = std::path::absolute(kubeconfig)?;
    writeln!(out, "  export KUBECONFIG='{}'", kubeconfig.display())?;
    writeln!(out, "  kubectl get namespaces")?;
    writeln!(out, "Ctrl-C stops.")?;
    out.flush()
}
