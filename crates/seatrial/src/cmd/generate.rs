//! `seatrial generate`: completions and man pages, made from the same definitions as `--help`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory, Subcommand};
use clap_complete::Shell;

use super::Outcome;
use crate::Cli;

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
    }
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
