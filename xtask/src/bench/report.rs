//! The table that a bench ends in: ours, the peer's, their ratio, the goal.

use std::fmt::Write as _;

/// One figure of both servers.
pub(crate) struct Row {
    what: String,
    unit: &'static str,
    ours: f64,
    peer: f64,
    goal: &'static str,
}

/// The figures of a run.
#[derive(Default)]
pub(crate) struct Report(Vec<Row>);

impl Report {
    /// Takes a figure, and prints it as it comes.
    #[expect(clippy::print_stdout, reason = "a bench of minutes says how far it is")]
    pub(crate) fn add(
        &mut self,
        what: impl Into<String>,
        unit: &'static str,
        [ours, peer]: [f64; 2],
        goal: &'static str,
    ) {
        let row = Row { what: what.into(), unit, ours, peer, goal };
        println!("{}", row.line());
        self.0.push(row);
    }

    /// The table in Markdown, as SPECIFICATION.md has it.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::from("| what | ours | upstream | ours / upstream | goal |\n");
        text.push_str("|---|---|---|---|---|\n");
        for row in &self.0 {
            let _ = writeln!(text, "{}", row.line());
        }
        text
    }
}

impl Row {
    fn line(&self) -> String {
        let Self { what, unit, ours, peer, goal } = self;
        let ratio = if *peer > 0.0 { digits(ours / peer) } else { "–".to_owned() };
        format!(
            "| {what} | {} {unit} | {} {unit} | {ratio} | {goal} |",
            digits(*ours),
            digits(*peer)
        )
    }
}

/// Three significant digits.
fn digits(value: f64) -> String {
    let places = match value.abs() {
        0.0..0.001 => 5,
        0.001..0.01 => 4,
        0.01..1.0 => 3,
        1.0..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    format!("{value:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_as_figures() {
        let mut report = Report::default();
        report.add("create", "ms", [0.3, 1.15], "<= 1/3");
        report.add("nothing", "s", [1234.5, 0.0], "");
        let text = report.markdown();
        assert!(text.contains("| create | 0.300 ms | 1.15 ms | 0.261 | <= 1/3 |"), "{text}");
        assert!(text.contains("| nothing | 1234 s | 0.00000 s | – |  |"), "{text}");
    }
}
