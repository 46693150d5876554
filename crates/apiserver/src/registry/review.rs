//! Reviews: questions about users and rights, asked as a create. Nothing is stored.
//!
//! They are answered from what authenticates and authorizes requests here, so that a review and a
//! request agree. Of the selectors in the attributes of an access review only a field selector in
//! text is looked at, which is all that the node authorizer knows.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::admit::Admission;
use super::metadata::{meta, meta_mut, text};
use super::{Call, Object};
use crate::auth::User;
use crate::auth::authn::{CredentialError, Credentials};
use crate::auth::authz::{Attributes, Decision, Target};
use crate::request::WriteOptions;
use crate::resource::{GroupKind, Resource};
use crate::schema::field::{FieldError, FieldPath};
use crate::selector::FieldSelector;
use crate::status::ApiError;
use crate::wire::Answer;

/// A kind of question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Review {
    Myself,
    Token,
    MyRules,
    /// Whether somebody may do something.
    Access(Whose),
}

/// Whose rights an access review asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    Mine,
    Anybodys,
    /// Anybody's, in the request's namespace.
    AnybodysHere,
}

impl Review {
    /// The question that creating an object of this resource asks, if it is one.
    pub(super) fn of(resource: &Resource) -> Option<Self> {
        match (resource.group.as_str(), resource.plural.as_str()) {
            ("authentication.k8s.io", "selfsubjectreviews") => Some(Self::Myself),
            ("authentication.k8s.io", "tokenreviews") => Some(Self::Token),
            ("authorization.k8s.io", "selfsubjectrulesreviews") => Some(Self::MyRules),
            ("authorization.k8s.io", "selfsubjectaccessreviews") => Some(Self::Access(Whose::Mine)),
            ("authorization.k8s.io", "subjectaccessreviews") => Some(Self::Access(Whose::Anybodys)),
            ("authorization.k8s.io", "localsubjectaccessreviews") => {
                Some(Self::Access(Whose::AnybodysHere))
            }
            _ => None,
        }
    }
}

impl Call<'_> {
    /// Answers a review.
    pub(super) fn review(&mut self, review: Review) -> Result<Answer, ApiError> {
        let options = WriteOptions::parse(&self.query, "CreateOptions")?;
        let mut object = self.decode(&options)?;
        self.check_namespace(&object)?;
        if let Some(namespace) = &self.namespace {
            meta_mut(&mut object).insert("namespace".to_owned(), namespace.clone().into());
        }
        let spec = object.get("spec").cloned().unwrap_or_default();
        let status = match review {
            Review::Myself => json!({"userInfo": user_info(self.user)}),
            Review::MyRules => self.my_rules(&spec)?,
            Review::Token => self.token_status(&spec)?,
            Review::Access(whose) => {
                let errors = wrong_with(whose, &object);
                if !errors.is_empty() {
                    // Upstream's own object does not know its kind here.
                    let group = self.resource.group.clone();
                    let kind = GroupKind { group, kind: String::new() };
                    return Err(ApiError::invalid(&kind, "", &errors));
                }
                self.access_status(whose, &spec)
            }
        };
        let mut object = match review {
            // These two answer with a new object, not with the question completed.
            Review::Myself => {
                let metadata = json!({"creationTimestamp": self.server.now()});
                Map::from_iter([("metadata".to_owned(), metadata)])
            }
            Review::MyRules => {
                let empty = |field: &str| (field.to_owned(), json!({}));
                Map::from_iter([empty("metadata"), empty("spec")])
            }
            Review::Token | Review::Access(_) => {
                self.track(None, object, &Admission::write(&options))?
            }
        };
        object.insert("status".to_owned(), status);
        Ok(self.answer(StatusCode::CREATED, object))
    }

    fn access_status(&self, whose: Whose, spec: &Value) -> Value {
        let asked = match whose {
            Whose::Mine => self.user.clone(),
            Whose::Anybodys | Whose::AnybodysHere => user_of(spec),
        };
        let selector = selector(spec);
        match self.server.decide(&asked, &attributes(spec), selector.as_ref()) {
            Decision::Allow { reason } => status(true, reason),
            Decision::NoOpinion { reason } => status(false, reason),
        }
    }

    fn my_rules(&self, spec: &Value) -> Result<Value, ApiError> {
        let namespace = string(spec, "namespace");
        if namespace.is_empty() {
            return Err(ApiError::bad_request("no namespace on request"));
        }
        let (mut resources, mut paths, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        let rbac = self.server.rbac();
        for grant in rbac.grants(self.user, namespace) {
            let rules = match grant {
                Ok(grant) => grant.rules,
                Err(problem) => {
                    problems.push(problem.as_authorizer());
                    continue;
                }
            };
            for rule in rules {
                if !rule.resources.is_empty() {
                    resources.push(without_empty(json!({
                        "verbs": rule.verbs,
                        "apiGroups": rule.api_groups,
                        "resources": rule.resources,
                        "resourceNames": rule.resource_names,
                    })));
                }
                if !rule.non_resource_urls.is_empty() {
                    paths.push(json!({
                        "verbs": rule.verbs,
                        "nonResourceURLs": rule.non_resource_urls,
                    }));
                }
            }
        }
        let mut status =
            json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
        if !problems.is_empty() {
            status["evaluationError"] = problems.join(", ").into();
        }
        Ok(status)
    }

    fn token_status(&self, spec: &Value) -> Result<Value, ApiError> {
        let token = string(spec, "token");
        if token.is_empty() {
            return Err(ApiError::bad_request(
                "token is required for TokenReview in authentication",
            ));
        }
        let header = format!("Bearer {token}");
        let wanted = strings(spec, "audiences");
        let credentials = Credentials {
            authorization: Some(header.as_bytes()),
            audiences: (!wanted.is_empty()).then_some(&wanted[..]),
            ..Credentials::default()
        };
        let found = self.server.authenticator().authenticate(&credentials, self.server.timestamp());
        Ok(match found {
            Ok(found) => without_empty(json!({
                "authenticated": true,
                "user": user_info(&found.user),
                "audiences": found.audiences,
            })),
            Err(refused) => json!({"user": {}, "error": told(&refused.rejected)}),
        })
    }
}

