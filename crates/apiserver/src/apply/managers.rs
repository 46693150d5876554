//! `metadata.managedFields`: who owns which fields, since when.
//!
//! A manager is known by its name, the kind of operation, the subresource and, for updates, the
//! version it spoke. Entries are written in upstream's order: appliers first, then by time.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::MAX_DEPTH;
use super::set::{DecodeFields, FieldSet};
use crate::schema::print;

/// How a manager changed the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// What tells managers apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagerId {
    /// The name that the client gave.
    pub name: String,
    /// How it writes.
    pub operation: Operation,
    /// The version it wrote in; empty for appliers, who stay the same across versions.
    pub api_version: String,
    /// The subresource it wrote through, or empty.
    pub subresource: String,
}

impl ManagerId {
    pub(super) fn new(
        name: &str,
        operation: Operation,
        api_version: &str,
        subresource: &str,
    ) -> Self {
        Self {
            name: name.to_owned(),
            operation,
            api_version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => api_version.to_owned(),
            },
            subresource: subresource.to_owned(),
        }
    }
}

/// The manager as conflicts name it.
impl std::fmt::Display for ManagerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&print::quote(&self.name))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", print::quote(&self.subresource))?;
        }
        match self.operation {
            Operation::Apply => Ok(()),
            Operation::Update => write!(f, " using {}", self.api_version),
        }
    }
}

/// What one manager owns, in the version it said so.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Owned {
    pub(super) set: FieldSet,
    pub(super) api_version: String,
}

/// All managers of an object.
#[derive(Debug, Clone, Default)]
pub(super) struct Managers {
    pub(super) owned: BTreeMap<ManagerId, Owned>,
    /// When a manager last changed something. Outlives the manager within one request.
    pub(super) times: BTreeMap<ManagerId, Timestamp>,
}

/// A `managedFields` list that cannot be understood.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum DecodeManagers {
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    #[error("apiVersion must not be empty")]
    ApiVersion,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    #[error("invalid fieldsType {0:?} in managed fields entry {1}")]
    FieldsType(String, usize),
    #[error("error decoding versioned set: {0}")]
    Fields(#[from] DecodeFields),
}

/// The object's entries. What is no list of entries at all counts as absent.
pub(super) fn entries(object: &Value) -> Option<&[Value]> {
    let list = object.get("metadata")?.get("managedFields")?.as_array()?;
    let typed = |entry: &Value| {
        let Value::Object(entry) = entry else { return false };
        let texts = ["manager", "operation", "apiVersion", "fieldsType", "subresource"];
        let is_text = |key: &&str| entry.get(*key).is_none_or(|v| v.is_string() || v.is_null());
        let time = entry.get("time").filter(|time| !time.is_null());
        texts.iter().all(is_text) && time.is_none_or(|time| parse_time(time).is_some())
    };
    list.iter().all(typed).then_some(list)
}

/// Takes the entries out of the object.
/// A copy of an object without the entries.
pub(super) fn bare(object: &Value) -> Value {
    let Value::Object(fields) = object else { return object.clone() };
    let copy = |(name, value): (&String, &Value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let kept = metadata.iter().filter(|(field, _)| *field != "managedFields");
            (name.clone(), kept.map(|(field, value)| (field.clone(), value.clone())).collect())
        }
        value => (name.clone(), value.clone()),
    };
    fields.iter().map(copy).collect()
}

pub(super) fn strip(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

fn parse_time(time: &Value) -> Option<Timestamp> {
    let time: Timestamp = time.as_str()?.parse().ok()?;
    Timestamp::from_second(time.as_second()).ok()
}

fn text<'v>(entry: &'v Value, key: &str) -> &'v str {
    entry.get(key).and_then(Value::as_str).unwrap_or_default()
}

