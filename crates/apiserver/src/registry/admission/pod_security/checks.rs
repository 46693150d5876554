//! The checks of the pod security standards, as upstream has them at 1.35.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Level, Standard};

/// What a pod must not be like.
struct Check {
    level: Level,
    /// From this minor version on, and before that one.
    versions: (u32, u32),
    find: fn(&Pod<'_>) -> Found,
}

/// Why, and what exactly.
type Found = Option<(String, String)>;

const ALWAYS: (u32, u32) = (0, u32::MAX);

/// What a restricted check replaces is left out of the restricted level.
const OVERRIDDEN: u32 = 22;

/// In the order in which they are told.
static CHECKS: &[Check] = &[
    Check { level: Level::Baseline, versions: ALWAYS, find: app_armor },
    Check { level: Level::Baseline, versions: ALWAYS, find: capabilities },
    Check { level: Level::Baseline, versions: ALWAYS, find: host_namespaces },
    Check { level: Level::Baseline, versions: ALWAYS, find: host_paths },
    Check { level: Level::Baseline, versions: ALWAYS, find: host_ports },
    Check { level: Level::Baseline, versions: (34, u32::MAX), find: host_probes },
    Check { level: Level::Baseline, versions: ALWAYS, find: privileged },
    Check { level: Level::Baseline, versions: ALWAYS, find: proc_mount },
    Check { level: Level::Baseline, versions: ALWAYS, find: se_linux },
    Check { level: Level::Baseline, versions: (19, u32::MAX), find: seccomp },
    Check { level: Level::Baseline, versions: ALWAYS, find: sysctls },
    Check { level: Level::Baseline, versions: ALWAYS, find: windows },
    Check { level: Level::Restricted, versions: (8, u32::MAX), find: escalation },
    Check { level: Level::Restricted, versions: (22, u32::MAX), find: all_capabilities },
    Check { level: Level::Restricted, versions: ALWAYS, find: volumes },
    Check { level: Level::Restricted, versions: ALWAYS, find: non_root },
    Check { level: Level::Restricted, versions: (23, u32::MAX), find: root_user },
    Check { level: Level::Restricted, versions: (19, u32::MAX), find: some_seccomp },
];

/// What is wrong with a pod.
pub(super) struct Violations(Vec<(String, String)>);

impl Violations {
    /// All of it in one line.
    pub(super) fn detail(&self) -> Option<String> {
        let told = self.0.iter().map(|(reason, detail)| match detail.as_str() {
            "" => reason.clone(),
            detail => format!("{reason} ({detail})"),
        });
        (!self.0.is_empty()).then(|| told.collect::<Vec<_>>().join(", "))
    }

