//! Kubeconfig files: how clients find the server and prove who they are.

pub(crate) mod merge;

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::pki::Credential;
use serde_json::{Value, json};

/// A kubeconfig that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the kubeconfig {}; choose another place with --kubeconfig", path.display())]
pub(crate) struct WriteKubeconfig {
    path: PathBuf,
    source: std::io::Error,
}

/// The kubeconfig of one user of one server.
pub(crate) fn document(server: &str, authority_pem: &str, user: &Credential) -> Value {
    let base64 = |text: &str| STANDARD.encode(text);
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "seatrial", "cluster": {
            "server": server,
            "certificate-authority-data": base64(authority_pem),
        }}],
        "users": [{"name": "seatrial-admin", "user": {
            "client-certificate-data": base64(&user.certificate_pem),
            "client-key-data": base64(&user.key_pem),
        }}],
        "contexts": [{"name": "seatrial", "context": {
            "cluster": "seatrial", "user": "seatrial-admin",
        }}],
        "current-context": "seatrial",
    })
}

/// Writes a kubeconfig for its owner's eyes only, whole or not at all.
pub(crate) fn write(path: &Path, document: &Value) -> Result<(), WriteKubeconfig> {
    let failed = |source| WriteKubeconfig { path: path.to_owned(), source };
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    // Through a link, to where it leads.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(name);
    let text = serde_saphyr::to_string(document).map_err(std::io::Error::other).map_err(failed)?;
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    std::fs::rename(&temporary, path).map_err(failed)
}
