//! How pods of an earlier template are replaced: a few nodes at a time go without (`maxUnavailable`),
//! or have two (`maxSurge`).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::{Plan, World};
use crate::pod;
use crate::share::share;

/// The live pods of a node: of the new template, of an old one; more of either is `Err`.
type Two<'a> = Result<(Option<&'a Arc<Pod>>, Option<&'a Arc<Pod>>), ()>;

impl<'a> World<'a> {
    /// How many nodes may have two pods and how many none, while rolling.
    pub(super) fn limits(&self) -> (usize, usize) {
        let strategy = self.spec.update_strategy.as_ref();
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
            return (0, 0);
        }
        let update = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let nodes = i32::try_from(self.runs.len()).unwrap_or(i32::MAX);
        let part = |value| usize::try_from(share(value, nodes, true)).unwrap_or(0);
        let surge = part(update.and_then(|update| update.max_surge.as_ref()));
        let unavailable = part(update.and_then(|update| update.max_unavailable.as_ref()));
        // Else nothing could ever move.
        (surge, if surge == 0 { unavailable.max(1) } else { unavailable })
    }

    /// Plans the next step of an update, where no pod lacks and none is too many.
    pub(super) fn roll(&self, plan: &mut Plan) {
        let strategy = self.spec.update_strategy.as_ref();
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
            return;
        }
        match self.limits() {
            (0, unavailable) => self.roll_without(unavailable, plan),
            (surge, _) => self.roll_with_two(surge, plan),
        }
    }

    fn two(&self, node: &str) -> Two<'a> {
        let (mut new, mut old) = (None, None);
        let pods = self.pods.get(node).into_iter().flatten().copied();
        for pod in pods.filter(|pod| !pod::is_terminating(pod)) {
            let slot = if self.is_updated(pod) { &mut new } else { &mut old };
            if slot.replace(pod).is_some() {
                return Err(());
            }
        }
        Ok((new, old))
    }

    /// Nodes that have a pod or shall have one. Pods of a node that is gone hold nothing back.
    fn all(&self) -> impl Iterator<Item = &'a str> {
        let has = |node: &&&str| self.pods.contains_key(*node) || self.runs.contains(*node);
        self.nodes.iter().filter(has).copied()
    }

    fn roll_without(&self, limit: usize, plan: &mut Plan) {
        let mut missing = 0;
        let mut candidates = Vec::new();
        for node in self.all() {
            match self.two(node) {
                Ok((Some(new), None)) => missing += usize::from(!self.is_available(new)),
                Ok((None, Some(old))) if self.is_available(old) => candidates.push(old),
                Ok((None, Some(old))) => {
                    missing += 1;
                    plan.delete.push(Arc::clone(old));
                }
                Ok((None, None) | (Some(_), Some(_))) | Err(()) => missing += 1,
            }
        }
        let more = candidates.into_iter().take(limit.saturating_sub(missing));
        plan.delete.extend(more.cloned());
    }

    fn roll_with_two(&self, limit: usize, plan: &mut Plan) {
        let (mut doubled, mut available) = (0, 0);
        let (mut candidates, mut misplaced) = (Vec::new(), Vec::new());
        for node in self.all() {
            let Ok((new, old)) = self.two(node) else {
                doubled += 1;
                continue;
            };
            let good = |pod: Option<&Arc<Pod>>| pod.is_some_and(|pod| self.is_available(pod));
            available += usize::from(good(old.or(new)));
            let Some(old) = old else { continue };
            match new {
                Some(_) if good(new) => plan.delete.push(Arc::clone(old)),
                Some(_) => doubled += 1,
                None => match (self.runs.contains(node), self.is_available(old)) {
                    (true, true) => candidates.push(node),
                    (true, false) => plan.create.push(self.birth(node)),
                    (false, true) => misplaced.push(old),
                    (false, false) => plan.delete.push(Arc::clone(old)),
                },
            }
        }
        let spare = available.saturating_sub(self.runs.len());
        plan.delete.extend(misplaced.into_iter().take(spare).cloned());
        let more = candidates.into_iter().take(limit.saturating_sub(doubled));
        plan.create.extend(more.map(|node| self.birth(node)));
    }
}
