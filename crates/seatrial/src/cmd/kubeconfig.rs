//! `seatrial kubeconfig`: the administrator's kubeconfig of a server on this machine.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Outcome;
use crate::kubeconfig::{self, merge};
use crate::paths;

/// Arguments of `kubeconfig`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial kubeconfig > admin.kubeconfig\n  seatrial kubeconfig --merge\n  seatrial kubeconfig --merge --into ~/.kube/lab --name lab --use\n\nWhat other clusters have in the file is never changed."
)]
pub(crate) struct Args {
    /// The server's data directory [default: ~/.local/share/seatrial/default]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Take it into a kubeconfig file instead of printing it
    #[arg(long)]
    merge: bool,
    /// The file [default: the first of KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "FILE", requires = "merge")]
    into: Option<PathBuf>,
    /// What to call the cluster and its context
    #[arg(long, value_name = "NAME", default_value = "seatrial")]
    name: String,
    /// Make it the current context
    #[arg(long = "use", requires = "merge")]
    switch: bool,
}

/// Why there is nothing to print, or nothing was merged.
#[derive(Debug, thiserror::Error)]
enum KubeconfigError {
    #[error(
        "no server has run with the data directory {}; start one with `seatrial serve`, or name \
         another with --data-dir",
        path.display()
    )]
    Nothing { path: PathBuf },
    #[error("cannot read the kubeconfig {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("the kubeconfig {} is not YAML; mend or move it", path.display())]
    Parse { path: PathBuf, source: Box<serde_saphyr::Error> },
    #[error("cannot merge into {}", path.display())]
    Merge { path: PathBuf, source: merge::MergeError },
    #[error("neither KUBECONFIG nor HOME says where your kubeconfig is; name it with --into")]
    Homeless,
}

/// Prints or merges the kubeconfig.
pub(crate) fn run(args: &Args) -> Outcome {
    let directory = args.data_dir.clone().unwrap_or_else(|| paths::data_dir("default"));
    let path = paths::kubeconfig_of(&directory);
    let mut ours = match read(&path)? {
        Value::Null => return Err(KubeconfigError::Nothing { path: directory }.into()),
        document => document,
    };
    merge::rename(&mut ours, &args.name);
    if !args.merge {
        let text = serde_saphyr::to_string(&ours)?;
        return Ok(std::io::stdout().write_all(text.as_bytes())?);
    }
    let into =
        args.into.clone().or_else(paths::user_kubeconfig).ok_or(KubeconfigError::Homeless)?;
    let merged = merge::merge(read(&into)?, &ours, args.switch)
        .map_err(|source| KubeconfigError::Merge { path: into.clone(), source })?;
    kubeconfig::write(&into, &merged)?;
    let name = &args.name;
    let next = if merged["current-context"] == name.as_str() {
        "kubectl get namespaces".to_owned()
    } else {
        format!("kubectl --context {name} get namespaces")
    };
    writeln!(std::io::stdout(), "{} now has the context {name:?}: {next}", into.display())?;
    Ok(())
}

/// A kubeconfig; null where there is none.
fn read(path: &Path) -> Result<Value, KubeconfigError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) if text.trim().is_empty() => return Ok(Value::Null),
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Value::Null),
        Err(source) => return Err(KubeconfigError::Read { path: path.to_owned(), source }),
    };
    serde_saphyr::from_str(&text).map_err(|source| KubeconfigError::Parse {
        path: path.to_owned(),
        source: Box::new(source),
    })
}
