//! Volumes, claims, classes, and the drivers behind them.

use serde_json::Value;

use super::recipe::{Recipe, at, given, has, list, text};
use super::{Kind, NONE, UNSET};

use Recipe::{Code, Count, Flag, Given, Join, Text, TextOr};

const ATTRIBUTES: &str = "The class that says how fast it is.";
const CLASS: &str = "The class that it comes from.";
const MODES: &str = "Who may mount it at the same time, and how.";
const VOLUME_MODE: &str = "Whether it is a file system or a bare device.";
const CLASS_OF: &[&str] = &["metadata.annotations", "spec.storageClassName"];

pub(super) const KINDS: &[Kind] = &[
    (
        "v1 PersistentVolume",
        &[
            ("Capacity", Code(capacity, &["spec.capacity.storage"]), "Its size."),
            ("Access Modes", Code(volume_modes, &["spec.accessModes"]), MODES),
            (
                "Reclaim Policy",
                Text("spec.persistentVolumeReclaimPolicy"),
                "What becomes of it once its claim is gone.",
            ),
            ("Status", Code(phase, &["metadata.deletionTimestamp", "status.phase"]), "Its phase."),
            ("Claim", Code(claim, &["spec.claimRef"]), "The claim that holds it."),
            ("StorageClass", Code(class, CLASS_OF), CLASS),
            ("VolumeAttributesClass", Given("spec.volumeAttributesClassName", UNSET), ATTRIBUTES),
            ("Reason", Text("status.reason"), "Why it is in this phase."),
            ("VolumeMode", Given("spec.volumeMode", UNSET), VOLUME_MODE),
        ],
    ),
    (
        "v1 PersistentVolumeClaim",
        &[
            ("Status", Code(phase, &["metadata.deletionTimestamp", "status.phase"]), "Its phase."),
            ("Volume", Text("spec.volumeName"), "The volume that it holds."),
            (
                "Capacity",
                Code(bound_capacity, &["spec.volumeName", "status.capacity.storage"]),
                "The size of its volume.",
            ),
            ("Access Modes", Code(bound_modes, &["spec.volumeName", "status.accessModes"]), MODES),
            ("StorageClass", Code(class, CLASS_OF), CLASS),
            ("VolumeAttributesClass", Given("spec.volumeAttributesClassName", UNSET), ATTRIBUTES),
            ("VolumeMode", Given("spec.volumeMode", UNSET), VOLUME_MODE),
        ],
    ),
    (
        "storage.k8s.io/v1 StorageClass",
        &[
            (
                "Name",
                Code(class_name, &["metadata.name", "metadata.annotations"]),
                "The class's name, and whether claims that name none get it.",
            ),
            ("Provisioner", Text("provisioner"), "Who makes its volumes."),
            (
                "ReclaimPolicy",
                TextOr("reclaimPolicy", "Delete"),
                "What becomes of a volume once its claim is gone.",
            ),
            (
                "VolumeBindingMode",
                TextOr("volumeBindingMode", "Immediate"),
                "When volumes are made.",
            ),
            (
                "AllowVolumeExpansion",
                Flag("allowVolumeExpansion", false),
                "Whether its volumes can grow.",
            ),
        ],
    ),
    (
        "storage.k8s.io/v1 VolumeAttributesClass",
        &[("DriverName", Text("driverName"), "The driver that understands it.")],
    ),
    (
        "storage.k8s.io/v1 VolumeAttachment",
        &[
            ("Attacher", Text("spec.attacher"), "The driver that attaches it."),
            ("PV", Text("spec.source.persistentVolumeName"), "The volume."),
            ("Node", Text("spec.nodeName"), "The node that it is attached to."),
            ("Attached", Flag("status.attached", false), "Whether it is attached."),
        ],
    ),
    (
        "storage.k8s.io/v1 CSINode",
        &[("Drivers", Count(&["spec.drivers"]), "How many drivers run on the node.")],
    ),
    (
        "storage.k8s.io/v1 CSIDriver",
        &[
            (
                "AttachRequired",
                Flag("spec.attachRequired", true),
                "Whether volumes are attached first.",
            ),
            ("PodInfoOnMount", Flag("spec.podInfoOnMount", false), "Whether it is told the pod."),
            (
                "StorageCapacity",
                Flag("spec.storageCapacity", false),
                "Whether it says what is free.",
            ),
            (
                "TokenRequests",
                Code(audiences, &["spec.tokenRequests"]),
                "Audiences of the tokens that it gets.",
            ),
            (
                "RequiresRepublish",
                Flag("spec.requiresRepublish", false),
                "Whether it is called again and again.",
            ),
            ("Modes", Join("spec.volumeLifecycleModes", NONE), "Kinds of volumes that it knows."),
        ],
    ),
];

fn phase(object: &Value) -> Value {
    if has(object, "metadata.deletionTimestamp") {
        return "Terminating".into();
    }
    text(object, "status.phase").into()
}

fn capacity(volume: &Value) -> Value {
    given(volume, "spec.capacity.storage", "0").into()
}

fn volume_modes(volume: &Value) -> Value {
    modes(list(volume, "spec.accessModes"))
}

fn bound_capacity(claim: &Value) -> Value {
    if text(claim, "spec.volumeName").is_empty() {
        return "".into();
    }
    given(claim, "status.capacity.storage", "0").into()
}

fn bound_modes(claim: &Value) -> Value {
    if text(claim, "spec.volumeName").is_empty() {
        return "".into();
    }
    modes(list(claim, "status.accessModes"))
}

/// Access modes by their short names, each once, in a fixed order.
fn modes(given: &[Value]) -> Value {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let found = SHORT.iter().filter(|(long, _)| given.iter().any(|mode| mode == long));
    found.map(|(_, short)| *short).collect::<Vec<_>>().join(",").into()
}

fn claim(volume: &Value) -> Value {
    let Some(claim) = at(volume, "spec.claimRef").filter(|claim| !claim.is_null()) else {
        return "".into();
    };
    format!("{}/{}", text(claim, "namespace"), text(claim, "name")).into()
}

/// An annotation, whose name holds dots.
fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    at(object, "metadata.annotations")?.get(name)?.as_str()
}

/// The storage class, which an annotation of old names before the field.
fn class(object: &Value) -> Value {
    let old = annotation(object, "volume.beta.kubernetes.io/storage-class");
    old.unwrap_or_else(|| text(object, "spec.storageClassName")).into()
}

fn class_name(class: &Value) -> Value {
    const DEFAULT: [&str; 2] = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    let name = text(class, "metadata.name");
    if DEFAULT.iter().any(|mark| annotation(class, mark) == Some("true")) {
        return format!("{name} (default)").into();
    }
    name.into()
}

fn audiences(driver: &Value) -> Value {
    if !has(driver, "spec.tokenRequests") {
        return UNSET.into();
    }
    let requests = list(driver, "spec.tokenRequests").iter();
    requests.map(|request| text(request, "audience")).collect::<Vec<_>>().join(",").into()
}
