//! One attempt, judged: may this user do this to that.
//!
//! The answer is yes, or that no rule says so, each with the reason clients see. Here RBAC is asked
//! (and the one group that needs no rules); [`super::node`] knows nodes. There is no webhook.

use std::collections::HashSet;

use super::quote::quote;
use super::rbac::{RbacIndex, Unresolved};
use super::{MASTERS, User};

/// What is attempted.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// What to do: `get`, `list`, `deletecollection`, or an HTTP method in lower case for a path.
    pub verb: &'a str,
    /// To what.
    pub target: Target<'a>,
}

/// What an attempt is aimed at.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// An object, or all of a resource.
    Resource {
        /// The API group; empty for the core group.
        group: &'a str,
        /// The resource's plural name.
        resource: &'a str,
        /// The subresource; empty for none.
        subresource: &'a str,
        /// The namespace; empty at the cluster scope and across all namespaces.
        namespace: &'a str,
        /// The object; empty for all. A list or watch whose field selector demands one
        /// `metadata.name` counts as aimed at that name.
        name: &'a str,
    },
    /// A path that is not a resource.
    Path(&'a str),
}

impl<'a> Target<'a> {
    /// The namespace whose bindings apply; empty if only cluster-wide ones do.
    pub(super) fn namespace(&self) -> &'a str {
        match *self {
            Target::Resource { namespace, .. } => namespace,
            Target::Path(_) => "",
        }
    }
}

/// The judgement, with the reason a SubjectAccessReview reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A rule says yes.
    Allow {
        /// Which rule; empty for the group that needs none.
        reason: String,
    },
    /// No rule says yes, which refuses the request.
    NoOpinion {
        /// Which bindings lead nowhere; empty otherwise.
        reason: String,
    },
}

/// Judges one attempt.
pub fn authorize(user: &User, attributes: &Attributes<'_>, rbac: &RbacIndex) -> Decision {
    if user.is_in(MASTERS) {
        return Decision::Allow { reason: String::new() };
    }
    let mut unresolved = Vec::new();
    for grant in rbac.grants(user, attributes.target.namespace()) {
        match grant {
            Ok(grant) if grant.rules.iter().any(|rule| rule.allows(attributes)) => {
                return Decision::Allow { reason: format!("RBAC: allowed by {grant}") };
            }
            Ok(_) => {}
            Err(problem) => unresolved.push(problem),
        }
    }
    let reason = match aggregate(&unresolved, |problem| problem.as_authorizer()) {
        problems if problems.is_empty() => problems,
        problems => format!("RBAC: {problems}"),
    };
    Decision::NoOpinion { reason }
}

/// The problems in one line, each once: bare if there is one, else in brackets.
pub(super) fn aggregate(
    problems: &[Unresolved<'_>],
    describe: impl Fn(&Unresolved<'_>) -> String,
) -> String {
    let mut texts: Vec<String> = problems.iter().map(describe).collect();
    let mut seen = HashSet::new();
    texts.retain(|text| seen.insert(text.clone()));
    match texts.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// The whole sentence of a 403 for an attempt that was not allowed for `reason`.
pub fn forbidden_message(user: &User, attributes: &Attributes<'_>, reason: &str) -> String {
    let name_of_user = quote(&user.name);
    let verb = attributes.verb;
    let (subject, attempt) = match attributes.target {
        Target::Path(path) => (String::new(), format!("path {}", quote(path))),
        Target::Resource { group, resource, subresource, namespace, name } => {
            let mut subject = resource.to_owned();
            if !group.is_empty() {
                subject = format!("{resource}.{group}");
            }
            if !name.is_empty() {
                subject = format!("{subject} {}", quote(name));
            }
            let what = if subresource.is_empty() {
                quote(resource)
            } else {
                quote(&format!("{resource}/{subresource}"))
            };
            let scope = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {}", quote(namespace))
            };
            let group = quote(group);
            (subject + " is ", format!("resource {what} in API group {group} {scope}"))
        }
    };
    // A browser must never take an echoed path or name for markup.
    let sentence = format!("User {name_of_user} cannot {verb} {attempt}")
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let separator = if reason.is_empty() { "" } else { ": " };
    format!("{subject}forbidden: {sentence}{separator}{reason}")
}

#[cfg(test)]
#[path = "authz_tests.rs"]
mod tests;
