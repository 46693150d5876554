//! Secrets, and the keys that come of them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use argon2::{Algorithm, Argon2, Params, Version};
use zeroize::Zeroizing;

use crate::format::crypt::Derivation;

/// A key, held where it is wiped.
pub(crate) type Key = Arc<Zeroizing<[u8; 32]>>;

/// Derivations that one file may ask for; the official writer's files ask for one.
const MAX_DERIVATIONS: usize = 16;

/// libsodium's "moderate", the official writer's default: about a second.
const PASSES: u64 = 3;
const MEMORY: u64 = 256 << 20;

/// What opens an encrypted model. Never shown.
pub struct Secret(Kind);

enum Kind {
    Key(Key),
    Passphrase(Zeroizing<Vec<u8>>),
    Derived(Key, Derivation),
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file's key was derived from nothing.
    #[error("it was not encrypted with a passphrase: give the key itself")]
    NoDerivation,
    /// More derivations than an honest file has.
    #[error("it derives keys in more than {MAX_DERIVATIONS} ways, which is not accepted")]
    TooMany,
    /// More or less work than is accepted.
    #[error("a key cannot be derived: {0}")]
    Work(String),
    /// Argon2id refused its parameters.
    #[error("a key cannot be derived: {0}")]
    Derive(argon2::Error),
    /// The system gave no random bytes.
    #[error("the system gives no random bytes")]
    Random(#[source] getrandom::Error),
}

impl Secret {
    /// A key of 32 bytes.
    pub fn key(key: [u8; 32]) -> Self {
        Self(Kind::Key(Arc::new(Zeroizing::new(key))))
    }

    /// A passphrase, from which keys are derived.
    pub fn passphrase(passphrase: impl Into<Vec<u8>>) -> Self {
        Self(Kind::Passphrase(Zeroizing::new(passphrase.into())))
    }

    /// The key of a passphrase under this derivation, which every file that is sealed with it tells.
    /// Takes as long and as much memory as the derivation asks for.
    ///
    /// # Errors
    /// If the derivation asks for less or more than readers accept.
    pub fn derived(passphrase: &[u8], derivation: Derivation) -> Result<Self, KeyError> {
        derivation.check().map_err(KeyError::Work)?;
        let key = derive(passphrase, &derivation).map_err(KeyError::Derive)?;
        Ok(Self(Kind::Derived(Arc::new(key), derivation)))
    }

    /// The key itself, for whoever must keep it; a passphrase alone has none.
    pub fn expose(&self) -> Option<&[u8; 32]> {
        match &self.0 {
            Kind::Key(key) | Kind::Derived(key, _) => Some(key),
            Kind::Passphrase(_) => None,
        }
    }

    /// How the key of a new file is derived, if it is.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub(crate) fn derivation(&self) -> Result<Option<Derivation>, KeyError> {
        Ok(match &self.0 {
            Kind::Key(_) => None,
            Kind::Derived(_, derivation) => Some(derivation.clone()),
            Kind::Passphrase(_) => {
                Some(Derivation { passes: PASSES, memory: MEMORY, salt: fresh()? })
            }
        })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(..)")
    }
}

/// The keys that a secret comes to, each derived once.
pub(crate) struct Keys<'a> {
    secret: &'a Secret,
    derived: Mutex<HashMap<Derivation, Key>>,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(secret: &'a Secret) -> Self {
        Self { secret, derived: Mutex::default() }
    }

    /// The key for data that was sealed under this derivation.
    pub(crate) fn of(&self, derivation: Option<&Derivation>) -> Result<Key, KeyError> {
        let passphrase = match &self.secret.0 {
            Kind::Key(key) | Kind::Derived(key, _) => return Ok(Arc::clone(key)),
            Kind::Passphrase(passphrase) => passphrase,
        };
        let derivation = derivation.ok_or(KeyError::NoDerivation)?;
        // Held while deriving, so that nobody derives the same key beside us.
        let mut derived = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = derived.get(derivation) {
            return Ok(Arc::clone(key));
        }
        if derived.len() >= MAX_DERIVATIONS {
            return Err(KeyError::TooMany);
        }
        let key = Arc::new(derive(passphrase, derivation).map_err(KeyError::Derive)?);
        derived.insert(derivation.clone(), Arc::clone(&key));
        Ok(key)
    }
}

/// libsodium's `crypto_pwhash` with Argon2id.
fn derive(
    passphrase: &[u8],
    derivation: &Derivation,
) -> Result<Zeroizing<[u8; 32]>, argon2::Error> {
    let memory =
        u32::try_from(derivation.memory >> 10).map_err(|_| argon2::Error::MemoryTooMuch)?;
    let passes = u32::try_from(derivation.passes).map_err(|_| argon2::Error::TimeTooSmall)?;
    let params = Params::new(memory, passes, 1, Some(32))?;
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let mut key = Zeroizing::new([0; 32]);
    argon.hash_password_into(passphrase, &derivation.salt, &mut *key)?;
    Ok(key)
}

/// Random bytes.
pub(crate) fn fresh<const N: usize>() -> Result<[u8; N], KeyError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(KeyError::Random)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        for secret in [Secret::key([0x41; 32]), Secret::passphrase("AAAA")] {
            assert_eq!(format!("{secret:?}"), "Secret(..)");
        }
    }

    #[test]
    fn a_derived_key_opens_what_its_passphrase_opens() {
        let derivation = Derivation { passes: 1, memory: 8 << 10, salt: [7; 16] };
        let derived = Secret::derived(b"p", derivation.clone()).unwrap();
        assert_eq!(derived.derivation().unwrap(), Some(derivation.clone()));
        let phrase = Secret::passphrase("p");
        let key = Keys::new(&phrase).of(Some(&derivation)).unwrap();
        assert_eq!(derived.expose(), Some(&**key));
        assert_eq!(phrase.expose(), None);
        let heavy = Derivation { memory: 2 << 30, ..derivation };
        assert!(matches!(Secret::derived(b"p", heavy), Err(KeyError::Work(_))));
    }

    #[test]
    fn a_key_is_derived_once_and_not_too_often() {
        let secret = Secret::passphrase("p");
        let keys = Keys::new(&secret);
        let derivation = |salt| Derivation { passes: 1, memory: 8 << 10, salt: [salt; 16] };
        let first = keys.of(Some(&derivation(0))).unwrap();
        assert!(Arc::ptr_eq(&first, &keys.of(Some(&derivation(0))).unwrap()));
        for salt in 1..16 {
            assert_ne!(*keys.of(Some(&derivation(salt))).unwrap(), *first);
        }
        assert!(matches!(keys.of(Some(&derivation(16))), Err(KeyError::TooMany)));
        assert!(matches!(keys.of(None), Err(KeyError::NoDerivation)));
    }
}
