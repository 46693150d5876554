//! From the bytes of a body to an object that may be stored: decode, shape, track, validate.
//!
//! *Decode* reads the body and holds kind and version against the path. *Shape* prunes what the
//! schema does not know and fills in defaults. *Track* keeps `managedFields`. *Validate* holds the
//! object against its kind's rules and, on an update, against what was stored.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::admission::csr;
use super::metadata::{meta, text};
use super::strategy::Strategy;
use super::{Call, Object, pod_parts};
use crate::apply;
use crate::builtin::{self, validate};
use crate::crd;
use crate::decode;
use crate::request::{FieldValidation, ResourcePath, Verb, WriteOptions};
use crate::resource::{GroupKind, Resource, group_version};
use crate::sabotage::Sabotage;
use crate::schema::Schema;
use crate::schema::field::{FieldError, FieldPath};
use crate::schema::metadata as rules;
use crate::schema::names::NameRule;
use crate::schema::{coerce, default, prune};
use crate::status::ApiError;
use crate::wire::negotiate::{self, PROTOBUF};

/// The media types of bodies that this server reads. Custom resources know no protobuf, and are told of
/// it all the same, as by upstream.
pub(super) const BODY_TYPES: &str =
    "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// The most an operation's manager name may hold, in characters; longer user agents are cut.
const MAX_MANAGER: usize = 128;

/// Who makes a change, and how it is recorded in `managedFields`.
pub(super) struct Admission<'a> {
    manager: Option<&'a str>,
    /// Server-side apply has recorded its own fields already.
    applied: bool,
}

impl<'a> Admission<'a> {
    pub(super) fn write(options: &'a WriteOptions) -> Self {
        Self { manager: options.field_manager.as_deref(), applied: false }
    }

    pub(super) fn apply(options: &'a WriteOptions) -> Self {
        Self { manager: options.field_manager.as_deref(), applied: true }
    }
}

/// What becomes of nulls that the schema does not admit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nulls {
    /// They count as absent.
    Dropped,
    /// They are what was applied, and refused.
    Kept,
}

/// What an [`apply::Context`] borrows.
pub(super) struct ApplyContext {
    resource: Arc<Resource>,
    version: usize,
    /// `apiVersion` in each version of the resource.
    api_versions: Vec<String>,
    /// The kind of the body, where it is not the resource's.
    part: Option<(String, String, Option<Arc<Schema>>)>,
    empty: Option<Value>,
    manager: String,
    subresource: String,
    now: Timestamp,
    reset: apply::FieldSet,
}

impl ApplyContext {
    /// Calls `with` with the context; the list of other versions lives no longer.
    pub(super) fn with<T>(&self, with: impl FnOnce(&apply::Context<'_>) -> T) -> T {
        let versions = self.api_versions.iter().zip(&self.resource.versions).enumerate();
        let others: Vec<(&str, Option<&Schema>)> = versions
            .filter(|(n, (_, version))| *n != self.version && version.served)
            .map(|(_, (name, version))| (name.as_str(), version.schema.as_deref()))
            .collect();
        let own = (
            &self.api_versions[self.version],
            &self.resource.kind,
            self.resource.versions[self.version].schema.as_deref(),
        );
        let part =
            self.part.as_ref().map(|(version, kind, schema)| (version, kind, schema.as_deref()));
        let (api_version, kind, schema) = part.unwrap_or(own);
        with(&apply::Context {
            api_version,
            kind,
            schema,
            other_versions: &others,
            empty: self.empty.as_ref(),
            reset_fields: &self.reset,
            manager: &self.manager,
            subresource: &self.subresource,
            now: self.now,
        })
    }
}

/// The answer for a configuration that cannot be applied.
pub(super) fn apply_failed(error: apply::Error) -> ApiError {
    match error {
        apply::Error::Conflicts(conflicts) => {
            ApiError::apply_conflict(&conflicts.to_string(), conflicts.causes())
        }
        apply::Error::InvalidObjectType(_)
        | apply::Error::ManagedFieldsGiven
        | apply::Error::TooDeep => ApiError::bad_request(error.to_string()),
        error => ApiError::unexplained(error.to_string()),
    }
}

impl Call<'_> {
    /// The body as an object of the request's kind, pruned and defaulted.
    pub(super) fn decode(&mut self, options: &WriteOptions) -> Result<Object, ApiError> {
        let built_in = !self.resource.is_custom() || self.is_scale();
        let decoded = match negotiate::content_type(&self.headers) {
            "application/json" if built_in => decode::json_of_built_in(&self.body),
            "application/json" => decode::json(&self.body),
            "application/yaml" => decode::yaml(&self.body),
            PROTOBUF if built_in => {
                let object = self.decode_protobuf()?;
                return self.shape(object, options, Vec::new(), Nulls::Dropped);
            }
            _ => return Err(ApiError::unsupported_media_type(BODY_TYPES)),
        };
        let kind = self.expected_kind().1;
        let refuse = |e: decode::DecodeError| ApiError::bad_request(e.refusal(&kind, &self.body));
        let mut decoded = decoded.map_err(refuse)?;
        if decoded.value.is_null() && !self.resource.is_custom() {
            decoded.value = json!({});
        }
        let about = decode::type_meta(&decoded.value, &self.body);
        // Built-in kinds are known from the path; a body need not repeat them.
        let about = match about {
            Err(decode::DecodeError::FindKind(_)) if !self.resource.is_custom() => {
                decode::TypeMeta {
                    api_version: text_of(&decoded.value, "apiVersion"),
                    kind: String::new(),
                }
            }
            about => about.map_err(refuse)?,
        };
        self.check_kind(&about, &decoded.value)?;
        let mut object = super::into_object(decoded.value)?;
        let (api_version, kind) = self.expected_kind();
        object.insert("apiVersion".to_owned(), api_version.into());
        object.insert("kind".to_owned(), kind.into());
        self.shape(object, options, decoded.duplicates, Nulls::Dropped)
    }

