//! Tokens without an end that kube-controller-manager signs into Secrets.
//!
//! The server issues none; it knows those that were signed with its key. Such a token is good while
//! the Secret is there and holds it, and the account is there under the same UID.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::{SERVICE_ACCOUNT_PREFIX, User};
use crate::registry::{Object, meta, text};

/// The issuer that these tokens name, whatever the server is called.
pub(crate) const ISSUER: &str = "kubernetes/serviceaccount";

/// What such a token is about.
#[derive(Debug, Deserialize)]
pub(crate) struct Claims {
    iss: String,
    sub: String,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    pub(crate) namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    pub(crate) secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    pub(crate) account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    pub(crate) uid: String,
}

/// Why such a token is refused; upstream's words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("sub claim does not match service account")]
    Subject,
    #[error("service account token has been invalidated")]
    Invalidated,
    #[error("service account token does not match server's copy")]
    OtherToken,
    #[error("service account {0}/{1} has been deleted")]
    AccountDeleted(String, String),
    #[error("service account UID ({0}) does not match claim ({1})")]
    AccountUid(String, String),
}

impl Claims {
    /// Decides from what the token's Secret and account are now.
    pub(crate) fn check(
        &self,
        token: &str,
        secret: Option<&Object>,
        account: Option<&Object>,
    ) -> Result<User, Refused> {
        let name = format!("{SERVICE_ACCOUNT_PREFIX}{}:{}", self.namespace, self.account);
        if self.iss != ISSUER || self.sub != name {
            return Err(Refused::Subject);
        }
        let secret = secret.filter(|secret| !is_deleted(secret)).ok_or(Refused::Invalidated)?;
        let held = secret.get("data").and_then(|data| data["token"].as_str()).unwrap_or_default();
        if STANDARD.decode(held).ok().as_deref() != Some(token.as_bytes()) {
            return Err(Refused::OtherToken);
        }
        let deleted = || Refused::AccountDeleted(self.namespace.clone(), self.account.clone());
        let account = account.filter(|account| !is_deleted(account)).ok_or_else(deleted)?;
        let uid = text(meta(account), "uid");
        if uid != self.uid {
            return Err(Refused::AccountUid(uid.to_owned(), self.uid.clone()));
        }
        Ok(User {
            name,
            uid: uid.to_owned(),
            groups: super::service_account_groups(&self.namespace),
            extra: BTreeMap::new(),
        })
    }
}

fn is_deleted(object: &Object) -> bool {
    meta(object).get("deletionTimestamp").is_some_and(|time| !time.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(value: Value) -> Object {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_token_ends_with_its_secret_and_its_account() {
        let claims: Claims = serde_json::from_value(json!({
            "iss": ISSUER, "sub": "system:serviceaccount:ns:a",
            "kubernetes.io/serviceaccount/namespace": "ns",
            "kubernetes.io/serviceaccount/secret.name": "s",
            "kubernetes.io/serviceaccount/service-account.name": "a",
            "kubernetes.io/serviceaccount/service-account.uid": "u",
        }))
        .unwrap();
        let secret = object(json!({"metadata": {}, "data": {"token": STANDARD.encode("t")}}));
        let account = object(json!({"metadata": {"uid": "u"}}));
        let user = claims.check("t", Some(&secret), Some(&account)).unwrap();
        assert_eq!(user.name, "system:serviceaccount:ns:a");
        assert!(user.groups.iter().any(|group| group == "system:serviceaccounts:ns"));
        let said = |token, secret: Option<&Object>, account: Option<&Object>| {
            claims.check(token, secret, account).unwrap_err().to_string()
        };
        assert!(said("other", Some(&secret), Some(&account)).contains("server's copy"));
        assert!(said("t", None, Some(&account)).contains("invalidated"));
        assert!(said("t", Some(&secret), None).contains("ns/a has been deleted"));
        let newer = object(json!({"metadata": {"uid": "v"}}));
        assert!(said("t", Some(&secret), Some(&newer)).contains("UID (v)"));
        let going = object(json!({"metadata": {"uid": "u", "deletionTimestamp": "now"}}));
        assert!(said("t", Some(&secret), Some(&going)).contains("deleted"));
        let held = object(json!({"metadata": {"deletionTimestamp": "now"}}));
        assert!(said("t", Some(&held), Some(&account)).contains("invalidated"));
    }
}
