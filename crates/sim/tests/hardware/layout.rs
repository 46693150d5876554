//! The objects of a layout pass the door of the API, and are the same every time.

use super::demo;
use api::names;
use apiserver::ApiServer;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kit::clock::Clock;
use kit::ids::Ids;
use kube::api::PostParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sim::datacentre::{Layout, Objects};
use std::fmt::Debug;

const SITE: &str = "
site: lab
types:
  gb200: {image: gb, unit: rack, expected: {gpuModel: GB200, gpus: 4, nvlinks: 18}, floors: {gemm: 1}}
racks:
  - name: nvl-1
    row: a
    pdu: pdu-a
    leaves: [leaf-1]
    nvlinkDomain: nvl-1
    needed: 16
    powerOns: 2
    vendor: dogwood
    machines: [{type: gb200, count: 18, dpu: BF3-1}]
spines: [spine-1]
pools:
  train: {instanceType: gb200, tenant: acme, targetRacks: 1}
ledger: {fleet: {nodes: 2}, named: {pool/train: {percent: 50}}}
";

async fn create<K>(api: Api<K>, objects: &[K])
where
    K: Clone + Debug + DeserializeOwned + Serialize + Resource,
{
    for object in objects {
        if let Err(error) = api.create(&PostParams::default(), object).await {
            panic!("{object:?} is refused: {error}");
        }
    }
}

fn all<K: Resource<Scope = kube::core::ClusterResourceScope>>(client: &Client) -> Api<K>
where
    K::DynamicType: Default,
{
    Api::all(client.clone())
}

fn ours<K: Resource<Scope = NamespaceResourceScope>>(client: &Client) -> Api<K>
where
    K::DynamicType: Default,
{
    Api::namespaced(client.clone(), names::NAMESPACE)
}

#[tokio::test]
async fn every_object_passes_the_door() {
    for layout in [demo(), Layout::read(SITE).unwrap()] {
        let server = ApiServer::in_memory(Clock::system(), Ids::seeded(1)).await.unwrap();
        let client = Client::new(server.service_as_admin(), "default");
        create::<CustomResourceDefinition>(all(&client), &api::definitions()).await;
        let objects: Objects = layout.objects("http://127.0.0.1:8443");
        create::<Namespace>(all(&client), &[objects.namespace]).await;
        create::<Secret>(ours(&client), &[objects.credential]).await;
        create(all(&client), &objects.instance_types).await;
        create(all(&client), &objects.racks).await;
        create(all(&client), &objects.switches).await;
        create(all(&client), &objects.machines).await;
        create(all(&client), &objects.pools).await;
        create(all(&client), &[objects.ledger]).await;
    }
}

#[test]
fn objects_are_the_same_every_time() {
    let text = || format!("{:?}", demo().objects("http://x"));
    assert_eq!(text(), text());
}
