//! Whether a namespace gets its `default` service account.

/// The account that pods have unless they name another.
pub const NAME: &str = "default";

/// All that the decision rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The namespace does not end.
    pub active: bool,
    /// It has the account.
    pub present: bool,
}

/// Whether to create the account: it comes back whoever deletes it, but not into what ends.
pub fn plan(observed: Observed) -> bool {
    observed.active && !observed.present
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_living_namespace_without_an_account_gets_one() {
        let decide = |active, present| plan(Observed { active, present });
        assert!(decide(true, false));
        assert!(!decide(true, true) && !decide(false, false) && !decide(false, true));
    }
}
