//! Every namespace has the ConfigMap `kube-root-ca.crt`, by which pods know the API's certificate.
//!
//! The certificate is the site's. Without one nothing is published: a wrong one would be worse.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kit::controller::{Cache, Context, Controller, Error, ObjectKey, Wake, Watch, Wiring};
use kube::api::{ObjectMeta, Patch};
use plan::rootca::{NAME, Observed, Plan};
use serde_json::json;

/// Why the ConfigMap is there, for people who find it.
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when \
    using internal endpoints such as the internal service IP or kubernetes.default.svc. No other \
    usage is guaranteed across distributions of Kubernetes clusters.";

/// See the module.
pub struct RootCa {
    namespaces: Cache<Namespace>,
    maps: Cache<ConfigMap>,
    certificate: Option<String>,
}

impl Controller for RootCa {
    type Key = ObjectKey;
    /// The certificate, PEM.
    type Settings = Option<String>;
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "rootca";

    fn wire(certificate: Option<String>, wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring.about("Keeps the cluster's authority in every namespace").may(
            &["create", "patch"],
            "",
            &["configmaps"],
        );
        let namespaces = wiring.own(Watch::<Namespace>::all());
        let maps = Watch::<ConfigMap>::all().fields(format!("metadata.name={NAME}"));
        let maps =
            wiring.watch(maps, |map| map.metadata.namespace.as_ref().map(ObjectKey::cluster));
        Self { namespaces, maps, certificate }
    }

    async fn observe(&self, _: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let Some(certificate) = self.certificate.clone() else { return Ok(None) };
        let Some(namespace) = self.namespaces.get(key) else { return Ok(None) };
        let map = self.maps.get(&ObjectKey::new(&key.name, NAME));
        Ok(Some(Observed {
            active: namespace.metadata.deletion_timestamp.is_none(),
            present: map.map(|map| map.data.clone().unwrap_or_default()),
            certificate,
        }))
    }

    fn plan(observed: &Observed) -> Plan {
        plan::rootca::plan(observed)
    }

    async fn apply(&self, context: &Context, key: &ObjectKey, plan: Plan) -> Result<Wake, Error> {
        let metadata = ObjectMeta {
            name: Some(NAME.to_owned()),
            namespace: Some(key.name.clone()),
            ..ObjectMeta::default()
        };
        let result = match plan {
            Plan::Nothing => return Ok(Wake::Never),
            Plan::Create(data) => {
                let described = ("kubernetes.io/description".to_owned(), DESCRIPTION.to_owned());
                let annotations = Some([described].into());
                let metadata = ObjectMeta { annotations, ..metadata };
                let map = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
                context.create(&map).await
            }
            Plan::Set(data) => {
                let patch = Patch::Merge(json!({"data": data}));
                context.patch::<ConfigMap>(&metadata, None, &patch).await
            }
        };
        match result {
            // Our cache is behind, or the namespace has gone meanwhile.
            Err(error) if error.already_exists() || error.is_not_found() => {}
            other => drop(other?),
        }
        Ok(Wake::Never)
    }
}
