//! The head of a request: bytes to the few facts that an answer needs.
//!
//! Pure, and bounded: whoever asks cannot make it take more memory than [`LONGEST`] bytes. The syntax
//! is RFC 9112's. Bodies are not read: a request that has one is refused, since nothing here takes one.

use httparse::{EMPTY_HEADER, Status};

use super::refusal::Refusal;
use crate::remote::PEER;

/// Bytes of the longest head that is read.
pub(super) const LONGEST: usize = 16 << 10;

/// Fields of the longest head that is read.
const FIELDS: usize = 64;

/// See the module.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    /// Whether only the head of the answer is wanted.
    pub(super) head_only: bool,
    /// What is asked for, as it came: encoded, with its query.
    pub(super) target: String,
    pub(super) range: Option<String>,
    pub(super) conditions: Conditions,
    /// Whether the connection ends with the answer.
    pub(super) close: bool,
    /// Whether another cache asks.
    pub(super) peer: bool,
}

/// The fields of RFC 9110, 13.1, as they came.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Conditions {
    pub(super) matches: Option<String>,
    pub(super) none_match: Option<String>,
    pub(super) modified_since: Option<String>,
    pub(super) unmodified_since: Option<String>,
    pub(super) range: Option<String>,
}

/// Reads a head off the beginning of bytes: the request and the length of its head, or `None` if its
/// end is not yet there.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Request, usize)>, Refusal> {
    let mut fields = [EMPTY_HEADER; FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    let long = || Refusal::new(431, format!("the head has more than {LONGEST} bytes"));
    let len = match parsed.parse(bytes) {
        Ok(Status::Complete(len)) if len <= LONGEST => len,
        Ok(Status::Partial) if bytes.len() < LONGEST => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(long()),
        Err(error) => return Err(Refusal::new(400, format!("this is no HTTP/1.1: {error}"))),
    };
    let head_only = match parsed.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(Refusal::new(405, "only GET and HEAD are answered")),
    };
    let target = parsed.path.unwrap_or_default().to_owned();
    let old = parsed.version == Some(0);
    let mut request = Request { head_only, target, close: old, ..Request::default() };
    let mut host = old;
    for field in parsed.headers.iter() {
        let Ok(value) = std::str::from_utf8(field.value) else { continue };
        let value = value.trim();
        let conditions = &mut request.conditions;
        let place = match field.name.to_ascii_lowercase().as_str() {
            "range" => &mut request.range,
            "if-match" => &mut conditions.matches,
            "if-none-match" => &mut conditions.none_match,
            "if-modified-since" => &mut conditions.modified_since,
            "if-unmodified-since" => &mut conditions.unmodified_since,
            "if-range" => &mut conditions.range,
            "host" => {
                host = true;
                continue;
            }
            PEER => {
                request.peer = true;
                continue;
            }
            "content-length" if value == "0" => continue,
            "content-length" | "transfer-encoding" => {
                return Err(Refusal::new(400, "a request for bytes has no body"));
            }
            "connection" => {
                let has =
                    |what: &str| value.split(',').any(|t| t.trim().eq_ignore_ascii_case(what));
                request.close = has("close") || request.close && !has("keep-alive");
                continue;
            }
            _ => continue,
        };
        match place {
            // Lists may come in many fields (RFC 9110, 5.3).
            Some(before) => {
                before.push(',');
                before.push_str(value);
            }
            None => *place = Some(value.to_owned()),
        }
    }
    if !host {
        return Err(Refusal::new(400, "the request names no Host"));
    }
    Ok(Some((request, len)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(text: &str) -> Result<Request, u16> {
        let parsed = parse(text.as_bytes()).map_err(|refusal| refusal.status)?;
        Ok(parsed.expect("it is whole").0)
    }

    #[test]
    fn the_facts_are_read() {
        let text = "HEAD /a?x HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1\r\nIf-Match: \"a\"\r\n\
            If-Match: \"b\"\r\nSeatrial-Peer: 1\r\nConnection: close\r\n\r\nmore";
        let (request, len) = parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!(&text[len..], "more");
        let matches = Some("\"a\",\"b\"".to_owned());
        let want = Request {
            head_only: true,
            target: "/a?x".to_owned(),
            range: Some("bytes=0-1".to_owned()),
            conditions: Conditions { matches, ..Conditions::default() },
            close: true,
            peer: true,
        };
        assert_eq!(request, want);
        assert!(whole("GET / HTTP/1.0\r\n\r\n").unwrap().close);
        assert!(!whole("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").unwrap().close);
        assert_eq!(parse(b"GET / HTTP/1.1\r\nHo"), Ok(None));
    }

    #[test]
    fn what_is_not_answered_is_refused() {
        assert_eq!(whole("POST / HTTP/1.1\r\nHost: h\r\n\r\n"), Err(405));
        assert_eq!(whole("GET / HTTP/1.1\r\n\r\n"), Err(400));
        assert_eq!(whole("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n"), Err(400));
        assert_eq!(whole("\x16\x03\x01\r\n\r\n"), Err(400));
        assert_eq!(whole(&format!("GET /{} HTTP/1.1\r\n", "x".repeat(LONGEST))), Err(431));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(FIELDS + 1));
        assert_eq!(whole(&many), Err(431));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let line = b"GET / HTTP/1.1\r\nhost: h\r\nrange: ";
            for bytes in [bytes.clone(), [&line[..], &bytes, b"\r\n\r\n"].concat()] {
                if let Ok(Some((_, len))) = parse(&bytes) {
                    prop_assert!(len <= bytes.len());
                }
            }
        }
    }
}
