//! Verbs about the fleet, against a server whose objects are written by hand.

use std::process::Output;

use jiff::SignedDuration;
use kit::clock::Clock;
use serde_json::{Value, json};

use crate::support::{Server, Who, seatrial};

const FLEET: &str = "/apis/fleet.seatrial.dev/v1alpha1";

/// A server with the fleet's kinds and a small fleet.
struct Fleet {
    server: Server,
    _directory: tempfile::TempDir,
}

/// A time so many minutes ago.
fn ago(minutes: i64) -> String {
    (Clock::system().now() - SignedDuration::from_mins(minutes)).to_string()
}

impl Fleet {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(
            directory.path(),
            &["--in-memory", "--controllers=-*", "--disable-admission-plugins=ServiceAccount"],
        );
        let fleet = Self { server, _directory: directory };
        for definition in api::definitions() {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            fleet.create(path, serde_json::to_value(definition).unwrap());
        }
        fleet
    }

    /// Creates an object, and gives it its status.
    fn create(&self, path: &str, mut object: Value) -> Value {
        let status = object.as_object_mut().unwrap().remove("status");
        let named = format!("{path}?fieldManager=test");
        let made = self.server.send(&Who::Admin, "POST", &named, &object.to_string()).unwrap();
        assert_eq!(made.code, 201, "{}", made.text());
        let mut made = made.json();
        if let Some(status) = status {
            made["status"] = status;
            let name = made["metadata"]["name"].as_str().unwrap().to_owned();
            let path = format!("{path}/{name}/status?fieldManager=test");
            let put = self.server.send(&Who::Admin, "PUT", &path, &made.to_string()).unwrap();
            assert_eq!(put.code, 200, "{}", put.text());
            return put.json();
        }
        made
    }

    fn of(&self, kind: &str, plural: &str, name: &str, spec: Value, status: Value) -> Value {
        let object = json!({
            "apiVersion": "fleet.seatrial.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name}, "spec": spec, "status": status,
        });
        self.create(&format!("{FLEET}/{plural}"), object)
    }

    fn node(&self, name: &str, annotations: Value, cordoned: bool) -> Value {
        self.create(
            "/api/v1/nodes",
            json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "annotations": annotations, "labels": {"fleet.seatrial.dev/machine": name}},
                "spec": {"unschedulable": cordoned},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }),
        )
    }

    /// A machine in production with its node; `more` goes into its status.
    fn machine(&self, name: &str, slot: u16, node: Option<&Value>, status: Value) {
        let mut status = status;
        if let Some(node) = node {
            let meta = &node["metadata"];
            status["node"] = json!({"name": meta["name"], "uid": meta["uid"]});
        }
        let (rack, _) = name.split_once('-').unwrap();
        let mut spec = json!({
            "instanceType": "gd-8xh100",
            "place": {"site": "demo", "row": "a", "rack": rack, "slot": slot, "leaf": "l1", "pdu": "p1"},
            "bmc": {"address": "https://10.0.0.7", "credential": "bmc"},
            "macs": ["02:00:00:00:00:01"],
        });
        if let Some(pool) = status.get("pool") {
            spec["assignment"] = json!({"pool": pool, "tenant": "acme", "since": ago(600)});
        }
        self.of("Machine", "machines", name, spec, status);
    }

    /// Two members, a spare, one under test and one with the vendor; the first member has a fault.
    fn populate(&self) {
        let member = || {
            json!({"state": "Production", "role": "member", "pool": "h100", "tenant": "acme",
                "since": ago(600), "history": [
                    {"at": "2026-01-02T03:04:05Z", "what": "Production", "why": "passed the quick test"},
                    {"at": "2026-01-02T02:04:05Z", "what": "Test", "why": "wiped and flashed"}]})
        };
        let mark = json!({"fleet.seatrial.dev/cordoned-for": "r1-s01-1"});
        let sick = self.node("r1-s01", mark, true);
        self.machine("r1-s01", 1, Some(&sick), member());
        let well = self.node("r1-s02", json!({}), false);
        self.machine("r1-s02", 2, Some(&well), member());
        let spare = self.node("r2-s01", json!({}), false);
        self.machine("r2-s01", 1, Some(&spare), json!({"state": "Production", "role": "spare"}));
        let underway =
            json!({"state": "Test", "since": ago(5), "why": "quick test", "onboardings": 0});
        self.machine("r2-s02", 2, None, underway);
        let away = json!({"state": "RMA", "since": ago(3000), "why": "waits for the vendor",
            "onboardings": 1});
        self.machine("r2-s03", 3, None, away);
        let spec = json!({"node": "r1-s01", "nodeUid": sick["metadata"]["uid"], "machine": "r1-s01",
            "cause": "xid/95", "by": "seatrial-agent", "part": "GPU-3", "opened": ago(10),
            "evidence": ["GPU 3 reported XID 95"]});
        let status = json!({"stage": "Draining", "policy": "gpu-reset", "why": "pods leave",
            "timeline": []});
        let incident = self.of("Incident", "incidents", "r1-s01-1", spec, status);
        let opened: jiff::Timestamp = incident["spec"]["opened"].as_str().unwrap().parse().unwrap();
        let at = (opened + SignedDuration::from_millis(4_500)).strftime("%Y-%m-%dT%H:%M:%S.%6fZ");
        self.create(
            "/apis/events.k8s.io/v1/namespaces/default/events",
            json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
                "eventTime": at.to_string(), "type": "Normal", "reason": "Assigning", "action": "Assign",
                "note": "takes the place of r1-s01, which is sick (seatrial-pool for pool/h100)",
                "regarding": {"apiVersion": "fleet.seatrial.dev/v1alpha1", "kind": "Machine",
                    "name": "r2-s01"},
                "reportingController": "seatrial/pool", "reportingInstance": "test"}),
        );
        let spec = json!({"instanceType": "gd-8xh100", "tenant": "acme", "targetNodes": 2});
        let status = json!({"observedGeneration": 1, "target": 2, "current": 1, "inProgress": 0,
            "queued": 1, "spares": 1, "sparesWanted": 2, "prefill": 0,
            "why": "1 node sick; replaced as spares join"});
        self.of("NodePool", "nodepools", "h100", spec, status);
        for (name, node, treatment, grace) in [
            ("train-1", "r1-s01", "graceful", 30),
            ("train-2", "r1-s02", "wait", 0),
            ("train-3", "r1-s02", "now", 0),
        ] {
            self.create(
                "/api/v1/namespaces/default/pods",
                json!({"apiVersion": "v1", "kind": "Pod",
                    "metadata": {"name": name, "labels": {"fleet.seatrial.dev/treatment": treatment}},
                    "spec": {"nodeName": node, "terminationGracePeriodSeconds": grace, "containers": [{"name": "c", "image": "i"}]}}),
            );
        }
    }

    fn run(&self, args: &[&str]) -> Output {
        let kubeconfig = self.server.kubeconfig.to_str().unwrap();
        let mut command = seatrial(args);
        command.args(["--kubeconfig", kubeconfig]).env("USER", "ada");
        command.stdin(std::process::Stdio::null()).output().unwrap()
    }

    /// What a verb prints, if it does what it is told.
    #[track_caller]
    fn says(&self, args: &[&str]) -> String {
        let done = self.run(args);
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    #[track_caller]
    fn check(&self, args: &[&str], expected: &str) {
        let said = self.says(args);
        assert_eq!(said, expected, "{args:?}\n{said}");
    }

    /// What a verb says that does nothing.
    #[track_caller]
    fn refuses(&self, args: &[&str], expected: &str) {
        let done = self.run(args);
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!((said.as_ref(), done.status.code()), (expected, Some(1)), "{args:?}");
        assert!(done.stdout.is_empty());
    }

    fn get(&self, path: &str) -> Value {
        self.server.get(&Who::Admin, path).json()
    }
}

