//! Tokens of service accounts: what they claim, and whether that still holds.
//!
//! A token is good while its signature, times and audience are, and while the account and the
//! object that it is bound to are there under the same UID. The last is looked up at every request,
//! so a token ends with what it is bound to; only signatures are remembered, since checking one
//! costs more than most requests. Time is the clock's, with upstream's minute of leeway.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use kit::clock::Clock;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use store::Store;

use super::authn::{TokenAuthenticator, TokenUser};
use super::signing::{self, TokenKey};
use super::{SERVICE_ACCOUNT_PREFIX, User, legacy_token};
use crate::registry::{Object, core_key, meta, text};
use crate::stored::Stored;

/// How far clocks may be apart.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);

/// How many verified signatures are remembered.
const REMEMBERED: usize = 4096;

/// An object by name and UID.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Bound {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) uid: String,
}

impl Bound {
    pub(crate) fn of(object: &Object) -> Self {
        let of = |field| text(meta(object), field).to_owned();
        Self { name: of("name"), uid: of("uid") }
    }

    fn claim(&self) -> Value {
        let mut claim = json!({"name": self.name});
        if !self.uid.is_empty() {
            claim["uid"] = self.uid.as_str().into();
        }
        claim
    }
}

/// What a token is about, beside its times.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Subject {
    #[serde(default)]
    pub(crate) namespace: String,
    #[serde(default)]
    pub(crate) serviceaccount: Bound,
    pub(crate) pod: Option<Bound>,
    pub(crate) secret: Option<Bound>,
    pub(crate) node: Option<Bound>,
    /// When clients should long have fetched a new one.
    pub(crate) warnafter: Option<i64>,
}

impl Subject {
    fn claim(&self) -> Value {
        let mut claim =
            json!({"namespace": self.namespace, "serviceaccount": self.serviceaccount.claim()});
        for (field, bound) in [("pod", &self.pod), ("secret", &self.secret), ("node", &self.node)] {
            if let Some(bound) = bound {
                claim[field] = bound.claim();
            }
        }
        if let Some(after) = self.warnafter {
            claim["warnafter"] = after.into();
        }
        claim
    }
}

#[derive(Debug, Deserialize)]
struct Claims {
    #[serde(default)]
    iss: String,
    #[serde(default)]
    aud: Audiences,
    exp: Option<i64>,
    nbf: Option<i64>,
    iat: Option<i64>,
    #[serde(default)]
    jti: String,
    #[serde(rename = "kubernetes.io", default)]
    subject: Subject,
}

/// RFC 7519 has one audience stand alone or several in a list.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Audiences {
    One(String),
    Several(Vec<String>),
}

impl Default for Audiences {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

/// Issues and knows the tokens of one server.
#[derive(Debug)]
pub(crate) struct Issuer {
    key: TokenKey,
    name: String,
}

/// A token to be issued.
pub(crate) struct Order<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) audiences: &'a [String],
    pub(crate) now: Timestamp,
    pub(crate) seconds: i64,
    pub(crate) id: &'a str,
}

impl Issuer {
    pub(crate) fn new(key: TokenKey, name: &str) -> Self {
        Self { key, name: name.to_owned() }
    }

    /// Signs a token.
    pub(crate) fn issue(&self, order: &Order<'_>) -> String {
        let Order { subject, audiences, now, seconds, id } = order;
        let now = now.as_second();
        let account = &subject.serviceaccount.name;
        self.key.sign(&json!({
            "aud": audiences,
            "exp": now.saturating_add(*seconds),
            "iat": now,
            "iss": self.name,
            "jti": id,
            "kubernetes.io": subject.claim(),
            "nbf": now,
            "sub": format!("{SERVICE_ACCOUNT_PREFIX}{}:{account}", subject.namespace),
        }))
    }

    /// The public keys, for whoever wants to check tokens by themselves.
    pub(crate) fn web_keys(&self) -> Value {
        json!({"keys": [self.key.web_key()]})
    }

