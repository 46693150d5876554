//! Detectors: what a log line, a number, a sensor or a silence says about a node.
//!
//! Pure functions from evidence to findings that name a row of the [catalogue](crate::catalogue).
//! Which evidence makes which fault is data of the catalogue; this is the engine that reads it.
//! State is carried by the caller ([`Window`]) and bounded. Every input comes from a hostile world:
//! no line, name or number may panic, grow memory or cost more than its length.

mod driver;
mod kernel;
mod metric;
mod peers;
mod sample;
mod symptom;
mod window;

use jiff::Timestamp;

pub use driver::Driver;
pub use kernel::Lines;
pub use metric::Metrics;
pub use peers::peers;
pub use sample::{Floors, Health, Reading, Sample, Silence, drift, sensor, silence};
pub use symptom::{Symptom, symptoms};
pub use window::Window;

use crate::catalogue::{Part, RowId};

/// Evidence is kept short: it stands in conditions and reports.
const MAX_EVIDENCE: usize = 240;

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The row of the catalogue.
    pub row: RowId,
    /// What it is on.
    pub part: Part,
    /// When.
    pub at: Timestamp,
    /// Does the fault hold? `false` says that an earlier finding of the same row and part is over;
    /// only numbers say so, a log line never does.
    pub present: bool,
    /// The line, or the number beside its limit; at most 240 bytes.
    pub evidence: String,
}

/// The evidence as text: printable, on one line, cut at a character.
fn evidence(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(MAX_EVIDENCE)];
    let mut text = String::with_capacity(cut.len());
    for c in String::from_utf8_lossy(cut).chars() {
        let c = if c.is_control() { ' ' } else { c };
        if text.len() + c.len_utf8() > MAX_EVIDENCE {
            break;
        }
        text.push(c);
    }
    text.truncate(text.trim_end().len());
    text
}
