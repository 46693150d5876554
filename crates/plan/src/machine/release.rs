//! A machine whose object was deleted: nothing of it may stay behind. It is switched off once no
//! node runs on it; hardware that never answers is let go by a person's annotation.

use super::look::Look;
use super::{Act, operation};
use api::names::{FINALIZER, FORCE_RELEASE};
use api::request::{Effect, Power};
use api::state::State;

pub(super) fn plan(look: &mut Look<'_>) {
    let metadata = &look.observed.machine.metadata;
    if !metadata.finalizers.iter().flatten().any(|name| name == FINALIZER) {
        return;
    }
    let forced = metadata.annotations.iter().flatten().any(|(name, _)| name == FORCE_RELEASE);
    if forced {
        return look.deed(Act::Release, "a person lets the machine go without switching it off");
    }
    if look.status.state == State::Production && look.status.node.is_some() {
        let why = "deleted while its node serves: ask for the phase Triage on the node first";
        return look.wait("to be released", why.to_owned(), None);
    }
    if look.status.operation.is_some() {
        return operation::advance(look);
    }
    if let Some(until) = look.status.retry_at.filter(|until| *until > look.now()) {
        return look.plan.wake_at(until);
    }
    if look.status.progress.cycled.is_some() {
        return look.deed(Act::Release, "the machine is off and its object was deleted");
    }
    let why = "switch off a machine whose object was deleted".to_owned();
    operation::begin(look, "to be released", Effect::Power(Power::Off), None, why);
}
