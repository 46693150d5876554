//! Lines as real machines write them, and series as real counters make them.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use plan::catalogue::{Metric, Part, PartKind, Product};
use plan::detect::{
    Driver, Finding, Floors, Health, Lines, Metrics, Reading, Sample, Silence, Window, drift,
    peers, sensor, silence,
};

use crate::CATALOGUE;

fn at(seconds: u64) -> Timestamp {
    let start: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    start.checked_add(Duration::from_secs(seconds)).unwrap()
}

fn lines() -> Lines {
    Lines::new(&CATALOGUE).unwrap()
}

fn seen(lines: &Lines, line: &str, driver: &str) -> Vec<String> {
    let found = lines.read(line.as_bytes(), at(0), Driver::version(driver));
    found.iter().map(|finding| format!("{} on {}", finding.row, finding.part)).collect()
}

/// Forms from NVIDIA's documents, kernel sources and public bug reports.
const REAL: &[(&str, &[&str])] = &[
    (
        "[1235733.431527] NVRM: Xid (PCI:0000:4e:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        &["xid/79 on gpu 0000:4e:00"],
    ),
    (
        "NVRM: Xid (PCI:0000:66:00): 32, pid=2280636, name=train.3, Channel ID 0000000d intr0 00040000",
        &["xid/32 on gpu 0000:66:00"],
    ),
    (
        "NVRM: Xid (PCI:0000:b5:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception on (GPC 1, TPC 3, SM 0): Out Of Range Address",
        &["xid/13 on gpu 0000:b5:00 GPC 1 TPC 3"],
    ),
    (
        "<3>[  103.1] NVRM: Xid (PCI:0001:ab:cd): 69, pid=1310987, name=train.3, Class Error: ChId 0008, Class 0000cbc0, Offset 00000184, Data ffffffff, ErrorCode 00000004",
        &["xid/69 on gpu 0001:ab:cd"],
    ),
    ("NVRM: Xid (0000:03:00): 31, Ch 00000003", &["xid/31 on gpu 0000:03:00"]),
    ("NVRM: Xid (PCI:0000:66:00): 999, pid=1234, name=test", &["xid-unknown on gpu 0000:66:00"]),
    (
        "NVRM: Xid (PCI:0003:00:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
        &["xid74/reg2/diagnose on gpu 0003:00:00 link 14"],
    ),
    (
        "NVRM: Xid (PCI:0003:00:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 2(0x200010, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
        &[
            "xid74/reg0/parity on gpu 0003:00:00 link 2",
            "xid74/reg0/signal on gpu 0003:00:00 link 2",
        ],
    ),
    (
        "NVRM: Xid (PCI:0003:00:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 2(0x80000000, 0xffffffff, 0x0, 0x0, 0x0, 0x0, 0x0)",
        &["xid/74 on gpu 0003:00:00 link 2"],
    ),
    (
        "NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
        &["xid154/node-reboot on gpu 0008:01:00"],
    ),
    (
        "NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
        &["xid154/none on gpu 0008:01:00"],
    ),
    ("NVRM: Xid (PCI:0000:01:00): 154 (", &["xid/154 on gpu 0000:01:00"]),
    (
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)",
        &["sxid/12028 on nvswitch 0000:c1:00.0 link 32"],
    ),
    (
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Severity 0 Engine instance 32 Sub-engine instance 00",
        &[],
    ),
    (
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Data {0x00140004, 0x00100000, 0x00140004}",
        &[],
    ),
    (
        "[131453.740743] nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
        &["sxid/20034 on nvswitch 0000:00:00.0 link 30"],
    ),
    (
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS crumbstore MCTO (First)",
        &["sxid-unknown/non-fatal on nvswitch 0000:c1:00.0"],
    ),
    (
        "NVRM: GPU 0000:09:00.0: RmInitAdapter failed! (0x62:0xffff:2477)",
        &["gpu/init-failed on gpu 0000:09:00.0"],
    ),
    (
        "mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 268269): Detected insufficient power on the PCIe slot (27W).",
        &["nic/pcie-power on nic 0000:5c:00.0"],
    ),
    (
        "mlx5_core 0000:5c:00.0: Port module event[error]: module 0, Cable error, High Temperature",
        &["nic/module-hot on nic 0000:5c:00.0"],
    ),
    (
        "mlx5_core 0000:5c:00.0: Port module event[error]: module 0, Cable error, Bus stuck (I2C or data shorted)",
        &["nic/module-error on nic 0000:5c:00.0"],
    ),
    (
        "mlx5_core 0000:d2:00.0: mlx5_cmd_out_err:838:(pid 268269): ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2), syndrome (0x1c2b), err(-22)",
        &["nic/register-access on nic 0000:d2:00.0"],
    ),
    (
        "mlx5_core 0000:d2:00.0: poll_health:833:(pid 0): device's health compromised - reached miss count",
        &["nic/firmware-dead on nic 0000:d2:00.0"],
    ),
    (
        "NETDEV WATCHDOG: ens3f0np0 (mlx5_core): transmit queue 12 timed out",
        &["nic/transmit-timeout on nic ens3f0np0"],
    ),
    ("nvme nvme1: I/O 410 QID 31 timeout, aborting", &["nvme/timeout on disk nvme1"]),
    ("nvme nvme0: Disabling device after reset failure: -19", &["nvme/disabled on disk nvme0"]),
    ("block nvme0n1: no usable path - requeuing I/O", &["nvme/path-failure on disk nvme0n1"]),
    (
        "Buffer I/O error on dev nvme0n1p2, logical block 61, async page read",
        &["nvme/io-error on disk nvme0n1p2"],
    ),
    (
        "blk_update_request: I/O error, dev nvme2n1, sector 1050625 op 0x0:(READ) flags 0x80700",
        &["nvme/io-error on disk nvme2n1"],
    ),
    ("EXT4-fs (nvme0n1p1): Remounting filesystem read-only", &["fs/read-only on disk nvme0n1p1"]),
    (
        "EXT4-fs error (device dm-0): ext4_find_entry:1455: inode #2: comm ls: reading directory lblock 0",
        &["fs/error on disk dm-0"],
    ),
    (
        "XFS (nvme0n1p1): Log I/O Error Detected. Shutting down filesystem",
        &["fs/shut-down on disk nvme0n1p1"],
    ),
    (
        "md/raid1:md0: Disk failure on nvme1n1p1, disabling device.",
        &["fs/raid-failed on disk nvme1n1p1"],
    ),
    (
        "EDAC MC1: 1 UE memory read error on CPU_SrcID#1_MC#0_Chan#0_DIMM#0 (channel:0 slot:0 page:0x1f offset:0x0)",
        &["node/memory-uncorrected on host"],
    ),
    (
        "EDAC MC0: 1 CE memory scrubbing error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0)",
        &["node/memory-corrected on host"],
    ),
    (
        "mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00000000800400",
        &["node/machine-check on host"],
    ),
    (
        "mce: [Hardware Error]: Machine check events logged",
        &["node/machine-check-corrected on node"],
    ),
    (
        "nvidia 0000:c1:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (Requester ID)",
        &["node/aer-nonfatal on device"],
    ),
    (
        "pcieport 0000:00:01.0: AER: Uncorrectable (Fatal) error message received from 0000:01:00.0",
        &["node/aer-fatal on device"],
    ),
    (
        "watchdog: BUG: soft lockup - CPU#12 stuck for 23s! [python:1234]",
        &["kernel/soft-lockup on node"],
    ),
    ("watchdog: Watchdog detected hard LOCKUP on cpu 3", &["kernel/hard-lockup on node"]),
    (
        "INFO: task jbd2/dm-0-8:1234 blocked for more than 120 seconds.",
        &["kernel/hung-task on node"],
    ),
    ("Kernel panic - not syncing: Fatal exception in interrupt", &["kernel/panic on node"]),
    (
        "Out of memory: Killed process 4242 (python) total-vm:1234kB, anon-rss:12kB",
        &["kernel/oom on node"],
    ),
    ("Memory cgroup out of memory: Killed process 4242 (python) total-vm:1234kB", &[]),
    ("VFS: file-max limit 9223372036854775807 reached", &["kernel/file-handles on node"]),
    ("nfs: server 10.0.0.7 not responding, still trying", &["fs/network-stuck on node"]),
    ("NVRM: GPU at PCI:0000:66:00: GPU-12345678-1234-5678-9abc-def012345678", &[]),
    ("mlx5_core 0000:5c:00.0 ens3f0np0: Link up", &[]),
    ("Linux version 5.15.0-117-generic", &[]),
];

