//! The versions of one key.

use std::sync::Arc;

use crate::{Entry, Revision};

/// Where a change stands in history: its revision, and its place among that revision's changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) revision: Revision,
    pub(crate) sub: u32,
}

/// What a key held from a position on; nothing, if that deleted it.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) at: Position,
    pub(crate) entry: Option<Arc<Entry>>,
}

/// The versions of one key, oldest first. Most keys have one, which then costs no allocation.
#[derive(Clone, Debug)]
pub(crate) struct History {
    older: Vec<Version>,
    latest: Version,
}

impl History {
    pub(crate) const fn new(first: Version) -> Self {
        Self { older: Vec::new(), latest: first }
    }

    pub(crate) fn push(&mut self, version: Version) {
        self.older.push(std::mem::replace(&mut self.latest, version));
    }

    pub(crate) const fn latest(&self) -> Option<&Arc<Entry>> {
        self.latest.entry.as_ref()
    }

    /// What the key held at a revision.
    pub(crate) fn at(&self, revision: Revision) -> Option<&Arc<Entry>> {
        if self.latest.at.revision <= revision {
            return self.latest();
        }
        let later = self.older.partition_point(|version| version.at.revision <= revision);
        self.older[..later].last()?.entry.as_ref()
    }

    pub(crate) fn versions(&self) -> impl Iterator<Item = &Version> {
        self.older.iter().chain([&self.latest])
    }

    /// The versions that no read at `revision` or later can see: all but the newest up to there,
    /// and that too if it is a deletion.
    pub(crate) fn unseen_from(&self, revision: Revision) -> impl Iterator<Item = &Version> {
        let passed = self.versions().take_while(|version| version.at.revision <= revision).count();
        let seen = self.versions().nth(passed.saturating_sub(1));
        let keep = usize::from(seen.is_some_and(|version| version.entry.is_some()));
        self.versions().take(passed.saturating_sub(keep))
    }

    /// Drops those versions, and says whether any is left.
    pub(crate) fn compact(&mut self, revision: Revision) -> bool {
        let unseen = self.unseen_from(revision).count();
        if unseen > self.older.len() {
            return false;
        }
        self.older.drain(..unseen);
        self.older.shrink_to_fit();
        true
    }
}
