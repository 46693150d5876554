//! Whether a pool's description can be followed; asked at the door, and again at each look.

use crate::words;
use api::condition::Valid;
use api::instance_type::Unit;
use api::{InstanceType, NodePool};
use std::fmt;

/// Why a description cannot be followed: the field, what is wrong, and the nearest that is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason of the condition Valid.
    pub reason: Valid,
    /// The field, as `spec.instanceType`.
    pub field: &'static str,
    /// What is wrong and what would be right.
    pub detail: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.field, self.detail)
    }
}

/// Judges a pool's description against the types that there are.
///
/// # Errors
/// The first thing that is wrong.
pub fn admit(pool: &NodePool, kinds: &[InstanceType]) -> Result<(), Refusal> {
    let spec = &pool.spec;
    let name = |kind: &InstanceType| kind.metadata.name.clone().unwrap_or_default();
    let Some(kind) = kinds.iter().find(|kind| name(kind) == spec.instance_type) else {
        let names: Vec<String> = kinds.iter().map(name).collect();
        let near = words::nearest(&spec.instance_type, names.iter().map(String::as_str));
        let advice = match near {
            Some(near) => format!("did you mean {near:?}? "),
            None => String::new(),
        };
        let detail = format!(
            "Unsupported value {:?}: {advice}({} types: kubectl get instancetypes)",
            spec.instance_type,
            kinds.len()
        );
        return Err(Refusal {
            reason: Valid::UnknownInstanceType,
            field: "spec.instanceType",
            detail,
        });
    };
    if spec.target_racks.is_some() {
        let detail = match kind.spec.unit {
            Unit::Node => {
                format!("{} is handed out by the node: use targetNodes", spec.instance_type)
            }
            Unit::Rack => format!(
                "pools of whole racks are not served yet: use a pool of another type than {}",
                spec.instance_type
            ),
        };
        return Err(Refusal { reason: Valid::WrongUnit, field: "spec.targetRacks", detail });
    }
    let (least, most) = (spec.min_nodes.unwrap_or(0), spec.max_nodes.unwrap_or(u32::MAX));
    if least > most {
        let detail = format!("minNodes {least} is more than maxNodes {most}");
        return Err(Refusal {
            reason: Valid::ContradictingNumbers,
            field: "spec.minNodes",
            detail,
        });
    }
    Ok(())
}
