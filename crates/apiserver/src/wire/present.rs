//! Writes objects, lists and watch events in the negotiated view and the requested version.
//!
//! The common case, whole objects in the version they are stored in, copies bytes and parses
//! nothing.

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use serde_json::{Value, json};

use super::List;
use super::negotiate::{Form, View};
use super::table;
use crate::resource::{Resource, Version, group_version};
use crate::status::ApiError;
use crate::stored::Stored;

/// Knows a resource, the requested version, and the form of the answer.
#[derive(Debug, Clone)]
pub(crate) struct Presenter {
    resource: Arc<Resource>,
    version: usize,
    form: Form,
    /// How much of each object the rows of a table carry.
    include: table::Include,
    defines_columns: bool,
    now: jiff::Timestamp,
}

impl Presenter {
    pub(crate) fn new(
        resource: Arc<Resource>,
        version: usize,
        form: Form,
        include: table::Include,
        now: jiff::Timestamp,
    ) -> Self {
        Self { resource, version, form, include, defines_columns: true, now }
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// The client has the columns of its table.
    pub(crate) fn columns_are_known(&mut self) {
        self.defines_columns = false;
    }

    fn table(&self, version: &'static str, objects: &[Value], metadata: Value) -> Value {
        let (of, include, now) = (self.version(), self.include, self.now);
        let defines_columns = self.defines_columns;
        let shape = table::Shape { of, version, include, defines_columns, now };
        table::table(shape, objects, metadata)
    }

    fn version(&self) -> &Version {
        &self.resource.versions[self.version]
    }

    fn api_version(&self) -> String {
        group_version(&self.resource.group, &self.version().name)
    }

    /// Writes a stored object.
    pub(crate) fn write(&self, stored: &Stored, out: &mut BytesMut) -> Result<(), ApiError> {
        if self.form.view == View::Object && self.resource.shows_as_stored(self.version) {
            stored.write_json(out);
            return Ok(());
        }
        self.write_object(self.parse(stored)?, out)
    }

    /// Writes an object of the resource's kind.
    pub(crate) fn write_object(&self, object: Value, out: &mut BytesMut) -> Result<(), ApiError> {
        let value = self.view(object);
        plain(&value, out)
    }

    fn view(&self, object: Value) -> Value {
        match self.form.view {
            View::Object => object,
            View::Metadata(version) | View::MetadataList(version) => {
                metadata_only(&object, version)
            }
            View::Table(version) => {
                let metadata = json!({"resourceVersion": resource_version(&object)});
                self.table(version, std::slice::from_ref(&object), metadata)
            }
        }
    }

    /// A view of lists does not fit an object.
    pub(crate) fn check_object(&self) -> Result<(), ApiError> {
        match self.form.view {
            View::MetadataList(_) => Err(ApiError::no_such_view(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                self.go_type(&self.resource.kind)
            ))),
            _ => Ok(()),
        }
    }

    /// A view of objects does not fit a list.
    fn check_list(&self) -> Result<(), ApiError> {
        match self.form.view {
            View::Metadata(_) => Err(ApiError::no_such_view(format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({})",
                self.go_type(&self.resource.list_kind)
            ))),
            _ => Ok(()),
        }
    }

    /// What upstream's sources call a type of this resource, which is part of what clients see.
    fn go_type(&self, kind: &str) -> String {
        if self.resource.is_custom() {
            let list = if kind == self.resource.list_kind { "List" } else { "" };
            return format!("*unstructured.Unstructured{list}");
        }
        let package = match self.resource.group.split('.').next().unwrap_or_default() {
            "" => "core",
            package => package,
        };
        format!("*{package}.{kind}")
    }

    /// Writes a page of a list.
    pub(crate) fn write_list(&self, list: &List, out: &mut BytesMut) -> Result<(), ApiError> {
        self.check_list()?;
        match self.form.view {
            View::Object => self.write_items(list, out),
            View::Metadata(version) | View::MetadataList(version) => {
                let items: Result<Vec<Value>, ApiError> = (list.items.iter())
                    .map(|stored| Ok(metadata_only(&self.parse(stored)?, version)))
                    .collect();
                let value = json!({
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": format!("meta.k8s.io/{version}"),
                    "metadata": list.metadata(),
                    "items": items?,
                });
                plain(&value, out)
            }
            View::Table(version) => {
                let rows: Result<Vec<_>, _> = list.items.iter().map(|s| self.parse(s)).collect();
                plain(&self.table(version, &rows?, list.metadata()), out)
            }
        }
    }

    fn write_items(&self, list: &List, out: &mut BytesMut) -> Result<(), ApiError> {
        let mut metadata = list.metadata();
        if self.resource.is_custom() && list.continue_token.is_none() {
            // Upstream's lists of custom objects say so even when nothing follows.
            metadata["continue"] = "".into();
        }
        out.put_slice(b"{\"kind\":");
        plain(&self.resource.list_kind.as_str().into(), out)?;
        out.put_slice(b",\"apiVersion\":");
        plain(&self.api_version().into(), out)?;
        out.put_slice(b",\"metadata\":");
        plain(&metadata, out)?;
        out.put_slice(b",\"items\":[");
        for (n, stored) in list.items.iter().enumerate() {
            if n > 0 {
                out.put_u8(b',');
            }
            self.write_item(stored, out)?;
        }
        out.put_slice(b"]}");
        Ok(())
    }

    /// Writes an item of a list; only custom ones repeat what they are.
    fn write_item(&self, stored: &Stored, out: &mut BytesMut) -> Result<(), ApiError> {
        if self.resource.is_custom() {
            return self.write(stored, out);
        }
        if self.resource.shows_as_stored(self.version) {
            stored.write_untyped(out);
            return Ok(());
        }
        let mut object = self.parse(stored)?;
        if let Some(object) = object.as_object_mut() {
            object.retain(|key, _| key != "apiVersion" && key != "kind");
        }
        plain(&object, out)
    }

    /// Writes the object of a bookmark: nothing but this metadata, over the kind's empty fields.
    pub(crate) fn write_bookmark(
        &self,
        metadata: Value,
        out: &mut BytesMut,
    ) -> Result<(), ApiError> {
        let api_version = self.api_version();
        let kind = &self.resource.kind;
        let empty = crate::builtin::empty(&api_version, kind);
        let mut object = empty
            .filter(|_| !self.resource.is_custom())
            .unwrap_or_else(|| json!({"kind": kind, "apiVersion": api_version}));
        object["metadata"] = metadata;
        plain(&self.view(object), out)
    }

    fn parse(&self, stored: &Stored) -> Result<Value, ApiError> {
        let mut object = stored.to_value().map_err(ApiError::internal)?;
        self.resource.show(self.version, &mut object);
        Ok(object)
    }
}

/// Writes a value as JSON.
pub(super) fn plain(value: &Value, out: &mut BytesMut) -> Result<(), ApiError> {
    serde_json::to_writer(out.writer(), value).map_err(ApiError::internal)
}

/// An object's metadata as an object of its own.
pub(super) fn metadata_only(object: &Value, version: &str) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

fn resource_version(object: &Value) -> &str {
    let metadata = object.get("metadata");
    metadata.and_then(|m| m.get("resourceVersion")).and_then(Value::as_str).unwrap_or_default()
}
