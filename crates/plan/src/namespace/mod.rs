//! The end of a namespace: what is deleted first, what is waited for, what is said meanwhile.
//!
//! Pods go first, since other objects may be what keeps them within bounds (network policies, for
//! one); then everything else; then the namespace itself.

use std::collections::BTreeMap;

/// What is left of one resource in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// How many objects.
    pub objects: usize,
    /// How many of them nobody has deleted yet.
    pub untouched: usize,
    /// How many have each finalizer.
    pub finalizers: BTreeMap<String, usize>,
}

/// A resource and its group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource {
    /// `pods`
    pub plural: String,
    /// Empty for the core.
    pub group: String,
}

/// All that a decision rests on.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// What is left, by resource; resources with nothing left are not named.
    pub left: BTreeMap<Resource, Left>,
    /// Resources that could not be looked at or deleted, with the reason.
    pub failures: BTreeMap<Resource, String>,
}

/// A condition of the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `NamespaceContentRemaining`
    pub type_: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// One word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// What shall be done about a namespace that ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Delete all objects of these.
    pub delete: Vec<Resource>,
    /// Nothing is left: let the namespace go.
    pub finalize: bool,
    /// What to say meanwhile.
    pub conditions: Vec<Condition>,
}

/// Decides about a namespace that ends.
pub fn plan(observed: &Observed) -> Plan {
    let pods = Resource { plural: "pods".to_owned(), group: String::new() };
    let untouched = |(_, left): &(&Resource, &Left)| left.untouched > 0;
    let delete = if observed.left.contains_key(&pods) {
        let pods = observed.left.get_key_value(&pods).filter(untouched);
        pods.map(|(pods, _)| pods.clone()).into_iter().collect()
    } else {
        observed.left.iter().filter(untouched).map(|(resource, _)| resource.clone()).collect()
    };
    let finalize = observed.left.is_empty() && observed.failures.is_empty();
    Plan { delete, finalize, conditions: conditions(observed) }
}

fn conditions(observed: &Observed) -> Vec<Condition> {
    let condition = |type_, problem: Option<(&'static str, String)>, good: (&'static str, &str)| {
        let (reason, message) = problem.clone().unwrap_or_else(|| (good.0, good.1.to_owned()));
        Condition { type_, holds: problem.is_some(), reason, message }
    };
    let counts = |left: &BTreeMap<Resource, Left>| {
        let line = |(resource, left): (&Resource, &Left)| {
            format!(
                "{}.{} has {} resource instances",
                resource.plural, resource.group, left.objects
            )
        };
        left.iter().map(line).collect::<Vec<_>>().join(", ")
    };
    let mut finalizers: BTreeMap<&str, usize> = BTreeMap::new();
    for (finalizer, count) in observed.left.values().flat_map(|left| &left.finalizers) {
        *finalizers.entry(finalizer).or_default() += count;
    }
    let waits: Vec<String> = finalizers
        .iter()
        .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"))
        .collect();
    let failed: Vec<String> = observed.failures.values().cloned().collect();
    vec![
        condition(
            "NamespaceDeletionDiscoveryFailure",
            None,
            ("ResourcesDiscovered", "All resources successfully discovered"),
        ),
        condition(
            "NamespaceDeletionGroupVersionParsingFailure",
            None,
            ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        condition(
            "NamespaceDeletionContentFailure",
            (!failed.is_empty()).then(|| {
                let (count, all) = (failed.len(), failed.join(", "));
                let message =
                    format!("Failed to delete all resource types, {count} remaining: {all}");
                ("ContentDeletionFailed", message)
            }),
            ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        ),
        condition(
            "NamespaceContentRemaining",
            (!observed.left.is_empty()).then(|| {
                let all = counts(&observed.left);
                ("SomeResourcesRemain", format!("Some resources are remaining: {all}"))
            }),
            ("ContentRemoved", "All content successfully removed"),
        ),
        condition(
            "NamespaceFinalizersRemaining",
            (!waits.is_empty()).then(|| {
                let all = waits.join(", ");
                let message =
                    format!("Some content in the namespace has finalizers remaining: {all}");
                ("SomeFinalizersRemain", message)
            }),
            ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(plural: &str) -> Resource {
        Resource { plural: plural.to_owned(), group: String::new() }
    }

    fn observed(left: &[(&str, usize, usize)]) -> Observed {
        let left = left.iter().map(|(plural, objects, untouched)| {
            let left = Left { objects: *objects, untouched: *untouched, ..Left::default() };
            (resource(plural), left)
        });
        Observed { left: left.collect(), failures: BTreeMap::new() }
    }

    fn deleted(observed: &Observed) -> Vec<String> {
        plan(observed).delete.into_iter().map(|resource| resource.plural).collect()
    }

    #[test]
    fn pods_go_first_and_the_rest_waits_for_them() {
        assert_eq!(deleted(&observed(&[("configmaps", 2, 2), ("pods", 3, 1)])), ["pods"]);
        assert!(deleted(&observed(&[("configmaps", 2, 2), ("pods", 3, 0)])).is_empty());
        let rest = observed(&[("configmaps", 2, 2), ("secrets", 1, 0)]);
        assert_eq!(deleted(&rest), ["configmaps"]);
        assert!(!plan(&rest).finalize);
        assert!(plan(&observed(&[])).finalize);
    }

    #[test]
    fn a_failure_keeps_the_namespace() {
        let mut nothing = observed(&[]);
        nothing.failures.insert(resource("secrets"), "no".to_owned());
        let plan = plan(&nothing);
        assert!(!plan.finalize);
        assert!(plan.conditions.iter().any(|c| c.reason == "ContentDeletionFailed" && c.holds));
    }

    #[test]
    fn what_is_waited_for_is_said() {
        let mut some = observed(&[("configmaps", 2, 0)]);
        let left = some.left.get_mut(&resource("configmaps")).unwrap();
        left.finalizers.insert("a/b".to_owned(), 2);
        let conditions = plan(&some).conditions;
        let message = |type_: &str| {
            conditions.iter().find(|c| c.type_ == type_ && c.holds).unwrap().message.clone()
        };
        assert_eq!(
            message("NamespaceContentRemaining"),
            "Some resources are remaining: configmaps. has 2 resource instances"
        );
        assert_eq!(
            message("NamespaceFinalizersRemaining"),
            "Some content in the namespace has finalizers remaining: a/b in 2 resource instances"
        );
    }
}
