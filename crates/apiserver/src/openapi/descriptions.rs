//! Descriptions of built-in types, joined to their definitions when a document is made.
//!
//! They come from the crate `k8s-openapi`, which carries upstream's sentences as JSON schemas; here
//! is only which of its types a group version starts from. What it has no sentence for has none.

use k8s_openapi::api;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta;
use schemars::SchemaGenerator;
use serde_json::{Map, Value};

/// Descriptions by the name of a definition.
#[derive(Debug, Default)]
pub(super) struct Descriptions(Map<String, Value>);

impl Descriptions {
    /// What there is for the kinds of a group version.
    pub(super) fn of(api_version: &str) -> Self {
        let mut new = Self::default();
        new.add(api_version);
        new
    }

    /// Adds what there is for the kinds of a group version.
    pub(super) fn add(&mut self, api_version: &str) {
        let mut generator = SchemaGenerator::default();
        name_common(&mut generator);
        if let Some((_, name)) = ROOTS.iter().find(|(of, _)| *of == api_version) {
            name(&mut generator);
        }
        self.0.extend(generator.take_definitions(false));
    }

    /// Puts descriptions on a definition and its properties, where it has none.
    pub(super) fn describe(&self, name: &str, definition: &mut Value) {
        let Some(known) = self.0.get(name) else {
            return self.describe_common(definition);
        };
        describe(known, definition);
        let Some(properties) = definition.get_mut("properties").and_then(Value::as_object_mut)
        else {
            return;
        };
        for (name, property) in properties {
            if let Some(known) = known.get("properties").and_then(|p| p.get(name)) {
                describe(known, property);
            }
        }
    }

    /// The fields of all objects are described alike, in lists and custom resources too.
    fn describe_common(&self, definition: &mut Value) {
        let Some(properties) = definition.get_mut("properties").and_then(Value::as_object_mut)
        else {
            return;
        };
        // A list's metadata is another than an object's, and has no sentence here.
        let is_list = properties.contains_key("items");
        let fields = if is_list { &["apiVersion", "kind"][..] } else { &COMMON };
        let known = self.0.get(EXAMPLE).and_then(|e| e.get("properties"));
        for field in fields {
            let known = known.and_then(|p| p.get(*field));
            if let (Some(known), Some(property)) = (known, properties.get_mut(*field)) {
                describe(known, property);
            }
        }
    }
}

fn describe(known: &Value, schema: &mut Value) {
    let (Some(sentence), Some(schema)) = (known.get("description"), schema.as_object_mut()) else {
        return;
    };
    if schema.contains_key("description") {
        return;
    }
    schema.insert("description".to_owned(), sentence.clone());
    // A reference has no neighbours in version 3.
    let wrapped = crate::builtin::wrapped(std::mem::take(schema));
    *schema = wrapped;
}

/// A kind whose common fields are described as everybody's.
const EXAMPLE: &str = "io.k8s.api.core.v1.ConfigMap";
const COMMON: [&str; 3] = ["apiVersion", "kind", "metadata"];

type Name = fn(&mut SchemaGenerator);

macro_rules! roots {
    ($($version:literal: $($root:ty),+;)+) => {
        /// The types from which all those of a group version are reached.
        const ROOTS: &[(&str, Name)] = &[
            $(($version, |g| { $(g.subschema_for::<$root>();)+ })),+
        ];
    };
}

fn name_common(generator: &mut SchemaGenerator) {
    generator.subschema_for::<api::core::v1::ConfigMap>();
    generator.subschema_for::<meta::v1::ListMeta>();
    generator.subschema_for::<meta::v1::Status>();
    generator.subschema_for::<meta::v1::DeleteOptions>();
    generator.subschema_for::<meta::v1::APIResourceList>();
}

