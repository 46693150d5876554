//! HTTP as models travel by it: what a server answers, and what a client asks of ours.
//!
//! Over loopback, as it comes: both sides read from sockets.

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::NonZero;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use stream::{Limits, Load, Location, Model, Patience, Remote, Served, Server};
use tempfile::TempDir;

/// What our server waits for; all is on this machine.
const SOON: Duration = Duration::from_millis(200);

/// What our client waits for: most answers end too early, and are waited for.
const SOONER: Duration = Duration::from_millis(20);

/// What parts answers from each other.
const NEXT: &[u8] = b"\n--\n";

/// A server that answers every request with the next of these, whatever is asked, and then no more.
fn serves() -> (SocketAddr, Arc<Mutex<Vec<Vec<u8>>>>) {
    type Serving = (SocketAddr, Arc<Mutex<Vec<Vec<u8>>>>);
    static SERVING: OnceLock<Serving> = OnceLock::new();
    let serving = SERVING.get_or_init(|| {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let answers = Arc::new(Mutex::new(Vec::new()));
        let given = Arc::clone(&answers);
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let given = Arc::clone(&given);
                std::thread::spawn(move || converse(socket, &given));
            }
        });
        (address, answers)
    });
    (serving.0, Arc::clone(&serving.1))
}

fn converse(mut socket: TcpStream, answers: &Mutex<Vec<Vec<u8>>>) {
    let mut asked = [0; 4096];
    while matches!(socket.read(&mut asked), Ok(1..)) {
        let answer = answers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(answer) = answer else { return };
        if socket.write_all(&answer).is_err() {
            return;
        }
    }
}

/// A model behind a server that gives these answers.
pub(crate) fn answer(data: &[u8]) {
    let (address, answers) = serves();
    let mut rest = data;
    let mut all = Vec::new();
    while let Some(end) = rest.windows(NEXT.len()).position(|window| window == NEXT) {
        all.push(rest[..end].to_vec());
        rest = &rest[end + NEXT.len()..];
    }
    all.push(rest.to_vec());
    all.reverse();
    all.truncate(8);
    *answers.lock().unwrap_or_else(PoisonError::into_inner) = all;
    let url = format!("http://{address}/model.tensors");
    let place = Location::parse(OsStr::new(&url)).expect("a URL");
    let one = NonZero::<u32>::MIN;
    let patience = Patience {
        connect: SOON,
        stall: SOONER,
        tries: one,
        backoff: Duration::ZERO,
        longest: Duration::ZERO,
        hedge: Duration::from_secs(9),
    };
    let how = Remote { patience, connections: NonZero::<usize>::MIN, ..Remote::default() };
    if let Ok(model) = Model::open_at(&place, &how) {
        let _ = model.load(&Load::default());
    }
    answers.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

pub(crate) fn answer_seeds() -> Vec<Vec<u8>> {
    let model = super::model::seeds().pop().unwrap_or_default();
    let partial = |headers: &str, body: &[u8]| {
        let length = body.len();
        let end = length.saturating_sub(1);
        let head = format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Length: {length}\r\n\
             Content-Range: bytes 0-{end}/{length}\r\nETag: \"e\"\r\n{headers}\r\n"
        );
        [head.as_bytes(), body].concat()
    };
    let whole = partial("", &model);
    let short = partial("Connection: close\r\n", b"{}");
    let refused = b"HTTP/1.1 503 Slow Down\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n".to_vec();
    let moved = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"
        .to_vec();
    let chunked =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".to_vec();
    vec![
        [whole.clone(), whole.clone()].join(NEXT),
        [refused, whole].join(NEXT),
        [moved, short].join(NEXT),
        chunked,
    ]
}

/// Requests to the server of models.
pub(crate) fn request(data: &[u8]) {
    static SERVER: OnceLock<(Server, TempDir)> = OnceLock::new();
    let (server, _) = SERVER.get_or_init(|| {
        let place = TempDir::new().expect("a directory to serve");
        std::fs::write(place.path().join("model.tensors"), [9; 300]).expect("a file in it");
        // Beside it lies what nobody may have.
        let served = Served::Folder(place.path().to_owned());
        let limits = Limits { connections: 64, idle: SOON, head: SOON, stall: SOON };
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::start(served, address, None, limits).expect("a server starts");
        (server, place)
    });
    let Ok(mut socket) = TcpStream::connect(server.address()) else { return };
    let asked = socket.write_all(data).and_then(|()| socket.shutdown(Shutdown::Write));
    let mut told = Vec::new();
    let _ = socket.set_read_timeout(Some(10 * SOON));
    let read = asked.and_then(|()| socket.read_to_end(&mut told).map(drop));
    // Cut off is fine; to be left waiting is not.
    let waits =
        read.as_ref().err().is_some_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    assert!(!waits, "no answer and no end");
    assert!(
        told.is_empty() || told.starts_with(b"HTTP/1.1 "),
        "{}",
        String::from_utf8_lossy(&told)
    );
    let holds = |bytes: &[u8]| bytes.windows(5).any(|window| window == b"root:");
    // A refusal may repeat what was asked.
    let secret = holds(&told) && !holds(data);
    assert!(!secret, "a file from outside of the directory");
}

pub(crate) fn request_seeds() -> Vec<Vec<u8>> {
    [
        "GET /model.tensors HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9,20-29,-5\r\n\r\n",
        "HEAD /model.tensors HTTP/1.1\r\nHost: a\r\nIf-Match: \"x\", W/\"y\"\r\n\r\n\
         GET /model.tensors HTTP/1.1\r\nHost: a\r\nIf-Range: \"x\"\r\nRange: bytes=5-\r\n\r\n",
        "GET /../../../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /%2e%2e/%2fetc%2fpasswd?x#y HTTP/1.0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
    ]
    .map(|request| request.as_bytes().to_vec())
    .into()
}
