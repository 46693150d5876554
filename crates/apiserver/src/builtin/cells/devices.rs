//! Claims of devices, and the devices there are.

use serde_json::Value;

use super::Kind;
use super::recipe::{Recipe, has, list};

use Recipe::{Code, Text};

pub(super) const KINDS: &[Kind] = &[
    (
        "resource.k8s.io/v1 ResourceClaim",
        &[(
            "State",
            Code(
                state,
                &["metadata.deletionTimestamp", "status.allocation", "status.reservedFor.name"],
            ),
            "Whether it has devices, and whether pods use them.",
        )],
    ),
    (
        "resource.k8s.io/v1 ResourceSlice",
        &[
            ("Node", Text("spec.nodeName"), "The node that has the devices."),
            ("Driver", Text("spec.driver"), "The driver that offers them."),
            ("Pool", Text("spec.pool.name"), "The pool that they belong to."),
        ],
    ),
];

fn state(claim: &Value) -> Value {
    let deleted = has(claim, "metadata.deletionTimestamp");
    let allocated = has(claim, "status.allocation");
    let states = [
        (deleted, "deleted"),
        (!allocated && !deleted, "pending"),
        (allocated, "allocated"),
        (allocated && !list(claim, "status.reservedFor").is_empty(), "reserved"),
    ];
    let held = states.iter().filter(|(holds, _)| *holds).map(|(_, name)| *name);
    held.collect::<Vec<_>>().join(",").into()
}
