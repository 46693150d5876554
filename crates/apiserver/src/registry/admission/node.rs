//! NodeRestriction: a kubelet writes its own node, the pods on it and what belongs to both, and
//! nothing that would draw work or secrets to it.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::super::metadata::{meta, text};
use super::super::{Call, Object};
use super::csr;
use crate::auth::authz::{Attributes, Decision, Target};
use crate::auth::node;
use crate::server::{Plugin, is_mirror, node_of};
use crate::status::ApiError;

/// Labels of Kubernetes' own that a kubelet may set on its node.
const KUBELET_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "kubernetes.io/os",
    "kubernetes.io/arch",
];

/// Domains of labels that are kubelets' to set.
const KUBELET_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// The domain of labels that no kubelet sets.
const RESTRICTED: &str = "node-restriction.kubernetes.io";

const LEASES: &str = "kube-node-lease";
const OWN_LEASE: &str = "can only access node lease with the same name as the requesting node";
const OWN_CSI: &str = "can only access CSINode with the same name as the requesting node";

/// What a kubelet does to an object.
#[derive(Debug, Clone, Copy)]
pub(in crate::registry) enum Attempt<'o> {
    Create(&'o Object),
    Update { live: &'o Object, object: &'o Object },
    Delete(&'o Object),
}

impl<'o> Attempt<'o> {
    fn object(self) -> &'o Object {
        match self {
            Self::Create(object) | Self::Update { object, .. } | Self::Delete(object) => object,
        }
    }
}

