//! Writes objects, lists and watch events in the negotiated view and the requested version.
//!
//! The common case, whole objects in the version they are stored in, copies bytes and parses
//! nothing.

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use serde_json::{Value, json};

use super::List;
use super::negotiate::{Form, View};
use super::table::{self, About};
use crate::projection::Projection;
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
    /// What the rows of a table need of each object; empty for other forms.
    wanted: Projection,
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
        let wanted = match form.view {
            View::Table(_) => table::wanted(&resource.versions[version]),
            _ => Projection::nothing(),
        };
        Self { resource, version, form, include, defines_columns: true, wanted, now }
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// The client has the columns of its table.
    pub(crate) fn columns_are_known(&mut self) {
        self.defines_columns = false;
    }

    fn table(&self, version: &'static str) -> table::Shape<'_> {
        let (of, include, now) = (self.version(), self.include, self.now);
        let defines_columns = self.defines_columns;
        table::Shape { of, version, include, defines_columns, now }
    }

    /// Writes a stored object's row of a table.
    fn write_row(
        &self,
        shape: table::Shape<'_>,
        stored: &Stored,
        out: &mut BytesMut,
    ) -> Result<(), ApiError> {
        if self.resource.shows_as_stored(self.version) {
            let fields = stored.read(&self.wanted).map_err(ApiError::internal)?;
            return table::row(shape, &About::Stored(stored), &fields, out);
        }
        let object = self.parse(stored)?;
        table::row(shape, &About::Object(&object), &object, out)
    }

    fn version(&self) -> &Version {
        &self.resource.versions[self.version]
    }

    fn api_version(&self) -> String {
        group_version(&self.resource.group, &self.version().name)
    }

    /// Writes a stored object.
    pub(crate) fn write(&self, stored: &Stored, out: &mut BytesMut) -> Result<(), ApiError> {
        if !self.resource.shows_as_stored(self.version) {
            return self.write_object(self.parse(stored)?, out);
        }
        match self.form.view {
            View::Object => stored.write_json(out),
            View::Metadata(version) | View::MetadataList(version) => {
                write_partial(&About::Stored(stored), version, out)?;
            }
            View::Table(version) => {
                let shape = self.table(version);
                let metadata = json!({"resourceVersion": stored.revision().to_string()});
                table::open(shape, &metadata, out)?;
                self.write_row(shape, stored, out)?;
                table::close(out);
            }
        }
        Ok(())
    }

    /// Writes an object of the resource's kind.
    pub(crate) fn write_object(&self, object: Value, out: &mut BytesMut) -> Result<(), ApiError> {
        match self.form.view {
            View::Object => plain(&object, out),
            View::Metadata(version) | View::MetadataList(version) => {
                write_partial(&About::Object(&object), version, out)
            }
            View::Table(version) => {
                let metadata = json!({"resourceVersion": resource_version(&object)});
                let shape = self.table(version);
                table::open(shape, &metadata, out)?;
                table::row(shape, &About::Object(&object), &object, out)?;
                table::close(out);
                Ok(())
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
                out.put_slice(
                    b"{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/",
                );
                out.put_slice(version.as_bytes());
                out.put_slice(b"\",\"metadata\":");
                plain(&list.metadata(), out)?;
                out.put_slice(b",\"items\":[");
                separated(list, out, |stored, out| self.write(stored, out))?;
                out.put_slice(b"]}");
                Ok(())
            }
            View::Table(version) => {
                let shape = self.table(version);
                table::open(shape, &list.metadata(), out)?;
                separated(list, out, |stored, out| self.write_row(shape, stored, out))?;
                table::close(out);
                Ok(())
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
        separated(list, out, |stored, out| self.write_item(stored, out))?;
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
        if self.include == table::Include::None && object.pointer("/metadata/annotations").is_some()
        {
            // What the bookmark says must reach a client that wants no objects.
            let told = Self { include: table::Include::Metadata, ..self.clone() };
            return told.write_object(object, out);
        }
        self.write_object(object, out)
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

/// Writes a list's items, behind commas.
fn separated(
    list: &List,
    out: &mut BytesMut,
    write: impl Fn(&Stored, &mut BytesMut) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    for (n, stored) in list.items.iter().enumerate() {
        if n > 0 {
            out.put_u8(b',');
        }
        write(stored, out)?;
    }
    Ok(())
}

/// Writes an object's metadata as an object of its own.
pub(super) fn write_partial(
    about: &About<'_>,
    version: &str,
    out: &mut BytesMut,
) -> Result<(), ApiError> {
    out.put_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/");
    out.put_slice(version.as_bytes());
    out.put_slice(b"\",\"metadata\":");
    match about {
        About::Stored(stored) => stored.write_metadata(out).map_err(ApiError::internal)?,
        About::Object(object) => plain(object.get("metadata").unwrap_or(&json!({})), out)?,
    }
    out.put_u8(b'}');
    Ok(())
}

fn resource_version(object: &Value) -> &str {
    let metadata = object.get("metadata");
    metadata.and_then(|m| m.get("resourceVersion")).and_then(Value::as_str).unwrap_or_default()
}
