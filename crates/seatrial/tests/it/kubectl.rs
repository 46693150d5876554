//! What people type, and what they see: kubectl against the binary.
//!
//! Where `--validate=false` stands, kubectl does not read the server's OpenAPI documents; `openapi`
//! types the same without.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::Server;

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: racks.test.seatrial.dev
spec:
  group: test.seatrial.dev
  names: {kind: Rack, plural: racks, singular: rack, shortNames: [rk], categories: [all]}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.servers, statusReplicasPath: .status.ready}
    additionalPrinterColumns:
    - {name: Servers, type: integer, jsonPath: .spec.servers}
    - {name: Row, type: string, jsonPath: .spec.row, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [servers]
            properties:
              servers: {type: integer, maximum: 64}
              row: {type: string}
          status:
            type: object
            properties:
              ready: {type: integer}
              conditions:
                type: array
                items: {type: object, x-kubernetes-preserve-unknown-fields: true}
"#;

const RACK: &str = r#"
apiVersion: test.seatrial.dev/v1
kind: Rack
metadata: {name: r}
spec: {servers: 4, row: a}
"#;

const RACK_OF_TOO_MANY: &str = r#"
apiVersion: test.seatrial.dev/v1
kind: Rack
metadata: {name: big}
spec: {servers: 65}
"#;

const MAP: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: m}
data: {k: v}
"#;

const MAP_CHANGED: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: m}
data: {l: w}
"#;

/// A person at a prompt, with a home of their own.
pub(crate) struct Prompt<'a> {
    pub(crate) home: &'a Path,
    pub(crate) server: &'a Server,
}

impl Prompt<'_> {
    /// Types a line, and returns how it ended and all that was said.
    pub(crate) fn kubectl(&self, line: &str, input: &str) -> (bool, String) {
        let kubectl = Command::new("kubectl")
            .args(line.split(' '))
            .env("HOME", self.home)
            .env("KUBECONFIG", &self.server.kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut kubectl = kubectl.unwrap_or_else(|error| {
            panic!(
                "cannot run kubectl ({error}); install it: apt-get install kubernetes-client, or \
                 see https://kubernetes.io/docs/tasks/tools/"
            )
        });
        kubectl.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let out = kubectl.wait_with_output().unwrap();
        let said = [out.stdout, out.stderr].concat();
        (out.status.success(), String::from_utf8(said).unwrap())
    }

    /// `want` is what is said, word by word; `*` is any word.
    #[track_caller]
    pub(crate) fn check(&self, line: &str, input: &str, want: &str) {
        let (_, said) = self.kubectl(line, input);
        // Newer kubectls say where they deleted from.
        let said = said.replace(" from default namespace", "");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let (got, want) = (words(&said), words(want));
        let same = got.len() == want.len()
            && got.iter().zip(&want).all(|(got, want)| want == "*" || got == want);
        assert!(same, "kubectl {line}\n got: {said}\nwant: {}", want.join(" "));
    }
}

