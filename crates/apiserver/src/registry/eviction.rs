//! Eviction: a pod is deleted if its disruption budget allows.
//!
//! The budget is charged before the pod goes, in its status, which is how its controller learns of
//! it: two evictions at once never spend the same allowance. A pod that has ended, has not begun or
//! is going already charges nothing, nor does one that is not ready where the budget says so.

use std::collections::BTreeMap;

use http::StatusCode;
use serde_json::{Value, json};

use super::admission::Operation;
use super::admission::node::Attempt;
use super::binding::{created, set_condition};
use super::delete::DeleteOptions;
use super::metadata::{is_deleting, meta, text};
use super::{Call, Object};
use crate::auth::User;
use crate::builtin::selector;
use crate::request::WriteOptions;
use crate::resource::{GroupKind, GroupResource};
use crate::sabotage::Sabotage;
use crate::schema::field::{FieldError, FieldPath};
use crate::selector::LabelSelector;
use crate::status::ApiError;
use crate::wire::Answer;

const GROUP: &str = "policy";
const BUDGETS: &str = "poddisruptionbudgets";

/// How often an eviction that lost a race is tried again; upstream's number.
const ATTEMPTS: usize = 20;

/// The most pods whose deletion a budget waits to see; upstream's number.
const MAX_DISRUPTED: usize = 2000;

/// What a budget says to an eviction.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// The pod may go, and the budget is not charged.
    Free,
    /// The pod may go once the budget's status is this.
    Charge(Value),
}

