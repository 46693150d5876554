//! Update and patch: one write loop for PUT, every kind of patch, `/status` and `/scale`.
//!
//! The loop reads the object, lets the request change a view of it, holds the result against the
//! kind's rules, and writes where nobody wrote in between; a patch that lost the race is made again
//! on the newer object, a PUT is refused.

use http::StatusCode;
use serde_json::Value;

use super::admission::{Operation, csr};
use super::admit::{Admission, Nulls};
use super::metadata::{carry_system, may_go, meta, meta_mut, text};
use super::strategy::{self, Strategy};
use super::{Call, Object, pod_parts, quota};
use crate::apply;
use crate::decode;
use crate::patch;
use crate::request::{FieldValidation, Verb, WriteOptions, invalid_options};
use crate::resource::{GroupKind, GroupResource};
use crate::sabotage::Sabotage;
use crate::schema::field::{ErrorKind, FieldError, FieldPath};
use crate::schema::print;
use crate::status::ApiError;
use crate::wire::{Answer, negotiate};

/// How often a patch is made anew after a lost race before the client is told.
const ATTEMPTS: usize = 5;

/// How a request changes an object.
pub(super) enum Change {
    /// PUT: by this one.
    Replace(Object),
    /// By a JSON patch.
    Json(patch::JsonPatch),
    /// By a merge patch, which may have named fields twice.
    Merge(Value, Vec<String>),
    /// By a strategic merge patch, likewise.
    Strategic(Value, Vec<String>),
    /// By server-side apply of this configuration.
    Apply(Object),
}

