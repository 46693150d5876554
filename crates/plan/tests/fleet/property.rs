//! What holds whatever happens.

use crate::world::{Cure, Ill, Mode, World};
use api::request::Chore;
use api::state::State;
use proptest::prelude::*;
use std::time::Duration;

/// Every fault of a machine that this world knows.
fn hardware_fault() -> impl Strategy<Value = (u8, Mode)> {
    let mode = prop_oneof![
        Just(Mode::Fails),
        Just(Mode::Hangs),
        (1_u32..4).prop_map(Mode::FailsTimes),
        (1_u32..4).prop_map(Mode::HangsTimes),
    ];
    (0_u8..9, mode)
}

fn strike(world: &mut World, name: &str, (which, mode): (u8, Mode)) {
    let hardware = world.hardware.get_mut(name).unwrap();
    let chores = [
        Chore::Inventory,
        Chore::Sanitise,
        Chore::Firmware,
        Chore::TestQuick,
        Chore::Diagnose,
        Chore::ResetGpu,
    ];
    match which {
        0 => hardware.bmc = mode,
        1 => hardware.boots = mode,
        2 => hardware.inventory.gpus = 7,
        other => {
            let index = usize::from(other - 3) % chores.len();
            hardware.chore.push((chores[index], mode));
        }
    }
}

fn ended(state: State) -> bool {
    matches!(state, State::Production | State::Debug | State::Rma)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// From any moment of its way, struck by any single fault, a machine reaches production or a
    /// named end within its deadlines, and then nothing more is planned.
    #[test]
    fn a_struck_machine_ends_in_a_named_place(
        before in 0_u64..10_000, fault in hardware_fault(),
    ) {
        let mut world = World::new(1);
        world.run_for(Duration::from_secs(before));
        strike(&mut world, "m01", fault);
        world.run_for(Duration::from_secs(5 * 86_400));
        prop_assert!(ended(world.state("m01")), "{}", world.log.join("\n"));
        prop_assert!(world.wrong.is_empty(), "{:?}", world.wrong);
        let before = world.log.len();
        world.settle();
        prop_assert_eq!(world.log.len(), before, "plans after rest");
    }

    /// Whatever falls ill, in whatever order: budgets hold, what a person cordoned stays cordoned,
    /// no power goes to a machine without a fault, and no incident stays open that could end.
    #[test]
    fn a_fleet_of_faults_is_repaired_within_its_budget(
        faults in proptest::collection::vec((0_usize..6, 0_u64..86_400, 0_u8..4, 0_usize..3), 0..6),
        person in 0_usize..6,
        limit in 1_u32..4,
    ) {
        let mut world = World::new(6);
        world.ledger.spec.fleet.nodes = Some(limit);
        world.run_for(Duration::from_secs(20_000));
        let cordoned = format!("m{:02}", person + 1);
        world.nodes.get_mut(&cordoned).unwrap().unschedulable = true;
        let resets: Vec<u64> = world.hardware.values().map(|h| h.resets).collect();
        let mut faults = faults;
        faults.sort_by_key(|fault| fault.1);
        let start = world.now;
        for (index, at, cure, row) in &faults {
            world.run(start.checked_add(Duration::from_secs(*at)).unwrap());
            let name = format!("m{:02}", index + 1);
            let cure = [Cure::Reset, Cure::Boot, Cure::Cycle, Cure::Never][usize::from(*cure)];
            let row = ["xid/95", "xid/79", "xid/119"][*row];
            let since = world.now;
            let part = Some("GPU-3".to_owned());
            world.hardware.get_mut(&name).unwrap().ill.push(Ill { row: row.to_owned(), part, cure, since });
            held(&world, limit)?;
        }
        for _ in 0..40 {
            world.run_for(Duration::from_secs(3_600 * 6));
            held(&world, limit)?;
        }
        prop_assert!(world.wrong.is_empty(), "{:#?}\n{}", world.wrong, world.log.join("\n"));
        let node = &world.nodes[&cordoned];
        prop_assert!(node.unschedulable && node.cordoned_for.is_none(), "a person's cordon is gone");
        for (index, name) in world.machines.keys().enumerate() {
            let healthy = *name == cordoned || faults.iter().all(|fault| fault.0 != index);
            if healthy {
                prop_assert_eq!(world.hardware[name].resets, resets[index], "{} was reset", name);
            }
        }
        let open = world.incidents.iter().filter(|i| i.status.as_ref().is_none_or(|s| s.closed.is_none()));
        let breakers = world.breakers.iter().any(|b| b.is_open());
        prop_assert!(breakers || open.count() == 0, "{}", world.log.join("\n"));
    }
}

fn held(world: &World, limit: u32) -> Result<(), TestCaseError> {
    let held = world.ledger.status.as_ref().map_or(0, |status| status.grants.len());
    prop_assert!(held <= limit as usize, "{held} grants, {limit} allowed");
    Ok(())
}
