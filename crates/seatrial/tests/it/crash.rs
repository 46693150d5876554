//! The server is killed outright while it writes: what it said it had, it has.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};

use serde_json::{Value, json};

use crate::support::{PATIENCE, Server, Who, send};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WRITERS: usize = 4;
const ACKNOWLEDGED: usize = 60;

/// Makes objects until the server is gone, and tells which were acknowledged, at which version.
fn write(kubeconfig: &Path, address: &str, prefix: &str, tell: &Sender<(String, u64)>) {
    for n in 0.. {
        let name = format!("{prefix}-{n}");
        let body = json!({"metadata": {"name": name}, "data": {"n": "x".repeat(n * 97 % 5_000)}});
        let sent = send(kubeconfig, address, &Who::Admin, "POST", MAPS, &body.to_string());
        let Ok(answer) = sent else { return };
        assert_eq!(answer.code, 201, "{}", answer.text());
        if tell.send((name, version(&answer.json()["metadata"]))).is_err() {
            return;
        }
    }
}

fn version(metadata: &Value) -> u64 {
    metadata["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[test]
fn what_was_acknowledged_outlives_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let data = data.to_str().unwrap();
    let mut server = Server::start(directory.path(), &["--data-dir", data]);
    let address = server.address.clone();
    let old = directory.path().join("old-kubeconfig");
    std::fs::copy(&server.kubeconfig, &old).unwrap();
    let mut acknowledged = BTreeMap::new();

    for round in 0..2 {
        let (tell, told) = channel();
        let kubeconfig = server.kubeconfig.clone();
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (tell, kubeconfig, address) = (tell.clone(), &kubeconfig, &address);
                scope.spawn(move || {
                    write(kubeconfig, address, &format!("r{round}-w{writer}"), &tell);
                });
            }
            drop(tell);
            for _ in 0..ACKNOWLEDGED {
                let (name, version) = told.recv_timeout(PATIENCE).unwrap();
                acknowledged.insert(name, version);
            }
            server.kill();
            acknowledged.extend(told.iter());
        });
        server = Server::start(directory.path(), &["--data-dir", data, "--listen", &address]);
        let list = server.get(&Who::Admin, MAPS).json();
        let found: BTreeMap<String, u64> = (list["items"].as_array().unwrap().iter())
            .map(|item| {
                (item["metadata"]["name"].as_str().unwrap().into(), version(&item["metadata"]))
            })
            .collect();
        for (name, version) in &acknowledged {
            assert_eq!(found.get(name), Some(version), "{name}");
        }
        let newest = acknowledged.values().max().unwrap();
        assert!(version(&list["metadata"]) >= *newest, "time went back");
        // A client that was there before the crash needs nothing new, and gets later versions.
        let body = json!({"metadata": {"name": format!("after-{round}")}}).to_string();
        let made = send(&old, &address, &Who::Admin, "POST", MAPS, &body).unwrap();
        assert_eq!(made.code, 201, "{}", made.text());
        assert!(version(&made.json()["metadata"]) > *newest);
    }
}
