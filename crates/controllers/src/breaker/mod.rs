//! Many nodes that fall ill together stop the repairs of those nodes until a person has looked:
//! `plan::breaker`, carried out.
//!
//! Who is sick, with what, and how many nodes share a part is kept as nodes and machines change, so a
//! look reads only the sick. Breakers are opened here and closed by people, by `spec.acknowledged`.

mod sick;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::Breaker;
use api::Machine;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::controller::{
    Alert, Cache, Change, Context, Controller, Error, Mood, Note, ObjectKey, Parts, Wake, Watch,
    Wiring,
};
use plan::breaker::Act;
use plan::deed::{Because, Deed};
use plan::rules::Rules;

use crate::deed::told;
use crate::node::{Settings, seen};
use sick::Sickbed;

/// All of them: a wave is a matter of many nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waves;

impl fmt::Display for Waves {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("waves")
    }
}

/// See the module.
pub struct Breakers {
    breakers: Cache<Breaker>,
    sickbed: Arc<Mutex<Sickbed>>,
    rules: Arc<Rules>,
}

/// Who is sick, and the breakers.
pub struct Observed {
    now: jiff::Timestamp,
    sick: Vec<plan::breaker::Sick>,
    sizes: Arc<sick::Sizes>,
    breakers: Vec<Breaker>,
    rules: Arc<Rules>,
}

/// What is to be done, and the breakers that it was decided upon.
pub struct Plan {
    plan: plan::deed::Plan<Act, ()>,
    breakers: Vec<Breaker>,
    made: jiff::Timestamp,
}

fn lock(sickbed: &Mutex<Sickbed>) -> MutexGuard<'_, Sickbed> {
    sickbed.lock().unwrap_or_else(PoisonError::into_inner)
}

fn declare(wiring: &mut Wiring<Waves>) {
    wiring
        .about("Stops the repairs of nodes that fall ill together, until a person has looked")
        .concurrency(1)
        .may(&["create"], api::GROUP, &["breakers"])
        .may(&["patch"], api::GROUP, &["breakers/status"])
        .records_events()
        .alert(Alert {
            name: "SeatrialBreakerOpen",
            expr: "max by (controller) (seatrial_controller_objects{controller=\"breaker\",\
                   what=\"breakers\",state=\"Open\"}) > 0",
            lasts: "0m",
            severity: "critical",
            summary: "many nodes fell ill together and their repairs wait for a person; \
                      `kubectl get breakers` says what they have in common",
            example: &[(
                "seatrial_controller_objects{controller=\"breaker\",what=\"breakers\",\
                 state=\"Open\"}",
                "0 0 0 1x20",
            )],
            fires_at: "10m",
            labels: &[],
        });
}

impl Controller for Breakers {
    type Key = Waves;
    type Settings = Settings;
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "breaker";

    fn wire(settings: Settings, wiring: &mut Wiring<Waves>) -> Self {
        declare(wiring);
        let (machines, nodes) = (wiring.read(Watch::<Machine>::all()), wiring.read(Watch::all()));
        let breakers = wiring.watch(Watch::<Breaker>::all(), |_| [Waves]);
        let sickbed = Arc::new(Mutex::new(Sickbed::new(settings.catalogue)));
        let (bed, adder, all) = (Arc::clone(&sickbed), wiring.adder(), machines.clone());
        nodes.on_change(move |change: &Change<Node>| {
            let counts = match (&change.old, &change.new) {
                (Some(old), Some(new)) => seen::node_matters(old, new),
                _ => true,
            };
            if !counts {
                return;
            }
            let below = change.latest().map(|node| seen::machine_of(node)).unwrap_or_default();
            let machine = all.get(&ObjectKey::cluster(below));
            if lock(&bed).see(&change.key.name, change.new.as_deref(), machine.as_deref()) {
                adder.add(Waves);
            }
        });
        let (bed, adder) = (Arc::clone(&sickbed), wiring.adder());
        machines.on_change(move |change: &Change<Machine>| {
            let counts = match (&change.old, &change.new) {
                (Some(old), Some(new)) => {
                    old.spec.place != new.spec.place || sick::image(old) != sick::image(new)
                }
                _ => true,
            };
            let node = lock(&bed).node_of(&change.key.name).filter(|_| counts);
            let Some(name) = node else { return };
            let node = nodes.get(&ObjectKey::cluster(name.clone()));
            if lock(&bed).see(&name, node.as_deref(), change.new.as_deref()) {
                adder.add(Waves);
            }
        });
        Self { breakers, sickbed, rules: Arc::new(settings.rules) }
    }

