//! Security contexts of pods and containers, and what an operating system rules out.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::form;
use super::super::place::{At, Errors, push};
use super::super::rule::Rule::{Between, On, OneOfIfSet, Own, Sub};
use super::super::rule::{self, Context, Rules};
use super::each_container;

const PROFILES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

const MAX_ID: i64 = i32::MAX as i64;

/// What a pod and a container may both say, and only for Linux.
static SECCOMP: Rules = &[Own(seccomp)];
static APP_ARMOR: Rules = &[Own(app_armor)];
static WINDOWS: Rules =
    &[rule::Rule::Is("gmsaCredentialSpecName", crate::schema::names::subdomain), Own(windows_user)];

static POD: Rules = &[
    Between("fsGroup", 0, MAX_ID, form::ID_RANGE),
    Between("runAsUser", 0, MAX_ID, form::ID_RANGE),
    Between("runAsGroup", 0, MAX_ID, form::ID_RANGE),
    On("supplementalGroups", groups),
];

static POD_PROFILES: Rules = &[
    On("sysctls", sysctls),
    OneOfIfSet("fsGroupChangePolicy", &["Always", "OnRootMismatch"]),
    Sub("seccompProfile", SECCOMP),
    Sub("windowsOptions", WINDOWS),
    Sub("appArmorProfile", APP_ARMOR),
    OneOfIfSet("supplementalGroupsPolicy", &["Merge", "Strict"]),
    OneOfIfSet("seLinuxChangePolicy", &["MountOption", "Recursive"]),
];

static CONTAINER: Rules = &[
    Between("runAsUser", 0, MAX_ID, form::ID_RANGE),
    Between("runAsGroup", 0, MAX_ID, form::ID_RANGE),
    OneOfIfSet("procMount", &["Default", "Unmasked"]),
    Own(unmasked),
    Sub("seccompProfile", SECCOMP),
    Own(escalation),
    Sub("windowsOptions", WINDOWS),
    Sub("appArmorProfile", APP_ARMOR),
];

fn groups(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    for group in at.items() {
        if group.value.as_i64().is_some_and(|id| !(0..=MAX_ID).contains(&id)) {
            group.invalid(errors, form::ID_RANGE);
        }
    }
}

/// A pod's security context; `at` is the spec.
pub(super) fn pod(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    if !at.has("securityContext") {
        return;
    }
    let here = at.field("securityContext");
    rule::check(POD, &here, context, errors);
    if at.is_true("shareProcessNamespace") && at.is_true("hostPID") {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        here.with("shareProcessNamespace", &Value::Bool(true)).invalid(errors, why);
    }
    rule::check(POD_PROFILES, &here, context, errors);
}

/// A container's security context.
pub(super) fn container(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    rule::check(CONTAINER, at, context, errors);
}

fn unmasked(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    if context.pod.host_users && at.text("procMount") == "Unmasked" {
        let why = "`hostUsers` must be false to use `Unmasked`";
        at.field("procMount").invalid(errors, why);
    }
}

fn escalation(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    if at.get("allowPrivilegeEscalation") != &Value::Bool(false) {
        return;
    }
    if at.is_true("privileged") {
        let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        at.invalid_as(errors, &as_go_has_it(at), why);
    }
    let added = at.get("capabilities")["add"].as_array();
    for _ in added.into_iter().flatten().filter(|one| *one == "CAP_SYS_ADMIN") {
        let why =
            "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        at.invalid_as(errors, &as_go_has_it(at), why);
    }
}

