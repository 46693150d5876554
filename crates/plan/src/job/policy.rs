//! What a Job's policies say: of a pod that failed, and of the indexes that succeeded.

use k8s_openapi::api::batch::v1::{
    PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule, SuccessPolicy,
};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::index::Indexes;

/// What the failure of a pod means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    /// The whole Job fails, for this reason.
    pub(super) job: Option<String>,
    /// The pod's index fails without another try.
    pub(super) index: bool,
    /// The failure counts towards the limits.
    pub(super) counts: bool,
}

/// Judges a failed pod by the first rule that it matches.
pub(super) fn judge(policy: Option<&PodFailurePolicy>, pod: &Pod) -> Judgement {
    let mut judgement = Judgement { job: None, index: false, counts: true };
    let rules = policy.map(|policy| policy.rules.as_slice()).unwrap_or_default();
    let found = rules.iter().enumerate().find_map(|(i, rule)| Some((i, rule, why(rule, pod)?)));
    if let Some((i, rule, why)) = found {
        match &*rule.action {
            "Ignore" => judgement.counts = false,
            "FailIndex" => judgement.index = true,
            "FailJob" => {
                judgement.job = Some(format!("{why} matching FailJob rule at index {i}"));
            }
            _ => {}
        }
    }
    judgement
}

/// What of the pod a rule matches, in words.
fn why(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let status = pod.status.as_ref()?;
    if let Some(codes) = &rule.on_exit_codes {
        let main = status.container_statuses.iter().flatten();
        let mut all = main.chain(status.init_container_statuses.iter().flatten());
        let (container, code) =
            all.find_map(|status| Some((&status.name, exit(codes, status)?)))?;
        return Some(format!(
            "Container {container} for pod {namespace}/{name} failed with exit code {code}"
        ));
    }
    let patterns = rule.on_pod_conditions.as_deref().unwrap_or_default();
    let condition = status.conditions.iter().flatten().find(|condition| {
        patterns.iter().any(|pattern| {
            let wanted = pattern.status.as_deref().unwrap_or("True");
            pattern.type_ == condition.type_ && wanted == condition.status
        })
    })?;
    Some(format!("Pod {namespace}/{name} has condition {}", condition.type_))
}

/// The exit code of a container, if it is what a rule asks for. Success never is.
fn exit(asks: &PodFailurePolicyOnExitCodesRequirement, status: &ContainerStatus) -> Option<i32> {
    let code = status.state.as_ref()?.terminated.as_ref()?.exit_code;
    let named = asks.container_name.as_ref().is_none_or(|name| *name == status.name);
    let listed = asks.values.contains(&code);
    let asked = match &*asks.operator {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    };
    (named && asked && code != 0).then_some(code)
}

/// Whether enough indexes succeeded by a rule of the success policy; in words, which.
pub(super) fn succeeds(
    policy: Option<&SuccessPolicy>,
    completions: i32,
    done: &Indexes,
) -> Option<String> {
    if done.is_empty() {
        return None;
    }
    let enough = |count: Option<i32>, done: i32| count.is_some_and(|count| done >= count);
    let rule = policy?.rules.iter().position(|rule| match &rule.succeeded_indexes {
        None => enough(rule.succeeded_count, done.len()),
        Some(indexes) => {
            let wanted = Indexes::parse(indexes, completions);
            let met = wanted.common(done);
            !wanted.is_empty() && (met == wanted.len() || enough(rule.succeeded_count, met))
        }
    })?;
    Some(format!("Matched rules at index {rule}"))
}
