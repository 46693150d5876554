//! Seatrial's one task runner: everything that is done to the repository is a verb here.
//!
//! `cargo xtask test` is the whole of the test suite and what CI calls; the other verbs are its
//! parts, or make what it checks. A verb is a file; none keeps state outside `target/` and the parts
//! cache.

mod alerts;
mod bench;
mod clients;
mod controllers;
mod corpus;
mod explore;
mod facts;
mod fuzz;
mod lint;
mod picture;
mod pip;
mod replay;
mod server;
mod test;
mod tidy;
mod tool;
mod upstream;
mod wheel;

use clap::{Parser, Subcommand};

/// Tasks of the Seatrial repository
#[derive(Parser)]
#[command(name = "cargo xtask", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

// At most 20, so that the list is read.
#[derive(Subcommand)]
enum Verb {
    /// Install what the tests use and run all of them: what CI runs
    Test(test::Args),
    /// rustfmt, clippy and cargo-deny
    Lint,
    /// Check what no compiler checks: crate arrows, file sizes, docs
    Tidy,
    /// Start the real etcd and kube-apiserver on loopback
    Upstream(upstream::Args),
    /// Send the same requests to upstream and to the embedded server, and compare the answers
    Corpus(corpus::Args),
    /// Measure ours beside the peer's, in one run
    Bench(bench::Args),
    /// Let real programs work against the embedded server: control plane, kwok, client-go, Helm
    Clients(clients::Args),
    /// Generate the alert rules of every controller, and check and test them with promtool
    Alerts,
    /// Play schedules of crashes, partitions and faults against the decisions, and judge them
    Explore(explore::Args),
    /// Give every parser that faces a network bytes that nobody meant, by libFuzzer
    Fuzz(fuzz::Args),
    /// Replay the recorded year of faults, a larger fleet and the ladder, and print the figures
    Replay(replay::Args),
    /// Build the Python package as a wheel, and test it where it is asked for
    Wheel(wheel::Args),
    /// Draw a real run of the binary as README shows it
    Picture,
    /// Regenerate the table of facts about built-in kinds from upstream's sources
    Facts(facts::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().verb {
        Verb::Test(args) => test::run(&args),
        Verb::Lint => lint::run(),
        Verb::Tidy => tidy::run(),
        Verb::Upstream(args) => upstream::run(&args),
        Verb::Corpus(args) => corpus::run(&args),
        Verb::Bench(args) => bench::run(&args),
        Verb::Clients(args) => clients::run(&args),
        Verb::Alerts => alerts::check(),
        Verb::Explore(args) => explore::run(&args),
        Verb::Fuzz(args) => fuzz::run(&args),
        Verb::Replay(args) => replay::run(&args),
        Verb::Wheel(args) => wheel::run(&args),
        Verb::Picture => picture::run(),
        Verb::Facts(args) => facts::run(&args),
    }
}