impl Call<'_> {
    pub(super) async fn evict(&mut self) -> Result<Answer, ApiError> {
        let options = WriteOptions::parse(&self.query, "CreateOptions")?;
        let eviction = self.decode(&options)?;
        self.check_namespace(&eviction)?;
        let name = self.name().to_owned();
        self.check_namespace_exists(&name)?;
        if text(meta(&eviction), "name") != name {
            return Err(ApiError::bad_request(
                "name in URL does not match name in Eviction object",
            ));
        }
        let dry_run = options.dry_run;
        let eviction = self.change(Operation::Create, None, eviction, dry_run).await?;
        self.admit(Operation::Create, None, Some(&eviction), dry_run).await?;
        let options = self.delete_options_of(&eviction, dry_run)?;
        let stored = self.load(&name)?.ok_or_else(|| self.not_found())?;
        let pod = self.present(&stored)?;
        self.restrict_node(Attempt::Delete(&pod))?;
        let mut guarded = None;
        if !has_no_budget(&pod) && !Sabotage::NoBudgets.is_planted() {
            match self.charge(&pod, options.dry_run).await? {
                Charged::Nothing => {}
                Charged::Refused(answer) => return Ok(answer),
                Charged::Unhealthy(budget) => guarded = Some(budget),
            }
        }
        let gone = self.mark_and_delete(&pod, &options, guarded.is_some()).await;
        if let (Err(error), Some(budget)) = (&gone, guarded)
            && error.code == StatusCode::CONFLICT
            && options.resource_version.is_none()
        {
            return Err(still_processed(&budget));
        }
        gone?;
        Ok(created())
    }

    /// The delete options in an eviction; a dry run may be asked for in either place.
    fn delete_options_of(
        &self,
        eviction: &Object,
        dry_run: bool,
    ) -> Result<DeleteOptions, ApiError> {
        let sent = eviction.get("deleteOptions").and_then(Value::as_object);
        let Some(sent) = sent else {
            return Ok(DeleteOptions { dry_run, ..DeleteOptions::default() });
        };
        let unsafe_ = "ignoreStoreReadErrorWithClusterBreakingPotential";
        if sent.get(unsafe_) == Some(&true.into()) {
            let at = FieldPath::root().child("deleteOptions").child(unsafe_);
            let why = "can not be set for pod eviction, try after removing the option";
            let kind = GroupKind { group: GROUP.into(), kind: "Eviction".into() };
            let error = FieldError::invalid(at, true, why);
            return Err(ApiError::invalid(&kind, self.name(), &[error]));
        }
        let mut options = DeleteOptions::of(sent)?;
        options.dry_run |= dry_run;
        Ok(options)
    }

    /// Asks the pod's budget, and charges it.
    async fn charge(&self, pod: &Object, dry_run: bool) -> Result<Charged, ApiError> {
        let budgets = self.server.table().get(GROUP, BUDGETS).cloned();
        let budgets = budgets.ok_or_else(ApiError::no_such_resource)?;
        let user = User { name: "system:apiserver".to_owned(), ..User::default() };
        for _ in 0..ATTEMPTS {
            let mut matching = self.budgets_of(pod, &budgets)?;
            let Some(budget) = matching.pop() else { return Ok(Charged::Nothing) };
            if !matching.is_empty() {
                return Ok(Charged::Refused(too_many_budgets()));
            }
            let name = text(meta(&budget), "name").to_owned();
            let status = match judge(&budget, pod, &self.server.now())? {
                Verdict::Free => return Ok(Charged::Unhealthy(name)),
                Verdict::Charge(_) if dry_run => return Ok(Charged::Nothing),
                Verdict::Charge(status) => status,
            };
            let version = text(meta(&budget), "resourceVersion");
            let namespace = self.namespace.as_deref();
            let mut call =
                self.server.own_call(&user, &budgets, namespace, Some(&name), Some("status"));
            let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
            match Box::pin(call.merge(patch)).await {
                Err(error) if error.code == StatusCode::CONFLICT => {}
                other => return other.map(|()| Charged::Nothing),
            }
        }
        let why = "couldn't update PodDisruptionBudget due to conflicts";
        Err(ApiError::too_many_requests(why, 10))
    }

    /// The budgets whose selector the pod fits.
    fn budgets_of(
        &self,
        pod: &Object,
        budgets: &crate::resource::Resource,
    ) -> Result<Vec<Object>, ApiError> {
        let labels = meta(pod).get("labels").and_then(Value::as_object);
        let labels: BTreeMap<String, String> = labels
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect();
        let fits = |budget: &Object| {
            let wanted = budget.get("spec").and_then(|spec| spec.get("selector"));
            let text = wanted.filter(|selector| !selector.is_null()).and_then(selector::text);
            text.and_then(|text| LabelSelector::parse(&text).ok())
                .is_some_and(|selector| selector.matches(&labels))
        };
        let all = self.server.read_all_in(budgets, self.namespace.as_deref())?;
        Ok(all.into_iter().filter(fits).collect())
    }

    /// Tells in the pod why it goes, and deletes it.
    async fn mark_and_delete(
        &mut self,
        asked: &Object,
        options: &DeleteOptions,
        unchanged: bool,
    ) -> Result<(), ApiError> {
        let name = &self.name().to_owned();
        let mut options = options.clone();
        if unchanged && options.resource_version.is_none() {
            // It must still be the pod that was found to be unhealthy.
            options.resource_version = Some(text(meta(asked), "resourceVersion").to_owned());
        }
        if !options.dry_run {
            loop {
                let stored = self.load(name)?.ok_or_else(|| self.not_found())?;
                let mut pod = self.present(&stored)?;
                self.check_preconditions(name, &pod, &options)?;
                let condition = json!({
                    "type": "DisruptionTarget", "status": "True",
                    "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
                });
                set_condition(&mut pod, condition, &self.server.now());
                if let Some(revision) = self.put(name, &pod, Some(stored.revision())).await? {
                    if options.resource_version.is_some() {
                        options.resource_version = Some(revision.to_string());
                    }
                    break;
                }
            }
        }
        self.delete_named(name, &options).await.map(drop)
    }
}

/// What came of asking a pod's budget.
enum Charged {
    /// The pod may go.
    Nothing,
    /// It may go as long as it stays unhealthy; this budget said so.
    Unhealthy(String),
    /// It may not.
    Refused(Answer),
}

/// Whether a pod's going disrupts nothing any more, or not yet.
fn has_no_budget(pod: &Object) -> bool {
    let phase = pod.get("status").and_then(|s| s.get("phase")).and_then(Value::as_str);
    matches!(phase, Some("Succeeded" | "Failed" | "Pending")) || is_deleting(pod)
}

