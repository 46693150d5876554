//! What a controller says of itself before it runs: name, kinds, rights, alerts.
//!
//! From the declaration come its ClusterRole, its alert rules and its dashboard, so none of them can
//! be forgotten, and none asks for more than the code does.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
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
    rights: BTreeMap<(String, String), BTreeSet<String>>,
}

impl Declaration {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, concurrency: 4, ..Self::default() }
    }

    pub(super) fn allow(&mut self, verbs: &[&str], group: &str, resource: &str) {
        let key = (group.to_owned(), resource.to_owned());
        let known = self.rights.entry(key).or_default();
        known.extend(verbs.iter().map(|verb| (*verb).to_owned()));
    }

    /// The field manager that the controller's writes are attributed to.
    pub fn manager(&self) -> String {
        format!("seatrial/{}", self.name)
    }

    /// The rights that the controller needs, and no more.
    pub fn rules(&self) -> Vec<PolicyRule> {
        let rule =
            |((group, resource), verbs): (&(String, String), &BTreeSet<String>)| PolicyRule {
                api_groups: Some(vec![group.clone()]),
                resources: Some(vec![resource.clone()]),
                verbs: verbs.iter().cloned().collect(),
                ..PolicyRule::default()
            };
        self.rights.iter().map(rule).collect()
    }

    /// The role `seatrial:controller:NAME`.
    pub fn cluster_role(&self) -> ClusterRole {
        ClusterRole {
            metadata: ObjectMeta {
                name: Some(format!("seatrial:controller:{}", self.name)),
                ..ObjectMeta::default()
            },
            rules: Some(self.rules()),
            ..ClusterRole::default()
        }
    }
}
