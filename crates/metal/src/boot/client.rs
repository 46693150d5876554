//! The machine's side of the boot service: what runs on it asks who it is, and for a token to join.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use serde::de::DeserializeOwned;
use tower::ServiceExt as _;

use super::{Claim, Identity, JoinToken};
use crate::exchange::Exchange;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The boot service has not given what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the boot service gives nothing: {why}")]
pub struct NotGiven {
    /// What it said, or why it said nothing.
    pub why: String,
    /// After how long it is worth asking again, if the service said so.
    pub after: Option<Duration>,
}

/// Asks who this boot is. `service` is the URL of the boot service.
///
/// # Errors
/// What the service answered, or that it did not.
pub async fn enrol(
    exchange: &Exchange,
    service: &str,
    claim: &Claim,
) -> Result<Identity, NotGiven> {
    ask(exchange, service, "enrol", claim).await
}

/// Asks for a token to join.
///
/// # Errors
/// What the service answered, or that it did not.
pub async fn join(
    exchange: &Exchange,
    service: &str,
    claim: &Claim,
) -> Result<JoinToken, NotGiven> {
    ask(exchange, service, "join", claim).await
}

async fn ask<T: DeserializeOwned>(
    exchange: &Exchange,
    service: &str,
    what: &str,
    claim: &Claim,
) -> Result<T, NotGiven> {
    let not_given = |why: String| NotGiven { why, after: None };
    let url = format!("{}/boot/v1/{what}", service.trim_end_matches('/'));
    let body = serde_json::to_vec(claim).map_err(|error| not_given(error.to_string()))?;
    let request = Request::builder()
        .method(Method::POST)
        .uri(url)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Bytes::from(body))
        .map_err(|error| not_given(error.to_string()))?;
    let answer = tokio::time::timeout(PATIENCE, exchange.clone().oneshot(request)).await;
    let answer = answer
        .map_err(|_| not_given(format!("no answer within {} s", PATIENCE.as_secs())))?
        .map_err(|error| not_given(error.to_string()))?;
    if answer.status() == StatusCode::OK {
        return serde_json::from_slice(answer.body())
            .map_err(|error| not_given(format!("the answer is not as agreed: {error}")));
    }
    let after = answer.headers().get(header::RETRY_AFTER);
    let after = after.and_then(|after| after.to_str().ok()?.parse().ok());
    let said = String::from_utf8_lossy(answer.body());
    let said: String = said.trim().chars().take(500).collect();
    Err(NotGiven {
        why: format!("{}: {said}", answer.status()),
        after: after.map(Duration::from_secs),
    })
}
