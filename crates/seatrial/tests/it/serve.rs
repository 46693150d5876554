//! `serve`: ready when it says so, open to whom it should be, and gone when it is told.

use std::io::BufRead as _;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::support::{Server, Who};

#[test]
fn only_the_owner_reads_the_kubeconfig() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::in_memory(directory.path());
    let mode = std::fs::metadata(&server.kubeconfig).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Nothing half written stays behind.
    let names: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["kubeconfig"]);
}

#[test]
fn it_stops_when_told_although_somebody_watches() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::in_memory(directory.path());
    let mut watch = server.ask(&Who::Admin, "/api/v1/namespaces?watch=true");
    let mut line = String::new();
    while !line.contains(r#""type":"ADDED""#) {
        line.clear();
        assert!(watch.read_line(&mut line).unwrap() > 0);
    }
    server.terminate();
    assert_eq!(server.ended().code(), Some(0));
    // The watch ended in good order: with the last chunk, not in the middle of one.
    let rest: Vec<String> = watch.lines().map_while(Result::ok).collect();
    assert_eq!(rest.iter().rev().find(|line| !line.is_empty()).map(String::as_str), Some("0"));
}

#[test]
fn metrics_tell_of_the_controllers_too() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::in_memory(directory.path());
    let metrics = server.get(&Who::Admin, "/metrics").text();
    assert!(metrics.contains("apiserver_store_revision"), "{metrics}");
    assert!(metrics.contains("\nseatrial_leader 0\n"), "{metrics}");
    assert_eq!(server.get(&Who::Nobody, "/metrics").code, 403);
}

#[test]
fn everybody_gets_what_they_may() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = directory.path().join("tokens.csv");
    std::fs::write(&tokens, "s3cret,alice,1,\"dev,ops\"\n").unwrap();
    let tokens = tokens.to_str().unwrap();
    let server = Server::start(directory.path(), &["--in-memory", "--token-auth-file", tokens]);
    let maps = "/api/v1/namespaces/default/configmaps";

    let refused = server.get(&Who::Token("s3cret"), maps);
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.json()["message"],
        "configmaps is forbidden: User \"alice\" cannot list resource \"configmaps\" in API group \
         \"\" in the namespace \"default\""
    );
    let unknown = server.get(&Who::Token("wrong"), "/version");
    assert_eq!((unknown.code, unknown.json()["reason"].as_str()), (401, Some("Unauthorized")));
    let anonymous = server.get(&Who::Nobody, maps);
    assert_eq!(anonymous.code, 403);
    let message = anonymous.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("User \"system:anonymous\" cannot list"), "{message}");
    for path in ["/version", "/healthz", "/livez", "/readyz"] {
        assert_eq!(server.get(&Who::Nobody, path).code, 200, "{path}");
    }
    assert_eq!(server.get(&Who::Nobody, "/api").code, 403);

    // A rule for one of alice's groups counts at once.
    let group = "rbac.authorization.k8s.io";
    let role = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": {"name": "ops"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}],
    });
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": "ops"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "ops"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "ops"}],
    });
    for (resource, object) in [("roles", role), ("rolebindings", binding)] {
        let path = format!("/apis/{group}/v1/namespaces/default/{resource}");
        let made = server.send(&Who::Admin, "POST", &path, &object.to_string()).unwrap();
        assert_eq!(made.code, 201, "{}", made.text());
    }
    assert_eq!(server.get(&Who::Token("s3cret"), maps).code, 200);
}
