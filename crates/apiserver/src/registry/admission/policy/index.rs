//! The policies and their bindings, compiled and kept by version.

use std::sync::Arc;

use serde_json::Value;

use super::super::super::Object;
use super::super::super::metadata::{meta, text};
use super::super::criteria::Criteria;
use super::said;
use crate::cel::admission::{Environment, Expression, Gives};

/// Every policy with its bindings, in the order of their names.
#[derive(Debug, Default)]
pub(crate) struct Policies(Vec<Bound>);

/// A policy that is bound to something.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) policy: Arc<Policy>,
    pub(super) bindings: Vec<Binding>,
}

/// A compiled policy.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    version: String,
    pub(super) criteria: Criteria,
    /// Whether what cannot be evaluated refuses the request.
    pub(super) fails: bool,
    /// `apiVersion` and `kind` of its parameters.
    pub(super) param_kind: Option<(String, String)>,
    pub(super) environment: Environment,
    pub(super) conditions: Vec<Compiled>,
    pub(super) validations: Vec<Validation>,
    pub(super) annotations: Vec<Annotation>,
}

/// An expression, or why it does not compile any more.
pub(in crate::registry::admission) type Compiled = Result<Expression, String>;

#[derive(Debug)]
pub(super) struct Validation {
    pub(super) expression: Compiled,
    pub(super) source: String,
    pub(super) message: String,
    pub(super) wording: Option<Compiled>,
    pub(super) reason: Option<String>,
}

#[derive(Debug)]
pub(super) struct Annotation {
    pub(super) key: String,
    pub(super) source: String,
    pub(super) value: Compiled,
}

/// Where a policy counts, with which parameters, and what follows.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) policy: String,
    pub(super) actions: Vec<Action>,
    /// The actions as they were written.
    pub(super) said: Value,
    pub(super) param_ref: Option<Value>,
    pub(super) criteria: Option<Criteria>,
}

/// What follows from a broken rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Deny,
    Warn,
    Audit,
}

impl Policies {
    pub(in crate::registry::admission) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Bound> {
        self.0.iter()
    }

    /// The index of these objects; what is known already is not compiled again.
    pub(crate) fn of(known: &Self, policies: Vec<Object>, bindings: Vec<Object>) -> Self {
        let mut bindings: Vec<Binding> =
            bindings.into_iter().map(|b| Binding::of(&Value::Object(b))).collect();
        bindings.sort_by(|a, b| a.name.cmp(&b.name));
        let mut bound = Vec::new();
        for object in policies {
            let name = text(meta(&object), "name").to_owned();
            let own: Vec<Binding> = bindings.extract_if(.., |b| b.policy == name).collect();
            if own.is_empty() {
                continue;
            }
            let version = text(meta(&object), "resourceVersion").to_owned();
            let same = known.0.iter().map(|bound| &bound.policy);
            let mut same = same.filter(|policy| policy.name == name && policy.version == version);
            let policy = match same.next() {
                Some(policy) => Arc::clone(policy),
                None => Arc::new(Policy::of(name, version, &Value::Object(object))),
            };
            bound.push(Bound { policy, bindings: own });
        }
        bound.sort_by(|a, b| a.policy.name.cmp(&b.policy.name));
        Self(bound)
    }
}

impl Policy {
    fn of(name: String, version: String, object: &Value) -> Self {
        let spec = &object["spec"];
        let list = |field: &str| spec[field].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = &spec["paramKind"];
        let param_kind = kind.is_object().then(|| (text(&kind["apiVersion"]), text(&kind["kind"])));
        let mut environment = Environment::new(param_kind.is_some(), true);
        for variable in list("variables") {
            // One that does not compile fails whatever reads it, which is when it is told.
            let _ = environment.compose(&text(&variable["name"]), &text(&variable["expression"]));
        }
        let conditions = list("matchConditions")
            .iter()
            .map(|one| environment.compile(&text(&one["expression"]), Gives::Bool, true))
            .collect();
        let validations = list("validations")
            .iter()
            .map(|one| Validation {
                expression: environment.compile(&text(&one["expression"]), Gives::Bool, true),
                source: text(&one["expression"]),
                message: text(&one["message"]),
                wording: said(&one["messageExpression"])
                    .map(|source| environment.compile(&source, Gives::Text, false)),
                reason: said(&one["reason"]),
            })
            .collect();
        let annotations = list("auditAnnotations")
            .iter()
            .map(|one| Annotation {
                key: text(&one["key"]),
                source: text(&one["valueExpression"]),
                value: environment.compile(&text(&one["valueExpression"]), Gives::TextOrNull, true),
            })
            .collect();
        Self {
            name,
            version,
            criteria: Criteria::of_policy(&spec["matchConstraints"]),
            fails: spec["failurePolicy"] != "Ignore",
            param_kind,
            environment,
            conditions,
            validations,
            annotations,
        }
    }
}

impl Binding {
    fn of(object: &Value) -> Self {
        let spec = &object["spec"];
        let actions = spec["validationActions"].as_array().into_iter().flatten();
        let actions = actions.filter_map(|action| match action.as_str()? {
            "Deny" => Some(Action::Deny),
            "Warn" => Some(Action::Warn),
            "Audit" => Some(Action::Audit),
            _ => None,
        });
        Self {
            name: said(&object["metadata"]["name"]).unwrap_or_default(),
            policy: said(&spec["policyName"]).unwrap_or_default(),
            actions: actions.collect(),
            said: spec["validationActions"].clone(),
            param_ref: spec["paramRef"].is_object().then(|| spec["paramRef"].clone()),
            criteria: spec["matchResources"]
                .is_object()
                .then(|| Criteria::of_policy(&spec["matchResources"])),
        }
    }
}