    /// OpenID Connect's description of the issuer; the keys are found at `host`.
    pub(crate) fn configuration(&self, host: &str) -> Value {
        json!({
            "issuer": self.name,
            "jwks_uri": format!("https://{host}/openid/v1/jwks"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }
}

/// Knows the users of the tokens that an [`Issuer`] has issued.
pub(crate) struct ServiceAccountTokens {
    issuer: Arc<Issuer>,
    store: Arc<dyn Store>,
    clock: Clock,
    verified: Mutex<HashMap<[u8; 32], Arc<Claims>>>,
}

impl std::fmt::Debug for ServiceAccountTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceAccountTokens").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// Why one of our own tokens is refused; upstream's words, since a review shows them.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("service account token is not valid yet")]
    NotYet,
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is issued in the future")]
    FromTheFuture,
    #[error("token audiences {0} is invalid for the target audiences {1}")]
    Audience(String, String),
    #[error("serviceaccounts \"{0}\" not found")]
    NoAccount(String),
    #[error("service account UID ({0}) does not match claim ({1})")]
    AccountUid(String, String),
    #[error("service account {0}/{1} has been deleted")]
    AccountDeleted(String, String),
    #[error("service account token has been invalidated")]
    Invalidated,
    #[error("{what} UID ({found}) does not match service account {what} ref claim ({claimed})")]
    BoundUid { what: &'static str, found: String, claimed: String },
    #[error("read what the token is bound to")]
    Read,
}

impl ServiceAccountTokens {
    pub(crate) fn new(issuer: Arc<Issuer>, store: Arc<dyn Store>, clock: Clock) -> Self {
        Self { issuer, store, clock, verified: Mutex::default() }
    }

    fn claims(&self, token: &str) -> Result<Arc<Claims>, Box<dyn Error + Send + Sync>> {
        let digest: [u8; 32] = Sha256::digest(token).into();
        let known = || self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(claims) = known().get(&digest) {
            return Ok(Arc::clone(claims));
        }
        let claims: Arc<Claims> = Arc::new(serde_json::from_value(self.issuer.key.verify(token)?)?);
        let mut known = known();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(digest, Arc::clone(&claims));
        Ok(claims)
    }

    fn read(&self, plural: &str, namespace: &str, name: &str) -> Result<Option<Object>, Refused> {
        let key = core_key(plural, namespace, name);
        let Some(entry) = self.store.get(&key, None).map_err(|_| Refused::Read)? else {
            return Ok(None);
        };
        let stored = Stored::from_entry(&entry).map_err(|_| Refused::Read)?;
        match stored.to_value().map_err(|_| Refused::Read)? {
            Value::Object(object) => Ok(Some(object)),
            _ => Err(Refused::Read),
        }
    }

    /// Who a token without an end is; it is for this server and nobody else.
    fn legacy(
        &self,
        token: &str,
        wanted: &[String],
    ) -> Result<TokenUser, Box<dyn Error + Send + Sync>> {
        let verified = self.issuer.key.verify(token)?;
        let claims: legacy_token::Claims = serde_json::from_value(verified)?;
        let own = std::slice::from_ref(&self.issuer.name);
        if !wanted.contains(&self.issuer.name) {
            return Err(Refused::Audience(as_go_prints(own), as_go_prints(wanted)).into());
        }
        let secret = self.read("secrets", &claims.namespace, &claims.secret)?;
        let account = self.read("serviceaccounts", &claims.namespace, &claims.account)?;
        let user = claims.check(token, secret.as_ref(), account.as_ref())?;
        Ok(TokenUser { user, audiences: Some(own.to_vec()) })
    }

    /// Whether what the token is bound to is there, under the same UID.
    fn check_subject(&self, subject: &Subject, now: Timestamp) -> Result<(), Refused> {
        let Subject { namespace, serviceaccount, pod, secret, node, .. } = subject;
        let account = self
            .read("serviceaccounts", namespace, &serviceaccount.name)?
            .ok_or_else(|| Refused::NoAccount(serviceaccount.name.clone()))?;
        let found = text(meta(&account), "uid");
        if found != serviceaccount.uid {
            return Err(Refused::AccountUid(found.to_owned(), serviceaccount.uid.clone()));
        }
        if is_gone(&account, now) {
            return Err(Refused::AccountDeleted(namespace.clone(), serviceaccount.name.clone()));
        }
        // A pod's node is told, and not what the token hangs on.
        let node = node.as_ref().filter(|_| pod.is_none());
        for (what, plural, namespace, bound) in [
            ("secret", "secrets", namespace.as_str(), secret.as_ref()),
            ("pod", "pods", namespace.as_str(), pod.as_ref()),
            ("node", "nodes", "", node),
        ] {
            let Some(bound) = bound else { continue };
            let object = self.read(plural, namespace, &bound.name)?.ok_or(Refused::Invalidated)?;
            let found = text(meta(&object), "uid");
            if found != bound.uid {
                let (found, claimed) = (found.to_owned(), bound.uid.clone());
                return Err(Refused::BoundUid { what, found, claimed });
            }
            if is_gone(&object, now) {
                return Err(Refused::Invalidated);
            }
        }
        Ok(())
    }
}

fn is_gone(object: &Object, now: Timestamp) -> bool {
    let deleted = text(meta(object), "deletionTimestamp").parse::<Timestamp>();
    let since = now.checked_sub(LEEWAY).unwrap_or(Timestamp::MIN);
    deleted.is_ok_and(|deleted| deleted < since)
}

impl Claims {
    fn audiences(&self) -> &[String] {
        match &self.aud {
            Audiences::One(one) => std::slice::from_ref(one),
            Audiences::Several(several) => several,
        }
    }

    fn check_times(&self, now: Timestamp) -> Result<(), Refused> {
        let now = now.as_second();
        let (early, late) = (now.saturating_add(LEEWAY.as_secs()), now - LEEWAY.as_secs());
        if self.nbf.is_some_and(|nbf| early < nbf) {
            return Err(Refused::NotYet);
        }
        if self.exp.is_some_and(|exp| late > exp) {
            return Err(Refused::Expired);
        }
        if self.iat.is_some_and(|iat| early < iat) {
            return Err(Refused::FromTheFuture);
        }
        Ok(())
    }

    fn user(&self) -> User {
        let Subject { namespace, serviceaccount, pod, node, .. } = &self.subject;
        let mut extra = BTreeMap::new();
        let mut tell = |what: &str, value: String| {
            if !value.is_empty() {
                extra.insert(format!("authentication.kubernetes.io/{what}"), vec![value]);
            }
        };
        tell("credential-id", credential_id(&self.jti));
        for (what, bound) in [("pod", pod), ("node", node)] {
            if let Some(bound) = bound {
                tell(&format!("{what}-name"), bound.name.clone());
                tell(&format!("{what}-uid"), bound.uid.clone());
            }
        }
        User {
            name: format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{}", serviceaccount.name),
            uid: serviceaccount.uid.clone(),
            groups: super::service_account_groups(namespace),
            extra,
        }
    }
}

/// How audit lines and users name a token.
pub(crate) fn credential_id(id: &str) -> String {
    if id.is_empty() { String::new() } else { format!("JTI={id}") }
}

impl TokenAuthenticator for ServiceAccountTokens {
    fn authenticate(
        &self,
        token: &str,
        wanted: &[String],
    ) -> Result<Option<TokenUser>, Box<dyn Error + Send + Sync>> {
        let Some(said) = signing::unverified(token) else { return Ok(None) };
        if said["iss"] == legacy_token::ISSUER {
            return Ok(Some(self.legacy(token, wanted)?));
        }
        if said["iss"] != self.issuer.name.as_str() {
            return Ok(None);
        }
        let claims = self.claims(token)?;
        if claims.iss != self.issuer.name {
            return Ok(None);
        }
        let audiences: Vec<String> =
            claims.audiences().iter().filter(|a| wanted.contains(a)).cloned().collect();
        if audiences.is_empty() {
            let (own, wanted) = (as_go_prints(claims.audiences()), as_go_prints(wanted));
            return Err(Refused::Audience(own, wanted).into());
        }
        let now = self.clock.now();
        claims.check_times(now)?;
        self.check_subject(&claims.subject, now)?;
        Ok(Some(TokenUser { user: claims.user(), audiences: Some(audiences) }))
    }
}

fn as_go_prints(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|t| super::quote::quote(t)).collect();
    format!("[{}]", quoted.join(" "))
}

#[cfg(test)]
#[path = "service_account_tests.rs"]
mod tests;
