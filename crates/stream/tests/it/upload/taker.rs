//! An HTTP server that takes what is sent to it, as badly as it is told to, one thread per connection.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A request that came.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// Its place among all.
    pub(super) nth: usize,
    /// How many of the same method and target came before.
    pub(super) before: usize,
    pub(super) method: String,
    pub(super) target: String,
    pub(super) fields: HashMap<String, String>,
    /// As much of it as was taken.
    pub(super) body: Vec<u8>,
}

/// What it does with a request.
pub(super) enum Act {
    /// Takes the body, and says so.
    Take,
    /// Takes the body, and answers with this status and body.
    TakeAndSay(&'static str, String),
    /// Takes so many bytes of the body, and the connection ends.
    Cut(usize),
    /// Answers with this status and these fields before any of the body.
    Refuse(&'static str, String),
}

type Behaviour = Box<dyn Fn(&Asked) -> Act + Send + Sync>;

struct Shared {
    behaviour: Behaviour,
    seen: Mutex<Vec<Asked>>,
    over: AtomicBool,
}

pub(super) struct Taker {
    port: u16,
    shared: Arc<Shared>,
}

impl Taker {
    pub(super) fn start(behaviour: impl Fn(&Asked) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (behaviour, over): (Behaviour, _) = (Box::new(behaviour), AtomicBool::new(false));
        let shared = Arc::new(Shared { behaviour, seen: Mutex::default(), over });
        let taking = Arc::clone(&shared);
        thread::spawn(move || {
            for socket in listener.incoming() {
                if taking.over.load(Ordering::SeqCst) {
                    return;
                }
                let taking = Arc::clone(&taking);
                thread::spawn(move || {
                    let mut stream = BufReader::new(socket.unwrap());
                    while matches!(taking.one(&mut stream), Ok(true)) {}
                });
            }
        });
        Self { port, shared }
    }

    pub(super) fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(super) fn url(&self) -> String {
        format!("{}/model", self.origin())
    }

    pub(super) fn seen(&self) -> Vec<Asked> {
        self.shared.seen.lock().unwrap().clone()
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        // Wakes who waits for the next connection.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    /// One request; whether the connection goes on.
    fn one(&self, stream: &mut BufReader<TcpStream>) -> io::Result<bool> {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Ok(false);
        }
        let mut words = line.split(' ').map(str::to_owned);
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let mut fields = HashMap::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            fields.insert(name.to_owned(), value.to_owned());
        }
        let length: usize = fields["content-length"].parse().unwrap();
        let asked = {
            let mut seen = self.seen.lock().unwrap();
            let same = |other: &&Asked| other.method == method && other.target == target;
            let (nth, before) = (seen.len(), seen.iter().filter(same).count());
            let asked = Asked { nth, before, method, target, fields, body: Vec::new() };
            seen.push(asked.clone());
            asked
        };
        let take = |stream: &mut BufReader<TcpStream>, most: usize| -> io::Result<()> {
            let mut body = vec![0; most.min(length)];
            stream.read_exact(&mut body)?;
            self.seen.lock().unwrap()[asked.nth].body = body;
            Ok(())
        };
        let say = |stream: &mut BufReader<TcpStream>, status: &str, fields: &str, body: &str| {
            let length = body.len();
            let out = stream.get_mut();
            write!(out, "HTTP/1.1 {status}\r\n{fields}content-length: {length}\r\n\r\n{body}")
        };
        match (self.behaviour)(&asked) {
            Act::Take => {
                take(stream, length)?;
                say(stream, "200 OK", "etag: \"tag\"\r\n", "")?;
                Ok(true)
            }
            Act::TakeAndSay(status, body) => {
                take(stream, length)?;
                say(stream, status, "", &body)?;
                Ok(true)
            }
            Act::Cut(most) => {
                take(stream, most)?;
                Ok(false)
            }
            Act::Refuse(status, fields) => {
                say(stream, status, &format!("{fields}connection: close\r\n"), "")?;
                Ok(false)
            }
        }
    }
}
