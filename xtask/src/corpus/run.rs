//! One run of cases: each with a namespace of its own, on one server or on two, some at a time.
//!
//! Guarantees that all servers of a run see the same names, so that what one answered can be held
//! against what another does later.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use super::case::{Case, File, Step, Vars};
use super::play::{Exchange, Player};
use super::report::Played;
use crate::server::Server;

/// What all that is played in one run has in common.
pub(super) struct Run {
    /// Keeps the names of this run apart from those of others on the same server.
    tag: String,
    /// Cases played at the same time.
    jobs: usize,
}

/// A case with all that it is played with.
struct Scene<'a> {
    file: &'a File,
    values: &'a Vars,
    case: &'a Case,
}

impl Scene<'_> {
    fn name(&self) -> String {
        format!("{}/{}", self.file.name, self.case.name)
    }
}

impl Run {
    pub(super) fn new(jobs: usize) -> Self {
        Self { tag: tag(), jobs }
    }

    /// Plays all cases, in the order of the files, on the reference and on ours, if that is there.
    pub(super) fn compare(
        &self,
        files: &[File],
        upstream: &Server,
        ours: Option<&Server>,
    ) -> Result<Vec<Played>> {
        let values = self.values(files);
        let prepared: Vec<(&File, &Vars)> = files.iter().zip(&values).collect();
        each(&prepared, self.jobs, |(file, values)| {
            once(upstream, file, values)
                .with_context(|| format!("{}: `once` failed", file.name))?;
            // If ours fails, its cases will differ, and say how.
            ours.map(|ours| once(ours, file, values)).transpose().map(drop).or(Ok(()))
        })?;
        each(&scenes(&prepared), self.jobs, |scene| {
            let compared = || {
                let (ready, exchanges) = self.answers(upstream, scene)?;
                ready.context("preparation failed on the reference")?;
                let upstream = exchanges?;
                if let Some(lost) = upstream.iter().find(|one| one.answer.get("error").is_some()) {
                    bail!("the reference gives no answer to {}: {}", lost.request, lost.answer);
                }
                let ours = ours.map(|ours| self.answers(ours, scene)?.1).transpose()?;
                Ok(Played { name: scene.name(), upstream, ours })
            };
            compared().with_context(|| scene.name())
        })
    }

    /// Plays some cases of this run once more, on another server of ours, and holds its answers
    /// against those that the reference gave.
    pub(super) fn again(
        &self,
        files: &[File],
        played: &[&Played],
        ours: &Server,
    ) -> Result<Vec<Played>> {
        let values = self.values(files);
        let with_values = files.iter().zip(&values);
        let prepared: Vec<(&File, &Vars)> = with_values
            .filter(|(file, _)| played.iter().any(|one| one.file() == file.name))
            .collect();
        // As above: what fails here differs there.
        each(&prepared, self.jobs, |(file, values)| once(ours, file, values).or(Ok(())))?;
        let known = |scene: &Scene<'_>| {
            let name = scene.name();
            played.iter().find(|one| one.name == name).copied()
        };
        let scenes: Vec<_> = scenes(&prepared)
            .into_iter()
            .filter_map(|scene| known(&scene).map(|before| (scene, before)))
            .collect();
        each(&scenes, self.jobs, |(scene, before)| {
            let ours = Some(self.answers(ours, scene)?.1?);
            let (name, upstream) = (before.name.clone(), before.upstream.clone());
            Ok(Played { name, upstream, ours })
        })
    }

    /// Whether a server was ready for a case, and what it answered.
    fn answers(
        &self,
        server: &Server,
        Scene { file, values, case }: &Scene<'_>,
    ) -> Result<(Result<()>, Result<Vec<Exchange>>)> {
        let id = format!("{}-{}-{}", file.name, case.name, self.tag);
        ensure!(id.len() <= 63, "the name is {} characters too long", id.len() - 63);
        let mut vars = case.vars.clone();
        vars.insert("ns".into(), id.clone().into());
        vars.insert("own".into(), format!("{id}.example.com").into());
        vars.insert("id".into(), id.into());
        let mut player = Player::new(server, vec![&vars, values]);
        let ready =
            player.prepare(&[namespace_step()?]).and_then(|()| player.prepare(&file.before));
        let exchanges = player.play(&case.steps);
        Ok((ready, exchanges))
    }

    fn values(&self, files: &[File]) -> Vec<Vars> {
        let of = |file: &File| {
            let mut values = file.vars.clone();
            values.insert("group".into(), format!("{}-{}.example.com", file.name, self.tag).into());
            values.insert("run".into(), self.tag.clone().into());
            values
        };
        files.iter().map(of).collect()
    }
}

fn scenes<'a>(prepared: &[(&'a File, &'a Vars)]) -> Vec<Scene<'a>> {
    let of = |&(file, values): &(&'a File, &'a Vars)| {
        file.cases.iter().map(move |case| Scene { file, values, case })
    };
    prepared.iter().flat_map(of).collect()
}

/// What a file wants done before its cases.
fn once(server: &Server, file: &File, values: &Vars) -> Result<()> {
    Player::new(server, vec![values]).prepare(&file.once)
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
}
