//! A policy's judgement of one request with one parameter.

use serde_json::Value;

use super::super::super::Call;
use super::super::intent::{Form, Intent};
use super::index::{Compiled, Policy};
use crate::cel::admission::{
    BUDGET, Environment, Expression, Facts, MATCH_BUDGET, OUT_OF_BUDGET, OutOfBudget, Outcome,
};
use crate::status::ApiError;

/// The longest message that an expression may make, in bytes.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// What a policy says of a request.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) decisions: Vec<Decision>,
    /// Audit annotations by key; an error is one that refuses the request.
    pub(super) annotations: Vec<(String, Result<String, String>)>,
}

/// What one validation says.
#[derive(Debug)]
pub(super) enum Decision {
    Admit,
    Deny { message: String, reason: Option<String> },
}

/// What expressions are evaluated on.
pub(in crate::registry::admission) struct Evidence {
    object: Value,
    old: Value,
    request: Value,
    /// The request in its own form, as match conditions see it.
    own_request: Value,
    namespace: Value,
}

impl Evidence {
    /// What there is to see of a request in a form.
    pub(in crate::registry::admission) fn of(
        call: &Call<'_>,
        intent: &Intent,
        form: &Form,
    ) -> Result<Self, ApiError> {
        let namespace = match intent.namespace.is_empty() || intent.is_namespace() {
            true => Value::Null,
            false => namespace_object(Value::Object(call.own_namespace(intent)?)),
        };
        let mut own_request = intent.request(form, call.user);
        own_request.insert("resource".to_owned(), own_request["requestResource"].clone());
        Ok(Self {
            object: intent.in_form(&intent.object, form),
            old: intent.in_form(&intent.old, form),
            request: intent.request(form, call.user).into(),
            own_request: own_request.into(),
            namespace,
        })
    }

    /// The same for expressions.
    pub(in crate::registry::admission) fn facts<'a>(
        &'a self,
        call: &'a Call<'_>,
        params: &'a Value,
    ) -> Facts<'a> {
        Facts {
            object: &self.object,
            old_object: &self.old,
            params,
            request: &self.request,
            namespace: &self.namespace,
            user: call.user,
            authority: call.server,
        }
    }
}

/// A namespace without what expressions are not shown of it.
fn namespace_object(mut namespace: Value) -> Value {
    if let Some(object) = namespace.as_object_mut() {
        object.retain(|field, _| matches!(field.as_str(), "metadata" | "spec" | "status"));
    }
    if let Some(metadata) = namespace["metadata"].as_object_mut() {
        metadata.retain(|field, _| !matches!(field.as_str(), "managedFields" | "ownerReferences"));
    }
    namespace
}

