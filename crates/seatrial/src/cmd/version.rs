//! `seatrial version`.

use std::io::Write;

use super::Outcome;

/// Seatrial's own version.
pub(crate) const LINE: &str = env!("CARGO_PKG_VERSION");

/// Arguments of `version`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  seatrial version -o json")]
pub(crate) struct Args {
    /// Print JSON
    #[arg(short, long, value_parser = ["json"])]
    output: Option<String>,
}

/// Prints Seatrial's version, and the Kubernetes version that its API server is held to.
pub(crate) fn run(args: &Args) -> Outcome {
    let (_, _, kubernetes) = apiserver::KUBERNETES_VERSION;
    let mut out = std::io::stdout();
    if args.output.is_some() {
        let version = serde_json::json!({"version": LINE, "kubernetes": kubernetes});
        writeln!(out, "{version}")?;
    } else {
        writeln!(out, "Seatrial {LINE} (Kubernetes API {kubernetes})")?;
    }
    Ok(())
}
