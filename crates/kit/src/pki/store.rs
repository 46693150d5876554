//! The files: PEM, mode 0600, replaced atomically, in a directory of mode 0700.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rcgen::KeyPair;

use super::PkiError;
use super::issue::Certificate;

#[derive(Clone, Debug)]
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn open(path: PathBuf) -> Result<Self, PkiError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(failed("create directory", &path))?;
        Ok(Self(path))
    }

    pub(super) fn key_path(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.key"))
    }

    pub(super) fn certificate_path(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.crt"))
    }

    pub(super) fn key(&self, name: &str) -> Result<Option<KeyPair>, PkiError> {
        let path = self.key_path(name);
        read(&path)?
            .map(|pem| {
                KeyPair::from_pem(&pem).map_err(|source| PkiError::ParseKey { path, source })
            })
            .transpose()
    }

    pub(super) fn certificate(&self, name: &str) -> Result<Option<Certificate>, PkiError> {
        let path = self.certificate_path(name);
        read(&path)?
            .map(|pem| Certificate::from_pem(pem).ok_or(PkiError::ParseCertificate { path }))
            .transpose()
    }

    pub(super) fn write_key(&self, name: &str, key: &KeyPair) -> Result<(), PkiError> {
        self.replace(&self.key_path(name), &key.serialize_pem())
    }

    pub(super) fn write_certificate(&self, name: &str, pem: &str) -> Result<(), PkiError> {
        self.replace(&self.certificate_path(name), pem)
    }

    /// Leaves the file alone if it says the same already.
    pub(super) fn write_public_key(&self, name: &str, pem: &str) -> Result<(), PkiError> {
        let path = self.0.join(format!("{name}.pub"));
        if read(&path)?.as_deref() == Some(pem) { Ok(()) } else { self.replace(&path, pem) }
    }

    /// After a crash at any point the file holds either its old or its new content in full.
    fn replace(&self, path: &Path, content: &str) -> Result<(), PkiError> {
        let mut draft = path.to_owned().into_os_string();
        draft.push(".new");
        let draft = PathBuf::from(draft);
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(failed("remove the stale", &draft)(error));
            }
            _ => {}
        }
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)
            .and_then(|mut file| {
                file.write_all(content.as_bytes())?;
                file.sync_all()
            })
            .map_err(failed("write", &draft))?;
        fs::rename(&draft, path).map_err(failed("replace", path))?;
        File::open(&self.0)
            .and_then(|directory| directory.sync_all())
            .map_err(failed("sync", &self.0))
    }
}

fn read(path: &Path) -> Result<Option<String>, PkiError> {
    match fs::read_to_string(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> PkiError {
    let path = path.to_owned();
    move |source| PkiError::File { operation, path, source }
}
