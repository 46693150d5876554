//! The part of a node that a fault is on.

use std::fmt;

use crate::words::words;

/// Names come from logs and sensors, so their length is bounded.
const MAX_NAME: usize = 64;

words! {
    /// What kind of part.
    pub enum PartKind {
        /// The node as a whole.
        Node = "node",
        /// A GPU, named by PCI address, or by UUID or index where no address is known.
        Gpu = "gpu",
        /// An NVSwitch of the node, named by PCI address.
        Nvswitch = "nvswitch",
        /// A network adapter or one of its ports.
        Nic = "nic",
        /// A disk or file system.
        Disk = "disk",
        /// A PCIe device of another kind.
        Device = "device",
        /// A processor or memory module.
        Host = "host",
        /// A fan, power supply, leak detector or other sensor of the BMC.
        Sensor = "sensor",
    }
}

/// A part of a node: a GPU, a port, a disk, a sensor, or the node itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    kind: PartKind,
    name: Box<str>,
    unit: Option<Box<str>>,
}

impl Part {
    /// The node as a whole.
    #[must_use]
    pub fn node() -> Self {
        Self { kind: PartKind::Node, name: Box::default(), unit: None }
    }

    /// A part by its kind and name. Control characters go and what is over 64 bytes is cut off.
    #[must_use]
    pub fn new(kind: PartKind, name: &str) -> Self {
        Self { kind, name: bounded(name), unit: None }
    }

    /// A GPU by its PCI address.
    #[must_use]
    pub fn gpu(address: &str) -> Self {
        Self::new(PartKind::Gpu, address)
    }

    /// The same part with the unit within it, such as `link 7` or `GPC 1 TPC 3`.
    #[must_use]
    pub fn unit(self, unit: &str) -> Self {
        Self { unit: Some(bounded(unit)), ..self }
    }

    /// What kind of part it is.
    #[must_use]
    pub const fn kind(&self) -> PartKind {
        self.kind
    }

    /// Its name; empty for a whole node.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The unit within it, where the evidence names one.
    #[must_use]
    pub fn unit_name(&self) -> Option<&str> {
        self.unit.as_deref()
    }

    /// Is it the same part, whatever the unit?
    #[must_use]
    pub fn same_part(&self, other: &Self) -> bool {
        self.kind == other.kind && self.name == other.name
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if !self.name.is_empty() {
            write!(f, " {}", self.name)?;
        }
        self.unit.as_ref().map_or(Ok(()), |unit| write!(f, " {unit}"))
    }
}

fn bounded(name: &str) -> Box<str> {
    let mut kept = String::with_capacity(name.len().min(MAX_NAME));
    for c in name.chars().filter(|c| !c.is_control()) {
        if kept.len() + c.len_utf8() > MAX_NAME {
            break;
        }
        kept.push(c);
    }
    kept.into()
}
