//! The differential corpus: scripted HTTP cases sent to the real kube-apiserver and to our embedded
//! server in the same run, their normalised answers compared field by field.
//!
//! Guarantees that upstream's answer in this very run is the only expectation, that one
//! difference anywhere in a case makes the case differ, and that accepted deviations are counted
//! apart and never as matches. Deliberately not here: performance, HTTP/2, crashes and restarts.

mod case;
mod compare;
mod documents;
pub(crate) mod normalise;
mod play;
mod protobuf;
mod report;
mod template;

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use self::case::{Case, File, Step, Vars};
use self::play::Player;
use self::report::Played;
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
    let played = Run { upstream, ours, tag: tag() }.play(&files, args.jobs)?;
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

/// The servers of one run.
struct Run {
    upstream: Server,
    ours: Option<Server>,
    /// Keeps the names of this run apart from those of others on the same server.
    tag: String,
}

impl Run {
    /// All cases, in the order of the files.
    fn play(&self, files: &[File], jobs: usize) -> Result<Vec<Played>> {
        let values: Vec<Vars> = files.iter().map(|file| self.values_of(file)).collect();
        let prepared: Vec<(&File, &Vars)> = files.iter().zip(&values).collect();
        each(&prepared, jobs, |(file, values)| {
            let once = |server| Player::new(server, vec![*values]).prepare(&file.once);
            once(&self.upstream).with_context(|| format!("{}: `once` failed", file.name))?;
            // If ours fails, its cases will differ, and say how.
            self.ours.as_ref().map(once).transpose().map(drop).or(Ok(()))
        })?;
        let cases: Vec<(&File, &Vars, &Case)> = prepared
            .iter()
            .flat_map(|&(file, values)| file.cases.iter().map(move |case| (file, values, case)))
            .collect();
        each(&cases, jobs, |(file, values, case)| {
            let name = format!("{}/{}", file.name, case.name);
            self.case(file, values, case).with_context(|| name.clone())
        })
    }

    fn case(&self, file: &File, values: &Vars, case: &Case) -> Result<Played> {
        let id = format!("{}-{}-{}", file.name, case.name, self.tag);
        ensure!(id.len() <= 63, "the name is {} characters too long", id.len() - 63);
        let mut vars = case.vars.clone();
        vars.insert("ns".into(), id.clone().into());
        vars.insert("own".into(), format!("{id}.example.com").into());
        vars.insert("id".into(), id.into());
        let namespace = namespace_step()?;
        let play = |server| {
            let mut player = Player::new(server, vec![&vars, values]);
            let ready = player
                .prepare(std::slice::from_ref(&namespace))
                .and_then(|()| player.prepare(&file.before));
            (ready, player.play(&case.steps))
        };
        let (ready, exchanges) = play(&self.upstream);
        ready.context("preparation failed on the reference")?;
        let upstream = exchanges?;
        if let Some(lost) = upstream.iter().find(|each| each.answer.get("error").is_some()) {
            bail!("the reference gives no answer to {}: {}", lost.request, lost.answer);
        }
        let ours = self.ours.as_ref().map(|server| play(server).1).transpose()?;
        Ok(Played { name: format!("{}/{}", file.name, case.name), upstream, ours })
    }

    fn values_of(&self, file: &File) -> Vars {
        let mut values = file.vars.clone();
        values.insert("group".into(), format!("{}-{}.example.com", file.name, self.tag).into());
        values.insert("run".into(), self.tag.clone().into());
        values
    }
}

/// Every case has a namespace of its own.
fn namespace_step() -> Result<Step> {
    let namespace =
        json!({"do": "POST /api/v1/namespaces", "body": {"metadata": {"name": "<ns>"}}});
    Ok(serde_json::from_value(namespace)?)
}

/// Four letters that no other run has, most likely.
fn tag() -> String {
    let mut number = RandomState::new().hash_one(());
    let mut letter = || {
        let at = usize::try_from(number % 20).unwrap_or_default();
        number /= 20;
        char::from(b"bcdfghjklmnpqrstvwxz"[at])
    };
    std::iter::repeat_with(&mut letter).take(4).collect()
}

/// Does the work on a few threads and returns the results in order, or the errors of all.
fn each<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, 64) {
            scope.spawn(|| {
                while let Some((at, item)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    items.get(at).map(|item| (at, item))
                } {
                    let result = work(item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    let (good, bad): (Vec<_>, Vec<_>) =
        done.into_iter().map(|(_, result)| result).partition(Result::is_ok);
    let errors: Vec<String> =
        bad.into_iter().filter_map(|each| each.err().map(|error| format!("{error:#}"))).collect();
    if !errors.is_empty() {
        bail!("{} cases are broken:\n{}", errors.len(), errors.join("\n"));
    }
    Ok(good.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order_and_errors_are_all_told() {
        let items: Vec<u32> = (0..50).collect();
        assert_eq!(each(&items, 7, |item| Ok(item * 2)).unwrap()[49], 98);
        let failed = each(&items, 7, |item| {
            ensure!(item % 20 != 0, "item {item}");
            Ok(())
        });
        let message = failed.unwrap_err().to_string();
        for item in ["item 0", "item 20", "item 40"] {
            assert!(message.contains(item), "{message}");
        }
    }

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
