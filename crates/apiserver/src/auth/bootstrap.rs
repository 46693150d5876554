//! Bootstrap tokens: `ID.SECRET`, kept as Secrets in `kube-system`, by which a machine that is not
//! yet a node may ask for a certificate. They end by their own date and give nothing but groups.

use std::error::Error;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kit::clock::Clock;
use serde_json::Value;
use sha2::{Digest, Sha256};
use store::Store;

use super::User;
use super::authn::{TokenAuthenticator, TokenUser};
use crate::registry::{core_key, is_deleting};
use crate::stored::Stored;

const NAMESPACE: &str = "kube-system";
const TYPE: &str = "bootstrap.kubernetes.io/token";
const GROUP: &str = "system:bootstrappers";

/// Knows the users of bootstrap tokens.
pub(crate) struct BootstrapTokens {
    store: Arc<dyn Store>,
    clock: Clock,
}

impl std::fmt::Debug for BootstrapTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BootstrapTokens").finish_non_exhaustive()
    }
}

impl BootstrapTokens {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Clock) -> Self {
        Self { store, clock }
    }

    fn secret(&self, id: &str) -> Result<Option<Value>, Box<dyn Error + Send + Sync>> {
        let key = core_key("secrets", NAMESPACE, &format!("bootstrap-token-{id}"));
        let Some(entry) = self.store.get(&key, None)? else { return Ok(None) };
        Ok(Some(Stored::from_entry(&entry)?.to_value()?))
    }
}

impl TokenAuthenticator for BootstrapTokens {
    fn authenticate(
        &self,
        token: &str,
        _: &[String],
    ) -> Result<Option<TokenUser>, Box<dyn Error + Send + Sync>> {
        let Some((id, secret)) = parts(token) else { return Ok(None) };
        let Some(kept) = self.secret(id)? else { return Ok(None) };
        let groups = judge(&kept, id, secret, self.clock.now());
        let user = groups.map(|groups| User {
            name: format!("system:bootstrap:{id}"),
            groups,
            ..User::default()
        });
        Ok(user.map(|user| TokenUser { user, audiences: None }))
    }
}

/// Six and sixteen small letters and digits.
fn parts(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let plain = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    (plain(id, 6) && plain(secret, 16)).then_some((id, secret))
}

/// The groups of a token's user, if the token is good.
fn judge(kept: &Value, id: &str, secret: &str, now: Timestamp) -> Option<Vec<String>> {
    let data = |key: &str| -> String {
        let encoded = kept["data"][key].as_str().unwrap_or_default();
        let bytes = STANDARD.decode(encoded).unwrap_or_default();
        String::from_utf8(bytes).unwrap_or_default()
    };
    let deleted = kept.as_object().is_some_and(is_deleting);
    let digest = |text: &str| Sha256::digest(text);
    // Digests, so that the time of a comparison tells nothing of the secret.
    let same = digest(&data("token-secret")) == digest(secret) && data("token-id") == id;
    let expires = data("expiration");
    let expired = !expires.is_empty() && expires.parse::<Timestamp>().is_ok_and(|at| at <= now);
    let unreadable = !expires.is_empty() && expires.parse::<Timestamp>().is_err();
    let usable = data("usage-bootstrap-authentication") == "true";
    if kept["type"] != TYPE || deleted || !same || expired || unreadable || !usable {
        return None;
    }
    let mut groups = vec![GROUP.to_owned()];
    let extra = data("auth-extra-groups");
    for group in extra.split(',').filter(|_| !extra.is_empty()) {
        // One that is out of bounds spoils the token, so that nobody joins what they should not.
        groups.push(is_bootstrap_group(group).then(|| group.to_owned())?);
    }
    groups[1..].sort();
    groups.dedup();
    Some(groups)
}

/// `system:bootstrappers:` and small letters, digits, colons and dashes, not ending in the last two.
fn is_bootstrap_group(group: &str) -> bool {
    let Some(rest) = group.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix(':')) else {
        return false;
    };
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let mut bytes = rest.bytes();
    bytes.next_back().is_some_and(alphanumeric)
        && rest.len() <= 256
        && bytes.all(|b| alphanumeric(b) || b == b':' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kept(change: &[(&str, &str)]) -> Value {
        let mut data = json!({});
        let fields = [
            ("token-id", "abcdef"),
            ("token-secret", "0123456789abcdef"),
            ("usage-bootstrap-authentication", "true"),
        ];
        for (key, value) in fields.iter().chain(change) {
            data[key] = STANDARD.encode(value).into();
        }
        json!({"type": TYPE, "metadata": {}, "data": data})
    }

    #[track_caller]
    fn check(change: &[(&str, &str)], want: Option<&[&str]>) {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let got = judge(&kept(change), "abcdef", "0123456789abcdef", now);
        let want = want.map(|groups| groups.iter().map(|g| (*g).to_owned()).collect());
        assert_eq!(got, want, "{change:?}");
    }

    #[test]
    fn a_token_is_good_until_its_date_and_for_its_use() {
        check(&[], Some(&[GROUP]));
        check(&[("expiration", "2026-01-01T00:00:01Z")], Some(&[GROUP]));
        check(&[("expiration", "2026-01-01T00:00:00Z")], None);
        check(&[("expiration", "tomorrow")], None);
        check(&[("usage-bootstrap-authentication", "yes")], None);
        check(&[("token-secret", "fedcba9876543210")], None);
        check(&[("token-id", "fedcba")], None);
        check(
            &[("auth-extra-groups", "system:bootstrappers:b,system:bootstrappers:a")],
            Some(&[GROUP, "system:bootstrappers:a", "system:bootstrappers:b"]),
        );
        check(&[("auth-extra-groups", "system:masters")], None);
        check(&[("auth-extra-groups", "system:bootstrappers:")], None);
        let other = json!({"type": "Opaque", "data": kept(&[])["data"]});
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(judge(&other, "abcdef", "0123456789abcdef", now), None);
    }

    #[test]
    fn only_tokens_of_the_form_are_looked_up() {
        assert!(parts("abcdef.0123456789abcdef").is_some());
        for odd in [
            "",
            "abcdef",
            "abcde.0123456789abcdef",
            "ABCDEF.0123456789abcdef",
            "a/../b.0123456789abcdef",
            "abcdef.0123456789abcdef.x",
        ] {
            assert!(parts(odd).is_none(), "{odd}");
        }
    }
}