#[test]
fn maps() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &["--in-memory", "--controllers=-*"]);
    let prompt = Prompt { home: directory.path(), server: &server };
    for (line, input, want) in [
        ("create --validate=false -f -", MAP, "configmap/m created"),
        (
            "create --validate=false -f -",
            MAP,
            r#"Error from server (AlreadyExists): error when creating "STDIN": configmaps "m" already exists"#,
        ),
        ("get cm", "", "NAME DATA AGE m 1 *"),
        ("get configmaps -o wide", "", "NAME DATA AGE m 1 *"),
        ("get cm -o name", "", "configmap/m"),
        ("get cm m -o jsonpath={.data.k}", "", "v"),
        ("get cm m -o go-template={{.metadata.name}}", "", "m"),
        ("get cm -A --no-headers", "", "default m 1 *"),
        ("get cm none", "", r#"Error from server (NotFound): configmaps "none" not found"#),
        (
            "get cm m -o yaml",
            "",
            "apiVersion: v1 data: k: v kind: ConfigMap metadata: creationTimestamp: * name: m \
             namespace: default resourceVersion: * uid: *",
        ),
        (
            "get cm -o json",
            "",
            r#"{ "apiVersion": "v1", "items": [ { "apiVersion": "v1", "data": { "k": "v" }, "kind":
            "ConfigMap", "metadata": { "creationTimestamp": * "name": "m", "namespace": "default",
            "resourceVersion": * "uid": * } } ], "kind": "List", "metadata": {
            "resourceVersion": "" } }"#,
        ),
        // Client-side apply of what create made warns once, and prunes what it applied itself.
        (
            "apply --validate=false -f -",
            MAP,
            "configmap/m configured Warning: resource configmaps/m is missing the \
             kubectl.kubernetes.io/last-applied-configuration annotation which is required by kubectl \
             apply. kubectl apply should only be used on resources created declaratively by either \
             kubectl create --save-config or kubectl apply. The missing annotation will be patched \
             automatically.",
        ),
        ("apply --validate=false -f -", MAP, "configmap/m unchanged"),
        ("apply --validate=false -f -", MAP_CHANGED, "configmap/m configured"),
        ("get cm m -o jsonpath={.data}", "", r#"{"l":"w"}"#),
        ("patch cm m --type=merge -p {\"data\":{\"x\":\"1\"}}", "", "configmap/m patched"),
        ("patch cm m -p {\"data\":{\"l\":null}}", "", "configmap/m patched"),
        (
            "patch cm m --type=json -p [{\"op\":\"replace\",\"path\":\"/data/x\",\"value\":\"2\"}]",
            "",
            "configmap/m patched",
        ),
        ("get cm m -o jsonpath={.data}", "", r#"{"x":"2"}"#),
        ("label cm m tier=front", "", "configmap/m labeled"),
        (
            "label cm m tier=back",
            "",
            "error: 'tier' already has a value (front), and --overwrite is false",
        ),
        ("get cm -l tier=front -o name", "", "configmap/m"),
        ("get cm -l tier!=front", "", "No resources found in default namespace."),
        ("get cm -L tier", "", "NAME DATA AGE TIER m 1 * front"),
        ("label cm m tier-", "", "configmap/m unlabeled"),
        ("annotate cm m note=x", "", "configmap/m annotated"),
        ("replace --validate=false -f -", MAP, "configmap/m replaced"),
        ("delete cm m --dry-run=server", "", "configmap \"m\" deleted (server dry run)"),
        ("delete cm m", "", "configmap \"m\" deleted"),
        ("wait --for=delete cm/m --timeout=5s", "", ""),
    ] {
        prompt.check(line, input, want);
    }
}

#[test]
fn server_side_apply() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::in_memory(directory.path());
    let prompt = Prompt { home: directory.path(), server: &server };
    let other = MAP.replace("k: v", "k: other");
    let apply = "apply --server-side --validate=false -f -";
    for (line, input, want) in [
        (apply, MAP, "configmap/m serverside-applied"),
        (apply, MAP, "configmap/m serverside-applied"),
        (
            "apply --server-side --validate=false --field-manager=other -f -",
            &other,
            r#"error: Apply failed with 1 conflict: conflict with "kubectl": .data.k
            Please review the fields above--they currently have other managers. Here
            are the ways you can resolve this warning:
            * If you intend to manage all of these fields, please re-run the apply
              command with the `--force-conflicts` flag.
            * If you do not intend to manage all of the fields, please edit your
              manifest to remove references to the fields that should keep their
              current managers.
            * You may co-own fields by updating your manifest to match the existing
              value; in this case, you'll become the manager if the other manager(s)
              stop managing the field (remove it from their configuration).
            See https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts"#,
        ),
        (
            "apply --server-side --validate=false --field-manager=other --force-conflicts -f -",
            &other,
            "configmap/m serverside-applied",
        ),
        ("get cm m -o jsonpath={.data.k}", "", "other"),
        (
            "get cm m --show-managed-fields -o jsonpath={.metadata.managedFields[?(@.manager==\"other\")].operation}",
            "",
            "Apply",
        ),
    ] {
        prompt.check(line, input, want);
    }
}

