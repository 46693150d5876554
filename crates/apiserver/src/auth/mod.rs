//! Who is asking, and may they.
//!
//! [`authn`] turns what came with a request into a [`User`] or refuses it; [`authz`] asks the
//! [`rbac`] rules about one attempt of that user; [`escalation`] keeps anyone from granting what
//! they do not hold. All of it is synchronous. Keeping the [`rbac::RbacIndex`] current is the
//! caller's part; the authenticators of tokens look into the store by themselves.

pub mod aggregate;
pub mod authn;
pub mod authz;
pub(crate) mod bootstrap;
pub mod certificate;
pub mod escalation;
mod legacy_token;
pub(crate) mod node;
mod quote;
pub mod rbac;
pub(crate) mod service_account;
pub mod signing;
pub mod token_file;

use std::collections::BTreeMap;

/// The group of everyone who proved who they are.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of everyone who did not try.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user that stands for requests without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group that may do anything, whatever the rules say.
pub const MASTERS: &str = "system:masters";
/// How the user names of service accounts begin: `system:serviceaccount:<namespace>:<name>`.
pub const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// The groups that every service account of a namespace is in.
pub(crate) fn service_account_groups(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}

/// Whoever a request speaks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name that rules and audit lines use.
    pub name: String,
    /// What tells two users of one name apart over time; often empty.
    pub uid: String,
    /// The groups the user is in.
    pub groups: Vec<String>,
    /// Whatever else the authenticator knows.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Whether the user is in `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|member| member == group)
    }
}
