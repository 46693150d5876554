//! Asks for ranges of one object, or for others, of whoever answers for it: connections that are kept,
//! redirects that are followed and remembered, signatures that stay with whom they are for.
//!
//! It decides nothing about answers but where they come from; what they mean is
//! [`object`](super::object)'s and [`store`](super::store)'s, repeating is [`fetch`](super::fetch)'s.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ClientConfig;

use super::Remote;
use super::connection::Connection;
use super::fault::Fault;
use super::head::Head;
use super::patience::Reins;
use super::tls;
use super::url::{Origin, Url};
use crate::s3::{Ready, Request, query};

/// Redirects that are followed one after the other.
const HOPS: u32 = 5;

/// The field by which a cache tells another who asks.
pub(crate) const PEER: &str = "seatrial-peer";

/// What is sent.
const TYPE: &str = "content-type: application/octet-stream\r\n";

/// How long a server is given to ask for a body, or to refuse it unseen.
const INVITED: Duration = Duration::from_secs(1);

/// What it took to read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests that were sent, redirects and repetitions included; not those for which a kept
    /// connection turned out to be closed.
    pub requests: u64,
    /// Requests that failed in passing and were repeated from the byte where they broke.
    pub retries: u64,
    /// Ranges that were slow and asked for a second time beside the first.
    pub hedges: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Bytes of bodies that came.
    pub bytes: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) requests: AtomicU64,
    pub(super) retries: AtomicU64,
    pub(super) hedges: AtomicU64,
    pub(super) connections: AtomicUsize,
    pub(super) bytes: AtomicU64,
    /// Answers that said that the server is busy.
    pub(super) busy: AtomicU64,
}

/// Who is asked first.
#[derive(Debug)]
pub(super) enum Asked {
    Url(Url),
    /// Another cache, which is to ask nobody else but the origin.
    Peer(Url),
    S3(Ready),
}

impl Asked {
    fn url(&self) -> &Url {
        match self {
            Self::Url(url) | Self::Peer(url) => url,
            Self::S3(ready) => &ready.url,
        }
    }
}

/// See the module.
pub(super) struct Wire {
    asked: Asked,
    pub(super) how: Remote,
    tls: Mutex<Option<Arc<ClientConfig>>>,
    idle: Mutex<Vec<Connection>>,
    /// Where redirects led the last time.
    route: Mutex<Option<Url>>,
    /// Whether anybody ever answered.
    met: AtomicBool,
    pub(super) counts: Counts,
}

impl fmt::Debug for Wire {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Wire").field("asked", &self.asked).finish_non_exhaustive()
    }
}

impl Wire {
    pub(super) fn new(asked: Asked, how: &Remote) -> Self {
        Self {
            asked,
            how: how.clone(),
            tls: Mutex::default(),
            idle: Mutex::default(),
            route: Mutex::default(),
            met: AtomicBool::new(false),
            counts: Counts::default(),
        }
    }

    pub(super) fn has_met(&self) -> bool {
        self.met.load(Ordering::Relaxed)
    }

    pub(super) fn traffic(&self) -> Traffic {
        let counts = &self.counts;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Traffic {
            requests: count(&counts.requests),
            retries: count(&counts.retries),
            hedges: count(&counts.hedges),
            connections: counts.connections.load(Ordering::Relaxed) as u64,
            bytes: count(&counts.bytes),
        }
    }

    /// Asks for a range, under conditions that are whole lines, and follows redirects to an answer.
    pub(super) fn get(
        &self,
        range: &Range<u64>,
        conditions: &str,
        reins: &Reins,
    ) -> Result<(Connection, Head), Fault> {
        let known = locked(&self.route).clone();
        let mut by_route = known.is_some();
        let mut url = known.unwrap_or_else(|| self.asked.url().clone());
        let mut hops = 0;
        loop {
            let text = self.request(&url, range, conditions);
            let (connection, head) = self.exchange(&url, &text, &[], true, reins)?;
            match head.status {
                301 | 302 | 303 | 307 | 308 => {
                    self.check_region(&head)?;
                    hops += 1;
                    url = redirected(&url, &head, hops)?;
                    self.keep(connection);
                }
                // What a redirect leads to may be good for a while only: ask for the way again.
                401 | 403 | 404 | 410 if by_route => {
                    *locked(&self.route) = None;
                    by_route = false;
                    url = self.asked.url().clone();
                    self.keep(connection);
                }
                _ => {
                    if hops > 0 {
                        *locked(&self.route) = Some(url);
                    }
                    return Ok((connection, head));
                }
            }
        }
    }

