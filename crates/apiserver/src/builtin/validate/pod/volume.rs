//! Volumes: the kinds of sources there are, and how containers mount them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::amount;
use super::super::claim;
use super::super::form;
use super::super::place::{At, Errors, push};
use super::super::rule::Rule::{Between, Each, Must, Named, On, OneOfIfSet, Own, Required};
use super::super::rule::{self, Context, Rules};
use super::{Pod, each_container};
use crate::schema::field::FieldError;
use crate::schema::names;

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

const MAX_MODE: i64 = 0o777;

/// A source of volumes: its field, where more than one is told, where its own errors are told, and
/// what it must hold. The places differ where upstream misspells one.
struct Source {
    field: &'static str,
    second: &'static str,
    at: &'static str,
    rules: Rules,
}

const fn source(field: &'static str, rules: Rules) -> Source {
    Source { field, second: field, at: field, rules }
}

static PATH: Rules = &[
    Required("key"),
    Required("path"),
    Must("path", form::local_path),
    Between("mode", 0, MAX_MODE, MODE),
];

static HOST_PATH_TYPES: &[&str] = &[
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// The sources, in the order in which upstream looks for them.
static SOURCES: &[Source] = &[
    source("emptyDir", &[Own(size_limit)]),
    source(
        "hostPath",
        &[Required("path"), Must("path", form::no_backsteps), OneOfIfSet("type", HOST_PATH_TYPES)],
    ),
    source("gitRepo", &[Required("repository"), Must("directory", form::descending)]),
    Source {
        at: "persistentDisk",
        ..source(
            "gcePersistentDisk",
            &[
                Required("pdName"),
                Between("partition", 0, 255, "must be between 1 and 255, inclusive"),
            ],
        )
    },
    source(
        "awsElasticBlockStore",
        &[
            Required("volumeID"),
            Between("partition", 0, 255, "must be between 1 and 255, inclusive"),
        ],
    ),
    source(
        "secret",
        &[Required("secretName"), Between("defaultMode", 0, MAX_MODE, MODE), Each("items", PATH)],
    ),
    source("nfs", NFS),
    source("iscsi", &[Required("targetPortal"), Required("iqn")]),
    source("glusterfs", &[Required("endpoints"), Required("path")]),
    source("flocker", &[]),
    source("persistentVolumeClaim", &[Required("claimName")]),
    source("rbd", &[Required("monitors"), Required("image")]),
    source("cinder", &[Required("volumeID")]),
    Source { second: "cephFS", ..source("cephfs", &[Required("monitors")]) },
    source("quobyte", &[Required("registry"), Required("volume")]),
    Source {
        second: "downwarAPI",
        ..source(
            "downwardAPI",
            &[Between("defaultMode", 0, MAX_MODE, MODE), On("items", downward_files)],
        )
    },
    source("fc", &[]),
    source("flexVolume", &[Required("driver")]),
    source(
        "configMap",
        &[Required("name"), Between("defaultMode", 0, MAX_MODE, MODE), Each("items", PATH)],
    ),
    source("azureFile", &[Required("secretName"), Required("shareName")]),
    source("vsphereVolume", &[Required("volumePath")]),
    source("photonPersistentDisk", &[Required("pdID")]),
    source("portworxVolume", &[Required("volumeID")]),
    source("azureDisk", &[Required("diskName"), Required("diskURI")]),
    source("storageos", &[]),
    source("projected", &[Between("defaultMode", 0, MAX_MODE, MODE), Own(projected)]),
    source("scaleIO", &[Required("gateway"), Required("system"), Required("volumeName")]),
    source("csi", &[Own(csi)]),
    source("ephemeral", &[On("volumeClaimTemplate", claim_template)]),
    source("image", &[OneOfIfSet("pullPolicy", &["Always", "IfNotPresent", "Never"])]),
];

/// A share of a file server.
static NFS: Rules = &[Required("server"), Required("path"), On("path", absolute)];

fn absolute(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    if !at.as_text().starts_with('/') {
        at.invalid_value(errors, at.as_text(), "must be an absolute path");
    }
}

fn size_limit(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    if amount::nanos(at.text("sizeLimit")) < 0 {
        let why = "SizeLimit field must be a valid resource quantity";
        at.field("sizeLimit").forbidden(errors, why);
    }
}

fn csi(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    claim::driver_name(&at.field("driver"), errors);
    let secret = at.field("nodePublishSecretRef");
    match secret.text("name") {
        _ if secret.value.is_null() => {}
        "" => secret.field("name").required(errors, ""),
        name => {
            for why in names::subdomain(name) {
                at.with("name", &Value::Null).invalid_value(errors, name, why);
            }
        }
    }
}

fn claim_template(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    if at.value.is_null() {
        return at.required(errors, "");
    }
    claim::spec(&at.field("spec"), errors);
}

/// The volumes of a pod; returns those that are right, by name.
pub(super) fn volumes<'a>(
    at: &At<'a>,
    pod: &Pod<'_>,
    errors: &mut Errors,
) -> BTreeMap<&'a str, &'a Value> {
    let all = at.value.as_array().map_or(&[][..], Vec::as_slice);
    let made: BTreeSet<String> = all
        .iter()
        .filter(|volume| !pod.name.is_empty() && !volume["ephemeral"].is_null())
        .map(|volume| format!("{}-{}", pod.name, volume["name"].as_str().unwrap_or_default()))
        .collect();
    let mut right = BTreeMap::new();
    for (volume, value) in at.items().zip(all) {
        let before = errors.len();
        sources(&volume, pod, errors);
        let name = value["name"].as_str().unwrap_or_default();
        rule::check(&[Named("name", names::label)], &volume, &Context { pod }, errors);
        if right.contains_key(name) {
            volume.field("name").duplicate(errors, name);
        }
        if errors.len() == before {
            right.insert(name, value);
        }
        let claim = value["persistentVolumeClaim"]["claimName"].as_str();
        if let Some(claim) = claim.filter(|claim| made.contains(*claim)) {
            let source = volume.field("persistentVolumeClaim");
            let why = "must not reference a PVC that gets created for an ephemeral volume";
            source.field("claimName").invalid_value(errors, claim, why);
        }
    }
    right
}

