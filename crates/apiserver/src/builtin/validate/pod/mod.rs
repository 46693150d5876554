//! Pods and pod templates: the rules of a pod's spec.
//!
//! What a container or volume may hold depends on the pod around it; [`Pod`] is what of it matters.

mod container;
mod metadata;
mod probe;
mod scheduling;
mod security;
mod status;
mod update;
mod volume;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

pub(super) use scheduling::{node_selector, tolerations};
pub(super) use status::status;
pub(super) use update::update;

use super::amount;
use super::form;
use super::place::{At, Errors};
use super::rule::Rule::{Between, Each, Is, Labels, Must, On, OneOf, OneOfIfSet, Own};
use super::rule::{self, Context, Rules};
use crate::schema::names;

/// What containers, volumes and claims must know of the pod around them.
#[derive(Debug, Default)]
pub(super) struct Pod<'a> {
    /// The volumes that are right, by name.
    pub(super) volumes: BTreeMap<&'a str, &'a Value>,
    /// The names of the pod's claims.
    pub(super) claims: BTreeSet<&'a str>,
    /// Seconds that the pod has to end.
    pub(super) grace: Option<i64>,
    /// `restartPolicy`.
    pub(super) restart: &'a str,
    /// `os.name`.
    pub(super) os: &'a str,
    /// Whether users in the pod are the host's.
    pub(super) host_users: bool,
    /// The pod's name; empty in a template, whose pods have none yet.
    pub(super) name: &'a str,
    /// Whether this is a pod and no template.
    pub(super) is_pod: bool,
}

/// The fields that list containers.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// A pod's spec, once its volumes and containers are looked at.
static SPEC: Rules = &[
    Own(host_ports),
    OneOf("restartPolicy", &["Always", "OnFailure", "Never"]),
    OneOf("dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]),
    Labels("nodeSelector"),
    Own(security::pod),
    Own(scheduling::affinity),
    Own(dns_config),
    Each("readinessGates", &[Must("conditionType", names::qualified)]),
    On("schedulingGates", scheduling_gates),
    On("topologySpreadConstraints", scheduling::spread),
    Own(security::host_users),
    Own(host_name),
    Is("serviceAccountName", names::subdomain),
    Is("nodeName", names::subdomain),
    Between(
        "activeDeadlineSeconds",
        1,
        i32::MAX as i64,
        "must be between 1 and 2147483647, inclusive",
    ),
    Is("hostname", names::label),
    Is("subdomain", names::label),
    On("tolerations", |at, _, errors| tolerations(at, errors)),
    Each("hostAliases", &[Must("ip", form::address), On("hostnames", subdomains)]),
    Is("priorityClassName", names::subdomain),
    Is("runtimeClassName", names::subdomain),
    OneOfIfSet("preemptionPolicy", &["PreemptLowerPriority", "Never"]),
    Own(overhead),
    Own(security::system),
    Own(volume::file_references),
];

/// Holds a pod's spec to its rules; `name` is the pod's, and empty in a template.
pub(super) fn spec(at: &At<'_>, name: &str, is_pod: bool, errors: &mut Errors) {
    let host_users = at.get("hostUsers").as_bool().unwrap_or(true);
    let claim_names = at.list("resourceClaims").iter().filter_map(|claim| claim["name"].as_str());
    let mut pod = Pod {
        grace: at.int("terminationGracePeriodSeconds"),
        restart: at.text("restartPolicy"),
        os: at.get("os")["name"].as_str().unwrap_or_default(),
        claims: claim_names.filter(|name| !name.is_empty()).collect(),
        host_users,
        name,
        is_pod,
        ..Pod::default()
    };
    let volumes = volume::volumes(&at.field("volumes"), &pod, errors);
    pod.volumes = volumes;
    let context = Context { pod: &pod };
    scheduling::claims(&at.field("resourceClaims"), errors);
    container::containers(at, &context, errors);
    if at.has("resources") {
        pod_resources(at, &context, errors);
    }
    rule::check(SPEC, at, &context, errors);
}

/// What a pod template must hold; `at` is where it stands.
pub(super) fn template(at: &At<'_>, errors: &mut Errors) {
    let metadata = at.field("metadata");
    form::labels(&at.with("labels", metadata.get("labels")), errors);
    let annotations = at.with("annotations", metadata.get("annotations"));
    metadata::annotations(&annotations, errors);
    metadata::pod_annotations(&annotations, &at.field("spec"), errors);
    spec(&at.field("spec"), "", false, errors);
    metadata::profiles(metadata.get("annotations"), &at.field("spec"), errors);
    if !at.field("spec").list("ephemeralContainers").is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        at.field("spec").field("ephemeralContainers").forbidden(errors, why);
    }
}

/// What holds for a pod at any time.
fn at_any_time(at: &At<'_>, errors: &mut Errors) {
    let (metadata, pod_spec) = (at.field("metadata"), at.field("spec"));
    metadata::pod_annotations(&metadata.field("annotations"), &pod_spec, errors);
    spec(&pod_spec, metadata.text("name"), true, errors);
    if pod_spec.text("serviceAccountName").is_empty() {
        volume::no_account_tokens(&pod_spec.field("volumes"), errors);
    }
    for list in ["containers", "initContainers"] {
        for container in pod_spec.field(list).items() {
            trimmed_image(&container, errors);
        }
    }
}

