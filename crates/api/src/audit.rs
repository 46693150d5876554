//! What the audit log says of the fleet: who did what to a machine or a node, why, upon what evidence,
//! and what came of it.
//!
//! A controller cannot write into an API server's audit log; admission can. So each row here becomes
//! a `ValidatingAdmissionPolicy` that refuses nothing and annotates the line of the write by which
//! something is decided, as `NAME.fleet.seatrial.dev/KEY`. The user on the line is who wrote it. It
//! works on any API server whose audit policy tells of these resources, and fails open: no note ever
//! stops a write.

use k8s_openapi::api::admissionregistration::v1::{
    AuditAnnotation, MatchCondition, MatchResources, NamedRuleWithOperations,
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::GROUP;

/// What is told of one kind of write.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    /// Its name; that of its policy is `NAME.fleet.seatrial.dev`.
    pub name: &'static str,
    /// What it tells, as a sentence.
    pub tells: &'static str,
    on: (&'static str, &'static str, &'static str),
    when: &'static str,
    /// Keys of annotations, and how each is made of the objects (CEL); what is empty is left out.
    says: &'static [(&'static str, &'static str)],
}

/// The annotation that names the operation which a machine's object holds from now on.
pub const OPERATION: &str = "operations.fleet.seatrial.dev/operation";

/// Everything that is told.
pub const ACCOUNTS: [Account; 7] = [
    Account {
        name: "operations",
        tells: "what is done to a machine: written before its BMC or its agent is told",
        on: (GROUP, "machines/status", "UPDATE"),
        when: "has(object.status) && has(object.status.operation) && (!has(oldObject.status) || \
               !has(oldObject.status.operation) || \
               oldObject.status.operation != object.status.operation)",
        says: &[
            ("operation", "object.status.operation.id"),
            (
                "effect",
                "has(object.status.operation.effect.power) \
                 ? 'power ' + object.status.operation.effect.power \
                 : 'chore ' + object.status.operation.effect.chore",
            ),
            ("why", "object.status.operation.why"),
            (
                "request",
                "has(object.status.operation.request) ? object.status.operation.request : ''",
            ),
        ],
    },
    Account {
        name: "requests",
        tells: "what is asked of a machine, by whom and upon what evidence",
        on: (GROUP, "machines", "UPDATE"),
        when: "has(object.spec.request) && (!has(oldObject.spec.request) || \
               oldObject.spec.request.id != object.spec.request.id)",
        says: &[
            ("request", "object.spec.request.id"),
            (
                "ask",
                "object.spec.request.ask + \
                 (has(object.spec.request.target) ? ' ' + object.spec.request.target : '')",
            ),
            ("by", "object.spec.request.by"),
            ("why", "object.spec.request.why"),
            (
                "evidence",
                "has(object.spec.request.evidence) ? object.spec.request.evidence.join('; ') : ''",
            ),
            ("incident", "has(object.spec.request.incident) ? object.spec.request.incident : ''"),
        ],
    },
    Account {
        name: "answers",
        tells: "what came of a request",
        on: (GROUP, "machines/status", "UPDATE"),
        when: "has(object.status) && has(object.status.answer) && (!has(oldObject.status) || \
               !has(oldObject.status.answer) || oldObject.status.answer != object.status.answer)",
        says: &[
            ("request", "object.status.answer.id"),
            ("outcome", "object.status.answer.outcome"),
            ("why", "object.status.answer.why"),
        ],
    },
    Account {
        name: "incidents",
        tells: "what a node is found to have",
        on: (GROUP, "incidents", "CREATE"),
        when: "true",
        says: &[
            ("node", "object.spec.node"),
            ("cause", "object.spec.cause"),
            ("by", "object.spec.by"),
            ("evidence", "object.spec.evidence.join('; ')"),
        ],
    },
    Account {
        name: "stages",
        tells: "how far an incident has come",
        on: (GROUP, "incidents/status", "UPDATE"),
        when: "has(object.status) && (!has(oldObject.status) || \
               oldObject.status.stage != object.status.stage)",
        says: &[
            ("node", "object.spec.node"),
            ("stage", "object.status.stage"),
            ("why", "has(object.status.why) ? object.status.why : ''"),
        ],
    },
    Account {
        name: "phases",
        tells: "which phase somebody asks a node to enter",
        on: ("", "nodes/status", "UPDATE"),
        when: "!request.userInfo.username.startsWith('system:node:') && \
               has(object.status.conditions) && object.status.conditions.exists(c, \
               c.type in ['PendingPhase', 'ImmediatePhase'] && \
               !(has(oldObject.status.conditions) && oldObject.status.conditions.exists(o, \
               o.type == c.type && o.status == c.status && o.reason == c.reason)))",
        says: &[(
            "phase",
            "object.status.conditions.filter(c, c.type in ['PendingPhase', 'ImmediatePhase'])\
             .map(c, c.type + '=' + c.status + ' ' + (has(c.reason) ? c.reason : '') + \
             (has(c.message) ? ': ' + c.message : '')).join('; ')",
        )],
    },
    Account {
        name: "cordons",
        tells: "whether work may come to a node, and the incident for which it may not",
        on: ("", "nodes", "UPDATE"),
        when: "(has(object.spec.unschedulable) && object.spec.unschedulable) != \
               (has(oldObject.spec.unschedulable) && oldObject.spec.unschedulable)",
        says: &[
            (
                "cordon",
                "has(object.spec.unschedulable) && object.spec.unschedulable \
                 ? 'cordoned' : 'uncordoned'",
            ),
            (
                "incident",
                "has(object.metadata.annotations) && \
                 'fleet.seatrial.dev/cordoned-for' in object.metadata.annotations \
                 ? object.metadata.annotations['fleet.seatrial.dev/cordoned-for'] : ''",
            ),
        ],
    },
];

impl Account {
    /// The name of its policy and of its binding, before the keys of its annotations.
    pub fn policy_name(&self) -> String {
        format!("{}.{GROUP}", self.name)
    }

    /// The keys of its annotations, whole.
    pub fn keys(&self) -> impl Iterator<Item = String> {
        self.says.iter().map(|(key, _)| format!("{}/{key}", self.policy_name()))
    }

    /// Its policy, and the binding that puts it into force.
    pub fn policy(&self) -> (ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding) {
        let named = ObjectMeta { name: Some(self.policy_name()), ..ObjectMeta::default() };
        let (group, resource, operation) = self.on;
        let one = |word: &str| Some(vec![word.to_owned()]);
        let rule = NamedRuleWithOperations {
            api_groups: one(group),
            api_versions: one("*"),
            operations: one(operation),
            resources: one(resource),
            ..NamedRuleWithOperations::default()
        };
        let annotation = |(key, value): &(&str, &str)| AuditAnnotation {
            key: (*key).to_owned(),
            // What comes out of an object has any type for an API server that has not seen one yet.
            value_expression: format!("string({value})"),
        };
        let policy = ValidatingAdmissionPolicy {
            metadata: named.clone(),
            spec: Some(ValidatingAdmissionPolicySpec {
                failure_policy: Some("Ignore".to_owned()),
                match_constraints: Some(MatchResources {
                    resource_rules: Some(vec![rule]),
                    ..MatchResources::default()
                }),
                match_conditions: Some(vec![MatchCondition {
                    name: "it-is-decided".to_owned(),
                    expression: self.when.to_owned(),
                }]),
                audit_annotations: Some(self.says.iter().map(annotation).collect()),
                ..ValidatingAdmissionPolicySpec::default()
            }),
            status: None,
        };
        let binding = ValidatingAdmissionPolicyBinding {
            metadata: named,
            spec: Some(ValidatingAdmissionPolicyBindingSpec {
                policy_name: Some(self.policy_name()),
                validation_actions: Some(vec!["Audit".to_owned()]),
                ..ValidatingAdmissionPolicyBindingSpec::default()
            }),
        };
        (policy, binding)
    }
}