#[test]
fn what_is_asked_is_answered_from_objects() {
    let fleet = Fleet::start();
    fleet.populate();
    fleet.check(
        &["node", "why", "r1-s01"],
        "r1-s01 is out of service: GPU 3 reported XID 95 10 min ago.\n  \
         evidence    the first such on GPU-3 in 30 days\n  \
         doing       draining 1 pod (train-1, may be ended gracefully)\n  \
         cover       spare r2-s01 (same leaf) took its place in pool h100 4 s after the fault\n  \
         next        back in service once a test has proven the cure\n  \
         asked by    fault catalogue row xid/95, reported by seatrial-agent; incident r1-s01-1\n",
    );
    fleet.check(
        &["node", "why", "r1-s02"],
        "r1-s02 is in service: it serves pool h100 of tenant acme.\n  evidence    2 pods run\n",
    );
    fleet.check(
        &["node", "why", "r2-s02"],
        "r2-s02 is not in service; its machine has been in Test for 5 min: quick test.\n",
    );
    fleet.refuses(
        &["node", "why", "r1-s1"],
        "seatrial: there is no node or machine \"r1-s1\"; did you mean \"r1-s01\"? (5 known: \
         seatrial node get)\n",
    );
    fleet.check(
        &["pool", "why", "h100"],
        "Pool h100 serves 1 of 2 nodes: 1 node sick; replaced as spares join.\n  \
         nodes       1 serve, 1 without a machine\n  \
         sick        r1-s01 (xid/95, 10 min)\n  \
         spares      1 of 2 to cover failures 99.9 % of the time\n  \
         asked by    tenant acme, type gd-8xh100\n",
    );
    fleet.refuses(
        &["pool", "why", "h10"],
        "seatrial: there is no pool \"h10\"; did you mean \"h100\"? (1 known: seatrial pool get)\n",
    );
    fleet.check(
        &["node", "history", "r1-s02"],
        "2026-01-02 02:04:05   Test         wiped and flashed\n\
         2026-01-02 03:04:05   Production   passed the quick test\n",
    );
    fleet.check(
        &["node", "locate", "r1-s02"],
        "r1-s02 stands in site demo, row a, rack r1, slot 2 from the bottom.\n  leaf        l1\n  \
         power       p1\n  bmc         https://10.0.0.7\n  boots from  02:00:00:00:00:01\n",
    );
    fleet.check(
        &["rack", "map"],
        "r1                       r2\n                         \u{20}3 ? r2-s03 RMA\n \
         2 ■ r1-s02 h100         \u{20}2 ▸ r2-s02 Test\n \
         1 ✗ r1-s01 xid/95       \u{20}1 □ r2-s01 spare\n\n\
         ■ 1 serving · □ 1 spare · ▸ 1 on the way · ✗ 1 out of service · ? 1 waiting for people\n",
    );
    let page = fleet.says(&["machine", "describe", "r1-s02"]);
    for line in [
        "r1-s02 is in service: it serves pool h100 of tenant acme.",
        "Place:     demo/a/r1 slot 2",
        "State:     Production (member)",
        "  TYPE    STATUS   REASON   MESSAGE",
        "  default     train-2   Pending   wait",
    ] {
        assert!(page.lines().any(|there| there == line), "{line}\n{page}");
    }
}

