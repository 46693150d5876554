//! `install`, `uninstall`, `controllers` and `simulate site`: the fleet's parts in processes of their own.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Server, Who, config, run, seatrial};

/// A site of four machines comes up in seconds; this is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const FLEET: &str = "/apis/fleet.seatrial.dev/v1alpha1";
const LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/seatrial-system/leases/seatrial-controllers";

fn out(args: &[&str]) -> String {
    let done = run(args);
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// The objects of a collection, by name.
fn names(server: &Server, path: &str) -> Vec<String> {
    let items = server.get(&Who::Admin, path).json()["items"].as_array().unwrap().clone();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_installation_is_applied_once_and_taken_away_without_loss() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &["--in-memory", "--controllers=-*"]);
    let kubeconfig = server.kubeconfig.to_str().unwrap().to_owned();
    let flag = format!("--kubeconfig={kubeconfig}");
    let first = out(&["install", &flag, "--image=registry.example/seatrial"]);
    assert!(
        first.contains("customresourcedefinition/machines.fleet.seatrial.dev created"),
        "{first}"
    );
    let second = out(&["install", &flag, "--image=registry.example/seatrial"]);
    assert!(second.starts_with("0 created, 0 changed, "), "{second}");

    // What an earlier version needed, and what somebody else made.
    for (name, labels) in [
        (
            "seatrial:controller:gone",
            json!({"app.kubernetes.io/name": "seatrial",
            "app.kubernetes.io/managed-by": "seatrial-install"}),
        ),
        ("seatrial:somebodys", json!({"app.kubernetes.io/name": "seatrial"})),
    ] {
        let role = json!({"metadata": {"name": name, "labels": labels}, "rules": []}).to_string();
        assert_eq!(server.send(&Who::Admin, "POST", ROLES, &role).unwrap().code, 201);
    }
    let machine = json!({"apiVersion": "fleet.seatrial.dev/v1alpha1", "kind": "Switch",
        "metadata": {"name": "leaf-1"}, "spec": {"tier": "leaf", "ports": 64}});
    let made = server
        .send(&Who::Admin, "POST", &format!("{FLEET}/switches"), &machine.to_string())
        .unwrap();
    assert_eq!(made.code, 201, "{}", made.text());

    // Without an image, the Deployment stays as it is.
    let third = out(&["install", &flag]);
    assert!(third.contains("clusterrole/seatrial:controller:gone is no longer needed"), "{third}");
    let deployments = "/apis/apps/v1/namespaces/seatrial-system/deployments";
    assert_eq!(names(&server, deployments), ["seatrial-controllers"]);
    assert!(names(&server, ROLES).contains(&"seatrial:somebodys".to_owned()));

    let asked = run(&["uninstall", &flag]);
    let said = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert!(
        !asked.status.success() && said.contains("Objects of the fleet stay (1 switches)"),
        "{said}"
    );
    out(&["uninstall", &flag, "--yes"]);
    assert!(names(&server, deployments).is_empty());
    let ours = |name: &String| name.starts_with("seatrial:controller");
    assert!(!names(&server, ROLES).iter().any(ours));
    assert_eq!(names(&server, &format!("{FLEET}/switches")), ["leaf-1"]);
    let last = out(&["uninstall", &flag, "--yes", "--delete-crds"]);
    assert!(last.contains("and with them 1 switches"), "{last}");
    assert_eq!(server.get(&Who::Admin, &format!("{FLEET}/switches")).code, 404);
}

