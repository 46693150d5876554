//! One connection: a question with what belongs to it, the head of its answer, and its body straight to
//! where it belongs.
//!
//! Blocking, with a bound on every wait. The body goes from the socket (or from TLS) into the memory
//! that is given; only what came in one packet with the head is copied. It repeats nothing: that is
//! [`fetch`](super::fetch)'s.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::fault::Fault;
use super::head::{self, Head};
use super::patience::{Patience, Reins};
use super::url::Origin;

/// What is read at a time while a head is awaited, and so what of a body is copied at most.
const STEP: usize = 16 << 10;

/// The longest body that is read only to use its connection again.
const DRAINED: u64 = 64 << 10;

/// Bytes of a body that says what was wrong. S3's are a few hundred.
const EXPLAINED: usize = 8 << 10;

/// See the module.
pub(crate) struct Connection {
    pub(crate) origin: Origin,
    socket: Arc<TcpStream>,
    tls: Option<Box<ClientConnection>>,
    /// What came with the head and was not taken yet: the bytes from `from` on.
    early: Vec<u8>,
    from: usize,
    /// Bytes of the body that are still to come.
    left: u64,
    /// Whether it can be asked again once the body is read.
    reusable: bool,
    /// Whether it was asked before.
    pub(crate) used: bool,
    stall: Duration,
}

impl Connection {
    /// Connects to the first address of a host that answers, beginning at one of its addresses, so
    /// that many connections spread over all.
    pub(crate) fn open(
        origin: &Origin,
        tls: Option<&Arc<ClientConfig>>,
        patience: &Patience,
        reins: &Reins,
        turn: usize,
    ) -> Result<Self, Fault> {
        let resolve = |source| Fault::Resolve { host: origin.host.clone(), source };
        let to = || format!("{}:{}", origin.host, origin.port);
        // Names below it are this machine too (RFC 6761, 6.3), which not every resolver knows: a
        // bucket in the host's name of a store that runs here.
        let below = origin.host.ends_with(".localhost");
        let name = if below { "localhost" } else { &origin.host };
        let mut addresses: Vec<_> =
            (name, origin.port).to_socket_addrs().map_err(resolve)?.collect();
        if addresses.is_empty() {
            return Err(resolve(io::ErrorKind::NotFound.into()));
        }
        let turn = turn % addresses.len();
        addresses.rotate_left(turn);
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        let connected = addresses.into_iter().find_map(|address| {
            TcpStream::connect_timeout(&address, patience.connect)
                .map_err(|error| failed = error)
                .ok()
        });
        let Some(socket) = connected else {
            return Err(Fault::Connect { to: to(), source: failed });
        };
        let socket = Arc::new(socket);
        if !reins.hold(&socket) {
            return Err(Fault::Cancelled);
        }
        let stall = patience.stall;
        socket
            .set_nodelay(true)
            .and_then(|()| socket.set_write_timeout(Some(stall)))
            .and_then(|()| socket.set_read_timeout(Some(stall)))
            .map_err(Fault::Broken)?;
        let tls = tls.map(|config| handshake(origin, config, &socket, stall)).transpose()?;
        let (early, origin) = (Vec::new(), origin.clone());
        let (from, left, reusable, used) = (0, 0, true, false);
        Ok(Self { origin, socket, tls, early, from, left, reusable, used, stall })
    }

    pub(crate) fn socket(&self) -> &Arc<TcpStream> {
        &self.socket
    }

    /// Sends a request and reads the head of its answer. What follows is the body, of as many bytes
    /// as the head says; without a length nothing is read of it by [`Connection::read`].
    pub(crate) fn ask(&mut self, request: &str, body: &[u8]) -> Result<Head, Fault> {
        self.begin(request)?;
        self.give(body).or_else(|fault| self.refused(fault).map(drop))?;
        self.answer()
    }

    /// Sends the head of a request.
    pub(crate) fn begin(&mut self, request: &str) -> Result<(), Fault> {
        self.used = true;
        self.reusable = false;
        self.send(request.as_bytes()).map_err(|error| self.failed(error))
    }

    /// Sends some of the body of a request.
    pub(crate) fn give(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.send(bytes).map_err(|error| self.failed(error))
    }

    /// Whether the other side has answered before it took the body: it says why in that case, and
    /// the answer can be read. Else what failed.
    pub(crate) fn refused(&mut self, fault: Fault) -> Result<(), Fault> {
        let until = Instant::now() + self.stall;
        while matches!(head::parse(&self.early), Ok(None)) {
            if self.more(until).is_err() {
                return Err(fault);
            }
        }
        Ok(())
    }

    /// Waits until the other side asks for the body of a request that said `Expect: 100-continue`, for
    /// no longer than this: not every server knows that. Its answer, if it does not want the body.
    pub(crate) fn invited(&mut self, wait: Duration) -> Result<Option<Head>, Fault> {
        let until = Instant::now() + wait;
        loop {
            match head::parse(&self.early).map_err(Fault::Protocol)? {
                Some((head, len)) if head.status == 100 => {
                    self.early.drain(..len);
                    return Ok(None);
                }
                Some(_) => return self.answer().map(Some),
                None => match self.more(until) {
                    Err(Fault::Stalled(_)) => return Ok(None),
                    more => more?,
                },
            }
        }
    }

