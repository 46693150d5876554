//! `/metrics`, at an address of its own: who may read models need not see who else does.
//!
//! One question at a time, each in a bounded time: there is one Prometheus, or a few.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use super::metrics::Metrics;
use super::refusal::{Refusal, reason};
use super::request;

/// How long a question, and taking its answer, may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Answers one question and ends the connection.
pub(super) fn answer(mut socket: &TcpStream, metrics: &Metrics) {
    let until = Instant::now() + PATIENCE;
    let mut early = Vec::new();
    let (status, text) = loop {
        match request::parse(&early) {
            Ok(Some((asked, _))) if asked.target == "/metrics" => break (200, metrics.text()),
            Ok(Some(_)) => break told(Refusal::new(404, "metrics are at /metrics")),
            Ok(None) => {}
            Err(refusal) => break told(refusal),
        }
        let mut step = [0; 1024];
        let left = until.saturating_duration_since(Instant::now());
        let bounded = !left.is_zero() && socket.set_read_timeout(Some(left)).is_ok();
        match socket.read(&mut step) {
            Ok(got) if got > 0 && bounded => early.extend_from_slice(&step[..got]),
            _ => return,
        }
    };
    let (reason, len) = (reason(status), text.len());
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n\
         content-length: {len}\r\nconnection: close\r\n\r\n{text}"
    );
    // Who asked and is gone needs no answer.
    let _ = socket.set_write_timeout(Some(PATIENCE));
    let _ = socket.write_all(head.as_bytes());
    let _ = socket.shutdown(Shutdown::Write);
}

fn told(refusal: Refusal) -> (u16, String) {
    (refusal.status, format!("{}\n", refusal.line))
}
