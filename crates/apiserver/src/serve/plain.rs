//! Requests that are answered before anybody looks at them as requests to an API: what HTTP itself
//! demands, in the words of Go's server.

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body_util::Full;

/// The answer, if this is such a request.
pub(super) fn answer<B>(request: &Request<B>) -> Option<Response<Full<Bytes>>> {
    // Of HTTP/2 the library below is as strict as Go's.
    if request.version() > Version::HTTP_11 {
        return None;
    }
    let hosts = request.headers().get_all(header::HOST).iter().count();
    let path = request.uri().path();
    match (request.method(), hosts) {
        (&Method::CONNECT, _) => None,
        (_, 2..) => Some(refusal("400 Bad Request")),
        (_, 0) if request.version() == Version::HTTP_11 => {
            Some(refusal("400 Bad Request: missing required Host header"))
        }
        // A target that is neither a path nor a URL.
        _ if path.is_empty() => Some(refusal("400 Bad Request")),
        // About the server as a whole, which has nothing to say.
        (&Method::OPTIONS, _) if path == "*" => Some(Response::default()),
        _ => None,
    }
}

/// Whoever frames requests so is not to be trusted with another on this connection.
fn refusal(text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_http_demands_is_demanded() {
        let check = |method: &str, target: &str, hosts: usize, want: Option<u16>| {
            let mut request = Request::builder().method(method).uri(target);
            for _ in 0..hosts {
                request = request.header("host", "localhost");
            }
            let answer = answer(&request.body(()).unwrap());
            let got = answer.map(|answer| answer.status().as_u16());
            assert_eq!(got, want, "{method} {target} with {hosts} hosts");
        };
        check("GET", "/healthz", 1, None);
        check("GET", "https://localhost/healthz", 1, None);
        check("GET", "/healthz", 0, Some(400));
        check("GET", "/healthz", 2, Some(400));
        check("GET", "healthz", 1, Some(400));
        check("OPTIONS", "*", 1, Some(200));
        check("OPTIONS", "/healthz", 1, None);
    }
}
