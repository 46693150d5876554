//! What other faults beside a fault, and repeats of it, change.

use std::time::Duration;

use jiff::Timestamp;
use plan::catalogue::{Part, Sighting};

use crate::CATALOGUE;

const GPU: &str = "0000:b5:00";

fn sighting(row: &str, part: Part, seconds: u64) -> Sighting {
    let start: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    Sighting { row: row.into(), part, at: start.checked_add(Duration::from_secs(seconds)).unwrap() }
}

/// `row@seconds` on the GPU, `row@seconds!` on the node as a whole, `row@seconds?other` on another GPU.
fn advice(seen: &[&str]) -> Vec<String> {
    let sightings: Vec<Sighting> = seen
        .iter()
        .map(|text| {
            let (row, rest) = text.split_once('@').unwrap();
            let (part, seconds) = if let Some(seconds) = rest.strip_suffix('!') {
                (Part::node(), seconds)
            } else if let Some((seconds, other)) = rest.split_once('?') {
                (Part::gpu(other), seconds)
            } else if let Some((seconds, unit)) = rest.split_once('/') {
                (Part::gpu(GPU).unit(unit), seconds)
            } else {
                (Part::gpu(GPU), rest)
            };
            sighting(row, part, seconds.parse().unwrap())
        })
        .collect();
    let advice = CATALOGUE.advise(&sightings);
    let text = advice.iter().map(|advice| {
        let step = advice.first().map_or("count", |rung| rung.step.as_str());
        format!("{}: {} {step}", advice.row.id, advice.policy.name)
    });
    text.collect()
}

#[test]
fn a_double_bit_error_alone_and_beside_a_remap() {
    assert_eq!(advice(&["xid/48@0"]), ["xid/48: reset-gpu ResetGpu"]);
    assert_eq!(
        advice(&["xid/48@0", "xid/63@2"]),
        ["xid/48: drain-and-reset ResetGpu", "xid/63: watch count",]
    );
    assert_eq!(
        advice(&["xid/48@0", "xid/64@2"]),
        ["xid/48: follow count", "xid/64: reset-gpu ResetGpu"]
    );
    assert_eq!(
        advice(&["xid/48@0", "xid/63@2?0000:4e:00"])[0],
        "xid/48: reset-gpu ResetGpu",
        "another GPU"
    );
    assert_eq!(
        advice(&["xid/48@0", "xid/63@120"])[0],
        "xid/48: reset-gpu ResetGpu",
        "two minutes later"
    );
    assert_eq!(
        advice(&["xid/48@0", "gpu/sram-threshold@3600"]),
        ["gpu/sram-threshold: rma Diagnose", "xid/48: rma Diagnose",]
    );
}

#[test]
fn sympathetic_errors_follow_their_cause() {
    assert_eq!(advice(&["xid/45@0"]), ["xid/45: restart-fabric-manager RestartService"]);
    assert_eq!(
        advice(&["xid/45@0", "xid/31@1"]),
        ["xid/31: restart-app RestartApp", "xid/45: follow count"]
    );
    assert_eq!(advice(&["xid/94@0"]), ["xid/94: restart-app-then-reset RestartApp"]);
    assert_eq!(
        advice(&["xid/94@0", "xid/48@1"]),
        ["xid/48: reset-gpu ResetGpu", "xid/94: follow count"]
    );
    assert_eq!(advice(&["xid/95@0", "xid/63@1"])[1], "xid/95: drain-and-reset ResetGpu");
}

#[test]
fn the_drivers_own_word_overrides() {
    assert_eq!(
        advice(&["xid/95@0", "xid154/node-reboot@1"]),
        ["xid/95: reboot Reboot", "xid154/node-reboot: reboot Reboot",]
    );
    assert_eq!(advice(&["xid/31@0", "xid154/none@5"])[0], "xid/31: watch count");
    assert_eq!(
        advice(&["xid/95@0", "xid154/node-reboot@90"])[0],
        "xid/95: reset-gpu ResetGpu",
        "too late"
    );
    assert_eq!(
        advice(&["xid/95@0", "xid154/gpu-reset@1", "xid154/node-reboot@2"])[0],
        "xid/95: reboot Reboot",
        "the last word"
    );
    let remap = advice(&["nvlink5/145/rlw-remap/0x1@0", "xid154/gpu-reset@1"]);
    assert_eq!(remap[0], "nvlink5/145/rlw-remap/0x1: reset-gpu ResetGpu");
    assert_eq!(
        advice(&["nvlink5/145/rlw-remap/0x1@0"]),
        ["nvlink5/145/rlw-remap/0x1: restart-app RestartApp"]
    );
}

#[test]
fn repeats_begin_further_up_and_bursts_count_once() {
    let day = 86_400;
    assert_eq!(advice(&["xid/31@0", "xid/31@400"]), ["xid/31: restart-app Diagnose"]);
    assert_eq!(
        advice(&["xid/31@0", "xid/31@60", "xid/31@120"]),
        ["xid/31: restart-app RestartApp"],
        "a burst"
    );
    assert_eq!(
        advice(&["xid/31@0", &format!("xid/31@{}", day + 1)]),
        ["xid/31: restart-app RestartApp"]
    );
    assert_eq!(
        advice(&["xid/13@0/GPC 1 TPC 3", "xid/13@400/GPC 1 TPC 3"]),
        ["xid/13: restart-app Diagnose"]
    );
    let other = advice(&["xid/13@0/GPC 1 TPC 3", "xid/13@400/GPC 2 TPC 0"]);
    assert_eq!(other, ["xid/13: restart-app RestartApp"; 2], "different units");
    assert_eq!(advice(&["xid/79@0", &format!("xid/79@{}", 6 * day)]), ["xid/79: reboot Rma"]);
    assert_eq!(advice(&["xid/79@0", &format!("xid/79@{}", 8 * day)]), ["xid/79: reboot Reboot"]);
    assert_eq!(advice(&["ib/carrier-changes@0"]), ["ib/carrier-changes: watch-port count"]);
    let three = ["ib/carrier-changes@0", "ib/carrier-changes@300", "ib/carrier-changes@600"];
    assert_eq!(advice(&three), ["ib/carrier-changes: watch-port RestartService"]);
}

#[test]
fn an_unknown_row_is_left_out_and_nothing_calls_for_nothing() {
    assert_eq!(advice(&[]), [""; 0]);
    assert_eq!(advice(&["xid/9999@0"]), [""; 0]);
}