/// A security context as upstream's own form of it prints: every field, by Go's name.
fn as_go_has_it(at: &At<'_>) -> String {
    const FIELDS: [(&str, &str); 12] = [
        ("Capabilities", "capabilities"),
        ("Privileged", "privileged"),
        ("SELinuxOptions", "seLinuxOptions"),
        ("WindowsOptions", "windowsOptions"),
        ("RunAsUser", "runAsUser"),
        ("RunAsGroup", "runAsGroup"),
        ("RunAsNonRoot", "runAsNonRoot"),
        ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem"),
        ("AllowPrivilegeEscalation", "allowPrivilegeEscalation"),
        ("ProcMount", "procMount"),
        ("SeccompProfile", "seccompProfile"),
        ("AppArmorProfile", "appArmorProfile"),
    ];
    let fields = FIELDS.iter().map(|(go, name)| match *name {
        "capabilities" if at.has(name) => {
            let of = at.get(name);
            format!("\"{go}\":{{\"Add\":{},\"Drop\":{}}}", of["add"], of["drop"])
        }
        name => format!("\"{go}\":{}", at.get(name)),
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn seccomp(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    let (kind, profile) = (at.field("type"), at.field("localhostProfile"));
    match kind.as_text() {
        "" => kind.required(errors, "type is required when seccompProfile is set"),
        text if PROFILES.contains(&text) => {}
        _ => kind.not_supported(errors, PROFILES),
    }
    match (kind.as_text() == "Localhost", profile.value.is_null()) {
        (true, true) => profile.required(errors, "must be set when seccomp type is Localhost"),
        (true, false) => profile.must_be(errors, form::descending),
        (false, false) => {
            let shown =
                format!("{{\"Type\":{},\"LocalhostProfile\":{}}}", kind.value, profile.value);
            profile.invalid_as(errors, &shown, "can only be set when seccomp type is Localhost");
        }
        (false, true) => {}
    }
}

fn app_armor(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    const LONGEST: u64 = 4095;
    let (kind, profile) = (at.field("type"), at.field("localhostProfile"));
    match kind.as_text() {
        "Localhost" if profile.value.is_null() => {
            profile.required(errors, "must be set when AppArmor type is Localhost");
        }
        "Localhost" => {
            let text = profile.as_text();
            if text.trim() != text {
                profile.invalid(errors, "must not be padded with whitespace");
            } else if text.is_empty() {
                profile.required(errors, "must be set when AppArmor type is Localhost");
            }
            if text.len() as u64 > LONGEST {
                profile.too_long(errors, LONGEST);
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if !profile.value.is_null() {
                profile.invalid(errors, "can only be set when AppArmor type is Localhost");
            }
        }
        "" => kind.required(errors, "type is required when appArmorProfile is set"),
        _ => kind.not_supported(errors, PROFILES),
    }
}

fn windows_user(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    if at.get("runAsUserName").as_str().is_some_and(str::is_empty) {
        at.field("runAsUserName").invalid(errors, "runAsUserName cannot be an empty string");
    }
}

fn sysctls(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    const SEGMENT: &str = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
    let mut seen = BTreeSet::new();
    for sysctl in at.items() {
        let name = sysctl.text("name");
        let here = sysctl.field("name");
        if name.is_empty() {
            here.required(errors, "");
        } else if name.len() > 253 || !name.split(['.', '/']).all(is_segment) {
            let why = format!(
                "must have at most 253 characters and match regex ^({SEGMENT}[\\./])*{SEGMENT}$"
            );
            here.invalid(errors, why);
        } else if seen.contains(name) {
            here.duplicate(errors, name);
        }
        seen.insert(name.to_owned());
    }
}

fn is_segment(text: &str) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
    text.bytes().all(inner) && edge(text.bytes().next()) && edge(text.bytes().next_back())
}

/// A pod with users of its own shares little with the host.
pub(super) fn host_users(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    if context.pod.host_users || !at.has("securityContext") && at.get("hostUsers").is_null() {
        return;
    }
    for (field, told) in
        [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
    {
        if at.is_true(field) {
            at.field(told).forbidden(errors, "when `hostUsers` is false");
        }
    }
    each_container(at, |container| {
        if !container.list("volumeDevices").is_empty() {
            container.field("volumeDevices").forbidden(errors, "when `hostUsers` is false");
        }
    });
}

/// Where a field of a pod that only Linux has is told: in the spec or in its security context.
const LINUX_ONLY: &[(&str, bool)] = &[
    ("appArmorProfile", true),
    ("seLinuxOptions", true),
    ("hostUsers", false),
    ("hostPID", false),
    ("hostIPC", false),
    ("seccompProfile", true),
    ("fsGroup", true),
    ("fsGroupChangePolicy", true),
    ("sysctls", true),
    ("shareProcessNamespace", false),
    ("runAsUser", true),
    ("runAsGroup", true),
    ("supplementalGroups", true),
    ("supplementalGroupsPolicy", true),
    ("seLinuxChangePolicy", true),
];

const LINUX_ONLY_IN_CONTAINERS: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// What the pod's operating system rules out.
pub(super) fn system(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    if !at.has("os") {
        return;
    }
    let os = at.field("os");
    match os.text("name") {
        "" => os.field("name").required(errors, ""),
        "linux" => {
            let mut check = |of: &At<'_>| {
                let context = of.field("securityContext");
                if context.has("windowsOptions") {
                    let why = "windows options cannot be set for a linux pod";
                    context.field("windowsOptions").forbidden(errors, why);
                }
            };
            check(at);
            each_container(at, check);
        }
        "windows" => windows(at, errors),
        other => push(
            errors,
            crate::schema::field::FieldError::not_supported(
                os.path(),
                other,
                &["linux", "windows"],
            ),
        ),
    }
}

fn windows(at: &At<'_>, errors: &mut Errors) {
    const WHY: &str = "cannot be set for a windows pod";
    let context = at.field("securityContext");
    for (field, inside) in LINUX_ONLY {
        let of = if *inside { &context } else { at };
        let value = of.get(field);
        let off = value.is_null()
            || value == &Value::Bool(false) && matches!(*field, "hostPID" | "hostIPC")
            || value.as_array().is_some_and(Vec::is_empty);
        if !off {
            of.field(field).forbidden(errors, WHY);
        }
    }
    each_container(at, |container| {
        let context = container.field("securityContext");
        for field in LINUX_ONLY_IN_CONTAINERS.iter().filter(|field| context.has(field)) {
            context.field(field).forbidden(errors, WHY);
        }
    });
}
