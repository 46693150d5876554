//! Who waits for which budget, so that freeing one brings back those who may now have it and nobody
//! else.
//!
//! Nodes that the same budget denies for the same kind of grant stand in one line, the oldest
//! incident first: what is refused to one of them is refused to all. So only the first is called.
//! One that leaves its line calls the next, one that stays calls nobody; a wave of `n` nodes costs
//! `n` looks, not `n` for each grant that is returned.

use std::collections::{BTreeMap, BTreeSet};

use api::ledger::Kind;
use jiff::Timestamp;
use plan::budget::Scope;

/// What makes nodes be denied alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Denial {
    /// The budget that is used up.
    pub(super) scope: Scope,
    /// What for.
    pub(super) kind: Kind,
    /// Whether the node itself counts as out: it does not stand in its own way.
    pub(super) out: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Lines {
    places: BTreeMap<String, (Denial, Timestamp)>,
    lines: BTreeMap<Denial, BTreeSet<(Timestamp, String)>>,
    /// How often something was freed.
    freed: u64,
}

impl Lines {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Changes with everything that is freed.
    pub(super) fn freed(&self) -> u64 {
        self.freed
    }

    /// Something of a budget was freed, or all budgets changed: who is to be looked at.
    pub(super) fn free(&mut self, is: impl Fn(&Scope) -> bool) -> Vec<String> {
        self.freed += 1;
        let lines = self.lines.iter().filter(|(denial, _)| is(&denial.scope));
        lines.filter_map(|(_, line)| line.first().map(|(_, name)| name.clone())).collect()
    }

    /// A node was looked at: it is denied or not. Says who is to be looked at next.
    pub(super) fn settle(
        &mut self,
        name: &str,
        denied: Option<(Denial, Timestamp)>,
    ) -> Option<String> {
        if self.places.get(name) == denied.as_ref() {
            return None;
        }
        let left = self.places.remove(name);
        let mut next = None;
        if let Some((denial, since)) = left
            && let Some(line) = self.lines.get_mut(&denial)
        {
            line.remove(&(since, name.to_owned()));
            next = line.first().map(|(_, name)| name.clone());
            if line.is_empty() {
                self.lines.remove(&denial);
            }
        }
        if let Some((denial, since)) = denied {
            self.lines.entry(denial.clone()).or_default().insert((since, name.to_owned()));
            self.places.insert(name.to_owned(), (denial, since));
        }
        next
    }

    /// A node could not be treated, for reasons of its own: who may have its turn.
    pub(super) fn after(&self, name: &str) -> Option<String> {
        use std::ops::Bound::{Excluded, Unbounded};
        let (denial, since) = self.places.get(name)?;
        let from = (*since, name.to_owned());
        let mut rest = self.lines.get(denial)?.range((Excluded(from), Unbounded));
        rest.next().map(|(_, name)| name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(scope: Scope) -> Denial {
        Denial { scope, kind: Kind::Repair, out: false }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_first_is_called_and_calls_the_next_only_if_it_leaves() {
        let mut lines = Lines::default();
        for (name, since) in [("b", 1), ("a", 2), ("c", 3)] {
            let denied = Some((denial(Scope::Fleet), at(since)));
            assert_eq!(lines.settle(name, denied), None);
        }
        let fleet = |scope: &Scope| *scope == Scope::Fleet;
        assert_eq!(lines.free(fleet), ["b"], "the oldest");
        assert_eq!(lines.settle("b", None).as_deref(), Some("a"));
        assert_eq!(lines.settle("a", Some((denial(Scope::Fleet), at(2)))), None, "stays");
        assert_eq!(lines.after("a").as_deref(), Some("c"));
        assert_eq!(lines.after("c"), None);
        let rack = Some((denial(Scope::Rack("r".to_owned())), at(2)));
        assert_eq!(lines.settle("a", rack).as_deref(), Some("c"), "denied by another now");
        assert_eq!((lines.free(fleet), lines.len()), (vec!["c".to_owned()], 2));
        assert_eq!(lines.free(|_| true), ["c", "a"]);
        assert_eq!(lines.freed(), 3);
    }

    #[test]
    fn a_thousand_that_wait_cost_two_looks_for_each_that_goes_on() {
        let mut lines = Lines::default();
        for node in 0..1_000 {
            lines.settle(&format!("n{node:04}"), Some((denial(Scope::Fleet), at(node))));
        }
        let mut looks = 0;
        while lines.len() > 0 {
            let mut next = lines.free(|_| true).pop();
            // One grant at a time: the first has it, the second is denied again.
            let mut grants = 1;
            while let Some(name) = next {
                looks += 1;
                let denied = (grants == 0).then(|| lines.places[&name].clone());
                grants = 0;
                next = lines.settle(&name, denied);
            }
        }
        assert!(looks < 2_000, "{looks}");
    }
}