#[test]
fn real_lines_are_read() {
    let lines = lines();
    for (line, expected) in REAL {
        assert_eq!(seen(&lines, line, "570.148.08"), *expected, "{line}");
    }
}

/// The lines and verdicts of NVSentinel's own tests of the same sheet.
#[test]
fn words_of_nvlink5_are_read_by_the_driver_branch() {
    let lines = lines();
    let old = "NVRM: Xid (PCI:0000:00:08.0): 145, RLW_REMAP Nonfatal XC1 i0 Link 10 (0x00000082 0x00000040 0x00000000 0x00000000 0x00000000 0x00000000)";
    let new = "NVRM: Xid (PCI:0000:00:08.0): 145, RLW_REMAP Nonfatal XC1 i0 Link 10 (0x00000004 0x00000040 0x00000000 0x00000000 0x00000000 0x00000000)";
    let row = ["nvlink5/145/rlw-remap/0x40 on gpu 0000:00:08.0 link 10"];
    let none = ["xid/145 on gpu 0000:00:08.0 link 10"];
    assert_eq!(seen(&lines, old, "570.148.08"), row);
    assert_eq!(seen(&lines, new, "570.148.08"), none);
    assert_eq!(seen(&lines, new, "580.105.08"), row);
    assert_eq!(seen(&lines, old, "580.105.08"), none);
    assert_eq!(seen(&lines, old, ""), row);
    assert_eq!(seen(&lines, new, ""), row);
    let line = "NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)";
    assert_eq!(
        seen(&lines, line, "570.1"),
        ["nvlink5/149/netir-link-down/reason-37 on gpu 0018:01:00 link 9"]
    );
    let raised = "NVRM: Xid (PCI:0000:04:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 00 (0x00000086 0x00000003 0x00000000)";
    assert_eq!(
        seen(&lines, raised, "580.1"),
        [
            "nvlink5/145/rlw-rxpipe/0x1-escalated on gpu 0000:04:00 link 0",
            "nvlink5/145/rlw-rxpipe/0x2-escalated on gpu 0000:04:00 link 0",
        ]
    );
}

