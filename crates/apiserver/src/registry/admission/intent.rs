//! What a request is about to do to an object, as policies and webhooks are told of it.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::super::metadata::{meta, text};
use super::super::{Call, Object};
use crate::auth::User;
use crate::request::Query;
use crate::resource::Resource;
use crate::status::ApiError;

/// What is done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::registry) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    /// The operation as the API spells it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }

    fn options(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Delete => "DeleteOptions",
            Self::Connect => "",
        }
    }
}

/// A form in which the object of a request can be had: its own, and those of the same kind in other
/// versions and groups.
#[derive(Debug, Clone)]
pub(super) struct Form {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: Kind,
    /// The resource and its version, unless the form is the request's own.
    other: Option<(Arc<Resource>, usize)>,
}

/// A kind in a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

impl Kind {
    fn to_value(&self) -> Value {
        json!({"group": self.group, "version": self.version, "kind": self.kind})
    }
}

/// What is about to be done.
pub(super) struct Intent {
    pub(super) operation: Operation,
    /// The request's own form first.
    pub(super) forms: Vec<Form>,
    pub(super) resource: String,
    pub(super) subresource: String,
    /// The namespace; for a namespace its own name.
    pub(super) namespace: String,
    pub(super) name: String,
    /// The object as it shall be; null where there will be none.
    pub(super) object: Value,
    /// The object as it is; null where there is none.
    pub(super) old: Value,
    pub(super) options: Value,
    pub(super) dry_run: bool,
    resource_of: Arc<Resource>,
    own_version: usize,
}

impl Intent {
    /// Whether it is done to what admission itself is configured with, or to a question that nobody
    /// may stand between: without these a cluster could not be mended.
    pub(super) fn is_exempt(&self) -> bool {
        let group = self.own().group.as_str();
        matches!(group, "admissionregistration.k8s.io")
            || matches!(group, "authentication.k8s.io" | "authorization.k8s.io")
                && self.resource.ends_with("reviews")
    }

    /// The form of the request itself.
    pub(super) fn own(&self) -> &Form {
        // There is always one.
        &self.forms[0]
    }

    /// Whether it is done to a namespace itself.
    pub(super) fn is_namespace(&self) -> bool {
        self.own().group.is_empty() && self.resource == "namespaces"
    }

    /// An object of the request in one of its forms.
    pub(super) fn in_form(&self, object: &Value, form: &Form) -> Value {
        let mut object = object.clone();
        if let Some((resource, version)) = &form.other
            && object.is_object()
        {
            self.resource_of.store(&mut object);
            resource.show(*version, &mut object);
        }
        object
    }

    /// An object in one of the forms as the request itself has it.
    pub(super) fn in_own_form(&self, mut object: Value, form: &Form) -> Value {
        if let Some((resource, _)) = &form.other {
            resource.store(&mut object);
            self.resource_of.show(self.own_version, &mut object);
        }
        object
    }

    /// The request as expressions and webhooks see it, in one of its forms.
    pub(super) fn request(&self, form: &Form, user: &User) -> Map<String, Value> {
        let resource = |form: &Form| json!({"group": form.group, "version": form.version, "resource": self.resource});
        let mut request = Map::new();
        let mut set = |field: &str, value: Value| {
            request.insert(field.to_owned(), value);
        };
        set("kind", form.kind.to_value());
        set("resource", resource(form));
        set("requestKind", self.own().kind.to_value());
        set("requestResource", resource(self.own()));
        for (field, text) in [
            ("subResource", &self.subresource),
            ("requestSubResource", &self.subresource),
            ("name", &self.name),
            ("namespace", &self.namespace),
        ] {
            if !text.is_empty() {
                set(field, text.as_str().into());
            }
        }
        set("operation", self.operation.as_str().into());
        set("userInfo", user_info(user));
        set("dryRun", self.dry_run.into());
        set("options", self.options.clone());
        request
    }
}

fn user_info(user: &User) -> Value {
    let mut info = Map::new();
    for (field, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            info.insert(field.to_owned(), text.as_str().into());
        }
    }
    if !user.groups.is_empty() {
        info.insert("groups".to_owned(), user.groups.clone().into());
    }
    if !user.extra.is_empty() {
        info.insert("extra".to_owned(), json!(user.extra));
    }
    info.into()
}

impl Call<'_> {
    /// What this request is about to do. What it is done to may be absent before or after.
    pub(super) fn intent(
        &self,
        operation: Operation,
        old: Option<&Object>,
        object: Option<&Object>,
        dry_run: bool,
    ) -> Result<Intent, ApiError> {
        let value = |object: Option<&Object>| -> Result<Value, ApiError> {
            let Some(object) = object else { return Ok(Value::Null) };
            let shown = if self.is_scale() { self.view(object)? } else { object.clone() };
            Ok(Value::Object(shown))
        };
        let (object, old) = (value(object)?, value(old)?);
        let mut name = self.name.clone().unwrap_or_default();
        if name.is_empty()
            && let Some(object) = object.as_object()
        {
            name = text(meta(object), "name").to_owned();
        }
        let mut namespace = self.namespace.clone().unwrap_or_default();
        if self.resource.is("", "namespaces") {
            namespace.clone_from(&name);
        }
        let options = options(operation, &self.query, dry_run);
        Ok(Intent {
            operation,
            forms: self.forms(),
            resource: self.resource.plural.clone(),
            subresource: self.subresource.clone().unwrap_or_default(),
            namespace,
            name,
            object,
            old,
            options,
            dry_run,
            resource_of: Arc::clone(&self.resource),
            own_version: self.version,
        })
    }

    /// The forms of what the request is about, its own first.
    fn forms(&self) -> Vec<Form> {
        let (api_version, kind) = self.expected_kind();
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let own = Form {
            group: self.resource.group.clone(),
            version: self.version().name.clone(),
            kind: Kind { group: group.to_owned(), version: version.to_owned(), kind },
            other: None,
        };
        let mut forms = vec![own];
        let table = self.server.table();
        let same_kind = forms[0].kind.kind == self.resource.kind;
        for resource in table.iter() {
            let alike = resource.plural == self.resource.plural
                && resource.storage_group() == self.resource.storage_group();
            if !alike {
                continue;
            }
            for (n, version) in resource.versions.iter().enumerate().filter(|(_, v)| v.served) {
                if resource.group == self.resource.group && n == self.version {
                    continue;
                }
                let kind = match same_kind {
                    true => Kind {
                        group: resource.group.clone(),
                        version: version.name.clone(),
                        kind: resource.kind.clone(),
                    },
                    false => forms[0].kind.clone(),
                };
                forms.push(Form {
                    group: resource.group.clone(),
                    version: version.name.clone(),
                    kind,
                    other: same_kind.then(|| (Arc::clone(resource), n)),
                });
            }
        }
        forms
    }
}

/// The options of the request as an object.
fn options(operation: Operation, query: &Query, dry_run: bool) -> Value {
    if operation == Operation::Connect {
        return Value::Null;
    }
    let mut options = json!({"kind": operation.options(), "apiVersion": "meta.k8s.io/v1"});
    if operation != Operation::Delete {
        for field in ["fieldManager", "fieldValidation"] {
            if let Some(value) = query.get(field) {
                options[field] = value.into();
            }
        }
    }
    if dry_run {
        options["dryRun"] = json!(["All"]);
    }
    options
}
