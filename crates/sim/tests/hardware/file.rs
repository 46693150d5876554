//! What a killed process must not make hardware forget.

use super::{BOOT, CATALOGUE, boots, demo, settings};
use api::request::{Chore, Power, Task};
use jiff::Timestamp;
use kit::clock::Clock;
use sim::datacentre::{Datacentre, Delays, Settings};
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// The process that simulates begins anew at this time of its clock.
fn begin(file: &Path, now: Timestamp) -> Datacentre {
    let settings = Settings {
        clock: Clock::simulated(now),
        delays: Delays::load().unwrap(),
        catalogue: CATALOGUE.clone(),
        seed: 1,
        file: Some(file.to_owned()),
    };
    Datacentre::start(demo(), settings).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_boot_goes_on_after_a_kill_at_any_moment() {
    let dir = tempfile::tempdir().unwrap();
    for (number, after) in [0, 1, 5, 80, 155, 156, 300, 394].into_iter().enumerate() {
        let file = dir.path().join(format!("hardware-{number}"));
        let before = Instant::now();
        let site = begin(&file, super::start());
        let machine = site.machine("r1-s01").unwrap();
        machine.power(Power::On, Some("op-1"));
        tokio::time::sleep(Duration::from_secs(after)).await;
        let now = site.settings().clock.now();
        drop((machine, site));

        let site = begin(&file, now);
        let machine = site.machine("r1-s01").unwrap();
        let running = boots(&machine).await;
        assert_eq!(before.elapsed(), BOOT, "killed after {after} s");
        assert_eq!(machine.resets(), 1);
        let now = site.settings().clock.now();
        drop((machine, site));

        let site = begin(&file, now);
        let machine = site.machine("r1-s01").unwrap();
        assert_eq!(machine.running().borrow().clone(), Some(running), "a kill is no power cut");
        assert_eq!(machine.reset_log()[0].operation.as_deref(), Some("op-1"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_flash_goes_on_and_faults_stay() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hardware");
    let site = begin(&file, super::start());
    let machine = super::booted(&site, "r1-s01").await;
    machine.strike(site.faults().named("gpu-ecc").unwrap());
    let boot = machine.running().borrow().as_ref().unwrap().boot.clone();
    let (id, chore) = ("flash".to_owned(), Chore::TestFull);
    let task = Task { id, chore, target: None, boot, why: String::new() };
    let before = Instant::now();
    let killed = tokio::time::timeout(Duration::from_secs(3_600), machine.perform(&task)).await;
    assert!(killed.is_err());
    let (now, faults) = (site.settings().clock.now(), machine.faults());
    drop((machine, site));
    let site = begin(&file, now);
    let machine = site.machine("r1-s01").unwrap();
    assert_eq!(machine.faults(), faults);
    machine.perform(&task).await.unwrap();
    assert_eq!(before.elapsed(), Duration::from_secs(86_400));
}

#[tokio::test(start_paused = true)]
async fn a_torn_last_line_is_left_out_and_anything_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hardware");
    let site = begin(&file, super::start());
    super::booted(&site, "r1-s01").await;
    drop(site);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}{{\"machine\":\"r1-s01\",\"tru")).unwrap();
    let site = begin(&file, super::start());
    assert_eq!(site.machine("r1-s01").unwrap().resets(), 1);
    drop(site);
    for wrong in ["", "garbage", "{}\n", "\u{0}\u{0}", &format!("{text}garbage\n{text}")] {
        std::fs::write(&file, wrong).unwrap();
        let settings = settings(1, Some(file.clone()));
        let started = Datacentre::start(demo(), settings);
        if wrong.is_empty() {
            // Killed while it made the file: nothing was told to any machine yet.
            assert!(started.is_ok());
            continue;
        }
        let error = started.unwrap_err().to_string();
        assert!(error.contains("move it away"), "{error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), wrong, "what is refused is kept");
    }
    let nowhere = dir.path().join("none/hardware");
    assert!(Datacentre::start(demo(), settings(1, Some(nowhere))).is_err());
}

#[tokio::test(start_paused = true)]
async fn the_file_stays_small() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hardware");
    let site = begin(&file, super::start());
    let machine = site.machine("r1-s01").unwrap();
    for _ in 0..4_000 {
        let fault = site.faults().named("gpu-ecc").unwrap();
        for _ in 0..4 {
            machine.strike(fault.clone());
        }
        machine.heal(&sim::datacentre::Heal::All);
    }
    assert!(std::fs::metadata(&file).unwrap().len() < 6 << 20);
}
