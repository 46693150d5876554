//! Where things lie on this machine when nobody says otherwise.

use std::env;
use std::path::{Path, PathBuf};

/// The name of the site that `up` makes when nobody describes one.
pub(crate) const DEMO: &str = "demo";

/// The name under which `simulate site` keeps its things.
pub(crate) const SITE: &str = "site";

/// `$XDG_DATA_HOME/seatrial/NAME`, or `~/.local/share/seatrial/NAME`.
pub(crate) fn data_dir(name: &str) -> PathBuf {
    let home = || env::var_os("HOME").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let base = env::var_os("XDG_DATA_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .unwrap_or_else(|| home().join(".local/share"));
    base.join("seatrial").join(name)
}

/// The administrator's kubeconfig of the server of a data directory.
pub(crate) fn kubeconfig_of(directory: &Path) -> PathBuf {
    directory.join("kubeconfig")
}

/// The kubeconfig that kubectl would write to.
pub(crate) fn user_kubeconfig() -> Option<PathBuf> {
    let listed = env::var_os("KUBECONFIG").unwrap_or_default();
    let first = env::split_paths(&listed).find(|path| !path.as_os_str().is_empty());
    first.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".kube/config")))
}

/// A path as people write it, with `~` for their home.
pub(crate) fn short(path: &Path) -> String {
    let home = env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    match home.as_deref().and_then(|home| path.strip_prefix(home).ok()) {
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}
