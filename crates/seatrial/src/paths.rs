//! Where things lie on this machine when nobody says otherwise.

use std::env;
use std::path::{Path, PathBuf};

/// `$XDG_DATA_HOME/seatrial/NAME`, or `~/.local/share/seatrial/NAME`.
pub(crate) fn data_dir(name: &str) -> PathBuf {
    let home = || env::var_os("HOME").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let base = env::var_os("XDG_DATA_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .unwrap_or_else(|| home().join(".local/share"));
    base.join("seatrial").join(name)
}

/// A path as people write it, with `~` for their home.
pub(crate) fn short(path: &Path) -> String {
    let home = env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    match home.as_deref().and_then(|home| path.strip_prefix(home).ok()) {
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}
