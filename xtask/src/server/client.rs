//! HTTP/1.1 over TLS, one connection per exchange, byte for byte under the caller's control.
//!
//! Guarantees bounded time and memory whatever the server sends. Deliberately no pooling, no
//! redirects, no decompression and no HTTP/2: a client library would hide what is compared here.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// How long one exchange, or the wait for a stream's next event, may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const HEAD_LIMIT: usize = 64 << 10;
const BODY_LIMIT: usize = 64 << 20;

/// How to reach one server.
pub(crate) struct Client {
    address: String,
    host: String,
    tls: Arc<ClientConfig>,
}

/// An answer as it came.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case, in the order received.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Client {
    /// `url` is `https://host:port`.
    pub(crate) fn new(url: &str, ca_pem: &str) -> Result<Self> {
        let address = url.trim_end_matches('/').strip_prefix("https://");
        let address = address.with_context(|| format!("{url} is no https URL"))?.to_owned();
        let (host, _) = address.rsplit_once(':').with_context(|| format!("{url} has no port"))?;
        let host = host.to_owned();
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
            roots.add(certificate.context("the CA is no PEM")?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { address, host, tls: Arc::new(tls) })
    }

    /// Sends a request and reads the head of its answer.
    pub(crate) fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: Option<&[u8]>,
    ) -> Result<Stream> {
        let mut bytes = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.address);
        for (name, value) in headers {
            bytes.push_str(&format!("{name}: {value}\r\n"));
        }
        if body.is_some() || !matches!(method, "GET" | "HEAD" | "DELETE" | "OPTIONS") {
            bytes.push_str(&format!("content-length: {}\r\n", body.unwrap_or_default().len()));
        }
        bytes.push_str("\r\n");
        let mut bytes = bytes.into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        self.send(&bytes, method == "HEAD")
    }

    /// Sends bytes as they are and reads the head of the answer.
    pub(crate) fn send(&self, bytes: &[u8], bodiless: bool) -> Result<Stream> {
        let socket = TcpStream::connect(&self.address).context("cannot connect")?;
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let name = ServerName::try_from(self.host.clone())?;
        let connection = ClientConnection::new(Arc::clone(&self.tls), name)?;
        let mut wire = StreamOwned::new(connection, socket);
        // A server may answer and close before it has read all of a body that it refuses.
        let sent = wire.write_all(bytes).and_then(|()| wire.flush());
        let mut stream =
            Stream { wire, answer: Answer::default(), buffer: Vec::new(), rest: Rest::Close };
        match (stream.read_head(bodiless), sent) {
            (Ok(()), _) => Ok(stream),
            (Err(_), Err(error)) => Err(error).context("cannot send"),
            (Err(error), Ok(())) => Err(error),
        }
    }
}

/// How the end of a body is told.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rest {
    Length(usize),
    Chunks,
    Close,
    Done,
}

/// An answer whose body is still being read.
pub(crate) struct Stream {
    wire: StreamOwned<ClientConnection, TcpStream>,
    pub(crate) answer: Answer,
    /// Received, not yet understood.
    buffer: Vec<u8>,
    rest: Rest,
}

impl Stream {
    /// Reads to the end of the body.
    pub(crate) fn finish(mut self) -> Result<Answer> {
        let deadline = Instant::now() + PATIENCE;
        while self.rest != Rest::Done {
            self.decode()?;
            if self.rest != Rest::Done && !self.fill(deadline)? {
                ensure!(self.rest == Rest::Close, "the answer ends in the middle of its body");
                self.rest = Rest::Done;
            }
            ensure!(self.answer.body.len() < BODY_LIMIT, "the body has no end");
        }
        Ok(self.answer)
    }

