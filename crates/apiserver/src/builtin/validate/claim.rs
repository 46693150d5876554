//! Volumes and claims on them.

use serde_json::{Value, json};

use super::amount;
use super::form;
use super::place::{At, Errors, push};
use super::pod::{Pod, node_selector};
use super::rule::Rule::{Is, OneOfIfSet, Own, Required, RequiredTo, Sub};
use super::rule::{self, Context, Rules};
use crate::schema::field::FieldError;
use crate::schema::names;

const MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];

/// The sources that a persistent volume may have, besides those of its own rules.
static VOLUME_SOURCES: &[(&str, Rules)] = &[
    ("hostPath", &[Required("path"), rule::Rule::Must("path", form::no_backsteps)]),
    ("gcePersistentDisk", &[Required("pdName")]),
    ("awsElasticBlockStore", &[Required("volumeID")]),
    ("glusterfs", &[Required("endpoints"), Required("path")]),
    ("flocker", &[]),
    ("nfs", &[Required("server"), Required("path"), rule::Rule::On("path", absolute)]),
    ("rbd", &[Required("monitors"), Required("image")]),
    ("quobyte", &[Required("registry"), Required("volume")]),
    ("cephfs", &[Required("monitors")]),
    ("iscsi", &[Required("targetPortal"), Required("iqn")]),
    ("cinder", &[Required("volumeID")]),
    ("fc", &[]),
    ("flexVolume", &[Required("driver")]),
    ("azureFile", &[Required("secretName"), Required("shareName")]),
    ("vsphereVolume", &[Required("volumePath")]),
    ("photonPersistentDisk", &[Required("pdID")]),
    ("portworxVolume", &[Required("volumeID")]),
    ("azureDisk", &[Required("diskName"), Required("diskURI")]),
    ("scaleIO", &[Required("gateway"), Required("system"), Required("volumeName")]),
    ("local", &[Required("path"), rule::Rule::Must("path", form::no_backsteps)]),
    ("storageos", &[]),
    (
        "csi",
        &[Own(|at, _, errors| driver_name(&at.field("driver"), errors)), Required("volumeHandle")],
    ),
];

static CLAIM: Rules = &[
    RequiredTo("accessModes", "at least 1 access mode is required"),
    Own(|at, _, errors| form::selector(&at.field("selector"), errors)),
    Own(access_modes),
    Own(storage_request),
    Is("storageClassName", names::subdomain),
    OneOfIfSet("volumeMode", VOLUME_MODES),
    Sub("dataSource", &[Own(data_source)]),
    Sub("dataSourceRef", &[Own(data_source), Is("namespace", names::label)]),
    Own(same_source),
    Is("volumeAttributesClassName", names::subdomain),
];

static VOLUME: Rules = &[
    Required("accessModes"),
    Own(access_modes),
    Own(capacity),
    rule::Rule::OneOf("persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"]),
    Sub(
        "nodeAffinity",
        &[
            RequiredTo("required", "must specify required node constraints"),
            Sub("required", &[Own(node_selector)]),
        ],
    ),
    Own(volume_source),
    Is("storageClassName", names::subdomain),
    OneOfIfSet("volumeMode", VOLUME_MODES),
];

fn absolute(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    if !at.as_text().starts_with('/') {
        at.invalid_value(errors, at.as_text(), "must be an absolute path");
    }
}

/// The name of a storage driver.
pub(super) fn driver_name(at: &At<'_>, errors: &mut Errors) {
    let name = at.as_text();
    if name.is_empty() {
        at.required(errors, "");
    }
    if name.len() > 63 {
        at.too_long(errors, 63);
    }
    for why in names::subdomain(&name.to_lowercase()) {
        at.invalid_value(errors, name, why);
    }
}

fn access_modes(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    let here = at.field("accessModes");
    let modes: Vec<&str> = at.list("accessModes").iter().filter_map(Value::as_str).collect();
    for mode in modes.iter().filter(|mode| !MODES.contains(mode)) {
        push(errors, FieldError::not_supported(here.path(), *mode, MODES));
    }
    let alone = modes.contains(&"ReadWriteOncePod");
    if alone && modes.iter().any(|m| MODES.contains(m) && *m != "ReadWriteOncePod") {
        here.forbidden(errors, "may not use ReadWriteOncePod with other access modes");
    }
}

fn storage_request(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    let resources = at.field("resources");
    let wanted = resources.get("requests")["storage"].as_str();
    let value = json!({"storage": wanted});
    let here = resources.instead(&value);
    let here = here.key("storage");
    match wanted {
        None => here.required(errors, ""),
        Some(text) if amount::nanos(text) <= 0 => here.invalid(errors, "must be greater than zero"),
        Some(_) => {}
    }
}

