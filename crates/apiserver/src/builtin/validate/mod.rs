//! The rules on the content of built-in kinds, as a kube-apiserver finds them broken.
//!
//! One table names the rules of each kind and of its subresources. A family's rules are tables of
//! [`rule::Rule`] and, where upstream computes, functions; what is wrong comes in upstream's order,
//! with its fields and words. The facts are restated from upstream's `pkg/apis/*/validation`.
//! Metadata, names and references that grant rights are not checked here, nor is anything that
//! needs another object.

mod admission;
mod amount;
mod apps;
mod autoscaling;
mod batch;
mod claim;
mod cluster;
mod content;
mod cron;
mod endpoints;
mod event;
mod form;
mod job_status;
mod limits;
mod networking;
mod place;
mod pod;
mod quota;
mod rbac;
mod rule;
mod service;
mod warnings;
mod webhooks;

use serde_json::Value;

use crate::schema::field::FieldError;
use place::{At, Errors};

pub(in crate::builtin) use amount::nanos;
pub(crate) use content::standard_finalizers;

/// What holds for an object, given the one that it replaces.
type Check = fn(Option<&Value>, &At<'_>, &mut Errors);

const REGISTRATION: &str = "admissionregistration.k8s.io";

/// A kind or one of its subresources: group, resource, subresource, rules.
static TABLE: &[(&str, &str, &str, Check)] = &[
    ("", "configmaps", "", content::config_map),
    ("", "endpoints", "", endpoints::endpoints),
    ("", "events", "", event::lenient),
    ("", "limitranges", "", limits::limit_range),
    ("", "namespaces", "", content::namespace),
    ("", "namespaces", "finalize", cluster::namespace_finalize),
    ("", "namespaces", "status", cluster::namespace_status),
    ("", "nodes", "", cluster::node),
    ("", "nodes", "status", cluster::node_status),
    ("", "persistentvolumeclaims", "", claim::claim),
    ("", "persistentvolumes", "", claim::volume),
    ("", "pods", "", a_pod),
    ("", "pods", "status", pod_status),
    ("", "podtemplates", "", apps::pod_template),
    ("", "replicationcontrollers", "", apps::replication_controller),
    ("", "replicationcontrollers", "status", apps::replica_set_status),
    ("", "resourcequotas", "", quota::quota),
    ("", "resourcequotas", "status", quota::quota_status),
    ("", "secrets", "", content::secret),
    ("", "services", "", service::service),
    ("", "services", "status", service::service_status),
    (REGISTRATION, "mutatingwebhookconfigurations", "", webhooks::mutating_webhooks),
    (REGISTRATION, "validatingadmissionpolicies", "", admission::policy),
    (REGISTRATION, "validatingadmissionpolicies", "status", admission::policy_status),
    (REGISTRATION, "validatingadmissionpolicybindings", "", admission::binding),
    (REGISTRATION, "validatingwebhookconfigurations", "", webhooks::validating_webhooks),
    ("apps", "controllerrevisions", "", apps::controller_revision),
    ("apps", "daemonsets", "", apps::daemon_set),
    ("apps", "daemonsets", "status", apps::daemon_set_status),
    ("apps", "deployments", "", apps::deployment),
    ("apps", "deployments", "status", apps::deployment_status),
    ("apps", "replicasets", "", apps::replica_set),
    ("apps", "replicasets", "status", apps::replica_set_status),
    ("apps", "statefulsets", "", apps::stateful_set),
    ("apps", "statefulsets", "status", apps::stateful_set_status),
    ("autoscaling", "horizontalpodautoscalers", "", autoscaling::autoscaler),
    ("autoscaling", "horizontalpodautoscalers", "status", autoscaling::autoscaler_status),
    ("batch", "cronjobs", "", cron::cron_job),
    ("batch", "jobs", "", batch::job),
    ("batch", "jobs", "status", job_status::job_status),
    ("certificates.k8s.io", "certificatesigningrequests", "", cluster::certificate_request),
    ("coordination.k8s.io", "leases", "", content::lease),
    ("discovery.k8s.io", "endpointslices", "", endpoints::endpoint_slice),
    ("events.k8s.io", "events", "", event::strict),
    ("networking.k8s.io", "ingressclasses", "", networking::ingress_class),
    ("networking.k8s.io", "ingresses", "", networking::ingress),
    ("networking.k8s.io", "ingresses", "status", networking::ingress_status),
    ("networking.k8s.io", "networkpolicies", "", networking::network_policy),
    ("node.k8s.io", "runtimeclasses", "", cluster::runtime_class),
    ("policy", "poddisruptionbudgets", "", cluster::budget),
    ("policy", "poddisruptionbudgets", "status", cluster::budget_status),
    ("rbac.authorization.k8s.io", "clusterrolebindings", "", rbac::cluster_role_binding),
    ("rbac.authorization.k8s.io", "clusterroles", "", rbac::cluster_role),
    ("rbac.authorization.k8s.io", "rolebindings", "", rbac::role_binding),
    ("rbac.authorization.k8s.io", "roles", "", rbac::role),
    ("scheduling.k8s.io", "priorityclasses", "", cluster::priority_class),
    ("storage.k8s.io", "storageclasses", "", cluster::storage_class),
];

/// What is wrong with a built-in kind's object, written through a subresource or, where that is
/// empty, as itself. A change of scale is a change of the whole.
pub(crate) fn validate(
    (group, resource, subresource): (&str, &str, &str),
    old: Option<&Value>,
    new: &Value,
) -> Vec<FieldError> {
    let subresource = if subresource == "scale" { "" } else { subresource };
    let mut errors = Vec::new();
    let found = TABLE.iter().find(|(g, r, s, _)| (*g, *r, *s) == (group, resource, subresource));
    if let Some((.., check)) = found {
        check(old, &At::root(new), &mut errors);
    }
    errors
}

/// What clients are warned of when they write this object.
pub(crate) fn warnings(
    (group, resource, subresource): (&str, &str, &str),
    old: Option<&Value>,
    new: &Value,
) -> Vec<String> {
    if subresource.is_empty() { warnings::of(group, resource, old, new) } else { Vec::new() }
}

/// What is wrong with the addresses of a service and their families alone.
pub(crate) fn service_addresses(old: Option<&Value>, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let at = At::root(new);
    service::addresses(old, &at.field("spec"), &mut errors);
    errors
}

fn a_pod(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    match old {
        None => pod::create(at, errors),
        Some(old) => pod::update(old, at, errors),
    }
}

fn pod_status(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    if let Some(old) = old {
        pod::status(old, at, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;

    #[test]
    fn every_entry_of_the_table_is_a_resource_that_is_served() {
        let table = builtin::table().unwrap();
        for (group, plural, subresource, _) in TABLE {
            let resource = table.get(group, plural).unwrap_or_else(|| panic!("{plural}"));
            assert!(subresource.is_empty() || resource.has(subresource), "{plural}/{subresource}");
        }
    }
}
