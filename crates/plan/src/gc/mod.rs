//! Garbage collection: what becomes of objects whose owners go.
//!
//! [`Graph`] keeps who owns whom; [`plan`] decides about one object. The rules are Kubernetes': an
//! object goes when its last owner is gone; an owner that is deleted in the foreground stays until
//! the dependents that block it are gone; one that orphans sets its dependents free first; an owner
//! in another namespace is no owner.

mod graph;

pub use self::graph::{Graph, Item, Kind, Place};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// The finalizer of an owner that waits for its dependents.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner that sets its dependents free.
pub const ORPHAN: &str = "orphan";

/// What is known of one owner that an object names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It is there, and stays or has already let go.
    Solid,
    /// It is not there.
    Absent,
    /// It goes as soon as its dependents have gone.
    Waiting,
    /// Nobody can say: its kind is not served.
    Unknown,
}

/// All that a decision rests on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The object.
    pub item: Item,
    /// What it says of its owners, and what is known of them.
    pub owners: Vec<(OwnerReference, Owner)>,
    /// Owners that are named across namespaces.
    pub misplaced: Vec<OwnerReference>,
    /// What names it as an owner.
    pub dependents: Vec<Item>,
}

/// How what the object owns is to be treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Afterwards.
    Background,
    /// First.
    Foreground,
    /// Set free.
    Orphan,
}

/// One thing to do. Each names the object's UID and revision, and is refused if they are others.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Delete the object.
    Delete(Item, Propagation),
    /// The object keeps these owners and loses the others.
    KeepOwners(Item, Vec<OwnerReference>),
    /// Take a finalizer from the object.
    Finish(Item, &'static str),
}

/// What shall be done about an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// In this order; the first that fails ends it.
    pub actions: Vec<Action>,
    /// Owner references that deserve a warning.
    pub misplaced: Vec<OwnerReference>,
}

/// Decides about one object.
pub fn plan(observed: &Observed) -> Plan {
    let item = &observed.item;
    let actions = if item.deleting && item.has(ORPHAN) {
        orphan(observed)
    } else if item.deleting && item.has(FOREGROUND) {
        // Dependents that block are deleted by their own plans.
        let blocked = observed.dependents.iter().any(|dependent| dependent.blocks(&item.uid));
        if blocked { Vec::new() } else { vec![Action::Finish(item.clone(), FOREGROUND)] }
    } else if item.deleting || observed.owners.is_empty() {
        Vec::new()
    } else {
        collect(observed)
    };
    Plan { actions, misplaced: observed.misplaced.clone() }
}

fn orphan(observed: &Observed) -> Vec<Action> {
    let item = &observed.item;
    let mut actions: Vec<Action> = Vec::new();
    for dependent in &observed.dependents {
        let keep = dependent.owners.iter().filter(|owner| owner.uid != item.uid).cloned().collect();
        actions.push(Action::KeepOwners(dependent.clone(), keep));
    }
    actions.push(Action::Finish(item.clone(), ORPHAN));
    actions
}

