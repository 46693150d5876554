//! Delete and deletecollection: preconditions, finalizers, and what becomes of dependents.
//!
//! An object with finalizers is only marked; the update that removes the last one removes the
//! object. Collecting dependents is the garbage collector's work, not this file's.

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use kit::clock::rfc3339_seconds;
use serde_json::{Value, json};
use store::Revision;

use super::admission::Operation;
use super::admission::node::Attempt;
use super::admit::BODY_TYPES;
use super::metadata::{is_deleting, mark_deleting, meta, meta_mut, strings, text};
use super::strategy::Strategy;
use super::{Call, Object};
use crate::builtin;
use crate::crd;
use crate::decode;
use crate::request::{ListOptions, Query, invalid_options, parse_dry_run};
use crate::resource::GroupResource;
use crate::sabotage::Sabotage;
use crate::schema::field::{ErrorKind, FieldError, FieldPath};
use crate::status::{self, ApiError};
use crate::stored::Stored;
use crate::wire::negotiate::PROTOBUF;
use crate::wire::{Answer, negotiate};

/// The finalizer that keeps an owner until its dependents are gone.
const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer that keeps an owner until its dependents have been set free.
const ORPHAN: &str = "orphan";

/// Warns whoever deletes a job and says nothing of its pods.
const JOBS_LEAVE_PODS: &str = "child pods are preserved by default when jobs are deleted; set \
    propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this \
    warning";

/// Namespaces without which a cluster is none.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// When an object that is on its way will be gone, if that is to be sooner than it was.
fn shortened(live: &Object, grace_seconds: i64) -> Option<String> {
    let metadata = meta(live);
    let ends: Timestamp = text(metadata, "deletionTimestamp").parse().ok()?;
    let before = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64)?;
    let less = SignedDuration::from_secs(before.checked_sub(grace_seconds)?);
    ends.checked_sub(less).ok().map(rfc3339_seconds)
}

/// What becomes of dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// `DeleteOptions`, from the body or else from the query.
#[derive(Debug, Clone, Default)]
pub(super) struct DeleteOptions {
    pub(super) dry_run: bool,
    pub(super) grace_seconds: Option<i64>,
    pub(super) propagation: Option<Propagation>,
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
}

impl DeleteOptions {
    /// Reads the options' own object.
    pub(super) fn of(body: &Object) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        let preconditions = body.get("preconditions").and_then(Value::as_object);
        let precondition = |name: &str| {
            preconditions.map(|p| text(p, name)).filter(|t| !t.is_empty()).map(str::to_owned)
        };
        let mut options = Self {
            grace_seconds: body.get("gracePeriodSeconds").and_then(Value::as_i64),
            propagation: propagation(text(body, "propagationPolicy"), &mut errors),
            dry_run: parse_dry_run(strings(body, "dryRun").into_iter(), &mut errors),
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
        };
        match body.get("orphanDependents").and_then(Value::as_bool) {
            Some(_) if options.propagation.is_some() => errors.push(FieldError::new(
                ErrorKind::Invalid,
                FieldPath::root().child("propagationPolicy"),
                body.get("propagationPolicy").cloned(),
                "orphanDependents and deletionPropagation cannot be both set",
            )),
            Some(true) => options.propagation = Some(Propagation::Orphan),
            Some(false) => options.propagation = Some(Propagation::Background),
            None => {}
        }
        options.checked(&errors)
    }

    /// Reads the options from a query.
    fn of_query(query: &Query) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        let options = Self {
            grace_seconds: query.number("gracePeriodSeconds")?,
            propagation: propagation(
                query.get("propagationPolicy").unwrap_or_default(),
                &mut errors,
            ),
            dry_run: parse_dry_run(query.all("dryRun").filter(|v| !v.is_empty()), &mut errors),
            ..Self::default()
        };
        options.checked(&errors)
    }

    fn checked(self, errors: &[FieldError]) -> Result<Self, ApiError> {
        if errors.is_empty() { Ok(self) } else { Err(invalid_options("DeleteOptions", errors)) }
    }
}

