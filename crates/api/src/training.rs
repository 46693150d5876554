//! What a synchronous training job says of its progress, in a form that outlives whoever says it.
//!
//! The trainer writes it as JSON under [`KEY`] of a ConfigMap beside its Job ([`config_map`]). Nobody
//! decides by it; people are told by it where time was lost. All ranks must compute for a step to
//! count, so a job that loses one goes back to its last checkpoint and waits until all run again.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The key of the ConfigMap under which the progress stands.
pub const KEY: &str = "progress.json";

/// The label of ConfigMaps that hold a progress; the value is the Job's name.
pub const LABEL: &str = "fleet.seatrial.dev/training";

/// As many stops are kept; the oldest make room.
pub const MAX_STOPS: usize = 32;

/// As many lost ranks of one stop are told apart; of a wave the first.
pub const MAX_LOST: usize = 8;

/// The name of the ConfigMap of a Job.
pub fn config_map(job: &str) -> String {
    format!("{job}-progress")
}

/// How far a job has come. Times that name no unit are points of the clock; `seconds` are those of
/// the training itself, which pass `speed` times as fast where hardware is simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Progress {
    /// How many ranks compute together, one pod each.
    pub ranks: u32,
    /// GPUs of each rank.
    pub gpus: u32,
    /// Seconds of training in a second of the clock: 1 on real hardware.
    pub speed: f64,
    /// What checkpoints and restarts cost.
    pub pace: Pace,
    /// What it does now.
    pub phase: Phase,
    /// Since when. Of [`Phase::Computing`]: from when on steps count, which lies ahead of a restart's
    /// end.
    pub since: Timestamp,
    /// Seconds of work that are safe in the last complete checkpoint, as of `since`.
    pub kept: f64,
    /// Complete checkpoints, as of `since`.
    pub checkpoints: u64,
    /// How often it was stopped.
    pub stopped: u64,
    /// The last stops, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stops: Vec<Stop>,
}

/// What checkpoints and restarts cost, in seconds of training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pace {
    /// Work between two checkpoints.
    pub every: f64,
    /// Writing one; nothing is computed meanwhile.
    pub write: f64,
    /// From the moment that all ranks run until steps are made: processes, communicators, the
    /// checkpoint read back.
    pub restart: f64,
}

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// It waits until all ranks run.
    Gathering,
    /// It computes, or restarts before it does.
    Computing,
}

/// One time that a job was stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stop {
    /// When steps no longer counted.
    pub at: Timestamp,
    /// Seconds of training that were in no checkpoint and are done again.
    pub redo: f64,
    /// The ranks that were lost: the first, and those that were lost before all ran again.
    pub lost: Vec<Lost>,
    /// When all ranks ran again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gathered: Option<Timestamp>,
    /// When steps counted again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub going: Option<Timestamp>,
}

/// A rank that was lost, and how it came back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lost {
    /// Which.
    pub rank: u32,
    /// The UID of its pod; empty if it had none.
    pub pod: String,
    /// The node that it ran on.
    pub node: String,
    /// Why it no longer computed, as the trainer saw it.
    pub why: String,
    /// When its pod was asked to leave, or was gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Timestamp>,
    /// When its pod had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Timestamp>,
    /// When another pod was made for the rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<Timestamp>,
    /// When that pod had a node, and which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<Timestamp>,
    /// The node of the other pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
}

impl Progress {
    /// Work and complete checkpoints of the stretch that began at `since`, and the seconds that no
    /// checkpoint holds, if it ended at `at`.
    pub fn stretch(&self, at: Timestamp) -> Stretch {
        let none = Stretch { kept: 0.0, checkpoints: 0, open: 0.0 };
        let passed = at.duration_since(self.since).as_secs_f64() * self.speed;
        let cycle = self.pace.every + self.pace.write;
        if self.phase != Phase::Computing || !(passed > 0.0 && cycle > 0.0) {
            return none;
        }
        let cycles = (passed / cycle).floor();
        Stretch {
            kept: cycles * self.pace.every,
            checkpoints: cycles as u64,
            open: passed - cycles * cycle,
        }
    }
}

/// What a stretch of computing has brought.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// Seconds of work in its checkpoints.
    pub kept: f64,
    /// Its complete checkpoints.
    pub checkpoints: u64,
    /// Seconds since the last of them: lost if it is stopped now.
    pub open: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_are_a_function_of_time() {
        let at = |seconds: i64| Timestamp::from_second(1_000 + seconds).unwrap();
        let progress = Progress {
            ranks: 2,
            gpus: 8,
            speed: 600.0,
            pace: Pace { every: 300.0, write: 20.0, restart: 120.0 },
            phase: Phase::Computing,
            since: at(0),
            kept: 0.0,
            checkpoints: 0,
            stopped: 0,
            stops: Vec::new(),
        };
        // 600 s: one cycle of 320 s, and 280 s that nothing holds.
        let stretch = progress.stretch(at(1));
        assert_eq!((stretch.kept, stretch.checkpoints, stretch.open), (300.0, 1, 280.0));
        assert_eq!(progress.stretch(at(-5)).open, 0.0, "it restarts still");
        let gathering = Progress { phase: Phase::Gathering, ..progress };
        assert_eq!(gathering.stretch(at(9)).kept, 0.0);
    }
}
