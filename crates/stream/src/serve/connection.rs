//! One connection: requests one after the other, each answered by a head and the bytes of a file.
//!
//! A body goes from the page cache to the socket by `sendfile`, past this process. Every wait has a
//! bound: for a request, for the rest of its head, for a client that takes nothing. An answer that
//! cannot be brought to its end (the file was written into, the origin failed) ends the connection
//! short of its length, which no client takes for whole.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::sendfile;
use rustix::net::{SendFlags, send};

use super::gate::Pass;
use super::refusal::{Refusal, reason};
use super::request::{self, Request};
use super::root::{Body, Root};
use super::verdict::{self, Verdict, Version};
use super::{Limits, Metrics, path};

/// What is read of a request at a time.
const STEP: usize = 4 << 10;

/// Bytes that are sent before it is looked whether the file was written into.
const SENT: usize = 4 << 20;

/// See the module.
pub(super) struct Connection {
    pub(super) socket: Arc<TcpStream>,
    pub(super) root: Arc<Root>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) limits: Limits,
    pub(super) pass: Pass,
}

/// What follows the head.
enum Rest {
    Nothing,
    Line(String),
    Bytes(Body, Range<u64>),
}

impl Connection {
    /// Answers until one side has enough.
    pub(super) fn run(&self) {
        let mut early = Vec::new();
        loop {
            let asked = match self.next(&mut early) {
                Ok(Some(asked)) => asked,
                Ok(None) => return,
                Err(refusal) => {
                    // What else came cannot be told apart, so that the connection ends.
                    let request = Request { close: true, ..Request::default() };
                    let _ = self.refuse(&request, &refusal, "");
                    return;
                }
            };
            let more = self.pass.busy(true);
            let asked = Request { close: asked.close || !more, ..asked };
            if self.answer(&asked).is_err() || asked.close || !self.pass.busy(false) {
                return;
            }
        }
    }

