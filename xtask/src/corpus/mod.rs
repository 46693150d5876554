//! The differential corpus: scripted HTTP cases sent to the real kube-apiserver and to our embedded
//! server in the same run, their normalised answers compared field by field.
//!
//! Guarantees that upstream's answer in this very run is the only expectation, that one
//! difference anywhere in a case makes the case differ, and that accepted deviations are counted
//! apart and never as matches. Deliberately not here: performance, HTTP/2, crashes and restarts.

mod bugs;
mod case;
mod compare;
mod documents;
pub(crate) mod normalise;
mod play;
mod protobuf;
mod report;
mod run;
mod template;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use self::case::File;
use self::run::Run;
use crate::server::{Ours, Place, Server};
use crate::upstream::{Options, Upstream, workspace};

/// Arguments of `cargo xtask corpus`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only cases whose `file/case` contains this
    #[arg(long, default_value = "")]
    filter: String,
    /// Print every exchange of the cases chosen, with all differences
    #[arg(long, value_name = "NAME", conflicts_with = "filter")]
    show: Option<String>,
    /// Compare the OpenAPI documents instead, definition by definition
    #[arg(long, conflicts_with_all = ["filter", "show", "only_upstream"])]
    documents: bool,
    /// Plant each of the deliberate bugs in turn instead, and fail when the corpus tells no difference
    #[arg(long, conflicts_with_all = ["show", "documents", "only_upstream", "ours", "floor", "program"])]
    bugs: bool,
    /// Ask the reference alone and print its answers
    #[arg(long)]
    only_upstream: bool,
    /// Kubeconfig of a running reference server, beside its `tokens.csv`, instead of a new one
    #[arg(long, value_name = "KUBECONFIG")]
    upstream: Option<PathBuf>,
    /// Kubeconfig of a running server of ours that knows the same users, instead of a new one
    #[arg(long, value_name = "KUBECONFIG")]
    ours: Option<PathBuf>,
    /// The program that is started as our server
    #[arg(long, default_value_os_t = workspace().join("target/release/seatrial"))]
    program: PathBuf,
    /// Fail when a smaller share matches; without a number, the one in corpus/FLOOR
    #[arg(long, value_name = "PERCENT", num_args = 0..=1)]
    floor: Option<Option<f64>>,
    /// How many of the cases that differ are shown
    #[arg(long, value_name = "N", default_value_t = 12)]
    most: usize,
    /// Cases played at the same time
    #[arg(long, default_value_t = 12)]
    jobs: usize,
}

/// `cargo xtask corpus`
pub(crate) fn run(args: &Args) -> Result<()> {
    let dir = workspace().join("corpus");
    let deviations = case::deviations(&dir)?;
    let mut files = case::load(&dir)?;
    let wanted = args.show.as_deref().unwrap_or(&args.filter);
    for File { name, cases, .. } in &mut files {
        cases.retain(|case| format!("{name}/{}", case.name).contains(wanted));
    }
    files.retain(|file| !file.cases.is_empty());
    ensure!(!files.is_empty(), "no case's name contains {wanted:?}");

    let scratch = tempfile::tempdir().context("cannot create a temporary directory")?;
    let (_reference, kubeconfig) = match &args.upstream {
        Some(kubeconfig) => (None, kubeconfig.clone()),
        None => {
            let reference = Upstream::start(scratch.path(), &Options::default())?;
            let kubeconfig = reference.kubeconfig.clone();
            (Some(reference), kubeconfig)
        }
    };
    let upstream = Server::of(&kubeconfig)?;
    if args.bugs {
        let tokens = kubeconfig.with_file_name("tokens.csv");
        return bugs::hunt(&mut files, &upstream, &tokens, scratch.path(), args.jobs);
    }
    let (_child, ours) = match &args.ours {
        _ if args.only_upstream => (None, None),
        Some(kubeconfig) => (None, Some(Server::of(kubeconfig)?)),
        None => {
            let tokens = kubeconfig.with_file_name("tokens.csv");
            let (child, server) =
                Ours::start(&args.program, scratch.path(), &tokens, &Place::Memory)?;
            (Some(child), Some(server))
        }
    };

    if let (true, Some(ours)) = (args.documents, &ours) {
        return documents::compare(&upstream, ours);
    }
    let played = Run::new(args.jobs).compare(&files, &upstream, ours.as_ref())?;
    if args.show.is_some() {
        return Ok(played.iter().try_for_each(report::show)?);
    }
    if args.only_upstream {
        return Ok(report::recording(&played)?);
    }
    let share = report::summary(&played, &deviations, args.most)?;
    let floor = match args.floor {
        None => return Ok(()),
        Some(Some(floor)) => floor,
        Some(None) => {
            let text = fs::read_to_string(dir.join("FLOOR")).context("cannot read corpus/FLOOR")?;
            text.trim().parse().context("corpus/FLOOR is no number")?
        }
    };
    ensure!(share >= floor, "{share:.1} % match, below the floor of {floor} %");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_corpus_is_well_formed() {
        let dir = workspace().join("corpus");
        let files = case::load(&dir).unwrap();
        for file in &files {
            for case in &file.cases {
                let id = format!("{}-{}-tag0", file.name, case.name);
                assert!(id.len() <= 63, "{id} is too long for a namespace");
            }
        }
        let names: Vec<String> = files
            .iter()
            .flat_map(|file| file.cases.iter().map(|case| format!("{}/{}", file.name, case.name)))
            .collect();
        for deviation in case::deviations(&dir).unwrap() {
            let stands = names.iter().any(|name| deviation.covers(name));
            assert!(stands, "{} names no case", deviation.case);
            assert!(!deviation.reason.is_empty(), "{} has no reason", deviation.case);
        }
    }
}