impl Call<'_> {
    /// The node whose kubelet asks, if one does; the refusal of one that does not say which it is.
    fn asking_node(&self, object: &Object) -> Result<Option<&str>, ApiError> {
        if !self.server.admits_with(Plugin::NodeRestriction) {
            return Ok(None);
        }
        match node::identity(self.user) {
            Some("") => {
                let why = format!("could not determine node from user \"{}\"", self.user.name);
                Err(self.forbidden(object, &why))
            }
            other => Ok(other),
        }
    }

    /// Refuses what a kubelet must not do.
    pub(in crate::registry) fn restrict_node(&self, attempt: Attempt<'_>) -> Result<(), ApiError> {
        let object = attempt.object();
        let Some(node) = self.asking_node(object)? else { return Ok(()) };
        let name = text(meta(object), "name");
        let part = self.subresource.as_deref().unwrap_or_default();
        let wrong = match (self.resource.group.as_str(), self.resource.plural.as_str()) {
            ("", "pods") => self.wrong_pod(node, part, attempt)?,
            ("", "nodes") => wrong_node(node, attempt),
            ("", "persistentvolumeclaims") => wrong_claim(node, part, attempt),
            ("coordination.k8s.io", "leases") if self.namespace.as_deref() != Some(LEASES) => {
                Some(format!("can only access leases in the \"{LEASES}\" system namespace"))
            }
            ("coordination.k8s.io", "leases") => (name != node).then(|| OWN_LEASE.to_owned()),
            ("storage.k8s.io", "csinodes") => (name != node).then(|| OWN_CSI.to_owned()),
            ("resource.k8s.io", "resourceslices") => wrong_slice(node, attempt),
            ("certificates.k8s.io", "certificatesigningrequests") => wrong_request(node, attempt),
            _ => None,
        };
        wrong.map_or(Ok(()), |why| Err(self.forbidden(object, &why)))
    }

    fn wrong_pod(
        &self,
        node: &str,
        part: &str,
        attempt: Attempt<'_>,
    ) -> Result<Option<String>, ApiError> {
        Ok(match (part, attempt) {
            ("", Attempt::Create(pod)) => match wrong_mirror(node, pod) {
                Some(why) => Some(why),
                None => self.wrong_owner(node, pod)?,
            },
            ("", Attempt::Delete(pod)) => (node_of(pod) != node).then(|| {
                format!("node \"{node}\" can only delete pods with spec.nodeName set to itself")
            }),
            ("", Attempt::Update { .. }) => Some(format!(
                "unexpected operation \"UPDATE\", node \"{node}\" can only create and delete mirror pods"
            )),
            ("status", Attempt::Update { live, object }) => wrong_status(node, live, object),
            // An eviction is asked about its pod.
            ("eviction", Attempt::Delete(pod)) => (node_of(pod) != node).then(|| {
                format!("node {node} can only evict pods with spec.nodeName set to itself")
            }),
            (part, _) => Some(format!(
                "unexpected pod subresource \"{part}\", only 'status' and 'eviction' are allowed"
            )),
        })
    }

    /// Whether the owner of a mirror pod is the very node.
    fn wrong_owner(&self, node: &str, pod: &Object) -> Result<Option<String>, ApiError> {
        let owner = meta(pod).get("ownerReferences").and_then(|owners| owners.get(0));
        let claimed = owner.and_then(|owner| owner["uid"].as_str()).unwrap_or_default();
        let Some(found) = self.server.read("", "nodes", None, node)? else {
            let nodes = crate::resource::GroupResource::new("", "nodes");
            return Err(ApiError::not_found(&nodes, node));
        };
        let uid = text(meta(&found), "uid");
        Ok((claimed != uid)
            .then(|| format!("node {node} UID mismatch: expected {claimed} got {uid}")))
    }

    /// Refuses a token that a kubelet asks for without need.
    pub(in crate::registry) fn restrict_token(&self, request: &Object) -> Result<(), ApiError> {
        let Some(node) = self.asking_node(request)? else { return Ok(()) };
        let empty = Value::Null;
        let spec = request.get("spec").unwrap_or(&empty);
        let reference = &spec["boundObjectRef"];
        let of = |field: &str| reference[field].as_str().unwrap_or_default();
        let refuse = |why: &str| {
            let (resource, name) = (self.resource.group_resource(), self.name());
            let message = format!("{resource} \"{name}\" is forbidden: {why}");
            Err(ApiError::forbidden(&resource, name, message))
        };
        if of("apiVersion") != "v1" || of("kind") != "Pod" || of("name").is_empty() {
            return refuse("node requested token not bound to a pod");
        }
        if of("uid").is_empty() {
            return refuse("node requested token with a pod binding without a uid");
        }
        let pod = self.server.read("", "pods", self.namespace.as_deref(), of("name"))?;
        let Some(pod) = pod else {
            let pods = crate::resource::GroupResource::new("", "pods");
            return Err(ApiError::not_found(&pods, of("name")));
        };
        if of("uid") != text(meta(&pod), "uid") {
            return refuse(&format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The object might have been deleted and then recreated",
                of("uid")
            ));
        }
        if node_of(&pod) != node {
            return refuse("node requested token bound to a pod scheduled on a different node");
        }
        let audiences = spec["audiences"].as_array().map(Vec::as_slice).unwrap_or_default();
        let audience = match audiences {
            [] => "",
            [one] => one.as_str().unwrap_or_default(),
            _ => return refuse("node may only request 0 or 1 audiences"),
        };
        if mounts_audience(&pod, audience) || self.may_request(audience) {
            return Ok(());
        }
        refuse(&format!(
            "audience \"{audience}\" not found in pod spec volume, {} is not authorized to request tokens for this audience",
            self.user.name
        ))
    }

    fn may_request(&self, audience: &str) -> bool {
        let target = Target::Resource {
            group: "",
            resource: audience,
            subresource: "",
            namespace: self.namespace.as_deref().unwrap_or_default(),
            name: self.name(),
        };
        let attributes = Attributes { verb: "request-serviceaccounts-token-audience", target };
        matches!(self.server.decide(self.user, &attributes, None), Decision::Allow { .. })
    }
}

/// Whether a pod mounts a token for that audience.
fn mounts_audience(pod: &Object, audience: &str) -> bool {
    let volumes = pod.get("spec").and_then(|spec| spec["volumes"].as_array());
    let volumes = volumes.into_iter().flatten();
    let mut sources = volumes.filter_map(|v| v["projected"]["sources"].as_array()).flatten();
    sources.any(|source| {
        let token = &source["serviceAccountToken"];
        token.is_object() && token["audience"].as_str().unwrap_or_default() == audience
    })
}

