//! What the operator keeps to himself while a trace is replayed, so that it shows whether anybody minds.
//!
//! Now and then a proven spare is cordoned for an investigation, if enough others are left; and some of
//! the servers that are ill for long are marked hands-off before their repair begins. Until the operator
//! gives a server back, nobody else may lift the cordon or have anything done to it: [`super::judge`]
//! counts who does. No job runs on these servers, so none loses anything by it. Each act is listed as a
//! person's.

use std::time::Duration;

use api::Machine;
use api::names::HANDS_OFF;
use k8s_openapi::api::core::v1::Node;
use kit::ids::Ids;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::RunError;
use super::witness::Record;
use crate::people::{Act, Acts, Deed, OPERATOR};
use crate::replay::trace::Trace;

/// How often a spare is looked into.
const EVERY: Duration = Duration::from_secs(10 * 86_400);
/// For how long.
const LOOK: Duration = Duration::from_secs(4 * 3_600);
/// So many proven spares must be free: the fleet can do without one of them.
const ENOUGH: usize = 4;
/// Of the servers that are ill for longer than a day, each of this number is taken over ...
const ONE_IN: usize = 12;
const LONG: Duration = Duration::from_secs(86_400);
/// ... so long after its fault, while the fleet waits whether others fall ill too, and for so long.
const STEPS_IN: Duration = Duration::from_secs(10);
const HOLDS: Duration = Duration::from_secs(2 * 3_600);

/// What the operator takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// A spare that is free then.
    Spare,
    /// The server of the trace that is ill.
    Ill(usize),
}

/// A time for which the operator keeps a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Visit {
    pub(super) from: Duration,
    pub(super) to: Duration,
    pub(super) takes: Takes,
}

/// When the operator takes what, for as long as the trace lasts.
pub(super) fn visits(trace: &Trace) -> Vec<Visit> {
    let times = (1..).map(|n| EVERY * n).take_while(|from| *from + LOOK < trace.length);
    let spares = times.map(|from| Visit { from, to: from + LOOK, takes: Takes::Spare });
    let long = trace.faults.iter().filter(|fault| fault.to.saturating_sub(fault.from) > LONG);
    let ill = long.skip(1).step_by(ONE_IN).map(|fault| {
        let from = fault.from + STEPS_IN;
        Visit { from, to: from + HOLDS, takes: Takes::Ill(fault.node) }
    });
    spares.chain(ill.filter(|visit| visit.to < trace.length)).collect()
}

/// The operator's desk.
pub(super) struct Desk {
    client: Client,
    record: Record,
    acts: Acts,
    ids: Ids,
}

impl Desk {
    pub(super) fn new(client: Client, record: Record, acts: Acts, seed: u64) -> Self {
        Self { client, record, acts, ids: Ids::seeded(seed) }
    }

    /// Takes a server: `machines` are those of the trace. Says which, if there is one to take.
    pub(super) async fn take(
        &self,
        takes: Takes,
        machines: &[String],
    ) -> Result<Option<String>, RunError> {
        let (name, what, why) = match takes {
            Takes::Spare => {
                let free = self.record.free_spares();
                if free.len() < ENOUGH {
                    return Ok(None);
                }
                let mut bytes = [0; 8];
                // A seeded source cannot fail.
                let _ = self.ids.fill(&mut bytes);
                let drawn = u64::from_le_bytes(bytes) % free.len() as u64;
                let name = usize::try_from(drawn).ok().and_then(|drawn| free.get(drawn).cloned());
                (name, Deed::Cordoned, "looks into a spare for four hours")
            }
            Takes::Ill(number) => {
                let name = machines.get(number).cloned();
                (name, Deed::HandsOff, "looks at the sick server before anything more is tried")
            }
        };
        let Some(name) = name.filter(|name| self.record.keep(name)) else { return Ok(None) };
        self.write(&name, what, true).await?;
        self.note(&name, what, why);
        Ok(Some(name))
    }

    /// Gives a server back.
    pub(super) async fn give_back(&self, name: &str, takes: Takes) -> Result<(), RunError> {
        self.record.let_go(name);
        let what = match takes {
            Takes::Spare => Deed::Cordoned,
            Takes::Ill(_) => Deed::HandsOff,
        };
        self.write(name, what, false).await?;
        self.note(name, Deed::GaveBack, "has seen enough");
        Ok(())
    }

    async fn write(&self, name: &str, what: Deed, kept: bool) -> Result<(), RunError> {
        let written = if what == Deed::Cordoned {
            let patch = json!({"spec": {"unschedulable": kept.then_some(true)}});
            let nodes: Api<Node> = Api::all(self.client.clone());
            nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
        } else {
            let reason = kept.then_some("the operator looks at it");
            let patch: Value = json!({"metadata": {"annotations": {HANDS_OFF: reason}}});
            let machines: Api<Machine> = Api::all(self.client.clone());
            machines.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
        };
        // A node that went meanwhile needs not be given back.
        if let Err(kube::Error::Api(status)) = &written
            && status.code == 404
            && !kept
        {
            return Ok(());
        }
        written.map_err(|source| RunError::Write {
            what: format!("act as the operator on {name}"),
            source: Box::new(source),
        })
    }

    fn note(&self, name: &str, what: Deed, why: &str) {
        let (at, about, why) = (self.record.now(), name.to_owned(), why.to_owned());
        self.acts.add(Act { at, by: OPERATOR, about, what, why });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::trace::Fault;

    #[test]
    fn the_operator_takes_spares_in_turn_and_some_of_those_that_are_ill_for_long() {
        const DAY: Duration = Duration::from_secs(86_400);
        let fault = |node: usize| {
            let from = DAY * u32::try_from(node).unwrap();
            Fault { line: 2, node, kind: 0, from, to: from + DAY * (1 + u32::from(node > 2)) }
        };
        let trace =
            Trace { faults: (0..20).map(fault).collect(), length: DAY * 25, ..Trace::default() };
        let visits = visits(&trace);
        let spares: Vec<Duration> =
            visits.iter().filter(|v| v.takes == Takes::Spare).map(|v| v.from).collect();
        assert_eq!(spares, [DAY * 10, DAY * 20]);
        let ill: Vec<Takes> =
            visits.iter().map(|v| v.takes).filter(|takes| *takes != Takes::Spare).collect();
        assert_eq!(ill, [Takes::Ill(4), Takes::Ill(16)], "a day is not long");
        assert!(visits.iter().all(|visit| visit.from < visit.to && visit.to < trace.length));
    }
}
