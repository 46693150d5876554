//! The documents that are not objects: what is served, how the server feels, which version it is.
//!
//! All of it is made from the resource table at the moment of asking.

mod aggregated;
mod health;
mod plain;

use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::openapi;
use crate::resource::Table;
use crate::server::ApiServer;
use crate::status::ApiError;
use crate::wire::body::ResponseBody;
use crate::wire::negotiate::{self, Asked, Form, Kinds};
use crate::wire::{self};

/// The Kubernetes version that this server's answers are held to.
pub const KUBERNETES_VERSION: (&str, &str, &str) = ("1", "35", "v1.35.4+seatrial");

/// Paths that `/` lists, beside those of groups and versions.
const ROOT_PATHS: [&str; 8] = [
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/readyz",
    "/version",
    "/version/",
];

/// Answers a path that is no resource.
pub(crate) fn answer(
    server: &ApiServer,
    parts: &Parts,
    segments: &[String],
) -> Result<Response<ResponseBody>, ApiError> {
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let table = server.table();
    // Upstream asks for the method only where its router does.
    let get_only = match segments.as_slice() {
        ["version"]
        | ["seatrial", "snapshot"]
        | ["api", ..]
        | [".well-known", ..]
        | ["openid", "v1", "jwks"] => true,
        ["apis", group, ..] => is_built_in(&table, group),
        _ => false,
    };
    if get_only && parts.method != Method::GET {
        return Err(ApiError::no_such_method());
    }
    let document = match segments.as_slice() {
        [which @ ("healthz" | "livez" | "readyz"), part @ ..] => {
            return Ok(health::answer(which, part, parts.uri.query()));
        }
        ["metrics"] => return Ok(wire::text(server.metrics_text())),
        // Ours alone; all secrets are in it, and only masters may read a path that no role names.
        ["seatrial", "snapshot"] => {
            return Ok(wire::bytes(server.store().snapshot().into_chunks()));
        }
        [".well-known", "openid-configuration"] => {
            let value = server.issuer().configuration(host(parts));
            return Ok(public(wire::document_as("application/json", &value)));
        }
        ["openid", "v1", "jwks"] => {
            if !accepts(parts, JWK_SET) {
                return Err(ApiError::no_representation(JWK_SET));
            }
            return Ok(public(wire::document_as(JWK_SET, &server.issuer().web_keys())));
        }
        ["version"] => return wire::document(&version(), Form::JSON),
        ["openapi", ..] => {
            let found = openapi::answer(server.openapi(), &table, server.second(), parts);
            return Ok(found.unwrap_or_else(wire::no_page));
        }
        [] => return wire::document(&root(&table), Form::JSON),
        [root @ ("api" | "apis")] => {
            if let Some(aggregated) = aggregated::wanted(parts.headers.get(ACCEPT)) {
                let value = aggregated.document(&table, *root == "api");
                return Ok(tagged(parts, aggregated.content_type(), &value));
            }
            Some(if *root == "api" { plain::versions(host(parts)) } else { plain::groups(&table) })
        }
        ["api", version] => plain::resources(&table, "", version),
        ["apis", group] => plain::group(&table, group),
        ["apis", group, version] => plain::resources(&table, group, version),
        _ => None,
    };
    let Some(document) = document else {
        // A built-in group's router speaks for all paths below it.
        return match segments.as_slice() {
            ["api", ..] => Err(ApiError::no_such_resource()),
            ["apis", group, _, ..] if is_built_in(&table, group) => {
                Err(ApiError::no_such_resource())
            }
            _ => Ok(wire::no_page()),
        };
    };
    wire::document(&document, negotiate::accept(&parts.headers, Asked::Document, Kinds::BuiltIn)?)
}

const JWK_SET: &str = "application/jwk-set+json";

/// Whether the client takes a media type that has only one form.
fn accepts(parts: &Parts, media_type: &str) -> bool {
    let Some(accept) = parts.headers.get(ACCEPT).and_then(|value| value.to_str().ok()) else {
        return true;
    };
    let mut types = accept.split(',').map(|t| t.split(';').next().unwrap_or_default().trim());
    types.any(|t| t == "*/*" || t == media_type)
}

/// What anybody may keep for an hour.
fn public(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    let keep = HeaderValue::from_static("public, max-age=3600");
    response.headers_mut().insert(CACHE_CONTROL, keep);
    response
}

fn is_built_in(table: &Table, group: &str) -> bool {
    table.iter().any(|r| !r.is_custom() && r.group == group)
}

/// The name by which the client calls the server.
fn host(parts: &Parts) -> &str {
    let header = parts.headers.get(http::header::HOST).and_then(|h| h.to_str().ok());
    header.or_else(|| parts.uri.authority().map(|a| a.as_str())).unwrap_or_default()
}

/// A document with an `ETag`, or 304 if the client has it already.
fn tagged(parts: &Parts, content_type: &'static str, value: &Value) -> Response<ResponseBody> {
    let mut response = wire::document_as(content_type, value);
    let digest = Sha256::digest(value.to_string());
    let tag = digest.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    let tag = format!("\"{tag}\"");
    if parts.headers.get(IF_NONE_MATCH).is_some_and(|sent| sent.as_bytes() == tag.as_bytes()) {
        *response.body_mut() = ResponseBody::Full(bytes::Bytes::new());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response.headers_mut().remove(CONTENT_TYPE);
    }
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    // Clients keep it and ask again with the tag.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    response
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
    let mut paths: Vec<String> =
        vec!["/api".into(), "/api/v1".into(), "/apis".into(), "/apis/".into()];
    for group in table.groups().into_iter().filter(|g| !g.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(table.versions_of(&group).iter().map(|v| format!("/apis/{group}/{v}")));
    }
    paths.extend(ROOT_PATHS.map(str::to_owned));
    json!({"paths": paths})
}
