//! The promise: weights of 20 to 40 GB are in memory such that a pod starts in 15 s and not in 2 minutes.
//!
//! A pod is a process of Python with torch. Measured is from its start until every page of every weight
//! has been used once. What a pod's image and its scheduling take is not in it, nor a GPU.

use std::fmt::Write as _;

use anyhow::Result;

use super::part::{self, Part, Taken};
use super::servers::{Nginx, Ours};
use super::table::Spread;
use super::{Scene, load};

/// Weights whose arrival is reckoned, in GB.
const MODELS: [f64; 3] = [20.0, 30.0, 40.0];

/// Links that carry them, in Gb/s.
const LINKS: [f64; 2] = [25.0, 100.0];

/// Measures pods, and reckons what larger models would take.
pub(super) fn measure(scene: &Scene) -> Result<String> {
    let nginx = Nginx::start(&scene.dir)?;
    let kept = scene.folder("cache-")?;
    let cache = Ours::cache(kept.path(), &nginx.plain(""), &scene.tensors())?;
    part::done(load(cache.url("model.tensors"), &[]))?;
    let (tensors, flat) = (scene.tensors(), scene.safetensors());
    let pod = |package, place: &str| {
        let mut command = scene.peers.fetch(package, place, &scene.dir)?;
        command.arg("use");
        Ok(nginx.as_s3(command))
    };
    let mut part = Part::default();
    part.ours("streamed from S3", pod("seatrial_tensors", &nginx.object("model.tensors"))?)
        .reads(&tensors);
    part.ours(
        "streamed from our cache, filled",
        pod("seatrial_tensors", &cache.url("model.tensors"))?,
    )
    .reads(kept.path());
    let url = nginx.plain("model.safetensors");
    part.peer("safetensors, fetched over HTTP to a file", pod("safetensors", &url)).reads(&flat);
    let image = scene.peers.load("safetensors", &flat, &["cold", "use"]);
    part.peer("safetensors, a cold file of its image", image);
    Ok(told(&part.measure(scene.rounds)))
}

/// What was measured, and beneath it what follows for models and links that are not here.
fn told(rows: &[Taken]) -> String {
    let mut text = String::from(
        "The promise: from a pod's process's start to the first use of all its weights\n\n\
         | the pod's weights | GB | s to first use, best / median | of it the weights | CPU s/GB |\n\
         |---|---|---|---|---|\n",
    );
    for row in rows {
        let _ = match pod(row) {
            Some(pod) => writeln!(
                text,
                "| {} | {:.2} | {:.2} / {:.2} | {:.2} / {:.2} | {:.2} |",
                row.what,
                pod.gb,
                pod.ready.best,
                pod.ready.median,
                pod.load.best,
                pod.load.median,
                pod.cpu
            ),
            None => {
                let why = row.figures.as_ref().err().map(ToString::to_string);
                writeln!(text, "| {} | not measured: {} | | | |", row.what, why.unwrap_or_default())
            }
        };
    }
    text.push_str(
        "\nArithmetic, not measured: s to first use, of the medians above. The process \
         starts as the quickest of them; weights come as fast \
         as above, or as the link carries them if that is slower. The promise is 15 s.\n\n| the pod's weights |",
    );
    for (gb, link) in wanted() {
        let _ = write!(text, " {gb} GB, {link} Gb/s |");
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(wanted().count()));
    text.push('\n');
    // All import the same torch: what differs there is chance.
    let start = rows.iter().filter_map(pod).map(|pod| pod.start()).fold(f64::INFINITY, f64::min);
    for (row, pod) in rows.iter().filter_map(|row| Some((row, pod(row)?))) {
        let _ = write!(text, "| {} |", row.what);
        for (gb, link) in wanted() {
            let _ = write!(text, " {:.1} |", pod.reckoned(start, gb, link));
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

fn wanted() -> impl Iterator<Item = (f64, f64)> {
    LINKS.iter().flat_map(|link| MODELS.iter().map(move |gb| (*gb, *link)))
}

/// A pod's start.
struct Pod {
    gb: f64,
    ready: Spread,
    load: Spread,
    cpu: f64,
}

fn pod(row: &Taken) -> Option<Pod> {
    let figures = row.figures.as_ref().ok()?;
    let gb = figures.first()?.bytes / 1e9;
    Some(Pod {
        gb,
        ready: Spread::of(figures, |one| one.ready.unwrap_or(f64::NAN))?,
        load: Spread::of(figures, |one| one.seconds)?,
        cpu: Spread::of(figures, |one| one.cpu / gb)?.median,
    })
}

impl Pod {
    /// What the process takes beside its weights, in s.
    fn start(&self) -> f64 {
        self.ready.median - self.load.median
    }

    /// Seconds to the first use of a model of so many GB over a link of so many Gb/s.
    fn reckoned(&self, start: f64, gb: f64, link: f64) -> f64 {
        start + (gb / self.gb * self.load.median).max(gb * 8.0 / link)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_model_takes_what_the_slower_of_link_and_loader_takes() {
        let even = |s| Spread { best: s, median: s };
        let pod = Pod { gb: 4.0, ready: even(5.0), load: even(2.0), cpu: 0.3 };
        // 2 GB/s here: 20 GB in 10 s, and over 8 Gb/s in 20.
        assert_eq!(pod.reckoned(pod.start(), 20.0, 100.0), 13.0);
        assert_eq!(pod.reckoned(pod.start(), 20.0, 8.0), 23.0);
    }
}
