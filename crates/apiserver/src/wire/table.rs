//! The table form: what `kubectl get` prints, one row per object.
//!
//! Rows are written one after the other, and of a stored object only the fields are read that its
//! cells come of; so a table costs little more than the list, in time and in memory.

use bytes::{BufMut, BytesMut};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::age;
use super::present::{plain, write_partial};
use crate::projection::Projection;
use crate::resource::{Cell, Column, Version};
use crate::sabotage::Sabotage;
use crate::status::ApiError;
use crate::stored::Stored;

/// How much of each object a row carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    #[default]
    Metadata,
    Object,
}

impl Include {
    /// The `includeObject` parameter.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "Metadata" => Some(Self::Metadata),
            "None" => Some(Self::None),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

/// How a `Table` is made of objects.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape<'a> {
    /// The version that the objects are shown in.
    pub(super) of: &'a Version,
    /// The version of the table itself.
    pub(super) version: &'static str,
    pub(super) include: Include,
    /// Only the first event of a watch defines the columns.
    pub(super) defines_columns: bool,
    pub(super) now: Timestamp,
}

/// What a row is about.
pub(super) enum About<'a> {
    /// An object that is shown as it is stored.
    Stored(&'a Stored),
    Object(&'a Value),
}

/// The fields that a version's cells come of.
pub(super) fn wanted(of: &Version) -> Projection {
    let mut projection = Projection::nothing();
    for column in &of.columns {
        column.cell.wants(&mut projection);
    }
    if of.finished.is_some() {
        projection.want(["status", "phase"]);
    }
    projection
}

/// Writes all of a table but its rows and its end.
pub(super) fn open(shape: Shape<'_>, metadata: &Value, out: &mut BytesMut) -> Result<(), ApiError> {
    out.put_slice(b"{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/");
    out.put_slice(shape.version.as_bytes());
    out.put_slice(b"\",\"metadata\":");
    plain(metadata, out)?;
    out.put_slice(b",\"columnDefinitions\":");
    plain(&if shape.defines_columns { columns(shape.of) } else { Value::Null }, out)?;
    out.put_slice(b",\"rows\":[");
    Ok(())
}

/// Writes the end of a table.
pub(super) fn close(out: &mut BytesMut) {
    out.put_slice(b"]}");
}

fn columns(of: &Version) -> Value {
    let columns = of.columns.iter().map(|c| {
        json!({
            "name": c.name, "type": c.type_, "format": c.format,
            "description": c.description,
            "priority": if Sabotage::WideTables.is_planted() { 0 } else { c.priority },
        })
    });
    columns.collect()
}

/// Writes a row. `fields` holds at least what is [`wanted`].
pub(super) fn row(
    shape: Shape<'_>,
    about: &About<'_>,
    fields: &Value,
    out: &mut BytesMut,
) -> Result<(), ApiError> {
    out.put_slice(b"{\"cells\":[");
    for (n, column) in shape.of.columns.iter().enumerate() {
        if n > 0 {
            out.put_u8(b',');
        }
        plain(&cell(column, fields, shape.now), out)?;
    }
    out.put_u8(b']');
    if let Some(conditions) = shape.of.finished.and_then(|finished| finished(fields)) {
        out.put_slice(b",\"conditions\":");
        plain(&conditions, out)?;
    }
    out.put_slice(b",\"object\":");
    match (shape.include, about) {
        (Include::None, _) => out.put_slice(b"null"),
        (Include::Metadata, about) => write_partial(about, shape.version, out)?,
        (Include::Object, About::Stored(stored)) => stored.write_json(out),
        (Include::Object, About::Object(object)) => plain(object, out)?,
    }
    out.put_u8(b'}');
    Ok(())
}

fn cell(column: &Column, object: &Value, now: Timestamp) -> Value {
    let path = match &column.cell {
        Cell::Path(path) => path,
        Cell::BuiltIn(recipe) => return recipe.cell(object, now),
    };
    match path.cell(&column.type_, object) {
        Value::String(time) if column.type_ == "date" => age(&time, now).into(),
        cell => cell,
    }
}
