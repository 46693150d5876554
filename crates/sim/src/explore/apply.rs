//! Carries plans out, in the order and under the fences that [`plan::deed`] prescribes: one write or
//! deed is one step, and anything may happen between two.

use super::bug::Bug;
use super::controller::{AnyDeed, Pass, Role, Status, again};
use super::metal::{Accepted, Done, Mode, plus};
use super::store::{Kind, Value, is_open, node_id, pods_id};
use super::tale::Disturbance;
use super::world::{World, say};
use api::ledger::LedgerStatus;
use api::request::Power;
use api::{Breaker, Incident};
use plan::budget;
use plan::deed::Fence;
use plan::fence::Standing;
use plan::machine::{Heard, Reading};
use plan::{breaker, machine, node};
use std::rc::Rc;
use std::time::Duration;

/// Why a step was not done, or is not known to be done.
pub(super) type Refused = &'static str;

impl World {
    /// The next write or deed of the plan that a controller carries out.
    pub(super) fn step(&mut self, by: usize) -> bool {
        let Some(controller) = self.controllers.get_mut(by).filter(|c| c.up) else { return false };
        let Some(mut pass) = controller.pass.take() else { return false };
        self.tale.step(4, by, pass.about.unwrap_or(usize::MAX));
        if let Err(why) = self.advance(by, &mut pass) {
            say!(self, "   controller {by}: {why}");
            let forget = self.has(Bug::ForgetFailedDeed);
            let at = again(self.now);
            if let Some(controller) = self.controllers.get_mut(by) {
                match pass.about {
                    _ if forget => {}
                    Some(index) => controller.wake(index, at),
                    None => controller.waves = true,
                }
            }
        } else if (pass.status.is_some() || !pass.deeds.is_empty() || pass.untold > 0)
            && let Some(controller) = self.controllers.get_mut(by)
        {
            controller.pass = Some(pass);
        }
        true
    }

    fn advance(&mut self, by: usize, pass: &mut Pass) -> Result<(), Refused> {
        if pass.untold > 0 {
            pass.untold = 0;
            return Ok(());
        }
        if plus(pass.made, self.setting.rules.fresh) < self.now {
            return Err("the plan is old; plans anew");
        }
        let first = self.has(Bug::DeedBeforeStatus) && !pass.deeds.is_empty();
        if !first && let Some(status) = pass.status.take() {
            return self.linked(by, |world| world.write(by, pass.about, pass.object, status));
        }
        if !pass.told && !self.has(Bug::EventAfterDeed) {
            pass.told = true;
            return self.linked(by, |_| Ok(()));
        }
        let Some(deed) = pass.deeds.pop_front() else { return Ok(()) };
        let told = std::mem::take(&mut pass.told);
        let about = pass.about.unwrap_or(0);
        let done = match deed {
            AnyDeed::Machine(deed) => self.machine_deed(by, about, *deed),
            AnyDeed::Node(deed) => self.linked(by, |world| world.node_deed(by, about, *deed)),
            AnyDeed::Breaker(deed) => self.linked(by, |world| world.breaker_deed(by, deed.act)),
        };
        if done.is_ok() && !told {
            pass.untold += 1;
        }
        done
    }

    /// Something that goes through the API, and may be lost on the way or on the way back.
    fn linked(
        &mut self,
        by: usize,
        act: impl FnOnce(&mut Self) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        if self.controllers.get(by).is_some_and(|c| c.cut) {
            return Err("the API does not answer");
        }
        let luck = if self.chaos { self.draw.below(40) } else { 2 };
        if luck == 0 {
            self.tale.coverage.disturbance(None, Disturbance::LostRequest);
            return Err("the request was lost");
        }
        let done = act(self);
        if luck == 1 && done.is_ok() {
            self.tale.coverage.disturbance(None, Disturbance::LostReply);
            return Err("the reply was lost");
        }
        done
    }

    fn write(
        &mut self,
        by: usize,
        about: Option<usize>,
        object: (usize, u64),
        status: Status,
    ) -> Result<(), Refused> {
        let (id, number) = object;
        let index = about.unwrap_or(0);
        if self.store.number(id) != number && !self.has(Bug::NoVersionCheck) {
            return Err("the object has changed since; plans anew");
        }
        match status {
            Status::Machine(status) => {
                self.check_machine(index, &status);
                say!(self, "{by}> {} {}: {}", self.name(index), status.state, status.why);
                self.change_machine(index, false, |machine| machine.status = Some(*status));
            }
            Status::Incident(status) => {
                say!(self, "{by}> {} {:?}: {}", self.name(index), status.stage, status.why);
                self.change_incident(id, |incident| incident.status = Some(*status));
            }
        }
        Ok(())
    }

