//! The evidence by which a fault is recognised, as data.

use std::time::Duration;

use super::metric::Metric;
use super::part::PartKind;

/// One way in which a fault shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Signal {
    /// The GPU driver's `NVRM: Xid` line with this code.
    Xid {
        /// 1 to 172 today.
        code: u16,
    },
    /// XID 74 with any of these bits set in one of its seven registers.
    XidRegister {
        /// 0 to 6, in the order of the line.
        register: u8,
        /// Any of these bits is enough.
        mask: u32,
    },
    /// XID 154 that names this recovery action.
    Recovery {
        /// The number after `to`: 0 none, 1 GPU reset, 2 node reboot, 3 drain P2P, 4 drain and reset.
        action: u8,
    },
    /// XID 144 to 150: what the unit, the information word and the status word say.
    Nvlink5(Nvlink5),
    /// The NVSwitch driver's `SXid` line with this code.
    Sxid {
        /// Such as 12028.
        code: u32,
    },
    /// A line of the kernel's log that holds all these pieces in this order.
    Log {
        /// The pieces; the first is the rarest.
        pieces: Vec<String>,
        /// Pieces that it must not hold.
        without: Vec<String>,
        /// Which part it is about.
        part: PartRule,
    },
    /// A number that a sample carries.
    Metric {
        /// Which number.
        metric: Metric,
        /// When it is a fault.
        rule: Rule,
    },
}

/// How one row of NVIDIA's decode sheet for XID 144 to 150 is recognised. Bits of the information
/// word moved with driver branch 575: there the subcode is in bits 0-6, before in bits 5-9.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nvlink5 {
    /// 144 to 150.
    pub code: u16,
    /// The names that the line may give the unit.
    pub units: Vec<String>,
    /// The low ten bits of the information word before driver branch 575.
    pub v1: u32,
    /// The low seven bits of the information word from driver branch 575 on.
    pub v2: u32,
    /// The status word; none is any.
    pub status: Option<u32>,
    /// Bits 20-25 of the information word, why a link went down; none is any.
    pub reason: Option<u32>,
    /// The bit above the subcode (bit 10, from branch 575 on bit 7); none is any.
    pub escalated: Option<bool>,
}

/// Where a log line names the part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartRule {
    /// What kind of part.
    pub kind: PartKind,
    /// The name is the word after this text; none is the node as a whole.
    pub after: Option<String>,
}

/// A bound: a fixed number, or a share of what the sample says is expected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// This number, in the metric's unit.
    Fixed(f64),
    /// The expected value times this; a sample without an expectation never passes the bound.
    Expected(f64),
}

/// When a metric is a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// It stays strictly above the limit for this long; zero is at once.
    Above {
        /// The bound.
        limit: Limit,
        /// For how long.
        hold: Duration,
    },
    /// It stays strictly below the limit for this long; zero is at once.
    Below {
        /// The bound.
        limit: Limit,
        /// For how long.
        hold: Duration,
    },
    /// A counter rises by more than this within a time.
    Rise {
        /// By how much more is too much.
        by: f64,
        /// Within how long.
        per: Duration,
    },
    /// A link (1 is up, 0 is down) was down for a while and came back, this often within a time.
    Flap {
        /// How often; at least 1.
        times: u32,
        /// How long a break must be to count.
        down: Duration,
        /// Within how long.
        per: Duration,
    },
    /// It is worse than the median of its peers by this factor, and far outside their spread.
    Peers {
        /// Above 1: slower is a larger number. Below 1: slower is a smaller number.
        factor: f64,
        /// How many peers there must be for a verdict.
        peers: u32,
    },
}
