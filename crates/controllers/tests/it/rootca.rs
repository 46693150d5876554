//! Every namespace knows the authority, whoever edits or deletes it.

use controllers::Site;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::support::{idle, on_a_cluster};

const NAME: &str = "kube-root-ca.crt";

#[test]
fn the_authority_is_published_and_healed() {
    on_a_cluster(async |cluster| {
        let site = Site { authority: Some(cluster.authority()), ..Site::default() };
        let certificate = site.authority.as_ref().unwrap().certificate_pem().to_owned();
        let running = cluster.start_at(&["rootca"], &site).await;
        let maps = cluster.maps(&cluster.namespace("ca").await);
        idle(&running).await;
        let healthy = async || {
            let data = maps.get(NAME).await.unwrap().data.unwrap();
            data.len() == 1 && data["ca.crt"] == certificate
        };
        assert!(healthy().await);

        let edit = Patch::Merge(json!({"data": {"ca.crt": "mine", "more": "things"}}));
        maps.patch(NAME, &PatchParams::default(), &edit).await.unwrap();
        idle(&running).await;
        assert!(healthy().await, "an edit is undone");

        maps.delete(NAME, &DeleteParams::default()).await.unwrap();
        idle(&running).await;
        assert!(healthy().await, "a deletion is undone");
        running.stop().await;
    });
}

#[test]
fn without_an_authority_nothing_is_published() {
    on_a_cluster(async |cluster| {
        let running = cluster.start(&["rootca"]).await;
        let maps = cluster.maps(&cluster.namespace("ca").await);
        idle(&running).await;
        assert!(maps.get_opt(NAME).await.unwrap().is_none());
        running.stop().await;
    });
}
