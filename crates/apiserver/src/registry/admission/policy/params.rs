//! The parameters of a policy: objects of another kind that a binding names or selects.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::super::super::{Call, Object};
use crate::builtin::selector;
use crate::resource::{Resource, group_version};
use crate::selector::LabelSelector;

/// Where parameters are kept.
pub(super) struct Scope {
    resource: Arc<Resource>,
    version: usize,
}

impl Call<'_> {
    /// Where parameters of a kind are kept; why nowhere, otherwise.
    pub(super) fn param_scope(&self, kind: &(String, String)) -> Result<Scope, String> {
        let (api_version, kind) = kind;
        for resource in self.server.table().iter().filter(|r| r.kind == *kind) {
            let mut versions = resource.versions.iter();
            let served = |v: &crate::resource::Version| {
                v.served && group_version(&resource.group, &v.name) == *api_version
            };
            if let Some(version) = versions.position(served) {
                return Ok(Scope { resource: Arc::clone(resource), version });
            }
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Err(format!(
            "failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'"
        ))
    }

    /// The parameters that a binding means: a null where it means none.
    pub(super) fn params(
        &self,
        scope: Option<&Scope>,
        wanted: Option<&Value>,
        namespace: &str,
    ) -> Result<Vec<Value>, String> {
        let (Some(scope), Some(wanted)) = (scope, wanted) else { return Ok(vec![Value::Null]) };
        let of = |field: &str| wanted[field].as_str().unwrap_or_default();
        let namespace = match (scope.resource.namespaced, of("namespace")) {
            (true, "") if namespace.is_empty() => {
                return Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned());
            }
            (true, "") => Some(namespace),
            (true, own) => Some(own),
            (false, "") => None,
            (false, _) => {
                return Err(
                    "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
                        .to_owned(),
                );
            }
        };
        let resource = &scope.resource;
        let found: Vec<Object> = match of("name") {
            "" => {
                let text = selector::text(&wanted["selector"]).unwrap_or_default();
                let selector = LabelSelector::parse(&text).map_err(|e| e.to_string())?;
                let all = self.server.read_all_in(resource, namespace);
                let mut all = all.map_err(|error| error.message)?;
                all.retain(|object| selector.matches(&labels(object)));
                all
            }
            name => {
                let found = self.server.read(&resource.group, &resource.plural, namespace, name);
                found.map_err(|error| error.message)?.into_iter().collect()
            }
        };
        if found.is_empty() && of("parameterNotFoundAction") == "Deny" {
            return Err(
                "no params found for policy binding with `Deny` parameterNotFoundAction".to_owned()
            );
        }
        let show = |object| {
            let mut object = Value::Object(object);
            resource.show(scope.version, &mut object);
            object
        };
        Ok(found.into_iter().map(show).collect())
    }
}

fn labels(object: &Object) -> BTreeMap<String, String> {
    let labels = object.get("metadata").and_then(|m| m.get("labels")).and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
