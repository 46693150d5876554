//! What `up` shows while a site comes to life: live bars on a terminal, one line per finished step in
//! a pipe, every event as a line of JSON for programs.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

use super::progress::Step;

/// What happened, as programs read it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Said {
    /// What is started.
    #[serde(rename_all = "camelCase")]
    Site {
        /// Our version.
        version: String,
        /// In words.
        about: String,
    },
    /// The API answers.
    #[serde(rename_all = "camelCase")]
    Api {
        /// Since the start.
        seconds: f64,
        /// Its address.
        url: String,
        /// Where its data is.
        data: String,
    },
    /// Machines have a step behind them.
    #[serde(rename_all = "camelCase")]
    Step {
        /// Which.
        step: Step,
        /// How many.
        done: usize,
        /// Of how many.
        total: usize,
        /// Since the start.
        seconds: f64,
        /// What is done in it.
        about: String,
    },
    /// Not everything comes to production by itself; what is there goes on.
    #[serde(rename_all = "camelCase")]
    Failed {
        /// Which machine, and what it waits for.
        why: String,
    },
    /// An act of a scenario is over, or shows.
    #[serde(rename_all = "camelCase")]
    Act {
        /// What it is.
        name: String,
        /// What it is about: a machine, or how many of how many.
        subject: String,
        /// Since the start.
        seconds: f64,
        /// What came of it.
        about: String,
    },
    /// Where the time of a scenario's job went.
    #[serde(rename_all = "camelCase")]
    Account {
        /// For people.
        text: String,
    },
    /// Everything is in production.
    #[serde(rename_all = "camelCase")]
    Ready {
        /// Since the start.
        seconds: f64,
        /// What to give to kubectl.
        kubeconfig: String,
        /// A machine to break.
        example: String,
    },
}

/// How it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// For people.
    Text,
    /// A line of JSON for each event.
    Json,
}

/// See the module.
pub(crate) enum Display {
    Live { all: MultiProgress, bars: BTreeMap<Step, ProgressBar> },
    Plain,
    Json,
}

impl Display {
    pub(crate) fn new(form: Form) -> Self {
        match form {
            Form::Json => Self::Json,
            Form::Text if std::io::stdout().is_terminal() => {
                let all = MultiProgress::with_draw_target(indicatif::ProgressDrawTarget::stdout());
                Self::Live { all, bars: BTreeMap::new() }
            }
            Form::Text => Self::Plain,
        }
    }

    /// Shows what happened.
    ///
    /// # Errors
    /// If nobody reads any more.
    pub(crate) fn show(&mut self, said: &Said) -> std::io::Result<()> {
        match (&mut *self, said) {
            (Self::Json, _) => {
                let line = serde_json::to_string(said)?;
                writeln!(std::io::stdout(), "{line}")
            }
            (Self::Live { all, bars }, Said::Step { step, done, total, seconds, about }) => {
                let style =
                    ProgressStyle::with_template("  {prefix:<17} {bar:24} {pos}/{len}  {msg}");
                let bar = bars.entry(*step).or_insert_with(|| {
                    let bar = all.add(ProgressBar::new(0).with_prefix(step.name()));
                    style.map_or(bar.clone(), |style| bar.with_style(style))
                });
                bar.set_length(length(*total));
                bar.set_position(length(*done));
                if done == total && !bar.is_finished() {
                    bar.finish_and_clear();
                    all.println(finished(*step, *total, *seconds, about))?;
                }
                Ok(())
            }
            (Self::Live { all, .. }, said) => all.println(words(said)),
            (Self::Plain, Said::Step { done, total, .. }) if done < total => Ok(()),
            (Self::Plain, said) => writeln!(std::io::stdout(), "{}", words(said)),
        }
    }
}

fn length(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn finished(step: Step, total: usize, seconds: f64, about: &str) -> String {
    line(step.name(), &format!("{total}/{total}"), seconds, about)
}

/// A line of what has happened: what, to what, when, and how.
fn line(what: &str, subject: &str, seconds: f64, about: &str) -> String {
    format!("  {what:<17} {subject:<9} {seconds:>5.1} s   {about}").trim_end().to_owned()
}

fn words(said: &Said) -> String {
    match said {
        Said::Site { version, about } => format!("Seatrial {version} · {about}"),
        Said::Api { seconds, url, data } => {
            line("api server", "ready", *seconds, &format!("{url} · data {data}"))
        }
        Said::Step { step, total, seconds, about, .. } => finished(*step, *total, *seconds, about),
        Said::Act { name, subject, seconds, about } => line(name, subject, *seconds, about),
        Said::Account { text } => format!("\n{text}"),
        Said::Failed { why } => format!("  {why}"),
        Said::Ready { kubeconfig, example, .. } => format!(
            "\n  export KUBECONFIG={kubeconfig}\n  \
             kubectl get nodes,machines              everything is an object\n  \
             {:<39} break something\n  \
             {:<39} ask what is going on",
            format!("seatrial simulate fault gpu-ecc {example}"),
            format!("seatrial node why {example}"),
        ),
    }
}

/// Time since the start, for events.
pub(crate) fn seconds(took: Duration) -> f64 {
    (took.as_secs_f64() * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stand_under_one_another_and_fit_the_screen() {
        let api = Said::Api {
            seconds: 0.08,
            url: "https://127.0.0.1:6443".to_owned(),
            data: "~/.local/share/seatrial/demo".to_owned(),
        };
        let line = finished(Step::SeaTrial, 36, 3.04, Step::SeaTrial.about());
        assert_eq!(
            line,
            "  sea trial         36/36       3.0 s   inventory and cabling against the instance type"
        );
        assert_eq!(words(&api).find("https"), line.find("inventory"));
        assert!(words(&api).chars().count() <= 100);
        let ready = words(&Said::Ready {
            seconds: 5.0,
            kubeconfig: "~/.local/share/seatrial/demo/kubeconfig".to_owned(),
            example: "r2-s07".to_owned(),
        });
        let columns: Vec<_> = ["everything", "break", "ask"]
            .iter()
            .map(|word| ready.lines().find_map(|line| line.find(word)).unwrap())
            .collect();
        assert!(columns.iter().all(|column| *column == columns[0]), "{ready}");
    }
}
