//! `seatrial uninstall`: takes controllers and rights away; what they looked after stays.

use std::io::Write;

use api::Machine;
use kube::ResourceExt as _;

use super::Outcome;
use crate::client::{Cluster, Where, run as block_on};
use crate::confirm::{Consent, ask};
use crate::install;

/// Arguments of `uninstall`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial uninstall --kubeconfig FILE\n  seatrial uninstall --kubeconfig FILE --delete-crds --yes\n\nNodes go on as they are, and nobody repairs them. Without --delete-crds every object stays, and a\nlater `seatrial install` takes up where this one stopped. Namespaces and the credentials of BMCs in\nthem stay in any case."
)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: Where,
    /// Delete the fleet's kinds too, and with them every object of the fleet
    #[arg(long)]
    delete_crds: bool,
    #[command(flatten)]
    consent: Consent,
}

/// Objects of the fleet would be left without an end.
#[derive(Debug, thiserror::Error)]
#[error(
    "{held} machines are kept until their hardware is wiped and off; delete them while controllers run \
     (kubectl delete machines --all), or uninstall without --delete-crds"
)]
struct Held {
    held: usize,
}

/// Asks, and takes away.
pub(crate) fn run(args: &Args) -> Outcome {
    let mut out = std::io::stdout().lock();
    if args.consent.show {
        let (kinds, selector) = (install::leftover_kinds(), install::SELECTOR);
        writeln!(out, "kubectl delete {kinds} --all-namespaces --selector={selector}")?;
        if args.delete_crds {
            writeln!(out, "kubectl delete customresourcedefinitions --selector={selector}")?;
        }
        return Ok(());
    }
    block_on(async {
        let cluster = args.cluster.connect().await?;
        let client = cluster.client();
        let left = install::everything(client).await?;
        let counts = counts(&cluster).await?;
        let objects = if counts.is_empty() { "none".to_owned() } else { counts.join(", ") };
        let mut disturbs = format!(
            "{} objects of the installation at {} go: controllers and rights. Nobody repairs nodes then.",
            left.len(),
            cluster.url()
        );
        disturbs.push_str(&match args.delete_crds {
            true => format!("\nLost for good: every object of the fleet ({objects})."),
            false => format!("\nObjects of the fleet stay ({objects})."),
        });
        if args.delete_crds {
            let machines: Vec<Machine> = cluster.list().await?;
            let held = machines.iter().filter(|machine| !machine.finalizers().is_empty()).count();
            if held > 0 {
                return Err(Held { held }.into());
            }
        }
        ask(&args.consent, &disturbs, "Uninstall?")?;
        for left in &left {
            left.delete(client).await?;
            writeln!(out, "{} deleted", left.what)?;
        }
        if args.delete_crds {
            install::delete_kinds(client).await?;
            writeln!(out, "the fleet's kinds deleted, and with them {objects}")?;
        } else {
            writeln!(out, "kept: {objects}")?;
        }
        Ok(())
    })
}

/// How many objects of each kind there are, where there are any.
async fn counts(cluster: &Cluster) -> Result<Vec<String>, crate::client::ClientError> {
    let mut counts = Vec::new();
    for (plural, path) in install::collections() {
        let number = cluster.count(&path).await?;
        if number > 0 {
            counts.push(format!("{number} {plural}"));
        }
    }
    Ok(counts)
}
