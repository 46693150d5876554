//! The signatures by which a machine that knows only a bootstrap token trusts `cluster-info`.
//!
//! Each token that may sign has a detached JWS (RFC 7515, HS256) of the kubeconfig in the ConfigMap,
//! keyed by the token's secret. Signatures of tokens that are gone are removed.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use jiff::Timestamp;
use sha2::Sha256;

/// The ConfigMap, in `kube-public`.
pub const NAME: &str = "cluster-info";

/// The key of what is signed.
pub const KUBECONFIG: &str = "kubeconfig";

/// What the key of a signature begins with.
pub const PREFIX: &str = "jws-kubeconfig-";

/// A token that may sign.
#[derive(Clone, Debug)]
pub struct Token {
    /// Its public part.
    pub id: String,
    /// Its secret part.
    pub secret: String,
    /// When it ends.
    pub expires: Option<Timestamp>,
}

/// What the signatures shall be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Set what has a value, remove what has none.
    pub set: BTreeMap<String, Option<String>>,
    /// When the next token ends.
    pub next: Option<Timestamp>,
}

/// Decides what becomes of the ConfigMap with this data.
pub fn plan(data: &BTreeMap<String, String>, tokens: &[Token], now: Timestamp) -> Plan {
    let living = |token: &&Token| token.expires.is_none_or(|end| end > now);
    let signed = |token: &Token| {
        let kubeconfig = data.get(KUBECONFIG)?;
        Some((format!("{PREFIX}{}", token.id), sign(kubeconfig, &token.id, &token.secret)?))
    };
    let wanted: BTreeMap<String, String> =
        tokens.iter().filter(living).filter_map(signed).collect();
    let missing = wanted.iter().filter(|(key, value)| data.get(*key) != Some(*value));
    let stale = data.keys().filter(|key| key.starts_with(PREFIX) && !wanted.contains_key(*key));
    let set = missing.map(|(key, value)| (key.clone(), Some(value.clone())));
    let next = tokens.iter().filter(living).filter_map(|token| token.expires).min();
    Plan { set: set.chain(stale.map(|key| (key.clone(), None))).collect(), next }
}

/// The detached signature of a text: header and signature, nothing between.
fn sign(text: &str, id: &str, secret: &str) -> Option<String> {
    let header = serde_json::json!({"alg": "HS256", "kid": id}).to_string();
    let header = BASE64_URL_SAFE_NO_PAD.encode(header);
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).ok()?;
    mac.update(format!("{header}.{}", BASE64_URL_SAFE_NO_PAD.encode(text)).as_bytes());
    let signature = BASE64_URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    Some(format!("{header}..{signature}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn token(id: &str, expires: Option<i64>) -> Token {
        Token { id: id.to_owned(), secret: "s3cret".to_owned(), expires: expires.map(at) }
    }

    fn data(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn living_tokens_sign_and_dead_ones_are_struck_off() {
        let before = data(&[(KUBECONFIG, "k"), ("jws-kubeconfig-dead", "x"), ("other", "y")]);
        let tokens = [token("dead", Some(5)), token("lives", Some(50)), token("stays", None)];
        let made = plan(&before, &tokens, at(10));
        let keys: Vec<_> =
            made.set.iter().map(|(key, value)| (key.as_str(), value.is_some())).collect();
        let expect = [
            ("jws-kubeconfig-dead", false),
            ("jws-kubeconfig-lives", true),
            ("jws-kubeconfig-stays", true),
        ];
        assert_eq!(keys, expect);
        assert_eq!(made.next, Some(at(50)));
        let mut after = before;
        after.remove("jws-kubeconfig-dead");
        after.extend(made.set.into_iter().filter_map(|(key, value)| Some((key, value?))));
        assert!(plan(&after, &tokens, at(10)).set.is_empty(), "a fixed point");
    }

    #[test]
    fn a_signature_names_its_token_and_leaves_out_the_text() {
        let jws = sign("text", "abcdef", "0123456789abcdef").unwrap();
        let (header, signature) = jws.split_once("..").unwrap();
        let header = BASE64_URL_SAFE_NO_PAD.decode(header).unwrap();
        assert_eq!(header, br#"{"alg":"HS256","kid":"abcdef"}"#);
        assert_eq!(BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap().len(), 32);
        assert_ne!(Some(&jws), sign("other", "abcdef", "0123456789abcdef").as_ref());
    }
}
