//! Why a pool has as many nodes as it has.

use super::{Why, ago, count, left, open_ended, some, wave};
use crate::pool::{PROMISE, takes_out};
use api::state::State;
use api::{Breaker, Incident, Machine, NodePool};
use jiff::Timestamp;

/// Tells about a pool.
pub fn pool(
    now: Timestamp,
    pool: &NodePool,
    machines: &[Machine],
    incidents: &[Incident],
    breakers: &[Breaker],
) -> Why {
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let Some(status) = &pool.status else {
        return Why::new(format!(
            "Pool {name} has not been looked at yet; is the pool controller running?"
        ));
    };
    let behind = status.observed_generation < pool.metadata.generation;
    let mut why = Why::new(match status.why.as_str() {
        _ if behind => format!("Pool {name} was changed, and has not been looked at since."),
        "" => format!("Pool {name} has the {} that it wants.", nodes(status.current)),
        why => format!(
            "Pool {name} serves {} of {}: {}.",
            status.current,
            nodes(status.target),
            open_ended(why)
        ),
    });
    let members: Vec<&Machine> = machines
        .iter()
        .filter(|machine| machine.spec.assignment.as_ref().is_some_and(|a| a.pool == name))
        .collect();
    let sick: Vec<String> = members
        .iter()
        .filter_map(|machine| {
            let of = |incident: &&Incident| incident.spec.machine == machine.name();
            let incident = incidents.iter().filter(of).find(|i| takes_out(i, true))?;
            let cause = &incident.spec.cause;
            Some(format!("{} ({cause}, {})", machine.name(), ago(now, incident.spec.opened)))
        })
        .collect();
    let gone: Vec<&str> = members
        .iter()
        .filter(|machine| machine.state() != State::Production)
        .map(|machine| machine.name())
        .collect();
    let mut numbers = vec![format!("{} serve", status.current)];
    for (number, what) in [
        (status.in_progress, "on the way in"),
        (status.prefill, "in the place of a sick one"),
        (status.queued, "without a machine"),
    ] {
        if number > 0 {
            numbers.push(format!("{number} {what}"));
        }
    }
    why.line("nodes", numbers.join(", "));
    if !sick.is_empty() {
        let names: Vec<&str> = sick.iter().map(String::as_str).collect();
        why.line("sick", some(&names));
    }
    if !gone.is_empty() {
        why.line("left", format!("{} left production", some(&gone)));
    }
    let promise = match pool.spec.spares {
        Some(_) => "as the pool asks for".to_owned(),
        None => format!("to cover failures {} % of the time", PROMISE * 100.0),
    };
    why.line("spares", format!("{} of {} {promise}", status.spares, status.spares_wanted));
    if let Some(until) = status.until {
        let remaining = left(now, until).map(|left| format!("expected at target in {left}"));
        why.line(
            "next",
            remaining.unwrap_or_else(|| format!("was expected at target {} ago", ago(now, until))),
        );
    }
    for breaker in breakers.iter().filter(|breaker| breaker.is_open()) {
        let touches = |machine: &&Machine| {
            let node = machine.status.as_ref().and_then(|status| status.node.as_ref());
            let named = node.map_or(machine.name(), |node| node.name.as_str()).to_owned();
            breaker.status.as_ref().is_some_and(|status| status.nodes.contains(&named))
        };
        if members.iter().any(touches) {
            why.line("wave", wave(now, breaker, incidents));
        }
    }
    let spec = &pool.spec;
    why.line("asked by", format!("tenant {}, type {}", spec.tenant, spec.instance_type));
    why
}

fn nodes(number: u32) -> String {
    count(number.try_into().unwrap_or(usize::MAX), "node")
}
