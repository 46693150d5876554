//! What the store holds and what it says happened: revisions, entries, events.
//!
//! All of it is immutable once made and shared by reference count, so a list or a watch hands out
//! pointers and copies no bytes.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// A point in the store's history. Every transaction that writes gets the next one; a new store
/// stands at 1, so its first write is 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// Where a new store stands.
    pub const FIRST: Self = Self(1);

    /// The revision after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The revision before this one.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names a lease; unique for the life of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A key with one of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// When the key came into being, counted from its last deletion.
    pub created: Revision,
    /// When this value was written.
    pub modified: Revision,
    /// How many times the key was written since it was created; the first write is 1.
    pub version: u64,
    /// The lease whose end deletes the key.
    pub lease: Option<LeaseId>,
}

/// Says under which other key an entry is found too, if under any; as [`Store::alias`] takes it. It
/// must say the same of the same entry for ever.
///
/// [`Store::alias`]: crate::Store::alias
pub type Alias = fn(&Entry) -> Option<Bytes>;

/// One change to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The key got a value.
    Put {
        /// What it holds now.
        entry: Arc<Entry>,
        /// What it held before, if it existed.
        previous: Option<Arc<Entry>>,
    },
    /// The key went away.
    Delete {
        /// The key.
        key: Bytes,
        /// When.
        revision: Revision,
        /// What it held last.
        previous: Arc<Entry>,
    },
}

impl Event {
    /// When it happened.
    #[must_use]
    pub fn revision(&self) -> Revision {
        match self {
            Self::Put { entry, .. } => entry.modified,
            Self::Delete { revision, .. } => *revision,
        }
    }

    /// The key it happened to.
    #[must_use]
    pub fn key(&self) -> &Bytes {
        match self {
            Self::Put { entry, .. } => &entry.key,
            Self::Delete { key, .. } => key,
        }
    }

    /// What the key holds after it; `None` after a deletion.
    #[must_use]
    pub fn entry(&self) -> Option<&Arc<Entry>> {
        match self {
            Self::Put { entry, .. } => Some(entry),
            Self::Delete { .. } => None,
        }
    }

    /// What the key held before it; `None` if it did not exist.
    #[must_use]
    pub fn previous(&self) -> Option<&Arc<Entry>> {
        match self {
            Self::Put { previous, .. } => previous.as_ref(),
            Self::Delete { previous, .. } => Some(previous),
        }
    }
}
