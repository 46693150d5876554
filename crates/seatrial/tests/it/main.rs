//! The binary, as people start it.
#![allow(clippy::unwrap_used, clippy::panic)]

mod backup;
mod commands;
mod crash;
mod install;
mod kubectl;
mod openapi;
mod refusals;
mod replay;
mod scenario;
mod serve;
mod support;
mod tensors;
mod up;
mod verbs;
