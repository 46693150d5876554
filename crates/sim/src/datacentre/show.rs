//! How a fault looks from the running system: symptoms at their source, when each is due, and what
//! says that it is over. Draws are made here too, each from the seed and what it is for.

use super::fault::{Fault, Lack};
use super::hardware::Signal;
use super::truth::{Around, Due, Ill, plus};
use jiff::Timestamp;
use kit::ids::Ids;
use plan::catalogue::{Limit, Metric, PartKind, Row, Rule, Signal as Seen};
use plan::detect::{Sample, Symptom, symptoms as shown};
use std::time::Duration;

/// Where the GPUs of an 8-GPU board sit, as HGX H100 machines number them.
const GPUS: [&str; 8] = [
    "0000:19:00.0",
    "0000:3b:00.0",
    "0000:4c:00.0",
    "0000:5d:00.0",
    "0000:9b:00.0",
    "0000:bb:00.0",
    "0000:cb:00.0",
    "0000:db:00.0",
];
/// Where their network adapters sit.
const NICS: [&str; 8] = [
    "0000:18:00.0",
    "0000:3a:00.0",
    "0000:4b:00.0",
    "0000:5c:00.0",
    "0000:9a:00.0",
    "0000:ba:00.0",
    "0000:ca:00.0",
    "0000:da:00.0",
];
/// Where their NVSwitches sit.
const NVSWITCHES: [&str; 4] = ["0000:05:00.0", "0000:06:00.0", "0000:07:00.0", "0000:08:00.0"];
/// A counter that runs away is seen within so long.
const RISES_IN: Duration = Duration::from_secs(1);

