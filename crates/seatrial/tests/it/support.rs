//! What the tests share: running servers, and a client of a hundred lines.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

/// Nothing here takes this long unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn seatrial(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seatrial"));
    command.args(args).env_remove("SEATRIAL_LOG").env_remove("RUST_LOG");
    command
}

/// Runs the binary to its end.
pub(crate) fn run(args: &[&str]) -> Output {
    seatrial(args).output().unwrap()
}

/// A running `seatrial serve`. Killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    /// What it says on standard output, line by line.
    said: Receiver<String>,
    pub(crate) address: String,
    pub(crate) kubeconfig: PathBuf,
}

impl Server {
    /// Starts `serve` with a kubeconfig in `directory`, and waits until it says that it is ready.
    pub(crate) fn start(directory: &Path, args: &[&str]) -> Self {
        let kubeconfig = directory.join("kubeconfig");
        let mut command = seatrial(&["serve", "--kubeconfig", kubeconfig.to_str().unwrap()]);
        if !args.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let mut child =
            command.args(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (say, said) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if say.send(line).is_err() {
                    return;
                }
            }
        });
        let mut server = Self { child, said, address: String::new(), kubeconfig };
        while !server.hear().starts_with("Ctrl-C") {}
        let url = config(&server.kubeconfig).pointer("/clusters/0/cluster/server").cloned();
        server.address = url.unwrap().as_str().unwrap().replace("https://", "");
        assert_eq!(server.get(&Who::Admin, "/readyz").text(), "ok");
        server
    }

    fn hear(&self) -> String {
        self.said.recv_timeout(PATIENCE).expect("the server says nothing")
    }

    pub(crate) fn in_memory(directory: &Path) -> Self {
        Self::start(directory, &["--in-memory"])
    }

    pub(crate) fn get(&self, who: &Who<'_>, path: &str) -> Answer {
        self.send(who, "GET", path, "").unwrap()
    }

    /// Sends a request with a JSON body, and reads the whole answer.
    pub(crate) fn send(
        &self,
        who: &Who<'_>,
        method: &str,
        path: &str,
        body: &str,
    ) -> std::io::Result<Answer> {
        send(&self.kubeconfig, &self.address, who, method, path, body)
    }

    /// A connection on which a request was sent and not read.
    pub(crate) fn ask(&self, who: &Who<'_>, path: &str) -> impl BufRead + use<> {
        let stream = ask(&self.kubeconfig, &self.address, who, "GET", path, "").unwrap();
        BufReader::new(stream)
    }

    pub(crate) fn terminate(&self) {
        let id = self.child.id().to_string();
        let killed = Command::new("sh").args(["-c", "kill -TERM \"$0\"", &id]).status().unwrap();
        assert!(killed.success());
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it has ended.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let began = Instant::now();
        // Its output ends when it does.
        while began.elapsed() < PATIENCE {
            match self.said.recv_timeout(PATIENCE) {
                Ok(_) => {}
                Err(_) => return self.child.wait().unwrap(),
            }
        }
        panic!("the server does not stop");
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Who a request is from.
pub(crate) enum Who<'a> {
    /// The certificate in the kubeconfig.
    Admin,
    Token(&'a str),
    Nobody,
}

pub(crate) fn config(kubeconfig: &Path) -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(kubeconfig).unwrap()).unwrap()
}

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

fn connect(kubeconfig: &Path, address: &str, who: &Who<'_>) -> std::io::Result<Stream> {
    let config = config(kubeconfig);
    let pem = |pointer: &str| {
        STANDARD.decode(config.pointer(pointer).unwrap().as_str().unwrap()).unwrap()
    };
    let mut roots = RootCertStore::empty();
    let authority = pem("/clusters/0/cluster/certificate-authority-data");
    roots.add(CertificateDer::from_pem_slice(&authority).unwrap()).unwrap();
    let tls = ClientConfig::builder().with_root_certificates(roots);
    let tls = match who {
        Who::Admin => {
            let certificate = pem("/users/0/user/client-certificate-data");
            let key = pem("/users/0/user/client-key-data");
            let certificate = CertificateDer::from_pem_slice(&certificate).unwrap();
            let key = PrivateKeyDer::from_pem_slice(&key).unwrap();
            tls.with_client_auth_cert(vec![certificate], key).unwrap()
        }
        _ => tls.with_no_client_auth(),
    };
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let name = ServerName::try_from("localhost").unwrap();
    let tls = ClientConnection::new(Arc::new(tls), name).unwrap();
    Ok(StreamOwned::new(tls, socket))
}

fn ask(
    kubeconfig: &Path,
    address: &str,
    who: &Who<'_>,
    method: &str,
    path: &str,
    body: &str,
) -> std::io::Result<Stream> {
    let mut stream = connect(kubeconfig, address, who)?;
    let authorization = match who {
        Who::Token(token) => format!("Authorization: Bearer {token}\r\n"),
        _ => String::new(),
    };
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{authorization}\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    stream.flush()?;
    Ok(stream)
}

/// A watch, line by line.
pub(crate) fn watch(kubeconfig: &Path, address: &str, path: &str) -> impl BufRead + use<> {
    BufReader::new(ask(kubeconfig, address, &Who::Admin, "GET", path, "").unwrap())
}

/// One request, on a connection of its own.
pub(crate) fn send(
    kubeconfig: &Path,
    address: &str,
    who: &Who<'_>,
    method: &str,
    path: &str,
    body: &str,
) -> std::io::Result<Answer> {
    let mut reader = BufReader::new(ask(kubeconfig, address, who, method, path, body)?);
    let broken = || std::io::Error::other("the answer breaks off");
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let code = line.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(broken)?;
    let mut length = 0;
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err(broken());
        }
        let header = line.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length: ") {
            length = value.parse().map_err(|_| broken())?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Answer { code, body })
}
