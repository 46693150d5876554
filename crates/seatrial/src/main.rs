//! The one binary. Subcommands, wiring, output; every decision lives in another crate.

mod cmd;
mod controllers;
mod embedded;
mod kubeconfig;
mod paths;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Turns racks of GPU servers into an AI cloud.
///
/// Begin with:
///
///   seatrial serve --in-memory     a Kubernetes API on this machine, gone when it stops
///
///   seatrial serve                 the same, kept in ~/.local/share/seatrial
///
///   seatrial serve --help          every option, with examples
#[derive(Parser)]
#[command(name = "seatrial", version = cmd::version::LINE, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a Kubernetes API on this machine
    Serve(cmd::serve::Args),
    /// Print the administrator's kubeconfig of a server on this machine, or merge it into yours
    Kubeconfig(cmd::kubeconfig::Args),
    /// Write everything that a server holds into one file
    Backup(cmd::backup::Args),
    /// Make a data directory from a backup
    Restore(cmd::restore::Args),
    /// Print the version
    Version(cmd::version::Args),
    /// Print shell completions or man pages
    Generate(cmd::generate::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Serve(args) => cmd::serve::run(&args),
        Command::Kubeconfig(args) => cmd::kubeconfig::run(&args),
        Command::Backup(args) => cmd::backup::run(&args),
        Command::Restore(args) => cmd::restore::run(&args),
        Command::Version(args) => cmd::version::run(&args),
        Command::Generate(args) => cmd::generate::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("seatrial: {}", kit::error::chain(&*error));
            ExitCode::FAILURE
        }
    }
}