/// What a review tells of a token that is not good.
fn told(rejected: &[CredentialError]) -> String {
    let texts: Vec<String> = rejected
        .iter()
        .map(|error| match error {
            CredentialError::UnknownToken => "invalid bearer token".to_owned(),
            other => other.to_string(),
        })
        .collect();
    match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// What forbids to answer an access review.
fn wrong_with(whose: Whose, object: &Object) -> Vec<FieldError> {
    let empty = json!({});
    let spec = object.get("spec").unwrap_or(&empty);
    let at = |field: &str| FieldPath::root().child("spec").child(field);
    let given = |field: &str| spec.get(field).filter(|value| !value.is_null());
    let (resource, path) = (given("resourceAttributes"), given("nonResourceAttributes"));
    let mut errors = Vec::new();
    let mut wrong = |path: FieldPath, value: Value, detail: &str| {
        errors.push(FieldError::invalid(path, value, detail));
    };
    match (resource, path) {
        (Some(_), Some(path)) => wrong(
            at("nonResourceAttributes"),
            json!({"Path": string(path, "path"), "Verb": string(path, "verb")}),
            "cannot be specified in combination with resourceAttributes",
        ),
        (None, None) => wrong(
            at("resourceAttributes"),
            Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        _ => {}
    }
    if whose != Whose::Mine && string(spec, "user").is_empty() && strings(spec, "groups").is_empty()
    {
        wrong(at("user"), "".into(), "at least one of user or group must be specified");
    }
    let here = whose == Whose::AnybodysHere;
    let own = ["creationTimestamp", "managedFields", "namespace"];
    let own = if here { &own[..] } else { &own[..2] };
    let metadata = meta(object);
    if metadata.iter().any(|(key, value)| !own.contains(&key.as_str()) && !value.is_null()) {
        let detail = if here { "must be empty except for namespace" } else { "must be empty" };
        wrong(FieldPath::root().child("metadata"), metadata.clone().into(), detail);
    }
    if !here {
        return errors;
    }
    let namespace = resource.map(|resource| string(resource, "namespace"));
    if let Some(namespace) = namespace.filter(|n| *n != text(metadata, "namespace")) {
        let at = at("resourceAttributes").child("namespace");
        wrong(at, namespace.into(), "must match metadata.namespace");
    }
    if let Some(path) = path {
        let value = json!({"Path": string(path, "path"), "Verb": string(path, "verb")});
        wrong(at("nonResourceAttributes"), value, "disallowed on this kind of request");
    }
    errors
}

/// What the specification of an access review attempts.
fn attributes(spec: &Value) -> Attributes<'_> {
    if let Some(resource) = spec.get("resourceAttributes").filter(|r| !r.is_null()) {
        let target = Target::Resource {
            group: string(resource, "group"),
            resource: string(resource, "resource"),
            subresource: string(resource, "subresource"),
            namespace: string(resource, "namespace"),
            name: string(resource, "name"),
        };
        return Attributes { verb: string(resource, "verb"), target };
    }
    let path = spec.get("nonResourceAttributes").unwrap_or(&Value::Null);
    Attributes { verb: string(path, "verb"), target: Target::Path(string(path, "path")) }
}

/// What the specification narrows a request on a collection by, as far as it is a selector in text.
fn selector(spec: &Value) -> Option<FieldSelector> {
    let raw = spec.pointer("/resourceAttributes/fieldSelector/rawSelector")?.as_str()?;
    FieldSelector::parse(raw).ok()
}

/// The user that a specification describes.
fn user_of(spec: &Value) -> User {
    let extra = spec.get("extra").and_then(Value::as_object);
    let extra = extra.into_iter().flatten().map(|(key, values)| {
        let values = values.as_array().into_iter().flatten();
        (key.clone(), values.filter_map(Value::as_str).map(str::to_owned).collect())
    });
    User {
        name: string(spec, "user").to_owned(),
        uid: string(spec, "uid").to_owned(),
        groups: strings(spec, "groups"),
        extra: extra.collect(),
    }
}

fn user_info(user: &User) -> Value {
    without_empty(json!({
        "username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra,
    }))
}

fn status(allowed: bool, reason: String) -> Value {
    let mut status = json!({"allowed": allowed});
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    status
}

/// An object without its empty fields, which upstream does not write.
fn without_empty(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, value| match value {
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            _ => true,
        });
    }
    value
}

