//! Who configures a policy with parameters must be allowed to read them: a message could tell what is
//! in them.

use serde_json::Value;

use super::super::super::{Call, Object};
use super::said;
use crate::auth::authz::{Attributes, Decision, Target};
use crate::auth::{MASTERS, User};
use crate::resource::group_version;
use crate::schema::field::{FieldError, FieldPath};
use crate::status::ApiError;

impl Call<'_> {
    /// What keeps the writer of a policy or a binding from it.
    pub(in crate::registry) fn missing_param_rights(
        &self,
        live: Option<&Object>,
        object: &Object,
    ) -> Result<Vec<FieldError>, ApiError> {
        let exempt = !self.followed || self.user.is_in(MASTERS) || self.subresource.is_some();
        if self.resource.group != "admissionregistration.k8s.io" || exempt {
            return Ok(Vec::new());
        }
        let empty = Value::Null;
        let spec = object.get("spec").unwrap_or(&empty);
        let (field, why) = match self.resource.plural.as_str() {
            "validatingadmissionpolicies" => {
                let before = live.and_then(|live| live.get("spec")).map(|s| &s["paramKind"]);
                ("paramKind", self.unread_kind(&spec["paramKind"], before))
            }
            "validatingadmissionpolicybindings" => ("paramRef", self.unread_params(spec)?),
            _ => return Ok(Vec::new()),
        };
        let at = FieldPath::root().child("spec").child(field);
        Ok(why.map(|why| FieldError::forbidden(at, why)).into_iter().collect())
    }

    fn unread_kind(&self, kind: &Value, before: Option<&Value>) -> Option<String> {
        if kind.is_null() || before == Some(kind) {
            return None;
        }
        let (group, resource) = self.resource_of_kind(kind);
        let resource = resource.unwrap_or_else(|| "*".to_owned());
        if self.may_read("get", (&group, &resource), "*", "*") {
            return None;
        }
        let of = |field: &str| kind[field].as_str().unwrap_or_default();
        Some(format!(
            "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
            go_user(self.user),
            of("kind"),
            of("apiVersion"),
        ))
    }

    fn unread_params(&self, spec: &Value) -> Result<Option<String>, ApiError> {
        let wanted = &spec["paramRef"];
        if wanted.is_null() {
            return Ok(None);
        }
        let policy_name = spec["policyName"].as_str().unwrap_or_default();
        let (group, plural) = ("admissionregistration.k8s.io", "validatingadmissionpolicies");
        let policy = self.server.read(group, plural, None, policy_name)?.map(Value::Object);
        let kind = policy.as_ref().map(|policy| &policy["spec"]["paramKind"]);
        let kind = kind.filter(|kind| kind.is_object());
        let any = || "*".to_owned();
        let (group, resource) = kind.map_or((any(), None), |kind| self.resource_of_kind(kind));
        let unresolved = kind.is_some() && resource.is_none();
        let name = said(&wanted["name"]);
        let verb = if name.is_some() { "get" } else { "list" };
        let namespace = said(&wanted["namespace"]).unwrap_or_default();
        let target = (group.as_str(), resource.as_deref().unwrap_or("*"));
        if self.may_read(verb, target, &namespace, &name.unwrap_or_default()) {
            return Ok(None);
        }
        let user = go_user(self.user);
        let minimum = |what: String| {
            format!(
                "unable to {what} to determine minimum required permissions and user {user} does not have \"{verb}\" permission for all groups, versions and resources"
            )
        };
        Ok(Some(match (&policy, kind) {
            (None, _) => minimum(format!("get policy {policy_name}")),
            (_, Some(kind)) if unresolved => {
                let of = |field: &str| kind[field].as_str().unwrap_or_default();
                minimum(format!(
                    "resolve paramKind &ParamKind{{APIVersion:{},Kind:{},}}",
                    of("apiVersion"),
                    of("kind")
                ))
            }
            _ => format!(
                "user {user} does not have \"{verb}\" permission on the object referenced by paramRef"
            ),
        }))
    }

    /// The group of a kind, and its resource if there is one.
    fn resource_of_kind(&self, kind: &Value) -> (String, Option<String>) {
        let of = |field: &str| kind[field].as_str().unwrap_or_default();
        let api_version = of("apiVersion");
        let group = api_version.split_once('/').map_or("", |(group, _)| group).to_owned();
        let table = self.server.table();
        let mut found = table.iter().filter(|r| r.kind == of("kind") && r.group == group);
        let served = |v: &crate::resource::Version| {
            v.served && group_version(&group, &v.name) == api_version
        };
        let plural = found.find(|r| r.versions.iter().any(served)).map(|r| r.plural.clone());
        (group, plural)
    }

    fn may_read(
        &self,
        verb: &str,
        (group, resource): (&str, &str),
        namespace: &str,
        name: &str,
    ) -> bool {
        let target = Target::Resource { group, resource, subresource: "", namespace, name };
        let decision = self.server.decide(self.user, &Attributes { verb, target }, None);
        matches!(decision, Decision::Allow { .. })
    }
}

/// A user as Go prints one.
fn go_user(user: &User) -> String {
    let extra: Vec<String> =
        user.extra.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" "))).collect();
    let (name, uid, groups) = (&user.name, &user.uid, user.groups.join(" "));
    format!("&{{{name} {uid} [{groups}] map[{}]}}", extra.join(" "))
}
