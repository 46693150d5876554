//! What the agent's chores take and find.

use super::{booted, boots, site};
use api::InstanceType;
use api::request::{Chore, Outcome, Power, Report, Task};
use plan::verify::judge;
use sim::datacentre::{Datacentre, Hardware, Heal, Signal};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

fn task(machine: &Hardware, id: &str, chore: Chore) -> Task {
    let boot = machine.running().borrow().as_ref().map_or_else(String::new, |r| r.boot.clone());
    Task { id: id.to_owned(), chore, target: None, boot, why: "a test".to_owned() }
}

async fn does(machine: &Hardware, chore: Chore) -> Report {
    let id = format!("{chore:?} at {:?}", Instant::now());
    machine.perform(&task(machine, &id, chore)).await.unwrap()
}

fn kind(site: &Datacentre) -> InstanceType {
    InstanceType::new("gd", site.layout().types["gd-8xh100ib-i128"].clone())
}

#[tokio::test(start_paused = true)]
async fn a_sound_machine_passes_every_test_in_its_time() {
    let site = site();
    let machine = booted(&site, "r1-s01").await;
    for (chore, seconds) in [
        (Chore::Inventory, 60),
        (Chore::Sanitise, 120),
        (Chore::Firmware, 20),
        (Chore::ResetGpu, 30),
        (Chore::RestartService, 10),
        (Chore::TestReadiness, 15),
        (Chore::TestQuick, 600),
        (Chore::TestIdle, 1_200),
        (Chore::TestFull, 86_400),
        (Chore::Diagnose, 1_800),
    ] {
        let before = Instant::now();
        let report = does(&machine, chore).await;
        assert_eq!(before.elapsed(), Duration::from_secs(seconds), "{chore:?}");
        assert!(judge(chore, &report, Some(&kind(&site))).passed, "{report:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn tests_find_what_is_wrong() {
    let site = site();
    let machine = booted(&site, "r1-s01").await;
    for (word, readiness, quick) in [
        ("gpu-lost", false, false),
        ("gpu-hang", true, false),
        ("slow-gpu", true, false),
        ("silent-corruption", true, false),
        ("gpu-app", true, true),
        ("bmc-errors", true, true),
    ] {
        machine.strike(site.faults().named(word).unwrap());
        for (chore, passes) in [(Chore::TestReadiness, readiness), (Chore::TestQuick, quick)] {
            let report = does(&machine, chore).await;
            let verdict = judge(chore, &report, Some(&kind(&site)));
            assert_eq!(verdict.passed, passes, "{word} {chore:?}: {report:?}");
        }
        machine.heal(&Heal::All);
    }
    machine.strike(site.faults().named("slow-gpu").unwrap());
    let report = does(&machine, Chore::TestIdle).await;
    let verdict = judge(Chore::TestIdle, &report, Some(&kind(&site)));
    assert_eq!(verdict.detail, "gemm_bf16_tflops is 520, the floor is 650");
}

#[tokio::test(start_paused = true)]
async fn a_latent_fault_shows_when_a_test_has_found_it() {
    let site = site();
    let machine = booted(&site, "r1-s01").await;
    let mut signals = machine.signals();
    machine.strike(site.faults().named("slow-gpu").unwrap());
    tokio::time::sleep(Duration::from_secs(86_400)).await;
    assert!(signals.try_recv().is_err());
    does(&machine, Chore::TestQuick).await;
    let Ok(Signal::Symptom(symptom)) = signals.try_recv() else { panic!("nothing shows") };
    let plan::detect::Symptom::Samples(samples) = *symptom else { panic!("{symptom:?}") };
    assert_eq!((samples[0].value, samples[0].expected), (520.0, Some(650.0)));
}

#[tokio::test(start_paused = true)]
async fn resets_and_restarts_cure_what_they_cure() {
    let site = site();
    let machine = booted(&site, "r1-s01").await;
    let words = || machine.faults().into_iter().map(|(_, f)| f.word).collect::<Vec<_>>();
    for word in ["gpu-ecc", "gpu-hang", "fabric-manager", "ib-port"] {
        machine.strike(site.faults().named(word).unwrap());
    }
    let mut reset = task(&machine, "reset-1", Chore::ResetGpu);
    reset.target = Some("GPU-5".to_owned());
    machine.perform(&reset).await.unwrap();
    assert_eq!(words(), ["gpu-ecc", "gpu-hang", "fabric-manager", "ib-port"], "the wrong GPU");
    let reset = Task { id: "reset-2".to_owned(), target: Some("0000:5d:00.0".to_owned()), ..reset };
    machine.perform(&reset).await.unwrap();
    assert_eq!(words(), ["gpu-hang", "fabric-manager", "ib-port"]);
    let mut restart = task(&machine, "restart", Chore::RestartService);
    restart.target = Some("gpu-fabric".to_owned());
    machine.perform(&restart).await.unwrap();
    assert_eq!(words(), ["gpu-hang", "ib-port"]);
}

#[tokio::test(start_paused = true)]
async fn new_firmware_counts_after_the_power_was_cut() {
    let site = site();
    let machine = booted(&site, "r1-s01").await;
    let mut profile = machine.firmware();
    profile.insert("bios".to_owned(), "3.0".to_owned());
    let flash = task(&machine, "flash", Chore::Firmware);
    let before = Instant::now();
    machine.strike(site.faults().named("flash-fails").unwrap());
    let report = machine.perform_with(&flash, Some(&profile)).await.unwrap();
    assert_eq!((report.outcome, report.part.as_deref()), (Outcome::Failed, Some("bios")));
    assert_eq!(before.elapsed(), Duration::from_secs(90 * 60));
    let again = Task { id: "flash-2".to_owned(), ..flash };
    let report = machine.perform_with(&again, Some(&profile)).await.unwrap();
    assert_eq!(report.outcome, Outcome::Succeeded);
    for (power, bios) in [(Power::ForceRestart, "2.4.1"), (Power::Cycle, "3.0")] {
        machine.power(power, None);
        machine.running().wait_for(Option::is_none).await.unwrap();
        boots(&machine).await;
        assert_eq!(machine.firmware()["bios"], bios, "{power:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_boot_cuts_its_chore_short() {
    let site = site();
    let machine = booted(&site, "r1-s01").await;
    let test = task(&machine, "burn-in", Chore::TestFull);
    let doing = tokio::spawn({
        let (machine, test) = (machine.clone(), test.clone());
        async move { machine.perform(&test).await }
    });
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    machine.power(Power::ForceRestart, None);
    assert_eq!(doing.await.unwrap(), None);
    boots(&machine).await;
    assert_eq!(machine.perform(&test).await, None, "its boot is over");
}

#[tokio::test(start_paused = true)]
async fn a_hung_chore_ends_with_its_boot_and_a_silent_agent_says_nothing() {
    let site = site();
    let machine = booted(&site, "r1-s01").await;
    machine.strike(site.faults().named("chore-hangs").unwrap());
    let test = task(&machine, "hangs", Chore::TestQuick);
    let week = Duration::from_secs(7 * 86_400);
    assert!(tokio::time::timeout(week, machine.perform(&test)).await.is_err());
    let next = task(&machine, "next", Chore::TestQuick);
    assert!(machine.perform(&next).await.is_some(), "another task ends");

    machine.strike(site.faults().named("agent-dead").unwrap());
    let silent = task(&machine, "silent", Chore::TestReadiness);
    assert!(tokio::time::timeout(week, machine.perform(&silent)).await.is_err());
    machine.heal(&Heal::All);
    assert!(machine.perform(&silent).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_task_is_done_once() {
    let site = site();
    let machine = booted(&site, "r1-s01").await;
    machine.strike(site.faults().named("wipe-fails").unwrap());
    let wipe = task(&machine, "wipe", Chore::Sanitise);
    let first = machine.perform(&wipe).await.unwrap();
    assert_eq!(first.outcome, Outcome::Failed);
    let before = Instant::now();
    assert_eq!(machine.perform(&wipe).await.unwrap(), first);
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(does(&machine, Chore::Sanitise).await.outcome, Outcome::Succeeded);
    assert_eq!(first.figures, BTreeMap::new());
}