/// A kubelet makes pods only to show what it runs of its own accord.
fn wrong_mirror(node: &str, pod: &Object) -> Option<String> {
    if !is_mirror(pod) {
        return Some(format!(
            "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"{node}\" can only create mirror pods"
        ));
    }
    if node_of(pod) != node {
        return Some(format!(
            "node \"{node}\" can only create pods with spec.nodeName set to itself"
        ));
    }
    let owners = meta(pod).get("ownerReferences").and_then(Value::as_array);
    let itself =
        format!("node \"{node}\" can only create pods with an owner reference set to itself");
    let owner = match owners.map(Vec::as_slice).unwrap_or_default() {
        [] => return Some(itself),
        [owner] => owner,
        _ => {
            return Some(format!(
                "node \"{node}\" can only create pods with a single owner reference set to itself"
            ));
        }
    };
    if owner["apiVersion"] != "v1" || owner["kind"] != "Node" || owner["name"] != node {
        return Some(itself);
    }
    if owner["controller"] != true {
        return Some(format!(
            "node \"{node}\" can only create pods with a controller owner reference set to itself"
        ));
    }
    if owner["blockOwnerDeletion"] == true {
        return Some(format!(
            "node \"{node}\" must not set blockOwnerDeletion on an owner reference"
        ));
    }
    let what = referenced(pod.get("spec").unwrap_or(&Value::Null))?;
    Some(format!("node \"{node}\" can not create pods that reference {what}"))
}

/// What a pod refers to in the API, if it does.
fn referenced(value: &Value) -> Option<&'static str> {
    const KINDS: [(&str, &str); 11] = [
        ("secret", "secrets"),
        ("secretRef", "secrets"),
        ("secretKeyRef", "secrets"),
        ("imagePullSecrets", "secrets"),
        ("nodePublishSecretRef", "secrets"),
        ("configMap", "configmaps"),
        ("configMapRef", "configmaps"),
        ("configMapKeyRef", "configmaps"),
        ("persistentVolumeClaim", "persistentvolumeclaims"),
        ("serviceAccountToken", "serviceaccounts"),
        ("resourceClaims", "resourceclaims"),
    ];
    match value {
        Value::Object(fields) => fields.iter().find_map(|(field, value)| {
            let empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            let known = KINDS.iter().find(|(name, _)| name == field && !empty);
            known.map(|(_, what)| *what).or_else(|| referenced(value))
        }),
        Value::Array(items) => items.iter().find_map(referenced),
        _ => None,
    }
}

fn wrong_status(node: &str, live: &Object, pod: &Object) -> Option<String> {
    if node_of(live) != node {
        return Some(format!(
            "node \"{node}\" can only update pod status for pods with spec.nodeName set to itself"
        ));
    }
    if labels(live) != labels(pod) {
        return Some(format!("node \"{node}\" cannot update labels through pod status"));
    }
    let of = |pod: &Object, field: &str| pod.get("status").and_then(|s| s.get(field)).cloned();
    if of(live, "resourceClaimStatuses") != of(pod, "resourceClaimStatuses") {
        return Some(format!("node \"{node}\" cannot update resource claim statues"));
    }
    (of(live, "extendedResourceClaimStatus") != of(pod, "extendedResourceClaimStatus"))
        .then(|| format!("node \"{node}\" cannot update extended resource claim status"))
}

fn labels(object: &Object) -> Map<String, Value> {
    meta(object).get("labels").and_then(Value::as_object).cloned().unwrap_or_default()
}

