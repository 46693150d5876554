//! Create: a new object, under a name that is free.

use http::StatusCode;
use serde_json::Value;

use super::admission::Operation;
use super::admit::{Admission, Nulls};
use super::metadata::{clear_system, is_deleting, meta, meta_mut, text};
use super::quota::Change;
use super::strategy::{self, Strategy};
use super::{Call, Object};
use crate::request::WriteOptions;
use crate::resource::{GroupResource, Origin};
use crate::status::ApiError;
use crate::wire::Answer;

/// How often a generated name is drawn anew when it is taken; upstream's number.
const NAME_DRAWS: usize = 8;

/// The longest prefix of a generated name, so that five characters more still fit.
const MAX_GENERATED_PREFIX: usize = 58;

impl Call<'_> {
    pub(super) async fn create(&mut self) -> Result<Answer, ApiError> {
        if self.name.is_some() || self.resource.namespaced && self.namespace.is_none() {
            return Err(ApiError::no_such_method());
        }
        let options = WriteOptions::parse(&self.query, "CreateOptions")?;
        let object = self.decode(&options)?;
        self.check_namespace(&object)?;
        self.insert(object, &options, Admission::write(&options)).await
    }

    /// Creates an object: the server's own way.
    pub(crate) async fn create_object(&mut self, object: Object) -> Result<(), ApiError> {
        let options = WriteOptions::parse(&self.query, "CreateOptions")?;
        let object = self.shape(object, &options, Vec::new(), Nulls::Dropped)?;
        let _addresses = self.hold_addresses().await;
        self.insert(object, &options, Admission::write(&options)).await.map(drop)
    }

    /// Stores a decoded object as a new one.
    pub(super) async fn insert(
        &mut self,
        mut object: Object,
        options: &WriteOptions,
        admission: Admission<'_>,
    ) -> Result<Answer, ApiError> {
        self.set_namespace(&mut object);
        let generated = self.choose_name(&mut object)?;
        self.check_definition_stays(text(meta(&object), "name"))?;
        self.check_namespace_exists(text(meta(&object), "name"))?;
        if !matches!(text(meta(&object), "resourceVersion"), "" | "0") {
            return Err(ApiError::unexplained(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        clear_system(meta_mut(&mut object));
        // What the server itself adds from here on belongs to nobody.
        let mut object = self.track(None, object, &admission)?;
        self.allocate(None, &mut object)?;
        self.admit_create(&mut object)?;
        let mut object = self.change(Operation::Create, None, object, options.dry_run).await?;
        strategy::prepare_create(&self.resource, &mut object);
        if Strategy::of(&self.resource).generation {
            meta_mut(&mut object).insert("generation".to_owned(), 1.into());
        }
        self.set_identity(&mut object)?;
        strategy::identify(&self.resource, &mut object);
        let value = Value::Object(object);
        self.validate(None, &value)?;
        let mut object = super::into_object(value)?;
        self.check_grant(None, &object)?;
        strategy::read_back(&self.resource, &mut object);
        self.admit_finally(None, &object)?;
        self.admit(Operation::Create, None, Some(&object), options.dry_run).await?;
        let mut object = self.settled(object)?;
        for _ in 0..NAME_DRAWS {
            let name = text(meta(&object), "name").to_owned();
            if options.dry_run {
                self.check_quotas(Change { old: None, new: Some(&object) }).await?;
                return match self.load(&name)? {
                    Some(_) => Err(self.taken(&name)?),
                    None => Ok(self.answer(StatusCode::CREATED, object)),
                };
            }
            if let Some(revision) = self.put(&name, &object, None).await? {
                let version = revision.to_string();
                meta_mut(&mut object).insert("resourceVersion".to_owned(), version.into());
                return Ok(self.answer(StatusCode::CREATED, object));
            }
            if !generated {
                return Err(self.taken(&name)?);
            }
            self.generate_name(meta_mut(&mut object))?;
        }
        let name = text(meta(&object), "name");
        Err(ApiError::already_exists(&self.group_resource(), name))
    }

    /// The refusal of a name that is taken.
    fn taken(&self, name: &str) -> Result<ApiError, ApiError> {
        let mut error = ApiError::already_exists(&self.group_resource(), name);
        if let Some(stored) = self.load(name)?
            && is_deleting(&self.present(&stored)?)
        {
            error.message = format!("object is being deleted: {}", error.message);
        }
        Ok(error)
    }

    fn set_namespace(&self, object: &mut Object) {
        let metadata = meta_mut(object);
        match &self.namespace {
            Some(namespace) if self.resource.namespaced => {
                metadata.insert("namespace".to_owned(), namespace.clone().into());
            }
            _ => {
                metadata.remove("namespace");
            }
        }
    }

    /// Fills in a generated name where one is asked for; says whether it did.
    fn choose_name(&self, object: &mut Object) -> Result<bool, ApiError> {
        let metadata = meta_mut(object);
        let generate =
            text(metadata, "name").is_empty() && !text(metadata, "generateName").is_empty();
        if generate {
            self.generate_name(metadata)?;
        }
        Ok(generate)
    }

    fn generate_name(&self, metadata: &mut Object) -> Result<(), ApiError> {
        let prefix = text(metadata, "generateName");
        let end = prefix.char_indices().map(|(i, c)| i + c.len_utf8());
        let end = end.take_while(|end| *end <= MAX_GENERATED_PREFIX).last().unwrap_or(0);
        let suffix = self.server.ids().name_suffix().map_err(ApiError::internal)?;
        let name = format!("{}{suffix}", &prefix[..end]);
        metadata.insert("name".to_owned(), name.into());
        Ok(())
    }

    fn set_identity(&self, object: &mut Object) -> Result<(), ApiError> {
        let uid = self.server.ids().uuid().map_err(ApiError::internal)?;
        let now = self.server.now();
        let metadata = meta_mut(object);
        metadata.insert("uid".to_owned(), uid.into());
        metadata.insert("creationTimestamp".to_owned(), now.into());
        Ok(())
    }

    /// Nothing is created of a kind that is going away.
    fn check_definition_stays(&self, name: &str) -> Result<(), ApiError> {
        if !matches!(self.resource.origin, Origin::Custom { terminating: true, .. }) {
            return Ok(());
        }
        let resource = self.group_resource();
        let body = "create not allowed while custom resource definition is terminating";
        let message = format!("{resource} \"{name}\" is forbidden: {body}");
        Err(ApiError::forbidden(&resource, name, message))
    }

    /// Nothing is created in a namespace that is not there, or that is going away.
    pub(super) fn check_namespace_exists(&self, name: &str) -> Result<(), ApiError> {
        let Some(namespace) = self.namespace.as_deref().filter(|_| self.resource.namespaced) else {
            return Ok(());
        };
        let namespaces = GroupResource::new("", "namespaces");
        let Some(object) = self.server.read("", "namespaces", None, namespace)? else {
            return Err(ApiError::not_found(&namespaces, namespace));
        };
        if object.get("status").and_then(|s| s.get("phase")).and_then(Value::as_str)
            != Some("Terminating")
        {
            return Ok(());
        }
        let resource = self.group_resource();
        let body = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let message = format!("{resource} \"{name}\" is forbidden: {body}");
        Err(ApiError::forbidden(&resource, name, message).cause(
            "NamespaceTerminating",
            &format!("namespace {namespace} is being terminated"),
            "metadata.namespace",
        ))
    }
}
