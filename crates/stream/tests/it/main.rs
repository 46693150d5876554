//! Models in files: those of the real package, those made here, and damaged ones.
#![allow(clippy::unwrap_used, clippy::panic)]

mod atomic;
mod damage;
mod defects;
mod golden;
mod remote;
mod round;
mod serve;
mod support;
mod upload;
mod writer;