fn wrong_node(node: &str, attempt: Attempt<'_>) -> Option<String> {
    let name = text(meta(attempt.object()), "name");
    if name != node {
        return Some(format!("node \"{node}\" is not allowed to modify node \"{name}\""));
    }
    let of = |object: &Object, field: &str| {
        object.get("spec").and_then(|spec| spec.get(field)).filter(|v| !v.is_null()).cloned()
    };
    match attempt {
        Attempt::Create(object) => {
            if of(object, "configSource").is_some() {
                return Some(format!(
                    "node \"{node}\" is not allowed to create pods with a non-nil configSource"
                ));
            }
            let labels = forbidden_labels(&Map::new(), &labels(object))?;
            Some(format!("node \"{node}\" is not allowed to set the following labels: {labels}"))
        }
        Attempt::Update { live, object } => {
            let source = of(object, "configSource");
            if source.is_some() && source != of(live, "configSource") {
                return Some(format!(
                    "node \"{node}\" is not allowed to update configSource to a new non-nil configSource"
                ));
            }
            let listed =
                |value: Option<Value>| value.filter(|v| v.as_array().is_none_or(|l| !l.is_empty()));
            if listed(of(live, "taints")) != listed(of(object, "taints")) {
                return Some(format!("node \"{node}\" is not allowed to modify taints"));
            }
            let owners = |o: &Object| listed(meta(o).get("ownerReferences").cloned());
            if owners(live) != owners(object) {
                return Some(format!("node \"{node}\" is not allowed to modify ownerReferences"));
            }
            let labels = forbidden_labels(&labels(live), &labels(object))?;
            Some(format!("is not allowed to modify labels: {labels}"))
        }
        Attempt::Delete(_) => None,
    }
}

/// The labels that differ and are not a kubelet's to set.
fn forbidden_labels(before: &Map<String, Value>, after: &Map<String, Value>) -> Option<String> {
    let all: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = all.into_iter().filter(|key| before.get(*key) != after.get(*key));
    let forbidden: Vec<&str> =
        changed.map(String::as_str).filter(|key| !is_kubelets(key)).collect();
    (!forbidden.is_empty()).then(|| forbidden.join(", "))
}

fn is_kubelets(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let under = |parent: &str| {
        domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'))
    };
    if under(RESTRICTED) {
        return false;
    }
    let ours = under("kubernetes.io") || under("k8s.io");
    !ours || KUBELET_LABELS.contains(&label) || KUBELET_DOMAINS.iter().any(|domain| under(domain))
}

/// Of a claim a kubelet tells only how large it has become.
fn wrong_claim(node: &str, part: &str, attempt: Attempt<'_>) -> Option<String> {
    const TOLD: [&str; 5] = [
        "capacity",
        "conditions",
        "allocatedResources",
        "allocatedResourceStatuses",
        "modifyVolumeStatus",
    ];
    let Attempt::Update { live, object } = attempt else {
        return Some("may only update PVC status".to_owned());
    };
    if part != "status" {
        return Some("may only update PVC status".to_owned());
    }
    let rest = |claim: &Object| {
        let mut rest = Value::Object(claim.clone());
        for (at, fields) in [("/status", &TOLD[..]), ("/metadata", &["managedFields"][..])] {
            if let Some(Value::Object(map)) = rest.pointer_mut(at) {
                fields.iter().for_each(|field| drop(map.remove(*field)));
            }
        }
        rest
    };
    (rest(live) != rest(object)).then(|| {
        format!("node \"{node}\" is not allowed to update fields other than status.quantity and status.conditions")
    })
}

fn wrong_slice(node: &str, attempt: Attempt<'_>) -> Option<String> {
    let verb = match attempt {
        Attempt::Create(_) => "create",
        Attempt::Delete(_) => "delete",
        Attempt::Update { .. } => return None,
    };
    (node_of(attempt.object()) != node).then(|| {
        format!("can only {verb} ResourceSlice with the same NodeName as the requesting node")
    })
}

/// A kubelet asks only for certificates of its own name.
fn wrong_request(node: &str, attempt: Attempt<'_>) -> Option<String> {
    const SIGNERS: [&str; 2] =
        ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];
    let Attempt::Create(request) = attempt else { return None };
    let spec = request.get("spec").and_then(Value::as_object)?;
    if !SIGNERS.contains(&text(spec, "signerName")) {
        return None;
    }
    let pem = STANDARD.decode(text(spec, "request")).unwrap_or_default();
    match csr::subject(&pem) {
        None => Some("unable to parse csr: PEM block type must be CERTIFICATE REQUEST".to_owned()),
        Some(subject) if subject.common_name == format!("system:node:{node}") => None,
        Some(_) => Some(format!("can only create a node CSR with CN=system:node:{node}")),
    }
}

#[cfg(test)]
#[path = "node_tests.rs"]
mod tests;
