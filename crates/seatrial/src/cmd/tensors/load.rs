//! `seatrial tensors load`: into memory and out again, with a clock beside it.

use std::fs::File;
use std::io::Write;
use std::num::NonZero;
use std::time::Instant;

use rustix::fs::{Advice, fadvise};
use serde_json::json;
use stream::{Load, Tensor, Traffic};

use super::{Common, Output, bar, count, print, secret, size};
use crate::cmd::{Outcome, Unusable};

/// Arguments of `load`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial tensors load model.tensors\n  seatrial tensors load model.tensors --bench --verify\n  seatrial tensors load model.tensors --bench 9 --cold\n  seatrial tensors load model.tensors --only layers.0.\n  seatrial tensors load https://models.example/model.tensors --bench\n\nFigures are of this machine at this moment: its cores, its memory, its page cache."
)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Only tensors whose name begins so
    #[arg(long, value_name = "PREFIX")]
    only: Option<String>,
    /// Compare every hash
    #[arg(long)]
    verify: bool,
    /// Threads, or connections at most [default: as many as are worth having]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// Load several times, 5 if not said, and print the best and the median
    #[arg(long, value_name = "RUNS", num_args = 0..=1, default_missing_value = "5")]
    bench: Option<NonZero<usize>>,
    /// Ask the system to forget the file before every load
    #[arg(long)]
    cold: bool,
    #[command(flatten)]
    secret: secret::From,
}

/// What a server has in its cache is not ours to forget.
#[derive(Debug, thiserror::Error)]
#[error("--cold is of files: what a server has cached cannot be forgotten from here")]
struct ColdUrl;

/// Loads once, or as often as asked.
pub(super) fn run(args: &Args) -> Outcome {
    let model = args.common.open()?;
    let cold = match (args.cold, model.place().as_path()) {
        (true, None) => return Err(Unusable(ColdUrl.into()).into()),
        (cold, path) => path.filter(|_| cold),
    };
    let secret = args.secret.for_model(&model)?;
    let wanted = |tensor: &Tensor| {
        args.only.as_ref().is_none_or(|prefix| tensor.name().to_string().starts_with(prefix))
    };
    let runs = args.bench.map_or(1, NonZero::get);
    let mut seconds = Vec::with_capacity(runs);
    let (mut tensors, mut bytes, mut read) = (0, 0, 0);
    let before = model.traffic();
    for _ in 0..runs {
        if let Some(path) = cold {
            let file = File::open(path)?;
            file.sync_all()?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
        let bar = bar("loading", model.data_len(), args.common.output);
        let progress = |bytes| bar.inc(bytes);
        let how = Load {
            filter: Some(&wanted),
            secret: secret.as_ref(),
            verify: args.verify,
            threads: args.threads,
            progress: Some(&progress),
            ..Load::default()
        };
        let start = Instant::now();
        let loaded = model.load(&how)?;
        seconds.push(start.elapsed().as_secs_f64());
        bar.finish_and_clear();
        tensors = loaded.iter().count();
        bytes = loaded.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        read = loaded.bytes_read();
    }
    seconds.sort_by(f64::total_cmp);
    let (best, median) = (seconds[0], seconds[seconds.len() / 2]);
    let speed = |seconds: f64| bytes as f64 / seconds.max(1e-9) / 1e9;
    let traffic = before.zip(model.traffic());
    if args.common.output == Output::Json {
        return print(&json!({
            "tensors": tensors, "bytes": bytes, "bytesRead": read, "runs": runs,
            "http": traffic.map(|(before, after)| json!({
                "requests": after.requests - before.requests,
                "retries": after.retries - before.retries,
                "hedges": after.hedges - before.hedges,
                "connections": after.connections,
            })),
            "seconds": {"best": best, "median": median},
            "gigabytesPerSecond": {"best": speed(best), "median": speed(median)},
        }));
    }
    let what = format!("{}, {}", count(tensors, "tensor"), size(bytes));
    let mut out = std::io::stdout();
    if args.bench.is_none() {
        return Ok(writeln!(out, "{what} in {best:.3} s: {:.2} GB/s", speed(best))?);
    }
    writeln!(out, "{what}, {} of {runs}", if args.cold { "cold, best" } else { "best" })?;
    writeln!(out, "  best    {best:.3} s  {:.2} GB/s", speed(best))?;
    writeln!(out, "  median  {median:.3} s  {:.2} GB/s", speed(median))?;
    match traffic {
        Some((before, after)) => Ok(writeln!(out, "  {}", told(&before, &after))?),
        None => Ok(()),
    }
}

/// What all runs took of the network. Connections are kept from run to run.
fn told(before: &Traffic, after: &Traffic) -> String {
    let requests = after.requests - before.requests;
    let (retries, hedges) = (after.retries - before.retries, after.hedges - before.hedges);
    let retries = if retries == 1 { "1 retry".to_owned() } else { format!("{retries} retries") };
    let number = |number, what| count(usize::try_from(number).unwrap_or(usize::MAX), what);
    let (requests, hedges) = (number(requests, "request"), number(hedges, "hedge"));
    format!("{requests}, {retries}, {hedges} on {}", number(after.connections, "connection"))
}