/// What a new pod must hold.
pub(super) fn create(at: &At<'_>, errors: &mut Errors) {
    at_any_time(at, errors);
    let spec = at.field("spec");
    if !spec.list("ephemeralContainers").is_empty() {
        spec.field("ephemeralContainers").forbidden(errors, "cannot be set on create");
    }
    if !spec.text("nodeName").is_empty() && !spec.list("schedulingGates").is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        spec.field("nodeName").forbidden(errors, why);
    }
    metadata::profiles(at.field("metadata").get("annotations"), &spec, errors);
}

fn trimmed_image(container: &At<'_>, errors: &mut Errors) {
    let image = container.text("image");
    if image.trim().len() != image.len() {
        container.field("image").invalid(errors, "must not have leading or trailing whitespace");
    }
}

fn pod_resources(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    let here = at.field("resources");
    if context.pod.os == "windows" {
        return here.forbidden(errors, "may not be set for a windows pod");
    }
    amount::pod_requirements(&here, context, errors);
    let requests = here.field("requests");
    for name in requests.value.as_object().into_iter().flat_map(|map| map.keys()) {
        let total: i128 = at
            .list("containers")
            .iter()
            .filter_map(|c| c["resources"]["requests"][name.as_str()].as_str())
            .map(amount::nanos)
            .fold(0, i128::saturating_add);
        if total > amount::nanos(requests.text(name)) {
            let shown = amount::shown(total);
            let why =
                format!("must be greater than or equal to aggregate container requests of {shown}");
            requests.key(name).invalid(errors, why);
        }
    }
    let limits = here.field("limits");
    for container in here.with("containers", at.get("containers")).items() {
        let of = container.field("resources");
        for (name, limit) in of.get("limits").as_object().into_iter().flatten() {
            let (limit, most) = (limit.as_str().unwrap_or_default(), limits.text(name));
            if !most.is_empty() && amount::nanos(limit) > amount::nanos(most) {
                let why = format!("must be less than or equal to pod limits of {most}");
                container.key(name).with("limits", &Value::Null).invalid_value(errors, limit, why);
            }
        }
    }
}

fn overhead(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    if at.has("overhead") {
        let limits = serde_json::json!({"limits": at.get("overhead")});
        amount::requirements(&at.with("overhead", &limits), context, errors);
    }
}

fn subdomains(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    for name in at.items() {
        name.must_be(errors, names::subdomain);
    }
}

/// On the host's network a port is the host's port.
fn host_ports(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    if !at.is_true("hostNetwork") {
        return;
    }
    for container in at.field("containers").items() {
        for port in container.field("ports").items() {
            let (host, own) = (port.int("hostPort").unwrap_or(0), port.int("containerPort"));
            if (context.pod.is_pod || host != 0) && Some(host) != own {
                let why = "must match `containerPort` when `hostNetwork` is true";
                port.field("hostPort").invalid_value(errors, host, why);
            }
        }
    }
}

fn host_name(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    let Some(name) = at.get("hostnameOverride").as_str() else { return };
    let here = at.field("hostnameOverride");
    if at.is_true("setHostnameAsFQDN") {
        here.forbidden(errors, "may not be specified when setHostnameAsFQDN is true");
    }
    if at.is_true("hostNetwork") {
        here.forbidden(errors, "may not be specified when hostNetwork is true");
    }
    if name.len() > 64 {
        here.too_long(errors, 64);
    }
    here.must_be(errors, names::subdomain);
}

fn scheduling_gates(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for gate in at.items() {
        let name = gate.text("name");
        for why in names::qualified(name) {
            gate.invalid_value(errors, name, why);
        }
        if !seen.insert(name) {
            gate.duplicate(errors, name);
        }
    }
}

fn dns_config(at: &At<'_>, _: &Context<'_>, errors: &mut Errors) {
    const SERVERS: usize = 3;
    const SEARCHES: usize = 32;
    const CHARACTERS: usize = 2048;
    let config = at.field("dnsConfig");
    let (servers, searches) = (config.field("nameservers"), config.field("searches"));
    if at.text("dnsPolicy") == "None" {
        if config.value.is_null() {
            return config.required(errors, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if config.list("nameservers").is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return servers.required(errors, why);
        }
    }
    if config.list("nameservers").len() > SERVERS {
        servers.invalid(errors, format!("must not have more than {SERVERS} nameservers"));
    }
    for server in servers.items() {
        server.must_be(errors, form::address);
    }
    let list = config.list("searches");
    if list.len() > SEARCHES {
        searches.invalid(errors, format!("must not have more than {SEARCHES} search paths"));
    }
    let text: usize = list.iter().filter_map(Value::as_str).map(str::len).sum();
    if text + list.len().saturating_sub(1) > CHARACTERS {
        let why = format!(
            "must not have more than {CHARACTERS} characters (including spaces) in the search list"
        );
        searches.invalid(errors, why);
    }
    for search in searches.items().filter(|search| search.as_text() != ".") {
        let text = search.as_text();
        let name = text.strip_suffix('.').unwrap_or(text);
        for why in form::search_domain(name) {
            search.invalid_value(errors, name, why);
        }
    }
    for option in config.field("options").items().filter(|o| o.text("name").is_empty()) {
        option.required(errors, "must not be empty");
    }
}

/// Every container of a pod and where it stands, in upstream's order.
fn each_container(spec: &At<'_>, mut with: impl FnMut(&At<'_>)) {
    for list in CONTAINERS {
        for container in spec.field(list).items() {
            with(&container);
        }
    }
}