#[test]
fn a_kind_of_ones_own() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::in_memory(directory.path());
    let prompt = Prompt { home: directory.path(), server: &server };
    let crd = "customresourcedefinition.apiextensions.k8s.io/racks.test.seatrial.dev";
    let ready = "patch rack r --subresource=status --type=merge -p \
        {\"status\":{\"ready\":4,\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}";
    for (line, input, want) in [
        ("apply --validate=false -f -", DEFINITION, &*format!("{crd} created")),
        (
            "wait --for=condition=established crd/racks.test.seatrial.dev --timeout=5s",
            "",
            &format!("{crd} condition met"),
        ),
        ("get racks", "", "No resources found in default namespace."),
        ("apply --validate=false -f -", RACK, "rack.test.seatrial.dev/r created"),
        ("apply --validate=false -f -", RACK, "rack.test.seatrial.dev/r unchanged"),
        (
            "apply --validate=false -f -",
            RACK_OF_TOO_MANY,
            "The Rack \"big\" is invalid: spec.servers: Invalid value: 65: spec.servers in body \
             should be less than or equal to 64",
        ),
        ("get rk", "", "NAME SERVERS r 4"),
        ("get racks -o wide", "", "NAME SERVERS ROW r 4 a"),
        ("get all -o name", "", "rack.test.seatrial.dev/r"),
        ("get rack r -o jsonpath={.spec.row}", "", "a"),
        ("get racks -o custom-columns=N:.metadata.name,G:.metadata.generation", "", "N G r 1"),
        (ready, "", "rack.test.seatrial.dev/r patched"),
        (
            "wait --for=condition=Ready rack/r --timeout=5s",
            "",
            "rack.test.seatrial.dev/r condition met",
        ),
        (
            "wait --for=jsonpath={.status.ready}=4 rack/r --timeout=5s",
            "",
            "rack.test.seatrial.dev/r condition met",
        ),
        ("scale rack r --replicas=7", "", "rack.test.seatrial.dev/r scaled"),
        ("get rack r -o jsonpath={.spec.servers}", "", "7"),
        ("label rack r tier=x", "", "rack.test.seatrial.dev/r labeled"),
        ("annotate rack r note=x", "", "rack.test.seatrial.dev/r annotated"),
        ("delete rack r", "", "rack.test.seatrial.dev \"r\" deleted"),
        (
            "delete crd racks.test.seatrial.dev",
            "",
            "customresourcedefinition.apiextensions.k8s.io \"racks.test.seatrial.dev\" deleted",
        ),
    ] {
        prompt.check(line, input, want);
    }
}

