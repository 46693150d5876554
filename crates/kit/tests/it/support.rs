//! What the tests share: a server, a network that can fail, and a controller that says what it does.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::task::{Context as Poller, Poll};
use std::time::Duration;

use apiserver::auth::authn::Authenticator;
use apiserver::{ApiServer, ResponseBody};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use k8s_openapi::api::core::v1::ConfigMap;
use kit::clock::Clock;
use kit::controller::{
    Cache, Context, Controller, Error, Manager, ObjectKey, Options, VIRTUAL_WATCH_LIFETIME, Wake,
    Watch, Wiring,
};
use kit::ids::Ids;
use kube::client::Body;
use kube::{Api, Client};
use store::MemoryStore;

pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) clock: Clock,
    pub(crate) network: Network,
}

/// What passes a request on, or not: the verdict on a method and a path.
pub(crate) type Rule = Box<dyn FnMut(&http::Method, &str) -> Option<u16> + Send>;

/// Refuses requests as its rule says, and can cut every watch that is open.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) rule: Arc<Mutex<Option<Rule>>>,
    pub(crate) log: Arc<Mutex<Vec<String>>>,
    cut: tokio::sync::watch::Sender<u64>,
}

impl Network {
    /// Ends every open watch.
    pub(crate) fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }

    /// Requests that contain a text, of those so far.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.log.lock().unwrap().iter().filter(|line| line.contains(text)).count()
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

struct Flaky {
    inner: apiserver::Service,
    network: Network,
}

/// The code of a rule by which a request is never answered.
pub(crate) const SILENCE: u16 = 0;

impl tower::Service<Request<Body>> for Flaky {
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Poller<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let line = format!("{} {}", request.method(), request.uri());
        self.network.log.lock().unwrap().push(line.clone());
        let uri = request.uri().to_string();
        let verdict = match &mut *self.network.rule.lock().unwrap() {
            Some(rule) => rule(request.method(), &uri),
            None => None,
        };
        if verdict == Some(SILENCE) {
            return Box::pin(std::future::pending());
        }
        if let Some(code) = verdict {
            let status = serde_json::json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                "reason": "ServiceUnavailable", "message": "the network is down",
            });
            let body = http_body_util::Full::new(Bytes::from(status.to_string()));
            let mut response = Response::new(body.map_err(Into::into).boxed_unsync());
            *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
            return Box::pin(std::future::ready(Ok(response)));
        }
        let watch = uri.contains("watch=true");
        let mut cut = self.network.cut.subscribe();
        let answer = tower::Service::call(&mut self.inner, request);
        Box::pin(async move {
            let response: Response<ResponseBody> = answer.await?;
            let (parts, body) = response.into_parts();
            let body = body.map_err(Into::into).boxed_unsync();
            if !watch {
                return Ok(Response::from_parts(parts, body));
            }
            let stream = http_body_util::BodyStream::new(body);
            let ended = async move {
                let _ = cut.changed().await;
            };
            let stream = futures::StreamExt::take_until(stream, Box::pin(ended));
            let body = http_body_util::StreamBody::new(stream);
            Ok(Response::from_parts(parts, body.boxed_unsync()))
        })
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let store = Arc::new(MemoryStore::new());
        let (_keep, stopping) = tokio::sync::watch::channel(false);
        let server = ApiServer::new(apiserver::Options {
            store: store.clone(),
            clock: clock.clone(),
            ids: Ids::seeded(1),
            authenticator: Authenticator::default(),
            token_key: None,
            without: apiserver::Plugin::OF_CONTROLLERS.into(),
            audit: None,
            inflight: apiserver::InFlight::UNLIMITED,
            bookmark_every: None,
            stopping,
        })
        .await
        .unwrap();
        let network = Network {
            rule: Arc::default(),
            log: Arc::default(),
            cut: tokio::sync::watch::Sender::new(0),
        };
        Self { server, store, clock, network }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.server.service_as_admin(), "default")
    }

    /// A client behind the network.
    pub(crate) fn distant_client(&self) -> Client {
        let inner = self.server.service_as_admin();
        Client::new(Flaky { inner, network: self.network.clone() }, "default")
    }

    pub(crate) fn maps(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.client())
    }

    pub(crate) fn manager(&self) -> Manager {
        Manager::new(Options {
            client: self.distant_client(),
            clock: self.clock.clone(),
            ids: Ids::seeded(2),
            watch_lifetime: VIRTUAL_WATCH_LIFETIME,
            instance: "test".to_owned(),
        })
    }

    pub(crate) async fn put(&self, name: &str, words: &[(&str, &str)]) {
        let data = words.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
        map.metadata.name = Some(name.to_owned());
        let params = kube::api::PatchParams::apply("test").force();
        self.maps().patch(name, &params, &kube::api::Patch::Apply(map)).await.unwrap();
    }
}

/// What a [`Teller`] did: `SECONDS NAME DATA`, once for each reconcile.
pub(crate) type Log = Arc<Mutex<Vec<String>>>;

/// Tells what it sees, and does what the objects tell it: `wake` after so many seconds, `fail`,
/// `panic`, `work` so many seconds.
pub(crate) struct Teller {
    maps: Cache<ConfigMap>,
    log: Log,
    began: tokio::time::Instant,
    pub(crate) busy: Mutex<BTreeMap<ObjectKey, ()>>,
}

pub(crate) struct Seen {
    data: BTreeMap<String, String>,
    now: jiff::Timestamp,
}

impl Controller for Teller {
    type Key = ObjectKey;
    type Settings = Log;
    type Observed = Seen;
    type Plan = (BTreeMap<String, String>, Wake);
    const NAME: &'static str = "teller";

    fn wire(log: Log, wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring.about("Tells what it sees").concurrency(2);
        let maps = wiring.own(
            Watch::<ConfigMap>::all().in_namespace("default").when(|old, new| old.data != new.data),
        );
        let (began, busy) = (tokio::time::Instant::now(), Mutex::default());
        Self { maps, log, began, busy }
    }

    async fn observe(&self, context: &Context, key: &ObjectKey) -> Result<Option<Seen>, Error> {
        let data = self.maps.get(key).map(|map| map.data.clone().unwrap_or_default());
        let at = self.began.elapsed().as_secs();
        let words = match &data {
            Some(data) => data.iter().map(|(k, v)| format!(" {k}={v}")).collect(),
            None => " gone".to_owned(),
        };
        self.log.lock().unwrap().push(format!("{at} {}{words}", key.name));
        Ok(data.map(|data| Seen { data, now: context.now() }))
    }

    fn plan(seen: &Seen) -> Self::Plan {
        let wake = seen
            .data
            .get("wake")
            .map(|seconds| seen.now + jiff::SignedDuration::from_secs(seconds.parse().unwrap()));
        (seen.data.clone(), Wake::earliest(wake))
    }

    async fn apply(&self, _: &Context, key: &ObjectKey, plan: Self::Plan) -> Result<Wake, Error> {
        let (data, wake) = plan;
        let twice = self.busy.lock().unwrap().insert(key.clone(), ());
        assert_eq!(twice, None, "{key} is worked on twice at once");
        if let Some(seconds) = data.get("work") {
            tokio::time::sleep(Duration::from_secs(seconds.parse().unwrap())).await;
        }
        self.busy.lock().unwrap().remove(key);
        assert!(!data.contains_key("panic"), "as told");
        if data.contains_key("fail") {
            return Err(Error::not_ready("as told"));
        }
        Ok(wake)
    }
}

pub(crate) fn told(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().unwrap())
}
