//! What is going on, told to people from the objects alone: one sentence, and what it rests on.
//!
//! Nothing here is known that a reader of the API could not know; nothing is measured, guessed or
//! promised that no object says.

mod blast;
mod history;
mod overview;
mod pool;
mod slot;
#[cfg(test)]
mod tests;
mod training;
mod wave;
mod why;

use crate::catalogue::Step;
use api::treatment::Treatment;
use jiff::Timestamp;
use std::fmt;
use std::time::Duration;

pub use blast::{Blast, blast};
pub use history::{Line, history};
pub use overview::{Overview, overview};
pub use pool::pool;
pub use slot::{Mark, slot};
pub use training::{Training, short, thousands, training};
pub use wave::wave;
pub use why::{Facts, why};

pub use crate::words::nearest;

/// The longest line that is printed where it can be broken.
const WIDTH: usize = 100;

/// Where the text of a line begins: two spaces, the label, and at least one more.
const INDENT: usize = 14;

/// An answer: one sentence, and lines that say more, each under a label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Why {
    /// The answer.
    pub sentence: String,
    /// `evidence`, `doing`, `cover`, `next`, `asked by`: only those that there is something to say
    /// about.
    pub lines: Vec<(&'static str, String)>,
}

impl Why {
    fn new(sentence: String) -> Self {
        Self { sentence, lines: Vec::new() }
    }

    /// Adds a line, if it says something.
    fn line(&mut self, label: &'static str, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.lines.push((label, text));
        }
    }

    /// Adds a line made of several remarks.
    fn remarks(&mut self, label: &'static str, remarks: Vec<String>) {
        self.line(label, remarks.join("; "));
    }
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, part) in wrapped(&self.sentence, WIDTH).iter().enumerate() {
            if number > 0 {
                out.write_str("\n")?;
            }
            out.write_str(part)?;
        }
        for (label, text) in &self.lines {
            for (number, part) in wrapped(text, WIDTH - INDENT).iter().enumerate() {
                let label = if number == 0 { *label } else { "" };
                write!(out, "\n  {label:<width$}{part}", width = INDENT - 2)?;
            }
        }
        Ok(())
    }
}

/// The text in pieces of at most `width` characters, broken between words.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// How long ago something was: `12 s`.
fn ago(now: Timestamp, then: Timestamp) -> String {
    span(Duration::try_from(now.duration_since(then)).unwrap_or_default())
}

/// A duration as people say it.
pub fn span(time: Duration) -> String {
    crate::machine::words(time)
}

/// How much time is left until then; none once it has passed.
fn left(now: Timestamp, then: Timestamp) -> Option<String> {
    Duration::try_from(then.duration_since(now)).ok().filter(|d| !d.is_zero()).map(span)
}

/// A number of things: `1 pod`, `2 pods`.
fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// A sentence without the stop at its end.
fn open_ended(sentence: &str) -> &str {
    sentence.trim_end().trim_end_matches('.')
}

/// A few names, and how many more there are.
fn some(names: &[&str]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<&str> = names.iter().take(SHOWN).copied().collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

const fn treatment_words(treatment: Treatment) -> &'static str {
    match treatment {
        Treatment::Wait => "is waited for",
        Treatment::Graceful => "may be ended gracefully",
        Treatment::Now => "may be killed",
    }
}

const fn step_words(step: Step) -> &'static str {
    match step {
        Step::RestartApp => "a restart of the program",
        Step::ResetGpu => "a GPU reset",
        Step::RestartService => "a restart of the service",
        Step::Reboot => "a reboot",
        Step::PowerCycle => "a power cycle",
        Step::PowerOff => "the power off",
        Step::Diagnose => "diagnostics",
        Step::Triage => "triage",
        Step::Rma => "repair by the vendor",
    }
}
