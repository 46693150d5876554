//! `cluster-info` is signed by every bootstrap token that may sign it, so that machines which join
//! know that it is the cluster's.
//!
//! Where the site says where its API is and whom to trust, and there is no `cluster-info`, it is
//! made; one that is there is anybody's to edit, and is only signed.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kit::controller::{Cache, Context, Controller, Error, ObjectKey, Wake, Watch, Wiring};
use kube::api::{ObjectMeta, Patch};
use plan::bootstrapsigner::{KUBECONFIG, NAME, Token};
use plan::tokencleaner::{TYPE, deadline};
use serde_json::json;

const NAMESPACE: &str = "kube-public";

/// See the module.
pub struct BootstrapSigner {
    maps: Cache<ConfigMap>,
    secrets: Cache<Secret>,
    kubeconfig: Option<String>,
}

/// The ConfigMap and the tokens.
pub struct Observed {
    map: Option<Arc<ConfigMap>>,
    kubeconfig: Option<String>,
    tokens: Vec<Token>,
    now: Timestamp,
}

/// What shall be done.
pub enum Plan {
    /// Make the ConfigMap of this kubeconfig.
    Create(String),
    /// Sign it.
    Sign(Arc<ConfigMap>, plan::bootstrapsigner::Plan),
    /// There is nothing to sign.
    Nothing,
}

fn the_map() -> ObjectKey {
    ObjectKey::new(NAMESPACE, NAME)
}

/// A kubeconfig without a user, which is what a joining machine is told.
pub(crate) fn kubeconfig(address: &str, certificate: &str) -> String {
    use base64::Engine as _;
    let authority = base64::prelude::BASE64_STANDARD.encode(certificate);
    // JSON is YAML.
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "",
            "cluster": {"server": address, "certificate-authority-data": authority},
        }],
        "contexts": [],
        "users": [],
        "current-context": "",
        "preferences": {},
    })
    .to_string()
}

/// The token of a Secret that may sign.
fn token(secret: &Secret) -> Option<Token> {
    let data = secret.data.as_ref()?;
    let text = |key: &str| std::str::from_utf8(&data.get(key)?.0).ok().map(str::to_owned);
    let may = text("usage-bootstrap-signing").is_some_and(|may| may == "true");
    let id = text("token-id").filter(|_| may)?;
    let name = secret.metadata.name.as_deref()?;
    if name.strip_prefix("bootstrap-token-") != Some(id.as_str()) {
        return None;
    }
    Some(Token { id, secret: text("token-secret")?, expires: deadline(data) })
}

impl Controller for BootstrapSigner {
    type Key = ObjectKey;
    /// The kubeconfig for machines that join.
    type Settings = Option<String>;
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "bootstrapsigner";

    fn wire(kubeconfig: Option<String>, wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring
            .about("Signs cluster-info for machines that join")
            .may(&["create", "patch"], "", &["configmaps"])
            .at_start(the_map());
        let maps = Watch::<ConfigMap>::all().in_namespace(NAMESPACE);
        let maps = wiring.watch(maps.fields(format!("metadata.name={NAME}")), |_| [the_map()]);
        let tokens = Watch::<Secret>::all().in_namespace("kube-system");
        let secrets = wiring.watch(tokens.fields(format!("type={TYPE}")), |_| [the_map()]);
        Self { maps, secrets, kubeconfig }
    }

    async fn observe(&self, context: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        Ok(Some(Observed {
            map: self.maps.get(key),
            kubeconfig: self.kubeconfig.clone(),
            tokens: self.secrets.list().iter().filter_map(|secret| token(secret)).collect(),
            now: context.now(),
        }))
    }

    fn plan(observed: &Observed) -> Plan {
        match (&observed.map, &observed.kubeconfig) {
            (Some(map), _) => {
                let data = map.data.clone().unwrap_or_default();
                let plan = plan::bootstrapsigner::plan(&data, &observed.tokens, observed.now);
                Plan::Sign(Arc::clone(map), plan)
            }
            (None, Some(kubeconfig)) => Plan::Create(kubeconfig.clone()),
            (None, None) => Plan::Nothing,
        }
    }

    async fn apply(&self, context: &Context, _: &ObjectKey, plan: Plan) -> Result<Wake, Error> {
        match plan {
            Plan::Nothing => Ok(Wake::Never),
            Plan::Create(kubeconfig) => {
                let metadata = ObjectMeta {
                    name: Some(NAME.to_owned()),
                    namespace: Some(NAMESPACE.to_owned()),
                    ..ObjectMeta::default()
                };
                let data = Some(BTreeMap::from([(KUBECONFIG.to_owned(), kubeconfig)]));
                let map = ConfigMap { metadata, data, ..ConfigMap::default() };
                match context.create(&map).await {
                    Err(error) if error.already_exists() => {}
                    other => drop(other?),
                }
                // What was made comes back to be signed.
                Ok(Wake::Never)
            }
            Plan::Sign(map, plan) => {
                if !plan.set.is_empty() {
                    let patch = Patch::Merge(json!({
                        "metadata": {"uid": map.metadata.uid,
                            "resourceVersion": map.metadata.resource_version},
                        "data": plan.set,
                    }));
                    context.patch::<ConfigMap>(&map.metadata, None, &patch).await?;
                }
                Ok(Wake::earliest(plan.next))
            }
        }
    }
}