fn sources(volume: &At<'_>, pod: &Pod<'_>, errors: &mut Errors) {
    let mut found = false;
    for source in SOURCES.iter().filter(|source| volume.has(source.field)) {
        if found {
            let here = volume.with(source.second, &Value::Null);
            here.forbidden(errors, "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        let here = volume.with(source.at, volume.get(source.field));
        rule::check(source.rules, &here, &Context { pod }, errors);
        if source.field == "ephemeral" && !pod.name.is_empty() && !volume.text("name").is_empty() {
            let claim = format!("{}-{}", pod.name, volume.text("name"));
            for why in names::subdomain(&claim) {
                volume.field("name").invalid(errors, format!("PVC name \"{claim}\": {why}"));
            }
        }
    }
    if !found {
        volume.required(errors, "must specify a volume type");
    }
}

/// What a file may say about the pod.
const FILE_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

/// Fields of a pod that clients may name.
const LABELS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
    "spec.host",
];

/// A reference to a field of the pod.
pub(super) fn pod_field(at: &At<'_>, known: &[&str], errors: &mut Errors) {
    let (version, label) = (at.text("apiVersion"), at.text("fieldPath"));
    if version.is_empty() {
        return at.field("apiVersion").required(errors, "");
    }
    let here = at.field("fieldPath");
    if label.is_empty() {
        return here.required(errors, "");
    }
    let subscript = label
        .strip_suffix("']")
        .and_then(|rest| rest.split_once("['"))
        .filter(|(path, _)| !path.is_empty());
    let mut refuse =
        |why: String| here.invalid(errors, format!("error converting fieldPath: {why}"));
    if version != "v1" {
        return refuse(format!("unsupported pod version: {version}"));
    }
    match subscript {
        Some(("metadata.annotations", key)) => {
            for why in form::qualified_any_case(key) {
                at.invalid_value(errors, key.to_lowercase(), why);
            }
        }
        Some(("metadata.labels", key)) => {
            for why in names::qualified(key) {
                at.invalid_value(errors, key, why);
            }
        }
        Some(_) => refuse(format!("field label does not support subscript: {label}")),
        None if !LABELS.contains(&label) => refuse(format!("field label not supported: {label}")),
        None => {
            let label = if label == "spec.host" { "spec.nodeName" } else { label };
            if !known.contains(&label) {
                push(errors, FieldError::not_supported(here.path(), label, known));
            }
        }
    }
}

/// A reference to what a container asks for.
pub(super) fn resource_field(at: &At<'_>, in_volume: bool, errors: &mut Errors) {
    const KNOWN: &[&str] = &[
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
    ];
    let resource = at.text("resource");
    let pages =
        ["limits.hugepages-", "requests.hugepages-"].iter().any(|p| resource.starts_with(p));
    if in_volume && at.text("containerName").is_empty() {
        at.field("containerName").required(errors, "");
    } else if resource.is_empty() {
        at.field("resource").required(errors, "");
    } else if !KNOWN.contains(&resource) && !pages {
        at.field("resource").not_supported(errors, KNOWN);
    }
    let divisor = at.text("divisor");
    if amount::nanos(divisor) == 0 {
        return;
    }
    const BYTES: &[&str] =
        &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let what = match resource.split_once('.').map_or("", |(_, name)| name) {
        "cpu" if !["1m", "1"].contains(&divisor) => {
            let why = "only divisor's values 1m and 1 are supported with the cpu resource";
            return at.field("divisor").invalid_value(errors, resource, why);
        }
        "memory" => "memory",
        "ephemeral-storage" => "local ephemeral storage",
        _ if pages => "hugepages",
        _ => return,
    };
    if !BYTES.contains(&divisor) {
        let why = format!(
            "only divisor's values {} are supported with the {what} resource",
            BYTES.join(", ")
        );
        at.field("divisor").invalid_value(errors, resource, why);
    }
}

/// Files are told at the list's owner, as upstream does.
fn downward_files(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    for file in at.value.as_array().into_iter().flatten() {
        // The list's own name is not part of the place.
        let Some(owner) = at.above() else { return };
        downward_file(&owner.instead(file), context, errors);
    }
}

fn downward_file(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    static FILE: Rules = &[Required("path"), Must("path", form::local_path)];
    rule::check(FILE, at, context, errors);
    if at.has("fieldRef") {
        pod_field(&at.field("fieldRef"), FILE_FIELDS, errors);
        if at.has("resourceFieldRef") {
            let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
            at.invalid_value(errors, "resource", why);
        }
    } else if at.has("resourceFieldRef") {
        resource_field(&at.field("resourceFieldRef"), true, errors);
    } else {
        at.required(errors, "one of fieldRef and resourceFieldRef is required");
    }
    rule::check(&[Between("mode", 0, MAX_MODE, MODE)], at, context, errors);
}

/// Several sources in one directory, none hiding another's files.
fn projected(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    let mut paths: BTreeSet<String> = BTreeSet::new();
    for source in at.field("sources").items() {
        let present = |name: &&&str| source.has(name);
        let kinds = [
            "secret",
            "configMap",
            "downwardAPI",
            "serviceAccountToken",
            "clusterTrustBundle",
            "podCertificate",
        ];
        for kind in ["secret", "configMap"].iter().filter(present) {
            let of = source.field(kind);
            rule::check(&[Required("name")], &of, context, errors);
            for item in of.field("items").items() {
                rule::check(PATH, &item, context, errors);
                let path = item.text("path");
                if !path.is_empty() && !paths.insert(path.to_owned()) {
                    at.invalid_value(errors, of.text("name"), "conflicting duplicate paths");
                }
            }
        }
        let downward = source.field("downwardAPI");
        for file in downward.list("items") {
            downward_file(&downward.instead(file), context, errors);
            let path = file["path"].as_str().unwrap_or_default();
            if !path.is_empty() && !paths.insert(path.to_owned()) {
                at.invalid_value(errors, path, "conflicting duplicate paths");
            }
        }
        if source.has("serviceAccountToken") {
            token(at, &source.field("serviceAccountToken"), errors);
        }
        if kinds.iter().filter(present).count() > 1 {
            source.forbidden(errors, "may not specify more than 1 volume type per source");
        }
    }
}

fn token(projected: &At<'_>, at: &At<'_>, errors: &mut Errors) {
    const SHORTEST: i64 = 600;
    const LONGEST: i64 = 1 << 32;
    let seconds = at.int("expirationSeconds").unwrap_or(0);
    let here = at.field("expirationSeconds");
    if seconds < SHORTEST {
        here.invalid_value(errors, seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > LONGEST {
        here.invalid_value(errors, seconds, "may not specify a duration larger than 2^32 seconds");
    }
    let path = projected.with("path", at.get("path"));
    if path.as_text().is_empty() {
        path.required(errors, "");
    } else {
        path.must_be(errors, form::local_path);
    }
}

/// A pod without an account has no tokens of one.
pub(super) fn no_account_tokens(volumes: &At<'_>, errors: &mut Errors) {
    for volume in volumes.items() {
        let projected = volume.field("projected");
        for source in projected.field("sources").items() {
            if source.has("serviceAccountToken") {
                let why = "must not be specified when serviceAccountName is not set";
                source.field("serviceAccountToken").forbidden(errors, why);
            }
        }
    }
}

/// Names and paths of a container's mounts or devices.
fn taken<'a>(container: &At<'a>, list: &str, path: &str) -> (BTreeSet<&'a str>, BTreeSet<&'a str>) {
    let list = container.list(list).iter();
    let text = |value: &'a Value, field: &str| value[field].as_str().unwrap_or_default();
    list.map(|one| (text(one, "name"), text(one, path))).unzip()
}

/// What a container mounts; `at` is the container.
pub(super) fn mounts(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    let (device_names, device_paths) = taken(at, "volumeDevices", "devicePath");
    let list = at.field("volumeMounts");
    let mut paths = BTreeSet::new();
    for mount in list.items() {
        let (name, path) = (mount.text("name"), mount.text("mountPath"));
        let (at_name, at_path) = (mount.field("name"), mount.field("mountPath"));
        if name.is_empty() {
            at_name.required(errors, "");
        }
        if !context.pod.volumes.contains_key(name) {
            at_name.not_found(errors, name, "");
        }
        if path.is_empty() {
            at_path.required(errors, "");
        }
        if !paths.insert(path) {
            at_path.invalid_value(errors, path, "must be unique");
        }
        if device_names.contains(name) {
            at_name.invalid(errors, "must not already exist in volumeDevices");
        }
        if device_paths.contains(path) {
            at_path.invalid(errors, "must not already exist as a path in volumeDevices");
        }
        sub_paths(&list, &mount, errors);
        propagation(at, &list, &mount, errors);
    }
}

/// Upstream tells these at the list and not at the mount.
fn sub_paths(list: &At<'_>, mount: &At<'_>, errors: &mut Errors) {
    let (plain, expression) = (mount.text("subPath"), mount.text("subPathExpr"));
    if !plain.is_empty() {
        list.with("subPath", mount.get("subPath")).must_be(errors, form::descending);
    }
    if !expression.is_empty() {
        if !plain.is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            mount.field("subPathExpr").invalid(errors, why);
        }
        list.with("subPathExpr", mount.get("subPathExpr")).must_be(errors, form::descending);
    }
}

fn propagation(container: &At<'_>, list: &At<'_>, mount: &At<'_>, errors: &mut Errors) {
    let mode = list.with("mountPropagation", mount.get("mountPropagation"));
    if !mode.value.is_null() {
        let known = ["Bidirectional", "HostToContainer", "None"];
        if !known.contains(&mode.as_text()) {
            mode.not_supported(errors, &known);
        }
        let privileged = container.get("securityContext")["privileged"] == true;
        if mode.as_text() == "Bidirectional" && !privileged {
            let why = "Bidirectional mount propagation is available only to privileged containers";
            mode.forbidden(errors, why);
        }
    }
    let deep = list.with("recursiveReadOnly", mount.get("recursiveReadOnly"));
    match deep.as_text() {
        _ if deep.value.is_null() => {}
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.is_true("readOnly") {
                deep.forbidden(errors, "may only be specified when readOnly is true");
            }
            if !matches!(mode.as_text(), "" | "None") {
                let why = "may only be specified when mountPropagation is None or not specified";
                deep.forbidden(errors, why);
            }
        }
        _ => deep.not_supported(errors, &["Disabled", "Enabled", "IfPossible"]),
    }
}

