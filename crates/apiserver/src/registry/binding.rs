//! Binding: a pod is given to a node, once. Nothing else of the pod is looked at, so that a
//! scheduler can bind pods that no longer pass today's rules.

use http::StatusCode;
use serde_json::{Value, json};

use super::admission::Operation;
use super::metadata::{is_deleting, meta, meta_mut, text};
use super::{Call, Object};
use crate::request::WriteOptions;
use crate::resource::GroupResource;
use crate::schema::field::{ErrorKind, FieldError, FieldPath};
use crate::status::ApiError;
use crate::wire::Answer;

impl Call<'_> {
    /// A create at a pod's `binding`, or of a Binding by itself, which names the pod.
    pub(super) async fn bind(&mut self) -> Result<Answer, ApiError> {
        let options = WriteOptions::parse(&self.query, "CreateOptions")?;
        let binding = self.decode(&options)?;
        self.check_namespace(&binding)?;
        let sent = text(meta(&binding), "name").to_owned();
        self.check_namespace_exists(&sent)?;
        if self.name.as_deref().is_some_and(|name| name != sent) {
            return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
        }
        let binding = self.change(Operation::Create, None, binding, options.dry_run).await?;
        self.admit(Operation::Create, None, Some(&binding), options.dry_run).await?;
        check_target(&binding)?;
        let pods = self.server.table().get("", "pods").cloned();
        let pods = pods.ok_or_else(ApiError::no_such_resource)?;
        let namespace = self.namespace.clone();
        let call = self.server.own_call(self.user, &pods, namespace.as_deref(), Some(&sent), None);
        call.assign(&binding, options.dry_run).await?;
        Ok(created())
    }

    async fn assign(&self, binding: &Object, dry_run: bool) -> Result<(), ApiError> {
        let target = binding.get("target").and_then(Value::as_object);
        let of = |field| target.map(|target| text(target, field)).unwrap_or_default();
        let labels = match of("kind") {
            "Node" => self.topology(of("name"))?,
            _ => Object::new(),
        };
        loop {
            let stored = self.load(self.name())?.ok_or_else(|| self.not_found())?;
            let mut pod = self.present(&stored)?;
            self.check_identity(binding, &pod)?;
            self.check_unbound(&pod)?;
            pod["spec"]["nodeName"] = of("name").into();
            if let Some(Value::Object(status)) = pod.get_mut("status") {
                status.remove("nominatedNodeName");
            }
            for (field, more) in [("annotations", Object::new()), ("labels", labels.clone())] {
                let sent = meta(binding).get(field).and_then(Value::as_object).cloned();
                let mut all = sent.unwrap_or_default();
                all.extend(more);
                if !all.is_empty() {
                    let own = meta_mut(&mut pod).entry(field).or_insert_with(|| json!({}));
                    if let Value::Object(own) = own {
                        own.extend(all);
                    }
                }
            }
            set_condition(
                &mut pod,
                json!({"type": "PodScheduled", "status": "True"}),
                &self.server.now(),
            );
            if dry_run || self.put(self.name(), &pod, Some(stored.revision())).await?.is_some() {
                return Ok(());
            }
        }
    }

    /// Who names a UID or a version means that very pod.
    fn check_identity(&self, binding: &Object, pod: &Object) -> Result<(), ApiError> {
        for (field, what, found_in) in [
            ("uid", "UID", "UID in object meta"),
            ("resourceVersion", "ResourceVersion", "ResourceVersion in object meta"),
        ] {
            let (sent, found) = (text(meta(binding), field), text(meta(pod), field));
            if !sent.is_empty() && sent != found {
                let why = format!(
                    "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: {sent}, {found_in}: {found}",
                    self.upstream_key()
                );
                return Err(ApiError::conflict(&self.group_resource(), self.name(), &why));
            }
        }
        Ok(())
    }

    fn check_unbound(&self, pod: &Object) -> Result<(), ApiError> {
        let name = self.name();
        let spec = pod.get("spec").and_then(Value::as_object);
        let node = spec.map(|spec| text(spec, "nodeName")).unwrap_or_default();
        let gates = spec.and_then(|spec| spec.get("schedulingGates")).and_then(Value::as_array);
        let why = if is_deleting(pod) {
            format!("pod {name} is being deleted, cannot be assigned to a host")
        } else if !node.is_empty() {
            format!("pod {name} is already assigned to node \"{node}\"")
        } else if gates.is_some_and(|gates| !gates.is_empty()) {
            format!("pod {name} has non-empty .spec.schedulingGates")
        } else {
            return Ok(());
        };
        Err(ApiError::conflict(&GroupResource::new("", "pods/binding"), name, &why))
    }
}

