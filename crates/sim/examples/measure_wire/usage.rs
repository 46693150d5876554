//! What processes take of the machine, as Linux has it.

/// CPU time in seconds of these processes together.
pub(crate) fn cpu(pids: &[u32]) -> f64 {
    let of = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name before the bracket may hold anything.
        let times = stat.rsplit(')').next().unwrap_or_default().split(' ');
        times.skip(12).take(2).filter_map(|n| n.parse::<f64>().ok()).sum::<f64>() / 100.0
    };
    pids.iter().map(of).sum()
}

/// The most memory in MiB that each of these processes ever had resident.
pub(crate) fn peaks(pids: &[u32]) -> Vec<u64> {
    let of = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or_default() / 1024
    };
    pids.iter().map(of).collect()
}

/// Of sorted figures the one that so many of a hundred do not exceed.
pub(crate) fn percentile(sorted: &[f64], part: usize) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get(last * part / 100).copied().unwrap_or_default()
}
