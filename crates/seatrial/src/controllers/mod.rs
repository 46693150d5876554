//! The controllers in this process: each as an account of its own, with exactly the role that it
//! declares; beside the embedded server, or on any cluster while this process leads.

mod beside;
mod boots;
mod elected;
mod probes;

use controllers::{Entry, Site};
use kit::controller::Manager;

use crate::identity::Acting;
use crate::install::rights;

pub(crate) use beside::start;
pub(crate) use boots::BootListener;
pub(crate) use elected::{Options, run};

/// Adds controllers to a manager, each as its account.
fn add(manager: &mut Manager, entries: &[&Entry], acting: &Acting, namespace: &str, site: &Site) {
    for entry in entries {
        (entry.add)(manager, acting(&rights::user_of(entry, namespace), &[]), site);
    }
}