    async fn observe(&self, context: &Context, _: &Waves) -> Result<Option<Observed>, Error> {
        let breakers: Vec<Breaker> = self.breakers.list().iter().map(|b| (**b).clone()).collect();
        let (sick, sizes) = {
            let bed = lock(&self.sickbed);
            (bed.sick(), bed.sizes())
        };
        context.count("breakers", "Open", breakers.iter().filter(|b| b.is_open()).count());
        context.count("nodes", "Sick", sick.len());
        let rules = Arc::clone(&self.rules);
        Ok(Some(Observed { now: context.now(), sick, sizes, breakers, rules }))
    }

    fn plan(observed: &Observed) -> Plan {
        let plan = plan::breaker::plan(&plan::breaker::Observed {
            now: observed.now,
            sick: &observed.sick,
            sizes: &observed.sizes,
            breakers: &observed.breakers,
            rules: &observed.rules,
        });
        Plan { plan, breakers: observed.breakers.clone(), made: observed.now }
    }

    async fn apply(&self, context: &Context, _: &Waves, plan: Plan) -> Result<Wake, Error> {
        for deed in &plan.plan.deeds {
            let old = plan.made.checked_add(self.rules.fresh).unwrap_or(jiff::Timestamp::MAX);
            if old < context.now() {
                return Err(Error::not_ready("the plan is old; plans anew"));
            }
            carry_out(context, &plan, deed).await?;
        }
        Ok(plan.plan.wake.map_or(Wake::Never, Wake::At))
    }
}

async fn carry_out(context: &Context, plan: &Plan, deed: &Deed<Act>) -> Result<(), Error> {
    match &deed.act {
        Act::Create { name, spec } => {
            let breaker = Breaker::new(name, spec.clone());
            tell(context, &breaker.metadata, note("CreateBreaker", &deed.because)).await;
            match context.create(&breaker).await {
                Err(error) if error.already_exists() => Ok(()),
                other => other.map(drop),
            }
        }
        Act::Write { name, status } => {
            let known = plan.breakers.iter().find(|b| b.metadata.name.as_ref() == Some(name));
            let Some(known) = known else { return Ok(()) };
            let opens = status.openings > known.status.as_ref().map_or(0, |old| old.openings);
            let closes = !status.open;
            // Who joins a wave that is known is in the status; more Events would say nothing.
            if opens || closes {
                let reason = if opens { "OpenBreaker" } else { "CloseBreaker" };
                tell(context, &known.metadata, note(reason, &deed.because)).await;
            }
            context.swap_status(known, status, Parts::All).await?;
            let of_this = |event: &&plan::Event| event.note == status.why;
            for event in plan.plan.events.iter().filter(of_this) {
                tell(context, &known.metadata, told(event, &event.reason)).await;
            }
            Ok(())
        }
    }
}

async fn tell(context: &Context, breaker: &ObjectMeta, note: Note) {
    context.record::<Breaker>(&(), breaker, note).await;
}

fn note(reason: &str, because: &Because) -> Note {
    let mut text = format!("{}: {} (for {})", because.who, because.why, because.origin);
    if !because.evidence.is_empty() {
        text.push_str(&format!("; seen {}", because.evidence.join("; ")));
    }
    let reason = reason.to_owned();
    Note { mood: Mood::Normal, action: reason.clone(), reason, text }
}