    /// The reasons alone.
    pub(super) fn reason(&self) -> Option<String> {
        let reasons = self.0.iter().map(|(reason, _)| reason.as_str());
        (!self.0.is_empty()).then(|| reasons.collect::<Vec<_>>().join(", "))
    }
}

/// Holds a pod, or a template of one, to a standard.
pub(super) fn violations(standard: Standard, pod: &Value) -> Violations {
    let minor = standard.minor.unwrap_or(u32::MAX - 1);
    let pod = Pod { minor, annotations: &pod["metadata"]["annotations"], spec: &pod["spec"] };
    let applies = |check: &&Check| {
        let (from, before) = check.versions;
        let restricted = standard.level == Level::Restricted;
        let replaced = restricted
            && check.level == Level::Baseline
            && (std::ptr::fn_addr_eq(check.find, capabilities as fn(&Pod<'_>) -> Found)
                && minor >= OVERRIDDEN
                || std::ptr::fn_addr_eq(check.find, host_paths as fn(&Pod<'_>) -> Found)
                || std::ptr::fn_addr_eq(check.find, seccomp as fn(&Pod<'_>) -> Found)
                    && minor >= 19);
        check.level <= standard.level && (from..before).contains(&minor) && !replaced
    };
    Violations(CHECKS.iter().filter(applies).filter_map(|check| (check.find)(&pod)).collect())
}

struct Pod<'a> {
    minor: u32,
    annotations: &'a Value,
    spec: &'a Value,
}

impl<'a> Pod<'a> {
    fn containers(&self) -> impl Iterator<Item = &'a Value> {
        let spec = self.spec;
        let fields = ["initContainers", "containers", "ephemeralContainers"];
        fields.into_iter().filter_map(move |field| spec[field].as_array()).flatten()
    }

    /// The names of the containers that are like this.
    fn those(&self, like: impl FnMut(&&'a Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(like).map(|one| one["name"].as_str().unwrap_or_default()).collect()
    }

    fn context(&self) -> &'a Value {
        &self.spec["securityContext"]
    }

    fn is_windows(&self) -> bool {
        self.minor >= 25 && self.spec["os"]["name"] == "windows"
    }

    fn has_own_users(&self) -> bool {
        self.minor >= 35 && self.spec["hostUsers"] == false
    }
}

fn found(reason: &str, detail: impl Into<String>) -> Found {
    Some((reason.to_owned(), detail.into()))
}

fn quoted<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> =
        items.into_iter().map(|item| format!("\"{}\"", item.as_ref())).collect();
    items.join(", ")
}

fn plural(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

fn named(containers: &[&str]) -> String {
    format!("{} {}", plural(containers.len(), "container", "containers"), quoted(containers))
}

/// The pod and containers that set something bad, in words.
fn setters(pod: bool, containers: &[&str]) -> Option<String> {
    let containers = (!containers.is_empty()).then(|| named(containers));
    let all: Vec<String> = pod.then(|| "pod".to_owned()).into_iter().chain(containers).collect();
    (!all.is_empty()).then(|| all.join(" and "))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn app_armor(pod: &Pod<'_>) -> Found {
    let mut values = BTreeSet::new();
    let mut bad = |context: &Value| {
        let profile = &context["appArmorProfile"];
        let bad = profile.is_object()
            && !matches!(text(&profile["type"]), "RuntimeDefault" | "Localhost");
        if bad {
            values.insert(text(&profile["type"]).to_owned());
        }
        bad
    };
    let own = bad(pod.context());
    let containers = pod.those(|one| bad(&one["securityContext"]));
    let mut who: Vec<String> = setters(own, &containers).into_iter().collect();
    let mut values: Vec<String> = values.into_iter().collect();
    let annotations = pod.annotations.as_object().into_iter().flatten();
    let mut forbidden: Vec<String> = annotations
        .filter(|(key, _)| key.starts_with("container.apparmor.security.beta.kubernetes.io/"))
        .map(|(key, value)| (key, text(value)))
        .filter(|(_, v)| !(v.is_empty() || *v == "runtime/default" || v.starts_with("localhost/")))
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    if !forbidden.is_empty() {
        forbidden.sort();
        who.push(plural(forbidden.len(), "annotation", "annotations").to_owned());
        values.append(&mut forbidden);
    }
    if who.is_empty() {
        return None;
    }
    let reason = plural(values.len(), "forbidden AppArmor profile", "forbidden AppArmor profiles");
    let who = who.join(" and ");
    found(reason, format!("{who} must not set AppArmor profile type to {}", quoted(values)))
}

/// The containers that add capabilities that they may not have, and which.
fn adding<'a>(pod: &Pod<'a>, allowed: &[&str]) -> (Vec<&'a str>, BTreeSet<String>) {
    let mut capabilities = BTreeSet::new();
    let containers = pod.those(|one| {
        let added = list(&one["securityContext"]["capabilities"]["add"]).map(text);
        let bad: Vec<&str> = added.filter(|one| !allowed.contains(one)).collect();
        capabilities.extend(bad.iter().map(|one| (*one).to_owned()));
        !bad.is_empty()
    });
    (containers, capabilities)
}

fn must_not_add(containers: &[&str], capabilities: BTreeSet<String>) -> String {
    let who = named(containers);
    format!("{who} must not include {} in securityContext.capabilities.add", quoted(capabilities))
}

fn capabilities(pod: &Pod<'_>) -> Found {
    const ALLOWED: [&str; 13] = [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ];
    let (containers, added) = adding(pod, &ALLOWED);
    if containers.is_empty() {
        return None;
    }
    found("non-default capabilities", must_not_add(&containers, added))
}

fn host_namespaces(pod: &Pod<'_>) -> Found {
    let set = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|f| pod.spec[f] == true);
    let set: Vec<String> = set.map(|field| format!("{field}=true")).collect();
    if set.is_empty() { None } else { found("host namespaces", set.join(", ")) }
}

fn host_paths(pod: &Pod<'_>) -> Found {
    let bad = list(&pod.spec["volumes"]).filter(|volume| volume["hostPath"].is_object());
    let bad: Vec<&str> = bad.map(|volume| text(&volume["name"])).collect();
    if bad.is_empty() {
        return None;
    }
    let detail = format!("{} {}", plural(bad.len(), "volume", "volumes"), quoted(bad));
    found("hostPath volumes", detail)
}

fn host_ports(pod: &Pod<'_>) -> Found {
    let mut ports = BTreeSet::new();
    let containers = pod.those(|one| {
        let used = list(&one["ports"]).filter_map(|port| port["hostPort"].as_i64());
        let used: Vec<String> = used.filter(|port| *port != 0).map(|p| p.to_string()).collect();
        ports.extend(used.iter().cloned());
        !used.is_empty()
    });
    if containers.is_empty() {
        return None;
    }
    let uses = plural(containers.len(), "uses", "use");
    let what = plural(ports.len(), "hostPort", "hostPorts");
    let ports: Vec<String> = ports.into_iter().collect();
    found("hostPort", format!("{} {uses} {what} {}", named(&containers), ports.join(", ")))
}

fn host_probes(pod: &Pod<'_>) -> Found {
    let mut hosts = BTreeSet::new();
    let mut containers = pod.those(|one| {
        let handlers = [
            &one["livenessProbe"],
            &one["readinessProbe"],
            &one["startupProbe"],
            &one["lifecycle"]["postStart"],
            &one["lifecycle"]["preStop"],
        ];
        let named = handlers.into_iter().flat_map(|handler| {
            [text(&handler["httpGet"]["host"]), text(&handler["tcpSocket"]["host"])]
        });
        let named: Vec<&str> = named.filter(|host| !host.is_empty()).collect();
        hosts.extend(named.iter().map(|host| (*host).to_owned()));
        !named.is_empty()
    });
    if containers.is_empty() {
        return None;
    }
    containers.sort_unstable();
    containers.dedup();
    let uses = plural(containers.len(), "uses", "use");
    let what = plural(hosts.len(), "probe or lifecycle host", "probe or lifecycle hosts");
    let detail = format!("{} {uses} {what} {}", named(&containers), quoted(hosts));
    found("probe or lifecycle host", detail)
}

fn privileged(pod: &Pod<'_>) -> Found {
    let containers = pod.those(|one| one["securityContext"]["privileged"] == true);
    if containers.is_empty() {
        return None;
    }
    let detail = format!("{} must not set securityContext.privileged=true", named(&containers));
    found("privileged", detail)
}

fn proc_mount(pod: &Pod<'_>) -> Found {
    if pod.has_own_users() {
        return None;
    }
    let mut values = BTreeSet::new();
    let containers = pod.those(|one| {
        let mount = text(&one["securityContext"]["procMount"]);
        let bad = !matches!(mount, "" | "Default");
        if bad {
            values.insert(mount.to_owned());
        }
        bad
    });
    if containers.is_empty() {
        return None;
    }
    let (who, values) = (named(&containers), quoted(values));
    found("procMount", format!("{who} must not set securityContext.procMount to {values}"))
}

fn se_linux(pod: &Pod<'_>) -> Found {
    let (mut types, mut user, mut role) = (BTreeSet::new(), false, false);
    let engine = pod.minor >= 31;
    let mut bad = |context: &Value| {
        let options = &context["seLinuxOptions"];
        let type_ = text(&options["type"]);
        let known = matches!(type_, "" | "container_t" | "container_init_t" | "container_kvm_t")
            || engine && type_ == "container_engine_t";
        let (sets_user, sets_role) =
            (!text(&options["user"]).is_empty(), !text(&options["role"]).is_empty());
        if !known {
            types.insert(type_.to_owned());
        }
        user |= sets_user;
        role |= sets_role;
        !known || sets_user || sets_role
    };
    let own = bad(pod.context());
    let containers = pod.those(|one| bad(&one["securityContext"]));
    let who = setters(own, &containers)?;
    let mut wrong = Vec::new();
    if !types.is_empty() {
        wrong.push(format!("{} {}", plural(types.len(), "type", "types"), quoted(types)));
    }
    if user {
        wrong.push("user may not be set".to_owned());
    }
    if role {
        wrong.push("role may not be set".to_owned());
    }
    let wrong = wrong.join("; ");
    found("seLinuxOptions", format!("{who} set forbidden securityContext.seLinuxOptions: {wrong}"))
}

fn is_seccomp(profile: &Value) -> bool {
    matches!(text(&profile["type"]), "RuntimeDefault" | "Localhost")
}

fn seccomp(pod: &Pod<'_>) -> Found {
    let mut values = BTreeSet::new();
    let mut bad = |context: &Value| {
        let profile = &context["seccompProfile"];
        let bad = profile.is_object() && !is_seccomp(profile);
        if bad {
            values.insert(text(&profile["type"]).to_owned());
        }
        bad
    };
    let own = bad(pod.context());
    let containers = pod.those(|one| bad(&one["securityContext"]));
    let who = setters(own, &containers)?;
    let values = quoted(values);
    found(
        "seccompProfile",
        format!("{who} must not set securityContext.seccompProfile.type to {values}"),
    )
}

fn some_seccomp(pod: &Pod<'_>) -> Found {
    if pod.is_windows() {
        return None;
    }
    let broken = seccomp(pod);
    if broken.is_some() || pod.context()["seccompProfile"].is_object() {
        return broken;
    }
    let missing = pod.those(|one| !one["securityContext"]["seccompProfile"].is_object());
    if missing.is_empty() {
        return None;
    }
    let who = named(&missing);
    found(
        "seccompProfile",
        format!(
            "pod or {who} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""
        ),
    )
}

fn sysctls(pod: &Pod<'_>) -> Found {
    const ALLOWED: [(&str, u32); 12] = [
        ("kernel.shm_rmid_forced", 0),
        ("net.ipv4.ip_local_port_range", 0),
        ("net.ipv4.tcp_syncookies", 0),
        ("net.ipv4.ping_group_range", 0),
        ("net.ipv4.ip_unprivileged_port_start", 0),
        ("net.ipv4.ip_local_reserved_ports", 27),
        ("net.ipv4.tcp_keepalive_time", 29),
        ("net.ipv4.tcp_fin_timeout", 29),
        ("net.ipv4.tcp_keepalive_intvl", 29),
        ("net.ipv4.tcp_keepalive_probes", 29),
        ("net.ipv4.tcp_rmem", 32),
        ("net.ipv4.tcp_wmem", 32),
    ];
    let names = list(&pod.context()["sysctls"]).map(|one| text(&one["name"]));
    let may = |name: &str| ALLOWED.iter().any(|(one, since)| *one == name && pod.minor >= *since);
    let bad: Vec<&str> = names.filter(|name| !may(name)).collect();
    if bad.is_empty() { None } else { found("forbidden sysctls", bad.join(", ")) }
}

fn windows(pod: &Pod<'_>) -> Found {
    let bad = |context: &Value| context["windowsOptions"]["hostProcess"] == true;
    let containers = pod.those(|one| bad(&one["securityContext"]));
    let who = setters(bad(pod.context()), &containers)?;
    let detail = format!("{who} must not set securityContext.windowsOptions.hostProcess=true");
    found("hostProcess", detail)
}

fn escalation(pod: &Pod<'_>) -> Found {
    let containers = pod.those(|one| one["securityContext"]["allowPrivilegeEscalation"] != false);
    if pod.is_windows() || containers.is_empty() {
        return None;
    }
    let who = named(&containers);
    let detail = format!("{who} must set securityContext.allowPrivilegeEscalation=false");
    found("allowPrivilegeEscalation != false", detail)
}

fn all_capabilities(pod: &Pod<'_>) -> Found {
    if pod.is_windows() {
        return None;
    }
    let keeping = pod.those(|one| {
        !list(&one["securityContext"]["capabilities"]["drop"]).any(|dropped| dropped == "ALL")
    });
    let (containers, added) = adding(pod, &["NET_BIND_SERVICE"]);
    let mut wrong = Vec::new();
    if !keeping.is_empty() {
        let who = named(&keeping);
        wrong.push(format!("{who} must set securityContext.capabilities.drop=[\"ALL\"]"));
    }
    if !containers.is_empty() {
        wrong.push(must_not_add(&containers, added));
    }
    if wrong.is_empty() { None } else { found("unrestricted capabilities", wrong.join("; ")) }
}

fn volumes(pod: &Pod<'_>) -> Found {
    const ALLOWED: [&str; 9] = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    let mut types = BTreeSet::new();
    let mut bad = Vec::new();
    for volume in list(&pod.spec["volumes"]) {
        if ALLOWED.iter().any(|type_| volume[type_].is_object()) {
            continue;
        }
        bad.push(text(&volume["name"]));
        let fields = volume.as_object().into_iter().flatten();
        let type_ = fields.into_iter().find(|(_, value)| value.is_object());
        types.insert(type_.map_or_else(|| "unknown".to_owned(), |(name, _)| name.clone()));
    }
    if bad.is_empty() {
        return None;
    }
    let (whose, uses) = (plural(bad.len(), "volume", "volumes"), plural(bad.len(), "uses", "use"));
    let what = plural(types.len(), "restricted volume type", "restricted volume types");
    let detail = format!("{whose} {} {uses} {what} {}", quoted(bad), quoted(types));
    found("restricted volume types", detail)
}

fn non_root(pod: &Pod<'_>) -> Found {
    const REASON: &str = "runAsNonRoot != true";
    if pod.has_own_users() {
        return None;
    }
    let own = &pod.context()["runAsNonRoot"];
    let containers = pod.those(|one| one["securityContext"]["runAsNonRoot"] == false);
    if let Some(who) = setters(*own == false, &containers) {
        return found(REASON, format!("{who} must not set securityContext.runAsNonRoot=false"));
    }
    let silent = pod.those(|one| one["securityContext"]["runAsNonRoot"].is_null());
    if *own == true || silent.is_empty() {
        return None;
    }
    let who = named(&silent);
    found(REASON, format!("pod or {who} must set securityContext.runAsNonRoot=true"))
}

fn root_user(pod: &Pod<'_>) -> Found {
    if pod.has_own_users() {
        return None;
    }
    let containers = pod.those(|one| one["securityContext"]["runAsUser"] == 0);
    let who = setters(pod.context()["runAsUser"] == 0, &containers)?;
    found("runAsUser=0", format!("{who} must not set runAsUser=0"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(level: Level, minor: Option<u32>, pod: &Value, wanted: Option<&str>) {
        let found = violations(Standard { level, minor }, pod).reason();
        assert_eq!(found.as_deref(), wanted, "{level:?} {minor:?}");
    }

    #[test]
    fn a_standard_is_what_it_was_in_its_version() {
        let probed = json!({"spec": {"containers": [
            {"name": "c", "livenessProbe": {"httpGet": {"host": "a"}}},
        ]}});
        check(Level::Privileged, None, &probed, None);
        check(Level::Baseline, None, &probed, Some("probe or lifecycle host"));
        check(Level::Baseline, Some(33), &probed, None);
        let tuned =
            json!({"spec": {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}}});
        check(Level::Baseline, Some(31), &tuned, Some("forbidden sysctls"));
        check(Level::Baseline, Some(32), &tuned, None);
    }

    #[test]
    fn restricted_checks_take_the_place_of_those_of_the_baseline() {
        let mounted = json!({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}});
        check(Level::Baseline, None, &mounted, Some("hostPath volumes"));
        check(Level::Restricted, None, &mounted, Some("restricted volume types"));
        let users = json!({"spec": {"hostUsers": false, "containers": [{"name": "c",
            "securityContext": {"runAsUser": 0, "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "Localhost"}}}]}});
        check(Level::Restricted, None, &users, None);
        check(Level::Restricted, Some(34), &users, Some("runAsNonRoot != true, runAsUser=0"));
    }
}