fn is_ready(pod: &Object) -> bool {
    let conditions = pod.get("status").and_then(|s| s.get("conditions")).and_then(Value::as_array);
    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// Whether a budget lets a pod go, and at what charge.
fn judge(budget: &Object, pod: &Object, now: &str) -> Result<Verdict, ApiError> {
    let empty = json!({});
    let (spec, status) =
        (budget.get("spec").unwrap_or(&empty), budget.get("status").unwrap_or(&empty));
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    let (healthy, desired) = (number("currentHealthy"), number("desiredHealthy"));
    if !is_ready(pod) {
        let always = spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
        if always || healthy >= desired && desired > 0 {
            return Ok(Verdict::Free);
        }
    }
    let name = text(meta(budget), "name");
    let generation = meta(budget).get("generation").and_then(Value::as_i64).unwrap_or(0);
    if number("observedGeneration") < generation {
        return Err(still_processed(name));
    }
    let allowed = number("disruptionsAllowed");
    if allowed < 0 {
        return Err(forbidden(name, "pdb disruptions allowed is negative"));
    }
    let disrupted = status["disruptedPods"].as_object();
    if disrupted.is_some_and(|pods| pods.len() > MAX_DISRUPTED) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(forbidden(name, why));
    }
    if allowed == 0 {
        return Err(violated(&no_allowance(name, status, healthy, desired), 0));
    }
    let mut charged = json!({
        "disruptionsAllowed": allowed - 1,
        "disruptedPods": {text(meta(pod), "name"): now},
    });
    if allowed == 1 {
        charged["conditions"] = spent(status, generation, now);
    }
    Ok(Verdict::Charge(charged))
}

/// A budget's conditions once nothing is left of it.
fn spent(status: &Value, generation: i64, now: &str) -> Value {
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let mut condition = json!({
        "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods",
        "message": "", "observedGeneration": generation, "lastTransitionTime": now,
    });
    match conditions.iter_mut().find(|known| known["type"] == "DisruptionAllowed") {
        Some(known) => {
            if known["status"] == "False" {
                condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            *known = condition;
        }
        None => conditions.push(condition),
    }
    conditions.into()
}

/// Why a budget that is in order allows nothing.
fn no_allowance(name: &str, status: &Value, healthy: i64, desired: i64) -> String {
    let conditions = status["conditions"].as_array();
    let told = conditions.into_iter().flatten().find(|c| {
        let says = |field: &str| c[field].as_str().unwrap_or_default();
        c["type"] == "DisruptionAllowed" && says("status") == "False" && !says("message").is_empty()
    });
    let says = |field: &str| told.and_then(|c| c[field].as_str()).unwrap_or_default();
    let (reason, message) = (says("reason"), says("message"));
    if reason == "SyncFailed" {
        return format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
        );
    }
    if healthy <= desired {
        return format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        );
    }
    let begin = format!("The disruption budget {name} does not allow evicting pods currently");
    if told.is_some() { format!("{begin} ({reason}): {message}") } else { begin }
}

fn violated(cause: &str, retry_after_seconds: u32) -> ApiError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    ApiError::too_many_requests(message, retry_after_seconds).cause("DisruptionBudget", cause, "")
}

fn still_processed(name: &str) -> ApiError {
    let cause = format!("The disruption budget {name} is still being processed by the server.");
    violated(&cause, 10)
}

fn forbidden(name: &str, why: &str) -> ApiError {
    let resource = GroupResource::new(GROUP, "poddisruptionbudget");
    let message = format!("{resource} \"{name}\" is forbidden: {why}");
    ApiError::forbidden(&resource, name, message)
}

/// Upstream answers this with a `Status` of its own making.
fn too_many_budgets() -> Answer {
    let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "code": 500,
    });
    let object = status.as_object().cloned().unwrap_or_default();
    Answer::Other { code: StatusCode::INTERNAL_SERVER_ERROR, object }
}

#[cfg(test)]
#[path = "eviction_tests.rs"]
mod tests;