fn string<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn strings(value: &Value, field: &str) -> Vec<String> {
    let items = value.get(field).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(whose: Whose, object: Value, want: &[&str]) {
        let errors = wrong_with(whose, object.as_object().unwrap());
        let fields: Vec<String> = errors.iter().map(|e| e.path.to_string()).collect();
        assert_eq!(fields, want, "{object}");
    }

    #[test]
    fn access_reviews_ask_one_thing_about_somebody() {
        let pods = json!({"verb": "get", "resource": "pods", "namespace": "a"});
        let path = json!({"verb": "get", "path": "/x"});
        check(Whose::Mine, json!({"spec": {"resourceAttributes": pods}}), &[]);
        check(Whose::Mine, json!({"spec": {}}), &["spec.resourceAttributes"]);
        check(
            Whose::Mine,
            json!({"spec": {"resourceAttributes": pods, "nonResourceAttributes": path}}),
            &["spec.nonResourceAttributes"],
        );
        check(Whose::Anybodys, json!({"spec": {"nonResourceAttributes": path}}), &["spec.user"]);
        check(
            Whose::Anybodys,
            json!({"metadata": {"name": "x"}, "spec": {"user": "u", "nonResourceAttributes": path}}),
            &["metadata"],
        );
        check(
            Whose::AnybodysHere,
            json!({"metadata": {"namespace": "b"}, "spec": {"user": "u", "resourceAttributes": pods}}),
            &["spec.resourceAttributes.namespace"],
        );
    }

    #[test]
    fn attributes_come_from_the_specification() {
        let spec = json!({"resourceAttributes": {"verb": "get", "resource": "pods"}});
        let got = attributes(&spec);
        assert_eq!(got.verb, "get");
        assert!(matches!(got.target, Target::Resource { resource: "pods", group: "", .. }));
        let spec = json!({"nonResourceAttributes": {"verb": "get", "path": "/x"}});
        assert!(matches!(attributes(&spec).target, Target::Path("/x")));
    }
}
