//! Zap: whatever the last owner left is wiped, and firmware brought to the profile, by a system that
//! belongs to nobody: that of the first voyage, or one that is booted for it. The only way from one
//! tenant to the next. Ends in Test, or after two tries or six hours in ZapFailed.

use super::Next;
use super::look::Look;
use api::request::{Chore, Effect, Power};
use api::state::State;

pub(super) fn next(look: &Look<'_>) -> Next {
    let progress = &look.status.progress;
    let power = |stage, why: &str| Next::Do {
        stage,
        effect: Effect::Power(Power::Cycle),
        target: None,
        why: why.to_owned(),
    };
    let chore = |stage, chore, why: &str| Next::Do {
        stage,
        effect: Effect::Chore(chore),
        target: None,
        why: why.to_owned(),
    };
    if progress.booted.is_none() {
        return power("boot", "boot a system that belongs to nobody");
    }
    if progress.sanitised.is_none() {
        return chore("wipe", Chore::Sanitise, "wipe disks and secrets of the last owner");
    }
    let wrong = wrong_firmware(look);
    if progress.flashed.is_none() {
        if wrong.is_empty() {
            return Next::Go {
                to: State::Test,
                why: "wiped, and firmware is that of the profile".to_owned(),
            };
        }
        let why = format!("bring firmware to the profile: {}", wrong.join(", "));
        return chore("firmware", Chore::Firmware, &why);
    }
    if progress.cycled.is_none() {
        return power("power drain", "cut the power so that new firmware takes hold");
    }
    if progress.inventoried.is_none() {
        return chore("inventory", Chore::Inventory, "read firmware again");
    }
    if wrong.is_empty() {
        return Next::Go {
            to: State::Test,
            why: "wiped, and firmware is that of the profile".to_owned(),
        };
    }
    Next::Fail {
        why: format!("firmware is not that of the profile after the update: {}", wrong.join(", ")),
    }
}

/// Every component whose firmware is not that of the type, as sentences.
fn wrong_firmware(look: &Look<'_>) -> Vec<String> {
    let wanted = look.observed.kind.iter().flat_map(|kind| &kind.spec.firmware);
    wanted
        .filter_map(|(component, version)| match look.status.firmware.get(component) {
            Some(found) if found == version => None,
            Some(found) => Some(format!("{component} is {found}, wanted {version}")),
            None => Some(format!("{component} is unknown, wanted {version}")),
        })
        .collect()
}
