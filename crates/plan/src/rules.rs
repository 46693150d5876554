//! Times and bounds of every decision, each with its reason or source.

use api::instance_type::Acceptance;
use api::request::{Chore, Effect, Power};
use api::state::State;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// What a site may change without a rebuild.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How old an answer of a BMC may be to decide upon it.
    pub fresh: Duration,
    /// How long a BMC may take to begin what it accepted; afterwards it is asked whether it did.
    pub accept: Duration,
    /// How long a BMC may be silent before what needs it counts as failed: BMCs restart by
    /// themselves, and their network is the first to be worked on.
    pub bmc_patience: Duration,
    /// The wait after a first failure; it doubles with each further one.
    pub backoff: Duration,
    /// The longest wait between tries.
    pub backoff_max: Duration,
    /// How long a node in production may take to join after its boot.
    pub join: Duration,
    /// How long a cause outside the node is given to show before a step that disrupts: detectors
    /// of a leaf that died speak within seconds of one another.
    pub settle: Duration,
    /// How long pods that ask to be waited for are waited for when a fault has hit their node.
    pub patience: Duration,
    /// How long a pod may take to end beyond its grace period before it is killed, and how long beyond
    /// `patience` a disruption budget may keep it on a sick node.
    pub eviction: Duration,
    /// How long after a repair the node may take to be ready and rid of its fault.
    pub verify: Duration,
    /// How long a machine may take to leave production once asked to.
    pub hand_over: Duration,
    /// How many diagnoses without a finding in 30 days send a machine to a person.
    pub sound_limit: usize,
    /// Within which time sick nodes belong to one wave.
    pub wave_window: Duration,
    /// How many nodes with a part in common make a wave.
    pub wave_common: usize,
    /// How many nodes with nothing in common but their symptom make a wave.
    pub wave_symptom: usize,
    /// How often an idle node is tested; never if absent.
    pub idle_test_every: Option<Duration>,
    /// How long a node must be idle before it is tested.
    pub idle_before_test: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            fresh: 30 * SECOND,
            accept: MINUTE,
            bmc_patience: 30 * MINUTE,
            backoff: 30 * SECOND,
            backoff_max: 15 * MINUTE,
            join: 15 * MINUTE,
            settle: 15 * SECOND,
            patience: HOUR,
            eviction: 2 * MINUTE,
            verify: 15 * MINUTE,
            hand_over: 30 * MINUTE,
            sound_limit: 2,
            wave_window: 2 * MINUTE,
            wave_common: 3,
            wave_symptom: 6,
            idle_test_every: Some(HOUR),
            idle_before_test: 5 * MINUTE,
        }
    }
}

impl Rules {
    /// The wait after the `failures`th failure in a row.
    pub fn backoff(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        self.backoff.saturating_mul(1 << doublings).min(self.backoff_max)
    }

    /// How long a machine may stay in a state; none where it waits for people or for work.
    pub fn state(&self, state: State, acceptance: Acceptance) -> Option<Duration> {
        match (state, acceptance) {
            (State::Onboard | State::Production | State::Debug | State::Rma, _) => None,
            (State::SeaTrial, _) => Some(2 * HOUR),
            // CoreWeave: 1-2 h, and more than 6 h counts as failed.
            (State::Zap, _) => Some(6 * HOUR),
            (State::ZapFailed, _) => Some(2 * HOUR),
            (State::Test, Acceptance::Quick) => Some(2 * HOUR),
            // A burn-in of 24 h, and one hour for what surrounds it; a second try has its own.
            (State::Test, Acceptance::Full) => Some(52 * HOUR),
            (State::Triage, _) => Some(6 * HOUR),
        }
    }

    /// How often something may fail in a state before the machine goes where the state ends.
    pub const fn tries(&self, state: State) -> u32 {
        match state {
            State::Zap | State::Test | State::Triage => 2,
            _ => 3,
        }
    }

    /// How long one effect may take. Boot: 150 s to DHCP and 240 s to the agent, twice over.
    pub const fn effect(&self, effect: Effect) -> Duration {
        match effect {
            Effect::Power(Power::Off) => Duration::from_secs(120),
            Effect::Power(_) => Duration::from_secs(20 * 60),
            Effect::Chore(chore) => match chore {
                Chore::Inventory | Chore::ResetGpu | Chore::RestartService => {
                    Duration::from_secs(5 * 60)
                }
                Chore::TestReadiness => Duration::from_secs(2 * 60),
                Chore::Sanitise | Chore::TestIdle => Duration::from_secs(45 * 60),
                Chore::TestQuick => Duration::from_secs(30 * 60),
                Chore::Firmware => Duration::from_secs(3 * 3_600),
                Chore::TestFull => Duration::from_secs(25 * 3_600),
                Chore::Diagnose => Duration::from_secs(2 * 3_600),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_to_a_bound() {
        let rules = Rules::default();
        let waits: Vec<u64> = (0..8).map(|n| rules.backoff(n).as_secs()).collect();
        assert_eq!(waits, [30, 30, 60, 120, 240, 480, 900, 900]);
        assert_eq!(rules.backoff(u32::MAX), rules.backoff_max);
    }

    #[test]
    fn a_state_lasts_longer_than_what_is_done_in_it() {
        let rules = Rules::default();
        for (state, effect, acceptance) in [
            (State::Test, Chore::TestFull, Acceptance::Full),
            (State::Test, Chore::TestQuick, Acceptance::Quick),
            (State::Zap, Chore::Firmware, Acceptance::Full),
            (State::Triage, Chore::Diagnose, Acceptance::Full),
        ] {
            let tries = rules.tries(state);
            let all = rules.effect(Effect::Chore(effect)) * tries;
            assert!(rules.state(state, acceptance).is_some_and(|limit| limit >= all), "{state}");
        }
    }
}