    /// Asks for something else of the object than its bytes, once. No redirect is followed: what is
    /// sent is signed for one host.
    pub(super) fn order(
        &self,
        request: &Request<'_>,
        reins: &Reins,
    ) -> Result<(Connection, Head), Fault> {
        let url = self.asked.url();
        let mut target = url.target();
        if !request.query.is_empty() {
            target = format!("{target}?{}", query(request.query));
        }
        let more = format!("content-length: {}\r\n{TYPE}", request.body.len());
        let text = self.text(url, &target, request, &more);
        // What may be done only once is not sent again because its answer is missing.
        let again = request.method != "POST";
        self.exchange(url, &text, request.body, again, reins)
    }

    /// A connection on which the body of a PUT of so many bytes is awaited. Redirects that keep the
    /// method are followed.
    pub(super) fn put(&self, len: u64, reins: &Reins) -> Result<Connection, Fault> {
        let mut url = self.asked.url().clone();
        let mut hops = 0;
        let more = format!("content-length: {len}\r\n{TYPE}expect: 100-continue\r\n");
        let request = Request { method: "PUT", ..Request::GET };
        loop {
            let mut connection = self.connect(&url.origin, reins)?;
            if !reins.hold(connection.socket()) {
                return Err(Fault::Cancelled);
            }
            self.counts.requests.fetch_add(1, Ordering::Relaxed);
            connection.begin(&self.text(&url, &url.target(), &request, &more))?;
            let answer = connection.invited(INVITED)?;
            self.met.store(true, Ordering::Relaxed);
            match answer {
                None => return Ok(connection),
                Some(head) if matches!(head.status, 307 | 308) => {
                    hops += 1;
                    url = redirected(&url, &head, hops)?;
                }
                Some(head) => return Err(self.refusal(connection, &head)),
            }
        }
    }

