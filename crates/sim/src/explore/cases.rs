//! What went wrong in peers, played here: replayed events and states without an exit, as reported to
//! NVSentinel and to NVIDIA's Infra Controller (NICo). Each test names the report.

use super::begin::production;
use super::controller::Role;
use super::metal::Mode;
use super::schedule::{fair, rest};
use super::store::is_open;
use super::tale::{Disturbance, Fault};
use super::world::World;
use api::condition::Phase;
use api::incident::Stage;
use api::request::{Ask, Chore};
use api::state::State;

fn resets(world: &World) -> Vec<u32> {
    world.metal.iter().map(|metal| metal.resets).collect()
}

/// Both controllers die and start again.
fn restart(world: &mut World) {
    for by in 0..2 {
        world.crash(by);
        world.restart(by);
    }
}

fn until(world: &mut World, stage: Stage) {
    assert!(fair(world, |world| world.stage(0) == Some(stage)));
    assert_eq!(world.stage(0), Some(stage), "the stage is never reached");
}

/// Goes on to the end, and nothing was wrong on the way or is left.
fn well(world: &mut World) {
    world.calm();
    rest(world);
    assert!(world.tale.wrong.is_empty(), "{:#?}", world.tale.wrong);
    assert!(world.store.live().incidents().all(|(_, incident)| !is_open(incident)));
}

fn limp(world: &mut World, index: usize, change: impl FnOnce(&mut super::metal::Metal)) {
    let metal = world.metal.get_mut(index).unwrap();
    metal.flaw = true;
    change(metal);
}

fn named_end(world: &World, index: usize) {
    let state = world.state(index);
    assert!(matches!(state, State::Debug | State::Rma), "{state}");
}

#[test]
fn nvsentinel_1280_an_old_event_after_a_restart_reboots_nobody() {
    let mut world = production();
    let before = resets(&world);
    world.strike(0, Fault::LateEvidence);
    restart(&mut world);
    well(&mut world);
    assert_eq!(resets(&world), before);
}

#[test]
fn nvsentinel_1347_1534_evidence_of_the_cured_boot_is_told_again() {
    let mut world = production();
    world.strike(0, Fault::Reboot);
    well(&mut world);
    let after = resets(&world);
    assert!(fair(&mut world, |_| false));
    world.strike(0, Fault::LateEvidence);
    restart(&mut world);
    well(&mut world);
    assert_eq!(resets(&world), after);
}

#[test]
fn nvsentinel_1536_a_new_fault_after_the_reboot_is_not_stranded() {
    let mut world = production();
    world.strike(0, Fault::Reboot);
    until(&mut world, Stage::Verifying);
    world.strike(0, Fault::PowerCycle);
    well(&mut world);
    assert!(world.metal[0].ills.is_empty());
}

#[test]
fn nvsentinel_1387_a_deleted_node_is_not_worked_on_for_days() {
    for stage in [Stage::Open, Stage::Acting, Stage::Verifying] {
        let mut world = production();
        world.strike(0, Fault::Parts);
        until(&mut world, stage);
        world.strike(0, Fault::NodeDeleted);
        well(&mut world);
    }
}

#[test]
fn nvsentinel_1451_1439_291_events_in_any_order_and_twice() {
    for stage in [Stage::Draining, Stage::Acting, Stage::Verifying] {
        let mut world = production();
        world.strike(0, Fault::GpuReset);
        until(&mut world, stage);
        for id in (0..world.store.len()).rev() {
            world.enqueue(0, id);
            world.enqueue(1, id);
        }
        restart(&mut world);
        well(&mut world);
        assert_eq!(world.state(0), State::Production);
    }
}

#[test]
fn nvsentinel_1854_no_node_stays_cordoned_when_its_incident_is_over() {
    let mut world = production();
    world.strike(0, Fault::Reboot);
    until(&mut world, Stage::Verifying);
    assert!(fair(&mut world, |world| world.stage(0).is_none()));
    restart(&mut world);
    assert!(world.store.live().node(0).unwrap().unschedulable, "the restart comes in between");
    well(&mut world);
    assert!(!world.store.live().node(0).unwrap().unschedulable);
}

#[test]
fn nvsentinel_1808_an_action_that_failed_is_tried_again() {
    let mut world = production();
    world.strike(0, Fault::Reboot);
    limp(&mut world, 0, |metal| metal.bmc = Mode::Fails(1));
    well(&mut world);
    assert_eq!(world.state(0), State::Production);
    assert!(world.metal[0].ills.is_empty());
}

#[test]
fn nvsentinel_1402_1688_who_rebooted_and_why_stands_in_the_object() {
    let mut world = production();
    world.strike(0, Fault::Reboot);
    well(&mut world);
    let machine = world.store.live().machine(0).unwrap();
    let history = &machine.status.as_ref().unwrap().history;
    let reboot = history.iter().find(|entry| entry.what == "Reboot").unwrap();
    assert!(reboot.why.contains("was seen"), "{}", reboot.why);
    let told = world.metal[0].done.iter().all(|done| done.request.is_some());
    assert!(told && !world.metal[0].done.is_empty());
}

#[test]
fn nvsentinel_1818_a_power_reset_cuts_the_power() {
    let mut world = production();
    world.strike(0, Fault::PowerCycle);
    world.disturb(0, Disturbance::Cordon);
    world.request_phase(0, Phase::PowerReset, true);
    well(&mut world);
    assert!(world.metal[0].ills.is_empty(), "a restart does not cure it");
    assert_eq!(world.state(0), State::Production);
}

#[test]
fn nico_1846_5754_5178_a_machine_that_does_not_boot_is_bounded() {
    let mut world = production();
    let before = world.metal[0].resets;
    limp(&mut world, 0, |metal| metal.boots = Mode::Fails(255));
    world.request(0, Ask::Onboard);
    well(&mut world);
    named_end(&world, 0);
    assert!(world.metal[0].resets - before < 20, "{}", world.metal[0].resets);
}

#[test]
fn nico_909_1072_a_wipe_that_fails_for_ever_cuts_the_power_a_bounded_number_of_times() {
    let mut world = production();
    let before = world.metal[0].resets;
    limp(&mut world, 0, |metal| metal.chore = Some((Chore::Sanitise, Mode::Fails(255))));
    world.request(0, Ask::Zap);
    well(&mut world);
    named_end(&world, 0);
    assert!(world.metal[0].resets - before < 40, "{}", world.metal[0].resets);
}

#[test]
fn nico_5355_a_restart_that_is_accepted_and_not_done_is_told_again() {
    let mut world = production();
    world.strike(0, Fault::Reboot);
    limp(&mut world, 0, |metal| metal.bmc = Mode::Ignores(1));
    well(&mut world);
    assert_eq!(world.state(0), State::Production);
    assert_eq!(world.metal[0].done.len(), 1, "told twice, done once");
}

#[test]
fn nico_993_an_update_that_never_ends_does_not_hold_the_machine() {
    let mut world = production();
    limp(&mut world, 0, |metal| {
        metal.flashed = false;
        metal.chore = Some((Chore::Firmware, Mode::Hangs(255)));
    });
    world.request(0, Ask::Onboard);
    assert!(world.alive(Role::Machine).is_some());
    well(&mut world);
    named_end(&world, 0);
}
