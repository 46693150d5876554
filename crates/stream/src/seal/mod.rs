//! Encryption as libsodium does it: `crypto_secretbox` (XSalsa20 and Poly1305) and keys from
//! passphrases (Argon2id).
//!
//! Salsa20 is our own, since it is what encrypted models are as fast as, and is held to the published
//! vectors; Poly1305 and Argon2id are libraries. Keys are wiped when they are dropped and never shown.

mod boxes;
mod key;
mod salsa;

pub(crate) use boxes::{open, seal};
pub(crate) use key::{Key, Keys, fresh};
pub use key::{KeyError, Secret};
