//! Model weights into memory: ours beside the limits of the machine and beside every other loader.
//!
//! Every measurement is a process of its own, and those of a part take turns: so that what disturbs one
//! round disturbs all of its rows, and nothing is warm but the page cache. Rows that are compared hold the
//! same tensors. A loader that cannot run here has a row that says why.
//!
//! S3 is nginx too, whose answers cost nothing: it takes signatures and does not check them. That they are
//! right is what the tests of `stream` show.

mod goal;
mod herd;
mod part;
mod peers;
mod promise;
mod servers;
mod table;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use self::goal::Goal;
use self::part::Part;
use self::peers::Peers;
use self::servers::{Nginx, Ours};
use self::table::Table;
use super::machine;
use crate::tool;

/// Arguments of `cargo xtask bench stream`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask bench stream\n  cargo xtask bench stream --only warm,http --size 1\n  cargo xtask bench stream --only promise,herd --clients 1000\n\nTakes up to five times the model's size of the disk and three times of memory. nginx must be installed;\nthe other loaders come from PyPI, once: torch among them, 1.5 GB."
)]
pub(crate) struct Args {
    /// Only these parts (repeatable or after commas) [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    only: Vec<What>,
    /// Size of the model in GB: 0.2 at least
    #[arg(long, default_value_t = 4.4, value_name = "GB")]
    size: f64,
    /// How often everything is done
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Where the model is kept meanwhile; a file system in memory has no cold files [default: target]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How many ask for one object at once
    #[arg(long, default_value_t = 1000, value_name = "N")]
    clients: u32,
    /// Size of that object in GB
    #[arg(long, default_value_t = 0.064, value_name = "GB")]
    object: f64,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// A file that the page cache has
    Warm,
    /// A file that it has not
    Cold,
    /// From nginx and from our own server over loopback
    Http,
    /// From S3 over loopback
    S3,
    /// With every hash compared
    Verify,
    /// Decrypted
    Encrypted,
    /// A pod from its process's start to the first use of its weights
    Promise,
    /// Many clients that ask a cache for one object at one moment
    Herd,
}

impl What {
    const ALL: [Self; 8] = [
        Self::Warm,
        Self::Cold,
        Self::Http,
        Self::S3,
        Self::Verify,
        Self::Encrypted,
        Self::Promise,
        Self::Herd,
    ];
}

/// What every part has: the model's files, and who reads them.
struct Scene {
    dir: PathBuf,
    rounds: u32,
    peers: Peers,
}

/// Makes the model, measures, and prints the tables.
#[expect(clippy::print_stdout, reason = "the tables are what was asked for")]
pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(args.size > 0.0 && args.object > 0.0, "--size and --object are GB: more than 0");
    ensure!(args.clients > 0, "--clients is at least 1");
    let parts: &[What] = if args.only.is_empty() { &What::ALL } else { &args.only };
    tool::run(tool::cargo(&[
        "build",
        "--release",
        "--quiet",
        "-p",
        "stream",
        "--example",
        "measure_stream",
    ]))?;
    let peers = Peers::have()?;
    let machine = machine::line()?;
    let place = args.dir.clone().unwrap_or_else(|| tool::root().join("target"));
    let scratch = tempfile::Builder::new()
        .prefix("bench-stream-")
        .tempdir_in(&place)
        .with_context(|| format!("cannot make a directory in {}", place.display()))?;
    // In the form that /proc and nginx know it by.
    let dir = scratch.path().canonicalize().context("cannot find the directory just made")?;
    let scene = Scene { dir, rounds: args.rounds, peers };
    if parts.iter().any(|part| *part != What::Herd) {
        part::done(ours(["make".as_ref(), scene.dir.as_os_str(), args.size.to_string().as_ref()]))?;
    }
    for what in parts {
        let table = match what {
            What::Warm => warm(&scene),
            What::Cold => cold(&scene),
            What::Http => http(&scene)?,
            What::S3 => s3(&scene)?,
            What::Verify => verify(&scene),
            What::Encrypted => encrypted(&scene)?,
            What::Promise => promise::measure(&scene)?,
            What::Herd => herd::measure(&scene, args.clients, args.object)?,
        };
        println!("\n{table}");
    }
    println!("{machine}");
    Ok(())
}

