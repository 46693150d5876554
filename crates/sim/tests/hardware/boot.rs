//! Power, boots and what each of them cures.

use super::{BOOT, booted, boots, demo, settings, site, start};
use api::request::Power;
use bytes::Bytes;
use http::{Request, Response};
use metal::{Exchange, Unreachable};
use sim::datacentre::{BootService, Datacentre, Delay, Heal};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_boot_takes_exactly_its_delays() {
    let site = site();
    let machine = site.machine("r1-s01").unwrap();
    assert!(!machine.on() && machine.running().borrow().is_none());
    let before = Instant::now();
    machine.power(Power::On, Some("op-1"));
    let running = boots(&machine).await;
    assert_eq!(before.elapsed(), BOOT);
    assert_eq!(running.since, start().checked_add(BOOT).unwrap());
    assert_eq!(running.image, "seatrial-gpu-1.0");
    assert_eq!(machine.resets(), 1);
    let log = machine.reset_log();
    assert_eq!(log[0].operation.as_deref(), Some("op-1"));
    assert!(log[0].ended.is_none() && !log[0].cut_off);
}

#[tokio::test(start_paused = true)]
async fn boots_at_once_share_the_bandwidth() {
    let site = site();
    let before = Instant::now();
    for machine in site.machines() {
        machine.power(Power::On, None);
    }
    for machine in site.machines() {
        boots(&machine).await;
    }
    let delays = &site.settings().delays;
    let more = delays.of(Delay::Serve) * 36 - delays.of(Delay::Load);
    assert!(more > Duration::ZERO);
    assert_eq!(before.elapsed(), BOOT + more);
}

#[tokio::test(start_paused = true)]
async fn every_boot_has_an_id_of_its_own_and_a_restart_ends_it() {
    let site = site();
    let machine = booted(&site, "r1-s01").await;
    let first = machine.running().borrow().clone().unwrap();
    machine.power(Power::GracefulRestart, Some("op-2"));
    machine.running().wait_for(Option::is_none).await.unwrap();
    let second = boots(&machine).await;
    assert_ne!(first.boot, second.boot);
    assert_eq!(machine.reset_log()[1].ended.as_ref(), Some(&first.boot));
    machine.power(Power::ForceRestart, Some("op-3"));
    machine.running().wait_for(Option::is_none).await.unwrap();
    machine.power(Power::ForceRestart, Some("op-3"));
    boots(&machine).await;
    let cut_off: Vec<bool> = machine.reset_log().iter().map(|reset| reset.cut_off).collect();
    assert_eq!(cut_off, [false, false, false, true], "a reset of a boot under way shows");
    assert_eq!(machine.cut_offs(), 1);
    machine.power(Power::Off, None);
    machine.running().wait_for(Option::is_none).await.unwrap();
    assert!(!machine.on());
}

