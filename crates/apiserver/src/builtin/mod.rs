//! The built-in kinds, made from the table of facts.
//!
//! What is listed is served; what upstream serves and we do not is left out of the table, so that
//! discovery does not promise it and a request for it is answered 404. `facts/README.md` says where
//! the facts come from. Kinds have no module each: `decode` and `defaults` read their types, `shape`
//! makes their schemas when first asked for, `definitions` what OpenAPI says of them, and `code` holds
//! the few defaults that are no data. Whether a value is valid is for `validate`; what a kind's
//! strategy sets or drops is not decided here.

mod alias;
mod cells;
mod code;
mod decode;
mod defaults;
mod definitions;
mod facts;
pub(crate) mod print;
mod protobuf;
mod quantity;
mod resources;
mod scalar;
pub(crate) mod selector;
mod shape;
pub(crate) mod sum;
#[cfg(test)]
mod tests;
pub(crate) mod validate;

pub(crate) use self::cells::Recipe;

pub(crate) use definitions::{REFERENCE, definition, definition_name, wrapped};

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::resource::Table;
use crate::schema::Schema;

pub(crate) use self::alias::Alias;

/// The table of built-in resources; an error names what is wrong with the facts.
pub(crate) fn table() -> Result<Table, String> {
    resources::table(facts::facts()?)
}

/// An object in the form of its built-in kind.
#[derive(Debug)]
pub(crate) struct Shaped {
    /// The object, with defaults.
    pub(crate) object: Map<String, Value>,
    /// Paths of the fields that were dropped because the kind does not have them, sorted.
    pub(crate) unknown: Vec<String>,
}

/// Gives an object the form of a built-in kind and fills in its defaults; `now` is the time of the
/// request. An error is the complaint of Go's decoder.
pub(crate) fn shape(
    api_version: &str,
    kind: &str,
    object: Map<String, Value>,
    now: &str,
) -> Result<Shaped, String> {
    let facts = facts::facts()?;
    let type_ = facts
        .kind(api_version, kind)
        .ok_or_else(|| format!("no kind {kind:?} is registered for version {api_version:?}"))?;
    let decode::Typed { mut object, unknown } = decode::typed(facts, type_, object)?;
    let of = defaults::Kind { name: &format!("{api_version} {kind}"), type_, now };
    defaults::fill(facts, &of, &mut object);
    Ok(Shaped { object, unknown })
}

/// Reads a protobuf message of a built-in kind into the JSON of the same object, which is not shaped
/// yet. An error is the complaint of upstream's decoder.
pub(crate) fn from_protobuf(
    api_version: &str,
    kind: &str,
    message: &[u8],
) -> Result<Map<String, Value>, String> {
    let facts = facts::facts()?;
    let type_ = match kind {
        "DeleteOptions" => Some("meta.v1.DeleteOptions"),
        kind => facts.kind(api_version, kind),
    };
    let type_ = type_
        .ok_or_else(|| format!("no kind {kind:?} is registered for version {api_version:?}"))?;
    protobuf::message(facts, type_, message)
}

/// Writes an object of a built-in kind, a list of them, or a `Status`, as upstream's protobuf. An error
/// names what it cannot hold.
pub(crate) fn to_protobuf(object: &Value) -> Result<Vec<u8>, String> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let facts = facts::facts()?;
    let meta = format!("meta.v1.{kind}");
    let type_ = facts.kind(api_version, kind).or_else(|| {
        let is_meta = matches!(api_version, "v1" | "meta.k8s.io/v1" | "meta.k8s.io/v1beta1");
        (is_meta && facts.has_type(&meta)).then_some(meta.as_str())
    });
    let type_ = type_.ok_or_else(|| format!("{api_version} {kind} is not written as protobuf"))?;
    let fields = object.as_object().ok_or("what is written is an object")?;
    let message = protobuf::write::message(facts, type_, fields)?;
    Ok(protobuf::write::envelope(api_version, kind, &message))
}

/// The same of a watch's event, behind its length.
pub(crate) fn event_to_protobuf(event: &Value) -> Result<Vec<u8>, String> {
    let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
    let object = to_protobuf(event.get("object").unwrap_or(&Value::Null))?;
    Ok(protobuf::write::event(kind, &object))
}

/// A built-in kind as it is before anybody sets a field.
pub(crate) fn empty(api_version: &str, kind: &str) -> Option<Value> {
    let facts = facts::facts().ok()?;
    let type_ = facts.kind(api_version, kind)?;
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    decode::typed(facts, type_, object).ok().map(|typed| typed.object.into())
}

/// The schema of a built-in kind, for one that no resource of its own has.
pub(crate) fn schema(api_version: &str, kind: &str) -> Option<Arc<Schema>> {
    let facts = facts::facts().ok()?;
    Some(Arc::new(shape::schema(facts, facts.kind(api_version, kind)?)))
}