roots! {
    "admissionregistration.k8s.io/v1":
        api::admissionregistration::v1::MutatingWebhookConfiguration,
        api::admissionregistration::v1::ValidatingAdmissionPolicy,
        api::admissionregistration::v1::ValidatingAdmissionPolicyBinding,
        api::admissionregistration::v1::ValidatingWebhookConfiguration;
    "apiextensions.k8s.io/v1":
        apiextensions::v1::CustomResourceDefinition;
    "apps/v1":
        api::apps::v1::ControllerRevision,
        api::apps::v1::DaemonSet,
        api::apps::v1::Deployment,
        api::apps::v1::ReplicaSet,
        api::apps::v1::StatefulSet,
        api::autoscaling::v1::Scale;
    "authentication.k8s.io/v1":
        api::authentication::v1::SelfSubjectReview,
        api::authentication::v1::TokenReview;
    "authorization.k8s.io/v1":
        api::authorization::v1::LocalSubjectAccessReview,
        api::authorization::v1::SelfSubjectAccessReview,
        api::authorization::v1::SelfSubjectRulesReview,
        api::authorization::v1::SubjectAccessReview;
    "autoscaling/v1":
        api::autoscaling::v1::HorizontalPodAutoscaler;
    "autoscaling/v2":
        api::autoscaling::v2::HorizontalPodAutoscaler;
    "batch/v1":
        api::batch::v1::CronJob,
        api::batch::v1::Job;
    "certificates.k8s.io/v1":
        api::certificates::v1::CertificateSigningRequest;
    "coordination.k8s.io/v1":
        api::coordination::v1::Lease;
    "discovery.k8s.io/v1":
        api::discovery::v1::EndpointSlice;
    "events.k8s.io/v1":
        api::events::v1::Event;
    "flowcontrol.apiserver.k8s.io/v1":
        api::flowcontrol::v1::FlowSchema,
        api::flowcontrol::v1::PriorityLevelConfiguration;
    "networking.k8s.io/v1":
        api::networking::v1::IPAddress,
        api::networking::v1::Ingress,
        api::networking::v1::IngressClass,
        api::networking::v1::NetworkPolicy,
        api::networking::v1::ServiceCIDR;
    "node.k8s.io/v1":
        api::node::v1::RuntimeClass;
    "policy/v1":
        api::policy::v1::PodDisruptionBudget;
    "rbac.authorization.k8s.io/v1":
        api::rbac::v1::ClusterRole,
        api::rbac::v1::ClusterRoleBinding,
        api::rbac::v1::Role,
        api::rbac::v1::RoleBinding;
    "resource.k8s.io/v1":
        api::resource::v1::DeviceClass,
        api::resource::v1::ResourceClaim,
        api::resource::v1::ResourceClaimTemplate,
        api::resource::v1::ResourceSlice;
    "scheduling.k8s.io/v1":
        api::scheduling::v1::PriorityClass;
    "storage.k8s.io/v1":
        api::storage::v1::CSIDriver,
        api::storage::v1::CSINode,
        api::storage::v1::CSIStorageCapacity,
        api::storage::v1::StorageClass,
        api::storage::v1::VolumeAttachment,
        api::storage::v1::VolumeAttributesClass;
    "v1":
        api::authentication::v1::TokenRequest,
        api::autoscaling::v1::Scale,
        api::core::v1::Binding,
        api::core::v1::ComponentStatus,
        api::core::v1::ConfigMap,
        api::core::v1::Endpoints,
        api::core::v1::Event,
        api::core::v1::LimitRange,
        api::core::v1::Namespace,
        api::core::v1::Node,
        api::core::v1::PersistentVolume,
        api::core::v1::PersistentVolumeClaim,
        api::core::v1::Pod,
        api::core::v1::PodTemplate,
        api::core::v1::ReplicationController,
        api::core::v1::ResourceQuota,
        api::core::v1::Secret,
        api::core::v1::Service,
        api::core::v1::ServiceAccount,
        api::policy::v1::Eviction;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn definitions_are_described() {
        let descriptions = Descriptions::of("v1");
        let name = "io.k8s.api.core.v1.Service";
        let mut service = crate::builtin::definition(name).unwrap();
        descriptions.describe(name, &mut service);
        assert!(service["description"].as_str().unwrap().starts_with("Service is"), "{service}");
        let spec = &service["properties"]["spec"];
        assert!(spec["description"].is_string() && spec["allOf"].is_array(), "{spec}");
        let mut own = json!({"description": "mine", "properties": {"kind": {"type": "string"}}});
        descriptions.describe("dev.example.v1.Thing", &mut own);
        assert_eq!(own["description"], "mine");
        assert!(own["properties"]["kind"]["description"].is_string());
    }
}