struct Series {
    metrics: Metrics,
    window: Window,
    metric: Metric,
    expected: Option<f64>,
}

impl Series {
    fn new(metric: Metric, expected: Option<f64>) -> Self {
        let metrics = Metrics::new(&CATALOGUE, Some(Product::H100));
        Self { metrics, window: Window::default(), metric, expected }
    }

    fn push(&mut self, seconds: u64, value: f64) -> Vec<String> {
        let part = Part::new(PartKind::Nic, "mlx5_0");
        let (metric, expected) = (self.metric, self.expected);
        let sample = Sample { at: at(seconds), metric, part, value, expected };
        let (window, found) = self.metrics.read(std::mem::take(&mut self.window), &sample);
        self.window = window;
        let text =
            |f: &Finding| format!("{} {} {}", if f.present { "+" } else { "-" }, f.row, f.evidence);
        found.iter().map(text).collect()
    }
}

#[test]
fn a_link_is_down_after_thirty_seconds_and_up_at_once() {
    let mut link = Series::new(Metric::LinkUp, None);
    assert_eq!(link.push(0, 1.0), [""; 0]);
    assert_eq!(link.push(10, 0.0), [""; 0]);
    assert_eq!(link.push(39, 0.0), [""; 0]);
    assert_eq!(link.push(40, 0.0), ["+ ib/link-down link-up 0: below 1 for 30 s"]);
    assert_eq!(link.push(70, 0.0), [""; 0], "said once");
    assert_eq!(link.push(90, 1.0), ["- ib/link-down link-up 1: back within its bound"]);
}

