//! ServiceAccount: a pod runs as an account of its namespace, and its containers find a token of it.
//!
//! Mirror pods, which a kubelet shows and did not get from here, are left as they are and may not
//! refer to accounts or secrets. The annotation `kubernetes.io/enforce-mountable-secrets`, deprecated
//! upstream, is not looked at.

use serde_json::{Value, json};

use super::super::metadata::text;
use super::super::token_request::MOUNTED_SECONDS;
use super::super::{Call, Object};
use super::{list_mut, spec_mut};
use crate::server::{Plugin, is_mirror};
use crate::status::ApiError;

const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME: &str = "kube-api-access-";

impl Call<'_> {
    /// Gives a pod its account, the account's token and what pulls its images.
    pub(super) fn run_as_account(&self, pod: &mut Object) -> Result<(), ApiError> {
        if !self.server.admits_with(Plugin::ServiceAccount) {
            return Ok(());
        }
        if is_mirror(pod) {
            let wrong = wrong_with_mirror(pod.get("spec").unwrap_or(&Value::Null));
            return wrong.map_or(Ok(()), |why| Err(self.forbidden(pod, why)));
        }
        let spec = spec_mut(pod);
        if text(spec, "serviceAccountName").is_empty() {
            spec.insert("serviceAccountName".to_owned(), "default".into());
        }
        let name = text(spec, "serviceAccountName").to_owned();
        // The older field of the same meaning.
        spec.insert("serviceAccount".to_owned(), name.as_str().into());
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let Some(account) = self.server.read("", "serviceaccounts", Some(namespace), &name)? else {
            let why = format!(
                "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
            );
            return Err(self.forbidden(pod, &why));
        };
        let spec = spec_mut(pod);
        let says =
            |object: &Object| object.get("automountServiceAccountToken").and_then(Value::as_bool);
        if says(spec).or_else(|| says(&account)).unwrap_or(true) {
            let suffix = self.server.ids().name_suffix().map_err(ApiError::internal)?;
            mount_token(spec, &format!("{VOLUME}{suffix}"));
        }
        if list_mut(spec, "imagePullSecrets").is_empty() {
            let secrets = account.get("imagePullSecrets").and_then(Value::as_array);
            match secrets.filter(|secrets| !secrets.is_empty()) {
                Some(secrets) => spec.insert("imagePullSecrets".to_owned(), secrets.clone().into()),
                None => spec.remove("imagePullSecrets"),
            };
        }
        Ok(())
    }
}

fn wrong_with_mirror(spec: &Value) -> Option<&'static str> {
    if !spec["serviceAccountName"].as_str().unwrap_or_default().is_empty() {
        return Some("a mirror pod may not reference service accounts");
    }
    if names_secret(spec) {
        return Some("a mirror pod may not reference secrets");
    }
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let mut sources = volumes.filter_map(|v| v["projected"]["sources"].as_array()).flatten();
    sources
        .any(|source| source["serviceAccountToken"].is_object())
        .then_some("a mirror pod may not use ServiceAccountToken volume projections")
}

/// Whether a pod refers to a secret anywhere: every such field has one of these names.
fn names_secret(value: &Value) -> bool {
    const FIELDS: [&str; 5] =
        ["secret", "secretRef", "secretKeyRef", "imagePullSecrets", "nodePublishSecretRef"];
    match value {
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            let empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            FIELDS.contains(&name.as_str()) && !empty || names_secret(value)
        }),
        Value::Array(items) => items.iter().any(names_secret),
        _ => false,
    }
}

/// Mounts the token in every container that mounts nothing there itself.
fn mount_token(spec: &mut Object, fresh: &str) {
    let volumes = list_mut(spec, "volumes");
    let there = volumes.iter().filter_map(|v| v["name"].as_str()).find(|n| n.starts_with(VOLUME));
    let name = there.unwrap_or(fresh).to_owned();
    let has_volume = there.is_some();
    let mut mounted = false;
    for field in ["initContainers", "containers"] {
        let containers = spec.get_mut(field).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            let mounts = list_mut(container, "volumeMounts");
            if !mounts.iter().any(|mount| mount["mountPath"] == MOUNT_PATH) {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH}));
                mounted = true;
            }
        }
    }
    let volumes = list_mut(spec, "volumes");
    if mounted && !has_volume {
        volumes.push(json!({"name": name, "projected": token_volume()}));
    }
    if volumes.is_empty() {
        spec.remove("volumes");
    }
}

/// The token, the authority that vouches for the API server, and the namespace, as files.
fn token_volume() -> Value {
    let namespace = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    json!({
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": MOUNTED_SECONDS}},
            {"configMap": {
                "name": "kube-root-ca.crt",
                "items": [{"key": "ca.crt", "path": "ca.crt"}],
            }},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_mounted_where_nothing_else_is() {
        let mut spec = json!({
            "containers": [{"name": "a"}, {"name": "b", "volumeMounts": [{"mountPath": MOUNT_PATH}]}],
            "initContainers": [{"name": "i"}],
        });
        mount_token(spec.as_object_mut().unwrap(), "kube-api-access-x");
        assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], "kube-api-access-x");
        assert_eq!(spec["containers"][1]["volumeMounts"].as_array().unwrap().len(), 1);
        assert_eq!(spec["initContainers"][0]["volumeMounts"].as_array().unwrap().len(), 1);
        assert_eq!(spec["volumes"][0]["projected"]["sources"].as_array().unwrap().len(), 3);
        let before = spec.clone();
        mount_token(spec.as_object_mut().unwrap(), "kube-api-access-y");
        assert_eq!(spec, before, "what is mounted already stays");
    }

    #[test]
    fn mirror_pods_refer_to_nothing_secret() {
        let check = |spec: Value, want: Option<&str>| assert_eq!(wrong_with_mirror(&spec), want);
        check(json!({"containers": [{"name": "a"}], "volumes": [{"emptyDir": {}}]}), None);
        check(
            json!({"serviceAccountName": "x"}),
            Some("a mirror pod may not reference service accounts"),
        );
        let secret = Some("a mirror pod may not reference secrets");
        check(json!({"volumes": [{"secret": {"secretName": "x"}}]}), secret);
        check(json!({"containers": [{"envFrom": [{"secretRef": {"name": "x"}}]}]}), secret);
        check(
            json!({"volumes": [{"projected": {"sources": [{"serviceAccountToken": {}}]}}]}),
            Some("a mirror pod may not use ServiceAccountToken volume projections"),
        );
    }
}