    /// What stands now, for a fence about this machine and its node.
    fn fenced(&self, index: usize, fence: &Fence, hardware: bool) -> Result<(), Refused> {
        let live = self.store.live();
        let machine = live.machine(index);
        let node = live.node(index);
        let agent = machine.and_then(|m| m.status.as_ref()).and_then(|s| s.agent.as_ref());
        let last_reset = self.metal.get(index).and_then(|metal| metal.last_reset());
        let incident = fence.incident.as_ref().and_then(|meant| {
            let named = live.incidents().find(|(_, incident)| {
                let metadata = &incident.metadata;
                metadata.uid.as_ref() == Some(meant) || metadata.name.as_ref() == Some(meant)
            });
            named.map(|(_, incident)| incident.status.as_ref().map(|s| s.stage).unwrap_or_default())
        });
        let mut standing = Standing {
            machine_uid: machine.map(|machine| machine.uid()),
            generation: machine.and_then(|machine| machine.metadata.generation),
            node_uid: node.map(|node| node.uid.as_str()),
            boot: if hardware {
                agent.map(|agent| agent.boot.as_str())
            } else {
                node.and_then(|node| node.boot.as_deref())
            },
            last_reset: last_reset.as_deref(),
            incident,
            shows: fence.shown.as_ref().zip(node).and_then(|(meant, node)| {
                let said = node.condition(&meant.condition).filter(|said| said.holds)?;
                Some(said.reason.as_str())
            }),
        };
        if self.has(Bug::AnyBoot) {
            standing.boot = fence.boot.as_deref();
        }
        if self.has(Bug::IgnoreLastReset) || !hardware {
            standing.last_reset = fence.last_reset.as_deref();
        }
        fence.broken(&standing).map_or(Ok(()), Err)
    }

    fn machine_deed(
        &mut self,
        by: usize,
        index: usize,
        deed: plan::deed::Deed<machine::Act>,
    ) -> Result<(), Refused> {
        match deed.act {
            machine::Act::ReadBmc => self.read_bmc(by, index),
            machine::Act::Power { power, operation } => {
                self.fenced(index, &deed.fence, true)?;
                if self.controllers.get(by).is_some_and(|c| c.bmc_cut || c.cut) {
                    return Err("the BMC does not answer");
                }
                let done = self.power(index, power, &operation);
                if done.is_err() && self.has(Bug::RetryLostReply) {
                    return self.power(index, power, &operation);
                }
                done
            }
            machine::Act::DeleteNode { name } => self.linked(by, |world| {
                world.fenced(index, &deed.fence, true)?;
                say!(world, "{by}> {name} is deleted");
                world.store.put(node_id(index), Value::Gone);
                world.store.put(pods_id(index), Value::Pods(Rc::default()));
                Ok(())
            }),
            machine::Act::Release => Ok(()),
        }
    }

    fn read_bmc(&mut self, by: usize, index: usize) -> Result<(), Refused> {
        let now = self.now;
        let cut = self.controllers.get(by).is_some_and(|c| c.bmc_cut);
        let Some(metal) = self.metal.get_mut(index) else { return Ok(()) };
        let heard = match metal.bmc {
            _ if cut => Heard::Silence,
            Mode::Hangs(_) => {
                metal.bmc.take();
                Heard::Silence
            }
            Mode::Fails(_) => {
                metal.bmc.take();
                Heard::Error("500 Internal Server Error".to_owned())
            }
            _ => Heard::Answer { on: metal.on, last_reset: metal.last_reset() },
        };
        say!(self, "{by}> {} BMC says {heard:?}", self.name(index));
        if let Some(controller) = self.controllers.get_mut(by) {
            if let Some(reading) = controller.readings.get_mut(index) {
                *reading = Some(Reading { at: now, heard });
            }
            controller.look_at(index);
        }
        Ok(())
    }