#[test]
fn three_long_breaks_are_a_flap_and_short_ones_are_not() {
    let mut link = Series::new(Metric::LinkUp, None);
    for i in 0..10 {
        assert_eq!(link.push(i * 60, 0.0), [""; 0]);
        assert_eq!(link.push(i * 60 + 24, 1.0), [""; 0], "24 s are too short");
    }
    for i in 0..2 {
        link.push(1_000 + i * 60, 0.0);
        assert_eq!(link.push(1_025 + i * 60, 1.0), [""; 0]);
    }
    link.push(1_120, 0.0);
    assert_eq!(
        link.push(1_145, 1.0),
        ["+ ib/link-flap link-up 1: down for 25 s or more 3 times in 12 h"]
    );
    assert_eq!(
        link.push(1_145 + 13 * 3_600, 1.0),
        ["- ib/link-flap link-up 1: back within its bound"]
    );
}

#[test]
fn a_rising_counter_is_judged_by_its_rate_and_survives_a_reset() {
    let mut errors = Series::new(Metric::IbSymbolErrors, None);
    assert_eq!(errors.push(0, 5_000.0), [""; 0], "what was before is not known");
    assert_eq!(errors.push(1_800, 5_060.0), [""; 0]);
    assert_eq!(errors.push(3_600, 5_120.0), [""; 0], "exactly 120 an hour is allowed");
    let found = errors.push(3_700, 5_190.0);
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("+ ib/symbol-errors ib-symbol-errors 5190: rose by"), "{found:?}");
    let mut errors = Series::new(Metric::IbSymbolErrors, None);
    errors.push(0, 5_000.0);
    assert_eq!(errors.push(60, 3.0), [""; 0], "a reset counter begins anew");
    assert_eq!(errors.push(120, 100.0), [""; 0]);
    let mut discards = Series::new(Metric::IbTransmitDiscards, None);
    discards.push(0, 0.0);
    assert_eq!(discards.push(60, 6_000.0), [""; 0], "100 a second over a minute is allowed");
    assert_eq!(discards.push(120, 12_100.0).len(), 1);
}

#[test]
fn old_and_odd_samples_change_nothing() {
    let mut width = Series::new(Metric::GpuPcieWidth, Some(16.0));
    assert_eq!(width.push(100, 8.0), ["+ gpu/pcie-width gpu-pcie-width 8: below 16"]);
    assert_eq!(width.push(50, 16.0), [""; 0], "older than the last");
    assert_eq!(width.push(110, f64::NAN), [""; 0]);
    assert_eq!(width.push(120, 16.0).len(), 1);
    let mut unknown = Series::new(Metric::GpuPcieWidth, None);
    assert_eq!(unknown.push(0, 1.0), [""; 0], "nobody says what it should be");
    let mut power = Series::new(Metric::GpuPower, None);
    assert_eq!(power.push(0, 30.0), [""; 0]);
    assert_eq!(power.push(600, 30.0), [""; 0], "the range is GB200's, and this is an H100");
}