/// Block devices of a container; `at` is the container.
pub(super) fn devices(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    let (mount_names, mount_paths) = taken(at, "volumeMounts", "mountPath");
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for device in at.field("volumeDevices").items() {
        let (name, path) = (device.text("name"), device.text("devicePath"));
        let (at_name, at_path) = (device.field("name"), device.field("devicePath"));
        if name.is_empty() {
            at_name.required(errors, "");
        }
        if names.contains(name) {
            at_name.invalid(errors, "must be unique");
        }
        let volume = context.pod.volumes.get(name);
        let block = |volume: &&Value| {
            !volume["persistentVolumeClaim"].is_null() || !volume["ephemeral"].is_null()
        };
        match volume {
            None => at_name.not_found(errors, name, ""),
            Some(volume) if !block(volume) => {
                let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral \
                           for block mode";
                at_name.invalid(errors, why);
            }
            Some(_) => {}
        }
        if path.is_empty() {
            at_path.required(errors, "");
        }
        if paths.contains(path) {
            at_path.invalid(errors, "must be unique");
        }
        if !path.is_empty() && !form::no_backsteps(path).is_empty() {
            at_path.invalid(errors, "can not contain backsteps ('..')");
        } else {
            paths.insert(path);
        }
        if mount_names.contains(name) {
            at_name.invalid(errors, "must not already exist in volumeMounts");
        }
        if mount_paths.contains(path) {
            at_path.invalid(errors, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

/// Variables from files name a volume that is an empty directory; `at` is the spec.
pub(super) fn file_references(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    let volumes = at.list("volumes").iter();
    let volumes: BTreeMap<&str, &Value> =
        volumes.filter_map(|volume| Some((volume["name"].as_str()?, volume))).collect();
    each_container(at, |container| {
        for variable in container.field("env").items() {
            let (from, file) = (variable.field("valueFrom"), "fileKeyRef");
            if !from.has(file) {
                continue;
            }
            let reference = from.field(file);
            let (name, here) = (reference.text("volumeName"), reference.field("volumeName"));
            match volumes.get(name) {
                None => here.not_found(errors, name, ""),
                Some(volume) if volume["emptyDir"].is_null() => {
                    here.invalid(errors, "referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    });
}