#[test]
fn tables_are_the_servers() {
    let fleet = Fleet::start();
    fleet.populate();
    let table = fleet.says(&["machine", "get"]);
    assert_eq!(
        table.lines().map(str::split_whitespace).map(Iterator::collect).collect::<Vec<Vec<_>>>()
            [..2],
        [
            vec!["NAME", "STATE", "ROLE", "SINCE", "POOL", "NODE", "WHY"],
            vec!["r1-s01", "Production", "member", "10h", "h100", "r1-s01"],
        ]
    );
    assert_eq!(table.lines().count(), 6);
    assert!(fleet.says(&["machine", "get", "-o", "wide"]).contains("RACK"));
    assert!(fleet.says(&["node", "get", "r1-s01"]).contains("Ready,SchedulingDisabled"));
    fleet.check(&["pool", "get", "-o", "name"], "nodepool/h100\n");
    let json: Value =
        serde_json::from_str(&fleet.says(&["pool", "get", "h100", "-o", "json"])).unwrap();
    assert_eq!(json["spec"]["targetNodes"], 2);
    assert!(fleet.says(&["pool", "get", "-o", "yaml"]).contains("targetNodes: 2"));
    fleet.refuses(
        &["machine", "get", "r1-s9"],
        "seatrial: machines.fleet.seatrial.dev \"r1-s9\" not found\n",
    );
}

