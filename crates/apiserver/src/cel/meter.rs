//! What evaluation has cost so far, and how it fails.
//!
//! Two counters: `cost` is Kubernetes' own currency, known to users from its limits; `work` counts
//! what that currency does not price (deep comparison, characters walked by cheap functions), so
//! that no rule holds a thread for long. Running out of either looks the same from outside.

/// The most a single evaluation may cost.
pub(super) const CALL_LIMIT: u64 = 1_000_000;

/// The most unpriced work of a single evaluation; about as long as [`CALL_LIMIT`] takes.
const WORK_LIMIT: u64 = 10_000_000;

/// The longest string or list that evaluation will build: what the whole cost limit would pay for.
pub(super) const BUILD_LIMIT: usize = 10_000_000;

/// Why an evaluation has no value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fail {
    /// An error that `||`, `&&` and ternaries may still absorb.
    Error(String),
    /// Out of cost; ends everything.
    Cost,
}

/// An error, as the value of any evaluation.
pub(super) fn fail<T>(message: impl Into<String>) -> Result<T, Fail> {
    Err(Fail::Error(message.into()))
}

/// No overload takes arguments of these types.
pub(super) fn no_overload<T>() -> Result<T, Fail> {
    fail("no such overload")
}

/// The counters of one evaluation.
#[derive(Debug, Default)]
pub(super) struct Meter {
    pub(super) cost: u64,
    work: u64,
}

impl Meter {
    /// Pays a price.
    pub(super) fn charge(&mut self, cost: u64) -> Result<(), Fail> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > CALL_LIMIT { Err(Fail::Cost) } else { Ok(()) }
    }

    /// Takes one unit back, where the reference does not ask for it.
    pub(super) fn refund(&mut self) {
        self.cost = self.cost.saturating_sub(1);
    }

    /// Accounts for work without a price.
    pub(super) fn work(&mut self, units: u64) -> Result<(), Fail> {
        self.work = self.work.saturating_add(units);
        if self.work > WORK_LIMIT { Err(Fail::Cost) } else { Ok(()) }
    }
}
