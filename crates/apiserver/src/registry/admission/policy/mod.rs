//! Validating admission policies: what a cluster forbids in its own words.
//!
//! Policies are compiled when they are written, by the request that writes them, and kept by their
//! version; a request that nothing is said about pays for one look at an empty list. Parameters and
//! namespaces are read from the store at that moment, so that there is no cache to fall behind.

mod index;
mod judge;
mod params;
mod rights;

use serde_json::{Value, json};

pub(super) use self::index::Compiled;
pub(crate) use self::index::Policies;
use self::index::{Action, Binding, Policy};
use self::judge::{Decision, Verdict};
pub(super) use self::judge::{Evidence, matches};
use super::super::Call;
use super::intent::Intent;
use crate::resource::GroupResource;
use crate::status::ApiError;

/// The longest value of an audit annotation, in bytes.
const LONGEST_ANNOTATION: usize = 10 * 1024;

/// A decision that refuses the request.
struct Denied<'p> {
    policy: &'p Policy,
    binding: Option<&'p Binding>,
    message: String,
    reason: Option<String>,
}

impl Call<'_> {
    /// Holds a request against every policy that is bound to it.
    pub(super) fn hold_to_policies(&mut self, intent: &Intent) -> Result<(), ApiError> {
        let policies = self.server.policies();
        if policies.is_empty() || intent.is_exempt() {
            return Ok(());
        }
        let mut denied = Vec::new();
        for bound in policies.iter() {
            self.hold_to_policy(&bound.policy, &bound.bindings, intent, &mut denied)?;
        }
        match denied.into_iter().next() {
            Some(first) => Err(refusal(intent, first)),
            None => Ok(()),
        }
    }

    fn hold_to_policy<'p>(
        &mut self,
        policy: &'p Policy,
        bindings: &'p [Binding],
        intent: &Intent,
        denied: &mut Vec<Denied<'p>>,
    ) -> Result<(), ApiError> {
        let mut broken = |binding: Option<&'p Binding>, why: &str| {
            if policy.fails {
                let what = if binding.is_some() { "binding" } else { "policy" };
                let message = format!("failed to configure {what}: {why}");
                denied.push(Denied { policy, binding, message, reason: None });
            }
        };
        let form = match policy.criteria.find(self, intent) {
            Ok(Some(form)) => form,
            Ok(None) => return Ok(()),
            Err(error) => {
                broken(None, &error.message);
                return Ok(());
            }
        };
        let scope = match policy.param_kind.as_ref().map(|kind| self.param_scope(kind)) {
            Some(Err(why)) => {
                broken(None, &why);
                return Ok(());
            }
            Some(Ok(scope)) => Some(scope),
            None => None,
        };
        let mut ready = Vec::new();
        for binding in bindings {
            let matches = binding.criteria.as_ref().map_or(Ok(true), |criteria| {
                criteria.find(self, intent).map(|found| found.is_some())
            });
            match matches {
                Ok(false) => continue,
                Ok(true) => {}
                Err(error) => {
                    broken(Some(binding), &error.message);
                    continue;
                }
            }
            match self.params(scope.as_ref(), binding.param_ref.as_ref(), &intent.namespace) {
                Ok(params) => ready.push((binding, params)),
                Err(why) => broken(Some(binding), &why),
            }
        }
        if ready.is_empty() {
            return Ok(());
        }
        let evidence = judge::Evidence::of(self, intent, form)?;
        let mut annotations: Vec<(String, Vec<String>)> = Vec::new();
        for (binding, params) in ready {
            for param in &params {
                let verdict = policy.judge(self, &evidence, param);
                self.act(policy, binding, verdict, denied, &mut annotations);
            }
        }
        for (key, values) in annotations {
            self.annotations.push((format!("{}/{key}", policy.name), values.join(", ")));
        }
        Ok(())
    }

    /// Does what a binding says about a verdict.
    fn act<'p>(
        &mut self,
        policy: &'p Policy,
        binding: &'p Binding,
        verdict: Verdict,
        denied: &mut Vec<Denied<'p>>,
        annotations: &mut Vec<(String, Vec<String>)>,
    ) {
        for (n, decision) in verdict.decisions.into_iter().enumerate() {
            let Decision::Deny { message, reason } = decision else { continue };
            for action in &binding.actions {
                match action {
                    Action::Deny => denied.push(Denied {
                        policy,
                        binding: Some(binding),
                        message: message.clone(),
                        reason: reason.clone(),
                    }),
                    Action::Warn => self.warnings.push(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                        policy.name, binding.name
                    )),
                    Action::Audit => {
                        let failure = json!([{
                            "message": message, "policy": binding.policy, "binding": binding.name,
                            "expressionIndex": n, "validationActions": binding.said,
                        }]);
                        let key = "validation.policy.admission.k8s.io/validation_failure";
                        self.annotations.push((key.to_owned(), failure.to_string()));
                    }
                }
            }
        }
        for (key, value) in verdict.annotations {
            match value {
                Ok(value) => {
                    let end = value.floor_char_boundary(LONGEST_ANNOTATION);
                    let value = value[..end].to_owned();
                    match annotations.iter_mut().find(|(known, _)| *known == key) {
                        Some((_, values)) if values.contains(&value) => {}
                        Some((_, values)) => values.push(value),
                        None => annotations.push((key, vec![value])),
                    }
                }
                Err(message) => {
                    let binding = Some(binding);
                    denied.push(Denied { policy, binding, message, reason: None });
                }
            }
        }
    }
}

fn refusal(intent: &Intent, denied: Denied<'_>) -> ApiError {
    let Denied { policy, binding, message, reason } = denied;
    let by = binding.map_or_else(String::new, |b| format!(" with binding '{}'", b.name));
    let why = format!("ValidatingAdmissionPolicy '{}'{by} denied request: {message}", policy.name);
    let resource = GroupResource::new(&intent.own().group, &intent.resource);
    let name = match intent.name.as_str() {
        "" => intent.object["metadata"]["generateName"].as_str().unwrap_or("Unknown"),
        name => name,
    };
    let message = format!("{resource} \"{name}\" is forbidden: {why}");
    let mut error = ApiError::forbidden(&resource, name, message).cause("", &why, "");
    (error.code, error.reason) = match reason.as_deref() {
        Some("Forbidden") => (http::StatusCode::FORBIDDEN, "Forbidden"),
        Some("RequestEntityTooLarge") => {
            (http::StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge")
        }
        _ => (http::StatusCode::UNPROCESSABLE_ENTITY, "Invalid"),
    };
    error
}

/// A text field that is not empty.
fn said(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}
