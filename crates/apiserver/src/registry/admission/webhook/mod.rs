//! Admission webhooks: services of the cluster's own that change or refuse what is written.
//!
//! Those that change are asked one after the other, each about what the one before left; those that
//! may only refuse are asked at once. All that a request may wait for them is bounded, and nothing
//! that others need is held meanwhile but the turn of services at their addresses. A service is found
//! by its endpoints, else by its address, which only a host that is part of the cluster's network can
//! dial: what cannot be reached is told, and its failure policy decides.

mod client;
mod index;
mod review;
mod service;

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};

use self::client::{Endpoint, ask};
pub(crate) use self::index::Webhooks;
use self::index::{Configuration, Hook, Target};
use self::review::Answer;
use super::super::admit::Nulls;
use super::super::{Call, Object};
use super::intent::{Form, Intent, Operation};
use super::policy::{Evidence, matches};
use crate::patch::JsonPatch;
use crate::request::{FieldValidation, WriteOptions};
use crate::resource::GroupResource;
use crate::status::ApiError;

/// The longest that one request waits for all webhooks of a sort: what a kube-apiserver gives a
/// request as a whole.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a webhook's answer is not to be had, or what it refuses.
enum Failure {
    /// The webhook could not be asked; its policy says what follows.
    Calling(String),
    /// The request is refused.
    Refused(Box<ApiError>),
}

