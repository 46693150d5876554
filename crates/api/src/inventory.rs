//! What a machine is made of: what is expected of its type, and what its agent found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The parts of a machine that matter to its owner, expected or found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Inventory {
    /// The GPU's model, as `H100-SXM5-80GB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub gpu_model: Option<String>,
    /// How many GPUs.
    #[serde(default)]
    #[schemars(range(max = 64))]
    pub gpus: u32,
    /// Active NVLink links of each GPU.
    #[serde(default)]
    #[schemars(range(max = 64))]
    pub nvlinks: u32,
    /// Ports of the backend network that are up.
    #[serde(default)]
    #[schemars(range(max = 64))]
    pub fabric_ports: u32,
    /// CPU cores.
    #[serde(default)]
    #[schemars(range(max = 4096))]
    pub cores: u32,
    /// Memory in GiB.
    #[serde(default)]
    #[schemars(range(max = 65536))]
    pub memory_gib: u32,
    /// Local disks.
    #[serde(default)]
    #[schemars(range(max = 64))]
    pub disks: u32,
    /// Power supplies with input.
    #[serde(default)]
    #[schemars(range(max = 16))]
    pub power_supplies: u32,
    /// The neighbour on the other end of each cable, by port.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub neighbours: BTreeMap<String, String>,
}

impl Inventory {
    /// Every difference to what is `expected`, as sentences; none if `self` is as expected. More
    /// parts than expected are a difference too: then the machine is not what its object says.
    pub fn differences(&self, expected: &Self) -> Vec<String> {
        let mut found = Vec::new();
        if expected.gpu_model.is_some() && self.gpu_model != expected.gpu_model {
            let name = |model: &Option<String>| model.clone().unwrap_or_else(|| "none".to_owned());
            found.push(format!(
                "GPU model is {}, expected {}",
                name(&self.gpu_model),
                name(&expected.gpu_model)
            ));
        }
        for (what, is, should) in [
            ("GPUs", self.gpus, expected.gpus),
            ("NVLink links per GPU", self.nvlinks, expected.nvlinks),
            ("fabric ports up", self.fabric_ports, expected.fabric_ports),
            ("CPU cores", self.cores, expected.cores),
            ("GiB of memory", self.memory_gib, expected.memory_gib),
            ("disks", self.disks, expected.disks),
            ("power supplies", self.power_supplies, expected.power_supplies),
        ] {
            if is != should {
                found.push(format!("{is} {what}, expected {should}"));
            }
        }
        for (port, neighbour) in &expected.neighbours {
            match self.neighbours.get(port) {
                Some(there) if there == neighbour => {}
                Some(there) => {
                    found.push(format!("port {port} is cabled to {there}, expected {neighbour}"));
                }
                None => found.push(format!("port {port} has no neighbour, expected {neighbour}")),
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_is_one_sentence() {
        let neighbours = |to: &str| [("mlx5_0".to_owned(), to.to_owned())].into();
        let expected = Inventory {
            gpu_model: Some("H100".to_owned()),
            gpus: 8,
            neighbours: neighbours("leaf-1/3"),
            ..Inventory::default()
        };
        assert!(expected.differences(&expected).is_empty());
        let found = Inventory { gpus: 7, neighbours: neighbours("leaf-1/4"), ..expected.clone() };
        assert_eq!(
            found.differences(&expected),
            ["7 GPUs, expected 8", "port mlx5_0 is cabled to leaf-1/4, expected leaf-1/3"]
        );
        let bare = Inventory::default().differences(&expected);
        assert_eq!(bare[0], "GPU model is none, expected H100");
        assert_eq!(bare[2], "port mlx5_0 has no neighbour, expected leaf-1/3");
    }
}
