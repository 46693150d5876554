//! The Redfish services of every BMC, by path: `/bmc/NAME/redfish/v1/`.

use super::site::Datacentre;
use bytes::Bytes;
use http::{Request, Response};
use metal::{Exchange, Unreachable};

impl Datacentre {
    /// Carries requests to the BMCs of this site within the process.
    pub fn redfish(&self) -> Exchange {
        let site = self.clone();
        Exchange::new(tower::service_fn(move |request| {
            let site = site.clone();
            async move { site.answer(request).await }
        }))
    }

    async fn answer(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Unreachable> {
        let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        Err(Unreachable { host, why: "no such BMC".to_owned() })
    }
}
