//! What a kube-apiserver passes on to a kubelet or to a pod: logs, exec, attach, port-forward and
//! proxy. This server opens no connections to nodes; it checks what upstream checks before it would
//! dial, and then says so, under upstream's codes.

use http::StatusCode;
use http::header::UPGRADE;
use serde_json::Value;

use super::admission::Operation;
use super::metadata::text;
use super::{Call, Object};
use crate::status::ApiError;
use crate::wire::Answer;

/// A kubelet's port, if its node does not tell another.
const PORT: i64 = 10250;

/// Addresses of a node in the order in which they are tried.
const ADDRESSES: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];

const WHY: &str = "this server opens no connections to nodes";

impl Call<'_> {
    /// Whether the request is one that is passed on.
    pub(super) fn is_passed_on(&self) -> bool {
        const PARTS: [&str; 5] = ["log", "exec", "attach", "portforward", "proxy"];
        self.resource.group.is_empty()
            && self.subresource.as_deref().is_some_and(|part| PARTS.contains(&part))
    }

    /// Asks admission before a connection is made; a log is read, not connected to.
    pub(super) async fn admit_connect(&mut self) -> Result<(), ApiError> {
        if self.subresource.as_deref() == Some("log") {
            return Ok(());
        }
        let (api_version, kind) = self.expected_kind();
        let mut options = Object::new();
        options.insert("apiVersion".to_owned(), api_version.into());
        options.insert("kind".to_owned(), kind.into());
        for field in ["container", "path"] {
            if let Some(value) = self.query.get(field) {
                options.insert(field.to_owned(), value.into());
            }
        }
        for field in ["stdin", "stdout", "stderr", "tty"] {
            if self.query.flag(field) {
                options.insert(field.to_owned(), true.into());
            }
        }
        let command: Vec<&str> = self.query.all("command").collect();
        if !command.is_empty() {
            options.insert("command".to_owned(), command.into());
        }
        let options = self.change(Operation::Connect, None, options, false).await?;
        self.admit(Operation::Connect, None, Some(&options), false).await
    }

    /// Answers it as far as that goes.
    pub(super) fn pass_on(&self) -> Result<Answer, ApiError> {
        let part = self.subresource.as_deref().unwrap_or_default();
        match (self.resource.plural.as_str(), part) {
            ("nodes", _) => {
                let node = self.read_target(self.name())?;
                Err(unreachable_service(&address(&node)?))
            }
            ("services", _) => {
                let name = target_name(self.name());
                self.read_target(name)?;
                let why = format!("no endpoints available for service \"{}\"", self.name());
                Err(unavailable(&why))
            }
            (_, "proxy") => {
                let pod = self.read_target(target_name(self.name()))?;
                let status = pod.get("status").and_then(Value::as_object);
                match status.map(|status| text(status, "podIP")).filter(|ip| !ip.is_empty()) {
                    Some(ip) => Err(unreachable_service(ip)),
                    None => Err(ApiError::bad_request("address not allowed")),
                }
            }
            (_, part) => self.stream(part),
        }
    }

    /// A stream of one of a pod's containers, or of its ports.
    fn stream(&self, part: &str) -> Result<Answer, ApiError> {
        let name = self.name();
        let pod = self.read_target(name)?;
        let container = match part {
            "portforward" => String::new(),
            _ => container(self.query.get("container").unwrap_or_default(), name, &pod)?,
        };
        let spec = pod.get("spec").and_then(Value::as_object);
        let node = spec.map(|spec| text(spec, "nodeName")).unwrap_or_default();
        if node.is_empty() {
            if part == "log" {
                return Ok(Answer::Nothing);
            }
            let why = format!("pod {name} does not have a host assigned");
            return Err(ApiError::bad_request(why));
        }
        let found = self.server.read("", "nodes", None, node)?;
        // Upstream looks for the node and says that it is a pod which is missing.
        let found = found.ok_or_else(|| ApiError::not_found(&self.group_resource(), node))?;
        let address = address(&found)?;
        if part == "log" {
            let namespace = self.namespace.as_deref().unwrap_or_default();
            let url = format!("https://{address}/containerLogs/{namespace}/{name}/{container}");
            let why = format!("Get \"{url}\": dial tcp {address}: {WHY}");
            return Err(ApiError::unexplained(why));
        }
        if !self.headers.contains_key(UPGRADE) {
            return Err(ApiError::bad_request("Upgrade request required"));
        }
        let why = format!("error dialing backend: dial tcp {address}: {WHY}");
        Err(ApiError::unexplained(why))
    }

    fn read_target(&self, name: &str) -> Result<Object, ApiError> {
        let missing = || ApiError::not_found(&self.group_resource(), name);
        let stored = self.load(name)?.ok_or_else(missing)?;
        self.present(&stored)
    }
}

