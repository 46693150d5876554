//! OpenAPI: what kubectl validates, explains and compares by.
//!
//! `/openapi/v3` lists a document per group version under a URL that holds the document's hash, so
//! that clients keep it for ever; `/openapi/v2` is one document of everything, as JSON or protobuf.
//! `paths` says which operations there are, from the resource table; definitions come from the facts
//! (built-in kinds) and from structural schemas (`custom`); `descriptions` joins upstream's sentences;
//! `document` puts it together and `cache` keeps it. Nothing is made before somebody asks.
//! The protobuf form of version 3 is not written: no client that we know of asks for it.

mod cache;
mod custom;
mod descriptions;
mod document;
mod names;
mod paths;
mod protobuf;
#[cfg(test)]
mod tests;
mod v2;
mod v3;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_RANGE,
    CONTENT_TYPE, ETAG, EXPIRES, HeaderName, IF_NONE_MATCH, LAST_MODIFIED, LOCATION, RANGE, VARY,
};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use jiff::{SignedDuration, Timestamp};

pub(crate) use self::cache::Documents;
use self::cache::{Compressed, Document};
use crate::request::Query;
use crate::resource::Table;
use crate::wire;
use crate::wire::body::ResponseBody;

/// The versions of OpenAPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    V2,
    V3,
}

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// The name under which client-go asks for it.
const OLD_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// How long a document whose URL has its hash may be kept.
const YEAR: SignedDuration = SignedDuration::from_hours(365 * 24);

/// Answers a path below `/openapi`; `None` if there is no such page.
pub(crate) fn answer(
    documents: &Documents,
    table: &Table,
    now: Timestamp,
    parts: &Parts,
) -> Option<Response<ResponseBody>> {
    match parts.uri.path() {
        "/openapi/v2" => Some(v2_answer(parts, &documents.v2(table, now))),
        "/openapi/v3" => {
            let (index, made) = documents.index(table, now);
            let mut response = wire::text("");
            partial(parts, index.into(), &mut response);
            date(&mut response, &LAST_MODIFIED, made, "GMT");
            Some(response)
        }
        path => {
            let page = path.strip_prefix("/openapi/v3/")?;
            let found = documents.v3(table, page, now);
            Some(found.map_or_else(missing, |d| v3_answer(parts, page, &d, now)))
        }
    }
}

fn missing() -> Response<ResponseBody> {
    bare(StatusCode::NOT_FOUND)
}

fn bare(code: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Full(Bytes::new()));
    *response.status_mut() = code;
    set(&mut response, &CACHE_CONTROL, "no-cache, private");
    response
}

fn v2_answer(parts: &Parts, document: &Document) -> Response<ResponseBody> {
    let offered = [JSON, OLD_PROTOBUF, PROTOBUF];
    let mut response = match accepted(parts, &offered) {
        Some(JSON) => whole(parts, JSON, document, &document.json),
        Some(_) => whole(parts, PROTOBUF, document, &document.protobuf),
        None => bare(StatusCode::NOT_ACCEPTABLE),
    };
    set(&mut response, &VARY, "Accept-Encoding");
    response.headers_mut().append(VARY, HeaderValue::from_static("Accept"));
    response
}

