//! Nobody grants what they do not hold: writes to roles and bindings, held against the writer's own
//! rights. Whoever may `escalate` a role or `bind` one is let through, as are masters.

use serde::Deserialize;
use serde_json::Value;

use super::metadata::{meta, text};
use super::{Call, Object};
use crate::auth::MASTERS;
use crate::auth::authz::{self, Attributes, Decision, Target};
use crate::auth::escalation::confirm_no_escalation;
use crate::auth::rbac::{PolicyRule, RbacIndex};
use crate::resource::GroupResource;
use crate::sabotage::Sabotage;
use crate::status::ApiError;

const GROUP: &str = "rbac.authorization.k8s.io";

impl Call<'_> {
    /// Refuses a role or binding that gives more than its writer has.
    pub(super) fn check_grant(
        &self,
        live: Option<&Object>,
        object: &Object,
    ) -> Result<(), ApiError> {
        // The server's own writes are not followed, and grant what every cluster has.
        if self.resource.group != GROUP || !self.followed || self.user.is_in(MASTERS) {
            return Ok(());
        }
        if Sabotage::NoEscalationCheck.is_planted() {
            return Ok(());
        }
        let same = |field: &str| live.is_some_and(|live| live.get(field) == object.get(field));
        let rbac = self.server.rbac();
        match self.resource.plural.as_str() {
            "roles" | "clusterroles" if same("rules") && same("aggregationRule") => Ok(()),
            "roles" | "clusterroles" => {
                let name = text(meta(object), "name");
                if self.may(&rbac, "escalate", &self.resource.plural, name) {
                    return Ok(());
                }
                if object.get("aggregationRule").is_some_and(|rule| !rule.is_null()) {
                    let why = "must have cluster-admin privileges to use the aggregationRule";
                    return Err(self.forbidden(object, why));
                }
                let wanted = object.get("rules").cloned().unwrap_or_default();
                let wanted = Option::<Vec<PolicyRule>>::deserialize(wanted).unwrap_or_default();
                self.holds(&rbac, object, &wanted.unwrap_or_default())
            }
            _ if same("roleRef") && same("subjects") => Ok(()),
            _ => {
                let of = |field| {
                    let role = object.get("roleRef").and_then(Value::as_object);
                    role.map(|role| text(role, field)).unwrap_or_default()
                };
                let plural = if of("kind") == "Role" { "roles" } else { "clusterroles" };
                if self.may(&rbac, "bind", plural, of("name")) {
                    return Ok(());
                }
                let namespace = self.namespace.as_deref().unwrap_or_default();
                let wanted = rbac.role(of("kind"), of("name"), namespace);
                let missing =
                    |_| ApiError::not_found(&GroupResource::new(GROUP, plural), of("name"));
                self.holds(&rbac, object, wanted.map_err(missing)?)
            }
        }
    }

    fn may(&self, rbac: &RbacIndex, verb: &str, resource: &str, name: &str) -> bool {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let target = Target::Resource { group: GROUP, resource, subresource: "", namespace, name };
        let decision = authz::authorize(self.user, &Attributes { verb, target }, rbac);
        matches!(decision, Decision::Allow { .. })
    }

    fn holds(
        &self,
        rbac: &RbacIndex,
        object: &Object,
        wanted: &[PolicyRule],
    ) -> Result<(), ApiError> {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let (mut held, mut unresolved) = (Vec::new(), Vec::new());
        for grant in rbac.grants(self.user, namespace) {
            match grant {
                Ok(grant) => held.extend(grant.rules),
                Err(problem) => unresolved.push(problem),
            }
        }
        confirm_no_escalation(self.user, &held, wanted, &unresolved, &self.resource.plural)
            .map_err(|why| self.forbidden(object, &why))
    }
}
