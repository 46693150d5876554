//! One file per subcommand; verbs about the fleet are a noun each.

pub(crate) mod backup;
pub(crate) mod controllers;
pub(crate) mod down;
pub(crate) mod generate;
pub(crate) mod install;
pub(crate) mod job;
pub(crate) mod kubeconfig;
pub(crate) mod machine;
pub(crate) mod node;
pub(crate) mod pool;
pub(crate) mod rack;
pub(crate) mod replay;
pub(crate) mod restore;
pub(crate) mod serve;
pub(crate) mod simulate;
mod sizes;
pub(crate) mod status;
pub(crate) mod tensors;
pub(crate) mod uninstall;
pub(crate) mod up;
pub(crate) mod version;
mod view;

/// What a subcommand comes to: done, or one sentence that says why not and what to do.
pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// What was given cannot be used: exit code 2, as for arguments that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct Unusable(Box<dyn std::error::Error + Send + Sync>);

/// It runs, and a person is needed: exit code 3.
#[derive(Debug, thiserror::Error)]
#[error("{calls} waiting for a person; see above")]
pub(crate) struct Attention {
    calls: usize,
}
