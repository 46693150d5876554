//! How an object lies in the store: its JSON without `resourceVersion`, behind a small index.
//!
//! The revision of a write is known only once it is written, and the store does not read JSON; so
//! the object is kept without it and the number is spliced in on the way out, without parsing.
//! The index holds the labels and the selectable fields, so that a list or a watch with a selector
//! parses some dozen bytes per object instead of the whole of it.
//!
//! `apiVersion` and `kind` come first, so that a list of built-in objects, whose items do not repeat
//! them, is a copy of bytes as well.
//!
//! Layout: `u32 splice offset | u32 type length | u32 index length | index JSON | object JSON`, little
//! endian. The splice is where the metadata opens; the type ends where the object's other fields begin.

use bytes::{BufMut, Bytes, BytesMut};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use store::{Entry, Revision};

use std::collections::BTreeMap;

use crate::projection::Projection;

/// What selectors look at.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Index {
    #[serde(rename = "l", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(rename = "f", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) fields: BTreeMap<String, String>,
}

/// An object's bytes as they lie in the store, and the revision that wrote them.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    bytes: Bytes,
    revision: Revision,
}

/// The store holds bytes that [`encode`] did not write.
#[derive(Debug, thiserror::Error)]
#[error("an object in the store is damaged: {0}")]
pub(crate) struct Damaged(&'static str);

const HEADER: usize = 12;

/// What stands before the other fields of an object.
const TYPE_META: [&str; 2] = ["apiVersion", "kind"];

/// The lengths before the index.
#[derive(Clone, Copy, Default)]
struct Header {
    splice: usize,
    type_meta: usize,
    index: usize,
}

impl Stored {
    /// Checks the header of a stored value.
    pub(crate) fn new(bytes: Bytes, revision: Revision) -> Result<Self, Damaged> {
        let stored = Self { bytes, revision };
        let header = stored.header().ok_or(Damaged("no header"))?;
        let json = HEADER.checked_add(header.index).ok_or(Damaged("index too long"))?;
        if header.type_meta > header.splice
            || json.checked_add(header.splice).is_none_or(|end| end > stored.bytes.len())
        {
            return Err(Damaged("truncated"));
        }
        Ok(stored)
    }

    pub(crate) fn from_entry(entry: &Entry) -> Result<Self, Damaged> {
        Self::new(entry.value.clone(), entry.modified)
    }

    fn header(&self) -> Option<Header> {
        let at = |start: usize| {
            let bytes = self.bytes.get(start..start + 4)?.try_into().ok()?;
            Some(u32::from_le_bytes(bytes) as usize)
        };
        Some(Header { splice: at(0)?, type_meta: at(4)?, index: at(8)? })
    }

    /// The revision that wrote the object: its `resourceVersion`.
    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// The same object under another revision: a deletion's watch event shows the deletion's own.
    pub(crate) fn at(mut self, revision: Revision) -> Self {
        self.revision = revision;
        self
    }

    /// Labels and selectable fields.
    pub(crate) fn index(&self) -> Result<Index, Damaged> {
        let bytes = self.index_bytes();
        if bytes.is_empty() {
            return Ok(Index::default());
        }
        serde_json::from_slice(bytes).map_err(|_| Damaged("index"))
    }

    /// The object's JSON without `resourceVersion`.
    fn json(&self) -> &[u8] {
        let index = self.header().unwrap_or_default().index;
        self.bytes.get(HEADER + index..).unwrap_or_default()
    }

    /// The JSON of the index, empty if nothing is in it.
    pub(crate) fn index_bytes(&self) -> &[u8] {
        let len = self.header().unwrap_or_default().index;
        self.bytes.get(HEADER..HEADER + len).unwrap_or_default()
    }

    /// The JSON around the place of the `resourceVersion`.
    fn halves(&self) -> (&[u8], &[u8]) {
        let splice = self.header().unwrap_or_default().splice;
        self.json().split_at_checked(splice).unwrap_or_default()
    }

    /// Appends the object's JSON, `resourceVersion` included.
    pub(crate) fn write_json(&self, out: &mut BytesMut) {
        let (before, after) = self.halves();
        self.write_around(before, after, out);
    }

    /// Appends the object's JSON without `apiVersion` and `kind`.
    pub(crate) fn write_untyped(&self, out: &mut BytesMut) {
        let (before, after) = self.halves();
        let skip = self.header().unwrap_or_default().type_meta;
        out.put_u8(b'{');
        self.write_around(before.get(skip..).unwrap_or_default(), after, out);
    }

    /// Appends the JSON of the object's metadata, `resourceVersion` included.
    pub(crate) fn write_metadata(&self, out: &mut BytesMut) -> Result<(), Damaged> {
        let splice = self.header().unwrap_or_default().splice;
        let from = splice.checked_sub(1).and_then(|at| self.json().get(at..));
        let from = from.ok_or(Damaged("no metadata"))?;
        // Nothing says where the metadata ends: its braces are counted, nothing is kept of it.
        let mut json = serde_json::Deserializer::from_slice(from).into_iter::<IgnoredAny>();
        json.next().and_then(Result::ok).ok_or(Damaged("metadata"))?;
        let metadata = from.get(1..json.byte_offset()).ok_or(Damaged("metadata"))?;
        self.write_around(b"{", metadata, out);
        Ok(())
    }

    fn write_around(&self, before: &[u8], after: &[u8], out: &mut BytesMut) {
        out.reserve(before.len() + after.len() + 44);
        out.put_slice(before);
        out.put_slice(b"\"resourceVersion\":\"");
        out.put_slice(self.revision.to_string().as_bytes());
        out.put_slice(b"\",");
        out.put_slice(after);
    }

    /// The parsed object, `resourceVersion` included.
    pub(crate) fn to_value(&self) -> Result<Value, Damaged> {
        self.read(&Projection::Whole)
    }

    /// The fields that are wanted of the object, and its `resourceVersion`.
    pub(crate) fn read(&self, wanted: &Projection) -> Result<Value, Damaged> {
        let mut value = wanted.read(self.json()).map_err(|_| Damaged("not JSON"))?;
        value
            .get_mut("metadata")
            .and_then(Value::as_object_mut)
            .ok_or(Damaged("no metadata"))?
            .insert("resourceVersion".to_owned(), self.revision.to_string().into());
        Ok(value)
    }
}

/// The bytes to store for an object. Its `resourceVersion` is left out; the rest is kept as it is.
pub(crate) fn encode(
    object: &Map<String, Value>,
    index: &Index,
) -> Result<Bytes, serde_json::Error> {
    let mut out = vec![0; HEADER];
    if *index != Index::default() {
        serde_json::to_writer(&mut out, index)?;
    }
    let index_len = out.len() - HEADER;
    let start = out.len();
    out.push(b'{');
    for key in TYPE_META {
        if let Some(value) = object.get(key) {
            write_field(&mut out, key, value)?;
            out.push(b',');
        }
    }
    let type_meta = out.len() - start;
    let mut splice = type_meta;
    let others = object.iter().filter(|(key, _)| !TYPE_META.contains(&key.as_str()));
    for (n, (key, value)) in others.enumerate() {
        if n > 0 {
            out.push(b',');
        }
        match value {
            Value::Object(metadata) if key == "metadata" => {
                out.extend_from_slice(b"\"metadata\":{");
                splice = out.len() - start;
                let kept = metadata.iter().filter(|(key, _)| *key != "resourceVersion");
                for (n, (key, value)) in kept.enumerate() {
                    if n > 0 {
                        out.push(b',');
                    }
                    write_field(&mut out, key, value)?;
                }
                out.push(b'}');
            }
            value => write_field(&mut out, key, value)?,
        }
    }
    out.push(b'}');
    for (n, length) in [splice, type_meta, index_len].into_iter().enumerate() {
        let length = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
        out[n * 4..n * 4 + 4].copy_from_slice(&length);
    }
    Ok(out.into())
}

fn write_field(out: &mut Vec<u8>, key: &str, value: &Value) -> Result<(), serde_json::Error> {
    serde_json::to_writer(&mut *out, key)?;
    out.push(b':');
    serde_json::to_writer(out, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stored(object: &Value, index: &Index, revision: u64) -> Stored {
        let bytes = encode(object.as_object().unwrap(), index).unwrap();
        Stored::new(bytes, Revision(revision)).unwrap()
    }

    #[test]
    fn the_revision_is_spliced_in_and_an_old_one_dropped() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a\"b", "resourceVersion": "3", "uid": "u"},
            "data": {"metadata": "x"},
        });
        let stored = stored(&object, &Index::default(), 42);
        let mut want = object.clone();
        want["metadata"]["resourceVersion"] = "42".into();
        assert_eq!(stored.to_value().unwrap(), want);
        let mut bytes = BytesMut::new();
        stored.write_json(&mut bytes);
        assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), want);
        let mut bytes = BytesMut::new();
        stored.write_untyped(&mut bytes);
        want.as_object_mut().unwrap().retain(|key, _| key != "apiVersion" && key != "kind");
        assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), want);
        let mut bytes = BytesMut::new();
        stored.write_metadata(&mut bytes).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), want["metadata"]);
        let mut projection = Projection::nothing();
        projection.want(["data"]);
        projection.want(["metadata", "uid"]);
        let part = json!({"data": want["data"], "metadata": {"uid": "u", "resourceVersion": "42"}});
        assert_eq!(stored.read(&projection).unwrap(), part);
    }

    #[test]
    fn the_index_comes_back() {
        let index = Index {
            labels: [("app".to_owned(), "x".to_owned())].into(),
            fields: [("spec.nodeName".to_owned(), "n1".to_owned())].into(),
        };
        let object = json!({"metadata": {"name": "a"}});
        assert_eq!(stored(&object, &index, 2).index().unwrap(), index);
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        let good =
            encode(json!({"metadata": {"name": "a"}}).as_object().unwrap(), &Index::default())
                .unwrap();
        for cut in 0..HEADER {
            assert!(Stored::new(good.slice(..cut), Revision(1)).is_err(), "{cut} bytes");
        }
        let lying = Bytes::from_static(&[0xff; 20]);
        assert!(Stored::new(lying, Revision(1)).is_err());
    }
}
