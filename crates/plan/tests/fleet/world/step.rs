//! How the world goes on: observe, plan, lint, apply for every object until nothing is left to do,
//! then on to the next instant at which anything happens.

use super::World;
use api::incident::Stage;
use jiff::Timestamp;
use plan::budget::{Census, Counted};
use plan::machine::{Joined, PowerOns};
use plan::node::Ready;
use plan::{breaker, lint, machine, node, pool};
use std::time::Duration;

/// More looks at one instant than this never end.
const LOOKS: usize = 60;

impl World {
    /// Goes on until `until`, or until nothing will ever happen.
    pub(crate) fn run(&mut self, until: Timestamp) {
        loop {
            let mut wake = self.settle();
            for hardware in self.hardware.values() {
                wake = [wake, hardware.next()].into_iter().flatten().min();
            }
            let ending = self.pods.values().flatten().filter_map(|pod| {
                pod.ending.map(|at| at.checked_add(pod.grace.min(Duration::from_secs(30))).unwrap())
            });
            wake = ending.chain(wake).min();
            match wake.filter(|at| *at <= until) {
                Some(at) => self.now = at.max(self.now),
                None => {
                    self.now = until;
                    self.settle();
                    return;
                }
            }
            self.happen();
        }
    }

    /// Goes on for a while.
    pub(crate) fn run_for(&mut self, wait: Duration) {
        self.run(self.now.checked_add(wait).unwrap());
    }

    /// Plans and applies until nothing is left to do now; says when to look again.
    pub(crate) fn settle(&mut self) -> Option<Timestamp> {
        for _ in 0..LOOKS {
            let (changed, wake) = self.look();
            if !changed {
                return wake;
            }
        }
        let tail: Vec<String> = self.log.iter().rev().take(12).rev().cloned().collect();
        panic!("plans never come to rest:\n{}", tail.join("\n"));
    }

    fn look(&mut self) -> (bool, Option<Timestamp>) {
        let mut wake: Option<Timestamp> = None;
        let mut changed = self.join();
        let names: Vec<String> = self.machines.keys().cloned().collect();
        for name in &names {
            let (did, at) = self.look_at_machine(name);
            changed |= did;
            wake = [wake, at].into_iter().flatten().min();
        }
        for index in 0..self.pools.len() {
            changed |= self.look_at_pool(index);
        }
        changed |= self.look_for_waves();
        for name in &names {
            let (did, at) = self.look_at_node(name);
            changed |= did;
            wake = [wake, at].into_iter().flatten().min();
        }
        (changed, wake)
    }

    fn look_at_machine(&mut self, name: &str) -> (bool, Option<Timestamp>) {
        let machine = self.machines[name].clone();
        let node = self
            .nodes
            .get(name)
            .map(|node| Joined { name: name.to_owned(), uid: node.uid.clone() });
        let observed = machine::Observed {
            now: self.now,
            machine: &machine,
            kind: Some(&self.kind),
            pool: None,
            bmc: self.readings.get(name),
            node: node.as_ref(),
            power_ons: PowerOns { under_way: 0, allowed: 4 },
            rules: &self.rules,
        };
        let plan = machine::plan(&observed);
        let wrong = lint::machine(&observed, &plan);
        let wake = plan.wake;
        self.wrong.extend(wrong.into_iter().map(|wrong| format!("{name}: {wrong}")));
        (self.apply_machine(name, plan), wake)
    }

    /// Everything that the node controller sees of one node.
    pub(crate) fn with_node<T>(
        &self,
        name: &str,
        then: impl FnOnce(&node::Observed<'_>) -> T,
    ) -> T {
        let census = self.census();
        let of_node = |incident: &&api::Incident| incident.spec.machine == name;
        let closed =
            |i: &api::Incident| i.status.as_ref().is_some_and(|s| s.stage == Stage::Closed);
        let incident = self.incidents.iter().filter(of_node).find(|i| !closed(i));
        let past: Vec<_> =
            self.incidents.iter().filter(of_node).filter(|i| closed(i)).cloned().collect();
        let none = Vec::new();
        let status = self.machines[name].status.as_ref();
        let serves = status.and_then(|status| status.pool.as_deref());
        then(&node::Observed {
            now: self.now,
            node: self.nodes.get(name),
            machine: &self.machines[name],
            incident,
            past: &past,
            pods: self.pods.get(name).unwrap_or(&none),
            ledger: &self.ledger,
            census: &census,
            pool: self.pools.iter().find(|p| p.metadata.name.as_deref() == serves),
            breakers: &self.breakers,
            catalogue: self.catalogue,
            rules: &self.rules,
        })
    }

    fn look_at_node(&mut self, name: &str) -> (bool, Option<Timestamp>) {
        let (plan, wrong) = self.with_node(name, |observed| {
            let plan = node::plan(observed);
            let wrong = lint::node(observed, &plan);
            (plan, wrong)
        });
        let wake = plan.wake;
        self.wrong.extend(wrong.into_iter().map(|wrong| format!("{name}: {wrong}")));
        (self.apply_node(name, plan), wake)
    }

    fn look_at_pool(&mut self, index: usize) -> bool {
        let kinds = [self.kind.clone()];
        let seats: Vec<pool::Seat<'_>> =
            self.machines.iter().map(|(name, machine)| self.seat(name, machine)).collect();
        let plan = pool::plan(&pool::Observed {
            now: self.now,
            pool: &self.pools[index],
            kinds: &kinds,
            seats: &seats,
            mean_out: 0.1,
            bring_up: Duration::from_secs(3_600),
        });
        self.apply_pool(index, plan)
    }

    fn seat<'a>(&'a self, name: &str, machine: &'a api::Machine) -> pool::Seat<'a> {
        let node = self.nodes.get(name);
        let open = |i: &api::Incident| i.status.as_ref().is_none_or(|s| s.stage != Stage::Closed);
        let sick = self
            .incidents
            .iter()
            .any(|i| i.spec.machine == name && open(i) && i.spec.cause != "pool/release");
        pool::Seat {
            machine,
            in_service: !sick && node.is_some_and(|n| n.ready == Ready::Yes && !n.unschedulable),
            sick,
            kept: node.is_some_and(|n| n.cordoned_by_person() || n.hands_off.is_some()),
            idle: self.pods.get(name).is_none_or(|pods| pods.iter().all(|pod| !pod.holds)),
        }
    }

    fn look_for_waves(&mut self) -> bool {
        let names: Vec<String> = self.nodes.keys().cloned().collect();
        let sick: Vec<_> =
            names.iter().filter_map(|name| self.with_node(name, node::symptom)).collect();
        let observed = breaker::Observed {
            now: self.now,
            sick: &sick,
            sizes: &self.sizes,
            breakers: &self.breakers,
            rules: &self.rules,
        };
        let plan = breaker::plan(&observed);
        self.apply_breaker(plan)
    }

    /// Who is out, fleet-wide.
    pub(crate) fn census(&self) -> Census {
        Census::of(self.nodes.values().map(|node| {
            let machine = &self.machines[&node.name];
            let status = machine.status.clone().unwrap_or_default();
            Counted {
                node: node.name.clone(),
                pool: status.pool,
                rack: machine.spec.place.rack.clone(),
                tenant: status.tenant,
                out: node.unschedulable || node.ready != Ready::Yes,
            }
        }))
    }
}
