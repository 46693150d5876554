//! A table of pods, and that slices change as little as may be.

use serde_json::{Value, json};

use super::*;

fn service(more: Value) -> Service {
    let mut spec = json!({
        "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"],
        "ports": [{"name": "web", "port": 80, "targetPort": "http"}],
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let meta = json!({"name": "s", "namespace": "n", "uid": "s", "labels": {"a": "b"}});
    serde_json::from_value(json!({"metadata": meta, "spec": spec})).unwrap()
}

fn pod(name: &str, ready: bool) -> Arc<Pod> {
    let ready = if ready { "True" } else { "False" };
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "n", "uid": name},
            "spec": {"nodeName": "node", "containers": [{
                "name": "c", "ports": [{"name": "http", "containerPort": 8080}],
            }]},
            "status": {
                "podIPs": [{"ip": "10.1.0.1"}, {"ip": "fd00::1"}],
                "conditions": [{"type": "Ready", "status": ready}],
            },
        }))
        .unwrap(),
    )
}

fn carried_out(observed: &mut Observed) -> Plan {
    let plan = plan(observed);
    observed.slices.retain(|slice| {
        let same = |gone: &EndpointSlice| gone.metadata.name == slice.metadata.name;
        !plan.delete.iter().any(same) && !plan.update.iter().any(same)
    });
    observed.slices.extend(plan.update.clone());
    for mut slice in plan.create.clone() {
        slice.metadata.name = Some(format!("made-{}", observed.slices.len()));
        observed.slices.push(slice);
    }
    plan
}

#[test]
fn a_slice_says_all_of_its_pods() {
    let mut gone = Arc::unwrap_or_clone(pod("gone", true));
    gone.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    let mut done = Arc::unwrap_or_clone(pod("done", true));
    done.status.get_or_insert_default().phase = Some("Succeeded".to_owned());
    let mut observed = Observed {
        service: service(json!({})),
        pods: vec![pod("a", true), pod("b", false), Arc::new(gone), Arc::new(done)],
        zones: [("node".to_owned(), "z".to_owned())].into(),
        ..Observed::default()
    };
    let made = carried_out(&mut observed).create.remove(0);
    let labels = made.metadata.labels.clone().unwrap();
    assert_eq!((&*labels["a"], &*labels[SERVICE], &*labels[MANAGED_BY]), ("b", "s", MANAGER));
    assert!(!labels.contains_key(HEADLESS));
    assert_eq!(made.ports.as_ref().unwrap()[0].port, Some(8080));
    let says = |endpoint: &Endpoint| {
        let conditions = endpoint.conditions.clone().unwrap();
        let name = endpoint.target_ref.clone().unwrap().name.unwrap();
        (name, conditions.ready, conditions.serving, conditions.terminating)
    };
    let (yes, no) = (Some(true), Some(false));
    let expected = [("a", yes, yes, no), ("b", no, no, no), ("gone", no, yes, yes)];
    let expected = expected.map(|(name, r, s, t)| (name.to_owned(), r, s, t));
    assert_eq!(made.endpoints.iter().map(says).collect::<Vec<_>>(), expected);
    assert_eq!(made.endpoints[0].zone.as_deref(), Some("z"));
    assert_eq!(made.endpoints[0].addresses, ["10.1.0.1"]);
    assert_eq!(carried_out(&mut observed), Plan::default());

    observed.service = service(json!({"clusterIP": "None", "ipFamilies": ["IPv4", "IPv6"]}));
    let both = carried_out(&mut observed);
    assert_eq!((both.create.len(), both.update.len()), (1, 1));
    assert_eq!(both.create[0].endpoints[0].addresses, ["fd00::1"]);
    assert!(both.update[0].metadata.labels.as_ref().unwrap().contains_key(HEADLESS));
}

#[test]
fn slices_hold_a_hundred_and_change_little() {
    let mut observed = Observed {
        service: service(json!({})),
        pods: (0..250).map(|i| pod(&format!("p{i:03}"), true)).collect(),
        ..Observed::default()
    };
    let made = carried_out(&mut observed).create;
    assert_eq!(made.iter().map(|s| s.endpoints.len()).collect::<Vec<_>>(), [100, 100, 50]);
    observed.pods.remove(0);
    let less = carried_out(&mut observed);
    assert!(less.create.is_empty() && less.delete.is_empty());
    assert_eq!(less.update.len(), 1);
    observed.pods.clear();
    let none = carried_out(&mut observed);
    assert_eq!((none.update.len() + none.create.len(), observed.slices.len()), (1, 1));
    assert_eq!(carried_out(&mut observed), Plan::default());
}