fn propagation(text: &str, errors: &mut Vec<FieldError>) -> Option<Propagation> {
    match text {
        "" => None,
        "Background" => Some(Propagation::Background),
        "Foreground" => Some(Propagation::Foreground),
        "Orphan" => Some(Propagation::Orphan),
        other => {
            errors.push(FieldError::new(
                ErrorKind::NotSupported,
                FieldPath::root().child("propagationPolicy"),
                Some(other.into()),
                "supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
            ));
            None
        }
    }
}

impl Call<'_> {
    pub(super) async fn delete(&mut self) -> Result<Answer, ApiError> {
        let options = self.delete_options()?;
        if self.resource.is("batch", "jobs") && options.propagation.is_none() {
            self.warnings.push(JOBS_LEAVE_PODS.to_owned());
        }
        let name = self.name().to_owned();
        if self.resource.is("", "namespaces") && IMMORTAL.contains(&name.as_str()) {
            let message =
                format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
            return Err(ApiError::forbidden(&self.group_resource(), &name, message));
        }
        self.delete_named(&name, &options).await
    }

    /// Deletes an object, whoever writes it meanwhile.
    pub(super) async fn delete_named(
        &mut self,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Answer, ApiError> {
        loop {
            let stored = self.load(name)?.ok_or_else(|| self.not_found())?;
            if let Some(answer) = self.delete_one(name, &stored, options).await? {
                return Ok(answer);
            }
        }
    }

    pub(super) async fn delete_collection(&mut self) -> Result<Answer, ApiError> {
        let list_options = ListOptions::parse(&self.query, false)?;
        let selection = self.selection(&list_options)?;
        let options = self.delete_options()?;
        let list = self.collect(&list_options, &selection)?;
        for stored in &list.items {
            let object = self.present(stored)?;
            let name = text(meta(&object), "name").to_owned();
            self.namespace = meta(&object)
                .get("namespace")
                .and_then(Value::as_str)
                .map(str::to_owned)
                .or_else(|| self.namespace.clone());
            // Between the list and now an object may have changed or gone; both are fine.
            while let Some(stored) = self.load(&name)? {
                if self.delete_one(&name, &stored, &options).await?.is_some() {
                    break;
                }
            }
        }
        Ok(Answer::List(list))
    }

    /// Deletes all objects: the server's own way.
    pub(crate) async fn delete_all(&mut self) -> Result<(), ApiError> {
        self.delete_collection().await.map(drop)
    }

    /// Deletes or marks one object; `None` if somebody wrote it in between.
    async fn delete_one(
        &mut self,
        name: &str,
        stored: &Stored,
        options: &DeleteOptions,
    ) -> Result<Option<Answer>, ApiError> {
        let live = self.present(stored)?;
        self.check_preconditions(name, &live, options)?;
        if self.subresource.is_none() {
            self.restrict_node(Attempt::Delete(&live))?;
            let dry_run = options.dry_run;
            self.change(Operation::Delete, Some(&live), live.clone(), dry_run).await?;
            self.admit(Operation::Delete, Some(&live), None, dry_run).await?;
        }
        let strategy = Strategy::of(&self.resource);
        let mut object = live.clone();
        self.set_propagation(&mut object, options, strategy);
        if self.is_definition() {
            crd::prepare_delete(&mut object, &self.server.now());
        }
        let grace = self.grace(&live, options);
        let finalizers = strings(meta(&object), "finalizers");
        let held = !finalizers.is_empty() && !Sabotage::NoFinalizers.is_planted()
            || grace > 0
            || self.is_namespace_with_content(&object);
        let already = is_deleting(&object)
            && meta(&live).get("deletionGracePeriodSeconds").and_then(Value::as_i64) <= Some(grace);
        // A pod ends in time, even if that is at once.
        if !already && (held || self.resource.is("", "pods")) {
            let ends = self.server.deletion_time(grace);
            mark_deleting(&mut object, &shortened(&live, grace).unwrap_or(ends), grace);
            if self.resource.is("", "namespaces") {
                object["status"] = json!({"phase": "Terminating"});
                meta_mut(&mut object).remove("deletionGracePeriodSeconds");
            }
        }
        if !held {
            if !options.dry_run {
                // Who watches hears that a pod ends before it is gone, as from upstream.
                let gone = if object != live && self.resource.is("", "pods") {
                    let Some(ending) = self.put(name, &object, Some(stored.revision())).await?
                    else {
                        return Ok(None);
                    };
                    self.remove_ending(name, &object, ending).await?
                } else {
                    let Some(gone) = self.remove(name, stored.revision()).await? else {
                        return Ok(None);
                    };
                    gone
                };
                // What is told of it is how it went.
                let version = gone.to_string();
                meta_mut(&mut object).insert("resourceVersion".to_owned(), version.into());
            }
            return Ok(Some(self.deleted(object, strategy)));
        }
        if object != live && !options.dry_run {
            let Some(revision) = self.put(name, &object, Some(stored.revision())).await? else {
                return Ok(None);
            };
            let version = revision.to_string();
            meta_mut(&mut object).insert("resourceVersion".to_owned(), version.into());
        }
        Ok(Some(self.answer(StatusCode::OK, object)))
    }

    /// Removes the pod that was told at `ending` to end at once, whoever writes it meanwhile.
    ///
    /// From there on the kubelet and the controllers remove it as well. Where one of them was
    /// quicker, the pod is as gone as the client asked for, and that is no error.
    async fn remove_ending(
        &self,
        name: &str,
        pod: &Object,
        ending: Revision,
    ) -> Result<Revision, ApiError> {
        let mut last = ending;
        loop {
            if let Some(gone) = self.remove(name, last).await? {
                return Ok(gone);
            }
            match self.load(name)? {
                Some(now) if text(meta(&self.present(&now)?), "uid") == text(meta(pod), "uid") => {
                    last = now.revision();
                }
                _ => return Ok(last),
            }
        }
    }

    fn deleted(&self, object: Object, strategy: Strategy) -> Answer {
        if strategy.returns_deleted {
            return self.answer(StatusCode::OK, object);
        }
        let metadata = meta(&object);
        let (name, uid) = (text(metadata, "name"), text(metadata, "uid"));
        Answer::Status(status::deleted(&self.group_resource(), name, uid))
    }

    /// A namespace goes only once its controller has emptied it and taken its finalizer away.
    pub(super) fn is_namespace_with_content(&self, object: &Object) -> bool {
        self.resource.is("", "namespaces")
            && object
                .get("spec")
                .and_then(Value::as_object)
                .is_some_and(|spec| !strings(spec, "finalizers").is_empty())
    }

    /// How long a pod may take to end: what the client says, else what the pod says.
    fn grace(&self, live: &Object, options: &DeleteOptions) -> i64 {
        if !self.resource.is("", "pods") {
            return 0;
        }
        let at = |pointer: [&str; 2]| live.get(pointer[0]).and_then(|v| v.get(pointer[1]));
        let scheduled =
            at(["spec", "nodeName"]).and_then(Value::as_str).is_some_and(|n| !n.is_empty());
        let ended =
            matches!(at(["status", "phase"]).and_then(Value::as_str), Some("Succeeded" | "Failed"));
        if !scheduled || ended {
            return 0;
        }
        let own = at(["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_i64);
        // A time below zero is a mistake, and the shortest that is none is taken for it.
        let seconds = options.grace_seconds.or(own).unwrap_or(0);
        if seconds < 0 { 1 } else { seconds }
    }

    pub(super) fn check_preconditions(
        &self,
        name: &str,
        live: &Object,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let metadata = meta(live);
        for (what, wanted, found, might) in [
            ("UID", &options.uid, text(metadata, "uid"), "deleted and then recreated"),
            (
                "ResourceVersion",
                &options.resource_version,
                text(metadata, "resourceVersion"),
                "modified",
            ),
        ] {
            if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found)
                && !Sabotage::NoPreconditions.is_planted()
            {
                if self.resource.is("", "namespaces") && what == "UID" {
                    let why = format!(
                        "Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
                    );
                    return Err(ApiError::conflict(&self.group_resource(), name, &why));
                }
                // Upstream names the kind here where it names the resource everywhere else.
                let kind = GroupResource::new(self.resource.storage_group(), &self.resource.kind);
                return Err(ApiError::conflict(
                    &kind,
                    name,
                    &format!(
                        "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might have been {might}"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// The finalizer that makes the garbage collector do what the client wants, and not the other.
    fn set_propagation(&self, object: &mut Object, options: &DeleteOptions, strategy: Strategy) {
        let default = if strategy.orphans { Propagation::Orphan } else { Propagation::Background };
        let asked = options.propagation;
        let present = |name: &str| strings(meta(object), "finalizers").contains(&name);
        let wanted = match asked {
            Some(Propagation::Foreground) => Some(FOREGROUND),
            Some(Propagation::Orphan) => Some(ORPHAN),
            Some(Propagation::Background) => None,
            None if present(ORPHAN) => Some(ORPHAN),
            None if present(FOREGROUND) => Some(FOREGROUND),
            None if default == Propagation::Orphan => Some(ORPHAN),
            None => None,
        };
        let before = strings(meta(object), "finalizers");
        let mut finalizers: Vec<String> = before
            .into_iter()
            .filter(|f| *f != FOREGROUND && *f != ORPHAN)
            .map(str::to_owned)
            .collect();
        finalizers.extend(wanted.map(str::to_owned));
        let metadata = meta_mut(object);
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        } else {
            metadata.insert("finalizers".to_owned(), finalizers.into());
        }
    }

    fn delete_options(&self) -> Result<DeleteOptions, ApiError> {
        if self.body.is_empty() {
            return DeleteOptions::of_query(&self.query);
        }
        DeleteOptions::of(&self.delete_body()?)
    }

    fn delete_body(&self) -> Result<Object, ApiError> {
        let decoded = match negotiate::content_type(&self.headers) {
            "application/yaml" => decode::yaml(&self.body),
            "application/json" => decode::json(&self.body),
            PROTOBUF => return self.delete_message(),
            _ => return Err(ApiError::unsupported_media_type(BODY_TYPES)),
        };
        let decoded = decoded.map_err(|e| match e {
            decode::DecodeError::ParseJson(why) => {
                ApiError::bad_request(format!("couldn't get version/kind; json parse error: {why}"))
            }
            e => ApiError::bad_request(e.to_string()),
        })?;
        let Value::Object(body) = decoded.value else {
            return Err(ApiError::bad_request("the body is not a DeleteOptions object"));
        };
        check_options_kind(text(&body, "apiVersion"), text(&body, "kind"))?;
        if let Some(grace) = body.get("gracePeriodSeconds").filter(|v| !v.is_null() && !v.is_i64())
        {
            return Err(ApiError::bad_request(format!(
                "json: cannot unmarshal {} into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
                decode::go_kind(grace)
            )));
        }
        Ok(body)
    }

    /// Options in protobuf, which objects of every kind may be deleted with.
    fn delete_message(&self) -> Result<Object, ApiError> {
        let refuse = |why: String| ApiError::bad_request(why);
        let (about, message) =
            decode::protobuf(&self.body).map_err(|error| refuse(error.to_string()))?;
        check_options_kind(&about.api_version, &about.kind)?;
        builtin::from_protobuf("v1", "DeleteOptions", message).map_err(refuse)
    }
}

fn check_options_kind(version: &str, kind: &str) -> Result<(), ApiError> {
    if matches!(kind, "" | "DeleteOptions") {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\""
    )))
}
