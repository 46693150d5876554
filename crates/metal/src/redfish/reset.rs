//! What a BMC is told, out of what it takes: vendors allow different sets of reset types.

use api::request::Power;

/// What every BMC takes that does not say what it takes.
pub(super) const USUAL: [&str; 4] = ["On", "ForceOff", "ForceRestart", "GracefulRestart"];

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Steps {
    /// Nothing: the machine is as it shall be.
    Nothing,
    /// One reset of this type.
    One(&'static str),
    /// The power is cut, and given back after it has drained.
    OffThenOn { off: &'static str, on: &'static str },
}

const OFF: &[&str] = &["ForceOff"];
// Some know only the button: on a machine that is off it can do but one thing.
const ON: &[&str] = &["On", "ForceOn", "PushPowerButton"];

/// How `power` is done to a machine that is on or off, with what is allowed.
///
/// A restart or cycle of a machine that is off switches it on: iDRAC and iLO refuse a restart then.
pub(super) fn steps(power: Power, on: bool, allowed: &[String]) -> Result<Steps, String> {
    let first = |wanted: &[&'static str]| {
        wanted.iter().copied().find(|kind| allowed.iter().any(|known| known == kind))
    };
    let one = |wanted: &[&'static str]| {
        first(wanted).map(Steps::One).ok_or_else(|| refusal(wanted, allowed))
    };
    let restart: &[&'static str] = match (power, on) {
        (Power::Off, false) | (Power::On, true) => return Ok(Steps::Nothing),
        (Power::Off, true) => return one(OFF),
        (_, false) => return one(ON),
        (Power::GracefulRestart, true) => &["GracefulRestart", "ForceRestart", "PowerCycle"],
        (Power::ForceRestart, true) => &["ForceRestart", "PowerCycle"],
        (Power::Cycle, true) => &["PowerCycle"],
    };
    if let Some(kind) = first(restart) {
        return Ok(Steps::One(kind));
    }
    match (first(OFF), first(ON)) {
        (Some(off), Some(on)) => Ok(Steps::OffThenOn { off, on }),
        _ => Err(refusal(restart, allowed)),
    }
}

fn refusal(wanted: &[&str], allowed: &[String]) -> String {
    format!("the BMC takes none of {}; it takes {}", wanted.join(", "), allowed.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(power: Power, on: bool, allowed: &[&str]) -> Result<Steps, String> {
        let allowed: Vec<String> = allowed.iter().map(|kind| (*kind).to_owned()).collect();
        steps(power, on, &allowed)
    }

    #[test]
    fn each_power_takes_the_best_that_is_allowed() {
        use Power::{Cycle, ForceRestart, GracefulRestart, Off, On};
        let all = ["On", "ForceOff", "GracefulRestart", "ForceRestart", "PowerCycle"];
        let few = ["On", "ForceOff"];
        let both = Steps::OffThenOn { off: "ForceOff", on: "On" };
        for (power, on, full, poor) in [
            (On, false, Steps::One("On"), Steps::One("On")),
            (On, true, Steps::Nothing, Steps::Nothing),
            (Off, true, Steps::One("ForceOff"), Steps::One("ForceOff")),
            (Off, false, Steps::Nothing, Steps::Nothing),
            (GracefulRestart, true, Steps::One("GracefulRestart"), both),
            (ForceRestart, true, Steps::One("ForceRestart"), both),
            (Cycle, true, Steps::One("PowerCycle"), both),
            (Cycle, false, Steps::One("On"), Steps::One("On")),
            (GracefulRestart, false, Steps::One("On"), Steps::One("On")),
        ] {
            assert_eq!(with(power, on, &all), Ok(full), "{power:?} {on}");
            assert_eq!(with(power, on, &few), Ok(poor), "{power:?} {on}");
        }
    }

    #[test]
    fn what_cannot_be_done_is_said() {
        let error = with(Power::Off, true, &["On", "GracefulShutdown"]).unwrap_err();
        assert_eq!(error, "the BMC takes none of ForceOff; it takes On, GracefulShutdown");
        assert!(with(Power::Cycle, true, &["On"]).is_err());
    }
}