/// The name in `name`, `name:port` or `scheme:name:port`.
fn target_name(id: &str) -> &str {
    match id.split(':').collect::<Vec<_>>().as_slice() {
        [name] | [name, _] | [_, name, _] => name,
        _ => id,
    }
}

/// The container that is meant: the named one, or the only one.
fn container(wanted: &str, name: &str, pod: &Object) -> Result<String, ApiError> {
    let spec = pod.get("spec");
    let names = |fields: &[&str]| -> Vec<String> {
        let lists = fields.iter().filter_map(|field| spec?.get(*field)?.as_array());
        lists.flatten().filter_map(|c| c["name"].as_str()).map(str::to_owned).collect()
    };
    let all = names(&["initContainers", "containers", "ephemeralContainers"]);
    if !wanted.is_empty() {
        let why = format!("container {wanted} is not valid for pod {name}");
        let known = all.into_iter().find(|known| known == wanted);
        return known.ok_or_else(|| ApiError::bad_request(why));
    }
    match names(&["containers"]).as_slice() {
        [only] => Ok(only.clone()),
        _ => Err(ApiError::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            all.join(" ")
        ))),
    }
}

/// Where a node's kubelet listens.
fn address(node: &Object) -> Result<String, ApiError> {
    let status = node.get("status").unwrap_or(&Value::Null);
    let known: Vec<&Value> = status["addresses"].as_array().into_iter().flatten().collect();
    let port = status["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_i64();
    let port = port.filter(|port| *port != 0).unwrap_or(PORT);
    let of = |kind: &&str| known.iter().find(|a| a["type"] == **kind)?["address"].as_str();
    ADDRESSES.iter().find_map(of).map(|host| format!("{host}:{port}")).ok_or_else(|| {
        let shown: Vec<String> = known
            .iter()
            .map(|a| {
                let of = |field: &str| a[field].as_str().unwrap_or_default();
                format!("{{{} {}}}", of("type"), of("address"))
            })
            .collect();
        let shown = shown.join(" ");
        ApiError::unexplained(format!("no preferred addresses found; known addresses: [{shown}]"))
    })
}

fn unavailable(why: &str) -> ApiError {
    ApiError::generic(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", why)
}

fn unreachable_service(address: &str) -> ApiError {
    unavailable(&format!("error trying to reach service: dial tcp {address}: {WHY}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_container_is_the_named_or_the_only_one() {
        let pod = |names: &[&str]| {
            let containers: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"spec": {"containers": containers, "initContainers": [{"name": "i"}]}})
        };
        let check = |wanted: &str, names: &[&str], want: Result<&str, &str>| {
            let got = container(wanted, "p", pod(names).as_object().unwrap());
            let got = got.map_err(|error| error.message);
            assert_eq!(got, want.map(str::to_owned).map_err(str::to_owned));
        };
        check("", &["a"], Ok("a"));
        check("i", &["a"], Ok("i"));
        check("x", &["a"], Err("container x is not valid for pod p"));
        check(
            "",
            &["a", "b"],
            Err("a container name must be specified for pod p, choose one of: [i a b]"),
        );
    }

    #[test]
    fn a_kubelet_is_where_its_node_says() {
        let node = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "h"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}},
        }});
        assert_eq!(address(node.as_object().unwrap()).unwrap(), "h:1");
        let none = address(&Object::new()).unwrap_err();
        assert_eq!(none.message, "no preferred addresses found; known addresses: []");
        assert_eq!(target_name("https:web:80"), "web");
    }
}
