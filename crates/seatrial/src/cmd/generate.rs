//! `seatrial generate`: completions and man pages, made from the same definitions as `--help`, and
//! what controllers ship, made from what they declare.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory, Subcommand};
use clap_complete::Shell;
use kit::controller::observability;

use super::Outcome;
use crate::Cli;
use crate::install::{self, Document};

/// Arguments of `generate`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial generate completions bash > /etc/bash_completion.d/seatrial\n  seatrial generate man /usr/local/share/man/man1"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Completions for a shell, on standard output
    Completions { shell: Shell },
    /// Man pages, one per subcommand, into a directory
    Man { directory: PathBuf },
    /// Role, alert rules with tests, and dashboard of each controller, into folders of a directory
    Controllers { directory: PathBuf },
}

/// Prints completions or writes man pages.
pub(crate) fn run(args: &Args) -> Outcome {
    let mut command = Cli::command();
    match &args.what {
        What::Completions { shell } => {
            let mut out = Vec::new();
            clap_complete::generate(*shell, &mut command, "seatrial", &mut out);
            std::io::stdout().write_all(&out)?;
            Ok(())
        }
        What::Man { directory } => {
            command.build();
            std::fs::create_dir_all(directory)?;
            pages(&command, "seatrial", directory)
        }
        What::Controllers { directory } => controllers(directory),
    }
}

/// What each controller declares, in the forms that kubectl, promtool, Prometheus and Grafana read.
fn controllers(directory: &Path) -> Outcome {
    for entry in ::controllers::ALL {
        let declaration = (entry.declare)();
        let folder = directory.join(entry.folder);
        std::fs::create_dir_all(&folder)?;
        let mut roles = vec![Document::of(&declaration.cluster_role())?];
        for role in declaration.roles() {
            roles.push(Document::of(&role)?);
        }
        let yaml = |value: &serde_json::Value| serde_saphyr::to_string(value);
        let rules = observability::alert_rules(&declaration);
        let tests = observability::alert_tests(&declaration, "alerts.yaml");
        std::fs::write(folder.join("role.yaml"), install::printed(&roles)?)?;
        std::fs::write(folder.join("alerts.yaml"), yaml(&rules)?)?;
        std::fs::write(folder.join("alerts_test.yaml"), yaml(&tests)?)?;
        let dashboard = serde_json::to_string_pretty(&observability::dashboard(&declaration))?;
        std::fs::write(folder.join("dashboard.json"), dashboard + "\n")?;
    }
    Ok(())
}

fn pages(command: &Command, name: &str, directory: &Path) -> Outcome {
    let mut out = Vec::new();
    clap_mangen::Man::new(command.clone()).title(name).render(&mut out)?;
    std::fs::write(directory.join(format!("{name}.1")), out)?;
    for sub in command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
        pages(sub, &format!("{name}-{}", sub.get_name()), directory)?;
    }
    Ok(())
}