#[test]
fn nothing_is_disturbed_unasked() {
    let fleet = Fleet::start();
    fleet.populate();
    let busy = "r1-s02 runs 2 pods of tenant acme (train-2, train-3); 1 may not be interrupted, 1 may \
                be killed.";
    fleet.refuses(
        &["node", "reboot", "r1-s02"],
        &format!("seatrial: {busy} Reboot when they end (--safe), or now (--force)?\n"),
    );
    let nobody = "seatrial: nobody is at a terminal to be asked; add --yes to do it\n";
    let pool = "It serves pool h100: 1 of 2 nodes serve, 1 spare would fit.";
    for args in [
        ["node", "reboot", "r1-s02", "--force"].as_slice(),
        &["node", "drain", "r1-s02"],
        &["machine", "rma", "r1-s02"],
    ] {
        fleet.refuses(args, &format!("{busy}\n{pool}\n{nobody}"));
    }
    let shrink = "Pool h100 of tenant acme gives 1 of 2 nodes back, once they are idle; each is wiped \
                  before another tenant has it.\n";
    fleet.refuses(&["pool", "scale", "h100", "1"], &format!("{shrink}{nobody}"));
    let node = fleet.get("/api/v1/nodes/r1-s02");
    assert_eq!(node["spec"]["unschedulable"], Value::Null);
    assert_eq!(node["status"]["conditions"].as_array().unwrap().len(), 1);
    fleet.refuses(
        &["node", "uncordon", "r1-s01"],
        "seatrial: Seatrial cordoned r1-s01 for incident r1-s01-1, and lifts its cordon when that ends; \
         ask why: seatrial node why r1-s01\n",
    );
    fleet.refuses(
        &["node", "cordon", "r1-s01"],
        "seatrial: Seatrial cordoned r1-s01 for incident r1-s01-1; to keep its hands off from now on: \
         kubectl annotate node r1-s01 fleet.seatrial.dev/hands-off='your reason'\n",
    );
    fleet.refuses(
        &["machine", "certify", "r2-s03"],
        "seatrial: r2-s03 is in RMA: say first that it is back with `seatrial machine rma r2-s03 \
         --returned`\n",
    );
    fleet.refuses(
        &["node", "reboot", "r2-s02", "--safe"],
        "seatrial: r2-s02 has no node in the cluster; ask why: seatrial node why r2-s02\n",
    );
}