fn data_source(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    for field in ["name", "kind"] {
        if at.text(field).is_empty() {
            at.field(field).required(errors, "");
        }
    }
    let (group, kind) = (at.text("apiGroup"), at.text("kind"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        at.invalid_value(errors, kind, why);
    } else if !group.is_empty() {
        at.field("apiGroup").must_be(errors, names::subdomain);
    }
}

fn same_source(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    let (source, reference) = (at.get("dataSource"), at.get("dataSourceRef"));
    if source.is_null() || reference.is_null() {
        return;
    }
    let same = ["apiGroup", "kind", "name"].iter().all(|f| source[*f] == reference[*f]);
    if reference["namespace"].as_str().is_some_and(|namespace| !namespace.is_empty()) {
        let why = "may not be specified when dataSourceRef.namespace is specified";
        at.invalid_as(errors, "{}", why);
    } else if !same {
        at.invalid_as(errors, "{}", "must match dataSourceRef");
    }
}

fn capacity(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    let here = at.field("capacity");
    let map = here.value.as_object();
    if map.is_none_or(serde_json::Map::is_empty) {
        here.required(errors, "");
    }
    if map.is_none_or(|map| map.len() > 1 || !map.contains_key("storage")) {
        push(errors, FieldError::not_supported(here.path(), here.value.clone(), &["storage"]));
    }
    for (name, quantity) in map.into_iter().flatten() {
        let amount = amount::nanos(quantity.as_str().unwrap_or_default());
        if amount < 0 {
            let shown = i64::try_from(amount / 1_000_000_000).unwrap_or(i64::MIN);
            here.key(name).invalid_value(errors, shown, "must be a valid resource quantity");
        } else if amount == 0 {
            here.key(name).invalid(errors, "must be greater than zero");
        }
    }
}

fn volume_source(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    let mut found = false;
    for (name, rules) in VOLUME_SOURCES.iter().filter(|(name, _)| at.has(name)) {
        let here = at.field(name);
        if found {
            here.forbidden(errors, "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        rule::check(rules, &here, context, errors);
        if *name == "local" && !at.has("nodeAffinity") {
            at.field("nodeAffinity").required(errors, "Local volume requires node affinity");
        }
    }
    if !found {
        at.required(errors, "must specify a volume type");
    }
}

/// What a claim asks for; also in templates of claims.
pub(super) fn spec(at: &At<'_>, errors: &mut Errors) {
    rule::check(CLAIM, at, &Context { pod: &Pod::default() }, errors);
}

/// A claim.
pub(super) fn claim(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let here = at.field("spec");
    spec(&here, errors);
    let Some(old) = old else { return };
    spec(&here, errors);
    let before = &old["spec"];
    let mut munged = here.value.clone();
    let mut keep = |field: &str| match before.get(field) {
        Some(value) => munged[field] = value.clone(),
        None => {
            if let Some(map) = munged.as_object_mut() {
                map.remove(field);
            }
        }
    };
    if before["volumeName"].as_str().unwrap_or_default().is_empty() {
        keep("volumeName");
    }
    if before["storageClassName"].is_null() {
        keep("storageClassName");
    }
    let size = |spec: &Value| {
        amount::nanos(spec["resources"]["requests"]["storage"].as_str().unwrap_or_default())
    };
    if at.get("status")["phase"] == "Bound" {
        keep("volumeAttributesClassName");
        if let Some(old) = before["resources"]["requests"].get("storage") {
            munged["resources"]["requests"]["storage"] = old.clone();
        }
    }
    if &munged != before {
        let why = "spec is immutable after creation except resources.requests and \
                   volumeAttributesClassName for bound claims\n";
        here.forbidden(errors, why);
    }
    let have = old["status"]["capacity"]["storage"].as_str().map_or(0, amount::nanos);
    if size(here.value) < size(before) && size(here.value) <= have {
        let resources = here.field("resources");
        let requests = resources.field("requests");
        let why = "field can not be less than status.capacity";
        requests.field("storage").forbidden(errors, why);
    }
    if before["volumeMode"] != here.value["volumeMode"] {
        let shown = here.get("volumeMode");
        at.with("volumeMode", shown).invalid(errors, "field is immutable");
    }
}

/// A persistent volume.
pub(super) fn volume(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let here = at.field("spec");
    rule::check(VOLUME, &here, &Context { pod: &Pod::default() }, errors);
    let Some(old) = old else { return };
    rule::check(VOLUME, &here, &Context { pod: &Pod::default() }, errors);
    let before = &old["spec"];
    if VOLUME_SOURCES.iter().any(|(name, _)| &before[*name] != here.get(name)) {
        let why = "spec.persistentvolumesource is immutable after creation\n";
        here.with("persistentvolumesource", &Value::Null).forbidden(errors, why);
    }
    if before["volumeMode"] != here.value["volumeMode"] {
        at.with("volumeMode", here.get("volumeMode")).invalid(errors, "field is immutable");
    }
}