#[tokio::test(start_paused = true)]
async fn what_is_idle_is_no_reset() {
    let site = site();
    let machine = site.machine("r1-s01").unwrap();
    for power in [Power::Off, Power::ForceRestart, Power::GracefulRestart] {
        machine.power(power, None);
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(machine.resets(), 0);
    machine.power(Power::On, None);
    machine.power(Power::On, None);
    boots(&machine).await;
    assert_eq!(machine.resets(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_boot_cures_what_a_boot_cures() {
    let site = site();
    let machine = booted(&site, "r1-s01").await;
    for word in ["gpu-hang", "gpu-lost", "fan", "leaf-down"] {
        machine.strike(site.faults().named(word).unwrap());
    }
    let left = || machine.faults().into_iter().map(|(_, f)| f.word).collect::<Vec<_>>();
    for (power, expected) in [
        (Power::ForceRestart, &["gpu-lost", "fan", "leaf-down"][..]),
        (Power::Cycle, &["fan", "leaf-down"]),
    ] {
        machine.power(power, None);
        machine.running().wait_for(Option::is_none).await.unwrap();
        boots(&machine).await;
        assert_eq!(left(), expected, "{power:?}");
    }
    assert_eq!(machine.heal(&Heal::Parts), 1);
    assert_eq!(left(), ["leaf-down"]);
    assert_eq!(machine.heal(&Heal::All), 1);
}

#[tokio::test(start_paused = true)]
async fn off_and_on_is_a_power_cycle_only_when_the_power_has_drained() {
    let site = site();
    let drain = site.settings().delays.of(Delay::PowerDrain);
    for (off, cured) in [(Duration::from_secs(1), false), (drain, true)] {
        let machine = booted(&site, "r1-s02").await;
        machine.strike(site.faults().named("gpu-lost").unwrap());
        machine.power(Power::Off, None);
        machine.running().wait_for(Option::is_none).await.unwrap();
        tokio::time::sleep(off).await;
        machine.power(Power::On, None);
        boots(&machine).await;
        // The BMC begins both equally late.
        assert_eq!(machine.faults().is_empty(), cured, "{off:?}");
        machine.heal(&Heal::All);
    }
}

#[tokio::test(start_paused = true)]
async fn boots_and_bmcs_go_wrong_as_often_as_said() {
    let site = site();
    let named = |word| site.faults().named(word).unwrap();
    let machine = site.machine("r1-s01").unwrap();

    machine.strike(named("boot-fails"));
    let before = Instant::now();
    machine.power(Power::On, None);
    boots(&machine).await;
    assert_eq!(before.elapsed(), BOOT + 2 * site.settings().delays.of(Delay::PowerOnToDhcp));
    assert!(machine.faults().is_empty());

    machine.strike(named("boot-hangs"));
    machine.power(Power::ForceRestart, None);
    tokio::time::sleep(BOOT * 10).await;
    assert!(machine.on() && machine.running().borrow().is_none());
    machine.power(Power::ForceRestart, None);
    boots(&machine).await;
    assert!(machine.reset_log().iter().all(|reset| !reset.cut_off), "a hung boot may be reset");

    machine.strike(named("bmc-ignores"));
    let resets = machine.resets();
    machine.power(Power::ForceRestart, None);
    tokio::time::sleep(BOOT).await;
    assert_eq!(machine.resets(), resets);
    assert!(machine.running().borrow().is_some());

    machine.strike(named("bmc-half"));
    machine.power(Power::Cycle, None);
    tokio::time::sleep(BOOT).await;
    assert!(!machine.on());
    machine.power(Power::On, None);
    boots(&machine).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_power_feed_takes_its_rack_and_gives_it_back() {
    let site = site();
    let machine = booted(&site, "r2-s01").await;
    let other = booted(&site, "r3-s01").await;
    let resets = machine.resets();
    let struck = site.strike_pdu("pdu-2", &site.faults().named("power-loss").unwrap());
    assert_eq!(struck.len(), 9);
    assert!(!machine.on() && other.on());
    machine.power(Power::On, None);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!machine.on(), "no BMC switches on what has no power");
    for (hardware, id) in &struck {
        assert_eq!(hardware.heal(&Heal::One(*id)), 1);
    }
    boots(&machine).await;
    assert_eq!(machine.resets(), resets, "no BMC did it");
}

/// A boot service that refuses at first.
fn service(refusals: u32) -> (BootService, Arc<AtomicU32>) {
    let asked = Arc::new(AtomicU32::new(0));
    let count = asked.clone();
    let exchange = Exchange::new(tower::service_fn(move |request: Request<Bytes>| {
        let count = count.clone();
        async move {
            let nth = count.fetch_add(1, Ordering::Relaxed);
            if nth < refusals {
                return Ok::<_, Unreachable>(
                    Response::builder().status(503).body(Bytes::new()).unwrap(),
                );
            }
            assert_eq!(request.uri().query(), Some("mac=02:5e:00:00:00:00"));
            let body = match request.uri().path() {
                "/boot/v1/script" => "#!ipxe\n",
                "/boot/v1/manifest" => {
                    r#"{"image":"new-2.0","kernel":"http://i/vmlinuz-6.13","join":"t"}"#
                }
                path => panic!("{path} is not asked for"),
            };
            Ok(Response::new(Bytes::from_static(body.as_bytes())))
        }
    }));
    (BootService { exchange, url: "http://boot/".to_owned() }, asked)
}

#[tokio::test(start_paused = true)]
async fn machines_boot_what_the_boot_service_says_and_try_again() {
    let site = site();
    let (service, asked) = service(3);
    site.boot_from(service);
    let before = Instant::now();
    let machine = booted(&site, "r1-s01").await;
    let running = machine.running().borrow().clone().unwrap();
    assert_eq!((running.image.as_str(), running.kernel.as_str()), ("new-2.0", "6.13"));
    assert!(running.manifest.contains("join"));
    assert_eq!(asked.load(Ordering::Relaxed), 5);
    assert_eq!(before.elapsed(), BOOT + 3 * site.settings().delays.of(Delay::BootRetry));
}

/// What happens on a site in which much goes wrong, as text.
async fn story(seed: u64) -> String {
    let site = Datacentre::start(demo(), settings(seed, None)).unwrap();
    let mut told = String::new();
    for machine in site.machines() {
        machine.power(Power::On, None);
    }
    let words: Vec<String> = site.faults().words().map(|(word, _)| word.to_owned()).collect();
    for (machine, word) in site.machines().zip(words.iter().cycle().skip(3)) {
        boots(&machine).await;
        machine.strike(site.faults().named(word).unwrap());
        machine.power(Power::Cycle, None);
    }
    tokio::time::sleep(BOOT * 3).await;
    for machine in site.machines() {
        let running = machine.running().borrow().clone();
        writeln!(told, "{} {running:?} {:?}", machine.name(), machine.faults()).unwrap();
        writeln!(told, "{:?} {:?}", machine.reset_log(), machine.inventory()).unwrap();
    }
    told
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_is_the_same_story() {
    let first = story(7).await;
    assert_eq!(first, story(7).await);
    assert_ne!(first, story(8).await);
}
