//! Every kind of fault of the InfiniteHBD trace is mapped to what it shows.

use plan::catalogue::{Basis, TraceMap, TraceWords};

use crate::CATALOGUE;

/// How often each kind of fault begins in the trace.
const KINDS: &[(u32, &str, &str, &str)] = &[
    (144, "Other Failure", "Unknown Error", "Unknown Error"),
    (97, "Other Failure", "Stress Test Failure", "Unknown Error"),
    (60, "Hardware Failure", "GPU", "GPU DBE(Double Bit ECC) > Threshold"),
    (40, "Hardware Failure", "Parameter Plane Cable", "Link Down"),
    (40, "Hardware Failure", "GPU", "GPU device unknow error"),
    (31, "Hardware Failure", "Fan", "Speed Critical (Sensor)"),
    (25, "Hardware Failure", "GPU", "GPU PCI link width low"),
    (25, "Hardware Failure", "Power Supply", "Power Supply Failure detected"),
    (14, "Other Failure", "Training Task Troubleshooting", "Suspect Machine Offline"),
    (12, "Software Failure", "Other Failures", "Unknown Error"),
    (11, "Hardware Failure", "GPU", "GPU xid Error"),
    (11, "Hardware Failure", "NIC", "Rnic Gid Error"),
    (10, "Hardware Failure", "NIC", "NIC Link Speed low"),
    (9, "Hardware Failure", "GPU", "nvidia-smi Timeout"),
    (8, "Hardware Failure", "NIC", "NIC Lost"),
    (7, "Software Failure", "Software Tool", "Kubelet Date Absent"),
    (5, "Hardware Failure", "GPU", "GPU Lost"),
    (4, "Hardware Failure", "Motherboard", "Motherboard Failed"),
    (3, "Hardware Failure", "GPU", "GPU P2P Bandwidth Low"),
    (3, "Other Failure", "Change", "Y-cables Taken offline"),
    (2, "Hardware Failure", "GPU", "GPU Temperature High"),
    (2, "Software Failure", "File System", "FS: Multiple Disk FS Error"),
    (2, "Hardware Failure", "Fan", "Redundancy Lost"),
    (2, "Other Failure", "Test", "Temporarily Offline"),
    (2, "Hardware Failure", "CPU", "Machine Check Exception ( Uncorrectable )"),
    (1, "Other Failure", "System Crash", "Server down"),
    (1, "Hardware Failure", "NIC", "NIC PCI link Width low"),
    (1, "Hardware Failure", "Motherboard Battery", "Low"),
    (1, "Hardware Failure", "GPU", "GPU SBE(Single Bit ECC) > Threshold"),
    (1, "Software Failure", "Operating System", "Kernel Panic"),
    (1, "Software Failure", "Firmware", "Firmware mismatch"),
    (1, "Hardware Failure", "Other Failures", "Unknown Error"),
    (1, "Hardware Failure", "Power Supply", "Redundancy Lost"),
    (1, "Hardware Failure", "CPU", "Configuration Error"),
    (1, "Hardware Failure", "RAID Card", "Bus Correctable error"),
    (1, "Hardware Failure", "Riser Card", "RiserCard Fault"),
    (1, "Software Failure", "File System", "FS Readonly"),
    (1, "Hardware Failure", "GPU", "Silent Data Corruption"),
    (1, "Other Failure", "Change", "Remote Optical Module Failure"),
    (1, "Hardware Failure", "GPU", "GPU device not found"),
];

fn words(level: &str, class: &str, desc: &str) -> TraceWords {
    TraceWords { level: level.to_owned(), class: class.to_owned(), desc: desc.to_owned() }
}

#[test]
fn every_kind_of_fault_is_mapped_and_says_what_is_assumed() {
    let map = TraceMap::load(&CATALOGUE, &[]).unwrap();
    let mut counts = [0, 0];
    for (count, level, class, desc) in KINDS {
        let row = map.row(&words(level, class, desc));
        let row = row.unwrap_or_else(|| panic!("{level}/{class}/{desc} is not mapped"));
        counts[usize::from(row.basis == Basis::Assumed)] += count;
    }
    assert_eq!(map.rows().count(), KINDS.len());
    assert_eq!(counts, [401, 183], "recorded and assumed faults");
}

#[test]
fn unknown_words_name_the_nearest() {
    let map = TraceMap::load(&CATALOGUE, &[]).unwrap();
    let typo = words("Hardware Failure", "GPU", "GPU Lots");
    assert_eq!(map.row(&typo), None);
    assert_eq!(map.nearest(&typo).unwrap().desc, "GPU Lost");
}

#[test]
fn a_wrong_mapping_is_refused() {
    let site = "rows: [{level: A, class: B, desc: C, basis: assumed, shows: {xid/4711: 1}, cures: {Reboot: 90}}]";
    let errors = TraceMap::load(&CATALOGUE, &[("site.yaml", site)]).unwrap_err();
    let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        text,
        [
            "site.yaml: row 1: field shows.xid/4711: row \"xid/4711\" is not known; the nearest valid value is \"xid/11\"",
            "site.yaml: row 1: field cures: must add up to 100, not 90",
        ]
    );
}