#[test]
fn what_is_remembered_is_bounded() {
    let metrics = Metrics::new(&CATALOGUE, None);
    let mut window = Window::default();
    for i in 0..6_000_u64 {
        let part = Part::new(PartKind::Nic, &format!("port {i}"));
        let sample =
            Sample { at: at(i), metric: Metric::IbLinkDowned, part, value: 1.0, expected: None };
        window = metrics.read(window, &sample).0;
    }
    assert_eq!(window.len(), 4_096);
}

#[test]
fn a_sensor_is_as_bad_as_the_worse_of_word_and_number() {
    let reading = Reading {
        at: at(0),
        metric: Metric::SensorThermal,
        name: "CPU1 Temp".to_owned(),
        health: Some(Health::Ok),
        value: Some(101.0),
        upper_caution: Some(85.0),
        upper_critical: Some(95.0),
    };
    assert_eq!(sensor(&reading).value, 2.0);
    assert_eq!(sensor(&Reading { value: Some(90.0), ..reading.clone() }).value, 1.0);
    assert_eq!(sensor(&Reading { value: None, ..reading.clone() }).value, 0.0);
    assert_eq!(
        sensor(&Reading { value: None, health: Some(Health::Critical), ..reading }).value,
        2.0
    );
}

#[test]
fn silence_and_drift_become_numbers() {
    let quiet = Silence { metric: Metric::HeartbeatAge, part: Part::node(), since: at(0) };
    assert_eq!(silence(&quiet, at(51)).value, 51.0);
    let later = Silence { since: at(60), ..quiet };
    assert_eq!(silence(&later, at(51)).value, 0.0, "a clock that ran backwards");
    let actual: BTreeMap<String, String> =
        [("bios", "1.2"), ("nic", "28.41")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let profile = [("bios", "1.3"), ("nic", "28.41"), ("bmc", "7")];
    assert_eq!(drift(at(0), Metric::DriftFirmware, profile, &actual).value, 2.0);
}

#[test]
fn one_slow_peer_is_found_and_noise_is_not() {
    let step = |times: &[f64]| {
        let values: Vec<(Part, f64)> =
            times.iter().enumerate().map(|(i, t)| (Part::gpu(&i.to_string()), *t)).collect();
        let found = peers(&CATALOGUE, Metric::StepTime, at(0), &values);
        found.into_iter().map(|(index, _)| index).collect::<Vec<_>>()
    };
    assert_eq!(step(&[1.0, 1.01, 0.99, 1.02, 1.0, 0.98, 1.01, 1.2]), [7]);
    assert_eq!(step(&[1.0, 1.3, 0.8, 1.2, 0.7, 1.1, 0.9, 1.25]), [0; 0], "all differ");
    assert_eq!(step(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 9.0]), [0; 0], "seven are too few");
    assert_eq!(step(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.09]), [0; 0], "less than 10 %");
    assert_eq!(step(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, f64::NAN, 1.5]), [9]);
    assert_eq!(step(&[]), [0; 0]);
}

#[test]
fn floors_are_the_published_ones_and_a_site_may_change_them() {
    let floors =
        Floors::load(&[("site.yaml", "h100: {test-nccl: 470}\nmi300: {test-gemm: 900}")]).unwrap();
    assert_eq!(floors.expected("h100", Metric::TestNccl), Some(470.0));
    assert_eq!(floors.expected("h100", Metric::TestHostToDevice), Some(52.0));
    assert_eq!(floors.expected("h200", Metric::TestGdr), Some(400.0));
    assert_eq!(floors.expected("mi300", Metric::TestGemm), Some(900.0));
    assert_eq!(floors.expected("mi300", Metric::TestNccl), None);
    let errors = Floors::load(&[("site.yaml", "h100: {test-ncl: 470, test-gdr: -1}")]).unwrap_err();
    let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        text,
        [
            "site.yaml: row h100: field test-gdr: must be a number above 0",
            "site.yaml: row h100: field test-ncl: \"test-ncl\" is not known; the nearest valid value is \"test-nccl\"",
        ]
    );
}