impl Call<'_> {
    /// Lets webhooks change an object that is about to be written.
    pub(super) async fn change_by_webhooks(
        &mut self,
        operation: Operation,
        live: Option<&Object>,
        object: Object,
        dry_run: bool,
    ) -> Result<Object, ApiError> {
        let webhooks = self.server.webhooks();
        if !self.followed || webhooks.mutating.is_empty() || self.is_configuration() {
            return Ok(object);
        }
        let all: Vec<(&Configuration, &Hook)> =
            (webhooks.mutating.iter()).flat_map(|c| c.hooks.iter().map(|h| (&**c, h))).collect();
        let work = self.change_in_turn(&all, operation, live, object, dry_run);
        tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| Err(out_of_time()))
    }

    async fn change_in_turn(
        &mut self,
        all: &[(&Configuration, &Hook)],
        operation: Operation,
        live: Option<&Object>,
        mut object: Object,
        dry_run: bool,
    ) -> Result<Object, ApiError> {
        // Who wants to see what others changed later, and has not.
        let mut waiting: Vec<usize> = Vec::new();
        let mut again: Vec<usize> = Vec::new();
        for (n, (configuration, hook)) in all.iter().enumerate() {
            let asked = self.change_by_one(hook, operation, live, &object, dry_run).await?;
            let Some(changed) = asked else { continue };
            let mutated = changed.is_some();
            self.note_mutation(0, n, configuration, hook, mutated);
            if let Some(changed) = changed {
                object = changed;
                again.append(&mut waiting);
            }
            if hook.again {
                waiting.push(n);
            }
        }
        if !again.is_empty() && operation == Operation::Create {
            // What was added is completed as if it had been sent.
            self.admit_create(&mut object)?;
        }
        for n in again {
            let (configuration, hook) = all[n];
            if let Some(changed) =
                self.change_by_one(hook, operation, live, &object, dry_run).await?
            {
                self.note_mutation(1, n, configuration, hook, changed.is_some());
                object = changed.unwrap_or(object);
            }
        }
        Ok(object)
    }

    /// Asks one webhook, if it is meant. The inner nothing says that it changed nothing.
    async fn change_by_one(
        &mut self,
        hook: &Hook,
        operation: Operation,
        live: Option<&Object>,
        object: &Object,
        dry_run: bool,
    ) -> Result<Option<Option<Object>>, ApiError> {
        let shown = (operation != Operation::Delete).then_some(object);
        let intent = self.intent(operation, live, shown, dry_run)?;
        let Some(form) = self.is_meant(hook, &intent)? else { return Ok(None) };
        let answer = match self.ask_hook(hook, &intent, form, true).await {
            Ok(answer) => answer,
            Err(failure) => {
                self.end_failure(hook, failure, "failed-open.mutation.webhook.admission.k8s.io")?;
                return Ok(Some(None));
            }
        };
        self.take_notes(hook, &answer);
        if !answer.allowed {
            return Err(answer.refusal(&hook.name));
        }
        if answer.patch.is_empty() {
            return Ok(Some(None));
        }
        let changed = self.patched(hook, &intent, form, object, &answer)?;
        Ok(Some(changed.filter(|changed| changed != object)))
    }

    /// The object as a webhook's patch leaves it.
    fn patched(
        &mut self,
        hook: &Hook,
        intent: &Intent,
        form: &Form,
        object: &Object,
        answer: &Answer,
    ) -> Result<Option<Object>, ApiError> {
        if answer.patch_type != "JSONPatch" {
            let why = format!("unsupported patch type {:?}", answer.patch_type);
            let failure = Failure::Calling(why);
            self.end_failure(hook, failure, "failed-open.mutation.webhook.admission.k8s.io")?;
            return Ok(None);
        }
        let Value::Object(shown) = intent.in_form(&intent.object, form) else {
            return Err(ApiError::internal(format!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                hook.name
            )));
        };
        let patch = JsonPatch::parse(&answer.patch);
        let patched = patch.and_then(|patch| patch.apply(&shown));
        let patched = patched.map_err(|error| ApiError::internal(error.message))?;
        let patched = intent.in_own_form(Value::Object(patched), form);
        let Value::Object(patched) = patched else { return Ok(None) };
        if self.is_scale() {
            return self.merge_view(object, patched).map(Some);
        }
        // Fields that the kind does not have are dropped, as from any body.
        let options = WriteOptions {
            dry_run: intent.dry_run,
            field_manager: None,
            field_validation: FieldValidation::Ignore,
            force: None,
        };
        self.shape(patched, &options, Vec::new(), Nulls::Dropped).map(Some)
    }

    /// Lets webhooks refuse a request.
    pub(super) async fn hold_to_webhooks(&mut self, intent: &Intent) -> Result<(), ApiError> {
        let webhooks = self.server.webhooks();
        if webhooks.validating.is_empty() || self.is_configuration() {
            return Ok(());
        }
        let mut meant = Vec::new();
        for hook in webhooks.validating.iter().flat_map(|configuration| &configuration.hooks) {
            if let Some(form) = self.is_meant(hook, intent)? {
                meant.push((hook, form));
            }
        }
        let questions = meant.iter().map(|(hook, form)| self.ask_hook(hook, intent, form, false));
        let answers = tokio::time::timeout(PATIENCE, join_all(questions)).await;
        let answers = answers.map_err(|_| out_of_time())?;
        let mut refused = None;
        for ((hook, _), answer) in meant.into_iter().zip(answers) {
            let outcome = match answer {
                Err(failure) => self.end_failure(
                    hook,
                    failure,
                    "failed-open.validating.webhook.admission.k8s.io",
                ),
                Ok(answer) => {
                    self.take_notes(hook, &answer);
                    if answer.allowed { Ok(()) } else { Err(answer.refusal(&hook.name)) }
                }
            };
            refused = refused.or(outcome.err());
        }
        refused.map_or(Ok(()), Err)
    }

    /// Whether the request writes what admission is configured with, about which nobody is asked: a
    /// webhook must not be able to keep itself.
    fn is_configuration(&self) -> bool {
        self.resource.group == "admissionregistration.k8s.io"
    }

    /// The form in which a webhook is asked about a request, if it is.
    fn is_meant<'i>(&self, hook: &Hook, intent: &'i Intent) -> Result<Option<&'i Form>, ApiError> {
        let Some(form) = hook.criteria.find(self, intent)? else { return Ok(None) };
        if hook.conditions.is_empty() {
            return Ok(Some(form));
        }
        let evidence = Evidence::of(self, intent, form)?;
        let facts = evidence.facts(self, &Value::Null);
        match matches(&hook.environment, &hook.conditions, &facts) {
            Ok(true) => Ok(Some(form)),
            Ok(false) => Ok(None),
            Err(_) if !hook.fails => Ok(None),
            Err(why) => {
                let resource = GroupResource::new(&intent.own().group, &intent.resource);
                let message = format!("{resource} \"{}\" is forbidden: {why}", intent.name);
                Err(ApiError::forbidden(&resource, &intent.name, message))
            }
        }
    }

    async fn ask_hook(
        &self,
        hook: &Hook,
        intent: &Intent,
        form: &Form,
        mutating: bool,
    ) -> Result<Answer, Failure> {
        if intent.dry_run && !hook.takes_dry_runs {
            let why = format!("admission webhook {:?} does not support dry run", hook.name);
            return Err(Failure::Refused(Box::new(ApiError::bad_request(why))));
        }
        let Some(version) = hook.review else {
            return Err(Failure::Calling("could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)".to_owned()));
        };
        let uid = self.server.ids().uuid().map_err(|error| Failure::Calling(error.to_string()))?;
        let question = review::question(intent, form, self.user, version, &uid);
        let question =
            serde_json::to_vec(&question).map_err(|error| Failure::Calling(error.to_string()))?;
        let trust = hook
            .trust
            .as_ref()
            .map_err(|why| Failure::Calling(format!("could not get REST client: {why}")))?;
        let called = |why: String| Failure::Calling(format!("failed to call webhook: {why}"));
        let endpoint = match &hook.target {
            Target::Url(url) => Endpoint::of_url(url).map_err(called)?,
            Target::Service { namespace, name, path, port } => {
                let mut endpoint = Endpoint::of_service(namespace, name, path, *port);
                let address = self.address_of_service(namespace, name, *port);
                endpoint.address = address.map_err(|why| {
                    called(format!("Post \"{}\": {why}", endpoint.url(hook.timeout)))
                })?;
                endpoint
            }
        };
        let answer = ask(&endpoint, trust, hook.timeout, question).await.map_err(called)?;
        Answer::read(&answer, version, &uid, mutating).map_err(Failure::Calling)
    }

    /// Takes a webhook's failure as its policy says.
    fn end_failure(&mut self, hook: &Hook, failure: Failure, key: &str) -> Result<(), ApiError> {
        match failure {
            Failure::Refused(error) => Err(*error),
            Failure::Calling(why) => {
                tracing::warn!(webhook = hook.name, %why, "cannot ask a webhook");
                if hook.fails {
                    let why = format!("failed calling webhook {:?}: {why}", hook.name);
                    return Err(ApiError::internal(why));
                }
                self.annotations.push((format!("{key}/{}", hook.name), why));
                Ok(())
            }
        }
    }

    fn take_notes(&mut self, hook: &Hook, answer: &Answer) {
        self.warnings.extend(answer.warnings.iter().cloned());
        let annotations = answer.annotations.iter();
        self.annotations.extend(
            annotations.map(|(key, value)| (format!("{}/{key}", hook.name), value.clone())),
        );
    }

    fn note_mutation(
        &mut self,
        round: usize,
        n: usize,
        configuration: &Configuration,
        hook: &Hook,
        mutated: bool,
    ) {
        let key = format!("mutation.webhook.admission.k8s.io/round_{round}_index_{n}");
        let value = json!({
            "configuration": configuration.name, "webhook": hook.name, "mutated": mutated,
        });
        self.annotations.push((key, value.to_string()));
    }
}

fn out_of_time() -> ApiError {
    let why = "Timeout: request did not complete within requested timeout";
    ApiError::generic(http::StatusCode::GATEWAY_TIMEOUT, "Timeout", why).with_empty_details()
}