    /// What an answer that gives no bytes means.
    pub(super) fn refusal(&self, mut connection: Connection, head: &Head) -> Fault {
        if let Err(region) = self.check_region(head) {
            return region;
        }
        let status = head.status;
        let said = connection.explanation(head);
        let told = said.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
        let word = told.map(|(word, _)| word).filter(|word| {
            word.len() <= 64 && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
        let code = word.map(|word| format!(" {word}")).unwrap_or_default();
        match (status, word) {
            (408 | 425 | 429 | 500 | 502 | 503 | 504, _)
            | (_, Some("RequestTimeout" | "SlowDown" | "InternalError")) => {
                self.counts.busy.fetch_add(1, Ordering::Relaxed);
                let after = head.retry_after.as_deref().and_then(after);
                match after {
                    Some(after) if after > self.how.patience.longest => {
                        Fault::Later { status, after }
                    }
                    after => Fault::Unavailable { status, code, after },
                }
            }
            (401 | 403, _)
            | (400, Some("ExpiredToken" | "InvalidToken" | "AuthorizationHeaderMalformed")) => {
                Fault::Forbidden { status, code }
            }
            (404 | 410, _) => Fault::Missing { status, code },
            _ => Fault::Status { status, code },
        }
    }

    /// Takes a connection back whose answer was read.
    pub(super) fn keep(&self, mut connection: Connection) {
        if connection.finish() {
            let mut idle = locked(&self.idle);
            if idle.len() < self.how.connections.get() {
                idle.push(connection);
            }
        }
    }

    fn check_region(&self, head: &Head) -> Result<(), Fault> {
        match (&self.asked, &head.region) {
            (Asked::S3(ready), Some(region)) if *region != ready.region => {
                Err(Fault::Region { region: region.clone() })
            }
            _ => Ok(()),
        }
    }

    /// One question and the head of its answer, on a connection that was kept or a new one.
    fn exchange(
        &self,
        url: &Url,
        request: &str,
        body: &[u8],
        again: bool,
        reins: &Reins,
    ) -> Result<(Connection, Head), Fault> {
        loop {
            let mut connection = self.connection(&url.origin, reins)?;
            if !reins.hold(connection.socket()) {
                return Err(Fault::Cancelled);
            }
            let kept = connection.used;
            let answer = connection.ask(request, body);
            // The server may end a connection that nobody uses: that is no failure of anything.
            let ended = matches!(answer, Err(Fault::Broken(_) | Fault::Cut));
            if again && kept && ended && connection.is_silent() && !reins.is_over() {
                continue;
            }
            self.counts.requests.fetch_add(1, Ordering::Relaxed);
            let head = answer?;
            self.met.store(true, Ordering::Relaxed);
            return Ok((connection, head));
        }
    }

    fn connection(&self, origin: &Origin, reins: &Reins) -> Result<Connection, Fault> {
        let kept = {
            let mut idle = locked(&self.idle);
            let place = idle.iter().rposition(|connection| connection.origin == *origin);
            place.map(|place| idle.remove(place))
        };
        kept.map_or_else(|| self.connect(origin, reins), Ok)
    }

    fn connect(&self, origin: &Origin, reins: &Reins) -> Result<Connection, Fault> {
        let tls = if origin.tls { Some(self.tls()?) } else { None };
        let turn = self.counts.connections.fetch_add(1, Ordering::Relaxed);
        Connection::open(origin, tls.as_ref(), &self.how.patience, reins, turn)
    }

    /// Whom to believe, found out once.
    fn tls(&self) -> Result<Arc<ClientConfig>, Fault> {
        let mut tls = locked(&self.tls);
        if let Some(config) = &*tls {
            return Ok(Arc::clone(config));
        }
        let bundle = || std::env::var_os("AWS_CA_BUNDLE").filter(|path| !path.is_empty());
        let file = self.how.ca_file.clone().or_else(|| bundle().map(PathBuf::from));
        let config = tls::config(file.as_deref())?;
        *tls = Some(Arc::clone(&config));
        Ok(config)
    }

    fn request(&self, url: &Url, range: &Range<u64>, conditions: &str) -> String {
        let (first, last) = (range.start, range.end.saturating_sub(1));
        let more =
            format!("accept-encoding: identity\r\nrange: bytes={first}-{last}\r\n{conditions}");
        self.text(url, &url.target(), &Request::GET, &more)
    }

    /// The head of a request, with more fields that are whole lines.
    fn text(&self, url: &Url, target: &str, request: &Request<'_>, more: &str) -> String {
        let signed = match &self.asked {
            // A signature is for one host and one path, and for nobody else's eyes.
            Asked::S3(ready) if ready.url == *url => ready.fields(request),
            Asked::Peer(_) => format!("{PEER}: 1\r\n"),
            _ => String::new(),
        };
        let (method, host) = (request.method, url.origin.authority());
        let agent = concat!("seatrial/", env!("CARGO_PKG_VERSION"));
        format!(
            "{method} {target} HTTP/1.1\r\nhost: {host}\r\nuser-agent: {agent}\r\n\
             accept: */*\r\n{more}{signed}\r\n"
        )
    }
}

/// Where a redirect leads, if it is one that is followed.
fn redirected(from: &Url, head: &Head, hops: u32) -> Result<Url, Fault> {
    if hops > HOPS {
        return Err(Fault::Redirect(format!("more than {HOPS} times")));
    }
    let Some(location) = &head.location else {
        return Err(Fault::Redirect("without saying where to".to_owned()));
    };
    let to = from.join(location).map_err(Fault::Target)?;
    if from.origin.tls && !to.origin.tls {
        return Err(Fault::Redirect(format!("from https to {to}, which everybody could read")));
    }
    Ok(to)
}

/// `Retry-After`: seconds, or a date.
fn after(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Duration::try_from(date.duration_since(now())).ok().or(Some(Duration::ZERO))
}

#[expect(clippy::disallowed_methods, reason = "a server's date is compared with the wall clock's")]
fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_when_to_come_back() {
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        let later = now() + Duration::from_secs(100);
        let later = after(
            &jiff::fmt::rfc2822::DateTimePrinter::new()
                .timestamp_to_rfc9110_string(&later)
                .unwrap(),
        );
        assert!(later.is_some_and(|later| (98..=100).contains(&later.as_secs())), "{later:?}");
        assert_eq!(after("soon"), None);
        assert_eq!(after("-1"), None);
    }

    #[test]
    fn redirects_are_followed_within_limits() {
        let to = |from: &str, location: &str, hops| {
            let location = (!location.is_empty()).then(|| location.to_owned());
            let head = Head { status: 302, location, ..Head::default() };
            redirected(&Url::parse(from).unwrap(), &head, hops).map(|url| url.to_string())
        };
        assert_eq!(to("http://a/x", "https://b/y", 5).unwrap(), "https://b/y");
        assert!(to("http://a/x", "/y", 6).unwrap_err().to_string().contains("more than 5"));
        assert!(to("https://a/x", "http://b/y?secret", 1).is_err_and(|fault| {
            let told = fault.to_string();
            told.contains("http://b/y?...") && !told.contains("secret")
        }));
        assert!(to("http://a/x", "", 1).is_err());
    }
}