    /// The BMC is told. It may do so at once, after a while, or not at all.
    fn power(&mut self, index: usize, power: Power, operation: &str) -> Result<(), Refused> {
        self.check_power(index, power, operation);
        let chaos = self.chaos;
        // No order of requests helps two instances that tell a BMC at the same time, which has not
        // begun what the first told it: elections prevent that, and this world has none.
        let alone = self.controllers.iter().filter(|c| c.up && c.role == Role::Machine).count() < 2;
        let (late, lost) = (chaos && alone && self.draw.once_in(4), chaos && self.draw.once_in(8));
        let wait = Duration::from_secs(u64::try_from(self.draw.below(25)).unwrap_or(0));
        say!(self, "   {} BMC is told {power:?} for {operation}", self.name(index));
        let now = self.now;
        let Some(metal) = self.metal.get_mut(index) else { return Ok(()) };
        match metal.bmc.take() {
            Mode::Well => {}
            Mode::Ignores(_) => return Ok(()),
            Mode::Fails(_) => return Err("the BMC answers with an error"),
            Mode::Hangs(_) => return Err("the BMC does not answer"),
        }
        if late {
            let at = plus(now, wait);
            metal.accepted = Some(Accepted { at, power, operation: operation.to_owned() });
        } else {
            self.reset(index, power, operation);
        }
        if lost { Err("the BMC's reply was lost") } else { Ok(()) }
    }

    /// It happens.
    pub(super) fn reset(&mut self, index: usize, power: Power, operation: &str) {
        let machine = self.store.live().machine(index);
        let request = machine.and_then(|m| m.status.as_ref()?.operation.as_ref()?.request.clone());
        self.check_reset(index, operation, request.as_deref());
        say!(self, "   {} is reset: {power:?}", self.name(index));
        let now = self.now;
        if let Some(metal) = self.metal.get_mut(index) {
            metal.reset(power, now);
            metal.done.push(Done { operation: operation.to_owned(), request, booted: false });
        }
    }

    fn node_deed(
        &mut self,
        by: usize,
        index: usize,
        deed: plan::deed::Deed<node::Act>,
    ) -> Result<(), Refused> {
        use node::Act;
        self.fenced(index, &deed.fence, false)?;
        match deed.act {
            Act::OpenIncident { name, spec } => return self.open(by, index, name, spec),
            Act::Cordon { incident, reason } => {
                if self.store.live().node(index).is_none_or(|node| node.unschedulable) {
                    return Err("it is cordoned already");
                }
                say!(self, "{by}> {} is cordoned: {reason}", self.name(index));
                self.change_node(index, |node| {
                    node.unschedulable = true;
                    node.cordoned_for = Some(incident);
                });
            }
            Act::Uncordon { incident } => {
                let ours = self
                    .store
                    .live()
                    .node(index)
                    .is_some_and(|node| node.cordoned_for.as_ref() == Some(&incident));
                if !ours && !self.has(Bug::AnyCordonIsOurs) {
                    return Err("it is not our cordon");
                }
                self.check_uncordon(index);
                say!(self, "{by}> {} is uncordoned", self.name(index));
                self.change_node(index, |node| {
                    node.unschedulable = false;
                    node.cordoned_for = None;
                });
            }
            Act::TakeGrant { grant } => return self.take_grant(by, &grant),
            Act::ReturnGrant { node_uid, left_by } => {
                if self.has(Bug::KeepGrant) {
                    return Ok(());
                }
                let left_by = left_by.as_deref();
                let named = |i: &Incident| i.metadata.name.as_deref() == left_by;
                let open = |(_, i): (usize, &Rc<Incident>)| named(i) && is_open(i);
                if self.store.live().incidents().any(open) {
                    return Err("the incident is open");
                }
                if let Some(ledger) = self.store.live().ledger() {
                    let mut ledger = api::Ledger::clone(ledger);
                    ledger.status = Some(budget::give_back(&ledger, &node_uid, left_by));
                    self.put_ledger(ledger);
                }
            }
            Act::Evict { uid, now, .. } => self.evict(index, &uid, now),
            Act::Ask(request) => {
                let live = self.store.live();
                let machine = live.machine(index);
                let there = machine.and_then(|machine| machine.spec.request.as_ref());
                let answered = machine.and_then(|m| m.status.as_ref()?.answer.as_ref());
                let busy = there.is_some_and(|there| {
                    there.id != request.id && answered.is_none_or(|a| a.id != there.id)
                });
                if busy {
                    return Err("another request stands there");
                }
                self.check_work(index, "asks");
                say!(
                    self,
                    "{by}> {} is asked {:?} as {}",
                    self.name(index),
                    request.ask,
                    request.id
                );
                self.change_machine(index, true, |machine| machine.spec.request = Some(*request));
            }
            Act::Withdraw { id } => {
                let live = self.store.live();
                let there = live.machine(index).and_then(|m| m.spec.request.as_ref());
                if there.is_some_and(|there| there.id == id) {
                    say!(self, "{by}> {} {id} is withdrawn", self.name(index));
                    self.change_machine(index, true, |machine| machine.spec.request = None);
                }
            }
            Act::Report(reported) => {
                self.change_node(index, |node| {
                    node.conditions.retain(|c| c.kind != reported.kind);
                    node.conditions.push(reported);
                });
            }
            Act::ClearPhase { condition, .. } => {
                self.change_node(index, |node| node.conditions.retain(|c| c.kind != condition));
            }
            Act::Dress(clothes) => self.change_node(index, |node| clothes.put_on(node)),
        }
        Ok(())
    }

