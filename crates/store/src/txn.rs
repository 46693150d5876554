//! Transactions: conditions, and what to do when they hold and when they do not.
//!
//! A transaction is atomic and its writes share one revision. A key may be written once in it, so
//! that a revision and a key name one value.

use std::sync::Arc;

use bytes::Bytes;

use crate::{Entry, Error, KeyRange, LeaseId, Revision};

/// If every condition holds, `then` is done, otherwise `otherwise`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// What must hold.
    pub conditions: Vec<Condition>,
    /// Done if it holds.
    pub then: Vec<Op>,
    /// Done if it does not.
    pub otherwise: Vec<Op>,
}

impl Txn {
    /// Does nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition.
    #[must_use]
    pub fn when(mut self, key: impl Into<Bytes>, test: Test) -> Self {
        self.conditions.push(Condition { key: key.into(), test });
        self
    }

    /// Adds something to do if the conditions hold.
    #[must_use]
    pub fn then(mut self, op: Op) -> Self {
        self.then.push(op);
        self
    }

    /// Adds something to do if they do not.
    #[must_use]
    pub fn otherwise(mut self, op: Op) -> Self {
        self.otherwise.push(op);
        self
    }

    /// Refuses what is malformed or too large, whichever branch would be taken.
    pub(crate) fn validate(&self, limits: &Limits) -> Result<(), Error> {
        let mut size = 0;
        for condition in &self.conditions {
            limits.check_key(&condition.key)?;
            size += condition.key.len();
            if let Test::Value(_, value) = &condition.test {
                size += value.len();
            }
        }
        check("conditions of a transaction", self.conditions.len(), limits.txn_ops)?;
        for branch in [&self.then, &self.otherwise] {
            check("operations of a transaction", branch.len(), limits.txn_ops)?;
            size += branch.iter().map(Op::size).sum::<usize>();
            validate_branch(branch, limits)?;
        }
        check("bytes of a transaction", size, limits.txn_bytes)
    }
}

fn validate_branch(ops: &[Op], limits: &Limits) -> Result<(), Error> {
    let mut written: Vec<&Bytes> = Vec::new();
    for op in ops {
        if let Op::Put { key, value, .. } = op {
            limits.check_key(key)?;
            check("bytes of a value", value.len(), limits.value_bytes)?;
            written.push(key);
        }
    }
    written.sort_unstable();
    if let Some(pair) = written.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::DuplicateKey { key: pair[0].clone() });
    }
    for op in ops {
        if let Op::Delete(range) = op {
            let next = written.partition_point(|key| **key < range.start());
            if let Some(key) = written.get(next).filter(|key| range.contains(key)) {
                return Err(Error::DuplicateKey { key: (*key).clone() });
            }
        }
    }
    Ok(())
}

fn check(what: &'static str, size: usize, limit: usize) -> Result<(), Error> {
    if size > limit { Err(Error::TooLarge { what, size, limit }) } else { Ok(()) }
}

/// Something that must hold for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The key.
    pub key: Bytes,
    /// What must hold for it.
    pub test: Test,
}

/// What must hold for a key. A key that does not exist counts as created and modified at
/// revision 0 with version 0, and no comparison with its value holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// It exists.
    Exists,
    /// It does not exist.
    Absent,
    /// The revision that wrote its value.
    Modified(Compare, Revision),
    /// The revision that created it.
    Created(Compare, Revision),
    /// How many times it was written since it was created.
    Version(Compare, u64),
    /// Its value.
    Value(Compare, Bytes),
}

impl Test {
    pub(crate) fn holds(&self, entry: Option<&Entry>) -> bool {
        match self {
            Self::Exists => entry.is_some(),
            Self::Absent => entry.is_none(),
            Self::Modified(compare, wanted) => {
                compare.holds(&entry.map_or(Revision(0), |entry| entry.modified), wanted)
            }
            Self::Created(compare, wanted) => {
                compare.holds(&entry.map_or(Revision(0), |entry| entry.created), wanted)
            }
            Self::Version(compare, wanted) => {
                compare.holds(&entry.map_or(0, |entry| entry.version), wanted)
            }
            Self::Value(compare, wanted) => {
                entry.is_some_and(|entry| compare.holds(&entry.value, wanted))
            }
        }
    }
}

/// How what is found must compare with what is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The same.
    Equal,
    /// Not the same.
    NotEqual,
    /// Less than given.
    Less,
    /// More than given.
    Greater,
}

impl Compare {
    fn holds<T: Ord>(self, found: &T, given: &T) -> bool {
        match self {
            Self::Equal => found == given,
            Self::NotEqual => found != given,
            Self::Less => found < given,
            Self::Greater => found > given,
        }
    }
}

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Writes a value. Without a lease the key is detached from the one it had.
    Put {
        /// The key.
        key: Bytes,
        /// Its value.
        value: Bytes,
        /// The lease whose end deletes it.
        lease: Option<LeaseId>,
    },
    /// Deletes every key in the range; that there is none is no error.
    Delete(KeyRange),
    /// Reads every key in the range, seeing what the steps before it wrote.
    Get(KeyRange),
}

impl Op {
    /// Writes a value that no lease ends.
    #[must_use]
    pub fn put(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self::Put { key: key.into(), value: value.into(), lease: None }
    }

    /// Deletes one key.
    #[must_use]
    pub fn delete(key: impl Into<Bytes>) -> Self {
        Self::Delete(KeyRange::single(key))
    }

    /// Reads one key.
    #[must_use]
    pub fn get(key: impl Into<Bytes>) -> Self {
        Self::Get(KeyRange::single(key))
    }

    fn size(&self) -> usize {
        match self {
            Self::Put { key, value, .. } => key.len() + value.len(),
            Self::Delete(range) | Self::Get(range) => {
                range.start().len() + range.end().map_or(0, Bytes::len)
            }
        }
    }
}

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnOutcome {
    /// Whether the conditions held.
    pub succeeded: bool,
    /// The store's revision after it: its own if it wrote, else the one it read at.
    pub revision: Revision,
    /// What became of each step of the branch that was taken, in order.
    pub results: Vec<OpResult>,
}

/// What became of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpResult {
    /// It wrote.
    Put {
        /// What the key holds now.
        entry: Arc<Entry>,
        /// What it held before, if it existed.
        previous: Option<Arc<Entry>>,
    },
    /// It deleted these, in key order.
    Delete(Vec<Arc<Entry>>),
    /// It read these, in key order.
    Get(Vec<Arc<Entry>>),
}

/// How large things may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Bytes of a transaction's keys and values.
    pub txn_bytes: usize,
    /// Conditions, and operations of either branch.
    pub txn_ops: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // A Kubernetes object may have 1.5 MiB in etcd, where that bounds the whole request; 128
        // is etcd's bound on operations.
        Self { key_bytes: 4096, value_bytes: 3 << 19, txn_bytes: 8 << 20, txn_ops: 128 }
    }
}

impl Limits {
    fn check_key(&self, key: &Bytes) -> Result<(), Error> {
        if key.is_empty() {
            return Err(Error::EmptyKey);
        }
        check("bytes of a key", key.len(), self.key_bytes)
    }
}
