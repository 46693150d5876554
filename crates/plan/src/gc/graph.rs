//! Who owns whom, by UID.
//!
//! Guarantees: every change says which objects must be looked at again, and no other. An owner that
//! nobody has seen is not in the graph; whoever names it finds out by asking the API.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::{FOREGROUND, ORPHAN};

/// A group and a kind. Versions of one kind are one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// The API group; empty for the core.
    pub group: String,
    /// `ReplicaSet`
    pub kind: String,
}

impl Kind {
    /// A kind of a group.
    pub fn new(group: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), kind: kind.into() }
    }

    /// The kind that an owner reference names.
    pub fn of(reference: &OwnerReference) -> Self {
        let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
        Self::new(group, reference.kind.clone())
    }
}

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Empty for an object of the whole cluster.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// What the collector knows of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// What it is.
    pub kind: Kind,
    /// Where it is.
    pub place: Place,
    /// Which it is.
    pub uid: String,
    /// At which revision it was seen.
    pub resource_version: String,
    /// Its owners.
    pub owners: Vec<OwnerReference>,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// Somebody has deleted it.
    pub deleting: bool,
}

impl Item {
    /// Whether it has a finalizer.
    pub fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|known| known == finalizer)
    }

    /// Whether an owner waits for it.
    pub fn blocks(&self, owner: &str) -> bool {
        let mine = self.owners.iter().find(|reference| reference.uid == owner);
        mine.is_some_and(|reference| reference.block_owner_deletion == Some(true))
    }

    /// It waits for its dependents, or sets them free.
    fn has_duty(&self) -> bool {
        self.deleting && (self.has(FOREGROUND) || self.has(ORPHAN))
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    items: BTreeMap<String, Item>,
    dependents: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// An object.
    pub fn get(&self, uid: &str) -> Option<&Item> {
        self.items.get(uid)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// What names an object as an owner and may do so: what is in its namespace, and everything if
    /// it is in none.
    pub fn dependents(&self, item: &Item) -> Vec<Item> {
        let uids = self.dependents.get(&item.uid).into_iter().flatten();
        let within = |dependent: &&Item| {
            item.place.namespace.is_empty() || item.place.namespace == dependent.place.namespace
        };
        uids.filter_map(|uid| self.items.get(uid)).filter(within).cloned().collect()
    }

    /// An object was seen. Says what to look at again.
    pub fn put(&mut self, item: Item) -> BTreeSet<String> {
        let uid = item.uid.clone();
        let old = self.items.get(&uid);
        let mut again = BTreeSet::new();
        if !item.owners.is_empty() || item.has_duty() {
            again.insert(uid.clone());
        }
        // Its dependents care whether it is there, and whether it waits for them.
        let duty = |item: &Item| (item.deleting, item.has(FOREGROUND));
        if old.is_none_or(|old| duty(old) != duty(&item)) {
            again.extend(self.dependents.get(&uid).into_iter().flatten().cloned());
        }
        // An owner that waits cares whether this one still blocks it.
        let before = old.map(|old| old.owners.clone()).unwrap_or_default();
        for reference in before.iter().chain(&item.owners) {
            if self.items.get(&reference.uid).is_some_and(Item::has_duty) {
                again.insert(reference.uid.clone());
            }
        }
        self.unlink(&uid, &before);
        for reference in &item.owners {
            self.dependents.entry(reference.uid.clone()).or_default().insert(uid.clone());
        }
        self.items.insert(uid, item);
        again
    }

    /// An object is gone. Says what to look at again.
    pub fn remove(&mut self, uid: &str) -> BTreeSet<String> {
        let Some(item) = self.items.remove(uid) else { return BTreeSet::new() };
        self.unlink(uid, &item.owners);
        let mut again: BTreeSet<String> =
            self.dependents.get(uid).into_iter().flatten().cloned().collect();
        again.extend(
            item.owners
                .iter()
                .map(|owner| owner.uid.clone())
                .filter(|owner| self.items.get(owner).is_some_and(Item::has_duty)),
        );
        again
    }

    /// Every object that names an owner of some kind: what to look at when the kind is served anew.
    pub fn owned_by_kind(&self, kind: &Kind) -> BTreeSet<String> {
        let names = |item: &&Item| item.owners.iter().any(|owner| Kind::of(owner) == *kind);
        self.items.values().filter(names).map(|item| item.uid.clone()).collect()
    }

    /// Every object of some kind.
    pub fn of_kind(&self, kind: &Kind) -> BTreeSet<String> {
        let is = |item: &&Item| item.kind == *kind;
        self.items.values().filter(is).map(|item| item.uid.clone()).collect()
    }

    fn unlink(&mut self, uid: &str, owners: &[OwnerReference]) {
        for owner in owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(uid: &str, owners: &[&str], deleting: &[&str]) -> Item {
        let reference = |owner: &&str| OwnerReference {
            uid: (*owner).to_owned(),
            kind: "Thing".to_owned(),
            ..OwnerReference::default()
        };
        Item {
            kind: Kind::new("", "Thing"),
            place: Place { namespace: "n".to_owned(), name: uid.to_owned() },
            uid: uid.to_owned(),
            resource_version: String::new(),
            owners: owners.iter().map(reference).collect(),
            finalizers: deleting.iter().map(|f| (*f).to_owned()).collect(),
            deleting: !deleting.is_empty(),
        }
    }

    fn set(uids: &[&str]) -> BTreeSet<String> {
        uids.iter().map(|uid| (*uid).to_owned()).collect()
    }

    #[test]
    fn dependents_are_looked_at_when_their_owner_comes_goes_or_waits() {
        let mut graph = Graph::default();
        assert_eq!(graph.put(item("child", &["owner"], &[])), set(&["child"]));
        assert_eq!(graph.put(item("owner", &[], &[])), set(&["child"]));
        assert_eq!(graph.put(item("owner", &[], &[])), set(&[]));
        assert_eq!(graph.put(item("owner", &[], &[FOREGROUND])), set(&["child", "owner"]));
        assert_eq!(graph.remove("child"), set(&["owner"]));
        assert_eq!(graph.remove("owner"), set(&[]));
        assert!(graph.is_empty() && graph.dependents.is_empty());
    }

    #[test]
    fn an_owner_that_waits_is_looked_at_when_a_dependent_lets_go() {
        let mut graph = Graph::default();
        graph.put(item("child", &["owner"], &[]));
        graph.put(item("owner", &[], &[FOREGROUND]));
        assert_eq!(graph.put(item("child", &[], &[])), set(&["owner"]));
        assert_eq!(graph.dependents(&item("owner", &[], &[])), []);
    }
}
