//! An HTTP server that behaves as badly as it is told to, over sockets, one thread per connection.
//!
//! It waits on states, never on time: who stalls does so until the other side has enough of it.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// What is served.
#[derive(Clone)]
pub(crate) struct Object {
    pub(crate) bytes: Arc<Vec<u8>>,
    /// A whole field's line, such as `etag: "v1"`; empty for none.
    pub(crate) version: &'static str,
}

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Its place among all.
    pub(crate) nth: usize,
    pub(crate) target: String,
    pub(crate) fields: HashMap<String, String>,
    /// First and last byte.
    pub(crate) range: (usize, usize),
    pub(crate) at: Instant,
}

/// What it does with a request.
pub(crate) enum Act {
    /// As it should be done.
    Serve,
    /// So, but only so many bytes of the range, as a server may.
    Short(usize),
    /// So, and the connection ends without a word.
    ServeAndEnd,
    /// So many bytes of the body, and the connection ends.
    Cut(usize),
    /// So many bytes of the body, and nothing more until the other side ends.
    Stall(usize),
    /// These bytes instead of an answer, and the connection ends.
    Raw(Vec<u8>),
    /// Status, fields and body of another answer.
    Say(&'static str, String, Vec<u8>),
    /// All of it, whatever range was asked for.
    Whole,
    /// Another version is served from now on, beginning with this request, which minds conditions or
    /// does not.
    Change(Object, bool),
}

type Behaviour = Box<dyn Fn(&Asked) -> Act + Send + Sync>;

struct Shared {
    object: Mutex<Object>,
    behaviour: Behaviour,
    seen: Mutex<Vec<Asked>>,
    connections: AtomicUsize,
    over: AtomicBool,
    tls: Option<Arc<ServerConfig>>,
}

pub(crate) struct Server {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

pub(crate) fn object(bytes: Vec<u8>) -> Object {
    Object { bytes: Arc::new(bytes), version: "etag: \"v1\"" }
}

impl Server {
    pub(crate) fn start(
        object: Object,
        behaviour: impl Fn(&Asked) -> Act + Send + Sync + 'static,
    ) -> Self {
        Self::with(object, None, behaviour)
    }

    pub(crate) fn with(
        object: Object,
        tls: Option<Arc<ServerConfig>>,
        behaviour: impl Fn(&Asked) -> Act + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            object: Mutex::new(object),
            behaviour: Box::new(behaviour),
            seen: Mutex::default(),
            connections: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            tls,
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for socket in listener.incoming() {
                if serving.over.load(Ordering::SeqCst) {
                    return;
                }
                let serving = Arc::clone(&serving);
                thread::spawn(move || serving.connection(socket.unwrap()));
            }
        });
        Self { port, shared }
    }

    pub(crate) fn url(&self) -> String {
        let scheme = if self.shared.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://localhost:{}/model", self.port)
    }

