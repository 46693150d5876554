//! The table of a part: best and median, shares of the limit, and ours beside peers.

use std::fmt::Write as _;

use super::goal::{Goal, Reached};
use super::part::{Figures, Role, Taken};

/// A part's rows, measured.
pub(super) struct Table<'a> {
    title: &'static str,
    rows: &'a [Taken],
}

/// The best and the median of something, less being better.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    pub(super) best: f64,
    pub(super) median: f64,
}

impl Spread {
    pub(super) fn of(figures: &[Figures], what: impl Fn(&Figures) -> f64) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.iter().map(what).collect();
        sorted.sort_by(f64::total_cmp);
        Some(Self { best: *sorted.first()?, median: *sorted.get(sorted.len() / 2)? })
    }
}

/// Seconds for a GB: rows are compared by it, as a limit may be of some bytes less.
fn pace(taken: &Taken) -> Option<Spread> {
    Spread::of(taken.figures.as_ref().ok()?, |one| one.seconds / one.bytes * 1e9)
}

impl<'a> Table<'a> {
    pub(super) const fn of(title: &'static str, rows: &'a [Taken]) -> Self {
        Self { title, rows }
    }

    /// The table in Markdown, as SPECIFICATION.md has it.
    pub(super) fn markdown(&self) -> String {
        let mut bytes =
            self.rows.iter().filter_map(|row| Some(row.figures.as_ref().ok()?.first()?.bytes));
        let size = bytes.next_back().unwrap_or_default() / 1e9;
        let mut text = format!("{}, {size:.2} GB\n\n", self.title);
        text.push_str("| what | s, best / median | GB/s, best | of the limit, best / median | ours is faster, best / median | CPU s/GB | MiB beyond | goal |\n");
        text.push_str("|---|---|---|---|---|---|---|---|\n");
        let first = self.rows.iter().find(|row| row.role == Role::Ours).and_then(pace);
        let mut limit = None;
        for row in self.rows {
            if row.role == Role::Limit {
                limit = pace(row);
            }
            let _ = match &row.figures {
                Ok(figures) => writeln!(text, "{}", self.line(row, figures, limit, first)),
                Err(error) => {
                    writeln!(text, "| {} | not measured: {error:#} | | | | | | |", row.what)
                }
            };
        }
        text.push('\n');
        text
    }

    fn line(
        &self,
        row: &Taken,
        figures: &[Figures],
        limit: Option<Spread>,
        first: Option<Spread>,
    ) -> String {
        let spread = |what: fn(&Figures) -> f64| Spread::of(figures, what);
        let (Some(seconds), Some(pace)) = (spread(|one| one.seconds), pace(row)) else {
            return format!("| {} | no round | | | | | | |", row.what);
        };
        let share = limit.filter(|_| row.role != Role::Limit).map(|limit| Spread {
            best: limit.best / pace.best,
            median: limit.median / pace.median,
        });
        let faster = first
            .filter(|_| row.role == Role::Peer)
            .map(|ours| Spread { best: pace.best / ours.best, median: pace.median / ours.median });
        let cpu = spread(|one| one.cpu / one.bytes * 1e9).map(|cpu| cpu.median);
        let beyond = figures.iter().map(|one| one.beyond).reduce(f64::max);
        let reached = Reached { of_limit: share.map(|s| s.best), cpu, beyond, faster: None };
        let goals = row.goals.iter().map(|goal| {
            let faster = match goal {
                Goal::Faster(_, peer) => self.named(peer).map(|peer| peer.best / pace.best),
                _ => None,
            };
            goal.told(&Reached { faster, ..reached })
        });
        format!(
            "| {} | {:.3} / {:.3} | {:.2} | {} | {} | {} | {} | {} |",
            row.what,
            seconds.best,
            seconds.median,
            1.0 / pace.best,
            told(share, |s| format!("{:.0} % / {:.0} %", s.best * 100.0, s.median * 100.0)),
            told(faster, |f| format!("{:.1} / {:.1} times", f.best, f.median)),
            told(cpu, |cpu| format!("{cpu:.2}")),
            told(beyond.filter(|_| row.role != Role::Limit), |mib| format!("{mib:.0}")),
            goals.collect::<Vec<_>>().join("; "),
        )
    }

    fn named(&self, what: &str) -> Option<Spread> {
        self.rows.iter().find(|row| row.what == what).and_then(pace)
    }
}

fn told<T>(value: Option<T>, words: impl Fn(T) -> String) -> String {
    value.map(words).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(what: &'static str, role: Role, seconds: &[f64], goals: &[Goal]) -> Taken {
        let one = |seconds: &f64| Figures {
            bytes: 1e9,
            seconds: *seconds,
            cpu: 0.25,
            beyond: 3.0,
            ready: None,
            object: None,
        };
        let figures = Ok(seconds.iter().map(one).collect());
        Taken { what, role, goals: goals.to_vec(), figures }
    }

    #[test]
    fn rows_are_compared_with_the_limit_above_them_and_with_ours() {
        let rows = [
            taken("pages", Role::Limit, &[0.9, 0.5, 0.7], &[]),
            taken("ours", Role::Ours, &[1.4, 1.0, 1.2], &[Goal::Faster(3.0, "theirs")]),
            taken("theirs", Role::Peer, &[4.0, 4.8, 6.0], &[]),
            Taken { figures: Err(anyhow::anyhow!("no wheel")), ..taken("x", Role::Peer, &[], &[]) },
        ];
        let text = Table::of("Warm file", &rows).markdown();
        assert!(text.starts_with("Warm file, 1.00 GB\n\n| what |"), "{text}");
        let ours =
            "| ours | 1.000 / 1.200 | 1.00 | 50 % / 58 % |  | 0.25 | 3 | >= 3 times theirs: met |";
        assert!(text.contains(ours), "{text}");
        assert!(
            text.contains("| theirs | 4.000 / 4.800 | 0.25 | 12 % / 15 % | 4.0 / 4.0 times |"),
            "{text}"
        );
        assert!(text.contains("| x | not measured: no wheel |"), "{text}");
    }
}