#[test]
fn what_is_printed_is_what_each_controller_declares_and_no_more() {
    let printed = out(&["install", "--print"]);
    let documents: Vec<Value> =
        printed.split("---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect();
    let of = |kind: &str, name: &str| {
        let is = |one: &&Value| one["kind"] == kind && one["metadata"]["name"] == name;
        documents.iter().find(is).unwrap_or_else(|| panic!("no {kind} {name}"))
    };
    for entry in controllers::ALL.iter().filter(|entry| entry.fleet) {
        let declared = (entry.declare)();
        let name = format!("seatrial:controller:{}", entry.folder);
        let rules = serde_json::to_value(declared.rules()).unwrap();
        assert_eq!(of("ClusterRole", &name)["rules"], rules);
        let subject = &of("ClusterRoleBinding", &name)["subjects"];
        assert_eq!(
            *subject,
            json!([{"kind": "ServiceAccount", "name": entry.name, "namespace": "seatrial-system"}])
        );
        of("ServiceAccount", entry.name);
        // No secret of the cluster but those of our namespace.
        let text = rules.to_string();
        assert!(!text.contains("\"secrets\"") && !text.contains("\"*\""), "{name}: {text}");
    }
    let process = of("ClusterRole", "seatrial-controllers")["rules"].as_array().unwrap();
    for rule in process {
        let verbs = rule["verbs"].as_array().unwrap();
        assert!(verbs.iter().all(|verb| verb == "list" || verb == "watch"), "{rule}");
    }
}

/// A program that runs until this is dropped.
struct Runs(Child);

impl Runs {
    fn start(args: &[&str], host: &str) -> Self {
        let mut command = seatrial(args);
        Self(command.env("HOSTNAME", host).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A kubeconfig by which one is the controllers' account and nobody else.
fn account(server: &Server, directory: &Path) -> PathBuf {
    let path = "/api/v1/namespaces/seatrial-system/serviceaccounts/seatrial-controllers/token";
    let body =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let made = server.send(&Who::Admin, "POST", path, &body.to_string()).unwrap();
    let token = made.json()["status"]["token"].clone();
    let mut config = config(&server.kubeconfig);
    config["users"][0]["user"] = json!({"token": token});
    let path = directory.join("account");
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

/// Watches a collection until one of its objects is as wanted.
fn watch(server: &Server, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let mut lines = server.ask(&Who::Admin, &format!("{path}?watch=true"));
        let mut line = String::new();
        // A pause longer than the socket's patience ends this watch, not the wait.
        while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            if wanted(&event["object"]) {
                return event["object"].clone();
            }
            line.clear();
        }
    }
    panic!("never seen on {path}");
}

#[test]
fn controllers_and_a_site_in_processes_of_their_own_outlive_a_leader() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &["--in-memory"]);
    let admin = format!("--kubeconfig={}", server.kubeconfig.display());
    out(&["install", &admin]);
    let own = format!("--kubeconfig={}", account(&server, directory.path()).display());
    let controllers = ["controllers", &own, "--listen=127.0.0.1:0", "--speed=600"];
    let first = Runs::start(&controllers, "first");
    let held_by = |who: &'static str| {
        move |lease: &Value| {
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
            holder.starts_with(who)
        }
    };
    let leases = LEASE.rsplit_once('/').unwrap().0;
    watch(&server, leases, held_by("first"));
    let _second = Runs::start(&controllers, "second");

    let data = format!("--data-dir={}", directory.path().join("site").display());
    let size = ["--nodes=3", "--cpu-nodes=1", "--racks=1", "--spares=1", "-o=json"];
    let args: Vec<&str> = ["simulate", "site", &admin, &data].into_iter().chain(size).collect();
    let mut site = seatrial(&args);
    let mut site = Runs(site.stdout(Stdio::piped()).spawn().unwrap());
    let said = BufReader::new(site.0.stdout.take().unwrap()).lines();
    let ready = said.map_while(Result::ok).any(|line| line.contains("\"event\":\"ready\""));
    assert!(ready, "the site ended");
    assert_eq!(names(&server, "/api/v1/nodes").len(), 4);

    let struck = out(&["simulate", "fault", "xid/79", "r1-s01", &data]);
    assert!(struck.contains("r1-s01: xid/79"), "{struck}");
    let incidents = format!("{FLEET}/incidents");
    watch(&server, &incidents, |incident| incident["spec"]["node"] == "r1-s01");
    drop(first);
    watch(&server, leases, held_by("second"));
    let closed = watch(&server, &incidents, |incident| incident["status"]["stage"] == "Closed");
    assert_eq!(closed["status"]["end"], "Solved", "{closed}");
    let account = std::fs::read_to_string(directory.path().join("site/hardware.json")).unwrap();
    let lines = account.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let cut_off = lines.filter(|line| line["truth"]["cutOffs"].as_u64() > Some(0)).count();
    assert_eq!(cut_off, 0, "a boot was cut off by a second reset");
}

#[test]
fn controllers_say_what_a_cluster_lacks() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &["--in-memory", "--controllers=-*"]);
    let flag = format!("--kubeconfig={}", server.kubeconfig.display());
    let refused = run(&["controllers", &flag, "--listen=127.0.0.1:0"]);
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(error.contains("`seatrial install` puts them in"), "{error}");
}
