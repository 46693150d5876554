//! A wave of sick nodes stops the repairs of those nodes until a person has looked.

use api::breaker::Common;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::fleet::{Fleet, XID_95};
use crate::support::{idle, on_a_cluster};

#[test]
fn a_wave_on_one_leaf_is_asked_nothing_until_a_person_has_acknowledged_it() {
    on_a_cluster(async |cluster| {
        let mut fleet = Fleet::new(cluster).await;
        let running = fleet.start(&["breaker", "node"]).await;
        fleet.ledger(4).await;
        let names: Vec<String> = (0..30).map(|index| format!("n{index:02}")).collect();
        for name in &names {
            fleet.join(name, "leaf-1").await;
        }
        fleet.join("elsewhere", "leaf-2").await;
        idle(&running).await;
        for name in &names {
            fleet.strike(name, XID_95, "boot-1").await;
        }
        fleet.strike("elsewhere", XID_95, "boot-1").await;
        fleet.live(&running, 60).await;
        let breakers = fleet.breakers().await;
        let [breaker] = &breakers[..] else { panic!("{breakers:?}") };
        assert_eq!((breaker.spec.common, breaker.spec.value.as_str()), (Common::Leaf, "leaf-1"));
        let status = breaker.status.clone().unwrap();
        assert_eq!((status.openings, status.open), (1, true));
        assert_eq!(status.nodes, names);
        for name in &names {
            assert_eq!(fleet.done(name), [], "{name}");
            assert!(fleet.cordon(name).await.0, "it takes no new work");
            let (_, reason, why) = fleet.says(name, "InService").await;
            assert_eq!(reason, "WaitingForBreaker");
            assert!(why.contains("breaker leaf-leaf-1 is open"), "{why}");
        }
        assert_eq!(fleet.done("elsewhere").len(), 2, "another leaf is none of its business");
        assert!(fleet.granted().await.is_empty());
        let text = running.metrics().text();
        assert!(text.contains("what=\"breakers\",state=\"Open\"} 1"), "{text}");
        let events = fleet.cluster.api::<Event>().list(&Default::default()).await.unwrap();
        let opened = events.iter().filter(|e| e.reason.as_deref() == Some("BreakerOpened"));
        assert_eq!(opened.count(), 1);

        let breakers: Api<api::Breaker> = fleet.cluster.api();
        let patch = Patch::Merge(json!({"spec": {"acknowledged": 1, "by": "ada"}}));
        breakers.patch("leaf-leaf-1", &PatchParams::default(), &patch).await.unwrap();
        fleet.live(&running, 300).await;
        for name in &names {
            assert_eq!(fleet.done(name).len(), 2, "{name}");
            fleet.assert_at_rest(name).await;
        }
        let status = fleet.breakers().await[0].status.clone().unwrap();
        assert_eq!((status.openings, status.open), (1, false));
        assert_eq!(status.why, "acknowledged by ada");
        for controller in ["node", "breaker"] {
            assert_eq!(running.metrics().reconciles(controller, "bug"), 0);
            assert_eq!(running.metrics().panics(controller), 0);
        }
        let looks = running.metrics().reconciles("node", "success");
        assert!(looks < 31 * 40, "a wave costs its nodes a few looks each, not {looks} in all");
        running.stop().await;
    });
}
