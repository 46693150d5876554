//! What a controller says of itself before it runs: name, kinds, rights, alerts.
//!
//! From the declaration come its ClusterRole, its alert rules and its dashboard, so none of them can
//! be forgotten, and none asks for more than the code does.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// An alert of a controller's own, beside those that every controller has.
#[derive(Clone, Debug)]
pub struct Alert {
    /// `SeatrialNodesLost`
    pub name: &'static str,
    /// The PromQL expression that fires.
    pub expr: &'static str,
    /// How long it must hold, as Prometheus writes durations.
    pub lasts: &'static str,
    /// `warning` or `critical`.
    pub severity: &'static str,
    /// One sentence: what is wrong and what to do.
    pub summary: &'static str,
    /// Series, in promtool's notation at one value a minute, under which it fires after `fires_at`.
    pub example: &'static [(&'static str, &'static str)],
    /// When the alert fires in the example, as Prometheus writes durations.
    pub fires_at: &'static str,
    /// Labels of the fired alert beside `severity` and `controller`.
    pub labels: &'static [(&'static str, &'static str)],
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Declaration {
    /// The controller's name.
    pub name: &'static str,
    /// One sentence on what it does.
    pub about: &'static str,
    /// How many keys are worked on at once.
    pub concurrency: usize,
    /// Alerts beside the common ones.
    pub alerts: Vec<Alert>,
    /// Metrics beside the common ones.
    pub(super) measures: Vec<super::metrics::Measure>,
    rights: Rights,
    /// Those that hold in one namespace only.
    local: BTreeMap<String, Rights>,
}

/// Verbs by group and resource.
type Rights = BTreeMap<(String, String), BTreeSet<String>>;

fn rules(rights: &Rights) -> Vec<PolicyRule> {
    let rule = |((group, resource), verbs): (&(String, String), &BTreeSet<String>)| PolicyRule {
        api_groups: Some(vec![group.clone()]),
        resources: Some(vec![resource.clone()]),
        verbs: verbs.iter().cloned().collect(),
        ..PolicyRule::default()
    };
    rights.iter().map(rule).collect()
}

fn add(rights: &mut Rights, verbs: &[&str], group: &str, resource: &str) {
    let known = rights.entry((group.to_owned(), resource.to_owned())).or_default();
    known.extend(verbs.iter().map(|verb| (*verb).to_owned()));
}

/// What whoever lists and watches for all of these needs, and no more.
pub fn reading<'a>(declarations: impl IntoIterator<Item = &'a Declaration>) -> Vec<PolicyRule> {
    let mut all = Rights::new();
    for ((group, resource), verbs) in declarations.into_iter().flat_map(|d| &d.rights) {
        let reads = ["list", "watch"].into_iter().filter(|verb| verbs.contains(*verb));
        let reads: Vec<&str> = reads.collect();
        if !reads.is_empty() {
            add(&mut all, &reads, group, resource);
        }
    }
    rules(&all)
}

impl Declaration {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, concurrency: 4, ..Self::default() }
    }

    pub(super) fn allow(&mut self, verbs: &[&str], group: &str, resource: &str) {
        add(&mut self.rights, verbs, group, resource);
    }

    pub(super) fn allow_in(
        &mut self,
        namespace: &str,
        verbs: &[&str],
        group: &str,
        resource: &str,
    ) {
        let rights = self.local.entry(namespace.to_owned()).or_default();
        add(rights, verbs, group, resource);
    }

    /// The field manager that the controller's writes are attributed to.
    pub fn manager(&self) -> String {
        format!("seatrial/{}", self.name)
    }

    /// The rights that the controller needs in the whole cluster, and no more.
    pub fn rules(&self) -> Vec<PolicyRule> {
        rules(&self.rights)
    }

    /// The role `seatrial:controller:NAME`.
    pub fn cluster_role(&self) -> ClusterRole {
        ClusterRole {
            metadata: ObjectMeta { name: Some(self.role_name()), ..ObjectMeta::default() },
            rules: Some(self.rules()),
            ..ClusterRole::default()
        }
    }

    /// Roles of the same name in the namespaces where the controller needs more.
    pub fn roles(&self) -> Vec<Role> {
        let role = |(namespace, rights): (&String, &Rights)| Role {
            metadata: ObjectMeta {
                name: Some(self.role_name()),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            rules: Some(rules(rights)),
        };
        self.local.iter().map(role).collect()
    }

    fn role_name(&self) -> String {
        format!("seatrial:controller:{}", self.name)
    }
}
