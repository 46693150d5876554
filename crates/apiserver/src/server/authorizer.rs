//! Whether a user may: the node authorizer first, then RBAC, with the relations of nodes looked up
//! in the store.
//!
//! No graph is kept. A node asks for few things, and what it asks for names a namespace; the pods of
//! that namespace carry their node in the index, so that only the node's own are parsed.

use serde_json::Value;
use store::KeyRange;

use super::ApiServer;
use crate::auth::User;
use crate::auth::authz::{self, Attributes, Decision};
use crate::auth::node::{self, Related, Relations, Verdict};
use crate::auth::rbac::PolicyRule;
use crate::cel::Authority;
use crate::registry::{Object, meta, text};
use crate::selector::FieldSelector;
use crate::stored::Stored;

/// What a kubelet shows and did not get from here.
const MIRROR: &str = "kubernetes.io/config.mirror";

impl ApiServer {
    /// Judges one attempt; `selector` narrows one on a whole collection.
    pub(crate) fn decide(
        &self,
        user: &User,
        attributes: &Attributes<'_>,
        selector: Option<&FieldSelector>,
    ) -> Decision {
        let by_rules = |user| authz::authorize(user, attributes, &self.rbac());
        let Some(name) = node::identity(user) else { return by_rules(user) };
        let own = if name.is_empty() {
            Verdict::No(format!("unknown node for user \"{}\"", user.name))
        } else {
            let selected = selector.and_then(|selector| selector.exact("spec.nodeName"));
            node::judge(self, name, attributes, selected)
        };
        let reason = match own {
            Verdict::Allow => return Decision::Allow { reason: String::new() },
            Verdict::ByRole if self.nodes_may(attributes) => {
                return Decision::Allow { reason: String::new() };
            }
            Verdict::ByRole => String::new(),
            Verdict::No(reason) => reason,
        };
        match by_rules(user) {
            Decision::NoOpinion { reason: rules } if !reason.is_empty() => {
                let reasons = [reason, rules];
                let told: Vec<String> = reasons.into_iter().filter(|r| !r.is_empty()).collect();
                Decision::NoOpinion { reason: told.join("\n") }
            }
            decision => decision,
        }
    }

    fn nodes_may(&self, attributes: &Attributes<'_>) -> bool {
        let rbac = self.rbac();
        let rules: &[PolicyRule] = rbac.role("ClusterRole", node::ROLE, "").unwrap_or_default();
        rules.iter().any(|rule| rule.allows(attributes))
    }

    /// The pods on a node, of a namespace or of all.
    fn pods_on(&self, node: &str, namespace: Option<&str>) -> Vec<Value> {
        let Some(pods) = self.table().get("", "pods").cloned() else { return Vec::new() };
        let range = KeyRange::prefix(crate::registry::prefix(&pods, namespace));
        let Ok(page) = self.store().list(&range, None, None) else { return Vec::new() };
        let Some(field) = pods.storage_version().selectable.get("spec.nodeName") else {
            return Vec::new();
        };
        // The index knows fields by their paths.
        let field = field.path.to_string();
        let on_node = |stored: &Stored| {
            let index = stored.index().ok();
            index.is_some_and(|i| i.fields.get(&field).is_some_and(|name| name == node))
        };
        let stored = page.entries.iter().filter_map(|entry| Stored::from_entry(entry).ok());
        stored.filter(on_node).filter_map(|stored| stored.to_value().ok()).collect()
    }

    /// Whether a pod on the node needs something of the namespace by that name.
    fn pod_needs(&self, node: &str, namespace: &str, what: Related, name: &str) -> bool {
        self.pods_on(node, Some(namespace)).iter().any(|pod| {
            // What a kubelet runs of its own accord opens nothing to it.
            let mirrored = pod["metadata"]["annotations"].get(MIRROR).is_some();
            !mirrored && needs(pod, what, name)
        })
    }

    fn object(&self, group: &str, plural: &str, name: &str) -> Option<Value> {
        self.read(group, plural, None, name).ok().flatten().map(Value::Object)
    }

    /// Whether a volume holds the claim of a pod on the node.
    fn volume_needed(&self, node: &str, volume: &Value) -> bool {
        let claim = &volume["spec"]["claimRef"];
        let (Some(namespace), Some(name)) = (claim["namespace"].as_str(), claim["name"].as_str())
        else {
            return false;
        };
        self.pod_needs(node, namespace, Related::Claim, name)
    }

    /// Whether a volume that a pod on the node uses is opened with the secret.
    fn volume_secret(&self, node: &str, namespace: &str, name: &str) -> bool {
        let Some(volumes) = self.table().get("", "persistentvolumes").cloned() else {
            return false;
        };
        let volumes = self.read_all(&volumes).unwrap_or_default();
        volumes.into_iter().map(Value::Object).any(|volume| {
            let own = volume["spec"]["claimRef"]["namespace"].as_str().unwrap_or_default();
            opens_with(&volume["spec"], own, namespace, name) && self.volume_needed(node, &volume)
        })
    }
}

impl Authority for ApiServer {
    fn judge(
        &self,
        user: &User,
        attributes: &Attributes<'_>,
        selector: Option<&FieldSelector>,
    ) -> Decision {
        self.decide(user, attributes, selector)
    }
}

