//! The way to the BMCs: what a command meets on it, and what is written down of it.

use super::record::Record;
use super::sabotage::Saboteur;
use super::weather::{Errand, Fate, Link, Weather};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use metal::{Exchange, Unreachable};
use tower::ServiceExt as _;

/// The header by which the datacentre keeps for which operation it was told.
const OPERATION: &str = "seatrial-operation";

/// The BMCs behind the weather.
pub(super) fn exchange(
    bmcs: Exchange,
    weather: Weather,
    record: Record,
    saboteur: Saboteur,
) -> Exchange {
    Exchange::new(tower::service_fn(move |request: Request<Bytes>| {
        let way = Way {
            bmcs: bmcs.clone(),
            weather: weather.clone(),
            record: record.clone(),
            saboteur: saboteur.clone(),
        };
        way.carry(request)
    }))
}

struct Way {
    bmcs: Exchange,
    weather: Weather,
    record: Record,
    saboteur: Saboteur,
}

impl Way {
    async fn carry(self, mut request: Request<Bytes>) -> Result<Response<Bytes>, Unreachable> {
        let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        let cut = || Unreachable { host, why: "the connection was cut".to_owned() };
        let errand = match *request.method() {
            Method::GET => Errand::Read,
            Method::PATCH => Errand::Patch,
            _ => Errand::Write,
        };
        let sent = resets(&request).map(|machine| {
            let sent = self.record.seen().sends(&machine);
            (machine, sent)
        });
        let passage = self.weather.passage(Link::Bmc, errand);
        tokio::time::sleep(passage.before).await;
        match passage.fate {
            Fate::Lost => return Err(cut()),
            Fate::Refused(code) => return Ok(refusal(code)),
            Fate::Dies { after: false } => match self.weather.die().await {},
            _ => {}
        }
        if let Some((machine, sent)) = sent {
            let operation = self.record.commanded(&machine, sent);
            if let Some(operation) = operation.and_then(|id| HeaderValue::from_str(&id).ok()) {
                request.headers_mut().insert(OPERATION, operation);
            }
            if self.saboteur.doubles() {
                let _ = self.bmcs.clone().oneshot(request.clone()).await;
                tokio::time::sleep(std::time::Duration::from_secs(10)).await;
            }
        }
        let answer = self.bmcs.oneshot(request).await;
        match passage.fate {
            Fate::Unheard => return Err(cut()),
            Fate::Dies { after: true } => match self.weather.die().await {},
            _ => {}
        }
        tokio::time::sleep(passage.after).await;
        answer
    }
}

/// The machine whose power a request changes.
fn resets(request: &Request<Bytes>) -> Option<String> {
    let path = request.uri().path();
    let reset = request.method() == Method::POST && path.ends_with("/ComputerSystem.Reset");
    let name = path.strip_prefix("/bmc/")?.split('/').next()?;
    reset.then(|| name.to_owned())
}

fn refusal(code: u16) -> Response<Bytes> {
    let mut answer = Response::new(Bytes::from_static(b"{}"));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or_default();
    answer
}