    /// Reads the head of the answer to a request that was sent whole.
    pub(crate) fn answer(&mut self) -> Result<Head, Fault> {
        let until = Instant::now() + self.stall;
        loop {
            let answer = head::parse(&self.early).map_err(Fault::Protocol)?;
            let Some((head, len)) = answer else {
                self.more(until)?;
                continue;
            };
            self.early.drain(..len);
            // 1xx only announce the answer.
            if (100..200).contains(&head.status) {
                continue;
            }
            self.from = 0;
            self.left = head.length.unwrap_or_default();
            self.reusable = !head.close && head.length.is_some();
            self.socket.set_read_timeout(Some(self.stall)).map_err(Fault::Broken)?;
            return Ok(head);
        }
    }

    /// Whether no byte of an answer came that was not taken.
    pub(crate) const fn is_silent(&self) -> bool {
        self.early.is_empty()
    }

    /// Reads some of the body. 0 is its end.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> Result<usize, Fault> {
        let most = into.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let into = &mut into[..most];
        if into.is_empty() {
            return Ok(0);
        }
        let early = &self.early[self.from..];
        let got = if early.is_empty() {
            self.receive(into).map_err(|error| self.failed(error))?
        } else {
            let got = early.len().min(into.len());
            into[..got].copy_from_slice(&early[..got]);
            self.from += got;
            got
        };
        if got == 0 {
            return Err(Fault::Cut);
        }
        self.left -= got as u64;
        Ok(got)
    }

    /// Says how long the body is, where its range told it.
    pub(crate) const fn expect(&mut self, len: u64) {
        self.left = len;
    }

    /// Bytes of the body that were not read.
    pub(crate) const fn left(&self) -> u64 {
        self.left
    }

    /// Reads what is left, if it is little; whether the connection can be asked again.
    pub(crate) fn finish(&mut self) -> bool {
        if !self.reusable || self.left > DRAINED {
            return false;
        }
        let mut waste = [0; 4096];
        while self.left > 0 {
            if self.read(&mut waste).is_err() {
                return false;
            }
        }
        self.early.clear();
        self.from = 0;
        true
    }

    /// The beginning of a body that says what was wrong, or done, however it is framed.
    pub(crate) fn explanation(&mut self, head: &Head) -> String {
        let mut text = self.early.split_off(self.from.min(self.early.len()));
        let whole = |text: &[u8]| {
            let told = head.length.is_some_and(|length| text.len() as u64 >= length);
            let ends = |what: &[u8]| text.windows(what.len()).any(|window| window == what);
            told || text.len() >= EXPLAINED || ends(b"</Code>") || ends(b"\r\n0\r\n\r\n")
        };
        let mut step = [0; 4096];
        while !whole(&text) {
            match self.receive(&mut step) {
                Ok(got) if got > 0 => text.extend_from_slice(&step[..got]),
                // What it said is only for the words of an error.
                _ => break,
            }
        }
        self.reusable = false;
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Reads on into the buffer, in a bounded time.
    fn more(&mut self, until: Instant) -> Result<(), Fault> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Fault::Stalled(self.stall));
        }
        self.socket.set_read_timeout(Some(left)).map_err(Fault::Broken)?;
        let had = self.early.len();
        let mut early = std::mem::take(&mut self.early);
        early.resize(had + STEP, 0);
        let got = self.receive(&mut early[had..]);
        early.truncate(had + *got.as_ref().unwrap_or(&0));
        self.early = early;
        match got {
            Ok(0) => Err(Fault::Cut),
            Ok(_) => Ok(()),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: io::Error) -> Fault {
        Fault::of_io(error, self.stall)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut socket = &*self.socket;
        match &mut self.tls {
            Some(tls) => {
                let mut stream = rustls::Stream::new(&mut **tls, &mut socket);
                stream.write_all(bytes)?;
                stream.flush()
            }
            None => socket.write_all(bytes),
        }
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut socket = &*self.socket;
        loop {
            let got = match &mut self.tls {
                Some(tls) => rustls::Stream::new(&mut **tls, &mut socket).read(into),
                None => socket.read(into),
            };
            match got {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                got => return got,
            }
        }
    }
}

fn handshake(
    origin: &Origin,
    config: &Arc<ClientConfig>,
    socket: &TcpStream,
    stall: Duration,
) -> Result<Box<ClientConnection>, Fault> {
    let to = || format!("{}:{}", origin.host, origin.port);
    let wrong = |source| Fault::Tls { to: to(), source };
    let name = ServerName::try_from(origin.host.clone())
        .map_err(|error| wrong(rustls::Error::General(error.to_string())))?;
    let mut tls = Box::new(ClientConnection::new(Arc::clone(config), name).map_err(wrong)?);
    while tls.is_handshaking() {
        tls.complete_io(&mut &*socket).map_err(|error| {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            let inner = inner.cloned();
            inner.map_or_else(|| Fault::of_io(error, stall), wrong)
        })?;
    }
    Ok(tls)
}
