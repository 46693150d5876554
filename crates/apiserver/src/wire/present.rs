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
        Self { resource, version, form, include, now }
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }

    fn version(&self) -> &Version {
        &self.resource.versions[self.version]
    }

    fn api_version(&self) -> String {
        group_version(&self.resource.group, &self.version().name)
    }

    /// Writes a stored object.
    pub(crate) fn write(&self, stored: &Stored, out: &mut BytesMut) -> Result<(), ApiError> {
        if self.form.view == View::Object && self.version == self.resource.storage {
            stored.write_json(out);
            return Ok(());
        }
        self.write_object(self.parse(stored)?, out)
    }

    /// Writes an object of the resource's kind.
    pub(crate) fn write_object(&self, object: Value, out: &mut BytesMut) -> Result<(), ApiError> {
        let value = match self.form.view {
            View::Object => object,
            View::Metadata(version) => metadata_only(&object, version),
            View::Table(version) => {
                let metadata = json!({"resourceVersion": resource_version(&object)});
                let rows = std::slice::from_ref(&object);
                table::table(self.version(), version, rows, self.include, metadata, self.now)
            }
        };
        plain(&value, out)
    }

    /// Writes a page of a list.
    pub(crate) fn write_list(&self, list: &List, out: &mut BytesMut) -> Result<(), ApiError> {
        match self.form.view {
            View::Object => {
                let head = json!({
                    "kind": self.resource.list_kind,
                    "apiVersion": self.api_version(),
                    "metadata": list.metadata(),
                });
                self.write_items(&head, &list.items, out)
            }
            View::Metadata(version) => {
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
                let metadata = list.metadata();
                let include = self.include;
                let table =
                    table::table(self.version(), version, &rows?, include, metadata, self.now);
                plain(&table, out)
            }
        }
    }

    fn write_items(
        &self,
        head: &Value,
        items: &[Stored],
        out: &mut BytesMut,
    ) -> Result<(), ApiError> {
        let head = head.to_string();
        out.put_slice(head.trim_end_matches('}').as_bytes());
        // The metadata's own brace was trimmed with the list's.
        out.put_slice(b"},\"items\":[");
        for (n, stored) in items.iter().enumerate() {
            if n > 0 {
                out.put_u8(b',');
            }
            self.write(stored, out)?;
        }
        out.put_slice(b"]}\n");
        Ok(())
    }

    /// Writes the object of a bookmark: nothing but this metadata.
    pub(crate) fn write_bookmark(
        &self,
        metadata: Value,
        out: &mut BytesMut,
    ) -> Result<(), ApiError> {
        let object = json!({
            "kind": self.resource.kind,
            "apiVersion": self.api_version(),
            "metadata": metadata,
        });
        match self.form.view {
            View::Object => plain(&object, out),
            View::Metadata(version) => {
                plain(&metadata_only(&object, version), out)
            }
            View::Table(version) => {
                let rows = std::slice::from_ref(&object);
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                let include = self.include;
                plain(
                    &table::table(self.version(), version, rows, include, metadata, self.now),
                    out,
                )
            }
        }
    }

    fn parse(&self, stored: &Stored) -> Result<Value, ApiError> {
        let mut object = stored.to_value().map_err(ApiError::internal)?;
        object["apiVersion"] = self.api_version().into();
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