impl Scene {
    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn tensors(&self) -> PathBuf {
        self.file("model.tensors")
    }

    fn safetensors(&self) -> PathBuf {
        self.file("model.safetensors")
    }

    /// A folder beside the model, until it is dropped.
    fn folder(&self, prefix: &str) -> Result<TempDir> {
        let made = tempfile::Builder::new().prefix(prefix).tempdir_in(&self.dir);
        made.with_context(|| format!("cannot make a directory in {}", self.dir.display()))
    }

    fn table(&self, title: &'static str, part: Part) -> String {
        Table::of(title, &part.measure(self.rounds)).markdown()
    }
}

/// A measurement of `stream` itself.
fn ours<'w>(words: impl IntoIterator<Item = &'w OsStr>) -> Command {
    let mut command = tool::example("measure_stream");
    command.args(words);
    command
}

fn load(place: impl AsRef<OsStr>, how: &[&str]) -> Command {
    let mut command = ours(["load".as_ref(), place.as_ref()]);
    command.args(how);
    command
}

fn limit(what: &str, file: &Path) -> Command {
    ours(["limit".as_ref(), what.as_ref(), file.as_os_str()])
}

fn warm(scene: &Scene) -> String {
    let (tensors, flat) = (scene.tensors(), scene.safetensors());
    let peer = |name, place: &Path| scene.peers.load(name, place, &[]);
    let mut part = Part::default();
    part.limit("memory to memory, all cores", limit("memcpy", &tensors)).reads(&tensors);
    part.limit("page cache to fresh huge pages", limit("pages", &tensors)).reads(&tensors);
    part.ours("ours", load(&tensors, &[]))
        .reads(&tensors)
        .goal(Goal::OfLimit(0.9))
        .goal(Goal::Beyond(64.0));
    part.ours("ours, safetensors", load(&flat, &[])).reads(&flat);
    part.peer("ours from Python", peer("seatrial_tensors", &tensors)).reads(&tensors);
    part.peer("tensorizer", peer("tensorizer", &tensors)).reads(&tensors);
    part.peer("safetensors, mapped and touched", peer("safetensors", &flat)).reads(&flat);
    part.peer("safetensors, copied", peer("safetensors-copied", &flat)).reads(&flat);
    part.peer("fastsafetensors", peer("fastsafetensors", &flat)).reads(&flat);
    part.peer("runai-model-streamer, buffered", scene.peers.buffered(&flat)).reads(&flat);
    scene.table("Warm file", part)
}

fn cold(scene: &Scene) -> String {
    let (tensors, flat) = (scene.tensors(), scene.safetensors());
    let peer = |name, place: &Path| scene.peers.load(name, place, &["cold"]);
    let mut part = Part::default();
    part.limit("the disk by O_DIRECT", limit("disk", &tensors));
    part.ours("ours", load(&tensors, &["cold"])).goal(Goal::OfLimit(0.95)).goal(Goal::Beyond(64.0));
    part.ours("ours, safetensors", load(&flat, &["cold"]));
    part.peer("tensorizer", peer("tensorizer", &tensors));
    part.peer("safetensors, mapped and touched", peer("safetensors", &flat));
    part.peer("fastsafetensors", peer("fastsafetensors", &flat));
    part.peer("runai-model-streamer", peer("runai", &flat));
    scene.table("Cold file", part)
}

