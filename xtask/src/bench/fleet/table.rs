//! The table that the bench ends in: ours, the goal, what peers have published, and on what machine.

use std::fmt::Write as _;

use anyhow::Result;

use crate::bench::machine;

/// One figure.
pub(super) struct Line {
    pub(super) what: String,
    pub(super) ours: String,
    pub(super) goal: &'static str,
    /// What a peer has published, with its source.
    pub(super) peer: &'static str,
}

/// The figures of a run.
pub(super) struct Table {
    lines: Vec<Line>,
    machine: String,
}

impl Table {
    /// An empty table on this machine, as busy as it is now.
    pub(super) fn begin() -> Result<Self> {
        Ok(Self { lines: Vec::new(), machine: machine::line()? })
    }

    /// Takes a figure, and prints it as it comes.
    #[expect(clippy::print_stdout, reason = "a bench of minutes says how far it is")]
    pub(super) fn add(&mut self, line: Line) {
        println!("{}", line.markdown());
        self.lines.push(line);
    }

    /// The table in Markdown, as SPECIFICATION.md has it.
    pub(super) fn markdown(&self) -> Result<String> {
        let mut text =
            String::from("| what | ours | goal | published by peers |\n|---|---|---|---|\n");
        for line in &self.lines {
            writeln!(text, "{}", line.markdown())?;
        }
        writeln!(text, "\n{}", self.machine)?;
        Ok(text)
    }
}

impl Line {
    fn markdown(&self) -> String {
        let Self { what, ours, goal, peer } = self;
        format!("| {what} | {ours} | {goal} | {peer} |")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_names_its_machine() {
        let mut table = Table::begin().unwrap();
        let line = Line { what: "w".into(), ours: "o".into(), goal: "g", peer: "p" };
        table.add(line);
        let text = table.markdown().unwrap();
        assert!(text.contains("| w | o | g | p |\n\n"), "{text}");
        assert!(text.contains(" CPUs ("), "{text}");
    }
}