impl Relations for ApiServer {
    fn relates(&self, node: &str, what: Related, namespace: &str, name: &str) -> bool {
        let about_node =
            |object: Option<Value>| object.is_some_and(|object| object["spec"]["nodeName"] == node);
        match what {
            Related::Pod => {
                let pod = self.read("", "pods", Some(namespace), name).ok().flatten();
                about_node(pod.map(Value::Object))
            }
            Related::Secret => {
                self.pod_needs(node, namespace, what, name)
                    || self.volume_secret(node, namespace, name)
            }
            Related::ConfigMap
            | Related::ServiceAccount
            | Related::Claim
            | Related::ResourceClaim => self.pod_needs(node, namespace, what, name),
            Related::Volume => self
                .object("", "persistentvolumes", name)
                .is_some_and(|volume| self.volume_needed(node, &volume)),
            Related::Attachment => {
                about_node(self.object("storage.k8s.io", "volumeattachments", name))
            }
            Related::Slice => about_node(self.object("resource.k8s.io", "resourceslices", name)),
        }
    }
}

/// Whether a pod needs something of that name.
fn needs(pod: &Value, what: Related, name: &str) -> bool {
    let spec = &pod["spec"];
    match what {
        Related::Secret => refers(spec, &SECRETS, name),
        Related::ConfigMap => refers(spec, &CONFIG_MAPS, name),
        Related::ServiceAccount => spec["serviceAccountName"] == name,
        Related::Claim => {
            let own = pod["metadata"]["name"].as_str().unwrap_or_default();
            spec["volumes"].as_array().into_iter().flatten().any(|volume| {
                volume["persistentVolumeClaim"]["claimName"] == name
                    || volume["ephemeral"].is_object()
                        && volume["name"].as_str().is_some_and(|v| format!("{own}-{v}") == name)
            })
        }
        Related::ResourceClaim => {
            let named = |list: &Value| {
                list.as_array().into_iter().flatten().any(|c| c["resourceClaimName"] == name)
            };
            named(&spec["resourceClaims"])
                || named(&pod["status"]["resourceClaimStatuses"])
                || pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"] == name
        }
        Related::Pod | Related::Volume | Related::Attachment | Related::Slice => false,
    }
}

/// Fields of a pod that refer to secrets, wherever they stand.
const SECRETS: [&str; 6] = [
    "secret",
    "secretRef",
    "secretKeyRef",
    "imagePullSecrets",
    "nodePublishSecretRef",
    "azureFile",
];

/// Fields of a pod that refer to config maps.
const CONFIG_MAPS: [&str; 3] = ["configMap", "configMapRef", "configMapKeyRef"];

/// Whether any such field, at any depth, names that object. Specs are bounded in depth when read.
fn refers(value: &Value, fields: &[&str], name: &str) -> bool {
    let named = |value: &Value| value["name"] == name || value["secretName"] == name;
    match value {
        Value::Object(map) => map.iter().any(|(field, value)| {
            let here = fields.contains(&field.as_str())
                && (named(value) || value.as_array().into_iter().flatten().any(named));
            here || refers(value, fields, name)
        }),
        Value::Array(items) => items.iter().any(|item| refers(item, fields, name)),
        _ => false,
    }
}

/// Whether a volume's specification names a secret, in a namespace that may be its claim's.
fn opens_with(value: &Value, own: &str, namespace: &str, name: &str) -> bool {
    let Value::Object(map) = value else { return false };
    map.iter().any(|(field, value)| {
        let place = |at: &str| value[at].as_str().filter(|p| !p.is_empty()).unwrap_or(own);
        let here = match field.as_str() {
            "azureFile" => value["secretName"] == name && place("secretNamespace") == namespace,
            field if field.to_ascii_lowercase().ends_with("secretref") => {
                value["name"] == name && place("namespace") == namespace
            }
            _ => false,
        };
        here || opens_with(value, own, namespace, name)
    })
}

/// The node that a pod is on.
pub(crate) fn node_of(pod: &Object) -> &str {
    let spec = pod.get("spec").and_then(Value::as_object);
    spec.map(|spec| text(spec, "nodeName")).unwrap_or_default()
}

/// Whether a pod is one that a kubelet runs of its own accord.
pub(crate) fn is_mirror(pod: &Object) -> bool {
    let annotations = meta(pod).get("annotations").and_then(Value::as_object);
    annotations.is_some_and(|annotations| annotations.contains_key(MIRROR))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_needs_what_it_names_anywhere() {
        let pod = json!({
            "metadata": {"name": "p"},
            "spec": {
                "serviceAccountName": "sa",
                "imagePullSecrets": [{"name": "pull"}],
                "containers": [{
                    "envFrom": [{"secretRef": {"name": "env"}}, {"configMapRef": {"name": "env-map"}}],
                    "env": [{"valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}}],
                }],
                "volumes": [
                    {"name": "v", "secret": {"secretName": "volume"}},
                    {"name": "w", "projected": {"sources": [{"secret": {"name": "projected"}}]}},
                    {"name": "x", "persistentVolumeClaim": {"claimName": "claim"}},
                    {"name": "y", "ephemeral": {"volumeClaimTemplate": {}}},
                ],
            },
        });
        let check = |what, name: &str, want| assert_eq!(needs(&pod, what, name), want, "{name}");
        for name in ["pull", "env", "key", "volume", "projected"] {
            check(Related::Secret, name, true);
            check(Related::ConfigMap, name, false);
        }
        check(Related::ConfigMap, "env-map", true);
        check(Related::ServiceAccount, "sa", true);
        check(Related::Claim, "claim", true);
        check(Related::Claim, "p-y", true);
        check(Related::Claim, "p-v", false);
        check(Related::Secret, "other", false);
    }

    #[test]
    fn a_volume_opens_with_secrets_of_its_claims_namespace_or_another() {
        let spec = json!({"csi": {
            "nodeStageSecretRef": {"name": "a", "namespace": "far"},
            "nodePublishSecretRef": {"name": "b"},
        }});
        let check = |namespace: &str, name: &str, want| {
            assert_eq!(opens_with(&spec, "near", namespace, name), want, "{namespace}/{name}");
        };
        check("far", "a", true);
        check("near", "a", false);
        check("near", "b", true);
    }
}
