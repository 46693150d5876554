//! Many clients ask a cache that has nothing for one object at one moment: what its origin is asked for,
//! and when the last of them has it.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};

use super::part::{self, Figures};
use super::servers::{Nginx, Ours};
use super::table::Spread;
use super::{Scene, ours};

/// What they ask for.
const OBJECT: &str = "object";

/// The object has a size of its own, in GB: as often as there are clients it goes over loopback.
pub(super) fn measure(scene: &Scene, clients: u32, size: f64) -> Result<String> {
    let folder = scene.folder("herd-")?;
    let bytes = (size * 1e9) as u64;
    let object = File::create(folder.path().join(OBJECT)).context("cannot make the object")?;
    object.set_len(bytes).context("cannot make the object")?;
    let mut rounds: Vec<(Figures, f64)> = Vec::new();
    for round in 1..=scene.rounds {
        rounds.push(once(scene, folder.path(), clients).with_context(|| format!("round {round}"))?);
    }
    told(clients, &rounds)
}

/// A new cache and a new origin, and what the origin sent over the object's size.
fn once(scene: &Scene, folder: &Path, clients: u32) -> Result<(Figures, f64)> {
    let nginx = Nginx::start(folder)?;
    let kept = scene.folder("cache-")?;
    let cache = Ours::cache(kept.path(), &nginx.plain(""), &folder.join(OBJECT))?;
    let url = cache.url(OBJECT);
    let figures =
        part::printed(&mut ours(["herd".as_ref(), url.as_ref(), clients.to_string().as_ref()]))?;
    drop(cache);
    let object = figures.object.context("the herd says nothing of the object")?;
    let reads = nginx.sent(OBJECT)? / object;
    Ok((figures, reads))
}

fn told(clients: u32, rounds: &[(Figures, f64)]) -> Result<String> {
    let figures: Vec<Figures> = rounds.iter().map(|(figures, _)| figures.clone()).collect();
    let seconds = Spread::of(&figures, |one| one.seconds).context("no round")?;
    let object = figures.first().and_then(|one| one.object).unwrap_or_default();
    let most = rounds.iter().map(|(_, reads)| *reads).fold(0.0, f64::max);
    // A byte more is how a cache finds out what the object is.
    let goal =
        if most < 1.001 { "1: met".to_owned() } else { format!("1: missed by {:.3}", most - 1.0) };
    Ok(format!(
        "{clients} clients ask an empty cache for one object of {:.2} GB at one moment\n\n\
         | what | figure | goal |\n|---|---|---|\n\
         | reads of the object that its origin saw, most in {} rounds | {most:.4} | {goal} |\n\
         | s until the last has it, best / median | {:.2} / {:.2} | |\n\
         | GB/s to all together, best | {:.2} | |\n\n",
        object / 1e9,
        rounds.len(),
        seconds.best,
        seconds.median,
        f64::from(clients) * object / 1e9 / seconds.best,
    ))
}
