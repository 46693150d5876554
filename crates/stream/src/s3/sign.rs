//! Signature Version 4, as AWS documents it ("Signature Version 4 signing process", "Authenticating
//! Requests: Using the Authorization Header" and "Using Query Parameters"), for S3: paths are encoded
//! once and never shortened.
//!
//! Held to AWS's published signing test suite and to the examples of S3's documentation. What is
//! signed besides the host are the `x-amz-` fields; ranges and conditions are not, so that what
//! stands between may change them.

use std::time::Duration;

use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::address::encoded;
use super::credentials::Credentials;
use crate::remote::url::Url;

/// What stands for the hash of a body that something else vouches for.
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// A moment as AWS writes it: `20130524T000000Z`.
#[derive(Clone)]
pub(super) struct Stamp(String);

impl Stamp {
    /// The wall clock's: the other side compares it with its own.
    #[expect(clippy::disallowed_methods, reason = "a signature is of the moment it is made in")]
    pub(super) fn now() -> Self {
        Self(jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string())
    }

    fn day(&self) -> &str {
        self.0.get(..8).unwrap_or_default()
    }
}

/// What a signature is good for.
pub(super) struct Scope<'a> {
    pub(super) region: &'a str,
    pub(super) service: &'a str,
    pub(super) stamp: &'a Stamp,
}

impl Scope<'_> {
    fn text(&self) -> String {
        format!("{}/{}/{}/aws4_request", self.stamp.day(), self.region, self.service)
    }
}

/// What is asked of an object, as far as its signature covers it.
pub(crate) struct Request<'a> {
    pub(crate) method: &'static str,
    /// Names and values of the query, not encoded.
    pub(crate) query: &'a [(String, String)],
    pub(crate) body: &'a [u8],
}

impl Request<'_> {
    /// The object, or a range of it.
    pub(crate) const GET: Self = Self { method: "GET", query: &[], body: &[] };
}

/// A request as its signature sees it.
struct Asked<'a> {
    method: &'a str,
    /// Encoded.
    path: &'a str,
    /// Not encoded.
    query: &'a [(String, String)],
    /// Names in lower case.
    fields: &'a [(String, String)],
    /// SHA-256 of the body in hexadecimal digits, or `UNSIGNED-PAYLOAD`.
    payload: &'a str,
}

impl Asked<'_> {
    /// The canonical request, and the names of the signed fields.
    fn canonical(&self) -> (String, String) {
        let mut fields: Vec<(String, String)> = Vec::new();
        let mut sorted: Vec<&(String, String)> = self.fields.iter().collect();
        sorted.sort_by_key(|(name, _)| name);
        for (name, value) in sorted {
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            match fields.last_mut() {
                Some((last, values)) if last == name => {
                    values.push(',');
                    values.push_str(&value);
                }
                _ => fields.push((name.clone(), value)),
            }
        }
        let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        let names = names.join(";");
        let lines: String = fields.iter().map(|(n, v)| format!("{n}:{v}\n")).collect();
        let (method, path, payload) = (self.method, self.path, self.payload);
        let query = query(self.query);
        (format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{payload}"), names)
    }

    /// The signature, and the names of the signed fields.
    fn signature(&self, credentials: &Credentials, scope: &Scope<'_>) -> (String, String) {
        let (canonical, names) = self.canonical();
        let text = to_sign(&canonical, scope);
        let first = Zeroizing::new(format!("AWS4{}", credentials.secret.as_str()));
        let mut key = Zeroizing::new(mac(first.as_bytes(), scope.stamp.day()));
        for part in [scope.region, scope.service, "aws4_request"] {
            key = Zeroizing::new(mac(&*key, part));
        }
        (hex(&mac(&*key, &text)), names)
    }
}

/// The fields that sign a request to a URL without a query of its own, each with its line's end.
///
/// A body is hashed where nothing else vouches for it; over TLS that does.
pub(super) fn fields(
    url: &Url,
    request: &Request<'_>,
    credentials: &Credentials,
    scope: &Scope<'_>,
) -> String {
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let covered = request.body.is_empty() || !url.origin.tls;
    let payload = if covered { hex(&Sha256::digest(request.body)) } else { UNSIGNED.to_owned() };
    let mut fields = vec![
        field("host", &url.origin.authority()),
        field("x-amz-content-sha256", &payload),
        field("x-amz-date", &scope.stamp.0),
    ];
    if let Some(token) = &credentials.token {
        fields.push(field("x-amz-security-token", token));
    }
    let asked = Asked {
        method: request.method,
        path: &url.path,
        query: request.query,
        fields: &fields,
        payload: &payload,
    };
    let (signature, names) = asked.signature(credentials, scope);
    let lines = fields.iter().skip(1).map(|(name, value)| format!("{name}: {value}\r\n"));
    let (id, scope) = (&credentials.id, scope.text());
    lines.collect::<String>()
        + &format!(
            "authorization: {ALGORITHM} Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}\r\n"
        )
}

/// A URL that is its own authority, for so long.
pub(super) fn presigned(
    url: &Url,
    credentials: &Credentials,
    scope: &Scope<'_>,
    valid: Duration,
) -> String {
    let pair = |name: &str, value: String| (name.to_owned(), value);
    let mut pairs = vec![
        pair("X-Amz-Algorithm", ALGORITHM.to_owned()),
        pair("X-Amz-Credential", format!("{}/{}", credentials.id, scope.text())),
        pair("X-Amz-Date", scope.stamp.0.clone()),
        pair("X-Amz-Expires", valid.as_secs().to_string()),
        pair("X-Amz-SignedHeaders", "host".to_owned()),
    ];
    if let Some(token) = &credentials.token {
        pairs.push(pair("X-Amz-Security-Token", token.to_string()));
    }
    let fields = [pair("host", url.origin.authority())];
    let asked =
        Asked { method: "GET", path: &url.path, query: &pairs, fields: &fields, payload: UNSIGNED };
    let (signature, _) = asked.signature(credentials, scope);
    let (scheme, query) = (if url.origin.tls { "https" } else { "http" }, query(&pairs));
    let to = url.origin.authority();
    format!("{scheme}://{to}{}?{query}&X-Amz-Signature={signature}", url.path)
}

/// What is signed: which request, when, and for what.
fn to_sign(canonical: &str, scope: &Scope<'_>) -> String {
    let digest = hex(&Sha256::digest(canonical));
    format!("{ALGORITHM}\n{}\n{}\n{digest}", scope.stamp.0, scope.text())
}

/// Pairs encoded, in the order of their encoded names and values.
pub(crate) fn query(pairs: &[(String, String)]) -> String {
    let mut pairs: Vec<(String, String)> =
        pairs.iter().map(|(name, value)| (encoded(name, false), encoded(value, false))).collect();
    pairs.sort();
    let pairs: Vec<String> = pairs.into_iter().map(|(n, v)| format!("{n}={v}")).collect();
    pairs.join("&")
}

fn mac(key: &[u8], text: &str) -> [u8; 32] {
    // HMAC takes a key of any length, which its type cannot say.
    let Ok(mac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; 32] };
    mac.chain_update(text).finalize().into_bytes().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