impl Managers {
    pub(super) fn decode(entries: &[Value]) -> Result<Self, DecodeManagers> {
        let mut out = Self::default();
        for (i, entry) in entries.iter().enumerate() {
            let operation = match text(entry, "operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err(DecodeManagers::Operation),
            };
            let api_version = text(entry, "apiVersion");
            if api_version.is_empty() {
                return Err(DecodeManagers::ApiVersion);
            }
            match text(entry, "fieldsType") {
                "FieldsV1" => {}
                "" => return Err(DecodeManagers::NoFieldsType(i)),
                other => return Err(DecodeManagers::FieldsType(other.to_owned(), i)),
            }
            let id = ManagerId::new(
                text(entry, "manager"),
                operation,
                api_version,
                text(entry, "subresource"),
            );
            // One level more than an object has: the leaves are empty objects.
            let fields = entry.get("fieldsV1").unwrap_or(&Value::Null);
            let set = FieldSet::from_fields_v1(fields, MAX_DEPTH + 2)?;
            match entry.get("time").and_then(parse_time) {
                Some(time) => out.times.insert(id.clone(), time),
                None => out.times.remove(&id),
            };
            out.owned.insert(id, Owned { set, api_version: api_version.to_owned() });
        }
        Ok(out)
    }

    /// Writes the entries into the object, or takes them out where nobody owns anything.
    pub(super) fn encode_into(&self, object: &mut Value) {
        if self.owned.is_empty() {
            return strip(object);
        }
        let Value::Object(object) = object else { return };
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        if metadata.is_null() {
            *metadata = json!({});
        }
        if let Value::Object(metadata) = metadata {
            metadata.insert("managedFields".to_owned(), self.encode());
        }
    }

    fn encode(&self) -> Value {
        let mut entries: Vec<_> = self.owned.iter().collect();
        entries.sort_by_key(|(id, owned)| {
            let time = self.seconds(id);
            (id.operation, time, &id.name, &owned.api_version, &id.subresource)
        });
        entries.into_iter().map(|(id, owned)| self.encode_entry(id, owned)).collect()
    }

    fn encode_entry(&self, id: &ManagerId, owned: &Owned) -> Value {
        let mut entry = Map::new();
        let mut put = |key: &str, value: Value| entry.insert(key.to_owned(), value);
        if !id.name.is_empty() {
            put("manager", id.name.as_str().into());
        }
        put("operation", id.operation.name().into());
        put("apiVersion", owned.api_version.as_str().into());
        if let Some(time) = self.times.get(id) {
            put("time", time.to_string().into());
        }
        put("fieldsType", "FieldsV1".into());
        put("fieldsV1", owned.set.to_fields_v1());
        if !id.subresource.is_empty() {
            put("subresource", id.subresource.as_str().into());
        }
        Value::Object(entry)
    }

    fn seconds(&self, id: &ManagerId) -> i64 {
        self.times.get(id).map_or(0, |time| time.as_second())
    }

    /// Merges the oldest updaters of each version into one, until at most `most` are left or no
    /// two of a version are.
    pub(super) fn cap_updaters(&mut self, most: usize) {
        let is_updater = |id: &&ManagerId| id.operation == Operation::Update;
        let mut updaters: Vec<_> = self.owned.keys().filter(is_updater).cloned().collect();
        let mut left = updaters.len();
        updaters.sort_by(|a, b| self.seconds(a).cmp(&self.seconds(b)).then_with(|| a.cmp(b)));

        let mut first_of: BTreeMap<String, ManagerId> = BTreeMap::new();
        for id in updaters {
            if left <= most {
                break;
            }
            let Some(owned) = self.owned.get(&id).cloned() else { continue };
            let Some(first) = first_of.get(&owned.api_version) else {
                first_of.insert(owned.api_version, id);
                continue;
            };
            let bucket = ManagerId::new(ANCIENT, Operation::Update, &owned.api_version, "");
            if !self.owned.contains_key(&bucket)
                && let Some(oldest) = self.owned.remove(first)
            {
                self.owned.insert(bucket.clone(), oldest);
            }
            if let Some(kept) = self.owned.get_mut(&bucket) {
                kept.set = std::mem::take(&mut kept.set).union(&owned.set);
            }
            if bucket != id {
                self.owned.remove(&id);
                left -= 1;
                match self.times.get(&id).copied() {
                    Some(time) => self.times.insert(bucket, time),
                    None => self.times.remove(&bucket),
                };
            }
        }
    }
}

/// The manager that the oldest updaters are merged into.
const ANCIENT: &str = "ancient-changes";
