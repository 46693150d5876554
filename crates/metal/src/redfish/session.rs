//! Requests to one BMC: addressed, authorised, bounded.
//!
//! Basic authentication comes first; a BMC that refuses it is asked for a session (DSP0266, 13.3),
//! whose token is then used until it is refused in turn. One login per request, so that a wrong
//! password does not lock the account by our doing.

use super::Credential;
use super::Failure;
use super::link::Base;
use crate::exchange::{Exchange, MOST_BODY};
use api::machine::Bmc;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tower::ServiceExt as _;

/// How long one request and its answer may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";
const TOKEN: &str = "x-auth-token";

/// What all clones of [`super::Bmcs`] share.
#[derive(Debug)]
pub(super) struct Inner {
    exchange: Exchange,
    /// By address.
    known: Mutex<BTreeMap<String, Known>>,
}

#[derive(Clone, Default)]
struct Known {
    system: Option<String>,
    /// The token of the session, and whose it is.
    token: Option<(HeaderValue, Credential)>,
}

impl std::fmt::Debug for Known {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Known").field("system", &self.system).finish_non_exhaustive()
    }
}

impl Inner {
    pub(super) fn new(exchange: Exchange) -> Self {
        Self { exchange, known: Mutex::default() }
    }

    pub(super) fn session<'a>(
        &'a self,
        bmc: &'a Bmc,
        credential: &'a Credential,
    ) -> Result<Session<'a>, Failure> {
        let base = Base::parse(&bmc.address)?;
        Ok(Session { inner: self, base, address: &bmc.address, credential })
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One BMC and the credential for it.
pub(super) struct Session<'a> {
    inner: &'a Inner,
    base: Base,
    address: &'a str,
    credential: &'a Credential,
}

impl Session<'_> {
    pub(super) fn known_system(&self) -> Option<String> {
        self.inner.known().get(self.address)?.system.clone()
    }

    pub(super) fn know_system(&self, path: &str) {
        self.change(|known| known.system = Some(path.to_owned()));
    }

    pub(super) fn forget_system(&self) {
        self.change(|known| known.system = None);
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
        change(self.inner.known().entry(self.address.to_owned()).or_default());
    }

    fn token(&self) -> Option<HeaderValue> {
        let known = self.inner.known();
        let (token, whose) = known.get(self.address)?.token.as_ref()?;
        (whose == self.credential).then(|| token.clone())
    }

    pub(super) async fn get(&self, link: &str) -> Result<Reply, Failure> {
        self.send(Method::GET, link, None, None).await
    }

    /// Sends a request; one that is refused for want of a session is sent once more with one.
    pub(super) async fn send(
        &self,
        method: Method,
        link: &str,
        body: Option<&Value>,
        etag: Option<&str>,
    ) -> Result<Reply, Failure> {
        let authorization =
            self.token().map_or_else(|| self.basic(), |token| Ok((TOKEN, token)))?;
        let reply = self.once(&method, link, body, etag, Some(authorization)).await?;
        if reply.status != StatusCode::UNAUTHORIZED {
            return Ok(reply);
        }
        self.change(|known| known.token = None);
        let token = self.log_in().await?;
        let reply = self.once(&method, link, body, etag, Some((TOKEN, token))).await?;
        if reply.status == StatusCode::UNAUTHORIZED { Err(self.refused()) } else { Ok(reply) }
    }

    fn basic(&self) -> Result<(&'static str, HeaderValue), Failure> {
        let Credential { username, password } = self.credential;
        let word = format!("Basic {}", STANDARD.encode(format!("{username}:{password}")));
        let value = HeaderValue::from_str(&word).map_err(|_| self.refused())?;
        Ok((header::AUTHORIZATION.as_str(), value))
    }

    async fn log_in(&self) -> Result<HeaderValue, Failure> {
        let Credential { username, password } = self.credential;
        let body = json!({"UserName": username, "Password": password});
        let reply = self.once(&Method::POST, SESSIONS, Some(&body), None, None).await?;
        let token = reply.headers.get(TOKEN).filter(|_| reply.status.is_success());
        let token = token.cloned().ok_or_else(|| self.refused())?;
        let whose = self.credential.clone();
        self.change(|known| known.token = Some((token.clone(), whose)));
        Ok(token)
    }

    fn refused(&self) -> Failure {
        Failure::Error(format!(
            "the BMC refuses the password of user {:?}",
            self.credential.username
        ))
    }

    async fn once(
        &self,
        method: &Method,
        link: &str,
        body: Option<&Value>,
        etag: Option<&str>,
        authorization: Option<(&'static str, HeaderValue)>,
    ) -> Result<Reply, Failure> {
        let wrong =
            |error: http::Error| Failure::Error(format!("{link:?} cannot be asked: {error}"));
        let mut request = Request::builder()
            .method(method)
            .uri(self.base.url(link)?)
            .header(header::ACCEPT, "application/json")
            .header("odata-version", "4.0");
        if let Some((name, value)) = authorization {
            request = request.header(name, value);
        }
        if let Some(etag) = etag {
            request = request.header(header::IF_MATCH, etag);
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let request = request.body(body).map_err(wrong)?;
        let answer = self.inner.exchange.clone().oneshot(request);
        let answer = match tokio::time::timeout(PATIENCE, answer).await {
            Ok(answer) => answer.map_err(|error| Failure::Silence(error.to_string()))?,
            Err(_) => {
                let why = format!("the BMC does not answer within {} s", PATIENCE.as_secs());
                return Err(Failure::Silence(why));
            }
        };
        let (parts, body) = answer.into_parts();
        if body.len() > MOST_BODY {
            return Err(Failure::Error(format!("the BMC answers with {} bytes", body.len())));
        }
        Ok(Reply { status: parts.status, headers: parts.headers, body })
    }
}

/// An answer of any status.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Reply {
    /// Itself, if it is of success; `what` was asked.
    pub(super) fn success(self, what: &str) -> Result<Self, Failure> {
        self.successful(what)?;
        Ok(self)
    }

    /// The same, borrowed.
    pub(super) fn successful(&self, what: &str) -> Result<&Self, Failure> {
        if self.status.is_success() {
            return Ok(self);
        }
        let why = self.complaint().map_or_else(String::new, |why| format!(": {why}"));
        Err(Failure::Error(format!("the BMC answers {} to {what}{why}", self.status)))
    }

    /// The body. Deep nesting is refused by the parser, long ones by [`MOST_BODY`].
    pub(super) fn json(&self) -> Result<Value, Failure> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Failure::Error(format!("the BMC answers with no JSON: {error}")))
    }

    pub(super) fn etag(&self) -> Option<String> {
        let etag = self.headers.get(header::ETAG)?.to_str().ok()?;
        Some(etag.to_owned())
    }

    /// What the BMC says is wrong (DSP0266, 8.6), shortened to a line.
    fn complaint(&self) -> Option<String> {
        let body = self.json().ok()?;
        let said = body
            .pointer("/error/@Message.ExtendedInfo/0/Message")
            .or_else(|| body.pointer("/error/message"))?;
        let clean = |c: char| if c.is_control() { ' ' } else { c };
        Some(said.as_str()?.chars().take(200).map(clean).collect())
    }
}
