//! One schedule: disturbed steps drawn from its number, then fair time until all is at rest, then
//! judgement.

use super::bug::Bug;
use super::draw::Draw;
use super::metal::plus;
use super::store::{MACHINES, is_open};
use super::tale::{Disturbance, Fault, Tale};
use super::world::{World, say};
use std::time::Duration;

/// More fair steps than this never end.
const ENOUGH: u32 = 40_000;

/// Plays the schedule of this number from one of the beginnings.
pub(super) fn play(from: &[World], seed: u64, bug: Option<Bug>, told: bool) -> Tale {
    let mut draw = Draw::new(seed);
    // Half of all begin with everything in production: that is where most faults come.
    let begin = if draw.once_in(2) { 0 } else { draw.below(from.len()) };
    let Some(world) = from.get(begin) else { return Tale::default() };
    let mut world = world.clone();
    world.draw = draw;
    world.bug = bug;
    world.chaos = true;
    world.start = world.now;
    world.tale.lines = told.then(Vec::new);
    disturbed(&mut world);
    world.calm();
    say!(world, "-- faults stop; everything is reachable");
    rest(&mut world);
    world.tale
}

/// Fair time, and judgement.
pub(super) fn rest(world: &mut World) {
    if fair(world, |_| false) {
        world.check_end();
        world.check_idle();
    } else {
        world.wrong("the world never comes to rest".to_owned());
    }
}

fn disturbed(world: &mut World) {
    let steps = 25 + world.draw.below(60);
    let mut faults = 1 + world.draw.below(3);
    // Faults and people mostly meet at the same few machines.
    let focus = world.draw.below(MACHINES);
    for step in 0..steps {
        if !world.tale.wrong.is_empty() {
            return;
        }
        let target = match world.draw.below(4) {
            0 => world.draw.below(MACHINES),
            1 => 0,
            _ => focus,
        };
        let chance = world.draw.below(100);
        let early = step < 6 && faults > 0;
        if faults > 0 && (chance < 5 || early && chance < 30) {
            faults -= 1;
            let fault = world.draw.pick(&Fault::ALL).unwrap_or(Fault::Reboot);
            world.strike(target, fault);
        } else if chance < 14 {
            let what = world.draw.pick(&Disturbance::ALL).unwrap_or(Disturbance::Crash);
            world.disturb(target, what);
        } else if chance < 22 || !control(world, chance) {
            time(world);
        }
    }
}

/// One step of a controller, if one has anything to do.
fn control(world: &mut World, chance: usize) -> bool {
    let by = world.draw.below(world.controllers.len());
    let from = world.draw.below(world.store.len());
    let Some(controller) = world.controllers.get_mut(by) else { return false };
    if !controller.up {
        if chance < 50 {
            world.restart(by);
            return true;
        }
        return false;
    }
    if controller.cut && chance < 40 {
        controller.cut = false;
        // A watch that breaks off lists anew.
        let lost = world.has(Bug::LoseWatchEvents);
        if lost {
            let all = (0..world.store.len()).map(|id| world.store.versions(id)).collect();
            if let Some(controller) = world.controllers.get_mut(by) {
                controller.seen = all;
            }
        }
        return true;
    }
    if chance < 55
        && let Some(id) = world.behind(by, from)
    {
        let all = world.draw.once_in(3);
        world.deliver(by, id, all);
        return true;
    }
    world.step(by)
        || world.plan(by, from % MACHINES)
        || match world.behind(by, from) {
            Some(id) => {
                world.deliver(by, id, false);
                true
            }
            None => false,
        }
}

/// Time passes: to what is due next, or a little.
fn time(world: &mut World) {
    world.tale.step(7, 0, 0);
    let little = u64::try_from(1 + world.draw.below(20)).unwrap_or(1);
    let little = plus(world.now, Duration::from_secs(little));
    let at = if world.draw.once_in(3) { little } else { world.next().unwrap_or(little) };
    world.pass_time(at);
}

/// Goes on fairly until everything is at rest (true), or `stop` says so, or it has gone on for too
/// long.
pub(super) fn fair(world: &mut World, stop: impl Fn(&World) -> bool) -> bool {
    let begin = world.tale.steps;
    let mut released = false;
    while world.tale.steps - begin < ENOUGH {
        if stop(world) {
            return true;
        }
        if progress(world) {
            continue;
        }
        world.check_deadlines();
        if !world.tale.wrong.is_empty() {
            return true;
        }
        let soon = plus(world.now, Duration::from_secs(3_600));
        let next = world.next();
        if next.is_none_or(|at| at > soon) && people(world, &mut released, next.is_none()) {
            world.pass_time(soon);
            continue;
        }
        match next {
            Some(at) => world.pass_time(at),
            None => return true,
        }
        world.tale.step(8, 0, 0);
    }
    false
}

/// One thing that is to be done at this instant.
fn progress(world: &mut World) -> bool {
    for by in 0..world.controllers.len() {
        if let Some(id) = world.behind(by, 0) {
            world.deliver(by, id, true);
            return true;
        }
        if world.step(by) || world.plan(by, 0) {
            return true;
        }
    }
    false
}

/// What people and tenants do when nothing moves for an hour: jobs end, breakers are acknowledged,
/// and, once nothing else moves, cordons are taken back.
fn people(world: &mut World, released: &mut bool, last: bool) -> bool {
    let live = world.store.live();
    if live.breakers().any(|(_, breaker)| breaker.is_open()) {
        world.acknowledge();
        return true;
    }
    let busy: Vec<usize> = (0..MACHINES).filter(|i| !live.pods(*i).is_empty()).collect();
    let waits = live.incidents().any(|(_, incident)| is_open(incident));
    if !busy.is_empty() && (waits || last) {
        for index in busy {
            world.change_pods(index, Vec::clear);
        }
        return true;
    }
    if last && !*released {
        *released = true;
        for index in 0..MACHINES {
            let node = world.store.live().node(index).cloned();
            let Some(node) = node else { continue };
            if world.persons.get(index).copied().unwrap_or_default() {
                world.uncordon(index);
            }
            if node.hands_off.is_some() {
                world.change_node(index, |node| node.hands_off = None);
            }
        }
        return true;
    }
    false
}
