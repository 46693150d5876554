//! Who is given an identity, a token to join, and a certificate, boot by boot.
//!
//! A boot draws a secret and shows it whenever it asks. The first to ask for a boot is that boot from
//! then on (its record in the Machine keeps a digest, never the secret); whoever asks for the same boot
//! with another secret is refused, and another boot takes the machine over. So an answer that is lost
//! on its way is asked for again, and nobody else gets it.
//!
//! A token to join is given to a boot in production, [`TOKENS`] times at most, and never while the one
//! before is good: a boot whose answer was lost asks again when that has run out. Each is good for one
//! certificate, of the machine's own node. A boot that has had them all is stranded no longer than the
//! lifecycle's patience with a node that does not join.

use api::machine::{Admission, Enrolment};
use api::state::State;
use api::{InstanceType, Machine, NodePool, names};
use jiff::{SignedDuration, Timestamp};

use crate::certificates::{Asked, KUBELET, judge};

/// How long a token to join is good: long enough for ten thousand machines to be signed at once, and
/// short beside [`Rules::join`](crate::Rules::join), within which a machine may use all of them up.
pub const TOKEN_LIFE: SignedDuration = SignedDuration::from_mins(3);

/// How many tokens a boot may have.
pub const TOKENS: u32 = 3;

/// What shall be done for a boot that asks who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enrol {
    /// It is known: it is told again.
    Known,
    /// Write this down; then it is told.
    Begin(Enrolment),
    /// Another has asked for this boot before.
    Refuse(String),
}

/// Decides for the boot that knows the secret of this digest.
pub fn enrol(machine: &Machine, boot: &str, proof: &str, now: Timestamp) -> Enrol {
    match enrolment(machine) {
        Some(known) if known.boot == boot && known.proof == proof => Enrol::Known,
        Some(known) if known.boot == boot => Enrol::Refuse(format!(
            "this boot of {} has enrolled with another secret at {}; boot anew, and find out who did",
            machine.name(),
            known.since
        )),
        _ => Enrol::Begin(Enrolment {
            boot: boot.to_owned(),
            proof: proof.to_owned(),
            since: now,
            token: None,
        }),
    }
}

/// What shall be done for a boot that asks for a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Join {
    /// Write down that it has a token of this number and end; then make it and tell it.
    Give {
        /// How many it then has had.
        count: u32,
        /// Until when it is good.
        expires: Timestamp,
    },
    /// It has one, or has had them all.
    Spent {
        /// When it may ask again; never, if this is absent.
        until: Option<Timestamp>,
    },
    /// It may not join.
    Refuse(String),
}

/// Decides for the boot that knows the secret of this digest.
pub fn join(machine: &Machine, boot: &str, proof: &str, now: Timestamp) -> Join {
    let name = machine.name();
    let Some(known) = enrolment(machine).filter(|known| known.boot == boot) else {
        return Join::Refuse(format!("this boot of {name} has not enrolled"));
    };
    if known.proof != proof {
        return Join::Refuse(format!("this boot of {name} has enrolled with another secret"));
    }
    if let Err(why) = serves(machine, boot) {
        return Join::Refuse(why);
    }
    let token = known.token.as_ref();
    let good = token.filter(|token| token.expires > now && !is_spent(machine, &token.id));
    let count = token.map_or(0, |token| token.count).saturating_add(1);
    if count > TOKENS {
        return Join::Spent { until: None };
    }
    match good {
        Some(token) => Join::Spent { until: Some(token.expires) },
        None => Join::Give { count, expires: now.checked_add(TOKEN_LIFE).unwrap_or(now) },
    }
}

/// What shall be done about a request for a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admit {
    /// Write down what the token is spent on, and approve it.
    Spend(Admission),
    /// Approve it: it is what the token was spent on.
    Approve,
    /// Deny it, and say why.
    Deny(String),
}

/// Whether a request was made with a token of ours: only those are decided here.
pub fn is_ours(user: &str, groups: &[String]) -> bool {
    token_of(user).is_some() && groups.iter().any(|group| group == names::JOINING_GROUP)
}

/// Decides about the request of this UID. `machine` is the one that has the name of the node that is
/// asked for, read from the API and not from memory.
pub fn admit(asked: &Asked, request: &str, machine: Option<&Machine>) -> Admit {
    let deny = |why: String| Admit::Deny(why);
    if asked.signer != KUBELET {
        return deny(format!("a token to join is good for the signer {KUBELET}"));
    }
    if let Some(Err(why)) = judge(asked) {
        return deny(why);
    }
    let node = node_of(asked).unwrap_or_default();
    let Some(machine) = machine.filter(|machine| machine.name() == node) else {
        return deny(format!("there is no Machine {node:?}"));
    };
    let given = enrolment(machine).and_then(|known| Some((&known.boot, known.token.as_ref()?)));
    let ours = given.filter(|(_, token)| Some(token.id.as_str()) == token_of(&asked.user));
    let Some((boot, token)) = ours else {
        return deny(format!("the token was not given to {node}, or another has been since"));
    };
    match &machine.status.as_ref().and_then(|status| status.admission.clone()) {
        Some(spent) if spent.token == token.id && spent.request == request => Admit::Approve,
        Some(spent) if spent.token == token.id => {
            deny("the token has been spent on another request".to_owned())
        }
        _ => match serves(machine, boot) {
            Err(why) => deny(why),
            Ok(()) => {
                Admit::Spend(Admission { token: token.id.clone(), request: request.to_owned() })
            }
        },
    }
}

/// The node whose certificate is asked for.
pub fn node_of(asked: &Asked) -> Option<&str> {
    asked.common_name.strip_prefix("system:node:")
}

/// The image that a machine boots: its own, that of the pool it serves, or that of its type.
pub fn image<'a>(
    machine: &'a Machine,
    pool: Option<&'a NodePool>,
    kind: Option<&'a InstanceType>,
) -> Option<&'a String> {
    let pool = pool.and_then(|pool| pool.spec.image.as_ref());
    machine.spec.image.as_ref().or(pool).or(kind.map(|kind| &kind.spec.image))
}

fn enrolment(machine: &Machine) -> Option<&Enrolment> {
    machine.status.as_ref()?.enrolment.as_ref()
}

/// It is in production, and runs this boot.
fn serves(machine: &Machine, boot: &str) -> Result<(), String> {
    let name = machine.name();
    if machine.state() != State::Production {
        return Err(format!("{name} is not in Production; it joins when it is"));
    }
    let agent = machine.status.as_ref().and_then(|status| status.agent.as_ref());
    match agent {
        Some(agent) if agent.boot == boot => Ok(()),
        _ => Err(format!("{name} does not run this boot, as far as its agent has reported")),
    }
}

fn is_spent(machine: &Machine, token: &str) -> bool {
    let admission = machine.status.as_ref().and_then(|status| status.admission.as_ref());
    admission.is_some_and(|admission| admission.token == token)
}

/// The public half of the token that a user authenticated with.
fn token_of(user: &str) -> Option<&str> {
    user.strip_prefix("system:bootstrap:")
}

#[cfg(test)]
mod tests;
