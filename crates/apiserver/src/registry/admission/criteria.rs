//! Which requests a policy, a binding or a webhook is for.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::{Call, Object};
use super::intent::{Form, Intent, Operation};
use crate::builtin::selector;
use crate::resource::GroupResource;
use crate::selector::LabelSelector;
use crate::status::ApiError;

/// What a request must be like.
#[derive(Debug)]
pub(super) struct Criteria {
    /// Nothing where every namespace is chosen.
    namespaces: Option<LabelSelector>,
    objects: Option<LabelSelector>,
    excluded: Vec<Rule>,
    rules: Vec<Rule>,
    /// Without rules everything is meant, as in a binding, or nothing, as in a webhook.
    all_without_rules: bool,
    /// Whether other forms of the same object count.
    equivalent: bool,
}

/// Operations on resources.
#[derive(Debug)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: String,
    names: Vec<String>,
}

impl Criteria {
    /// Those of a policy or a binding.
    pub(super) fn of_policy(value: &Value) -> Self {
        Self {
            excluded: rules(&value["excludeResourceRules"]),
            rules: rules(&value["resourceRules"]),
            all_without_rules: true,
            ..Self::of_webhook(value)
        }
    }

    /// Those of a webhook.
    pub(super) fn of_webhook(value: &Value) -> Self {
        Self {
            namespaces: chosen(&value["namespaceSelector"]),
            objects: chosen(&value["objectSelector"]),
            excluded: Vec::new(),
            rules: rules(&value["rules"]),
            all_without_rules: false,
            equivalent: value["matchPolicy"] != "Exact",
        }
    }

    /// The form in which a request is meant, if it is.
    pub(super) fn find<'i>(
        &self,
        call: &Call<'_>,
        intent: &'i Intent,
    ) -> Result<Option<&'i Form>, ApiError> {
        let namespace = self.chooses_namespace(call, intent);
        if matches!(namespace, Ok(false)) || !self.chooses_object(intent) {
            return Ok(None);
        }
        if self.matched(&self.excluded, intent).is_some() {
            return Ok(None);
        }
        let found = match self.rules.is_empty() && self.all_without_rules {
            true => Some(intent.own()),
            false => self.matched(&self.rules, intent),
        };
        // A namespace that is not there matters only to what is meant otherwise.
        if found.is_some() { namespace.map(|_| found) } else { Ok(None) }
    }

    fn matched<'i>(&self, rules: &[Rule], intent: &'i Intent) -> Option<&'i Form> {
        let forms = if self.equivalent { &intent.forms[..] } else { &intent.forms[..1] };
        forms.iter().find(|form| rules.iter().any(|rule| rule.matches(intent, form)))
    }

    fn chooses_namespace(&self, call: &Call<'_>, intent: &Intent) -> Result<bool, ApiError> {
        let Some(selector) = &self.namespaces else { return Ok(true) };
        if intent.namespace.is_empty() && !intent.is_namespace() {
            return Ok(true);
        }
        let written = matches!(intent.operation, Operation::Create | Operation::Update);
        if intent.is_namespace() && intent.subresource.is_empty() && written {
            return Ok(selector.matches(&labels(&intent.object)));
        }
        let namespace = Value::Object(call.own_namespace(intent)?);
        Ok(selector.matches(&labels(&namespace)))
    }

    fn chooses_object(&self, intent: &Intent) -> bool {
        let Some(selector) = &self.objects else { return true };
        let chooses = |object: &Value| object.is_object() && selector.matches(&labels(object));
        chooses(&intent.object) || chooses(&intent.old)
    }
}

impl Call<'_> {
    /// The namespace that a request is in.
    pub(super) fn own_namespace(&self, intent: &Intent) -> Result<Object, ApiError> {
        let name = &intent.namespace;
        let found = self.server.read("", "namespaces", None, name)?;
        found.ok_or_else(|| ApiError::not_found(&GroupResource::new("", "namespaces"), name))
    }
}

/// A selector that chooses some; nothing for one that chooses all. The kinds' own rules have seen to
/// it that it can be read.
fn chosen(value: &Value) -> Option<LabelSelector> {
    let selector = LabelSelector::parse(&selector::text(value)?).ok()?;
    (!selector.is_empty()).then_some(selector)
}

fn labels(object: &Value) -> BTreeMap<String, String> {
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

fn rules(value: &Value) -> Vec<Rule> {
    let texts = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let rules = value.as_array().into_iter().flatten();
    rules
        .map(|rule| Rule {
            operations: texts(&rule["operations"]),
            groups: texts(&rule["apiGroups"]),
            versions: texts(&rule["apiVersions"]),
            resources: texts(&rule["resources"]),
            scope: rule["scope"].as_str().unwrap_or("*").to_owned(),
            names: texts(&rule["resourceNames"]),
        })
        .collect()
}

impl Rule {
    fn matches(&self, intent: &Intent, form: &Form) -> bool {
        let any = |items: &[String], wanted: &str| items.iter().any(|i| i == "*" || i == wanted);
        let clustered = intent.is_namespace() || intent.namespace.is_empty();
        let scoped = match self.scope.as_str() {
            "Namespaced" => !clustered,
            "Cluster" => clustered,
            _ => true,
        };
        let resource = |one: &String| {
            let (resource, part) = one.split_once('/').unwrap_or((one, ""));
            (resource == "*" || resource == intent.resource)
                && (part == "*" || part == intent.subresource)
        };
        scoped
            && any(&self.operations, intent.operation.as_str())
            && any(&self.groups, &form.group)
            && any(&self.versions, &form.version)
            && self.resources.iter().any(resource)
            && (self.names.is_empty() || self.names.contains(&intent.name))
    }
}
