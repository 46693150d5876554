//! `up`: a whole site comes to life, heals, outlives a kill, and is stopped.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Who, config, run, seatrial, send, watch};

/// A site of six machines in two racks comes up in a few seconds; this is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

const SMALL: [&str; 10] = [
    "--nodes",
    "5",
    "--cpu-nodes",
    "1",
    "--racks",
    "2",
    "--spares",
    "1",
    "--listen",
    "127.0.0.1:0",
];

/// A site that runs in a process of its own. Killed when it is dropped.
pub(crate) struct Site {
    directory: PathBuf,
    child: Child,
    said: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Site {
    /// Starts it, at once or where it stopped.
    pub(crate) fn start(directory: &Path, args: &[&str]) -> Self {
        let data = directory.to_str().unwrap();
        let mut command = seatrial(&["up", "--data-dir", data, "--output", "json"]);
        let mut child = command.args(args).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { directory: directory.to_owned(), child, said }
    }

    /// Waits until it says `event`, and returns what it said until then.
    pub(crate) fn until(&mut self, event: &str) -> Vec<Value> {
        self.until_said(|said| said["event"] == event)
    }

    /// Waits until it says what is wanted, and returns what it said until then.
    pub(crate) fn until_said(&mut self, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        let began = Instant::now();
        let mut heard = Vec::new();
        while began.elapsed() < PATIENCE {
            let line = self.said.next().expect("it ended").unwrap();
            let said: Value = serde_json::from_str(&line).unwrap();
            heard.push(said.clone());
            if wanted(&said) {
                return heard;
            }
        }
        panic!("it never said so: {heard:?}");
    }

    /// As a crash of the control plane.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// It ends by itself, as it should.
    pub(crate) fn ended(&mut self) {
        assert!(self.child.wait().unwrap().success());
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    fn address(&self) -> String {
        let url = config(&self.kubeconfig())["clusters"][0]["cluster"]["server"].clone();
        url.as_str().unwrap().replace("https://", "")
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        send(&self.kubeconfig(), &self.address(), &Who::Admin, "GET", path, "").unwrap().json()
    }

    /// Watches a collection until one of its objects is as wanted.
    fn watch(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let path = format!("{path}?watch=true");
        let mut lines = watch(&self.kubeconfig(), &self.address(), &path);
        let began = Instant::now();
        let mut line = String::new();
        while began.elapsed() < PATIENCE {
            line.clear();
            // A pause longer than the socket's patience is no end.
            let _ = lines.read_line(&mut line);
            let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
            if wanted(&event["object"]) {
                return event["object"].clone();
            }
        }
        panic!("never seen on {path}");
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const MACHINES: &str = "/apis/fleet.seatrial.dev/v1alpha1/machines";
const INCIDENTS: &str = "/apis/fleet.seatrial.dev/v1alpha1/incidents";

#[test]
fn a_site_comes_to_life_heals_itself_and_is_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    let mut site = Site::start(directory.path(), &SMALL);
    let heard = site.until("ready");
    let production = heard.iter().rfind(|said| said["step"] == "production").unwrap();
    assert_eq!((&production["done"], &production["total"]), (&6.into(), &6.into()));
    let nodes = site.get("/api/v1/nodes");
    assert_eq!(nodes["items"].as_array().unwrap().len(), 6);

    let taken = run(&["up", "--data-dir", data]);
    let error = String::from_utf8(taken.stderr).unwrap();
    assert!(error.contains("is in use by process"), "{error}");

    let unknown = run(&["simulate", "--data-dir", data, "fault", "gpu-eccc", "r1-s01"]);
    let error = String::from_utf8(unknown.stderr).unwrap();
    assert!(error.contains("did you mean \"gpu-ecc\""), "{error}");
    let struck = run(&["simulate", "--data-dir", data, "fault", "gpu-ecc", "r1-s01"]);
    assert!(struck.status.success(), "{struck:?}");
    let closed = site.watch(INCIDENTS, |incident| {
        incident["spec"]["node"] == "r1-s01" && incident["status"]["stage"] == "Closed"
    });
    assert_eq!(closed["status"]["end"], "Solved", "{closed}");
    assert_eq!(closed["spec"]["cause"], "xid/95");

    let down = run(&["down", "--data-dir", data]);
    assert!(down.status.success(), "{down:?}");
    assert!(site.child.wait().unwrap().success());
    let again = run(&["down", "--data-dir", data]);
    assert!(String::from_utf8(again.stdout).unwrap().starts_with("nothing runs in"));
}

#[test]
fn killed_while_machines_boot_it_goes_on_and_no_boot_is_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    let mut site = Site::start(directory.path(), &SMALL);
    // Some machines are switched on, others not yet.
    site.until("step");
    let powered = |machine: &Value| machine["status"]["operation"]["told"].is_string();
    site.watch(MACHINES, powered);
    site.child.kill().unwrap();
    site.child.wait().unwrap();
    drop(site);

    let mut site = Site::start(directory.path(), &["--until-ready"]);
    site.until("ready");
    assert!(site.child.wait().unwrap().success());
    // The hardware's own account, which no controller writes: a line for each change.
    let account = std::fs::read_to_string(directory.path().join("hardware.json")).unwrap();
    let lines = account.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let truths: Vec<Value> = lines.map(|line| line["truth"].clone()).collect();
    assert!(truths.iter().any(|truth| truth["boots"].as_u64() > Some(0)), "{account}");
    let cut_off = truths.iter().find(|truth| truth["cutOffs"].as_u64() > Some(0));
    assert_eq!(cut_off, None, "a boot was cut off by a second reset");
}

#[test]
fn another_site_is_not_put_over_one_that_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let mut site = Site::start(directory.path(), &SMALL);
    site.until("api");
    site.until("step");
    drop(site);
    let other = run(&["up", "--data-dir", directory.path().to_str().unwrap(), "--nodes", "9"]);
    let error = String::from_utf8(other.stderr).unwrap();
    assert!(error.contains("holds another site"), "{error}");
}

#[test]
fn a_site_that_cannot_be_is_refused_by_its_field() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    for (args, field) in [
        (["--nodes", "4", "--spares", "9"], "spares:"),
        (["--nodes", "1000", "--racks", "2"], "racks:"),
    ] {
        let refused: Vec<&str> = ["up", "--data-dir", data].into_iter().chain(args).collect();
        let refused = Command::new(env!("CARGO_BIN_EXE_seatrial")).args(refused).output().unwrap();
        let error = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && error.contains(field), "{error}");
    }
}