/// Commands of kubectl that send protobuf and have nothing else to send.
#[test]
fn typed_clients() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::in_memory(directory.path());
    let prompt = Prompt { home: directory.path(), server: &server };
    for (line, want) in [
        ("create namespace t", "namespace/t created"),
        (
            "create namespace t",
            r#"Error from server (AlreadyExists): namespaces "t" already exists"#,
        ),
        ("create configmap c --from-literal=a=b", "configmap/c created"),
        ("get configmap c -o jsonpath={.data}", r#"{"a":"b"}"#),
        ("create secret generic s --from-literal=a=b", "secret/s created"),
        ("get secret s -o jsonpath={.data.a},{.type}", "Yg==,Opaque"),
        ("create serviceaccount sa", "serviceaccount/sa created"),
        ("create deployment d --image=nginx --replicas=2", "deployment.apps/d created"),
        // Zeros that Go sends along are not there, defaults are.
        (
            "get deployment d -o jsonpath={.spec.replicas},{.spec.paused},{.spec.strategy.type}",
            "2,,RollingUpdate",
        ),
        ("create job j --image=busybox -- echo hi", "job.batch/j created"),
        ("get job j -o jsonpath={.spec.template.spec.containers[0].command}", r#"["echo","hi"]"#),
        (
            "create cronjob cj --image=busybox --schedule=@hourly -- echo",
            "cronjob.batch/cj created",
        ),
        ("create service clusterip svc --tcp=80:http", "service/svc created"),
        ("create ingress i --rule=a.b/c=svc:80", "ingress.networking.k8s.io/i created"),
        (
            "create poddisruptionbudget p --selector=a=b --min-available=50%",
            "poddisruptionbudget.policy/p created",
        ),
        ("get poddisruptionbudget p -o jsonpath={.spec.minAvailable}", "50%"),
        ("create priorityclass pc --value=-5", "priorityclass.scheduling.k8s.io/pc created"),
        ("create role r --verb=get --resource=pods", "role.rbac.authorization.k8s.io/r created"),
        (
            "create rolebinding rb --role=r --user=bob",
            "rolebinding.rbac.authorization.k8s.io/rb created",
        ),
        ("expose deployment d --port=80", "service/d exposed"),
        ("auth can-i get pods", "yes"),
        ("auth can-i get pods --as=bob", "yes"),
        ("auth can-i delete pods --as=bob", "no"),
        ("auth whoami -o jsonpath={.status.userInfo.username}", "seatrial-admin"),
        (
            "create configmap x --from-literal=a=b --dry-run=server",
            "configmap/x created (server dry run)",
        ),
        ("delete job j", r#"job.batch "j" deleted"#),
        ("delete deployment d", r#"deployment.apps "d" deleted"#),
    ] {
        prompt.check(line, "", want);
    }
}

const NODE: &str = "
apiVersion: v1
kind: Node
metadata: {name: n1}
";

const EVENT: &str = "
apiVersion: v1
kind: Event
metadata: {name: e}
involvedObject: {apiVersion: v1, kind: ConfigMap, name: m, namespace: default}
reason: Seen
message: here it is
type: Normal
count: 3
lastTimestamp: 2026-01-01T00:00:00Z
";

const NEWER_EVENT: &str = "
apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: f}
regarding: {apiVersion: v1, kind: ConfigMap, name: m, namespace: default}
eventTime: 2026-01-01T00:00:00.000001Z
reason: Lost
note: there it was
type: Warning
action: Look
reportingController: seatrial.dev/test
reportingInstance: i
";

#[test]
fn nodes_and_events() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::in_memory(directory.path());
    let prompt = Prompt { home: directory.path(), server: &server };
    for (line, input, want) in [
        ("create --validate=false -f -", NODE, "node/n1 created"),
        ("cordon n1", "", "node/n1 cordoned"),
        ("get node n1 -o jsonpath={.spec.unschedulable}", "", "true"),
        ("uncordon n1", "", "node/n1 uncordoned"),
        ("taint node n1 a=b:NoSchedule", "", "node/n1 tainted"),
        ("taint node n1 a:NoSchedule-", "", "node/n1 untainted"),
        ("drain n1 --timeout=5s", "", "node/n1 cordoned node/n1 drained"),
        ("events", "", "No events found in default namespace."),
        ("create --validate=false -f -", EVENT, "event/e created"),
        ("create --validate=false -f -", NEWER_EVENT, "event.events.k8s.io/f created"),
        ("get events -o name", "", "event/e event/f"),
        ("get events.events.k8s.io f -o jsonpath={.note}", "", "there it was"),
        (
            "get events -o name --field-selector reason=Lost,involvedObject.kind=ConfigMap",
            "",
            "event/f",
        ),
        (
            "get events.events.k8s.io -o name --field-selector regarding.name=m,type=Normal",
            "",
            "event.events.k8s.io/e",
        ),
        (
            "events --types=Normal --no-headers",
            "",
            "* (x3 over * Normal Seen ConfigMap/m here it is",
        ),
    ] {
        prompt.check(line, input, want);
    }
}