    /// A protobuf body as the JSON of the same object.
    fn decode_protobuf(&self) -> Result<Object, ApiError> {
        let (api_version, kind) = self.expected_kind();
        let (about, message) = decode::protobuf(&self.body)
            .map_err(|e| ApiError::bad_request(e.refusal(&kind, &self.body)))?;
        self.check_kind(&about, &Value::Null)?;
        let object = builtin::from_protobuf(&api_version, &kind, message);
        let mut object = object.map_err(|why| self.mishandled(&why))?;
        object.insert("apiVersion".to_owned(), api_version.into());
        object.insert("kind".to_owned(), kind.into());
        Ok(object)
    }

    /// Holds what an object says it is against the path.
    pub(super) fn check_kind(
        &self,
        about: &decode::TypeMeta,
        object: &Value,
    ) -> Result<(), ApiError> {
        let (api_version, kind) = self.expected_kind();
        let built_in = !self.resource.is_custom() || self.is_scale();
        let same = |said: &str, expected: &str| said == expected || built_in && said.is_empty();
        if same(&about.api_version, &api_version) && same(&about.kind, &kind) {
            return Ok(());
        }
        if self.is_scale() && self.resource.is_custom() {
            // The place in upstream's source is part of the sentence that clients see.
            let scheme = "pkg/runtime/scheme.go:111";
            return Err(ApiError::bad_request(format!(
                "no kind is registered for the type v1.Scale in scheme {scheme:?}"
            )));
        }
        if built_in {
            let group = api_version.split_once('/').map_or("", |(group, _)| group);
            let why = self.server.table().misplaced(about, group, &kind);
            let (said, version) = (&about.kind, about.api_version.rsplit('/').next());
            let version = version.unwrap_or_default();
            return Err(ApiError::bad_request(format!(
                "{said} in version \"{version}\" cannot be handled as a {kind}: {why}"
            )));
        }
        if about.api_version != api_version {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({}) does not match the expected API version ({api_version})",
                about.api_version
            )));
        }
        let must = format!("must be {kind}");
        let at = FieldPath::root().child("kind");
        let error = FieldError::invalid(at, about.kind.clone(), must);
        let sent = GroupKind { group: self.resource.group.clone(), kind: about.kind.clone() };
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        Err(ApiError::invalid(&sent, name.unwrap_or_default(), &[error]))
    }

    /// Prunes and defaults an object by its schema; unknown and duplicate fields are taken as the
    /// client asked.
    pub(super) fn shape(
        &mut self,
        object: Object,
        options: &WriteOptions,
        duplicates: Vec<String>,
        nulls: Nulls,
    ) -> Result<Object, ApiError> {
        let mut problems: Vec<String> = duplicates;
        let mut value = Value::Object(object);
        let built_in = !self.resource.is_custom() || self.is_scale();
        if built_in {
            let (api_version, kind) = self.expected_kind();
            let object = super::into_object(value)?;
            // An empty list, and nothing else that is empty, says something: forget who owns what.
            let forget = meta(&object).get("managedFields") == Some(&json!([]));
            let empty = |(_, value): &(&String, &Value)| **value == json!([]);
            let empty: Vec<String> = object.iter().filter(empty).map(|(k, _)| k.clone()).collect();
            let shaped = builtin::shape(&api_version, &kind, object, &self.server.now());
            let shaped = shaped.map_err(|why| self.mishandled(&why))?;
            problems.extend(prune::unknown_fields(&shaped.unknown));
            let is_none = |name: &String| shaped.object.get(name) == Some(&Value::Null);
            self.emptied = empty.into_iter().filter(is_none).collect();
            value = Value::Object(shaped.object);
            if forget {
                value["metadata"]["managedFields"] = json!([]);
            }
        } else {
            problems.extend(prune::unknown_fields(
                &coerce::own(&mut value).map_err(|why| self.mishandled(&why))?,
            ));
        }
        let schema = self.version().schema.as_ref().filter(|_| !built_in).cloned();
        if let Some(schema) = &schema {
            problems.extend(prune::unknown_fields(&prune::prune(schema, &mut value)));
            if nulls == Nulls::Dropped {
                prune::drop_nulls(schema, &mut value);
            }
            let embedded = coerce::embedded(schema, &mut value, false, &FieldPath::root());
            let embedded = embedded.map_err(|why| self.mishandled(&why.to_string()))?;
            problems.extend(prune::unknown_fields(&embedded));
            default::fill(schema, &mut value);
        }
        if self.is_definition() {
            crd::default(&mut value);
        }
        let object = super::into_object(value)?;
        match options.field_validation {
            _ if problems.is_empty() || Sabotage::SilentDrops.is_planted() => {}
            FieldValidation::Ignore => {}
            FieldValidation::Warn => {
                self.warnings.extend(problems.iter().flat_map(|p| decode::warnings(p)));
            }
            FieldValidation::Strict => {
                let (api_version, kind) = self.expected_kind();
                let about = decode::TypeMeta { api_version, kind: kind.clone() };
                let message = decode::strict_refusal(&about, &kind, &problems);
                return Err(ApiError::bad_request(message));
            }
        }
        Ok(object)
    }

    /// The refusal of an object whose fields have the wrong types.
    pub(super) fn mishandled(&self, why: &str) -> ApiError {
        let (_, kind) = self.expected_kind();
        let version = &self.version().name;
        ApiError::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
        ))
    }

    /// The namespace in the body must be the one in the path.
    pub(super) fn check_namespace(&self, object: &Object) -> Result<(), ApiError> {
        let sent = text(meta(object), "namespace");
        let wanted = self.namespace.as_deref().unwrap_or_default();
        if sent.is_empty() || sent == wanted || !self.resource.namespaced {
            return Ok(());
        }
        Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ))
    }

    /// Records who owns which fields, unless apply has done so.
    pub(super) fn track(
        &self,
        live: Option<&Value>,
        object: Object,
        admission: &Admission<'_>,
    ) -> Result<Object, ApiError> {
        if admission.applied || self.is_scale_without_managed(live) {
            return Ok(object);
        }
        if Sabotage::NoOwners.is_planted() {
            return Ok(object);
        }
        let context = self.context(admission.manager);
        let mut object = Value::Object(object);
        self.emptied.iter().for_each(|name| object[name] = json!([]));
        let mut tracked = context.with(|context| apply::update(context, live, object));
        self.emptied.iter().for_each(|name| tracked[name] = Value::Null);
        super::into_object(tracked)
    }

    /// A write that changed nothing keeps the times of the last one.
    pub(super) fn keep_times(&self, live: &Value, object: Object) -> Result<Object, ApiError> {
        let mut object = Value::Object(object);
        apply::keep_times(live, &mut object);
        super::into_object(object)
    }

    fn is_scale_without_managed(&self, live: Option<&Value>) -> bool {
        self.is_scale() && live.is_some_and(|live| live["metadata"].get("managedFields").is_none())
    }

    pub(super) fn apply_context(&self, options: &WriteOptions) -> ApplyContext {
        self.context(options.field_manager.as_deref())
    }

    fn context(&self, manager: Option<&str>) -> ApplyContext {
        let versions = self.resource.versions.iter();
        ApplyContext {
            resource: Arc::clone(&self.resource),
            version: self.version,
            api_versions: versions.map(|v| group_version(&self.resource.group, &v.name)).collect(),
            part: self.part_kind(),
            empty: self.empty(),
            manager: manager.map_or_else(|| self.user_agent_manager(), str::to_owned),
            subresource: self.subresource.clone().unwrap_or_default(),
            now: self.server.second(),
            reset: self.reset_fields(),
        }
    }

    /// The kind of what is created at an object, where it is not the object's own.
    fn part_kind(&self) -> Option<(String, String, Option<Arc<Schema>>)> {
        let (api_version, kind) = self.expected_kind();
        let other = kind != self.resource.kind && !self.is_scale();
        other.then(|| {
            let schema = builtin::schema(&api_version, &kind);
            (api_version, kind, schema)
        })
    }

    /// A built-in kind as it is before anybody sets a field.
    fn empty(&self) -> Option<Value> {
        if self.resource.is_custom() {
            return None;
        }
        match self.part_kind() {
            Some((api_version, kind, _)) => builtin::empty(&api_version, &kind),
            None => builtin::empty(&self.api_version(), &self.resource.kind),
        }
    }

    /// Fields that this endpoint cannot change, and so nobody comes to own through it.
    fn reset_fields(&self) -> apply::FieldSet {
        let of = |fields: &[&[&str]]| apply::FieldSet::of_fields(fields.iter().copied());
        match self.subresource.as_deref() {
            Some("status") if self.resource.group == "admissionregistration.k8s.io" => {
                of(&[&["spec"], &["metadata"]])
            }
            Some("status") => of(&[&["spec"]]),
            None if self.resource.has("status") => of(&[&["status"]]),
            _ => of(&[]),
        }
    }

    /// A client that names no manager is known by its user agent.
    fn user_agent_manager(&self) -> String {
        let agent = self.headers.get(http::header::USER_AGENT).and_then(|v| v.to_str().ok());
        let agent = agent.unwrap_or_default().split('/').next().unwrap_or_default();
        let name: String = agent.chars().filter(|c| !c.is_control()).take(MAX_MANAGER).collect();
        if name.is_empty() { "unknown".to_owned() } else { name }
    }

    /// Holds an object against its kind's rules.
    pub(super) fn validate(&mut self, old: Option<&Value>, value: &Value) -> Result<(), ApiError> {
        let object = super::fields(value)?;
        let name = text(meta(object), "name");
        let rule = Strategy::of(&self.resource).name;
        let namespaced = self.resource.namespaced;
        let at = FieldPath::root().child("metadata");
        let sent = &value["metadata"];
        let mut errors = match old {
            // The rules of CRDs hold the name against the spec.
            None if self.is_definition() => Vec::new(),
            None => rules::validate(sent, namespaced, rule, &at),
            Some(old) => {
                let mut errors = rules::validate(sent, namespaced, NameRule::PathSegment, &at);
                // Upstream asks twice, once for all kinds and once more for each.
                for _ in 0..2 {
                    errors.extend(rules::validate_update(sent, &old["metadata"], &at));
                }
                if !self.resource.is_custom() && !self.is_definition() {
                    errors.extend(rules::validate(sent, namespaced, rule, &at));
                }
                errors
            }
        };
        errors.extend(self.validate_content(old, value));
        if errors.is_empty() {
            let live = old.map(super::fields).transpose()?;
            errors = self.missing_param_rights(live, object)?;
        }
        if errors.is_empty() {
            return Ok(());
        }
        // Upstream's validation knows the kind by the group in whose form it is stored.
        let group = self.resource.storage_group().to_owned();
        let kind = GroupKind { group, ..self.resource.group_kind() };
        Err(ApiError::invalid(&kind, name, &errors))
    }

    pub(super) fn is_definition(&self) -> bool {
        self.resource.is("apiextensions.k8s.io", "customresourcedefinitions")
    }

    fn validate_content(&mut self, old: Option<&Value>, value: &Value) -> Vec<FieldError> {
        let is_status = self.subresource.as_deref() == Some("status");
        if self.is_definition() {
            return crd::validate(is_status, old, value);
        }
        if !self.resource.is_custom() {
            let subresource = self.subresource.as_deref().unwrap_or_default();
            let kind = (&*self.resource.group, &*self.resource.plural, subresource);
            let compared = old.filter(|_| !Sabotage::MutableFields.is_planted());
            let mut errors = validate::validate(kind, compared, value);
            if let Some(old) = old
                && self.resource.is("certificates.k8s.io", "certificatesigningrequests")
            {
                errors.extend(csr::wrong_change(subresource, old, value));
            }
            if let ("ephemeralcontainers", Some(old)) = (subresource, old) {
                errors.extend(pod_parts::wrong_ephemeral(old, value));
            }
            if errors.is_empty() {
                self.warnings.extend(validate::warnings(kind, old, value));
            }
            if self.resource.group.is_empty() {
                let at = FieldPath::root().child("metadata").child("finalizers");
                errors.splice(
                    0..0,
                    validate::standard_finalizers(&value["metadata"]["finalizers"], &at),
                );
            }
            return errors;
        }
        let verdict = crd::validate_object(&self.resource, self.version(), is_status, old, value);
        self.warnings.extend(verdict.warnings);
        verdict.errors
    }

    /// Some writes need the right to another verb as well.
    pub(super) fn authorize_also(&self, verb: Verb) -> Result<(), ApiError> {
        let path = ResourcePath {
            group: self.resource.group.clone(),
            version: self.version().name.clone(),
            namespace: self.namespace.clone(),
            resource: self.resource.plural.clone(),
            name: self.name.clone(),
            subresource: self.subresource.clone(),
        };
        self.server.authorize(self.user, verb, &path)
    }
}

fn text_of(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}
