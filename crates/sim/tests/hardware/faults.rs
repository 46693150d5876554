//! Faults show themselves so that the shipped detectors find them, and only them.

use super::{CATALOGUE, booted, boots, settings};
use api::request::Power;
use plan::catalogue::{Part, Signal as Seen};
use plan::detect::{Driver, Finding, Lines, Metrics, Symptom, Window, peers};
use sim::datacentre::{Datacentre, Demo, Fault, Heal, Layout, Signal, Voice};
use std::sync::LazyLock;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

static LINES: LazyLock<Lines> = LazyLock::new(|| Lines::new(&CATALOGUE).unwrap());
static METRICS: LazyLock<Metrics> = LazyLock::new(|| Metrics::new(&CATALOGUE, None));

/// What an agent makes of what it hears.
#[derive(Default)]
struct Detectors {
    window: Window,
}

impl Detectors {
    fn hear(&mut self, symptom: &Symptom) -> Vec<Finding> {
        match symptom {
            Symptom::Line(line) => {
                LINES.read(line.as_bytes(), super::start(), Driver::version("580.95.05"))
            }
            Symptom::Samples(samples) => {
                let mut found = Vec::new();
                for sample in samples {
                    let window = std::mem::take(&mut self.window);
                    let (window, findings) = METRICS.read(window, sample);
                    self.window = window;
                    found.extend(findings);
                }
                found
            }
            Symptom::Peers { metric, peers: count, typical, value } => {
                let mut values: Vec<(Part, f64)> =
                    (1..*count).map(|i| (Part::gpu(&format!("peer {i}")), *typical)).collect();
                values.push((Part::gpu("own"), *value));
                let found = peers(&CATALOGUE, *metric, super::start(), &values);
                found.into_iter().map(|(_, finding)| finding).collect()
            }
        }
    }

    fn hear_all(&mut self, signals: &mut UnboundedReceiver<Signal>) -> Vec<Finding> {
        let mut found = Vec::new();
        while let Ok(signal) = signals.try_recv() {
            if let Signal::Symptom(symptom) = signal {
                found.extend(self.hear(&symptom));
            }
        }
        found
    }
}

fn small() -> Datacentre {
    let demo = Demo { gpu_nodes: 1, cpu_nodes: 0, racks: 1, spares: 0, seed: 1 };
    Datacentre::start(Layout::demo(&demo).unwrap(), settings(1, None)).unwrap()
}

/// Strikes a fault and checks that it is read back as its row, also by who listens late, and that
/// its numbers say when it is over.
async fn shows(site: &Datacentre, fault: Fault) {
    let Some(row) = fault.row.clone() else { return };
    let word = fault.word.clone();
    let machine = site.machine("r1-s01").unwrap();
    let mut signals = machine.signals();
    let mut detectors = Detectors::default();
    let latent = fault.latent;
    let id = machine.strike(Fault { cure: sim::datacentre::Cure::Parts, ..fault });
    // The longest hold of the catalogue, and a link that flaps three times.
    tokio::time::sleep(Duration::from_secs(180)).await;
    let found = detectors.hear_all(&mut signals);
    let of_row = |found: &[Finding], present| {
        found.iter().filter(|f| f.row.as_str() == row && f.present == present).count()
    };
    if latent {
        assert!(found.is_empty(), "{word} shows {found:?} before a test found it");
    } else {
        assert!(of_row(&found, true) > 0, "{word} is not seen as {row}: {found:?}");
        let late = Detectors::default().hear_all(&mut machine.signals());
        assert!(of_row(&late, true) > 0, "{word} is not seen by who listens late");
    }
    if machine.on() {
        assert_eq!(machine.heal(&Heal::One(id)), 1, "{word}");
    } else {
        machine.heal(&Heal::All);
        boots(&machine).await;
    }
    tokio::time::sleep(Duration::from_secs(61 * 86_400)).await;
    let over = detectors.hear_all(&mut signals);
    assert_eq!(of_row(&over, true), 0, "{word} shows after its end: {over:?}");
    let numbers =
        CATALOGUE.row(&row).unwrap().seen.iter().all(|seen| matches!(seen, Seen::Metric { .. }));
    let tracked = found.iter().any(|f| f.row.as_str() == row && !f.evidence.contains("median"));
    if numbers && tracked {
        assert!(of_row(&over, false) > 0, "{word}: nothing says that {row} is over");
    }
}