/// The answer to a create that leaves nothing to show.
pub(super) fn created() -> Answer {
    let code = StatusCode::CREATED;
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "code": code.as_u16(),
    });
    Answer::Other { code, object: status.as_object().cloned().unwrap_or_default() }
}

fn check_target(binding: &Object) -> Result<(), ApiError> {
    let target = binding.get("target").and_then(Value::as_object);
    let of = |field| target.map(|target| text(target, field)).unwrap_or_default();
    let at = FieldPath::root().child("target");
    let mut errors = Vec::new();
    if !matches!(of("kind"), "" | "Node") {
        let supported = "supported values: \"Node\", \"<empty>\"";
        let kind = Some(of("kind").into());
        errors.push(FieldError::new(ErrorKind::NotSupported, at.child("kind"), kind, supported));
    }
    if of("name").is_empty() {
        errors.push(FieldError::new(ErrorKind::Required, at.child("name"), None, ""));
    }
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [] => Ok(()),
        [one] => Err(ApiError::unexplained(one)),
        several => Err(ApiError::unexplained(format!("[{}]", several.join(", ")))),
    }
}

/// Sets a condition of a pod; the time of the last change moves only with the status.
pub(super) fn set_condition(pod: &mut Object, mut condition: Value, now: &str) {
    let status = pod.entry("status").or_insert_with(|| json!({}));
    let conditions = status.as_object_mut().map(|status| {
        let list = status.entry("conditions").or_insert_with(|| json!([]));
        if !list.is_array() {
            *list = json!([]);
        }
        list
    });
    let Some(Value::Array(conditions)) = conditions else { return };
    condition["lastProbeTime"] = Value::Null;
    let known = conditions.iter_mut().find(|known| known["type"] == condition["type"]);
    let same = known.as_ref().is_some_and(|known| known["status"] == condition["status"]);
    let since = known.as_ref().filter(|_| same).map(|known| known["lastTransitionTime"].clone());
    condition["lastTransitionTime"] = since.unwrap_or_else(|| now.into());
    match known {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_there_once_and_keeps_its_time() {
        let mut pod = Object::new();
        set_condition(&mut pod, json!({"type": "A", "status": "True"}), "1");
        set_condition(&mut pod, json!({"type": "A", "status": "True", "reason": "r"}), "2");
        let conditions = &pod["status"]["conditions"];
        assert_eq!(conditions.as_array().unwrap().len(), 1);
        assert_eq!(
            (&conditions[0]["lastTransitionTime"], &conditions[0]["reason"]),
            (&json!("1"), &json!("r"))
        );
        set_condition(&mut pod, json!({"type": "A", "status": "False"}), "3");
        assert_eq!(pod["status"]["conditions"][0]["lastTransitionTime"], "3");
    }

    #[test]
    fn a_target_is_a_named_node() {
        let check = |target: Value, want: Result<(), &str>| {
            let binding = json!({"target": target});
            let got = check_target(binding.as_object().unwrap()).map_err(|e| e.message);
            assert_eq!(got, want.map_err(str::to_owned));
        };
        check(json!({"name": "n"}), Ok(()));
        check(json!({"kind": "Node", "name": "n"}), Ok(()));
        check(json!({}), Err("target.name: Required value"));
    }
}