#[test]
fn verbs_write_what_kubectl_would() {
    let fleet = Fleet::start();
    fleet.populate();
    fleet.check(
        &["node", "cordon", "r1-s02", "--reason", "new cables", "--show"],
        "kubectl patch node r1-s02 --type=strategic -p '{\"metadata\":{\"annotations\":\
         {\"fleet.seatrial.dev/cordon-reason\":\"new cables\"}},\"spec\":{\"unschedulable\":true}}'\n",
    );
    assert_eq!(fleet.get("/api/v1/nodes/r1-s02")["spec"]["unschedulable"], Value::Null);
    fleet.says(&["node", "cordon", "r1-s02", "--reason", "new cables"]);
    assert_eq!(fleet.get("/api/v1/nodes/r1-s02")["spec"]["unschedulable"], true);
    fleet.check(
        &["node", "why", "r1-s02"],
        "r1-s02 takes no new work: a person cordoned it (new cables).\n  evidence    2 pods run\n",
    );
    fleet.check(&["node", "uncordon", "r1-s02"], "r1-s02 takes pods again.\n");
    let node = fleet.get("/api/v1/nodes/r1-s02");
    assert_eq!(node["spec"]["unschedulable"], Value::Null);
    assert_eq!(node["metadata"]["annotations"]["fleet.seatrial.dev/cordon-reason"], Value::Null);

    fleet.check(
        &["node", "reboot", "r1-s02", "--safe"],
        "r1-s02 reboots once its pods have ended. Follow it: seatrial node why r1-s02\n",
    );
    let asked = |kind: &str| {
        let node = fleet.get("/api/v1/nodes/r1-s02");
        let conditions = node["status"]["conditions"].as_array().unwrap().clone();
        conditions.into_iter().find(|c| c["type"] == kind)
    };
    let pending = asked("PendingPhase").unwrap();
    assert_eq!((&pending["status"], &pending["reason"]), (&json!("True"), &json!("Reboot")));
    let managers = fleet.get("/api/v1/nodes/r1-s02")["metadata"]["managedFields"].to_string();
    assert!(managers.contains("\"manager\":\"ada\""), "{managers}");
    assert_eq!(asked("ImmediatePhase"), None);
    fleet.check(
        &["node", "why", "r1-s02"],
        "r1-s02 is in service: it serves pool h100 of tenant acme.\n  evidence    2 pods run\n  \
         next        Reboot once it is idle: ada asks for it\n",
    );
    fleet.says(&["node", "reboot", "r1-s02", "--force", "--yes"]);
    assert_eq!(asked("ImmediatePhase").unwrap()["reason"], "Reboot");
    fleet.says(&["node", "verify", "r1-s02"]);
    assert_eq!(asked("PendingPhase").unwrap()["reason"], "Test");

    fleet.check(
        &["node", "drain", "r1-s02", "--yes"],
        "r1-s02 is cordoned, and runs no pod of a user.\n",
    );
    assert_eq!(fleet.get("/api/v1/nodes/r1-s02")["spec"]["unschedulable"], true);

    // No kubelet ends this one.
    fleet.refuses(
        &["node", "drain", "r1-s01", "--yes", "--timeout", "0"],
        "seatrial: r1-s01 is cordoned, and still runs after 0 s: train-1; wait longer with --timeout\n",
    );

    let machine = |name: &str| fleet.get(&format!("{FLEET}/machines/{name}"))["spec"].clone();
    fleet.check(
        &["machine", "rma", "r2-s03", "--returned"],
        "r2-s03 is asked to go to Onboard. Follow it: seatrial node why r2-s03\n",
    );
    let request = machine("r2-s03")["request"].clone();
    assert_eq!((&request["ask"], &request["by"]), (&json!("Onboard"), &json!("ada")));
    let again = fleet.run(&["machine", "rma", "r2-s03", "--returned"]);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(said.starts_with("seatrial: ada has asked r2-s03 for Onboard ("), "{said}");
    fleet.check(&["machine", "certify", "r2-s02"], "r2-s02 is certified already.\n");

    fleet.check(
        &["pool", "scale", "h100", "5"],
        "Pool h100 wants 5 nodes instead of 2. Follow it: seatrial pool why h100\n",
    );
    fleet.check(
        &["pool", "why", "h100"],
        "Pool h100 was changed, and has not been looked at since.\n  \
         nodes       1 serve, 1 without a machine\n  \
         sick        r1-s01 (xid/95, 10 min)\n  \
         spares      1 of 2 to cover failures 99.9 % of the time\n  \
         asked by    tenant acme, type gd-8xh100\n",
    );
}

#[test]
fn a_cluster_that_is_none_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = seatrial(args);
        command.env_remove("KUBECONFIG").env("HOME", directory.path()).env_remove("XDG_DATA_HOME");
        let done = command.output().unwrap();
        assert_eq!(done.status.code(), Some(1));
        String::from_utf8(done.stderr).unwrap()
    };
    assert_eq!(
        run(&["node", "get"]),
        "seatrial: no cluster is known here; start one with `seatrial up`, or name one with \
         --kubeconfig or KUBECONFIG\n"
    );
    let server = Server::in_memory(directory.path());
    let kubeconfig = server.kubeconfig.to_str().unwrap();
    let url = format!("https://{}", server.address);
    assert_eq!(
        run(&["machine", "certify", "m", "--kubeconfig", kubeconfig]),
        format!(
            "seatrial: the cluster at {url} has no machines.fleet.seatrial.dev; `seatrial up` starts \
             one that has, `seatrial install` puts it in\n"
        )
    );
    // The data directory of a server on this machine is found by itself.
    let home = directory.path().join(".local/share/seatrial/demo");
    std::fs::create_dir_all(&home).unwrap();
    std::fs::copy(&server.kubeconfig, home.join("kubeconfig")).unwrap();
    let said = run(&["pool", "why", "x"]);
    assert!(said.contains("has no nodepools.fleet.seatrial.dev"), "{said}");
}