#[tokio::test(start_paused = true)]
async fn every_word_is_read_back_as_its_row() {
    let site = small();
    booted(&site, "r1-s01").await;
    let words: Vec<String> = site.faults().words().map(|(word, _)| word.to_owned()).collect();
    for word in words {
        shows(&site, site.faults().named(&word).unwrap()).await;
        let machine = site.machine("r1-s01").unwrap();
        machine.heal(&Heal::All);
        boots(&machine).await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_row_of_the_catalogue_is_read_back() {
    let site = small();
    booted(&site, "r1-s01").await;
    for row in CATALOGUE.rows() {
        shows(&site, site.faults().named(row.id.as_str()).unwrap()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_shows_in_every_boot_that_it_survives() {
    let site = small();
    let machine = booted(&site, "r1-s01").await;
    machine.strike(site.faults().named("gpu-memory").unwrap());
    let mut signals = machine.signals();
    let mut seen = 0;
    for _ in 0..3 {
        machine.power(Power::Cycle, None);
        machine.running().wait_for(Option::is_none).await.unwrap();
        boots(&machine).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let found = Detectors::default().hear_all(&mut signals);
        seen += usize::from(found.iter().any(|f| f.row.as_str() == "gpu/row-remap-failed"));
    }
    assert_eq!(seen, 3);
}

#[tokio::test(start_paused = true)]
async fn what_is_silent_does_not_speak() {
    let site = small();
    let machine = booted(&site, "r1-s01").await;
    for (word, kubelet, agent) in [
        ("kubelet-dead", false, true),
        ("agent-dead", true, false),
        ("kernel-panic", false, false),
        ("fan", true, true),
    ] {
        let mut signals = machine.signals();
        machine.strike(site.faults().named(word).unwrap());
        let speaks = (machine.speaks(Voice::Kubelet), machine.speaks(Voice::Agent));
        assert_eq!(speaks, (kubelet, agent), "{word}");
        machine.heal(&Heal::All);
        assert!(machine.speaks(Voice::Kubelet) && machine.speaks(Voice::Agent), "{word}");
        let voices = std::iter::from_fn(|| signals.try_recv().ok())
            .filter(|signal| *signal == Signal::Voices)
            .count();
        assert_eq!(voices, if kubelet && agent { 0 } else { 2 }, "{word}");
    }
    machine.power(Power::Off, None);
    machine.running().wait_for(Option::is_none).await.unwrap();
    assert!(!machine.speaks(Voice::Kubelet));
}

#[tokio::test(start_paused = true)]
async fn a_fault_with_an_end_ends_by_itself() {
    let site = small();
    let machine = booted(&site, "r1-s01").await;
    let until = site.settings().clock.now().checked_add(Duration::from_secs(3_600)).unwrap();
    let fault = site.faults().named("ib-link-down").unwrap();
    machine.strike(Fault { until: Some(until), ..fault });
    assert_eq!(machine.inventory().fabric_ports, 7);
    assert_eq!(machine.inventory().neighbours.len(), 7);
    tokio::time::sleep(Duration::from_secs(3_601)).await;
    assert!(machine.faults().is_empty());
    assert_eq!(machine.inventory().fabric_ports, 8);
    machine.strike(site.faults().named("gpu-app").unwrap());
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(machine.faults().is_empty(), "a program that was hit ends");
}

#[tokio::test(start_paused = true)]
async fn a_leaf_takes_the_ports_of_all_below() {
    let site = Datacentre::start(super::demo(), settings(1, None)).unwrap();
    let fault = site.faults().named("leaf-down").unwrap();
    let struck = site.strike_leaf("leaf-2b", &fault);
    assert_eq!(struck.len(), 4);
    assert!(struck.iter().all(|(machine, _)| machine.inventory().fabric_ports == 0));
    let machine = booted(&site, "r2-s06").await;
    let mut signals = machine.signals();
    tokio::time::sleep(Duration::from_secs(31)).await;
    let found = Detectors::default().hear_all(&mut signals);
    let ports: std::collections::BTreeSet<_> = found.iter().map(|f| f.part.clone()).collect();
    assert_eq!(ports.len(), 8, "{found:?}");
    assert_eq!(site.machine("r2-s01").unwrap().inventory().fabric_ports, 8);
}

#[tokio::test(start_paused = true)]
async fn faults_without_bound_keep_a_bounded_number() {
    let site = small();
    let machine = booted(&site, "r1-s01").await;
    for _ in 0..1_000 {
        machine.strike(site.faults().named("nvlink-down").unwrap());
    }
    assert_eq!(machine.faults().len(), 64);
    assert_eq!(machine.inventory().nvlinks, 0);
}
