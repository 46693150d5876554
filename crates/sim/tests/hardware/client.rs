//! The shipped Redfish client against every make of BMC, sound and going wrong.

use super::{boots, site};
use api::machine::Bmc;
use api::request::Power;
use metal::redfish::{Bmcs, Credential, Failure};
use sim::datacentre::{Datacentre, Hardware, Heal};
use std::time::Duration;

fn credential() -> Credential {
    Credential { username: "simulated".to_owned(), password: "simulated".to_owned() }
}

fn bmc(machine: &Hardware) -> Bmc {
    Bmc { address: format!("http://bmcs/bmc/{}", machine.name()), credential: "bmc".to_owned() }
}

fn of(site: &Datacentre, name: &str) -> (Bmcs, Hardware, Bmc) {
    let machine = site.machine(name).unwrap();
    (Bmcs::through(site.redfish()), machine.clone(), bmc(&machine))
}

#[tokio::test(start_paused = true)]
async fn every_make_is_read_and_told() {
    let site = site();
    for name in ["r1-s01", "r2-s01", "r3-s01", "r4-s01"] {
        let (bmcs, machine, bmc) = of(&site, name);
        let read = || async { bmcs.read(&bmc, &credential()).await };
        assert!(!read().await.unwrap().on, "{name}");
        let mut resets = vec![None];
        for (power, runs) in [
            (Power::On, true),
            (Power::GracefulRestart, true),
            (Power::ForceRestart, true),
            (Power::Cycle, true),
            (Power::Off, false),
            (Power::Cycle, true),
        ] {
            bmcs.power(&bmc, &credential(), power)
                .await
                .unwrap_or_else(|e| panic!("{name} {power:?}: {e}"));
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(machine.on(), runs, "{name} {power:?}");
            if runs {
                boots(&machine).await;
            }
            let status = read().await.unwrap();
            assert_eq!(status.on, runs, "{name} {power:?}");
            resets.push(status.last_reset);
        }
        let says = name != "r4-s01";
        resets.dedup();
        assert_eq!(resets.len(), if says { 7 } else { 1 }, "{name}: {resets:?}");
        assert!(machine.reset_log().iter().all(|reset| !reset.cut_off), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cycle_by_any_make_is_a_cold_one() {
    let site = site();
    for name in ["r1-s02", "r2-s02", "r3-s02", "r4-s02"] {
        let (bmcs, machine, bmc) = of(&site, name);
        bmcs.power(&bmc, &credential(), Power::On).await.unwrap();
        boots(&machine).await;
        machine.strike(site.faults().named("gpu-lost").unwrap());
        bmcs.power(&bmc, &credential(), Power::Cycle).await.unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
        boots(&machine).await;
        assert!(machine.faults().is_empty(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_goes_wrong_is_told_apart() {
    let site = site();
    let (bmcs, machine, bmc) = of(&site, "r1-s01");
    let named = |word| site.faults().named(word).unwrap();
    machine.strike(named("bmc-slow"));
    assert!(bmcs.read(&bmc, &credential()).await.is_ok(), "slow is not silent");
    machine.heal(&Heal::All);
    machine.strike(named("bmc-errors"));
    let failure = bmcs.read(&bmc, &credential()).await.unwrap_err();
    assert!(matches!(failure, Failure::Error(_)), "{failure}");
    machine.heal(&Heal::All);
    machine.strike(named("bmc-silent"));
    let failure = bmcs.read(&bmc, &credential()).await.unwrap_err();
    assert!(matches!(failure, Failure::Silence(_)), "{failure}");
    machine.heal(&Heal::All);
    assert!(bmcs.read(&bmc, &credential()).await.is_ok());
    machine.strike(named("no-last-reset"));
    assert_eq!(bmcs.read(&bmc, &credential()).await.unwrap().last_reset, None);
}
