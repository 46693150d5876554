//! Which of many ranges hold a key: an interval tree over the sorted ranges, laid out flat.
//!
//! Thousands of watched ranges must not cost a write that touches one of them, so the lookup takes
//! a logarithmic number of steps per range found.

use std::collections::BTreeMap;

use crate::KeyRange;

/// Values by range, of which each range has one.
#[derive(Debug)]
pub(super) struct Ranges<T> {
    values: BTreeMap<KeyRange, T>,
    /// The values in order of their ranges, read as a balanced tree: the root is in the middle,
    /// its subtrees on either side. Empty while out of date.
    nodes: Vec<Node<T>>,
}

#[derive(Debug)]
struct Node<T> {
    range: KeyRange,
    value: T,
    /// The node with the furthest end in the subtree below this one.
    furthest: usize,
}

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Self { values: BTreeMap::new(), nodes: Vec::new() }
    }
}

impl<T: Clone> Ranges<T> {
    pub(super) fn get(&self, range: &KeyRange) -> Option<&T> {
        self.values.get(range)
    }

    pub(super) fn insert(&mut self, range: KeyRange, value: T) {
        self.nodes.clear();
        self.values.insert(range, value);
    }

    pub(super) fn remove(&mut self, range: &KeyRange) {
        self.nodes.clear();
        self.values.remove(range);
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.values.values()
    }

    /// Calls `found` with the value of each range that holds `key`, in order of the ranges.
    pub(super) fn holding(&mut self, key: &[u8], found: &mut impl FnMut(&T)) {
        if self.nodes.len() != self.values.len() {
            self.nodes = self
                .values
                .iter()
                .enumerate()
                .map(|(furthest, (range, value))| Node {
                    range: range.clone(),
                    value: value.clone(),
                    furthest,
                })
                .collect();
            self.link(0, self.nodes.len());
        }
        self.search(0, self.nodes.len(), key, found);
    }

    /// Finds the furthest end in each subtree; the depth is logarithmic.
    fn link(&mut self, low: usize, high: usize) -> Option<usize> {
        if low == high {
            return None;
        }
        let root = low + (high - low) / 2;
        let below = [self.link(low, root), self.link(root + 1, high)];
        let furthest = below
            .into_iter()
            .flatten()
            .fold(root, |best, other| if self.ends_after(other, best) { other } else { best });
        self.nodes[root].furthest = furthest;
        Some(furthest)
    }

    fn ends_after(&self, one: usize, other: usize) -> bool {
        match (self.nodes[one].range.end(), self.nodes[other].range.end()) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(one), Some(other)) => one > other,
        }
    }

    fn search(&self, low: usize, high: usize, key: &[u8], found: &mut impl FnMut(&T)) {
        if low == high {
            return;
        }
        let root = low + (high - low) / 2;
        let node = &self.nodes[root];
        if self.nodes[node.furthest].range.end().is_some_and(|end| *end <= key) {
            return;
        }
        self.search(low, root, key, found);
        if *node.range.start() <= key {
            if node.range.contains(key) {
                found(&node.value);
            }
            self.search(root + 1, high, key, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range() -> impl Strategy<Value = KeyRange> {
        let key = || proptest::collection::vec(0_u8..4, 0..4);
        prop_oneof![
            key().prop_map(KeyRange::prefix),
            key().prop_map(KeyRange::single),
            key().prop_map(KeyRange::from),
            (key(), key()).prop_map(|(start, end)| KeyRange::half_open(start, end)),
        ]
    }

    proptest! {
        #[test]
        fn finds_what_a_scan_finds(
            present in proptest::collection::btree_set(range(), 0..40),
            removed in proptest::collection::vec(range(), 0..10),
            key in proptest::collection::vec(0_u8..4, 0..5),
        ) {
            let mut ranges = Ranges::default();
            let mut expected = present.clone();
            for range in present {
                ranges.insert(range.clone(), range);
            }
            ranges.holding(&key, &mut |_| {});
            for range in &removed {
                ranges.remove(range);
                expected.remove(range);
            }
            let mut found = Vec::new();
            ranges.holding(&key, &mut |range| found.push(range.clone()));
            expected.retain(|range| range.contains(&key));
            prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
