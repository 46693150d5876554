//! Ownership: what an apply or an update does to the object and to everybody's fields.
//!
//! Works on one object and the decoded managers; names, times and errors of the API are the
//! parent's. Every version of a kind has the same paths here (conversion changes `apiVersion`
//! alone), so that a set is compared in the schema of the version that it was written in.

use std::collections::BTreeMap;

use serde_json::Value;

use super::compare::{Comparison, fields_of};
use super::managers::{ManagerId, Managers, Owned};
use super::merge::{merge, remove};
use super::path::PathElement;
use super::set::FieldSet;
use super::shape::Shape;
use crate::sabotage::Sabotage;

/// The kind's served versions, of which one is the request's.
pub(super) struct Versions<'a> {
    pub(super) current: &'a str,
    pub(super) shape: Shape<'a>,
    pub(super) others: Vec<(&'a str, Shape<'a>)>,
    /// The fields that the endpoint resets, in every version.
    pub(super) reset: &'a FieldSet,
}

impl<'a> Versions<'a> {
    fn shape_of(&self, version: &str) -> Option<Shape<'a>> {
        if version == self.current {
            return Some(self.shape);
        }
        self.others.iter().find(|(name, _)| *name == version).map(|(_, shape)| *shape)
    }

    /// Forgets managers of versions that are gone, and follows schemas that turned atomic.
    fn reconcile(&self, managers: &mut Managers) {
        managers.owned.retain(|_, owned| match self.shape_of(&owned.api_version) {
            None => false,
            Some(shape) => {
                owned.set = shape.reconcile(&owned.set);
                true
            }
        });
    }

    /// Takes what changed from everybody but `writer`. Unless forced, what others own and the
    /// writer changed or added is a conflict instead.
    fn take_changes(
        &self,
        live: &Value,
        new: &Value,
        managers: &mut Managers,
        writer: Option<&ManagerId>,
        force: bool,
    ) -> Result<Comparison, Vec<(ManagerId, Vec<PathElement>)>> {
        let compare = |shape| Comparison::of(shape, live, new).without(self.reset);
        let own = compare(self.shape);
        let mut others = BTreeMap::new();
        let mut conflicts = Vec::new();
        for (id, owned) in managers.owned.iter_mut().filter(|(id, _)| Some(*id) != writer) {
            let comparison = if owned.api_version == self.current {
                &own
            } else {
                let shape = self.shape_of(&owned.api_version).unwrap_or(self.shape);
                others.entry(owned.api_version.clone()).or_insert_with(|| compare(shape))
            };
            let changed = comparison.modified.clone().union(&comparison.added);
            if !force {
                let taken = owned.set.intersection(&changed);
                conflicts.extend(taken.paths().into_iter().map(|path| (id.clone(), path)));
            }
            owned.set = owned.set.difference(&changed).difference(&comparison.removed);
        }
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
        managers.owned.retain(|_, owned| !owned.set.is_empty());
        Ok(own)
    }

    /// Tracks a write that is no apply. Returns what the writer changed, and so owns now.
    pub(super) fn update(&self, live: &Value, new: &Value, managers: &mut Managers) -> FieldSet {
        self.reconcile(managers);
        match self.take_changes(live, new, managers, None, true) {
            Ok(changes) => changes.modified.union(&changes.added),
            // Nothing conflicts by force.
            Err(_) => FieldSet::default(),
        }
    }

    /// Merges what is applied into the live object, without the fields that the writer applied
    /// before and no longer does.
    pub(super) fn apply(
        &self,
        live: &Value,
        applied: &Value,
        managers: &mut Managers,
        writer: &ManagerId,
        force: bool,
    ) -> Result<Value, Vec<(ManagerId, Vec<PathElement>)>> {
        self.reconcile(managers);
        let merged = merge(self.shape, live, applied);
        let set = fields_of(self.shape, applied).without(self.reset);
        let owned = Owned { set, api_version: self.current.to_owned() };
        let last = managers.owned.insert(writer.clone(), owned);
        let new = match last {
            Some(last) if !last.set.is_empty() && !Sabotage::StickyFields.is_planted() => {
                self.prune(merged, &last, managers)
            }
            _ => merged,
        };
        self.take_changes(live, &new, managers, Some(writer), force)?;
        Ok(new)
    }

    /// Removes what was applied last and is owned by nobody now.
    fn prune(&self, merged: Value, last: &Owned, managers: &Managers) -> Value {
        let Some(shape) = self.shape_of(&last.api_version) else { return merged };
        let last_set = shape.with_named_fields(&last.set);
        let pruned = remove(shape, &merged, &last_set);
        let pruned = self.restore_owned(&merged, pruned, &last.api_version, managers);

        // What went with a removed item, but the writer never applied, stays.
        let before = shape.with_named_fields(&fields_of(shape, &merged));
        let after = shape.with_named_fields(&fields_of(shape, &pruned));
        remove(shape, &merged, &before.difference(&after).intersection(&last_set))
    }

    /// Brings back what somebody owns, version by version, beginning with the pruned one.
    fn restore_owned(
        &self,
        merged: &Value,
        mut pruned: Value,
        pruned_version: &str,
        managers: &Managers,
    ) -> Value {
        let mut managed: BTreeMap<&str, FieldSet> = BTreeMap::new();
        for owned in managers.owned.values() {
            let set = managed.entry(&owned.api_version).or_default();
            *set = std::mem::take(set).union(&owned.set);
        }
        let first = managed.remove_entry(pruned_version);
        for (version, managed) in first.into_iter().chain(managed) {
            let Some(shape) = self.shape_of(version) else { continue };
            let before = shape.with_named_fields(&fields_of(shape, merged));
            let after = shape.with_named_fields(&fields_of(shape, &pruned));
            let kept = after.union(&shape.with_named_fields(&managed));
            pruned = remove(shape, merged, &before.difference(&kept));
        }
        pruned
    }
}
