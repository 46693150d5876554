//! Seatrial's vocabulary: the kinds of `fleet.seatrial.dev`, and every name they share.
//!
//! Whatever two components must agree on stands here once: custom resources ([`machine`], [`rack`],
//! [`switch`], [`instance_type`], [`node_pool`], [`incident`], [`ledger`], [`breaker`]), node
//! conditions and their reasons ([`condition`]), the evidence they carry ([`evidence`]), lifecycle
//! states ([`state`]), labels, taints, finalizers and managers ([`names`]), how pods ask to be treated
//! ([`treatment`]), when something is due ([`schedule`]), what training jobs say of their progress
//! ([`training`]), and what the audit log says of it all ([`audit`]).
//!
//! Types that cross the API are parsed here and refuse bad input in their schema. Nothing here
//! decides, waits, or talks to anybody.

#![allow(
    clippy::duplicated_attributes,
    reason = "two printer columns of one type are no duplicate; not every version of clippy sees that"
)]
#![expect(unreachable_pub, reason = "the derive of schemas copies our structs into its functions")]

pub mod audit;
pub mod breaker;
pub mod condition;
pub mod evidence;
pub mod incident;
pub mod instance_type;
pub mod inventory;
pub mod ledger;
pub mod machine;
pub mod names;
pub mod node_pool;
pub mod rack;
pub mod request;
pub mod schedule;
pub mod state;
pub mod switch;
pub mod training;
pub mod treatment;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, ValidationRule,
};
use kube_core::CustomResourceExt as _;

pub use breaker::Breaker;
pub use incident::Incident;
pub use instance_type::InstanceType;
pub use ledger::Ledger;
pub use machine::Machine;
pub use node_pool::NodePool;
pub use rack::Rack;
pub use switch::Switch;

/// The API group of the fleet's kinds.
pub const GROUP: &str = "fleet.seatrial.dev";

/// The one version that is served today.
pub const VERSION: &str = "v1alpha1";

/// Every custom resource definition, in the order in which they are installed.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    vec![
        InstanceType::crd(),
        Rack::crd(),
        Switch::crd(),
        with_rule(
            Machine::crd(),
            "!has(oldSelf.spec.request) || !has(self.spec.request) \
             || self.spec.request.id == oldSelf.spec.request.id \
             || has(self.status) && has(self.status.answer) \
             && self.status.answer.id == oldSelf.spec.request.id",
            "spec.request is not answered yet: wait for status.answer, or take the request away first",
        ),
        NodePool::crd(),
        Incident::crd(),
        with_rule(
            Ledger::crd(),
            "self.metadata.name == 'fleet'",
            "there is one ledger, and its name is fleet",
        ),
        with_rule(
            Breaker::crd(),
            "self.spec.acknowledged <= (has(self.status) ? self.status.openings : 0)",
            "spec.acknowledged must not exceed status.openings: what has not happened cannot be acknowledged",
        ),
    ]
}

/// Adds a rule over the whole object; the derive can only state rules over the spec without the
/// client's crate.
fn with_rule(
    mut definition: CustomResourceDefinition,
    rule: &str,
    message: &str,
) -> CustomResourceDefinition {
    let roots = definition.spec.versions.iter_mut().filter_map(|version| {
        version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut())
    });
    for root in roots {
        root.x_kubernetes_validations.get_or_insert_default().push(ValidationRule {
            rule: rule.to_owned(),
            message: Some(message.to_owned()),
            ..ValidationRule::default()
        });
    }
    definition
}
