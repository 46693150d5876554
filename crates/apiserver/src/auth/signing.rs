//! The key that signs the tokens of service accounts, and tokens as signed text.
//!
//! ECDSA on P-256 with SHA-256 (`ES256` of RFC 7518), and nothing else: a token that names another
//! algorithm or key is not ours. Signatures are deterministic (RFC 6979), so that a run with a
//! seeded key can be repeated. What a token says is not looked at here.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kit::ids::{Ids, ReadRandom};
use p256::ecdsa::signature::{Signer, Verifier};
use p256::ecdsa::{Signature, SigningKey, VerifyingKey};
use p256::pkcs8::{DecodePrivateKey as _, EncodePublicKey as _};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const ALGORITHM: &str = "ES256";

/// The key that signs tokens. `Debug` shows its public name only.
#[derive(Clone)]
pub struct TokenKey {
    key: SigningKey,
    id: String,
}

/// A key that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UseKey {
    /// It is none, or of another kind.
    #[error("the key is no P-256 private key in PKCS #8 PEM")]
    Parse,
    /// No key could be drawn.
    #[error(transparent)]
    Draw(#[from] ReadRandom),
}

impl TokenKey {
    /// A key in PKCS #8 PEM, as `kit::pki` keeps it.
    pub fn from_pem(pem: &str) -> Result<Self, UseKey> {
        Self::new(SigningKey::from_pkcs8_pem(pem).map_err(|_| UseKey::Parse)?)
    }

    /// A key that nobody keeps, drawn from `ids`; a seeded source makes a key that anyone can guess.
    pub fn draw(ids: &Ids) -> Result<Self, UseKey> {
        loop {
            let mut bytes = [0_u8; 32];
            ids.fill(&mut bytes)?;
            // Fails for numbers beyond the group's order: once in 2^32 draws.
            if let Ok(key) = SigningKey::from_slice(&bytes) {
                return Self::new(key);
            }
        }
    }

    fn new(key: SigningKey) -> Result<Self, UseKey> {
        let der = key.verifying_key().to_public_key_der().map_err(|_| UseKey::Parse)?;
        // As upstream names keys, so that the name tells nothing of the key.
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(der.as_bytes()));
        Ok(Self { key, id })
    }

    /// Claims as a signed token in compact form (RFC 7515).
    pub(crate) fn sign(&self, claims: &Value) -> String {
        let header = json!({"alg": ALGORITHM, "kid": self.id}).to_string();
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let signed =
            format!("{}.{}", encode(header.as_bytes()), encode(&claims.to_string().into_bytes()));
        let signature: Signature = self.key.sign(signed.as_bytes());
        format!("{signed}.{}", encode(&signature.to_bytes()))
    }

    /// What a token claims, if we have signed it.
    pub(crate) fn verify(&self, token: &str) -> Result<Value, Unverified> {
        let (signed, signature) = token.rsplit_once('.').ok_or(Unverified::Form)?;
        let (header, claims) = signed.split_once('.').ok_or(Unverified::Form)?;
        let header: Value = json_part(header)?;
        if header["kid"] != self.id.as_str() {
            return Err(Unverified::UnknownKey);
        }
        if header["alg"] != ALGORITHM || header.get("crit").is_some() {
            return Err(Unverified::Signature);
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| Unverified::Form)?;
        let signature = Signature::from_slice(&signature).map_err(|_| Unverified::Signature)?;
        let key: &VerifyingKey = self.key.verifying_key();
        key.verify(signed.as_bytes(), &signature).map_err(|_| Unverified::Signature)?;
        json_part(claims)
    }

    /// The public key as a JSON web key (RFC 7517).
    pub(crate) fn web_key(&self) -> Value {
        let point = self.key.verifying_key().to_encoded_point(false);
        let part = |bytes: Option<&[u8]>| URL_SAFE_NO_PAD.encode(bytes.unwrap_or_default());
        json!({
            "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": ALGORITHM,
            "x": part(point.x().map(AsRef::as_ref)), "y": part(point.y().map(AsRef::as_ref)),
        })
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Why a token is not ours. The words are upstream's, where a review shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unverified {
    #[error("the token is not a signed one")]
    Form,
    #[error("invalid signature, no keys found")]
    UnknownKey,
    #[error("go-jose/go-jose: error in cryptographic primitive")]
    Signature,
}

/// What a token claims, whoever wrote it.
pub(crate) fn unverified(token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let claims = parts.nth(1)?;
    (parts.count() == 1).then(|| json_part(claims).ok()).flatten()
}

fn json_part(part: &str) -> Result<Value, Unverified> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| Unverified::Form)?;
    serde_json::from_slice(&bytes).map_err(|_| Unverified::Form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_signed_can_be_read_and_nothing_else() {
        let key = TokenKey::draw(&Ids::seeded(1)).unwrap();
        let other = TokenKey::draw(&Ids::seeded(2)).unwrap();
        let token = key.sign(&json!({"sub": "x"}));
        assert_eq!(key.verify(&token).unwrap(), json!({"sub": "x"}));
        assert_eq!(other.verify(&token), Err(Unverified::UnknownKey));
        assert_eq!(token, key.sign(&json!({"sub": "x"})), "a seed makes a run repeatable");
        let claims = URL_SAFE_NO_PAD.encode(b"{\"sub\":\"y\"}");
        let parts: Vec<&str> = token.split('.').collect();
        let forged = format!("{}.{claims}.{}", parts[0], parts[2]);
        assert_eq!(key.verify(&forged), Err(Unverified::Signature));
        let header = URL_SAFE_NO_PAD.encode(format!("{{\"alg\":\"none\",\"kid\":\"{}\"}}", key.id));
        let unsigned = format!("{header}.{claims}.");
        assert_eq!(key.verify(&unsigned), Err(Unverified::Signature));
        for odd in ["", "a", "a.b", "a.b.c", "..", "a.b.c.d", &"a".repeat(10_000)] {
            assert!(key.verify(odd).is_err(), "{odd:.20}");
        }
    }

    #[test]
    fn keys_come_from_pki_and_show_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let pki = kit::pki::Pki::open(directory.path(), kit::clock::Clock::system()).unwrap();
        let pem = pki.signing_key("sa").unwrap().private_key_pem;
        let key = TokenKey::from_pem(&pem).unwrap();
        assert!(key.verify(&key.sign(&json!({}))).is_ok());
        assert!(format!("{key:?}").len() < 80);
        assert!(TokenKey::from_pem("nonsense").is_err());
        let web = key.web_key();
        assert_eq!(
            (web["crv"].as_str(), web["x"].as_str().map(str::len)),
            (Some("P-256"), Some(43))
        );
    }
}
