//! Keys from files and the environment. None is ever printed or taken as an argument.

use std::io;
use std::path::{Path, PathBuf};

use stream::{Format, Model, Secret};

/// 64 hexadecimal digits.
const KEY: &str = "SEATRIAL_TENSORS_KEY";

/// A line.
const PASSPHRASE: &str = "SEATRIAL_TENSORS_PASSPHRASE";

/// Where a key is.
#[derive(clap::Args)]
pub(super) struct From {
    /// A key of 32 bytes, as they are or as 64 hexadecimal digits
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// A line from which the key is derived
    #[arg(long, value_name = "FILE", conflicts_with = "key_file")]
    passphrase_file: Option<PathBuf>,
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
enum SecretError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{place} holds no key: 32 bytes or 64 hexadecimal digits are expected")]
    NoKey { place: String },
    #[error("{place} holds no passphrase: its first line is empty")]
    NoPassphrase { place: String },
    #[error(
        "a key is needed: name its file with --key-file or --passphrase-file, or set {KEY} or {PASSPHRASE}"
    )]
    None,
}

type Found = Result<Option<Secret>, Box<dyn std::error::Error + Send + Sync>>;

impl From {
    /// The secret that is named, or the environment's.
    pub(super) fn needed(&self) -> Result<Secret, Box<dyn std::error::Error + Send + Sync>> {
        match self.named()? {
            Some(secret) => Ok(secret),
            None => Ok(environment()?.ok_or(SecretError::None)?),
        }
    }

    /// The secret for a file: what is named, and the environment's only if the file is encrypted.
    pub(super) fn for_model(&self, model: &Model) -> Found {
        let encrypted = matches!(model.format(), Format::Tensorizer { encrypted: true, .. });
        match self.named()? {
            None if encrypted => self.needed().map(Some),
            named => Ok(named),
        }
    }

    fn named(&self) -> Found {
        let place = |path: &Path| path.display().to_string();
        match (&self.key_file, &self.passphrase_file) {
            (Some(path), _) => Ok(Some(key(&read(path)?, place(path))?)),
            (_, Some(path)) => Ok(Some(passphrase(&read(path)?, place(path))?)),
            _ => Ok(None),
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, SecretError> {
    std::fs::read(path).map_err(|source| SecretError::Read { path: path.to_owned(), source })
}

fn environment() -> Result<Option<Secret>, SecretError> {
    use std::os::unix::ffi::OsStrExt as _;
    if let Some(text) = std::env::var_os(KEY) {
        return key(text.as_bytes(), KEY.to_owned()).map(Some);
    }
    let text = std::env::var_os(PASSPHRASE);
    text.map(|text| passphrase(text.as_bytes(), PASSPHRASE.to_owned())).transpose()
}

fn key(bytes: &[u8], place: String) -> Result<Secret, SecretError> {
    if let Ok(key) = bytes.try_into() {
        return Ok(Secret::key(key));
    }
    let text = bytes.trim_ascii();
    let digit =
        |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits: Option<Vec<u8>> = text.iter().map(digit).collect();
    let key = digits.filter(|digits| digits.len() == 64).map(|digits| {
        let mut key = [0; 32];
        for (byte, pair) in key.iter_mut().zip(digits.as_chunks::<2>().0) {
            *byte = pair[0] << 4 | pair[1];
        }
        Secret::key(key)
    });
    key.ok_or(SecretError::NoKey { place })
}

fn passphrase(bytes: &[u8], place: String) -> Result<Secret, SecretError> {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        Err(SecretError::NoPassphrase { place })
    } else {
        Ok(Secret::passphrase(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_bytes_or_digits() {
        let taken = |bytes: &[u8]| key(bytes, "here".to_owned()).is_ok();
        assert!(taken(&[0xff; 32]));
        assert!(taken(&[b'a'; 64]));
        assert!(taken(format!("{}\n", "0F".repeat(32)).as_bytes()));
        assert!(!taken(&[b'g'; 64]) && !taken(&[b'a'; 63]) && !taken(b""));
        let told = key(b"hunter2", "here".to_owned()).unwrap_err().to_string();
        assert!(!told.contains("hunter2"), "{told}");
        assert!(passphrase(b"\nx", "here".to_owned()).is_err());
    }
}
