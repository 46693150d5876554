//! What peers have published about the same, each with its source.

/// NVIDIA Infra Controller: its own scale test in a simulator. Its hosts have two DPUs each, so three
/// BMCs; ours have one.
pub(super) const BRING_UP: &str =
    "NICo 3.46-3.60 h for 4,500 hosts with 2 DPUs each (infra-controller PR #4988)";
pub(super) const SUPERLINEAR: &str =
    "NICo: 1,000 hosts 25 min, so 8.5 times the time for 4.5 times the hosts (#3721)";
pub(super) const TEN_THOUSAND: &str = "NICo: a target, not yet shown (#2939)";
/// NVSentinel with MongoDB, own processes 51 to 65 GB.
pub(super) const MEMORY: &str = "NVSentinel 221-235 GB at 100,000 nodes (#1705, PR #1789)";
pub(super) const BLAST: &str = "NVSentinel v0.4: 304 s for 750 of 1,503 nodes";
pub(super) const CORDON: &str =
    "NVSentinel P50 26 ms, P99 165 ms at 50,000 KWOK nodes, 0.47 faults/s (#1705, PR #1789)";
