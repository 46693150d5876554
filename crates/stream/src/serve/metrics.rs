//! What the server counts, and how Prometheus reads it.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// The statuses that are answered.
const STATUSES: [u16; 14] = [200, 206, 304, 400, 404, 405, 408, 412, 416, 431, 500, 502, 503, 504];

/// A number that only grows, or one that rises and falls.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn take(&self, less: u64) {
        self.0.fetch_sub(less, Ordering::Relaxed);
    }

    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// See the module. What each means stands in [`Metrics::text`].
#[derive(Debug, Default)]
pub(super) struct Metrics {
    requests: [Count; STATUSES.len()],
    pub(super) sent: Count,
    pub(super) connections: Count,
    pub(super) accepted: Count,
    pub(super) turned_away: Count,
    pub(super) hits: Count,
    pub(super) misses: Count,
    pub(super) fills_failed: Count,
    pub(super) evictions: Count,
    pub(super) cached: Count,
    pub(super) origin_reads: Count,
    pub(super) origin_bytes: Count,
    pub(super) stale: Count,
    pub(super) peer_reads: Count,
    pub(super) peer_failed: Count,
    pub(super) peer_bytes: Count,
}

impl Metrics {
    pub(super) fn answered(&self, status: u16) {
        if let Some(at) = STATUSES.iter().position(|known| *known == status) {
            self.requests[at].add(1);
        }
    }

    /// The text format of Prometheus, version 0.0.4.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        let name = "seatrial_tensors_requests_total";
        let _ = writeln!(out, "# HELP {name} Answers given, by status.\n# TYPE {name} counter");
        for (status, count) in STATUSES.iter().zip(&self.requests) {
            let _ = writeln!(out, "{name}{{code=\"{status}\"}} {}", count.get());
        }
        for (name, kind, help, count) in [
            ("sent_bytes_total", "counter", "Bytes of bodies sent.", &self.sent),
            ("connections", "gauge", "Connections that are open.", &self.connections),
            ("connections_total", "counter", "Connections accepted.", &self.accepted),
            (
                "connections_turned_away_total",
                "counter",
                "Connections answered 503 because there were too many.",
                &self.turned_away,
            ),
            (
                "cache_hits_total",
                "counter",
                "Chunks asked for that were there or on their way.",
                &self.hits,
            ),
            (
                "cache_misses_total",
                "counter",
                "Chunks asked for that the origin was asked for.",
                &self.misses,
            ),
            (
                "cache_fills_failed_total",
                "counter",
                "Chunks that could not be had or not be kept.",
                &self.fills_failed,
            ),
            ("cache_evictions_total", "counter", "Chunks deleted to make room.", &self.evictions),
            ("cache_bytes", "gauge", "Bytes of the disk that chunks take.", &self.cached),
            (
                "origin_reads_total",
                "counter",
                "Questions to the origin: what an object is, whether it still is, a chunk of it; repetitions aside.",
                &self.origin_reads,
            ),
            (
                "origin_read_bytes_total",
                "counter",
                "Bytes of objects read from the origin.",
                &self.origin_bytes,
            ),
            (
                "cache_stale_total",
                "counter",
                "Times that an object was given although the origin could not say whether it still is that.",
                &self.stale,
            ),
            (
                "peer_reads_total",
                "counter",
                "Chunks that another cache was asked for.",
                &self.peer_reads,
            ),
            (
                "peer_reads_failed_total",
                "counter",
                "Chunks that another cache could not give, or not all of: the origin was asked.",
                &self.peer_failed,
            ),
            ("peer_read_bytes_total", "counter", "Bytes read from other caches.", &self.peer_bytes),
        ] {
            let name = format!("seatrial_tensors_{name}");
            let _ =
                writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {}", count.get());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_is_told_once() {
        let metrics = Metrics::default();
        metrics.answered(206);
        metrics.sent.add(7);
        let text = metrics.text();
        assert!(text.contains("\nseatrial_tensors_requests_total{code=\"206\"} 1\n"), "{text}");
        assert!(text.contains("\nseatrial_tensors_sent_bytes_total 7\n"), "{text}");
        assert_eq!(text.matches("# TYPE").count(), 16);
    }
}
