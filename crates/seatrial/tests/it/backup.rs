//! Backups, and what is made of them.

use std::io::BufRead;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Server, Who, run};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[track_caller]
fn done(args: &[&str]) -> String {
    let done = run(args);
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[track_caller]
fn refused(args: &[&str]) -> String {
    let done = run(args);
    assert_eq!(done.status.code(), Some(1), "{args:?}");
    String::from_utf8(done.stderr).unwrap()
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn create(server: &Server, name: &str) -> u64 {
    let body = json!({"metadata": {"name": name}, "data": {"k": name}}).to_string();
    let made = server.send(&Who::Admin, "POST", MAPS, &body).unwrap();
    assert_eq!(made.code, 201, "{}", made.text());
    revision(&made.json())
}

fn revision(object: &Value) -> u64 {
    object.pointer("/metadata/resourceVersion").unwrap().as_str().unwrap().parse().unwrap()
}

fn names(server: &Server) -> Vec<String> {
    let list = server.get(&Who::Admin, MAPS).json();
    let items = list["items"].as_array().unwrap();
    items.iter().map(|i| i["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_was_backed_up_is_there_again_and_watchers_notice() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let (running, stopped) = (place.path().join("running.snap"), place.path().join("stopped.snap"));
    let mut server = Server::start(place.path(), &["--data-dir", text(&data), "--controllers=-*"]);
    create(&server, "kept");
    done(&["backup", "--data-dir", text(&data), text(&running)]);
    let seen = create(&server, "later");
    server.terminate();
    server.ended();
    done(&["backup", "--data-dir", text(&data), text(&stopped)]);

    let occupied = refused(&["restore", text(&running), "--data-dir", text(&data)]);
    assert!(occupied.contains("already holds data"), "{occupied}");
    std::fs::remove_dir_all(data.join("store")).unwrap();
    let said = done(&["restore", text(&running), "--data-dir", text(&data)]);
    assert!(said.contains("going on at revision 1000000"), "{said}");

    let server = Server::start(place.path(), &["--data-dir", text(&data), "--controllers=-*"]);
    assert_eq!(names(&server), ["kept"]);
    // Who saw what is no more must not believe to be up to date.
    let watch = format!("{MAPS}?watch=true&resourceVersion={seen}");
    let mut lines = server.ask(&Who::Admin, &watch).lines();
    let told = lines.find_map(|l| l.ok().filter(|l| l.contains("Expired"))).unwrap();
    assert!(told.contains("410"), "{told}");
    assert!(create(&server, "new") > seen + 1_000_000);

    let other = place.path().join("other");
    done(&["restore", text(&stopped), "--data-dir", text(&other)]);
    let server = Server::start(place.path(), &["--data-dir", text(&other), "--controllers=-*"]);
    assert_eq!(names(&server), ["kept", "later"]);
}

#[test]
fn only_an_administrator_gets_a_snapshot() {
    let place = tempfile::tempdir().unwrap();
    let tokens = place.path().join("tokens");
    std::fs::write(&tokens, "t,alice,1\n").unwrap();
    let server = Server::start(place.path(), &["--in-memory", "--token-auth-file", text(&tokens)]);
    for who in [Who::Nobody, Who::Token("t")] {
        assert_eq!(server.get(&who, "/seatrial/snapshot").code, 403);
    }
    let kubeconfig = place.path().join("kubeconfig");
    let file = place.path().join("memory.snap");
    done(&["backup", "--kubeconfig", text(&kubeconfig), text(&file)]);
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "all secrets are in it");
}

#[test]
fn what_cannot_be_done_is_said() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("x.snap");
    let nothing = refused(&["backup", "--data-dir", text(place.path()), text(&file)]);
    assert!(nothing.contains("there is no data in"), "{nothing}");
    assert!(!file.exists());
    let missing = refused(&["restore", text(&file), "--data-dir", text(place.path())]);
    assert!(missing.contains("cannot read the backup"), "{missing}");
    std::fs::write(&file, "not a backup at all, but long enough to have a header".repeat(9))
        .unwrap();
    let foreign = refused(&["restore", text(&file), "--data-dir", text(place.path())]);
    assert!(foreign.contains("it is not a snapshot of this store"), "{foreign}");
}

#[test]
fn the_kubeconfig_is_printed_and_merged() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let nothing = refused(&["kubeconfig", "--data-dir", text(&data)]);
    assert!(nothing.contains("start one with `seatrial serve`"), "{nothing}");
    let _server = Server::start(place.path(), &["--data-dir", text(&data)]);
    let printed: Value =
        serde_saphyr::from_str(&done(&["kubeconfig", "--data-dir", text(&data)])).unwrap();
    assert_eq!(printed["current-context"], "seatrial");

    let mine = place.path().join("mine");
    std::fs::write(
        &mine,
        "kind: Config\nclusters:\n- name: prod\n  cluster: {server: 'https://prod'}\n\
         current-context: prod\n",
    )
    .unwrap();
    let merge = ["kubeconfig", "--data-dir", text(&data), "--merge", "--into", text(&mine)];
    for _ in 0..2 {
        let said = done(&merge);
        assert!(said.contains("kubectl --context seatrial get namespaces"), "{said}");
    }
    let merged: Value = serde_saphyr::from_str(&std::fs::read_to_string(&mine).unwrap()).unwrap();
    assert_eq!(merged["clusters"].as_array().unwrap().len(), 2);
    assert_eq!(merged["current-context"], "prod");
    let taken = refused(&[&merge[..], &["--name", "prod"]].concat());
    assert!(taken.contains("another cluster \"prod\" already"), "{taken}");
}
