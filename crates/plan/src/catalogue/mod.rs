//! The fault catalogue: every known fault with its meaning, severity, evidence and answer.
//!
//! The built-in catalogue is data ([`FILES`]). A site lays files of its own over it, row by row and
//! field by field, without a rebuild; a wrong file is refused with file, row, field and the nearest
//! valid value. [`Catalogue::advise`] says with which step to begin.
//!
//! It decides nothing about budgets, breakers or timing: that is the planner's part.

mod advise;
mod decode;
mod error;
mod fields;
mod load;
mod metric;
mod part;
mod policy;
mod row;
mod signal;
mod trace;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

pub use advise::{Advice, Sighting, Why};
pub use error::{CatalogueError, UnknownWord};
pub use load::FILES;
pub use metric::Metric;
pub use part::{Part, PartKind};
pub use policy::{Drain, Policy, Proof, Repeat, Rung, Same, Step};
pub use row::{
    Authority, Condition, Correlation, Product, Row, RowId, Scope, Severity, Source, Then,
};
pub use signal::{Limit, Nvlink5, PartRule, Rule, Signal};
pub use trace::{Basis, TraceMap, TraceRow, TraceWords};

/// Every row and policy, checked against one another: a row's policy exists, and each step that
/// repeats lead to is on its ladder.
#[derive(Clone, Debug)]
pub struct Catalogue {
    rows: BTreeMap<RowId, Row>,
    policies: BTreeMap<String, Policy>,
}

impl Catalogue {
    /// The built-in catalogue alone, which a process reads once.
    #[must_use]
    pub fn built_in() -> Arc<Self> {
        static BUILT_IN: LazyLock<Arc<Catalogue>> = LazyLock::new(|| {
            // What is wrong with the built-in files fails the tests beside them.
            Arc::new(load::load(&[]).unwrap_or_else(|_| unreachable!("built in")))
        });
        Arc::clone(&BUILT_IN)
    }

    /// The built-in catalogue with a site's files laid over it, in their order. Each file is its
    /// name, for messages, and its YAML text.
    ///
    /// # Errors
    /// Everything that is wrong with the site's files, up to a hundred faults.
    pub fn load(site: &[(&str, &str)]) -> Result<Self, Vec<CatalogueError>> {
        load::load(site)
    }

    /// The row of this name.
    #[must_use]
    pub fn row(&self, id: &str) -> Option<&Row> {
        self.rows.get(id)
    }

    /// Every row, by name.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    /// The policy of this name.
    #[must_use]
    pub fn policy(&self, name: &str) -> Option<&Policy> {
        self.policies.get(name)
    }

    /// Every policy, by name.
    pub fn policies(&self) -> impl Iterator<Item = &Policy> {
        self.policies.values()
    }
}