fn collect(observed: &Observed) -> Vec<Action> {
    let item = &observed.item;
    let are = |state| observed.owners.iter().any(|(_, owner)| *owner == state);
    if are(Owner::Unknown) {
        return Vec::new();
    }
    if are(Owner::Solid) {
        let keep: Vec<OwnerReference> = observed
            .owners
            .iter()
            .filter(|(_, owner)| *owner == Owner::Solid)
            .map(|(reference, _)| reference.clone())
            .collect();
        let loses = keep.len() < observed.owners.len();
        return if loses { vec![Action::KeepOwners(item.clone(), keep)] } else { Vec::new() };
    }
    if are(Owner::Waiting) && !observed.dependents.is_empty() {
        let mut actions = Vec::new();
        // Owners in a ring would wait for each other for ever: this one stops to block its own.
        if observed
            .dependents
            .iter()
            .any(|dependent| dependent.deleting && dependent.has(FOREGROUND))
        {
            let unblocked = item
                .owners
                .iter()
                .map(|owner| OwnerReference { block_owner_deletion: Some(false), ..owner.clone() });
            actions.push(Action::KeepOwners(item.clone(), unblocked.collect()));
        }
        actions.push(Action::Delete(item.clone(), Propagation::Foreground));
        return actions;
    }
    let propagation = if item.has(ORPHAN) {
        Propagation::Orphan
    } else if item.has(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    vec![Action::Delete(item.clone(), propagation)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(uid: &str, blocks: bool) -> OwnerReference {
        OwnerReference {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            name: uid.to_owned(),
            uid: uid.to_owned(),
            block_owner_deletion: Some(blocks),
            controller: None,
        }
    }

    fn item(uid: &str, owners: &[OwnerReference], finalizers: &[&str], deleting: bool) -> Item {
        Item {
            kind: Kind::new("", "ConfigMap"),
            place: Place { namespace: "n".to_owned(), name: uid.to_owned() },
            uid: uid.to_owned(),
            resource_version: "1".to_owned(),
            owners: owners.to_vec(),
            finalizers: finalizers.iter().map(|f| (*f).to_owned()).collect(),
            deleting,
        }
    }

    fn decide(item: Item, owners: &[Owner], dependents: &[Item]) -> Vec<Action> {
        let owners = item.owners.clone().into_iter().zip(owners.iter().copied()).collect();
        let dependents = dependents.to_vec();
        plan(&Observed { item, owners, misplaced: Vec::new(), dependents }).actions
    }

    #[test]
    fn an_object_goes_with_its_last_owner_and_not_before() {
        let both = [reference("a", true), reference("b", true)];
        let it = item("x", &both, &[], false);
        use Owner::{Absent, Solid, Unknown, Waiting};
        let delete = |how| vec![Action::Delete(it.clone(), how)];
        let keep =
            |owner: &OwnerReference| vec![Action::KeepOwners(it.clone(), vec![owner.clone()])];
        assert_eq!(decide(it.clone(), &[Solid, Solid], &[]), []);
        assert_eq!(decide(it.clone(), &[Solid, Absent], &[]), keep(&both[0]));
        assert_eq!(decide(it.clone(), &[Waiting, Solid], &[]), keep(&both[1]));
        assert_eq!(decide(it.clone(), &[Absent, Unknown], &[]), []);
        assert_eq!(decide(it.clone(), &[Absent, Absent], &[]), delete(Propagation::Background));
        assert_eq!(decide(it.clone(), &[Waiting, Absent], &[]), delete(Propagation::Background));
        let child = item("c", &[reference("x", true)], &[], false);
        assert_eq!(
            decide(it.clone(), &[Waiting, Absent], &[child]),
            delete(Propagation::Foreground)
        );
        assert_eq!(decide(item("x", &[], &[], false), &[], &[]), []);
    }

    #[test]
    fn a_finalizer_that_is_there_already_says_how() {
        let owners = [reference("a", true)];
        for (finalizer, how) in
            [(ORPHAN, Propagation::Orphan), (FOREGROUND, Propagation::Foreground)]
        {
            let it = item("x", &owners, &[finalizer], false);
            assert_eq!(decide(it.clone(), &[Owner::Absent], &[]), [Action::Delete(it, how)]);
        }
    }

    #[test]
    fn an_owner_waits_for_those_that_block_it() {
        let owner = item("x", &[], &[FOREGROUND], true);
        let blocking = item("c", &[reference("x", true)], &[], false);
        let other = item("d", &[reference("x", false)], &[], false);
        assert_eq!(decide(owner.clone(), &[], &[blocking, other.clone()]), []);
        assert_eq!(decide(owner.clone(), &[], &[other]), [Action::Finish(owner, FOREGROUND)]);
    }

    #[test]
    fn an_owner_that_orphans_frees_all_and_then_goes() {
        let owner = item("x", &[], &[ORPHAN], true);
        let child = item("c", &[reference("x", true), reference("y", true)], &[], false);
        let expect = [
            Action::KeepOwners(child.clone(), vec![reference("y", true)]),
            Action::Finish(owner.clone(), ORPHAN),
        ];
        assert_eq!(decide(owner, &[], &[child]), expect);
    }

    #[test]
    fn a_ring_of_owners_is_broken() {
        let it = item("x", &[reference("a", true)], &[], false);
        let child = item("a", &[reference("x", true)], &[FOREGROUND], true);
        let expect = [
            Action::KeepOwners(it.clone(), vec![reference("a", false)]),
            Action::Delete(it.clone(), Propagation::Foreground),
        ];
        assert_eq!(decide(it, &[Owner::Waiting], &[child]), expect);
    }

    #[test]
    fn what_is_being_deleted_is_left_to_its_end() {
        let it = item("x", &[reference("a", true)], &["somebody/else"], true);
        assert_eq!(decide(it, &[Owner::Absent], &[]), []);
    }
}