impl Call<'_> {
    pub(super) async fn replace(&mut self) -> Result<Answer, ApiError> {
        let options = WriteOptions::parse(&self.query, "UpdateOptions")?;
        let object = self.decode(&options)?;
        self.check_namespace(&object)?;
        self.check_name(&object)?;
        self.write(Change::Replace(object), &options).await
    }

    pub(super) async fn patch(&mut self) -> Result<Answer, ApiError> {
        let content_type = negotiate::content_type(&self.headers).to_owned();
        let accepted = self.patch_types();
        if self.name.is_none() {
            return Err(ApiError::no_such_method());
        }
        if content_type == STRATEGIC_PATCH && !accepted.contains(&STRATEGIC_PATCH) {
            return Err(ApiError::unsupported_media_type(&accepted.join(", ")));
        }
        if !accepted.contains(&content_type.as_str()) {
            return Err(if self.resource.is_custom() {
                ApiError::unsupported_media_type(&accepted.join(", "))
            } else {
                ApiError::unknown_patch_type()
            });
        }
        let options = WriteOptions::parse(&self.query, "PatchOptions")?;
        check_patch_options(&options, content_type == APPLY)?;
        let change = match content_type.as_str() {
            JSON_PATCH => Change::Json(patch::JsonPatch::parse(&self.body)?),
            MERGE_PATCH => {
                let decoded = self.patch_body()?;
                Change::Merge(decoded.value, decoded.duplicates)
            }
            STRATEGIC_PATCH => {
                let decoded = self.patch_body()?;
                Change::Strategic(decoded.value, decoded.duplicates)
            }
            _ => Change::Apply(self.applied(&options)?),
        };
        self.write(change, &options).await
    }

    fn patch_types(&self) -> Vec<&'static str> {
        let mut types = vec![JSON_PATCH, MERGE_PATCH];
        if !self.resource.is_custom() {
            types.push(STRATEGIC_PATCH);
        }
        types.push(APPLY);
        types
    }

    fn patch_body(&self) -> Result<decode::Decoded, ApiError> {
        // Upstream says so for every kind of patch but this one.
        let strategic = negotiate::content_type(&self.headers) == STRATEGIC_PATCH;
        let prefix = if strategic { "" } else { "error decoding patch: " };
        let bad = |why: String| ApiError::bad_request(format!("{prefix}{why}"));
        let patch = decode::json(&self.body).map_err(|e| bad(e.to_string()))?;
        match &patch.value {
            Value::Object(_) => Ok(patch),
            Value::Null => Err(ApiError::bad_request("Invalid JSON Patch")),
            other => Err(bad(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                decode::go_kind(other)
            ))),
        }
    }

    /// The applied configuration; YAML, of which JSON is a part.
    fn applied(&mut self, options: &WriteOptions) -> Result<Object, ApiError> {
        let decoded = decode::yaml(&self.body)
            .map_err(|e| ApiError::bad_request(format!("error decoding YAML: {e}")))?;
        for problem in decoded.duplicates {
            let problem = format!("error converting YAML to JSON: {problem}");
            match options.field_validation {
                FieldValidation::Ignore => {}
                FieldValidation::Warn => self.warnings.extend(decode::warnings(&problem)),
                FieldValidation::Strict => {
                    return Err(ApiError::bad_request(format!(
                        "error strict decoding YAML: {problem}"
                    )));
                }
            }
        }
        match decoded.value {
            Value::Object(object) => Ok(object),
            // An empty document applies nothing, which is refused for not saying what it is.
            Value::Null => Ok(Object::new()),
            _ => Err(ApiError::bad_request("error decoding YAML: the body is not an object")),
        }
    }

    async fn write(&mut self, change: Change, options: &WriteOptions) -> Result<Answer, ApiError> {
        let name = self.name().to_owned();
        for _ in 0..ATTEMPTS {
            let Some(stored) = self.load(&name)? else {
                return self.write_absent(change, options).await;
            };
            let live = Value::Object(self.present(&stored)?);
            let (sent_version, object) = self.changed(&live, &change, options).await?;
            let fields = super::fields(&live)?;
            if object == *fields {
                return Ok(self.answer_view(StatusCode::OK, object));
            }
            if options.dry_run {
                let change = quota::Change { old: Some(fields), new: Some(&object) };
                self.check_quotas(change).await?;
                return Ok(self.answer_view(StatusCode::OK, object));
            }
            if may_go(&object) && !self.is_namespace_with_content(&object) {
                // The last finalizer is gone. The answer is the object as it was last stored.
                if self.remove(&name, stored.revision()).await?.is_some() {
                    return Ok(self.answer_view(StatusCode::OK, object));
                }
                continue;
            }
            match self.put(&name, &object, Some(stored.revision())).await? {
                Some(revision) => {
                    let mut object = object;
                    let version = revision.to_string();
                    meta_mut(&mut object).insert("resourceVersion".to_owned(), version.into());
                    return Ok(self.answer_view(StatusCode::OK, object));
                }
                None if sent_version => break,
                None => {}
            }
        }
        Err(ApiError::modified(&self.group_resource(), &name))
    }

    /// A write to a name that does not exist: apply creates it, and so does PUT for some kinds.
    async fn write_absent(
        &mut self,
        change: Change,
        options: &WriteOptions,
    ) -> Result<Answer, ApiError> {
        if self.subresource.is_some() {
            return Err(self.not_found());
        }
        match change {
            Change::Replace(object) if Strategy::of(&self.resource).create_on_update => {
                self.authorize_also(Verb::Create)?;
                self.insert(object, options, Admission::write(options)).await
            }
            Change::Apply(applied) => {
                let uid = text(meta(&applied), "uid");
                if !uid.is_empty() {
                    return Err(ApiError::conflict(
                        &self.group_resource(),
                        self.name(),
                        &format!(
                            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                        ),
                    ));
                }
                self.authorize_also(Verb::Create)?;
                let admission = Admission::apply(options);
                let object = self.merge_applied(None, &applied, options)?;
                let mut object = self.shape(object, options, Vec::new(), Nulls::Kept)?;
                // There is no object whose version it could be.
                meta_mut(&mut object).remove("resourceVersion");
                self.insert(object, options, admission).await
            }
            _ => Err(self.not_found()),
        }
    }

    /// The object as the request leaves it, and whether the request named a `resourceVersion`.
    async fn changed(
        &mut self,
        live_value: &Value,
        change: &Change,
        options: &WriteOptions,
    ) -> Result<(bool, Object), ApiError> {
        let live = super::fields(live_value)?;
        let view = self.view(live)?;
        let admission = match change {
            Change::Apply(_) => Admission::apply(options),
            _ => Admission::write(options),
        };
        let object = self.made(&view, change, options)?;
        let patched = !matches!(change, Change::Replace(_));
        let problems = match change {
            Change::Merge(_, duplicates) | Change::Strategic(_, duplicates) => duplicates.clone(),
            Change::Json(patch) => patch.unknown_fields(),
            _ => Vec::new(),
        };
        let object = match change {
            Change::Replace(_) => object,
            Change::Apply(_) => self.shape(object, options, Vec::new(), Nulls::Kept)?,
            _ => {
                self.check_patched(&view, &object, change)?;
                let shaped = self.shape(object, options, problems, Nulls::Dropped);
                match shaped {
                    Ok(object) => object,
                    Err(e) => {
                        let whole = self.made(&view, change, options)?;
                        return Err(self.unfit(&whole, change, e));
                    }
                }
            }
        };
        let sent = text(meta(&object), "resourceVersion").to_owned();
        let found = text(meta(live), "resourceVersion");
        let unconditional = Strategy::of(&self.resource).unconditional_update || self.is_scale();
        if sent.is_empty() && !unconditional && !patched {
            let at = FieldPath::root().child("metadata").child("resourceVersion");
            let error = FieldError::invalid(at, 0, "must be specified for an update");
            // Upstream names the resource here where it names the kind everywhere else.
            let GroupResource { group, resource } = self.group_resource();
            let kind = GroupKind { group, kind: resource };
            return Err(ApiError::invalid(&kind, self.name(), &[error]));
        }
        if !sent.is_empty() && sent.parse::<u64>().is_err() {
            return Err(ApiError::unexplained(format!(
                "strconv.ParseUint: parsing {}: invalid syntax",
                print::quote(&sent)
            )));
        }
        let stale = !matches!(sent.as_str(), "" | "0") && sent != found;
        if stale && !Sabotage::StaleWrites.is_planted() {
            return Err(ApiError::modified(&self.group_resource(), self.name()));
        }
        if !patched {
            self.check_uid(live, &object)?;
        }
        let object = self.merge_view(live, object)?;
        let object = self.finish(live_value, object, &admission, options.dry_run).await?;
        Ok((!patched && !sent.is_empty(), object))
    }

    /// What the request makes of the view of an object.
    fn made(
        &self,
        view: &Object,
        change: &Change,
        options: &WriteOptions,
    ) -> Result<Object, ApiError> {
        match change {
            Change::Replace(object) => Ok(object.clone()),
            Change::Json(json) => json.apply(view),
            Change::Merge(merge, _) => patch::merge(view, merge),
            Change::Strategic(strategic, _) => {
                let schema = self.version().schema.clone();
                patch::strategic(view, strategic, schema.as_deref())
            }
            Change::Apply(applied) => self.merge_applied(Some(view), applied, options),
        }
    }

    /// Merges a patch into the object: the server's own way of changing something.
    pub(crate) async fn merge(&mut self, patch: Value) -> Result<(), ApiError> {
        let options = WriteOptions::parse(&self.query, "PatchOptions")?;
        let _addresses = self.hold_addresses().await;
        self.write(Change::Merge(patch, Vec::new()), &options).await.map(drop)
    }

    /// The rules of an update, the same whatever made it.
    async fn finish(
        &mut self,
        live_value: &Value,
        object: Object,
        admission: &Admission<'_>,
        dry_run: bool,
    ) -> Result<Object, ApiError> {
        let live = super::fields(live_value)?;
        // Before anything is put back: who sent a field that this endpoint resets still counts as
        // having let go of, or taken, whatever else changed.
        let mut object = self.track(Some(live_value), object, admission)?;
        self.set_names(live, &mut object);
        self.admit_update(live, &mut object)?;
        let mut object = self.change(Operation::Update, Some(live), object, dry_run).await?;
        carry_system(meta(live), &mut object);
        self.allocate(Some(live), &mut object)?;
        match self.subresource.as_deref() {
            part if self.resource.is("certificates.k8s.io", "certificatesigningrequests") => {
                csr::prepare(part.unwrap_or_default(), live, &mut object, &self.server.now());
            }
            Some("status") => strategy::prepare_status_update(&self.resource, live, &mut object),
            Some("finalize") => strategy::prepare_finalize(live, &mut object),
            Some("ephemeralcontainers") => pod_parts::prepare_ephemeral(live, &mut object),
            Some("resize") => pod_parts::prepare_resize(live, &mut object),
            _ => strategy::prepare_update(&self.resource, live, &mut object),
        }
        if Strategy::of(&self.resource).generation
            && strategy::desired_changed(&self.resource, live, &object)
            && !Sabotage::StillGeneration.is_planted()
        {
            let generation = meta(live).get("generation").and_then(Value::as_i64).unwrap_or(0);
            meta_mut(&mut object).insert("generation".to_owned(), (generation + 1).into());
        }
        let version = meta(live).get("resourceVersion").cloned().unwrap_or_default();
        meta_mut(&mut object).insert("resourceVersion".to_owned(), version);
        let mut object = self.keep_times(live_value, object)?;
        if self.is_scale() {
            super::scale::forget_times(&mut object);
        }
        let value = Value::Object(object);
        self.validate(Some(live_value), &value)?;
        let object = super::into_object(value)?;
        self.check_grant(Some(live), &object)?;
        self.admit_finally(Some(live), &object)?;
        self.admit(Operation::Update, Some(live), Some(&object), dry_run).await?;
        self.settled(object)
    }

    /// Name and namespace are the stored ones; the door has checked that no others were sent.
    fn set_names(&self, live: &Object, object: &mut Object) {
        for field in ["name", "namespace"] {
            if let Some(value) = meta(live).get(field) {
                meta_mut(object).insert(field.to_owned(), value.clone());
            }
        }
    }

    fn check_name(&self, object: &Object) -> Result<(), ApiError> {
        let wanted = self.name();
        match text(meta(object), "name") {
            "" => Err(ApiError::bad_request(format!(
                "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
            ))),
            name if name != wanted => Err(ApiError::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({wanted})"
            ))),
            _ => Ok(()),
        }
    }

    /// A patch may change neither what the object is nor what it is called.
    fn check_patched(
        &self,
        view: &Object,
        object: &Object,
        change: &Change,
    ) -> Result<(), ApiError> {
        let said = |object: &Object| decode::TypeMeta {
            api_version: text(object, "apiVersion").to_owned(),
            kind: text(object, "kind").to_owned(),
        };
        if said(object) != said(view) {
            return Err(self.changed_kind(&said(object), object, change));
        }
        let (before, after) = (text(meta(view), "name"), text(meta(object), "name"));
        if before != after && !after.is_empty() {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({after}) does not match the name on the URL ({before})"
            )));
        }
        self.check_namespace(object)
    }

    fn check_uid(&self, live: &Object, object: &Object) -> Result<(), ApiError> {
        let (sent, found) = (text(meta(object), "uid"), text(meta(live), "uid"));
        if sent.is_empty() || sent == found {
            return Ok(());
        }
        Err(ApiError::conflict(
            &self.group_resource(),
            self.name(),
            &format!(
                "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {sent}, UID in object meta: {found}",
                self.upstream_key()
            ),
        ))
    }

    /// Where upstream keeps the object; part of a sentence that clients see.
    pub(super) fn upstream_key(&self) -> String {
        let group = if self.resource.is_custom() { &*self.resource.group } else { "" };
        let parts = ["/registry", group, &self.resource.plural];
        let parts = parts.into_iter().chain(self.namespace.as_deref()).chain([self.name()]);
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
    }

    fn merge_applied(
        &self,
        view: Option<&Object>,
        applied: &Object,
        options: &WriteOptions,
    ) -> Result<Object, ApiError> {
        if self.is_scale() && self.resource.is_custom() {
            return Err(ApiError::unexplained(format!(
                "failed to convert new object ({}/{}; autoscaling/v1, Kind=Scale) to proper version: request to convert CR to an invalid group/version: autoscaling/v1",
                text(meta(applied), "namespace"),
                text(meta(applied), "name"),
            )));
        }
        let context = self.apply_context(options);
        let live = view.map(|view| Value::Object(view.clone()));
        let sent = Value::Object(applied.clone());
        let force = options.force.unwrap_or(false) || Sabotage::NoConflicts.is_planted();
        let merged = context
            .with(|context| apply::apply(context, live.as_ref(), &sent, force))
            .map_err(super::admit::apply_failed)?;
        let merged = super::into_object(merged)?;
        self.check_namespace(&merged)?;
        self.check_name(&merged)?;
        Ok(merged)
    }
}

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn check_patch_options(options: &WriteOptions, apply: bool) -> Result<(), ApiError> {
    let field = |name: &str| FieldPath::root().child(name);
    let mut errors = Vec::new();
    if apply && options.field_manager.is_none() {
        errors.push(FieldError::new(
            ErrorKind::Required,
            field("fieldManager"),
            None,
            "is required for apply patch",
        ));
    }
    if !apply && options.force.is_some() {
        errors.push(FieldError::new(
            ErrorKind::Forbidden,
            field("force"),
            None,
            "may not be specified for non-apply patch",
        ));
    }
    if errors.is_empty() { Ok(()) } else { Err(invalid_options("PatchOptions", &errors)) }
}
