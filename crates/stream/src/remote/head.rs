//! The head of an HTTP/1.1 answer: bytes to the few facts that a read needs.
//!
//! Pure, and bounded: whoever answers cannot make it take more memory than [`LONGEST`] bytes. What a
//! well-behaved server never says (two lengths, a range that ends before it begins) is an error, so
//! that nothing behind this has to doubt a head. The syntax is RFC 9112's, the fields RFC 9110's.

use httparse::{EMPTY_HEADER, Response, Status};

/// Bytes of the longest head that is read.
pub(crate) const LONGEST: usize = 32 << 10;

/// Fields of the longest head that is read.
const FIELDS: usize = 128;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Bytes that follow, where that is told.
    pub(crate) length: Option<u64>,
    pub(crate) range: Option<Given>,
    /// Only a strong one: a weak one may stay the same while bytes change.
    pub(crate) etag: Option<String>,
    pub(crate) modified: Option<String>,
    pub(crate) location: Option<String>,
    pub(crate) retry_after: Option<String>,
    /// Other than `identity`.
    pub(crate) encoding: Option<String>,
    /// Whether the body comes in chunks.
    pub(crate) chunked: bool,
    /// Whether the connection ends with this answer.
    pub(crate) close: bool,
    /// Where S3 says that a bucket lies.
    pub(crate) region: Option<String>,
}

/// What `Content-Range` says: which bytes come, of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// First and last byte; `None` where the range could not be satisfied.
    pub(crate) bytes: Option<(u64, u64)>,
    /// Bytes of the whole object, if the server knows.
    pub(crate) whole: Option<u64>,
}

/// Reads a head off the beginning of bytes: the head and its length, or `None` if its end is not yet
/// there.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, String> {
    let mut fields = [EMPTY_HEADER; FIELDS];
    let mut response = Response::new(&mut fields);
    let len = match response.parse(bytes) {
        Ok(Status::Complete(len)) if len <= LONGEST => len,
        Ok(Status::Partial) if bytes.len() < LONGEST => return Ok(None),
        Ok(_) => return Err(format!("a head of more than {LONGEST} bytes")),
        Err(error) => return Err(format!("what is no HTTP ({error})")),
    };
    let mut head = Head { status: response.code.unwrap_or_default(), ..Head::default() };
    // Before 1.1 a connection ended with its answer unless something else was said.
    head.close = response.version == Some(0);
    for field in response.headers.iter() {
        let Ok(value) = std::str::from_utf8(field.value) else { continue };
        let value = value.trim();
        let said = || value.to_owned();
        match field.name.to_ascii_lowercase().as_str() {
            "content-length" => {
                let length = number(value).ok_or("a Content-Length that is no number")?;
                if head.length.is_some_and(|other| other != length) {
                    return Err("two Content-Lengths".to_owned());
                }
                head.length = Some(length);
            }
            "content-range" => {
                head.range = Some(given(value).ok_or("a Content-Range that is none")?);
            }
            "etag" => head.etag = (value.len() > 1 && value.starts_with('"')).then(said),
            "last-modified" => head.modified = Some(said()),
            "location" => head.location = Some(said()),
            "retry-after" => head.retry_after = Some(said()),
            "content-encoding" if !value.eq_ignore_ascii_case("identity") && !value.is_empty() => {
                head.encoding = Some(said());
            }
            "transfer-encoding" => head.chunked = true,
            "connection" => {
                let mut tokens = value.split(',').map(str::trim);
                let has = |token: &str, what: &str| token.eq_ignore_ascii_case(what);
                if tokens.clone().any(|token| has(token, "close")) {
                    head.close = true;
                } else if tokens.any(|token| has(token, "keep-alive")) {
                    head.close = false;
                }
            }
            "x-amz-bucket-region" => head.region = Some(said()),
            _ => {}
        }
    }
    if head.chunked {
        // RFC 9112, 6.3: chunks say where the body ends, whatever the length says.
        head.length = None;
    }
    Ok(Some((head, len)))
}

