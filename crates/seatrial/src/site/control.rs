//! How others in this machine break and mend the simulated hardware of a running site: a socket in its
//! data directory, which only the directory's owner can open.
//!
//! One request and one answer a connection, each a line of JSON. It reaches the hardware and nothing
//! else: whatever follows, controllers must find out for themselves.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sim::datacentre::{Datacentre, Heal};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// No request is longer.
const MAX_LINE: u64 = 64 << 10;
/// Nobody thinks longer about one.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is asked of the hardware.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub(crate) enum Ask {
    /// Break a machine.
    Fault {
        /// The word for it, or a row of the catalogue.
        word: String,
        /// Machines, or `leaf/NAME`, or `pdu/NAME`.
        on: Vec<String>,
        /// The part.
        part: Option<String>,
    },
    /// Mend a machine.
    Heal {
        /// The word of the fault; everything if none is named.
        word: Option<String>,
        /// Machines.
        on: Vec<String>,
    },
    /// What is broken.
    List,
}

/// What came of it: lines for people, or why not.
pub(crate) type Answer = Result<Vec<String>, String>;

/// Why the hardware cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    #[error(
        "no simulated site runs in {}; start one with `seatrial up`, or name its directory with --data-dir",
        path.display()
    )]
    Nobody { path: PathBuf },
    #[error("the simulated site of {} broke off", path.display())]
    BrokeOff { path: PathBuf, source: std::io::Error },
    #[error("cannot open the socket {}; choose a shorter --data-dir", path.display())]
    Open { path: PathBuf, source: std::io::Error },
}

fn socket(directory: &Path) -> PathBuf {
    directory.join("simulator.sock")
}

/// Opens the socket. The directory's lock is held, so one that lies there is a dead process's.
///
/// # Errors
/// If there can be none.
pub(crate) fn listen(directory: &Path) -> Result<UnixListener, ControlError> {
    let path = socket(directory);
    let open = |source| ControlError::Open { path: path.clone(), source };
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(open(error)),
        _ => {}
    }
    let listener = UnixListener::bind(&path).map_err(open)?;
    let owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&path, owner).map_err(open)?;
    Ok(listener)
}

/// Answers for as long as the site runs.
pub(crate) async fn serve(listener: UnixListener, datacentre: Datacentre) {
    loop {
        // One that fails to connect is gone; the next is another.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let datacentre = datacentre.clone();
        tokio::spawn(async move {
            let _ = tokio::time::timeout(PATIENCE, converse(stream, &datacentre)).await;
        });
    }
}

async fn converse(stream: UnixStream, datacentre: &Datacentre) -> std::io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    BufReader::new(reader.take(MAX_LINE)).read_line(&mut line).await?;
    let answer: Answer = match serde_json::from_str(&line) {
        Ok(ask) => answer(datacentre, ask),
        Err(error) => Err(format!("not a request: {error}")),
    };
    let mut text = serde_json::to_vec(&answer)?;
    text.push(b'\n');
    writer.write_all(&text).await?;
    writer.shutdown().await
}

fn answer(datacentre: &Datacentre, ask: Ask) -> Answer {
    match ask {
        Ask::Fault { word, on, part } => {
            let mut fault = datacentre.faults().named(&word).map_err(|error| error.to_string())?;
            if let Some(part) = part {
                fault.part = part;
            }
            let mut lines = Vec::new();
            for name in on {
                let struck = match name.split_once('/') {
                    Some(("leaf", leaf)) => datacentre.strike_leaf(leaf, &fault),
                    Some(("pdu", pdu)) => datacentre.strike_pdu(pdu, &fault),
                    _ => {
                        let machine = machine(datacentre, &name)?;
                        let id = machine.strike(fault.clone());
                        vec![(machine, id)]
                    }
                };
                if struck.is_empty() {
                    return Err(format!("{name:?} has no machines: kubectl get switches,racks"));
                }
                let what = fault.row.as_deref().unwrap_or(&fault.word);
                lines.extend(
                    struck
                        .iter()
                        .map(|(machine, _)| format!("{}: {word} ({what})", machine.name())),
                );
            }
            Ok(lines)
        }
        Ask::Heal { word, on } => {
            let heal = word.map_or(Heal::All, Heal::Named);
            let mut lines = Vec::new();
            for name in on {
                let ended = machine(datacentre, &name)?.heal(&heal);
                lines.push(format!("{name}: {ended} faults ended"));
            }
            Ok(lines)
        }
        Ask::List => Ok(datacentre
            .machines()
            .flat_map(|machine| {
                let name = machine.name().to_owned();
                machine.faults().into_iter().map(move |(_, fault)| {
                    let row = fault.row.as_deref().unwrap_or("shows nothing");
                    format!("{name}: {} ({row}) {}", fault.word, fault.part).trim_end().to_owned()
                })
            })
            .collect()),
    }
}

fn machine(datacentre: &Datacentre, name: &str) -> Result<sim::datacentre::Hardware, String> {
    datacentre.machine(name).ok_or_else(|| {
        let like = |other: &&str| strsim::jaro_winkler(other, name);
        let names: Vec<String> = datacentre.machines().map(|m| m.name().to_owned()).collect();
        let nearest = names
            .iter()
            .map(String::as_str)
            .max_by(|a, b| like(a).total_cmp(&like(b)))
            .unwrap_or_default();
        format!("there is no machine {name:?}; the nearest is {nearest:?} (kubectl get machines)")
    })
}

/// Asks the site that runs in a directory.
///
/// # Errors
/// If none runs there.
pub(crate) async fn ask(directory: &Path, ask: &Ask) -> Result<Answer, ControlError> {
    let path = socket(directory);
    let nobody = |_| ControlError::Nobody { path: directory.to_owned() };
    let stream = UnixStream::connect(&path).await.map_err(nobody)?;
    let broke = |source| ControlError::BrokeOff { path: directory.to_owned(), source };
    let exchange = async {
        let (reader, mut writer) = stream.into_split();
        let mut text = serde_json::to_vec(ask)?;
        text.push(b'\n');
        writer.write_all(&text).await?;
        let mut line = String::new();
        BufReader::new(reader).read_line(&mut line).await?;
        Ok(serde_json::from_str(&line)?)
    };
    exchange.await.map_err(broke)
}