    fn open(
        &mut self,
        by: usize,
        index: usize,
        name: String,
        spec: api::incident::IncidentSpec,
    ) -> Result<(), Refused> {
        let named = |i: &Rc<Incident>| i.metadata.name.as_ref() == Some(&name);
        if self.store.live().incidents().any(|(_, incident)| named(incident)) {
            return Ok(());
        }
        say!(self, "{by}> {name} is opened: {}", spec.cause);
        let mut incident = Incident::new(&name, spec);
        incident.metadata.uid = Some(format!("i{}", self.serial()));
        self.store.add(Kind::Incident(index), Value::Incident(Rc::new(incident)));
        Ok(())
    }

    fn take_grant(&mut self, by: usize, grant: &api::ledger::Grant) -> Result<(), Refused> {
        let Some(controller) = self.controllers.get(by) else { return Ok(()) };
        let blind = self.has(Bug::BudgetPerController);
        let view = if blind { self.store.seen(&controller.seen) } else { self.store.live() };
        let Some(ledger) = view.ledger() else { return Ok(()) };
        let pool = self.setting.pools.iter().find(|p| p.metadata.name == grant.pool);
        let own = pool.and_then(|pool| pool.spec.max_unavailable);
        let granted = budget::grant(ledger, &controller.census, grant, own);
        let mut ledger = api::Ledger::clone(ledger);
        let status: LedgerStatus = granted.map_err(|_| "the budget is used up by now")?;
        say!(self, "{by}> {} is granted a {:?}", grant.node, grant.kind);
        if blind {
            // As two controllers would that each keep a ledger of their own.
            let held =
                self.store.live().ledger().and_then(|l| l.status.clone()).unwrap_or_default();
            let mut all = held.grants;
            all.extend(status.grants.into_iter().filter(|g| g.node_uid == grant.node_uid));
            ledger.status = Some(LedgerStatus { grants: all });
        } else {
            ledger.status = Some(status);
        }
        self.put_ledger(ledger);
        self.check_budgets();
        Ok(())
    }

    fn evict(&mut self, index: usize, uid: &str, at_once: bool) {
        let now = self.now;
        self.check_work(index, "ends pods");
        let meant = |pod: &plan::node::PodSeen| pod.uid == uid;
        self.change_pods(index, |pods| {
            if at_once {
                pods.retain(|pod| !meant(pod));
            } else if let Some(pod) = pods.iter_mut().find(|pod| meant(pod)) {
                pod.ending = pod.ending.or(Some(now));
            }
        });
    }

    fn breaker_deed(&mut self, by: usize, act: breaker::Act) -> Result<(), Refused> {
        let Some(controller) = self.controllers.get(by) else { return Ok(()) };
        let named = |name: &str, b: &Rc<Breaker>| b.metadata.name.as_deref() == Some(name);
        match act {
            breaker::Act::Create { name, spec } => {
                if self.store.live().breakers().all(|(_, b)| !named(&name, b)) {
                    say!(self, "{by}> breaker {name} is made");
                    let breaker = Value::Breaker(Rc::new(Breaker::new(&name, spec)));
                    self.store.add(Kind::Breaker, breaker);
                }
            }
            breaker::Act::Write { name, status } => {
                let seen = self.store.seen(&controller.seen);
                let Some((id, _)) = seen.breakers().find(|(_, b)| named(&name, b)) else {
                    return Ok(());
                };
                if seen.number(id) != self.store.number(id) {
                    return Err("the breaker has changed since");
                }
                say!(self, "{by}> breaker {name}: {}", status.why);
                self.change_breaker(id, |breaker| breaker.status = Some(status));
            }
        }
        Ok(())
    }
}
