//! TokenRequest: a create at a service account that is answered with a token. Nothing is stored.
//!
//! A token may be bound to a pod, a secret or a node, and ends with it. What a pod asks for of its
//! own mount lives a year instead of an hour, as upstream has it for clients that do not read their
//! token again; `warnafter` in the token says when they should have.

use http::StatusCode;
use serde_json::{Value, json};

use super::admission::Operation;
use super::admit::Admission;
use super::metadata::{meta, meta_mut, strings, text};
use super::{Call, Object};
use crate::auth::service_account::{Bound, Order, Subject};
use crate::request::WriteOptions;
use crate::resource::{GroupKind, GroupResource};
use crate::schema::field::{FieldError, FieldPath};
use crate::status::ApiError;
use crate::wire::Answer;

/// What the mounts of pods ask for, in seconds: a number that stands for "as before".
pub(super) const MOUNTED_SECONDS: i64 = 3607;

/// How long such a token really lives, in seconds: a year.
const EXTENDED_SECONDS: i64 = 365 * 24 * 60 * 60;

/// The shortest and the longest time that may be asked for, in seconds.
const SECONDS: (i64, i64) = (600, 1 << 32);

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";

impl Call<'_> {
    pub(super) async fn request_token(&mut self) -> Result<Answer, ApiError> {
        let options = WriteOptions::parse(&self.query, "CreateOptions")?;
        let request = self.decode(&options)?;
        self.check_namespace(&request)?;
        self.check_about(&request)?;
        let request = self.track(None, request, &Admission::write(&options))?;
        self.restrict_token(&request)?;
        let mut request = self.change(Operation::Create, None, request, options.dry_run).await?;
        self.admit(Operation::Create, None, Some(&request), options.dry_run).await?;
        let account = self.load(self.name())?.ok_or_else(|| self.not_found())?;
        let account = self.present(&account)?;
        self.check_account_uid(&request, &account)?;
        let spec = request.entry("spec").or_insert_with(|| json!({}));
        if spec["audiences"].as_array().is_none_or(Vec::is_empty) {
            spec["audiences"] = self.server.authenticator().audiences.clone().into();
        }
        let spec = spec.clone();
        let seconds = spec["expirationSeconds"].as_i64().unwrap_or_default();
        check_seconds(seconds)?;
        let mut subject = self.bound(&spec["boundObjectRef"])?;
        let namespace = self.namespace.clone().unwrap_or_default();
        subject.serviceaccount = Bound::of(&account);
        subject.namespace.clone_from(&namespace);
        let audiences = spec.as_object().map(|spec| strings(spec, "audiences"));
        let audiences: Vec<String> = audiences.into_iter().flatten().map(str::to_owned).collect();
        let now = self.server.timestamp();
        let ours = &self.server.authenticator().audiences;
        let mounted = subject.pod.is_some()
            && seconds == MOUNTED_SECONDS
            && audiences.iter().all(|audience| ours.contains(audience));
        if mounted {
            subject.warnafter = Some(now.as_second().saturating_add(seconds));
        }
        let id = self.server.ids().uuid().map_err(ApiError::internal)?;
        let token = self.server.issuer().issue(&Order {
            subject: &subject,
            audiences: &audiences,
            now,
            seconds: if mounted { EXTENDED_SECONDS } else { seconds },
            id: &id,
        });
        let metadata = meta_mut(&mut request);
        for (field, value) in [
            ("name", &subject.serviceaccount.name),
            ("namespace", &namespace),
            ("uid", &subject.serviceaccount.uid),
            ("creationTimestamp", &self.server.now()),
        ] {
            metadata.insert(field.to_owned(), value.as_str().into());
        }
        let ends = self.server.deletion_time(seconds);
        request.insert("status".to_owned(), json!({"token": token, "expirationTimestamp": ends}));
        Ok(Answer::Other { code: StatusCode::CREATED, object: request })
    }

    /// What the request says of itself must fit the path.
    fn check_about(&self, request: &Object) -> Result<(), ApiError> {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        for (field, wanted) in [("name", self.name()), ("namespace", namespace)] {
            let sent = text(meta(request), field);
            if !sent.is_empty() && sent != wanted {
                let at = FieldPath::root().child("metadata").child(field);
                let why = match field {
                    "name" => "must match the service account name if specified",
                    _ => "must match the service account namespace if specified",
                };
                let error = FieldError::invalid(at, sent, why);
                return Err(ApiError::invalid(&kind(), self.name(), &[error]));
            }
        }
        Ok(())
    }

    fn check_account_uid(&self, request: &Object, account: &Object) -> Result<(), ApiError> {
        let (sent, found) = (text(meta(request), "uid"), text(meta(account), "uid"));
        if sent.is_empty() || sent == found {
            return Ok(());
        }
        let why = format!(
            "the UID in the token request ({sent}) does not match the UID of the service account ({found})"
        );
        Err(ApiError::conflict(&GroupResource::new(GROUP, KIND), self.name(), &why))
    }

    /// What the token shall be bound to.
    fn bound(&self, reference: &Value) -> Result<Subject, ApiError> {
        let mut subject = Subject::default();
        let Some(reference) = reference.as_object() else { return Ok(subject) };
        let (api_version, kind) = (text(reference, "apiVersion"), text(reference, "kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let name = text(reference, "name");
        let namespace = self.namespace.as_deref();
        let found = |plural: &str, namespace: Option<&str>| {
            self.server
                .read("", plural, namespace, name)?
                .ok_or_else(|| ApiError::not_found(&GroupResource::new("", plural), name))
        };
        let bound = match (group, kind) {
            ("", "Pod") => {
                let pod = found("pods", namespace)?;
                subject.node = self.node_of(&pod)?;
                subject.pod.insert(Bound::of(&pod))
            }
            ("", "Secret") => subject.secret.insert(Bound::of(&found("secrets", namespace)?)),
            ("", "Node") => subject.node.insert(Bound::of(&found("nodes", None)?)),
            _ => {
                let gvk = format!("{group}/{version}, Kind={kind}");
                let why = format!("cannot bind token to object of type {gvk}");
                return Err(ApiError::bad_request(why));
            }
        };
        let wanted = text(reference, "uid");
        if !wanted.is_empty() && wanted != bound.uid {
            let why = format!(
                "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been deleted and then recreated"
            );
            return Err(ApiError::conflict(&GroupResource::new("", kind), name, &why));
        }
        Ok(subject)
    }

    /// The node that a pod is on, for the token to tell. The pod must run as the account.
    fn node_of(&self, pod: &Object) -> Result<Option<Bound>, ApiError> {
        let spec = pod.get("spec").and_then(Value::as_object);
        let of = |field| spec.map(|spec| text(spec, field)).unwrap_or_default();
        if of("serviceAccountName") != self.name() {
            return Err(ApiError::bad_request(format!(
                "cannot bind token for serviceaccount \"{}\" to pod running with different serviceaccount name.",
                self.name()
            )));
        }
        let name = of("nodeName");
        if name.is_empty() {
            return Ok(None);
        }
        let node = self.server.read("", "nodes", None, name)?;
        let absent = || Bound { name: name.to_owned(), uid: String::new() };
        Ok(Some(node.map_or_else(absent, |node| Bound::of(&node))))
    }
}

fn check_seconds(seconds: i64) -> Result<(), ApiError> {
    let (least, most) = SECONDS;
    let why = match seconds {
        _ if seconds < least => "may not specify a duration less than 10 minutes",
        _ if seconds > most => "may not specify a duration larger than 2^32 seconds",
        _ => return Ok(()),
    };
    let at = FieldPath::root().child("spec").child("expirationSeconds");
    Err(ApiError::invalid(&kind(), "", &[FieldError::invalid(at, seconds, why)]))
}

fn kind() -> GroupKind {
    GroupKind { group: GROUP.to_owned(), kind: KIND.to_owned() }
}
