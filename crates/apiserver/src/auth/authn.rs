//! Whom a request speaks for.
//!
//! Client certificate, then bearer token; the first that names a user decides. A credential that
//! is there but not valid refuses the request even if anonymous requests are welcome: only a
//! request without any credential is anonymous.
//!
//! A token is good for certain audiences; who asks names those that it wants, which for a request
//! are the server's own. Service account tokens come in through [`TokenAuthenticator`]; there are no
//! front proxies, webhooks or OIDC.

use std::error::Error;
use std::fmt;

use jiff::Timestamp;

use super::certificate::{CertificateError, ClientCertificates, PeerCertificates};
use super::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User};

/// Something that knows the users behind some bearer tokens.
pub trait TokenAuthenticator: fmt::Debug + Send + Sync {
    /// The token's user; none if the token is not one of its own. It must take the same time for
    /// every token that it does not know. `wanted` are the audiences of which the token must have
    /// one.
    fn authenticate(
        &self,
        token: &str,
        wanted: &[String],
    ) -> Result<Option<TokenUser>, Box<dyn Error + Send + Sync>>;
}

/// Whom a token stands for, and to whom it may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenUser {
    /// The user.
    pub user: User,
    /// Those of the wanted audiences that the token is for; `None` for a token that is for this
    /// server, whatever it is called.
    pub audiences: Option<Vec<String>>,
}

/// Whom a request speaks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authenticated {
    /// The user.
    pub user: User,
    /// The audiences that the credential is for; empty for one that is no token.
    pub audiences: Vec<String>,
}

/// What came with a request that says who sent it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Credentials<'a> {
    /// What the connection's peer presented.
    pub certificates: Option<&'a PeerCertificates>,
    /// The `Authorization` header. Remove it before the request goes on.
    pub authorization: Option<&'a [u8]>,
    /// The audiences of which a token must have one; `None`: the server's own.
    pub audiences: Option<&'a [String]>,
}

/// Why one credential was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// The client certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Whoever knows the token's kind rejects it.
    #[error("{0}")]
    CheckToken(#[source] Box<dyn Error + Send + Sync>),
    /// Nobody knows the token.
    #[error("find the bearer token's user")]
    UnknownToken,
}

/// The request is answered with 401. The reasons are for our log, not for the client.
#[derive(Debug, thiserror::Error)]
#[error("authenticate the request")]
pub struct Unauthenticated {
    /// What was wrong with each credential; empty if there was none and there must be one.
    pub rejected: Vec<CredentialError>,
}

/// All the ways to prove who one is.
#[derive(Debug, Default)]
pub struct Authenticator {
    /// The authority for client certificates; without it they are ignored.
    pub client_certificates: Option<ClientCertificates>,
    /// Who is asked about a bearer token, in this order.
    pub tokens: Vec<Box<dyn TokenAuthenticator>>,
    /// Whether requests without credentials are let in, as `system:anonymous`.
    pub anonymous: bool,
    /// What this server is called in the audiences of tokens.
    pub audiences: Vec<String>,
}

impl Authenticator {
    /// The user whom a request at `now` speaks for.
    pub fn authenticate(
        &self,
        credentials: &Credentials<'_>,
        now: Timestamp,
    ) -> Result<Authenticated, Unauthenticated> {
        let mut rejected = Vec::new();
        if let (Some(authority), Some(peer)) = (&self.client_certificates, credentials.certificates)
        {
            match authority.authenticate(peer, now) {
                Ok(Some(user)) => return Ok(authenticated(user, Vec::new())),
                Ok(None) => {}
                Err(error) => rejected.push(error.into()),
            }
        }
        if let Some(token) = credentials.authorization.and_then(bearer_token) {
            let wanted = credentials.audiences.unwrap_or(&self.audiences);
            let unknown = rejected.len();
            match self.token_user(token, wanted, &mut rejected) {
                Some(found) => {
                    return Ok(authenticated(found.user, found.audiences.unwrap_or_default()));
                }
                None => rejected.insert(unknown, CredentialError::UnknownToken),
            }
        }
        if rejected.is_empty() && self.anonymous {
            let user = User {
                name: ANONYMOUS.to_owned(),
                groups: vec![UNAUTHENTICATED.to_owned()],
                ..User::default()
            };
            return Ok(Authenticated { user, audiences: Vec::new() });
        }
        Err(Unauthenticated { rejected })
    }

    fn token_user(
        &self,
        token: &[u8],
        wanted: &[String],
        rejected: &mut Vec<CredentialError>,
    ) -> Option<TokenUser> {
        let token = std::str::from_utf8(token).ok()?;
        let own: Vec<String> =
            self.audiences.iter().filter(|own| wanted.contains(own)).cloned().collect();
        for authenticator in &self.tokens {
            match authenticator.authenticate(token, wanted) {
                // A token that knows no audiences is for this server, and only for it.
                Ok(Some(TokenUser { audiences: None, .. }))
                    if own.is_empty() && !wanted.is_empty() => {}
                Ok(Some(TokenUser { user, audiences })) => {
                    let audiences = audiences.or(Some(own));
                    return Some(TokenUser { user, audiences });
                }
                Ok(None) => {}
                Err(error) => rejected.push(CredentialError::CheckToken(error)),
            }
        }
        None
    }
}

/// Everyone who proved who they are is in one group.
fn authenticated(mut user: User, audiences: Vec<String>) -> Authenticated {
    if user.name != ANONYMOUS && !user.is_in(AUTHENTICATED) && !user.is_in(UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    Authenticated { user, audiences }
}

/// The token of a `Bearer` header; none if the header is of another kind or empty, which counts as
/// no credential at all.
fn bearer_token(header: &[u8]) -> Option<&[u8]> {
    let mut words = header.trim_ascii().split(|&byte| byte == b' ');
    let scheme = words.next()?;
    let token = words.next()?;
    (scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
#[path = "authn_tests.rs"]
mod tests;