fn http(scene: &Scene) -> Result<String> {
    let nginx = Nginx::start(&scene.dir)?;
    let server = Ours::folder(&scene.dir)?;
    let kept = scene.folder("cache-")?;
    let cache = Ours::cache(kept.path(), &nginx.plain(""), &scene.tensors())?;
    part::done(load(cache.url("model.tensors"), &[]))?;
    let (tensors, flat) = (scene.tensors(), scene.safetensors());
    let peer = |name, url: &str| scene.peers.fetch(name, url, &scene.dir);
    let mut part = Part::default();
    part.limit(
        "sendfile over loopback to fresh huge pages, both ends",
        limit("loopback", &tensors),
    )
    .reads(&tensors);
    part.ours("ours from nginx", load(nginx.plain("model.tensors"), &[]))
        .reads(&tensors)
        .goal(Goal::OfLimit(0.5))
        .goal(Goal::Cpu(0.4))
        .goal(Goal::Beyond(64.0));
    part.ours("ours from our server", load(server.url("model.tensors"), &[]))
        .reads(&tensors)
        .goal(Goal::OfLimit(0.8))
        .goal(Goal::Cpu(0.4));
    part.ours("ours from our cache, filled", load(cache.url("model.tensors"), &[]))
        .reads(kept.path());
    let mut secure = load(nginx.secure("model.tensors"), &[]);
    secure.env("AWS_CA_BUNDLE", nginx.certificate());
    part.ours("ours from nginx over TLS", secure).reads(&tensors);
    let name = "model.tensors";
    part.peer("ours from Python, nginx", peer("seatrial_tensors", &nginx.plain(name)))
        .reads(&tensors);
    part.peer("tensorizer from nginx, 4 readers", peer("tensorizer", &nginx.plain(name)))
        .reads(&tensors);
    let url = nginx.plain("model.safetensors");
    part.peer("safetensors, fetched to a file and mapped", peer("safetensors", &url)).reads(&flat);
    Ok(scene.table("HTTP", part))
}

fn s3(scene: &Scene) -> Result<String> {
    let nginx = Nginx::start(&scene.dir)?;
    let (tensors, flat) = (scene.tensors(), scene.safetensors());
    let peer = |name, object: &str| Ok(nginx.as_s3(scene.peers.fetch(name, object, &scene.dir)?));
    let object = nginx.object("model.tensors");
    let mut part = Part::default();
    part.limit(
        "sendfile over loopback to fresh huge pages, both ends",
        limit("loopback", &tensors),
    )
    .reads(&tensors);
    part.ours("ours", nginx.as_s3(load(&object, &[])))
        .reads(&tensors)
        .goal(Goal::Cpu(0.4))
        .goal(Goal::Beyond(64.0));
    part.peer("ours from Python", peer("seatrial_tensors", &object)).reads(&tensors);
    part.peer("tensorizer, 4 readers", peer("tensorizer", &object)).reads(&tensors);
    part.peer("runai-model-streamer", peer("runai", &nginx.object("model.safetensors")))
        .reads(&flat);
    Ok(scene.table("S3 (nginx, which checks no signature)", part))
}

fn verify(scene: &Scene) -> String {
    let tensors = scene.tensors();
    let peer = |name| scene.peers.load(name, &tensors, &["verify"]);
    let mut part = Part::default();
    part.limit("SHA-256, one stream on each core", limit("hash", &tensors)).reads(&tensors);
    // Two streams interleaved on a core were measured to hash 1.48 times what one does (2.95 to 2.0
    // GB/s on Zen 5, 2026-11); 70 % of that is the goal.
    part.ours("ours, CRC-32 and SHA-256", load(&tensors, &["verify"]))
        .reads(&tensors)
        .goal(Goal::OfLimit(0.7 * 1.48));
    part.peer("ours from Python", peer("seatrial_tensors")).reads(&tensors);
    part.peer("tensorizer", peer("tensorizer")).reads(&tensors);
    scene.table("Every hash compared, warm file", part)
}

fn encrypted(scene: &Scene) -> Result<String> {
    part::done(ours(["seal".as_ref(), scene.dir.as_os_str()]))?;
    let sealed = scene.file("sealed.tensors");
    let peer = |name| scene.peers.load(name, &sealed, &["sealed"]);
    let mut part = Part::default();
    part.limit("libsodium on all cores", scene.peers.libsodium(&sealed)).reads(&sealed);
    part.ours("ours", load(&sealed, &["sealed"]))
        .reads(&sealed)
        .goal(Goal::OfLimit(0.8))
        .goal(Goal::Faster(3.0, "tensorizer"));
    part.peer("ours from Python", peer("seatrial_tensors")).reads(&sealed);
    part.peer("tensorizer", peer("tensorizer")).reads(&sealed);
    let text = scene.table("Encrypted, warm file", part);
    std::fs::remove_file(&sealed).context("cannot remove the encrypted file")?;
    Ok(text)
}
