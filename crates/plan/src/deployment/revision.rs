//! Revisions: which template came when, and how many old ones are kept for `kubectl rollout undo`.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::ReplicaSet;

use super::{World, size};

const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MOST: &str = "deployment.kubernetes.io/max-replicas";
/// Longest list of earlier revisions, in bytes.
const LONGEST_HISTORY: usize = 2000;
/// Sets keep their own of these, or have none.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MOST,
    "deprecated.deployment.rollback.to",
];

pub(super) fn annotation<'a>(set: &'a ReplicaSet, key: &str) -> Option<&'a str> {
    set.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn revision(set: &ReplicaSet) -> i64 {
    annotation(set, REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

impl World<'_> {
    fn next_revision(&self) -> i64 {
        let most = self.old().map(|i| revision(self.sets[i])).max().unwrap_or(0);
        most.saturating_add(1)
    }

    /// The annotations of the current set: the Deployment's, and its revision.
    pub(super) fn annotations_of_new(&self, set: Option<&ReplicaSet>) -> BTreeMap<String, String> {
        let all = self.deployment.metadata.annotations.iter().flatten();
        let copied = all.filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()));
        let mut annotations: BTreeMap<_, _> =
            copied.map(|(key, value)| (key.clone(), value.clone())).collect();
        let next = self.next_revision();
        let Some(set) = set else {
            annotations.insert(REVISION.to_owned(), next.to_string());
            annotations.extend(self.annotations_of_size());
            return annotations;
        };
        let known = revision(set);
        if known < next {
            annotations.insert(REVISION.to_owned(), next.to_string());
            if let Some(before) = annotation(set, REVISION) {
                let history = annotation(set, HISTORY).unwrap_or_default();
                annotations.insert(HISTORY.to_owned(), longer(history, before));
            }
        }
        annotations
    }

    pub(super) fn annotations_of_size(&self) -> [(String, String); 2] {
        let most = self.replicas.saturating_add(self.surge);
        [(DESIRED.to_owned(), self.replicas.to_string()), (MOST.to_owned(), most.to_string())]
    }

    /// The revision of the Deployment, if it does not say so yet.
    pub(super) fn deployment_revision(&self, made: Option<&ReplicaSet>) -> Option<String> {
        let of_known = || self.new.map(|i| revision(self.sets[i]).max(self.next_revision()));
        let now = made.map(revision).or_else(of_known)?.to_string();
        let known = self.deployment.metadata.annotations.as_ref().and_then(|all| all.get(REVISION));
        (known != Some(&now)).then_some(now)
    }

    /// The sets that history no longer needs: empty ones, oldest revisions first.
    pub(super) fn history(&self) -> Vec<ReplicaSet> {
        let limit = self.deployment.spec.as_ref().and_then(|spec| spec.revision_history_limit);
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else {
            return Vec::new();
        };
        let mut old: Vec<_> = self.old().map(|i| (i, self.sets[i])).collect();
        old.retain(|(_, set)| set.metadata.deletion_timestamp.is_none());
        let surplus = old.len().saturating_sub(limit);
        old.sort_by_key(|(_, set)| revision(set));
        old.truncate(surplus);
        old.retain(|(i, set)| {
            let status = set.status.clone().unwrap_or_default();
            let settled = set.metadata.generation <= status.observed_generation;
            size(set) == 0 && self.sizes[*i] == 0 && status.replicas == 0 && settled
        });
        old.into_iter().map(|(_, set)| set.clone()).collect()
    }
}

/// The list of earlier revisions with one more; the first ones fall off.
fn longer(history: &str, before: &str) -> String {
    let mut all: Vec<&str> = history.split(',').filter(|entry| !entry.is_empty()).collect();
    all.push(before);
    while all.len() > 1 && all.iter().map(|entry| entry.len() + 1).sum::<usize>() > LONGEST_HISTORY
    {
        all.remove(0);
    }
    all.join(",")
}
