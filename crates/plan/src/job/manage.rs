//! Which pods a Job makes and which it deletes while it goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodTemplateSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::index::Indexes;
use super::world::{FAILURES, IGNORED, INDEX, World, number};
use super::{FINALIZER, KIND, MOST, Plan};
use crate::pod;
use crate::replicaset::{reference, sort};

const ENVIRONMENT: &str = "JOB_COMPLETION_INDEX";
/// Longest prefix of a generated name, in bytes.
const LONGEST_PREFIX: usize = 58;

impl World<'_> {
    /// Plans pods to be made or deleted; says how many are active after that.
    pub(super) fn manage(&self, plan: &mut Plan) -> usize {
        let active = self.active.len();
        let wanted = self.wanted();
        let mut delete = self.surplus(active.saturating_sub(wanted));
        if !self.is_suspended() {
            delete.truncate(MOST);
        }
        if !delete.is_empty() {
            plan.delete = delete;
            plan.uncounted = true;
            return active - plan.delete.len();
        }
        let held = if self.waits_for_the_end() { self.terminating() } else { 0 };
        let lacking = wanted.saturating_sub(active).saturating_sub(held).min(MOST);
        if lacking == 0 {
            return active;
        }
        let mut wake = |at| plan.wake = plan.wake.into_iter().chain([at]).min();
        if self.lost.is_none()
            && let Some(until) = self.backoff().filter(|until| *until > self.now)
        {
            wake(until);
            return active;
        }
        let mut create = Vec::new();
        match self.size {
            None => create.resize_with(lacking, || self.birth(None)),
            Some(size) => {
                for index in self.taken().missing(size).take(lacking) {
                    match self.backoff_of(index).filter(|until| *until > self.now) {
                        Some(until) => wake(until),
                        None => create.push(self.birth(Some(index))),
                    }
                }
            }
        }
        plan.create = create;
        active + plan.create.len()
    }

    /// How many pods shall be active.
    fn wanted(&self) -> usize {
        let parallelism = self.spec.parallelism.unwrap_or(1);
        let wanted = match self.spec.completions {
            _ if self.is_suspended() => 0,
            // One success is enough; those that run may end.
            None if self.succeeded > 0 => return self.active.len(),
            None => parallelism,
            Some(completions) => completions.saturating_sub(self.succeeded).min(parallelism),
        };
        usize::try_from(wanted).unwrap_or(0)
    }

    /// At least so many pods to delete: first those that have no index of their own.
    fn surplus(&self, least: usize) -> Vec<Arc<Pod>> {
        let mut delete = Vec::new();
        let mut left = Vec::new();
        if self.size.is_some() {
            let mut by_index: BTreeMap<i32, Vec<Arc<Pod>>> = BTreeMap::new();
            for pod in &self.active {
                match self.index_of(pod) {
                    None => delete.push(Arc::clone(pod)),
                    Some(index) => by_index.entry(index).or_default().push(Arc::clone(pod)),
                }
            }
            for mut pods in by_index.into_values() {
                sort(&mut pods, &[], self.now);
                left.extend(pods.pop());
                delete.append(&mut pods);
            }
        } else {
            left.clone_from(&self.active);
        }
        if delete.len() < least {
            sort(&mut left, &[], self.now);
            left.truncate(least - delete.len());
            delete.append(&mut left);
        }
        delete
    }

    /// Indexes that need no pod now.
    fn taken(&self) -> Indexes {
        let held = |pod: &&Arc<Pod>| pod::is_terminating(pod) && !pod::is_finished(pod);
        let held = self.pods.iter().filter(held).filter(|_| self.waits_for_the_end());
        let busy = self.active.iter().chain(held).filter_map(|pod| self.index_of(pod));
        let taken = self.done.union(&busy.collect());
        self.lost.iter().fold(taken, |taken, lost| taken.union(lost))
    }

    /// A pod, as it is made.
    fn birth(&self, index: Option<i32>) -> Pod {
        let PodTemplateSpec { metadata, spec } = self.spec.template.clone();
        let template = metadata.unwrap_or_default();
        let name = self.job.metadata.name.as_deref().unwrap_or_default();
        let mut metadata = ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: self.job.metadata.namespace.clone(),
            labels: template.labels,
            annotations: template.annotations,
            finalizers: template.finalizers,
            owner_references: Some(vec![reference(KIND, &self.job.metadata)]),
            ..ObjectMeta::default()
        };
        let finalizers = metadata.finalizers.get_or_insert_default();
        if !finalizers.iter().any(|known| known == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
        }
        let mut spec = spec.unwrap_or_default();
        if let Some(index) = index {
            let own = [(INDEX.to_owned(), index.to_string())];
            metadata.labels.get_or_insert_default().extend(own.clone());
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.extend(own);
            annotations.extend(self.failures(index));
            metadata.generate_name = Some(prefix(name, index));
            spec.hostname = Some(format!("{name}-{index}"));
            let init = spec.init_containers.iter_mut().flatten();
            init.chain(&mut spec.containers).for_each(tell);
        }
        Pod { metadata, spec: Some(spec), status: None }
    }

    /// How often an index has failed, as its next pod is told.
    fn failures(&self, index: i32) -> Vec<(String, String)> {
        if self.lost.is_none() {
            return Vec::new();
        }
        let (mut failures, mut ignored) = (0, 0);
        if let Some(last) = self.last.get(&index) {
            failures = number(last, FAILURES).unwrap_or(0);
            ignored = number(last, IGNORED).unwrap_or(0);
            let counter = if self.judge(last).counts { &mut failures } else { &mut ignored };
            *counter = counter.saturating_add(1);
        }
        let mut told = vec![(FAILURES.to_owned(), failures.to_string())];
        if ignored > 0 {
            told.push((IGNORED.to_owned(), ignored.to_string()));
        }
        told
    }
}

/// What the name of an index' pod begins with.
fn prefix(name: &str, index: i32) -> String {
    let suffix = format!("-{index}-");
    // Names are ASCII; one that is not is cut at no character of its own.
    let room = LONGEST_PREFIX.saturating_sub(suffix.len()).min(name.len());
    let name = name.get(..room).unwrap_or_default();
    format!("{name}{suffix}")
}

/// Tells a container its index.
fn tell(container: &mut Container) {
    let all = container.env.get_or_insert_default();
    if all.iter().any(|known| known.name == ENVIRONMENT) {
        return;
    }
    let path = format!("metadata.labels['{INDEX}']");
    let source = ObjectFieldSelector { field_path: path, ..ObjectFieldSelector::default() };
    let source = EnvVarSource { field_ref: Some(source), ..EnvVarSource::default() };
    all.push(EnvVar {
        name: ENVIRONMENT.to_owned(),
        value_from: Some(source),
        ..EnvVar::default()
    });
}