    /// The next line of the body without its end; `None` at the end or when patience ends.
    pub(crate) fn line(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>> {
        loop {
            self.decode()?;
            if let Some(end) = self.answer.body.iter().position(|&byte| byte == b'\n') {
                let rest = self.answer.body.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.answer.body, rest);
                line.pop();
                return Ok(Some(line));
            }
            if self.rest == Rest::Done {
                return Ok(None);
            }
            match self.fill(deadline) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) if timed_out(&error) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn read_head(&mut self, bodiless: bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                let rest = self.buffer.split_off(end + 4);
                let head = std::mem::replace(&mut self.buffer, rest);
                self.answer = head_of(&String::from_utf8_lossy(&head))?;
                if !(100..200).contains(&self.answer.status) {
                    break;
                }
                continue;
            }
            ensure!(self.buffer.len() < HEAD_LIMIT, "the head has no end");
            ensure!(self.fill(deadline).context("no answer")?, "closed without an answer");
        }
        self.rest = if bodiless || matches!(self.answer.status, 204 | 304) {
            Rest::Done
        } else if self.answer.header("transfer-encoding") == Some("chunked") {
            Rest::Chunks
        } else if let Some(length) = self.answer.header("content-length") {
            Rest::Length(length.parse().context("content-length")?)
        } else {
            Rest::Close
        };
        Ok(())
    }

    /// Moves what is understood of the buffer into the body.
    fn decode(&mut self) -> Result<()> {
        loop {
            match self.rest {
                Rest::Done => return Ok(()),
                Rest::Close => {
                    self.answer.body.append(&mut self.buffer);
                    return Ok(());
                }
                Rest::Length(left) => {
                    let taken = left.min(self.buffer.len());
                    self.answer.body.extend(self.buffer.drain(..taken));
                    self.rest = if taken == left { Rest::Done } else { Rest::Length(left - taken) };
                    return Ok(());
                }
                Rest::Chunks => {
                    let Some(line) = find(&self.buffer, b"\r\n") else { return Ok(()) };
                    let size = String::from_utf8_lossy(&self.buffer[..line]).into_owned();
                    let size = size.split(';').next().unwrap_or_default().trim();
                    let size = usize::from_str_radix(size, 16).context("chunk size")?;
                    ensure!(size < BODY_LIMIT, "a chunk has no end");
                    if self.buffer.len() < line + 2 + size + 2 {
                        return Ok(());
                    }
                    self.answer.body.extend_from_slice(&self.buffer[line + 2..line + 2 + size]);
                    self.buffer.drain(..line + 2 + size + 2);
                    if size == 0 {
                        self.rest = Rest::Done;
                    }
                }
            }
        }
    }

    /// Reads more; false at the end of the connection.
    fn fill(&mut self, deadline: Instant) -> io::Result<bool> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.wire.sock.set_read_timeout(Some(left))?;
        let mut part = [0; 16 << 10];
        match self.wire.read(&mut part) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.buffer.extend_from_slice(&part[..count]);
                Ok(true)
            }
            // Servers that close without a TLS farewell are common, and not our subject.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(error) if timed_out(&error) => Err(ErrorKind::TimedOut.into()),
            Err(error) => Err(error),
        }
    }
}

fn timed_out(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark)
}

fn head_of(head: &str) -> Result<Answer> {
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let Some(("HTTP/1.1" | "HTTP/1.0", status)) = first.split_once(' ') else {
        bail!("no HTTP/1 answer: {first:?}");
    };
    let status = status.get(..3).and_then(|code| code.parse().ok()).context("status code")?;
    let mut headers = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').with_context(|| format!("header {line:?}"))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Ok(Answer { status, headers, body: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        let answer = head_of("HTTP/1.1 404 Not Found\r\nAllow:  GET\r\nX-a: b: c\r\n\r\n").unwrap();
        assert_eq!(answer.status, 404);
        assert_eq!(answer.header("allow"), Some("GET"));
        assert_eq!(answer.header("x-a"), Some("b: c"));
        for bad in ["SSH-2.0", "HTTP/2 200", "HTTP/1.1 x", "HTTP/1.1 200 OK\r\nnocolon\r\n"] {
            assert!(head_of(bad).is_err(), "{bad}");
        }
    }
}
