//! Every namespace has its service account, and gets it back.

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};

use crate::support::{idle, on_a_cluster};

#[test]
fn a_namespace_gets_its_account_and_gets_it_back() {
    on_a_cluster(async |cluster| {
        let before = cluster.bare_namespace("sa").await;
        let running = cluster.start(&["serviceaccount", "namespace"]).await;
        let after = cluster.bare_namespace("sa").await;
        idle(&running).await;
        for namespace in [&before, &after] {
            let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), namespace);
            let first = accounts.get("default").await.unwrap();
            accounts.delete("default", &DeleteParams::default()).await.unwrap();
            idle(&running).await;
            assert_ne!(accounts.get("default").await.unwrap().uid(), first.uid());
        }
        let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
        namespaces.delete(&after, &DeleteParams::default()).await.unwrap();
        let gone = async || namespaces.get_opt(&after).await.unwrap().is_none();
        cluster.until(&running, gone).await;
        running.stop().await;
    });
}
