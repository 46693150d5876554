//! What kubectl does by the server's OpenAPI documents: it validates, applies, compares and explains.

use std::path::Path;

use crate::kubectl::Prompt;
use crate::support::Server;

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: racks.test.seatrial.dev
spec:
  group: test.seatrial.dev
  names: {kind: Rack, plural: racks, singular: rack}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        description: A rack of servers.
        required: [spec]
        properties:
          spec:
            type: object
            required: [servers]
            properties:
              servers: {type: integer, description: How many there are.}
              cooling: {type: string, enum: [air, water]}
              ports:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string}, speed: {type: integer}}
"#;

const RACK: &str = r#"
apiVersion: test.seatrial.dev/v1
kind: Rack
metadata: {name: r}
spec: {servers: 4, ports: [{name: a, speed: 1}]}
"#;

const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec:
      containers:
      - {name: a, image: "a:1"}
      - {name: b, image: "b:1"}
"#;

/// A server whose objects nobody changes but kubectl: between its two looks `diff` sees what controllers
/// write.
fn quiet(directory: &Path) -> Server {
    Server::start(directory, &["--in-memory", "--controllers", "-*"])
}

#[test]
fn built_in_kinds_are_validated_and_applied() {
    let directory = tempfile::tempdir().unwrap();
    let server = quiet(directory.path());
    let prompt = Prompt { home: directory.path(), server: &server };
    let one_less = DEPLOYMENT.replace("      - {name: b, image: \"b:1\"}\n", "");
    let misspelt = DEPLOYMENT.replace("image: \"a:1\"", "image: \"a:1\", imag: a");
    let other = DEPLOYMENT.replace("a:1", "a:2");
    let refused = "Error from server (BadRequest): error when creating \"STDIN\": Deployment in \
        version \"v1\" cannot be handled as a Deployment: strict decoding error: unknown field \
        \"spec.template.spec.containers[0].imag\"";
    let names = "get deployment d -o jsonpath={.spec.template.spec.containers[*].name}";
    for (line, input, want) in [
        ("create -f -", &*misspelt, refused),
        (
            "create --validate=warn --dry-run=server -f -",
            &misspelt,
            "deployment.apps/d created (server dry run) Warning: unknown field \
             \"spec.template.spec.containers[0].imag\"",
        ),
        ("apply -f -", DEPLOYMENT, "deployment.apps/d created"),
        ("apply -f -", DEPLOYMENT, "deployment.apps/d unchanged"),
        (names, "", "a b"),
        ("apply -f -", &one_less, "deployment.apps/d configured"),
        (names, "", "a"),
        ("replace -f -", DEPLOYMENT, "deployment.apps/d replaced"),
        (names, "", "a b"),
        (
            "apply --server-side --force-conflicts -f -",
            &other,
            "deployment.apps/d serverside-applied",
        ),
        ("diff --server-side --force-conflicts -f -", &other, ""),
        ("delete -f -", DEPLOYMENT, "deployment.apps \"d\" deleted"),
    ] {
        prompt.check(line, input, want);
    }
}

#[test]
fn differences_are_shown() {
    let directory = tempfile::tempdir().unwrap();
    let server = quiet(directory.path());
    let prompt = Prompt { home: directory.path(), server: &server };
    prompt.check("apply -f -", DEPLOYMENT, "deployment.apps/d created");
    prompt.check("diff -f -", DEPLOYMENT, "");
    let (same, said) = prompt.kubectl("diff -f -", &DEPLOYMENT.replace("b:1", "b:2"));
    let changed: Vec<&str> = (said.lines().map(str::trim_end))
        .filter(|line| line.starts_with(['+', '-']) && line.contains("image:"))
        .collect();
    assert!(!same, "kubectl diff says by its code that there are differences: {said}");
    assert_eq!(changed, ["-      - image: b:1", "+      - image: b:2"], "{said}");
}

#[test]
fn custom_kinds_are_validated_applied_and_explained() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::in_memory(directory.path());
    let prompt = Prompt { home: directory.path(), server: &server };
    let crd = "customresourcedefinition.apiextensions.k8s.io/racks.test.seatrial.dev";
    let misspelt = RACK.replace("servers", "severs");
    for (line, input, want) in [
        ("create -f -", DEFINITION, &*format!("{crd} created")),
        ("apply -f -", RACK, "rack.test.seatrial.dev/r created"),
        ("apply -f -", RACK, "rack.test.seatrial.dev/r unchanged"),
        (
            "create -f -",
            &misspelt,
            "Error from server (BadRequest): error when creating \"STDIN\": Rack in version \"v1\" \
          cannot be handled as a Rack: strict decoding error: unknown field \"spec.severs\"",
        ),
        ("diff -f -", RACK, ""),
        (
            "explain racks.spec.cooling",
            "",
            "GROUP: test.seatrial.dev KIND: Rack VERSION: v1 FIELD: cooling <string> ENUM: air water \
          DESCRIPTION: <empty>",
        ),
        (
            "explain racks.spec --recursive",
            "",
            "GROUP: test.seatrial.dev KIND: Rack VERSION: v1 FIELD: spec <Object> \
          DESCRIPTION: <empty> FIELDS: cooling <string> enum: air, water ports <[]Object> name \
          <string> -required- speed <integer> servers <integer> -required-",
        ),
        (
            "explain racks.spec -o plaintext-openapiv2",
            "",
            "KIND: Rack VERSION: test.seatrial.dev/v1 RESOURCE: spec <Object> DESCRIPTION: <empty> \
          FIELDS: cooling <string> ports <[]Object> servers <integer> -required- How many there are.",
        ),
        (
            "delete crd racks.test.seatrial.dev",
            "",
            "customresourcedefinition.apiextensions.k8s.io \"racks.test.seatrial.dev\" deleted",
        ),
    ] {
        prompt.check(line, input, want);
    }
}

#[test]
fn built_in_kinds_are_explained() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::in_memory(directory.path());
    let prompt = Prompt { home: directory.path(), server: &server };
    let (_, said) = prompt.kubectl("explain service.spec.ports", "");
    for part in [
        "FIELD: ports <[]ServicePort>",
        "  port\t<integer> -required-\n",
        "  protocol\t<string>\n  enum: SCTP, TCP, UDP\n",
        // A sentence of upstream's.
        "The port that will be exposed by this service.",
    ] {
        assert!(said.contains(part), "{part} is missing: {said}");
    }
    let (ended, said) = prompt.kubectl("explain pods --recursive", "");
    assert!(
        ended && said.contains("topologySpreadConstraints\t<[]TopologySpreadConstraint>"),
        "{said}"
    );
    for kind in ["node", "crd.spec.versions.schema", "cronjob.spec", "role.rules", "events"] {
        for output in ["plaintext", "plaintext-openapiv2"] {
            let (ended, said) = prompt.kubectl(&format!("explain {kind} -o {output}"), "");
            assert!(ended && said.contains("FIELDS:"), "{kind}: {said}");
        }
    }
}