/// A number that follows from the seed, the machine and what it is for.
pub(super) fn draw(around: &Around<'_>, what: &str) -> u64 {
    let mut bytes = [0_u8; 8];
    // A seeded source cannot fail.
    let _ = ids(around, what).fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// FNV-1a over the machine's name and the purpose, as a seed.
fn ids(around: &Around<'_>, what: &str) -> Ids {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ around.seed;
    for byte in around.plan.name.bytes().chain([0]).chain(what.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    Ids::seeded(hash)
}

/// The kernel's boot ID of the so manieth boot.
pub(super) fn boot_id(around: &Around<'_>, boots: u64) -> String {
    ids(around, &format!("boot {boots}")).uuid().unwrap_or_default()
}

/// The part's name as evidence has it: `gpu-3` becomes an address, nothing becomes a drawn part.
pub(super) fn part(fault: &Fault, nth: u64, around: &Around<'_>) -> String {
    let expected = &around.kind.expected;
    let pick =
        |count: u32| (draw(around, &format!("part {nth}")) % u64::from(count.max(1))) as usize;
    let at = |list: &[&str], index: usize| {
        list.get(index % list.len().max(1)).copied().unwrap_or_default().to_owned()
    };
    let numbered = fault.part.rsplit_once('-').and_then(|(kind, n)| {
        let n: usize = n.parse().ok()?;
        match kind {
            "gpu" | "GPU" => Some(at(&GPUS, n)),
            "nic" => Some(at(&NICS, n)),
            "disk" => Some(format!("nvme{}n1", n % 64)),
            _ => None,
        }
    });
    if let Some(name) = numbered {
        return name;
    }
    if !fault.part.is_empty() || fault.row.is_none() {
        return fault.part.clone();
    }
    match around.faults.part_kind(fault) {
        PartKind::Gpu => at(&GPUS, pick(expected.gpus)),
        PartKind::Nvswitch => at(&NVSWITCHES, pick(4)),
        PartKind::Nic => at(&NICS, pick(expected.fabric_ports)),
        PartKind::Disk => format!("nvme{}n1", pick(expected.disks)),
        PartKind::Device => at(&NICS, pick(8)),
        PartKind::Host => format!("mc{}", pick(2)),
        PartKind::Sensor => "Sensor1".to_owned(),
        PartKind::Node => String::new(),
    }
}

/// Whether two names, such as `GPU-3` and an address, mean the same part.
pub(super) fn same_part(target: &str, part: &str) -> bool {
    let index = |name: &str| GPUS.iter().position(|gpu| name.contains(gpu) || gpu.contains(name));
    let target = target.trim();
    if target.is_empty() || part.is_empty() || target.contains(part) || part.contains(target) {
        return true;
    }
    let numbered = target
        .to_ascii_lowercase()
        .rsplit_once(['-', ' '])
        .and_then(|(kind, n)| if kind.contains("gpu") { n.parse::<usize>().ok() } else { None });
    match (numbered, index(part)) {
        (Some(target), Some(part)) => target == part,
        // Names that cannot be compared: the reset takes them all.
        (None, _) => index(target).is_none(),
        (Some(_), None) => true,
    }
}

/// What a fault shows, beginning when this boot shows it, each when it can be seen.
pub(super) fn symptoms(ill: &Ill, around: &Around<'_>) -> Vec<Due> {
    let Some(row) = row(ill, around) else { return Vec::new() };
    let each = |part| shown(row, part, ill.since).into_iter().zip(&row.seen);
    parts(ill, around)
        .into_iter()
        .flat_map(each)
        .map(|(symptom, seen)| {
            let symptom = adapt(symptom, seen, ill, around);
            let at = match &symptom {
                Symptom::Samples(samples) => samples.last().map_or(ill.since, |last| last.at),
                Symptom::Line(_) | Symptom::Peers { .. } => ill.since,
            };
            Due { at, of: ill.id, signal: Signal::Symptom(Box::new(symptom)) }
        })
        .collect()
}

/// What shows that a fault is over: numbers are back within their bounds. A log line never says so.
pub(super) fn over(ill: &Ill, at: Timestamp, around: &Around<'_>) -> Vec<Due> {
    let Some(row) = row(ill, around) else { return Vec::new() };
    let each = |part| shown(row, part, ill.since).into_iter().zip(&row.seen);
    let mut due = Vec::new();
    for (symptom, seen) in parts(ill, around).into_iter().flat_map(each) {
        let well = match (adapt(symptom, seen, ill, around), seen) {
            (Symptom::Samples(samples), Seen::Metric { rule, .. }) => {
                samples.last().map(|last| back(last, rule, at))
            }
            (Symptom::Peers { metric, peers, typical, .. }, _) => {
                Some((at, Symptom::Peers { metric, peers, typical, value: typical }))
            }
            _ => None,
        };
        due.extend(well.map(|(at, symptom)| Due {
            at,
            of: ill.id,
            signal: Signal::Symptom(Box::new(symptom)),
        }));
    }
    due
}

/// The samples that end a fault, and when the last of them can be taken.
fn back(last: &Sample, rule: &Rule, at: Timestamp) -> (Timestamp, Symptom) {
    let bound = |limit: &Limit| match limit {
        Limit::Fixed(limit) => *limit,
        Limit::Expected(share) => last.expected.unwrap_or_default() * share,
    };
    let value = match rule {
        // Flags and states have nothing between; other numbers lie well within their bounds.
        Rule::Above { limit, .. } if bound(limit) <= 1.0 => 0.0,
        Rule::Above { limit, .. } => bound(limit) / 2.0,
        Rule::Below { limit: Limit::Fixed(limit), .. } if *limit > 1.0 => limit * 2.0,
        Rule::Below { .. } => last.expected.unwrap_or_default().max(1.0),
        Rule::Rise { .. } | Rule::Flap { .. } | Rule::Peers { .. } => last.value,
    };
    let from = at.max(last.at);
    // Counters and breaks are over when the window has moved on: for a counter that needs a point
    // after the rise and another a window later.
    let at = match rule {
        Rule::Rise { per, .. } => vec![plus(from, *per), plus(from, *per * 2 + RISES_IN)],
        Rule::Flap { per, .. } => vec![plus(from, *per + RISES_IN)],
        _ => vec![from],
    };
    let due = at.last().copied().unwrap_or(from);
    (due, Symptom::Samples(at.into_iter().map(|at| Sample { at, value, ..last.clone() }).collect()))
}

/// The parts on which a fault shows: its own, or every port of the machine.
fn parts<'a>(ill: &'a Ill, around: &Around<'_>) -> Vec<&'a str> {
    if ill.fault.lacks == Some(Lack::AllFabricPorts) {
        return NICS.into_iter().take(around.kind.expected.fabric_ports as usize).collect();
    }
    vec![ill.fault.part.as_str()]
}

fn row<'a>(ill: &Ill, around: &'a Around<'_>) -> Option<&'a Row> {
    around.faults.catalogue().row(ill.fault.row.as_deref()?)
}

/// The symptom with the numbers of this machine: counts of what it has, floors of its type, and
/// counters that run away at once rather than over a day.
fn adapt(symptom: Symptom, seen: &Seen, ill: &Ill, around: &Around<'_>) -> Symptom {
    let Symptom::Samples(mut samples) = symptom else { return symptom };
    if let Seen::Metric { rule: Rule::Rise { .. }, .. } = seen
        && let [first, second] = samples.as_mut_slice()
    {
        second.at = plus(first.at, RISES_IN);
    }
    let expected = &around.kind.expected;
    let floor = ill.fault.figure.as_ref().and_then(|figure| around.kind.floors.get(figure));
    for sample in &mut samples {
        let counted = match sample.metric {
            Metric::GpuCount => Some(expected.gpus),
            Metric::NicCount => Some(expected.fabric_ports),
            Metric::NvmeCount => Some(expected.disks),
            Metric::NvlinkActive => Some(expected.nvlinks),
            _ => None,
        };
        if let Some(counted) = counted.filter(|counted| *counted > 0) {
            sample.expected = Some(f64::from(counted));
            sample.value = f64::from(counted) - 1.0;
        } else if let Some(floor) = floor {
            sample.expected = Some(*floor);
            sample.value = floor * super::chore::LOW;
        }
    }
    Symptom::Samples(samples)
}
