//! The documents that are not objects: what is served, how the server feels, which version it is.
//!
//! All of it is made from the resource table at the moment of asking. OpenAPI is not served yet;
//! its paths answer 404 like any other unknown path.

mod aggregated;
mod plain;

use http::header::{ACCEPT, ETAG, IF_NONE_MATCH, VARY};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::resource::GroupResource;
use crate::server::ApiServer;
use crate::status::ApiError;
use crate::wire::body::ResponseBody;
use crate::wire::{self};

/// The Kubernetes version that this server's answers are held to.
pub const KUBERNETES_VERSION: (&str, &str, &str) = ("1", "35", "v1.35.4+seatrial");

/// Paths that `/` lists, beside those of groups and versions.
const ROOT_PATHS: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// Answers a path that is no resource.
pub(crate) fn answer(
    server: &ApiServer,
    parts: &Parts,
    segments: &[String],
) -> Result<Response<ResponseBody>, ApiError> {
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return match segments.as_slice() {
            ["api" | "apis", ..] => Err(ApiError::no_such_resource()),
            _ => Err(ApiError::method_not_allowed(&GroupResource::new("", ""), parts.method.as_str())),
        };
    }
    let table = server.table();
    let host = parts.headers.get(http::header::HOST).and_then(|h| h.to_str().ok());
    let host = host.or_else(|| parts.uri.authority().map(|a| a.as_str())).unwrap_or_default();
    let document = match segments.as_slice() {
        ["healthz" | "livez" | "readyz"] => return Ok(health(segments[0], parts)),
        ["healthz" | "livez" | "readyz", "ping" | "etcd" | "log"] => {
            return Ok(wire::text(StatusCode::OK, "ok"));
        }
        ["version"] => version(),
        [] => root(&table),
        ["api"] | ["apis"] => {
            if let Some(aggregated) = aggregated::wanted(parts.headers.get(ACCEPT)) {
                let value = aggregated.document(&table, segments[0] == "api");
                return Ok(tagged(parts, aggregated.content_type(), &value));
            }
            if segments[0] == "api" { plain::versions(host) } else { plain::groups(&table) }
        }
        ["api", version] => plain::resources(&table, "", version).ok_or_else(no_page)?,
        ["apis", group] => plain::group(&table, group).ok_or_else(no_page)?,
        ["apis", group, version] => plain::resources(&table, group, version).ok_or_else(no_page)?,
        _ => return Ok(wire::text(StatusCode::NOT_FOUND, "404 page not found\n")),
    };
    let mut response = wire::document("application/json", &document);
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

fn no_page() -> ApiError {
    ApiError::no_such_resource()
}

/// A document with an `ETag`, or 304 if the client has it already.
fn tagged(parts: &Parts, content_type: &'static str, value: &Value) -> Response<ResponseBody> {
    let mut response = wire::document(content_type, value);
    let digest = Sha256::digest(value.to_string());
    let tag = digest.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    let tag = format!("\"{tag}\"");
    if parts.headers.get(IF_NONE_MATCH).is_some_and(|sent| sent.as_bytes() == tag.as_bytes()) {
        *response.body_mut() = ResponseBody::Full(bytes::Bytes::new());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

/// A server that answers is well: what it needs is in its own process.
fn health(which: &str, parts: &Parts) -> Response<ResponseBody> {
    let verbose = parts.uri.query().is_some_and(|q| q.split('&').any(|p| p.starts_with("verbose")));
    if !verbose {
        return wire::text(StatusCode::OK, "ok");
    }
    let checks = ["ping", "log", "store"].map(|check| format!("[+]{check} ok\n")).concat();
    wire::text(StatusCode::OK, &format!("{checks}{which} check passed\n"))
}

fn version() -> Value {
    let (major, minor, git) = KUBERNETES_VERSION;
    json!({
        "major": major,
        "minor": minor,
        "gitVersion": git,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, arch()),
    })
}

/// The architecture by the name that Kubernetes gives it.
fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn root(table: &crate::resource::Table) -> Value {
    let mut paths: Vec<String> = vec!["/api".into(), "/api/v1".into(), "/apis".into(), "/apis/".into()];
    for group in table.groups().into_iter().filter(|g| !g.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(table.versions_of(&group).iter().map(|v| format!("/apis/{group}/{v}")));
    }
    paths.extend(ROOT_PATHS.map(str::to_owned));
    json!({"paths": paths})
}
