//! The API's side of the world: objects, with every version that they had.
//!
//! Whoever watches has seen each object up to one of its versions ([`Seen`]); what is stored is the
//! last. Versions are shared, so that a world is copied by copying pointers.

use api::{Breaker, Incident, Ledger, Machine};
use plan::node::{NodeSeen, PodSeen};
use std::rc::Rc;

/// The machines of a world.
pub(super) const MACHINES: usize = 8;
const NODES: usize = MACHINES;
const PODS: usize = 2 * MACHINES;
pub(super) const LEDGER: usize = 3 * MACHINES;

/// One version of an object.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Machine(Rc<Machine>),
    Node(Rc<NodeSeen>),
    Pods(Rc<Vec<PodSeen>>),
    Incident(Rc<Incident>),
    Ledger(Rc<Ledger>),
    Breaker(Rc<Breaker>),
    Gone,
}

/// What an object is, and of which machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Machine(usize),
    Node(usize),
    Pods(usize),
    Incident(usize),
    Ledger,
    Breaker,
}

/// Up to which version each object has been seen; an object beyond the end has not been seen.
pub(super) type Seen = Vec<u32>;

#[derive(Clone, Debug)]
struct Version {
    number: u64,
    value: Value,
}

#[derive(Clone, Debug)]
struct Object {
    kind: Kind,
    versions: Vec<Version>,
}

/// Every object.
#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    objects: Vec<Object>,
    number: u64,
}

impl Store {
    /// Adds an object that no watch has seen.
    pub(super) fn add(&mut self, kind: Kind, value: Value) -> usize {
        self.objects.push(Object { kind, versions: Vec::with_capacity(4) });
        let id = self.objects.len() - 1;
        self.put(id, value);
        id
    }

    /// Writes a version.
    pub(super) fn put(&mut self, id: usize, value: Value) {
        self.number += 1;
        let number = self.number;
        if let Some(object) = self.objects.get_mut(id) {
            object.versions.push(Version { number, value });
        }
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn kind(&self, id: usize) -> Option<Kind> {
        self.objects.get(id).map(|object| object.kind)
    }

    /// How many versions an object has had.
    pub(super) fn versions(&self, id: usize) -> u32 {
        self.objects.get(id).map_or(0, |o| u32::try_from(o.versions.len()).unwrap_or(u32::MAX))
    }

    /// The number of the last version.
    pub(super) fn number(&self, id: usize) -> u64 {
        self.objects.get(id).and_then(|o| o.versions.last()).map_or(0, |v| v.number)
    }

    /// Forgets all versions but the last.
    pub(super) fn compact(&mut self) {
        for object in &mut self.objects {
            if let Some(last) = object.versions.pop() {
                object.versions.clear();
                object.versions.push(last);
            }
        }
    }

    /// What is stored.
    pub(super) fn live(&self) -> View<'_> {
        View { store: self, seen: None }
    }

    /// What a watch has seen.
    pub(super) fn seen<'a>(&'a self, seen: &'a Seen) -> View<'a> {
        View { store: self, seen: Some(seen) }
    }
}

/// Objects as somebody sees them.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    store: &'a Store,
    seen: Option<&'a Seen>,
}

impl<'a> View<'a> {
    fn version(&self, id: usize) -> Option<&'a Version> {
        let versions = &self.store.objects.get(id)?.versions;
        match self.seen {
            None => versions.last(),
            Some(seen) => {
                let upto = usize::try_from(*seen.get(id)?).ok()?;
                versions.get(upto.checked_sub(1)?)
            }
        }
    }

    /// The number of the version that is seen; 0 for none.
    pub(super) fn number(&self, id: usize) -> u64 {
        self.version(id).map_or(0, |version| version.number)
    }

    pub(super) fn machine(&self, index: usize) -> Option<&'a Rc<Machine>> {
        match &self.version(index)?.value {
            Value::Machine(machine) => Some(machine),
            _ => None,
        }
    }

    pub(super) fn node(&self, index: usize) -> Option<&'a Rc<NodeSeen>> {
        match &self.version(NODES + index)?.value {
            Value::Node(node) => Some(node),
            _ => None,
        }
    }

    pub(super) fn pods(&self, index: usize) -> &'a [PodSeen] {
        match self.version(PODS + index).map(|version| &version.value) {
            Some(Value::Pods(pods)) => pods,
            _ => &[],
        }
    }

    pub(super) fn ledger(&self) -> Option<&'a Rc<Ledger>> {
        match &self.version(LEDGER)?.value {
            Value::Ledger(ledger) => Some(ledger),
            _ => None,
        }
    }

    /// Every incident with its id, the oldest first.
    pub(super) fn incidents(self) -> impl Iterator<Item = (usize, &'a Rc<Incident>)> {
        (LEDGER + 1..self.store.len()).filter_map(move |id| match &self.version(id)?.value {
            Value::Incident(incident) => Some((id, incident)),
            _ => None,
        })
    }

    /// Every breaker with its id.
    pub(super) fn breakers(self) -> impl Iterator<Item = (usize, &'a Rc<Breaker>)> {
        (LEDGER + 1..self.store.len()).filter_map(move |id| match &self.version(id)?.value {
            Value::Breaker(breaker) => Some((id, breaker)),
            _ => None,
        })
    }
}

/// The id of a machine's node.
pub(super) const fn node_id(index: usize) -> usize {
    NODES + index
}

/// The id of the pods of a machine's node.
pub(super) const fn pods_id(index: usize) -> usize {
    PODS + index
}

/// Whether an incident is not over.
pub(super) fn is_open(incident: &Incident) -> bool {
    incident.status.as_ref().is_none_or(|status| status.closed.is_none())
}
