//! The EndpointSlices of every Service that selects pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kit::controller::{
    Cache, Context, Controller, Delete, Error, ObjectKey, Wake, Watch, Wiring, controller_of,
};
use plan::claim::selects;
use plan::endpointslice::{MANAGED_BY, MANAGER, Observed, Plan};
use serde_json::json;

use crate::claim::fenced;

const ZONE: &str = "topology.kubernetes.io/zone";

/// See the module.
pub struct EndpointSlices {
    services: Cache<Service>,
    pods: Cache<Pod>,
    nodes: Cache<Node>,
    slices: Cache<EndpointSlice>,
}

impl Controller for EndpointSlices {
    type Key = ObjectKey;
    type Settings = ();
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "endpointslice";

    fn wire((): (), wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring
            .about("Keeps the EndpointSlices of Services that select pods")
            .may(&["create", "patch", "delete"], "discovery.k8s.io", &["endpointslices"])
            .may(&["update"], "", &["services/finalizers"]);
        let services = wiring.own(Watch::<Service>::all());
        let all = services.clone();
        let pods = wiring.watch(Watch::<Pod>::all(), move |pod: &Pod| {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            let services = all.in_namespace(namespace).into_iter();
            let those = services.filter(|service| {
                selector(service).is_some_and(|own| selects(&own, pod.metadata.labels.as_ref()))
            });
            those.map(|service| ObjectKey::of(&service.metadata)).collect::<Vec<_>>()
        });
        // A zone is that of the node when the pod came to it; nodes do not move.
        let nodes = wiring.read(Watch::<Node>::all());
        let ours = Watch::<EndpointSlice>::all();
        let slices = wiring.watch(ours, controller_of::<Service, EndpointSlice>);
        Self { services, pods, nodes, slices }
    }

    async fn observe(&self, _: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let Some(service) = self.services.get(key) else { return Ok(None) };
        let ends = service.metadata.deletion_timestamp.is_some();
        let Some(selector) = selector(&service).filter(|_| !ends) else { return Ok(None) };
        let mut pods = self.pods.in_namespace(&key.namespace);
        pods.retain(|pod| selects(&selector, pod.metadata.labels.as_ref()));
        let owned = |slice: &Arc<EndpointSlice>| {
            let owners = slice.metadata.owner_references.iter().flatten();
            let labels = slice.metadata.labels.as_ref();
            owners.into_iter().any(|owner| Some(&owner.uid) == service.metadata.uid.as_ref())
                && slice.metadata.deletion_timestamp.is_none()
                && labels.and_then(|all| all.get(MANAGED_BY)).is_some_and(|by| by == MANAGER)
        };
        let slices = self.slices.in_namespace(&key.namespace).into_iter().filter(owned);
        let slices = slices.map(Arc::unwrap_or_clone).collect();
        let zone = |pod: &Arc<Pod>| {
            let name = plan::scheduler::node_of(pod)?;
            let node = self.nodes.get(&ObjectKey::cluster(name))?;
            Some((name.to_owned(), node.metadata.labels.as_ref()?.get(ZONE)?.clone()))
        };
        let zones: BTreeMap<_, _> = pods.iter().filter_map(zone).collect();
        Ok(Some(Observed { service: Arc::unwrap_or_clone(service), pods, zones, slices }))
    }

    fn plan(observed: &Observed) -> Plan {
        plan::endpointslice::plan(observed)
    }

    async fn apply(&self, cx: &Context, _: &ObjectKey, plan: Plan) -> Result<Wake, Error> {
        for slice in &plan.create {
            match cx.create(slice).await {
                // The Service's namespace has gone meanwhile.
                Err(error) if error.is_not_found() => {}
                other => drop(other?),
            }
        }
        for slice in &plan.update {
            let key = ObjectKey::of(&slice.metadata);
            let known = self.slices.get(&key).and_then(|known| known.metadata.labels.clone());
            // Null takes a label away that the Service no longer has.
            let mut labels: BTreeMap<_, _> =
                known.into_iter().flatten().map(|(label, _)| (label, None)).collect();
            let wanted = slice.metadata.labels.clone().into_iter().flatten();
            labels.extend(wanted.map(|(label, value)| (label, Some(value))));
            let metadata = json!({
                "labels": labels,
                "ownerReferences": slice.metadata.owner_references,
            });
            let patch = fenced(&slice.metadata, metadata, json!({"endpoints": slice.endpoints}));
            cx.patch::<EndpointSlice>(&slice.metadata, None, &patch).await?;
        }
        for slice in &plan.delete {
            let how = Delete { uid: slice.metadata.uid.clone(), ..Delete::default() };
            cx.delete::<EndpointSlice>(&(), &slice.metadata, how).await?;
        }
        Ok(Wake::Never)
    }
}

/// Which pods stand behind a Service; none if somebody else says so.
fn selector(service: &Service) -> Option<LabelSelector> {
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    let labels = spec.selector.clone().filter(|labels| !labels.is_empty())?;
    Some(LabelSelector { match_labels: Some(labels), ..LabelSelector::default() })
}