    pub(crate) fn seen(&self) -> Vec<Asked> {
        self.shared.seen.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        // Wakes who waits for the next connection.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

trait Both: Read + Write {}
impl<T: Read + Write> Both for T {}

impl Shared {
    fn connection(&self, socket: TcpStream) {
        self.connections.fetch_add(1, Ordering::SeqCst);
        socket.set_nodelay(true).unwrap();
        let stream: Box<dyn Both> = match &self.tls {
            Some(config) => {
                let tls = ServerConnection::new(Arc::clone(config)).unwrap();
                Box::new(StreamOwned::new(tls, socket))
            }
            None => Box::new(socket),
        };
        let mut stream = BufReader::new(stream);
        while let Ok(Some(asked)) = self.read(&mut stream) {
            let act = (self.behaviour)(&asked);
            if !matches!(self.act(&mut stream, &asked, act), Ok(true)) {
                return;
            }
        }
    }

    fn read(&self, stream: &mut BufReader<Box<dyn Both>>) -> io::Result<Option<Asked>> {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let target = line.split(' ').nth(1).unwrap().to_owned();
        let mut fields = HashMap::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            fields.insert(name.to_owned(), value.to_owned());
        }
        let range = fields["range"].strip_prefix("bytes=").unwrap();
        let (first, last) = range.split_once('-').unwrap();
        let range = (first.parse().unwrap(), last.parse().unwrap());
        let mut seen = self.seen.lock().unwrap();
        let at = Instant::now();
        let asked = Asked { nth: seen.len(), target, fields, range, at };
        seen.push(asked.clone());
        Ok(Some(asked))
    }

    /// Answers; whether the connection goes on.
    fn act(
        &self,
        stream: &mut BufReader<Box<dyn Both>>,
        asked: &Asked,
        act: Act,
    ) -> io::Result<bool> {
        let mut minds = true;
        if let Act::Change(object, minding) = &act {
            *self.object.lock().unwrap() = object.clone();
            minds = *minding;
        }
        let Object { bytes, version } = self.object.lock().unwrap().clone();
        let out = stream.get_mut();
        let tag = version.strip_prefix("etag: ");
        let unwanted = asked.fields.get("if-match").is_some_and(|want| tag != Some(want));
        if minds && unwanted {
            out.write_all(b"HTTP/1.1 412 No\r\ncontent-length: 0\r\n\r\n")?;
            return Ok(true);
        }
        let line = if version.is_empty() { String::new() } else { format!("{version}\r\n") };
        let (first, last) = (asked.range.0, asked.range.1.min(bytes.len().saturating_sub(1)));
        let ranged = !matches!(act, Act::Say(..) | Act::Raw(_));
        if ranged && (first > last || bytes.is_empty()) {
            let len = bytes.len();
            let range = format!("content-range: bytes */{len}\r\ncontent-length: 0");
            out.write_all(format!("HTTP/1.1 416 No\r\n{range}\r\n\r\n").as_bytes())?;
            return Ok(true);
        }
        let last = if let Act::Short(most) = act { last.min(first + most - 1) } else { last };
        let range = format!("content-range: bytes {first}-{last}/{}", bytes.len());
        let length = format!("content-length: {}", (last + 1).saturating_sub(first));
        let head = format!("HTTP/1.1 206 Partial Content\r\n{line}{range}\r\n{length}\r\n\r\n");
        let body = bytes.get(first..=last).unwrap_or_default();
        match act {
            Act::Serve | Act::Short(_) | Act::Change(..) => {
                out.write_all(head.as_bytes())?;
                out.write_all(body)?;
                out.flush()?;
                Ok(true)
            }
            Act::ServeAndEnd => {
                out.write_all(head.as_bytes())?;
                out.write_all(body)?;
                out.flush()?;
                Ok(false)
            }
            Act::Cut(some) => {
                out.write_all(head.as_bytes())?;
                out.write_all(&body[..some.min(body.len())])?;
                out.flush()?;
                Ok(false)
            }
            Act::Stall(some) => {
                out.write_all(head.as_bytes())?;
                out.write_all(&body[..some.min(body.len())])?;
                out.flush()?;
                // Until the other side ends.
                let _ = out.read(&mut [0; 1]);
                Ok(false)
            }
            Act::Raw(raw) => {
                out.write_all(&raw)?;
                out.flush()?;
                Ok(false)
            }
            Act::Say(status, fields, body) => {
                let framed = fields.contains("transfer-encoding");
                let length = match framed {
                    true => String::new(),
                    false => format!("content-length: {}\r\n", body.len()),
                };
                write!(out, "HTTP/1.1 {status}\r\n{fields}{length}\r\n")?;
                out.write_all(&body)?;
                out.flush()?;
                Ok(true)
            }
            Act::Whole => {
                write!(out, "HTTP/1.1 200 OK\r\n{line}content-length: {}\r\n\r\n", bytes.len())?;
                out.write_all(&bytes)?;
                out.flush()?;
                Ok(true)
            }
        }
    }
}
