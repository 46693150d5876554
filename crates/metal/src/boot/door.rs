//! Requests to the boot service, and their answers.

use super::{BootSource, Booting, Claim, Enrol, Join, Unavailable, hardware_address, script};
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use serde::Serialize;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The largest request body that is read, in bytes.
const MOST_BODY: usize = 4096;
/// When a machine that could not be answered shall ask again.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// How long a boot's secret is: 128 bits in hexadecimal at least.
const SECRET: RangeInclusive<usize> = 32..=256;
/// The longest boot ID.
const LONGEST_BOOT: usize = 128;

/// Answers one request. Never fails: what is wrong is said in words, which a console shows.
pub async fn answer<S: BootSource>(source: &S, request: &Request<Bytes>) -> Response<Bytes> {
    let head = request.method() == Method::HEAD;
    let mut response = route(source, request).await.unwrap_or_else(Refusal::response);
    let headers = response.headers_mut();
    // What a machine boots may be another at the next boot.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if head {
        let length = response.body().len();
        response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
        *response.body_mut() = Bytes::new();
    }
    response
}

/// Why there is no better answer, and after how long there may be one.
struct Refusal(StatusCode, String, Option<Duration>);

impl Refusal {
    fn response(self) -> Response<Bytes> {
        let Self(status, mut why, after) = self;
        why.push('\n');
        let mut response = text(why);
        *response.status_mut() = status;
        if let Some(after) = after {
            // Rounded up: who comes too early is only told the same again.
            let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl From<Unavailable> for Refusal {
    fn from(error: Unavailable) -> Self {
        Self(StatusCode::SERVICE_UNAVAILABLE, error.to_string(), Some(RETRY_AFTER))
    }
}

fn refusal(status: StatusCode, why: impl Into<String>) -> Refusal {
    Refusal(status, why.into(), None)
}

async fn route<S: BootSource>(
    source: &S,
    request: &Request<Bytes>,
) -> Result<Response<Bytes>, Refusal> {
    // Firmware doubles slashes where a path is put together, and some stops at a redirect
    // (tinkerbell/smee #229).
    let path: Vec<&str> = request.uri().path().split('/').filter(|part| !part.is_empty()).collect();
    let get = matches!(*request.method(), Method::GET | Method::HEAD);
    match *path {
        ["boot", "v1", "script"] if get => {
            let (mac, booting) = machine_of(source, request).await?;
            let text_of = script(&booting.manifest, &mac);
            text_of.map(text).map_err(|error| refusal(StatusCode::CONFLICT, error.to_string()))
        }
        ["boot", "v1", "manifest"] if get => {
            let (_, booting) = machine_of(source, request).await?;
            json(&booting.manifest)
        }
        ["boot", "v1", "enrol"] if *request.method() == Method::POST => {
            enrol(source, request.body()).await
        }
        ["boot", "v1", "join"] if *request.method() == Method::POST => {
            join(source, request.body()).await
        }
        ["boot", "v1", "script" | "manifest" | "enrol" | "join"] => {
            let why = format!("{} is not taken here", request.method());
            Err(refusal(StatusCode::METHOD_NOT_ALLOWED, why))
        }
        _ => {
            let why =
                "there is /boot/v1/script, /boot/v1/manifest, /boot/v1/enrol and /boot/v1/join";
            Err(refusal(StatusCode::NOT_FOUND, why))
        }
    }
}

/// The machine that the query names.
async fn machine_of<S: BootSource>(
    source: &S,
    request: &Request<Bytes>,
) -> Result<(String, Booting), Refusal> {
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let mac = pairs.find(|(name, _)| name == "mac").map(|(_, value)| value).unwrap_or_default();
    find(source, &mac).await
}

async fn find<S: BootSource>(source: &S, mac: &str) -> Result<(String, Booting), Refusal> {
    let Some(mac) = hardware_address(mac) else {
        let why = "mac must be a hardware address such as 02:00:00:00:00:01";
        return Err(refusal(StatusCode::BAD_REQUEST, why));
    };
    let none = || {
        let why = format!("no Machine has {mac} among spec.macs; describe it first");
        refusal(StatusCode::NOT_FOUND, why)
    };
    let booting = source.machine(&mac).await?.ok_or_else(none)?;
    Ok((mac, booting))
}

/// What a body claims.
fn claim(body: &Bytes) -> Result<Claim, Refusal> {
    if body.len() > MOST_BODY {
        let why = format!("a claim has at most {MOST_BODY} bytes");
        return Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, why));
    }
    let bad = |why: String| refusal(StatusCode::BAD_REQUEST, why);
    let claim: Claim = serde_json::from_slice(body).map_err(|error| {
        let form = r#"{"mac": ..., "boot": ..., "secret": ...}"#;
        bad(format!("the body must be {form}: {error}"))
    })?;
    if claim.boot.is_empty() || claim.boot.len() > LONGEST_BOOT {
        return Err(bad(format!("boot must be the kernel's boot ID, 1 to {LONGEST_BOOT} bytes")));
    }
    let printable = claim.secret.bytes().all(|byte| byte.is_ascii_graphic());
    if !SECRET.contains(&claim.secret.len()) || !printable {
        let (least, most) = (SECRET.start(), SECRET.end());
        return Err(bad(format!(
            "secret must be {least} to {most} printable characters, drawn anew"
        )));
    }
    Ok(claim)
}

async fn enrol<S: BootSource>(source: &S, body: &Bytes) -> Result<Response<Bytes>, Refusal> {
    let Claim { mac, boot, secret } = claim(body)?;
    let (_, booting) = find(source, &mac).await?;
    match source.enrol(&booting.manifest.machine, &boot, &secret).await? {
        Enrol::Known(identity) => json(&identity),
        Enrol::Refused(why) => Err(refusal(StatusCode::FORBIDDEN, why)),
    }
}

async fn join<S: BootSource>(source: &S, body: &Bytes) -> Result<Response<Bytes>, Refusal> {
    let Claim { mac, boot, secret } = claim(body)?;
    let (_, booting) = find(source, &mac).await?;
    let machine = &booting.manifest.machine;
    let forbidden = |why: String| Err(refusal(StatusCode::FORBIDDEN, why));
    if !booting.production {
        return forbidden(format!("{machine} is not in Production; it joins when it is"));
    }
    if booting.boot.as_ref() != Some(&boot) {
        return forbidden(format!(
            "{machine} does not run this boot, as far as its agent has reported"
        ));
    }
    match source.join(machine, &boot, &secret).await? {
        Join::Token(token) => json(&token),
        Join::Refused(why) => forbidden(why),
        Join::Spent { after } => {
            let then = match after {
                Some(_) => "it may ask for another when that has run out",
                None => "a new boot gets another",
            };
            let why = format!("this boot of {machine} has had its token; {then}");
            Err(Refusal(StatusCode::CONFLICT, why, after))
        }
    }
}

fn text(body: String) -> Response<Bytes> {
    typed("text/plain; charset=utf-8", body.into())
}

fn json(body: &impl Serialize) -> Result<Response<Bytes>, Refusal> {
    let failed =
        |error: serde_json::Error| refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    Ok(typed("application/json", serde_json::to_vec(body).map_err(failed)?.into()))
}

fn typed(kind: &'static str, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