fn v3_answer(
    parts: &Parts,
    page: &str,
    document: &Document,
    now: Timestamp,
) -> Response<ResponseBody> {
    let hash = Query::parse(parts.uri.query()).all("hash").next().unwrap_or_default().to_owned();
    let mut response = match accepted(parts, &[JSON]) {
        None => bare(StatusCode::NOT_ACCEPTABLE),
        Some(_) if !hash.is_empty() && hash != document.etag => {
            let mut response = bare(StatusCode::MOVED_PERMANENTLY);
            set(&mut response, &LOCATION, &document.url(page));
            set(&mut response, &CONTENT_TYPE, JSON);
            set(&mut response, &ETAG, &document.tag());
            response
        }
        Some(_) => {
            let mut response = whole(parts, JSON, document, &document.json);
            if !hash.is_empty() {
                set(&mut response, &CACHE_CONTROL, "public, immutable");
                date(&mut response, &EXPIRES, now.saturating_add(YEAR).unwrap_or(now), "UTC");
            }
            response
        }
    };
    set(&mut response, &VARY, "Accept");
    if response.headers().contains_key(CONTENT_ENCODING) {
        response.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    response
}

/// A document, or 304 if the client has it already.
fn whole(
    parts: &Parts,
    content_type: &str,
    document: &Document,
    body: &Compressed,
) -> Response<ResponseBody> {
    let tag = document.tag();
    let sent = parts.headers.get(IF_NONE_MATCH).and_then(|h| h.to_str().ok()).unwrap_or_default();
    let same = |sent: &str| sent == "*" || sent.trim_start_matches("W/") == tag;
    if sent.split(',').any(|sent| same(sent.trim())) {
        let mut response = bare(StatusCode::NOT_MODIFIED);
        set(&mut response, &ETAG, &tag);
        return response;
    }
    let mut response = bare(StatusCode::OK);
    set(&mut response, &CONTENT_TYPE, content_type);
    set(&mut response, &ETAG, &tag);
    date(&mut response, &LAST_MODIFIED, document.made, "GMT");
    let text = |name: &HeaderName| parts.headers.get(name).and_then(|h| h.to_str().ok());
    let gzip = text(&ACCEPT_ENCODING).is_some_and(|e| e.split(',').any(|e| e.trim() == "gzip"));
    if gzip {
        set(&mut response, &CONTENT_ENCODING, "gzip");
        *response.body_mut() = ResponseBody::Full(body.gzip());
    } else {
        partial(parts, body.plain(), &mut response);
    }
    response
}

/// All of the bytes, or those that the client asks for in one range. Other ranges are not understood
/// and not refused.
fn partial(parts: &Parts, bytes: Bytes, response: &mut Response<ResponseBody>) {
    set(response, &ACCEPT_RANGES, "bytes");
    let asked = parts.headers.get(RANGE).and_then(|h| h.to_str().ok());
    let range = asked.and_then(|asked| {
        let (from, to) = asked.strip_prefix("bytes=")?.split_once('-')?;
        let from: usize = from.parse().ok()?;
        let to = if to.is_empty() { usize::MAX } else { to.parse().ok()? };
        (from <= to && from < bytes.len()).then(|| from..to.saturating_add(1).min(bytes.len()))
    });
    let Some(range) = range else {
        *response.body_mut() = ResponseBody::Full(bytes);
        return;
    };
    let shown = format!("bytes {}-{}/{}", range.start, range.end - 1, bytes.len());
    set(response, &CONTENT_RANGE, &shown);
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    *response.body_mut() = ResponseBody::Full(bytes.slice(range));
}

/// The first media type that the client likes of those on offer, by its weights and then its order.
fn accepted<'a>(parts: &Parts, offered: &[&'a str]) -> Option<&'a str> {
    let header: Vec<&str> =
        parts.headers.get_all(ACCEPT).iter().filter_map(|h| h.to_str().ok()).collect();
    let header = header.join(",");
    let header = if header.trim().is_empty() { "*/*" } else { &header };
    let mut clauses: Vec<(f32, &str)> = Vec::new();
    for clause in header.split(',') {
        let mut parts = clause.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let weight = parts.find_map(|p| p.strip_prefix("q=")?.parse().ok());
        clauses.push((weight.unwrap_or(1.0), media_type));
    }
    clauses.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let fits = |wanted: &str, offered: &str| {
        let ((wanted, wanted_sub), (offered, offered_sub)) =
            (wanted.split_once('/')?, offered.split_once('/')?);
        ((wanted == "*" || wanted == offered) && (wanted_sub == "*" || wanted_sub == offered_sub))
            .then_some(())
    };
    let first = |wanted: &str| offered.iter().find(|o| fits(wanted, o).is_some()).copied();
    clauses.into_iter().find_map(|(_, wanted)| first(wanted))
}

fn set(response: &mut Response<ResponseBody>, name: &HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

fn date(response: &mut Response<ResponseBody>, name: &HeaderName, time: Timestamp, zone: &str) {
    let time = time.strftime("%a, %d %b %Y %H:%M:%S");
    set(response, name, &format!("{time} {zone}"));
}
