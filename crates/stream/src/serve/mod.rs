//! Models for others: a directory, or a cache in front of an origin, over HTTP/1.1 with ranges.
//!
//! A connection is a thread with a small stack, which waits in the kernel: for a request, or in
//! `sendfile`, which brings a file's bytes from the page cache to the socket (docs/adr/0010). What may be
//! asked for is read only. There is no TLS and no right to be asked: whoever reaches the address reads
//! all of it, hidden and temporary files aside.
//!
//! From the wire up: [`request`] reads a head, [`path`] and [`range`] what it asks for, [`verdict`] holds
//! its conditions against what is there; all of that is pure. [`root`] is what is served: a [`folder`]
//! or a [`cache`]. [`connection`] answers, [`gate`] knows who is connected, [`metrics`] counts and
//! [`scrape`] tells it.

mod cache;
mod connection;
mod folder;
mod gate;
mod metrics;
mod path;
mod range;
mod refusal;
mod request;
mod root;
mod scrape;
mod verdict;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cache::Cache;
pub use cache::{Cached, Origin, Peers};
use connection::Connection;
use folder::Folder;
use gate::Gate;
use metrics::Metrics;
use root::Root;

/// Bytes of a connection's stack, of which it touches a few pages.
const STACK: usize = 128 << 10;

/// How long is waited before connections are accepted again when the system has no room for one.
const BREATH: Duration = Duration::from_millis(50);

/// What is served.
#[derive(Clone, Debug)]
pub enum Served {
    /// The files of a directory.
    Folder(PathBuf),
    /// The objects of an origin.
    Cached(Box<Cached>),
}

/// What bounds clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time. One more is answered 503.
    pub connections: usize,
    /// How long a connection may be without a request.
    pub idle: Duration,
    /// How long the head of a request may take from its first byte to its last.
    pub head: Duration,
    /// How long a client may take nothing of an answer.
    pub stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            idle: Duration::from_secs(60),
            head: Duration::from_secs(10),
            stall: Duration::from_secs(30),
        }
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The directory cannot be opened.
    #[error("cannot serve {}: is it a directory that may be read?", path.display())]
    Folder {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: name another address or stop who has it")]
    Listen {
        /// Which one.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The cache's directory cannot be used.
    #[error("cannot keep a cache in {}", path.display())]
    CacheDir {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The cache has no room for what is read and sent at once.
    #[error("a cache of {bytes} bytes is too small: give it {least} at least")]
    CacheSmall {
        /// What it was given.
        bytes: u64,
        /// What it needs.
        least: u64,
    },
    /// The disk has not as much room.
    #[error("{} has room for {free} bytes: give the cache no more, or another directory", path.display())]
    DiskSmall {
        /// The cache's directory.
        path: PathBuf,
        /// What is free there, with what the cache has already.
        free: u64,
    },
    /// A thread cannot be started.
    #[error("no thread can be started")]
    Thread(#[source] io::Error),
}

/// A server that runs until it is stopped or dropped, which cuts off whoever is being answered.
#[derive(Debug)]
pub struct Server {
    gate: Arc<Gate>,
    listening: Listening,
    scraped: Option<Listening>,
}

/// A listener, and the thread that accepts its connections.
#[derive(Debug)]
struct Listening {
    listener: Arc<TcpListener>,
    address: SocketAddr,
    over: Arc<AtomicBool>,
    /// Until it is stopped.
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves at an address (port 0 takes any free one), and tells Prometheus at `/metrics` of another
    /// if there is one.
    ///
    /// # Errors
    /// If an address, the directory or the cache's directory cannot be used, or the cache is too small.
    pub fn start(
        served: Served,
        listen: SocketAddr,
        metrics_listen: Option<SocketAddr>,
        limits: Limits,
    ) -> Result<Self, ServeError> {
        let metrics = Arc::<Metrics>::default();
        let root = Arc::new(match served {
            Served::Folder(path) => {
                let folder = Folder::open(&path);
                Root::Folder(folder.map_err(|source| ServeError::Folder { path, source })?)
            }
            Served::Cached(how) => Root::Cache(Arc::new(Cache::open(*how, Arc::clone(&metrics))?)),
        });
        let gate = Arc::new(Gate::new(limits.connections));
        let scraped = match metrics_listen {
            Some(address) => {
                let metrics = Arc::clone(&metrics);
                Some(Listening::start(address, move |socket| scrape::answer(&socket, &metrics))?)
            }
            None => None,
        };
        let within = Arc::clone(&gate);
        let listening = Listening::start(listen, move |socket| {
            let (root, metrics) = (Arc::clone(&root), Arc::clone(&metrics));
            accept(socket, root, metrics, &within, limits);
        })?;
        Ok(Self { gate, listening, scraped })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.listening.address
    }

    /// Where its metrics are.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.scraped.as_ref().map(|scraped| scraped.address)
    }

    /// Accepts nobody more, lets answers under way end for so long, and then cuts them off. Whether
    /// none had to be. What a cache reads from its origin just then goes on until it is read.
    pub fn stop(mut self, grace: Duration) -> bool {
        self.listening.stop();
        self.gate.close(grace)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.gate.close(Duration::ZERO);
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Listening {
    fn start(
        address: SocketAddr,
        each: impl Fn(TcpStream) + Send + 'static,
    ) -> Result<Self, ServeError> {
        let wrong = |source| ServeError::Listen { address, source };
        let listener = Arc::new(TcpListener::bind(address).map_err(wrong)?);
        let address = listener.local_addr().map_err(wrong)?;
        let over = Arc::new(AtomicBool::new(false));
        let (mine, ended) = (Arc::clone(&listener), Arc::clone(&over));
        let accepting = move || {
            while !ended.load(Ordering::SeqCst) {
                match mine.accept() {
                    Ok((socket, _)) => each(socket),
                    // No files or memory left, or the client was gone before it was accepted.
                    Err(_) => thread::park_timeout(BREATH),
                }
            }
        };
        let thread = thread::Builder::new().name("accept".to_owned()).spawn(accepting);
        let thread = Some(thread.map_err(ServeError::Thread)?);
        Ok(Self { listener, address, over, thread })
    }

    fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.over.store(true, Ordering::SeqCst);
        // Wakes who accepts; on Linux that ends the queue of connections too.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        thread.thread().unpark();
        // It has nothing to say, whether it panicked or not.
        let _ = thread.join();
    }
}

fn accept(
    socket: TcpStream,
    root: Arc<Root>,
    metrics: Arc<Metrics>,
    gate: &Arc<Gate>,
    limits: Limits,
) {
    let socket = Arc::new(socket);
    let Some(pass) = gate.enter(&socket) else {
        metrics.turned_away.add(1);
        connection::turn_away(&socket);
        return;
    };
    let bounded =
        socket.set_nodelay(true).and_then(|()| socket.set_write_timeout(Some(limits.stall)));
    if bounded.is_err() {
        return;
    }
    metrics.accepted.add(1);
    let run = move || {
        metrics.connections.add(1);
        let connection = Connection { socket, root, metrics, limits, pass };
        connection.run();
        connection.metrics.connections.take(1);
    };
    // Without a thread the socket is closed, and the client comes back.
    let _ = thread::Builder::new().name("serve".to_owned()).stack_size(STACK).spawn(run);
}
