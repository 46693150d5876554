//! Which objects belong to a controller: adopted by its selector, known by their owner reference.
//!
//! The rules are Kubernetes': what another controls is never touched; an orphan that the selector
//! selects is adopted; what is ours and no longer selected is released. What ends adopts nothing, and
//! what ends is not adopted.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube_core::{Selector, SelectorExt as _};

/// How an object stands to one that may own it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is ours and stays so.
    Ours,
    /// An orphan that shall be ours.
    Adopt,
    /// It was ours and shall be an orphan.
    Release,
    /// It is none of our business.
    Foreign,
}

/// The reference by which one controls what it owns, if there is one.
pub fn controller(object: &ObjectMeta) -> Option<&OwnerReference> {
    object.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Whether a selector selects an object. One that cannot be read, or is empty, selects nothing:
/// a controller that owned everything would be a disaster.
pub fn selects(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    let nothing = BTreeMap::new();
    Selector::try_from(selector.clone()).is_ok_and(|selector| {
        !selector.selects_all() && selector.matches(labels.unwrap_or(&nothing))
    })
}

/// How `object` stands to `owner`, which has this selector.
pub fn claim(owner: &ObjectMeta, selector: &LabelSelector, object: &ObjectMeta) -> Claim {
    let selected = selects(selector, object.labels.as_ref());
    let ends = owner.deletion_timestamp.is_some();
    match controller(object) {
        Some(known) if Some(&known.uid) != owner.uid.as_ref() => Claim::Foreign,
        Some(_) if selected || ends => Claim::Ours,
        Some(_) => Claim::Release,
        None if selected && !ends && object.deletion_timestamp.is_none() => Claim::Adopt,
        None => Claim::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn meta(uid: &str, label: &str, owner: Option<&str>) -> ObjectMeta {
        let owner = owner.map(|uid| OwnerReference {
            uid: uid.to_owned(),
            controller: Some(true),
            ..OwnerReference::default()
        });
        ObjectMeta {
            uid: Some(uid.to_owned()),
            labels: Some([("app".to_owned(), label.to_owned())].into()),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn orphans_are_adopted_strangers_released_and_others_left_alone() {
        let labels = [("app".to_owned(), "a".to_owned())].into();
        let selector = LabelSelector { match_labels: Some(labels), ..LabelSelector::default() };
        let mut owner = meta("o", "x", None);
        let rows = [
            ("a", None, Claim::Adopt),
            ("b", None, Claim::Foreign),
            ("a", Some("o"), Claim::Ours),
            ("b", Some("o"), Claim::Release),
            ("a", Some("p"), Claim::Foreign),
        ];
        for (label, owned, expected) in rows {
            assert_eq!(claim(&owner, &selector, &meta("x", label, owned)), expected);
        }
        let everything = LabelSelector::default();
        assert_eq!(claim(&owner, &everything, &meta("x", "a", None)), Claim::Foreign);
        let mut ends = meta("x", "a", None);
        ends.metadata_ends();
        assert_eq!(claim(&owner, &selector, &ends), Claim::Foreign);
        owner.metadata_ends();
        assert_eq!(claim(&owner, &selector, &meta("x", "a", None)), Claim::Foreign);
        assert_eq!(claim(&owner, &selector, &meta("x", "b", Some("o"))), Claim::Ours);
    }

    trait Ends {
        fn metadata_ends(&mut self);
    }

    impl Ends for ObjectMeta {
        fn metadata_ends(&mut self) {
            self.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        }
    }
}
