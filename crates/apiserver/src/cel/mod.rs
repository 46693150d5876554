//! CEL rules of custom resources (`x-kubernetes-validations`), and expressions of admission.
//!
//! [`Rules`] holds every rule of one version's schema, parsed, checked and priced once; validating
//! an object then runs them within Kubernetes' budgets. Guarantees: a definition whose rules name
//! unknown fields or functions, or may cost too much, is refused with the reference
//! implementation's words; a hostile rule or object costs bounded time, memory and stack.
//! [`admission`] compiles and runs the expressions of admission policies and webhooks, which see a
//! request instead of a value and are bounded as they run.
//! Deliberately absent: functions that Kubernetes does not offer to custom resources (see
//! [`library`]).

pub(crate) mod admission;
mod authority;
mod check;
mod compile;
mod decl;
mod estimate;
mod eval;
mod expr;
mod field_path;
mod format;
mod library;
mod lists;
mod meter;
mod net;
mod numbers;
mod operators;
mod optionals;
mod parse;
mod price;
mod quantity;
mod semver;
mod strings;
mod template;
mod time;
mod types;
mod url;
mod validate;
mod value;

#[cfg(test)]
mod tests;

use serde_json::Value;

pub(crate) use authority::Authority;
pub(crate) use decl::RESERVED;

use crate::schema::Schema;
use crate::schema::field::{FieldError, FieldPath};
use compile::Node;

/// All rules of a version's schema, parsed, checked and priced once.
#[derive(Debug)]
pub struct Rules {
    root: Option<Node>,
}

impl Rules {
    /// Compiles the rules of a schema that stands at `base`, as in
    /// `spec.versions[0].schema.openAPIV3Schema`.
    ///
    /// The schema must be structural. What is wrong with it otherwise is not looked for here but
    /// given as `faults`; rules above a fault are not compiled, which loses nothing where the
    /// schema is refused for it.
    pub fn compile(
        schema: &Schema,
        base: &FieldPath,
        faults: &[FieldError],
    ) -> Result<Self, Vec<FieldError>> {
        compile::compile(schema, base, faults).map(|root| Self { root })
    }

    /// Whether there is nothing to validate.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// What the rules have against an object, given the stored one on updates.
    ///
    /// Rules on values that did not change since may fail then, and merely warn: only transition
    /// rules and errors of evaluation still count.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Verdict {
        let run = |root| validate::validate(root, new, old).0;
        self.root.as_ref().map_or_else(Verdict::default, run)
    }
}

/// What is to be said about an object.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Why it is refused, if it is.
    pub errors: Vec<FieldError>,
    /// Sentences for `Warning` headers.
    pub warnings: Vec<String>,
}

/// Runs something that recurses as deep as an expression may nest.
///
/// The caller's stack may be a small one; this one is large, and takes memory only where it is used.
fn with_deep_stack<T: Send>(run: impl FnOnce() -> T + Send) -> Option<T> {
    const STACK: usize = 256 << 20;
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("cel".to_owned()).stack_size(STACK);
        builder.spawn_scoped(scope, run).ok()?.join().ok()
    })
}
