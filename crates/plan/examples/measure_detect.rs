//! Measures what the detectors promise: lines of the kernel's log per second on one core, of an ordinary
//! log, of one that is all faults, and of hostile lines; samples per second; and how long a catalogue
//! takes to load.
//!
//! `cargo run --release -p plan --example measure_detect`
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program")]

use std::time::{Duration, Instant};

use jiff::Timestamp;
use plan::catalogue::{Catalogue, Metric, Part, PartKind};
use plan::detect::{Driver, Lines, Metrics, Sample, Symptom, Window, symptoms};

const TIME: Duration = Duration::from_secs(2);
/// Real kernel lines that are no fault, of usual length.
const ORDINARY: [&str; 8] = [
    "[1235733.431527] mlx5_core 0000:5c:00.0 ens3f0np0: Link up",
    "[1235734.000001] systemd[1]: Started Session 4711 of User root.",
    "[1235734.124523] audit: type=1400 audit(1767225600.123:42): apparmor=\"STATUS\" operation=\"profile_load\"",
    "[1235735.431527] IPv6: ADDRCONF(NETDEV_CHANGE): cali1234567890a: link becomes ready",
    "[1235736.431527] NVRM: GPU at PCI:0000:66:00: GPU-12345678-1234-5678-9abc-def012345678",
    "[1235737.431527] nvme nvme0: 64/0/0 default/read/poll queues",
    "[1235738.431527] EXT4-fs (nvme0n1p1): mounted filesystem with ordered data mode. Opts: (null)",
    "[1235739.431527] docker0: port 3(veth12ab) entered forwarding state",
];

fn main() {
    let start = Instant::now();
    let catalogue = Catalogue::load(&[]).unwrap();
    println!("catalogue: {} rows loaded in {:?}", catalogue.rows().count(), start.elapsed());
    let start = Instant::now();
    let lines = Lines::new(&catalogue).unwrap();
    println!("automaton built in {:?}", start.elapsed());

    let faults: Vec<Vec<u8>> = catalogue
        .rows()
        .flat_map(|row| symptoms(row, "0000:b5:00.0", Timestamp::UNIX_EPOCH))
        .filter_map(|symptom| match symptom {
            Symptom::Line(line) => Some(line.into_bytes()),
            _ => None,
        })
        .collect();
    let ordinary: Vec<Vec<u8>> = ORDINARY.iter().map(|line| line.as_bytes().to_vec()).collect();
    // One line in a hundred is a fault: far more than a healthy fleet has.
    let mut mixed: Vec<Vec<u8>> =
        ordinary.iter().cycle().take(99 * faults.len()).cloned().collect();
    for (i, fault) in faults.iter().enumerate() {
        mixed.insert(i * 100, fault.clone());
    }
    let hostile: Vec<Vec<u8>> =
        ["NVRM: Xid (PCI:", "nvme nvme", "EDAC MC", "Xid SXid NVRM: ", "((((0x"]
            .iter()
            .map(|piece| piece.repeat(2_048 / piece.len()).into_bytes())
            .collect();
    for (name, log) in [
        ("ordinary", &ordinary),
        ("1 % faults", &mixed),
        ("all faults", &faults),
        ("hostile, 2 KiB", &hostile),
    ] {
        measure(name, &lines, log);
    }
    samples(&catalogue);
}

fn measure(name: &str, lines: &Lines, log: &[Vec<u8>]) {
    let driver = Driver::version("580.95.05");
    let (mut count, mut found, mut bytes) = (0_u64, 0_u64, 0_u64);
    let start = Instant::now();
    while start.elapsed() < TIME {
        for line in log {
            found += lines.read(line, Timestamp::UNIX_EPOCH, driver).len() as u64;
            bytes += line.len() as u64;
            count += 1;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{name}: {:.0} lines/s, {:.1} MB/s, {found} findings in {count} lines",
        count as f64 / seconds,
        bytes as f64 / seconds / 1e6
    );
}

/// Eight GPUs and ten ports with every metric, once a second.
fn samples(catalogue: &Catalogue) {
    let metrics = Metrics::new(catalogue, None);
    let parts: Vec<Part> =
        (0..18).map(|i| Part::new(PartKind::Nic, &format!("port {i}"))).collect();
    let mut window = Window::default();
    let (mut count, mut second) = (0_u64, 0);
    let start = Instant::now();
    while start.elapsed() < TIME {
        second += 1;
        let at = Timestamp::from_second(second).unwrap();
        for part in &parts {
            for metric in Metric::ALL {
                let sample = Sample {
                    at,
                    metric: *metric,
                    part: part.clone(),
                    value: 1.0,
                    expected: Some(1.0),
                };
                window = metrics.read(window, &sample).0;
                count += 1;
            }
        }
    }
    let rate = count as f64 / start.elapsed().as_secs_f64();
    println!("samples: {rate:.0}/s, {} series remembered", window.len());
}
