//! A controller, whole: ConfigMaps that are copies of others. `cargo run -p kit --features controller
//! --example copycat`

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kit::controller::{Cache, Context, Controller, Error, Manager, ObjectKey, Options};
use kit::controller::{VIRTUAL_WATCH_LIFETIME, Wake, Watch, Wiring};
use kit::{clock::Clock, ids::Ids};
use kube::{Api, Client, ResourceExt};

type Data = Option<BTreeMap<String, String>>;

struct Copycat(Cache<ConfigMap>);

struct Observed {
    copy: Arc<ConfigMap>,
    source: Data,
}

/// The ConfigMap that this one shall be a copy of.
fn source(map: &ConfigMap) -> Option<ObjectKey> {
    let name = map.annotations().get("copy-of")?;
    Some(ObjectKey::new(map.namespace().unwrap_or_default(), name))
}

impl Controller for Copycat {
    type Key = ObjectKey;
    type Settings = ();
    type Observed = Observed;
    type Plan = Option<ConfigMap>;
    const NAME: &'static str = "copycat";

    fn wire((): (), wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring.about("Keeps ConfigMaps that are copies of others");
        wiring.may(&["patch"], "", &["configmaps"]);
        let maps = wiring.own(Watch::<ConfigMap>::all());
        // A source brings all of its copies. The watch is the same one.
        let all = maps.clone();
        wiring.watch(Watch::<ConfigMap>::all(), move |changed| {
            let key = ObjectKey::of(&changed.metadata);
            let copies = all.in_namespace(&key.namespace).into_iter();
            let copies = copies.filter(move |map| source(map).as_ref() == Some(&key));
            copies.map(|map| ObjectKey::of(&map.metadata)).collect::<Vec<_>>()
        });
        Self(maps)
    }

    async fn observe(&self, _: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let Some(copy) = self.0.get(key) else { return Ok(None) };
        let Some(source) = source(&copy).and_then(|key| self.0.get(&key)) else { return Ok(None) };
        Ok(Some(Observed { copy, source: source.data.clone() }))
    }

    fn plan(observed: &Observed) -> Option<ConfigMap> {
        let mut wanted = ConfigMap { data: observed.source.clone(), ..ConfigMap::default() };
        wanted.metadata.name = observed.copy.metadata.name.clone();
        wanted.metadata.namespace = observed.copy.metadata.namespace.clone();
        (observed.copy.data != observed.source).then_some(wanted)
    }

    async fn apply(&self, cx: &Context, _: &ObjectKey, plan: Self::Plan) -> Result<Wake, Error> {
        if let Some(map) = plan {
            cx.apply(&map).await?;
        }
        Ok(Wake::Never)
    }
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (clock, ids) = (Clock::simulated("2026-01-01T00:00:00Z".parse()?), Ids::seeded(1));
    let server = apiserver::ApiServer::in_memory(clock.clone(), ids.clone()).await?;
    let client = || Client::new(server.service_as_admin(), "default");
    let (instance, watch_lifetime) = ("example".to_owned(), VIRTUAL_WATCH_LIFETIME);
    let mut manager =
        Manager::new(Options { client: client(), clock, ids, watch_lifetime, instance });
    manager.add::<Copycat>(client());
    let running = manager.start();

    let maps = Api::<ConfigMap>::default_namespaced(client());
    let mut one =
        ConfigMap { data: Some([("word".into(), "hello".into())].into()), ..Default::default() };
    one.metadata.name = Some("one".into());
    maps.create(&Default::default(), &one).await?;
    let mut two = ConfigMap::default();
    two.metadata.name = Some("two".into());
    two.metadata.annotations = Some([("copy-of".into(), "one".into())].into());
    maps.create(&Default::default(), &two).await?;
    running.until_idle().await?;
    assert_eq!(maps.get("two").await?.data, one.data);
    running.stop().await;
    Ok(())
}
