//! `seatrial tensors serve`: models for others, from a directory or from a cache in front of an origin.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use stream::{Cached, Limits, Origin, Peers, Served, Server};

use super::{place, size};
use crate::cmd::{Outcome, Unusable};
use crate::embedded;

/// Arguments of `serve`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial tensors serve /srv/models\n  seatrial tensors serve /srv/models --listen 0.0.0.0:8484 --metrics-listen 127.0.0.1:9484\n  seatrial tensors serve --origin s3://models/llama --cache-dir /nvme/models --cache-bytes 500GB\n  seatrial tensors serve --origin s3://models --cache-dir /nvme/models --cache-bytes 500GB \\\n    --listen 0.0.0.0:8484 --peer models.ml.svc:8484 --advertise $POD_IP:8484\n  seatrial tensors load http://127.0.0.1:8484/model.tensors --bench\n\nGET and HEAD with ranges, over HTTP without TLS and without any right to be asked: whoever reaches the\naddress reads everything, hidden and temporary files aside. Put a new file in an old one's place by\nrenaming it (mv within one disk), never by writing into it: who is reading then ends with what it began.\n\nWith --origin nothing is served from a directory: what is asked for is read from the origin once, however\nmany ask at the same time, and kept in --cache-dir for the next. SIGTERM ends it when the answers under\nway are given, after 30 s at the latest."
)]
pub(super) struct Args {
    /// The directory that is served
    #[arg(value_name = "DIR", required_unless_present = "origin", conflicts_with = "origin")]
    dir: Option<PathBuf>,
    /// Listen here; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8484")]
    listen: SocketAddr,
    /// Tell Prometheus at /metrics of this address [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<SocketAddr>,
    /// Connections at a time; one more is answered 503
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections)]
    max_connections: usize,
    /// Cache what lies here: s3://BUCKET[/PREFIX], http:// or https://
    #[arg(long, value_name = "URL", requires = "cache_dir", requires = "cache_bytes",
        value_parser = Origin::parse)]
    origin: Option<Origin>,
    /// Where the cache is; another server must not have the same
    #[arg(long, value_name = "DIR", requires = "origin")]
    cache_dir: Option<PathBuf>,
    /// What the cache may take of the disk: a number of bytes, or of MB, GB or TB
    #[arg(long, value_name = "BYTES", requires = "origin", value_parser = bytes)]
    cache_bytes: Option<u64>,
    /// Other caches of the same origin: each chunk is read from there by one of all. A name may lead to
    /// many, as that of a headless Service does
    #[arg(long = "peer", value_name = "HOST:PORT", requires = "origin", requires = "advertise",
        value_parser = peer)]
    peers: Vec<String>,
    /// Where those reach this one
    #[arg(long, value_name = "ADDRESS", requires = "peers")]
    advertise: Option<SocketAddr>,
    #[command(flatten)]
    reach: place::Reach,
}

/// How long answers under way may take when it is stopped: that of a pod.
const GRACE: Duration = Duration::from_secs(30);

/// Bytes as people write them.
fn bytes(text: &str) -> Result<u64, String> {
    let at = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let unit = match unit.trim().to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => 0,
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| "write it like 500GB or 500000000000".to_owned())
}

/// `HOST:PORT`, whoever that is by and by.
fn peer(text: &str) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let sound = !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0);
    sound.then(|| text.to_owned()).ok_or_else(|| "write it like models.ml.svc:8484".to_owned())
}

/// Serves until SIGINT or SIGTERM.
pub(super) fn run(args: &Args) -> Outcome {
    let (served, what) = match (&args.dir, &args.origin, &args.cache_dir, args.cache_bytes) {
        (Some(dir), None, ..) => {
            let what = format!("the files of {}", dir.display());
            (Served::Folder(dir.clone()), what)
        }
        (None, Some(origin), Some(dir), Some(bytes)) => {
            let (room, at) = (size(bytes), dir.display());
            let what = format!("{origin}, of which {room} are kept in {at}");
            let mut cached = Cached::new(origin.clone(), dir.clone(), bytes);
            cached.remote = args.reach.remote(cached.remote);
            cached.peers = Peers { names: args.peers.clone(), own: args.advertise };
            (Served::Cached(Box::new(cached)), what)
        }
        _ => {
            return Err(Unusable(
                "name a directory, or --origin, --cache-dir and --cache-bytes".into(),
            )
            .into());
        }
    };
    // Two for each connection: its socket, and the file that is sent.
    embedded::allow_open_files();
    let limits = Limits { connections: args.max_connections, ..Limits::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let server = Server::start(served, args.listen, args.metrics_listen, limits)
        .map_err(|error| Unusable(error.into()))?;
    let metrics = server.metrics_address();
    let metrics = metrics.map(|at| format!("; metrics at http://{at}/metrics")).unwrap_or_default();
    let mut out = std::io::stdout();
    writeln!(out, "http://{} serves {what}{metrics}", server.address())?;
    out.flush()?;
    runtime.block_on(embedded::terminated());
    server.stop(GRACE);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_a_port() {
        assert_eq!(peer("[::1]:8484").as_deref(), Ok("[::1]:8484"));
        for text in ["nonsense", ":8484", "host:", "host:0", "host:http"] {
            assert!(peer(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_are_read_as_people_write_them() {
        let read = |text| bytes(text).ok();
        assert_eq!(read("500GB"), Some(500_000_000_000));
        assert_eq!(read("1 tb"), Some(1_000_000_000_000));
        assert_eq!(read("7"), Some(7));
        for text in ["", "0", "GB", "1.5GB", "-1", "1PB", "99999999999TB"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