    /// The next request; `None` if none comes.
    fn next(&self, early: &mut Vec<u8>) -> Result<Option<Request>, Refusal> {
        let mut until = None;
        loop {
            if let Some((asked, len)) = request::parse(early)? {
                early.drain(..len);
                return Ok(Some(asked));
            }
            let wait = match until {
                None if early.is_empty() => self.limits.idle,
                _ => {
                    let until = *until.get_or_insert_with(|| Instant::now() + self.limits.head);
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(late());
                    }
                    left
                }
            };
            let had = early.len();
            early.resize(had + STEP, 0);
            let read = self
                .socket
                .set_read_timeout(Some(wait))
                .and_then(|()| (&*self.socket).read(&mut early[had..]));
            early.truncate(had + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) if had > 0 && until.is_some() => return Err(late()),
                Err(_) => return Ok(None),
            }
        }
    }

    fn answer(&self, asked: &Request) -> io::Result<()> {
        let found = path::parse(&asked.target).and_then(|path| self.root.find(&path, asked.peer));
        let (body, version) = match found {
            Ok(found) => found,
            Err(refusal) => return self.refuse(asked, &refusal, ""),
        };
        let fields = told(&version);
        match verdict::of(asked, &version) {
            Verdict::Whole => self.give(asked, 200, &fields, body, 0..version.len),
            Verdict::Part(range) => {
                let (first, last, len) = (range.start, range.end - 1, version.len);
                let fields = format!("{fields}content-range: bytes {first}-{last}/{len}\r\n");
                self.give(asked, 206, &fields, body, range)
            }
            Verdict::NotModified => self.send(asked, 304, &fields, None, Rest::Nothing),
            Verdict::Failed => {
                let refusal = Refusal::new(412, "it is another than the request wants");
                self.refuse(asked, &refusal, &fields)
            }
            Verdict::Beyond => {
                let refusal = Refusal::new(416, format!("it has {} bytes", version.len));
                let fields = format!("{fields}content-range: bytes */{}\r\n", version.len);
                self.refuse(asked, &refusal, &fields)
            }
        }
    }

    fn give(
        &self,
        asked: &Request,
        status: u16,
        fields: &str,
        body: Body,
        range: Range<u64>,
    ) -> io::Result<()> {
        // Before the head is sent there is still a status to say what is wrong.
        if !asked.head_only
            && let Err(refusal) = body.prepare(&range)
        {
            return self.refuse(asked, &refusal, "");
        }
        let len = range.end - range.start;
        let fields = format!("{fields}content-type: application/octet-stream\r\n");
        self.send(asked, status, &fields, Some(len), Rest::Bytes(body, range))
    }

    fn refuse(&self, asked: &Request, refusal: &Refusal, fields: &str) -> io::Result<()> {
        let fields = match refusal.status {
            405 => format!("{fields}allow: GET, HEAD\r\n"),
            503 => format!("{fields}retry-after: 1\r\n"),
            _ => fields.to_owned(),
        };
        let fields = format!("{fields}content-type: text/plain; charset=utf-8\r\n");
        let line = format!("{}\n", refusal.line);
        self.send(asked, refusal.status, &fields, Some(line.len() as u64), Rest::Line(line))
    }

    /// Sends a head, and what follows it.
    fn send(
        &self,
        asked: &Request,
        status: u16,
        fields: &str,
        len: Option<u64>,
        rest: Rest,
    ) -> io::Result<()> {
        self.metrics.answered(status);
        let len = len.map(|len| format!("content-length: {len}\r\n")).unwrap_or_default();
        let close = if asked.close { "connection: close\r\n" } else { "" };
        let (reason, date) = (reason(status), date(now()));
        let mut head =
            format!("HTTP/1.1 {status} {reason}\r\ndate: {date}\r\n{fields}{len}{close}\r\n");
        match rest {
            Rest::Line(line) if !asked.head_only => {
                head.push_str(&line);
                (&*self.socket).write_all(head.as_bytes())
            }
            Rest::Bytes(body, range) if !asked.head_only && !range.is_empty() => {
                self.first(head.as_bytes())?;
                body.send(&range, &|file, range| self.copy(file, range))
            }
            _ => (&*self.socket).write_all(head.as_bytes()),
        }
    }

    /// Sends what more follows at once, so that both go in one packet.
    fn first(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = send(&self.socket, bytes, SendFlags::MORE | SendFlags::NOSIGNAL)?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    /// Sends some of a file: the byte after the last that was sent.
    fn copy(&self, file: &File, range: &Range<u64>) -> io::Result<u64> {
        let mut at = range.start;
        let len = usize::try_from(range.end - range.start).unwrap_or(SENT).min(SENT);
        match sendfile(&self.socket, file, Some(&mut at), len) {
            // It became shorter.
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(sent) => {
                self.metrics.sent.add(sent as u64);
                Ok(range.start + sent as u64)
            }
            Err(rustix::io::Errno::INTR) => Ok(range.start),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// What is said of whatever is there.
fn told(version: &Version) -> String {
    let modified = version.modified.map(|at| format!("last-modified: {}\r\n", date(at)));
    let (etag, modified) = (&version.etag, modified.unwrap_or_default());
    format!("accept-ranges: bytes\r\netag: {etag}\r\n{modified}")
}

fn late() -> Refusal {
    Refusal::new(408, "the request did not come in time")
}

/// A moment as HTTP writes it (RFC 9110, 5.6.7).
fn date(at: jiff::Timestamp) -> String {
    let printed = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&at);
    // Only years that have no four digits cannot be written.
    printed.unwrap_or_default()
}

#[expect(clippy::disallowed_methods, reason = "an answer tells the wall clock's time")]
fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Tells a connection for which there is no room so, without waiting for anything.
pub(super) fn turn_away(socket: &TcpStream) {
    let line = "too many connections: come back\n";
    let head = format!(
        "HTTP/1.1 503 {}\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{line}",
        reason(503),
        line.len()
    );
    // A new socket has room for this; whoever does not read it is gone anyway.
    let _ = socket.set_write_timeout(Some(Duration::from_millis(1)));
    let _ = (&mut &*socket).write_all(head.as_bytes());
    let _ = socket.shutdown(std::net::Shutdown::Write);
}
