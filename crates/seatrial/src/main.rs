//! The one binary. Subcommands, wiring, output; every decision lives in another crate.

mod client;
mod cmd;
mod confirm;
mod controllers;
mod embedded;
mod identity;
mod install;
mod kubeconfig;
mod paths;
mod site;
mod table;
mod up;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use mimalloc::MiMalloc;

/// A third of the work of an API server is to allocate and free small parts of JSON.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Turns racks of GPU servers into an AI cloud.
///
/// Begin with:
///
///   seatrial up                              a simulated site, from bare metal to Ready nodes
///
///   seatrial simulate fault gpu-ecc r2-s07   break something in it
///
///   seatrial node why r2-s07                 ask what is going on
#[derive(Parser)]
#[command(name = "seatrial", version = cmd::version::LINE, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a whole simulated site on this machine
    Up(cmd::up::Args),
    /// Stop what `up` started
    Down(cmd::down::Args),
    /// Say whether it runs, where, and how the fleet stands
    Status(cmd::status::Args),
    /// Run simulated hardware on any cluster; break and mend it
    Simulate(cmd::simulate::Args),
    /// Let a recorded year of faults happen again, and see what the fleet would have done
    Replay(cmd::replay::Args),
    /// Put kinds, rights and controllers into a cluster, or print them
    Install(cmd::install::Args),
    /// Take controllers and rights away; every object stays unless you ask otherwise
    Uninstall(cmd::uninstall::Args),
    /// Run the fleet's controllers on any cluster
    Controllers(cmd::controllers::Args),
    /// Serve a Kubernetes API on this machine
    Serve(cmd::serve::Args),
    /// Say what nodes do and why; cordon, drain, reboot and test them
    Node(cmd::node::Args),
    /// List and describe machines; certify their cables, send them to repair
    Machine(cmd::machine::Args),
    /// List pools, say why they have as many nodes as they have, scale them
    Pool(cmd::pool::Args),
    /// Say how far training jobs have come, and where lost time went
    Job(cmd::job::Args),
    /// List racks, or draw them
    Rack(cmd::rack::Args),
    /// Print the administrator's kubeconfig of a server on this machine, or merge it into yours
    Kubeconfig(cmd::kubeconfig::Args),
    /// Write everything that a server holds into one file
    Backup(cmd::backup::Args),
    /// Make a data directory from a backup
    Restore(cmd::restore::Args),
    /// Look at, check, convert, encrypt and load the weights of models
    Tensors(cmd::tensors::Args),
    /// Print the version
    Version(cmd::version::Args),
    /// Print shell completions or man pages
    Generate(cmd::generate::Args),
}

/// Reads the arguments. Under the name `kubectl-seatrial` it is a plugin of kubectl, and says so.
fn parse() -> Cli {
    let called = std::env::args_os().next().map(PathBuf::from);
    let plugin = called.as_deref().and_then(Path::file_stem).is_some_and(|name| name == PLUGIN);
    let name = if plugin { "kubectl seatrial" } else { "seatrial" };
    let matches = Cli::command().bin_name(name).get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// The name under which kubectl finds its plugin `seatrial`.
const PLUGIN: &str = "kubectl-seatrial";

fn main() -> ExitCode {
    let done = match parse().command {
        Command::Up(args) => cmd::up::run(&args),
        Command::Down(args) => cmd::down::run(&args),
        Command::Status(args) => cmd::status::run(&args),
        Command::Simulate(args) => cmd::simulate::run(&args),
        Command::Replay(args) => cmd::replay::run(&args),
        Command::Install(args) => cmd::install::run(&args),
        Command::Uninstall(args) => cmd::uninstall::run(&args),
        Command::Controllers(args) => cmd::controllers::run(&args),
        Command::Serve(args) => cmd::serve::run(&args),
        Command::Node(args) => cmd::node::run(&args),
        Command::Machine(args) => cmd::machine::run(&args),
        Command::Pool(args) => cmd::pool::run(&args),
        Command::Job(args) => cmd::job::run(&args),
        Command::Rack(args) => cmd::rack::run(&args),
        Command::Kubeconfig(args) => cmd::kubeconfig::run(&args),
        Command::Backup(args) => cmd::backup::run(&args),
        Command::Restore(args) => cmd::restore::run(&args),
        Command::Tensors(args) => cmd::tensors::run(&args),
        Command::Version(args) => cmd::version::run(&args),
        Command::Generate(args) => cmd::generate::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("seatrial: {}", kit::error::chain(&*error));
            code_of(&*error)
        }
    }
}

/// 2 for what cannot be used, 3 where all is well but a person is needed, 1 for everything else.
fn code_of(error: &(dyn std::error::Error + Send + Sync + 'static)) -> ExitCode {
    if error.is::<cmd::Unusable>() {
        ExitCode::from(2)
    } else if error.is::<cmd::Attention>() {
        ExitCode::from(3)
    } else {
        ExitCode::FAILURE
    }
}