/// Digits and nothing else: `parse` alone would take a sign.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// `bytes 0-9/100`, `bytes 0-9/*`, `bytes */100`.
fn given(text: &str) -> Option<Given> {
    let (unit, rest) = text.split_once(' ')?;
    let (bytes, whole) = rest.trim().split_once('/')?;
    let whole = if whole == "*" { None } else { Some(number(whole)?) };
    let bytes = match bytes {
        "*" => None,
        bytes => {
            let (first, last) = bytes.split_once('-')?;
            Some((number(first)?, number(last)?))
        }
    };
    let sound = bytes.is_none_or(|(first, last)| {
        first <= last && last < u64::MAX && whole.is_none_or(|whole| last < whole)
    });
    (unit.eq_ignore_ascii_case("bytes") && sound).then_some(Given { bytes, whole })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(text: &str) -> Result<Head, String> {
        Ok(parse(text.as_bytes())?.expect("it is whole").0)
    }

    #[test]
    fn the_facts_are_read() {
        let text = "HTTP/1.1 206 Partial Content\r\nContent-Length: 10\r\nETag: \"a\"\r\n\
             content-range: bytes 5-14/100\r\nConnection: Keep-Alive, close\r\n\r\nrest";
        let (head, len) = parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!(&text[len..], "rest");
        let range = Some(Given { bytes: Some((5, 14)), whole: Some(100) });
        let etag = Some("\"a\"".to_owned());
        let length = Some(10);
        let want = Head { status: 206, length, range, etag, close: true, ..Head::default() };
        assert_eq!(head, want);
        let old = whole("HTTP/1.0 200 OK\r\n\r\n").unwrap();
        assert!(old.close && !whole("HTTP/1.1 200 OK\r\n\r\n").unwrap().close);
        let weak = whole("HTTP/1.1 200 OK\r\nETag: W/\"a\"\r\n\r\n").unwrap();
        assert_eq!(weak.etag, None);
        let chunked = "HTTP/1.1 403 No\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(whole(chunked).unwrap().length, None);
        let none = whole("HTTP/1.1 416 No\r\nContent-Range: bytes */0\r\n\r\n").unwrap();
        assert_eq!(none.range, Some(Given { bytes: None, whole: Some(0) }));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for field in [
            "Content-Length: -1",
            "Content-Length: +1",
            "Content-Length: 1\r\nContent-Length: 2",
            "Content-Length: 99999999999999999999",
            "Content-Range: bytes 9-5/10",
            "Content-Range: bytes 0-10/10",
            "Content-Range: lines 0-1/10",
            "Content-Range: bytes",
            "a field without a colon",
        ] {
            assert!(whole(&format!("HTTP/1.1 206 OK\r\n{field}\r\n\r\n")).is_err(), "{field}");
        }
        let long = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(LONGEST));
        assert!(parse(long.as_bytes()).is_err());
        let many = format!("HTTP/1.1 200 OK\r\n{}", "X: y\r\n".repeat(FIELDS + 1));
        assert!(parse(many.as_bytes()).is_err());
        assert!(parse(b"\x16\x03\x01\x02\x00").is_err(), "TLS is no HTTP");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..Default::default() })]

        /// Any bytes, and heads with bytes changed: no panic, and a head is never longer than allowed.
        #[test]
        fn no_bytes_make_it_panic(
            mut bytes in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..200),
                Just(b"HTTP/1.1 206 Partial\r\nContent-Range: bytes 1-2/3\r\nETag: \"x\"\r\n\
                    Content-Length: 2\r\nRetry-After: 1\r\nLocation: /x\r\n\r\nab".to_vec()),
            ],
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
        ) {
            for (index, byte) in changes {
                if !bytes.is_empty() {
                    let at = index.index(bytes.len());
                    bytes[at] = byte;
                }
            }
            if let Ok(Some((head, len))) = parse(&bytes) {
                prop_assert!(len <= bytes.len() && len <= LONGEST);
                let held = [&head.etag, &head.modified, &head.location, &head.retry_after];
                let held: usize = held.into_iter().flatten().map(String::len).sum();
                prop_assert!(held <= bytes.len());
            }
            for cut in 0..bytes.len() {
                let _ = parse(&bytes[..cut]);
            }
        }
    }
}
