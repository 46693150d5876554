//! Boot services that run elsewhere, as the machines of a simulated site reach them.
//!
//! One of several replicas leads, and only it knows the machines: the first that does not answer
//! `503 Service Unavailable` is believed, as a script of iPXE tries one address after the other.

use http::{Request, Response, StatusCode, Uri, uri};
use hyper::body::Bytes;
use metal::{Exchange, Unreachable};
use sim::datacentre::BootService;
use tower::{ServiceExt as _, service_fn};

/// One address of a boot service: `http://boot.example:8082`
#[derive(Clone, Debug)]
pub(crate) struct BootUrl(uri::Authority);

impl std::str::FromStr for BootUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|error| format!("{error}"))?;
        match (uri.scheme_str(), uri.authority(), uri.path()) {
            (Some("http"), Some(authority), "" | "/") => Ok(Self(authority.clone())),
            _ => Err("it must be as http://boot.example:8082: scheme, host and port".to_owned()),
        }
    }
}

/// The boot service that answers at these addresses, in their order; none if there is no address.
pub(super) fn boot_service(urls: &[BootUrl]) -> Option<BootService> {
    let hosts: Vec<uri::Authority> = urls.iter().map(|BootUrl(host)| host.clone()).collect();
    let url = format!("http://{}", hosts.first()?);
    let http = metal::exchange::http();
    let exchange =
        Exchange::new(service_fn(move |request| ask(http.clone(), hosts.clone(), request)));
    Some(BootService { exchange, url })
}

async fn ask(
    http: Exchange,
    hosts: Vec<uri::Authority>,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, Unreachable> {
    let mut last = Err(Unreachable { host: String::new(), why: "there is no address".to_owned() });
    for host in hosts {
        last = http.clone().oneshot(towards(host, &request)).await;
        if last.as_ref().is_ok_and(|answer| answer.status() != StatusCode::SERVICE_UNAVAILABLE) {
            break;
        }
    }
    last
}

/// The same request to another host.
fn towards(host: uri::Authority, request: &Request<Bytes>) -> Request<Bytes> {
    let mut request = request.clone();
    let mut parts = request.uri().clone().into_parts();
    parts.authority = Some(host);
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    request
}