impl Policy {
    /// Judges a request with a parameter, or with none.
    pub(super) fn judge(&self, call: &Call<'_>, evidence: &Evidence, params: &Value) -> Verdict {
        let facts = evidence.facts(call, params);
        let unseen = Facts { request: &evidence.own_request, namespace: &Value::Null, ..facts };
        match matches(&self.environment, &self.conditions, &unseen) {
            Ok(true) => {}
            Ok(false) => return Verdict::default(),
            Err(_) if !self.fails => return Verdict::default(),
            Err(why) => return self.failed(why),
        }
        let mut budget = BUDGET;
        let expressions = self.validations.iter().map(|v| Some(&v.expression));
        let Ok(outcomes) = run(&self.environment, expressions, &facts, &mut budget) else {
            return self.failed(OUT_OF_BUDGET.to_owned());
        };
        let wordings = self.validations.iter().map(|v| v.wording.as_ref());
        let wordings = run(&self.environment, wordings, &facts, &mut budget);
        let decide = |(n, outcome): (usize, Option<Outcome>)| {
            let validation = &self.validations[n];
            let wording = match &wordings {
                Ok(all) => all.get(n).and_then(Option::as_ref),
                Err(OutOfBudget) if !matches!(outcome, Some(Outcome::Failed(_))) => {
                    return self.error(format!("failed messageExpression: {OUT_OF_BUDGET}"));
                }
                Err(OutOfBudget) => None,
            };
            match outcome {
                Some(Outcome::Bool(true)) => Decision::Admit,
                Some(Outcome::Failed(why)) => self.error(why),
                _ => Decision::Deny {
                    message: message(wording, &validation.message, &validation.source),
                    reason: validation.reason.clone(),
                },
            }
        };
        let decisions = outcomes.into_iter().enumerate().map(decide).collect();
        let mut budget = BUDGET;
        let values = self.annotations.iter().map(|a| Some(&a.value));
        let Ok(values) = run(&self.environment, values, &facts, &mut budget) else {
            return self.failed(OUT_OF_BUDGET.to_owned());
        };
        let annotate = |(n, value): (usize, Option<Outcome>)| {
            let annotation = &self.annotations[n];
            let value = match value? {
                Outcome::Text(text) => match text.trim() {
                    "" => return None,
                    text => Ok(text.to_owned()),
                },
                Outcome::Null => return None,
                Outcome::Failed(_) if !self.fails => return None,
                Outcome::Failed(why) => Err(why),
                Outcome::Bool(_) => Err(unsupported(&annotation.source, "bool")),
                Outcome::Other(name) => Err(unsupported(&annotation.source, name)),
            };
            Some((annotation.key.clone(), value))
        };
        let annotations = values.into_iter().enumerate().filter_map(annotate).collect();
        Verdict { decisions, annotations }
    }

    fn failed(&self, why: String) -> Verdict {
        Verdict { decisions: vec![self.error(why)], annotations: Vec::new() }
    }

    fn error(&self, message: String) -> Decision {
        if self.fails { Decision::Deny { message, reason: None } } else { Decision::Admit }
    }
}

fn unsupported(source: &str, found: &str) -> String {
    format!(
        "valueExpression '{source}' resulted in unsupported return type: {found}. Return type must be either string or null."
    )
}

/// What is said of a broken rule.
fn message(wording: Option<&Outcome>, message: &str, source: &str) -> String {
    let worded = match wording {
        Some(Outcome::Text(text)) => text.trim(),
        _ => "",
    };
    if !worded.is_empty() && worded.len() <= LONGEST_MESSAGE && !worded.contains('\n') {
        return worded.to_owned();
    }
    match message.trim() {
        "" => format!("failed expression: {}", source.trim()),
        message => message.to_owned(),
    }
}

/// Whether all conditions hold; an error where one has no value and none is false.
pub(in crate::registry::admission) fn matches(
    environment: &Environment,
    conditions: &[Compiled],
    facts: &Facts<'_>,
) -> Result<bool, String> {
    let mut budget = MATCH_BUDGET;
    let outcomes = run(environment, conditions.iter().map(Some), facts, &mut budget)
        .map_err(|OutOfBudget| OUT_OF_BUDGET.to_owned())?;
    let mut problems: Vec<String> = Vec::new();
    for outcome in outcomes.into_iter().flatten() {
        match outcome {
            Outcome::Bool(false) => return Ok(false),
            Outcome::Failed(why) if !problems.contains(&why) => problems.push(why),
            _ => {}
        }
    }
    match problems.as_slice() {
        [] => Ok(true),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

/// Evaluates expressions, of which some may not compile any more.
fn run<'e>(
    environment: &Environment,
    expressions: impl Iterator<Item = Option<&'e Compiled>>,
    facts: &Facts<'_>,
    budget: &mut u64,
) -> Result<Vec<Option<Outcome>>, OutOfBudget> {
    let compiled: Vec<Option<&Compiled>> = expressions.collect();
    let programs: Vec<Option<&Expression>> =
        compiled.iter().map(|one| one.and_then(|one| one.as_ref().ok())).collect();
    let mut outcomes = environment.run(&programs, facts, budget)?;
    for (outcome, compiled) in outcomes.iter_mut().zip(compiled) {
        if let Some(Err(why)) = compiled {
            *outcome = Some(Outcome::Failed(format!("compilation error: {why}")));
        }
    }
    Ok(outcomes)
}
