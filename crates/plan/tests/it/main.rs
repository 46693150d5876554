//! Tests of what `plan` promises, from outside.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod advice;
mod catalogue;
mod detect;
mod golden;
mod hostile;
mod page;
mod trace;

use std::sync::LazyLock;

use plan::catalogue::Catalogue;

/// The built-in catalogue, read once for all tests.
static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| match Catalogue::load(&[]) {
    Ok(catalogue) => catalogue,
    Err(errors) => panic!("the built-in catalogue is wrong: {errors:#?}"),
});
