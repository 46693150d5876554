//! `seatrial backup`: everything that a server on this machine holds, in one file.
//!
//! A running server is asked for its snapshot, as of one revision and without a pause; the data
//! directory of one that does not run is read. The keys of the cluster's authorities are not in
//! it: they stay in the data directory's `pki/`.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use http_body_util::BodyExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use store::{DiskOptions, DiskStore, Store as _};

use super::Outcome;
use crate::paths;

/// Where the server hands out its snapshot.
const SNAPSHOT: &str = "/seatrial/snapshot";

/// Arguments of `backup`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial backup site.snapshot\n  seatrial backup --data-dir /var/lib/seatrial site.snapshot\n  seatrial backup --kubeconfig admin.kubeconfig site.snapshot\n\n`seatrial restore` makes a data directory of it. All secrets are in the file; it is written for\nits owner's eyes only."
)]
pub(crate) struct Args {
    /// Write the backup here; it appears whole or not at all
    file: PathBuf,
    /// The server's data directory [default: ~/.local/share/seatrial/default]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Ask the server of this kubeconfig, as its administrator
    #[arg(long, value_name = "FILE", conflicts_with = "data_dir")]
    kubeconfig: Option<PathBuf>,
}

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
enum BackupError {
    #[error("there is no data in {}; name the server's directory with --data-dir", path.display())]
    Nothing { path: PathBuf },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("cannot use the kubeconfig {}", path.display())]
    Kubeconfig { path: PathBuf, source: kube::config::KubeconfigError },
    #[error("cannot reach the server of {}", path.display())]
    Ask { path: PathBuf, source: Box<kube::Error> },
    #[error(
        "the server of {} answered {code} to {SNAPSHOT}; {}", path.display(),
        if *code == 404 { "it is no embedded Seatrial server: back up its etcd" }
        else { "ask as its administrator" }
    )]
    Refused { path: PathBuf, code: u16 },
    #[error("the server broke off; nothing was written")]
    BrokeOff(#[source] std::io::Error),
}

/// Writes the backup.
pub(crate) fn run(args: &Args) -> Outcome {
    let file = Target::create(&args.file)?;
    let bytes = match &args.kubeconfig {
        Some(kubeconfig) => ask(kubeconfig, file)?,
        None => {
            let directory = args.data_dir.clone().unwrap_or_else(|| paths::data_dir("default"));
            of_directory(&directory, file)?
        }
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}: {}", args.file.display(), size(bytes))?;
    writeln!(out, "  seatrial restore {} --data-dir DIR", args.file.display())?;
    Ok(())
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// From the directory itself, or from the server that has it open.
fn of_directory(
    directory: &Path,
    mut file: Target,
) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    let data = directory.join("store");
    if !data.join("store.redb").exists() {
        return Err(BackupError::Nothing { path: directory.to_owned() }.into());
    }
    let store = match DiskStore::open(&data, DiskOptions::default()) {
        Ok(store) => store,
        Err(store::Error::Locked { .. }) => return ask(&paths::kubeconfig_of(directory), file),
        Err(error) => return Err(error.into()),
    };
    for chunk in store.snapshot().into_chunks() {
        file.write(&chunk)?;
    }
    Ok(file.publish()?)
}

fn ask(kubeconfig: &Path, file: Target) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(download(kubeconfig, file))?)
}

async fn download(path: &Path, mut file: Target) -> Result<u64, BackupError> {
    let unusable = |source| BackupError::Kubeconfig { path: path.to_owned(), source };
    let kubeconfig = Kubeconfig::read_from(path).map_err(unusable)?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let failed = |source| BackupError::Ask { path: path.to_owned(), source: Box::new(source) };
    let client = kube::Client::try_from(config.map_err(unusable)?).map_err(failed)?;
    let request = http::Request::get(SNAPSHOT)
        .body(kube::client::Body::empty())
        .map_err(|error| failed(kube::Error::HttpError(error)))?;
    let response = client.send(request).await.map_err(failed)?;
    if !response.status().is_success() {
        let code = response.status().as_u16();
        return Err(BackupError::Refused { path: path.to_owned(), code });
    }
    let mut body = std::pin::pin!(response.into_body());
    let broken = |error| BackupError::BrokeOff(std::io::Error::other(error));
    while let Some(frame) = body.frame().await {
        if let Ok(chunk) = frame.map_err(broken)?.into_data() {
            file.write(&chunk)?;
        }
    }
    file.publish()
}

/// A file that appears when it is complete.
struct Target {
    path: PathBuf,
    file: BufWriter<tempfile::NamedTempFile>,
    written: u64,
}

impl Target {
    fn create(path: &Path) -> Result<Self, BackupError> {
        let failed = |source| BackupError::Write { path: path.to_owned(), source };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let file = tempfile::NamedTempFile::new_in(parent.unwrap_or(Path::new(".")));
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file.map_err(failed)?), written: 0 })
    }

    fn write(&mut self, chunk: &[u8]) -> Result<(), BackupError> {
        self.written += chunk.len() as u64;
        let done = self.file.write_all(chunk);
        done.map_err(|source| BackupError::Write { path: self.path.clone(), source })
    }

    fn publish(self) -> Result<u64, BackupError> {
        let Self { path, file, written } = self;
        let failed = |source| BackupError::Write { path: path.clone(), source };
        let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(written)
    }
}
