//! safetensors: a length, a JSON object that says where each tensor lies, and the data.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::dtype::Dtype;
use super::index::{Entry, bytes_of};
use super::layout::{ALIGN, Spec, Unwritable};
use super::name::Name;
use super::{Kind, Malformed};

/// A longer header is refused, as by the format's own library.
const MAX_HEADER: u64 = 100_000_000;

/// What is not a tensor.
const METADATA: &str = "__metadata__";

/// What a header says.
pub(crate) struct Header {
    /// In the order of their data.
    pub(crate) entries: Vec<Entry>,
    pub(crate) metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Info {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// The object with its members in order, and none lost to another of the same name.
#[derive(Default)]
struct Members {
    tensors: Vec<(String, Info)>,
    metadata: BTreeMap<String, String>,
}

/// Reads how long the header is off the first eight bytes.
pub(crate) fn header_len(bytes: [u8; 8], file_len: u64) -> Result<u64, Malformed> {
    let len = u64::from_le_bytes(bytes);
    if len > MAX_HEADER || len > file_len.saturating_sub(8) {
        let what = format!("is {len} in a file of {file_len} bytes");
        return Err(Malformed::new(0, "header length", what));
    }
    Ok(len)
}

/// Reads the header, which begins at byte 8, and checks that the tensors fill the file.
pub(crate) fn parse(json: &[u8], file_len: u64) -> Result<Header, Malformed> {
    let members: Members = serde_json::from_slice(json).map_err(|error| {
        let before: usize = json
            .split_inclusive(|b| *b == b'\n')
            .take(error.line().max(1) - 1)
            .map(<[u8]>::len)
            .sum();
        Malformed::new(8 + (before + error.column()) as u64, "header", error.to_string())
    })?;
    let base = 8 + json.len() as u64;
    let mut entries = Vec::with_capacity(members.tensors.len());
    for (name, info) in members.tensors {
        entries.push(entry(name, info, base)?);
    }
    entries.sort_by_key(|entry| (entry.data, entry.len));
    let mut end = base;
    for entry in &entries {
        if entry.data != end {
            let what = format!("of {} begin at byte {}, not at {end}", entry.name, entry.data);
            return Err(Malformed::new(8, "data_offsets", what));
        }
        end = entry.data.saturating_add(entry.len);
        if end > file_len {
            let what = format!(
                "of {} end at byte {end}; the file ends at {file_len}: it is truncated",
                entry.name
            );
            return Err(Malformed::new(8, "data_offsets", what));
        }
    }
    if end != file_len {
        let what = format!("the last tensor ends at byte {end}, the file at {file_len}");
        return Err(Malformed::new(end, "data", what));
    }
    let mut names: Vec<&Name> = entries.iter().map(|entry| &entry.name).collect();
    names.sort_by_key(|name| name.bytes());
    if let Some([twice, _]) = names.array_windows().find(|[a, b]| a == b) {
        return Err(Malformed::new(8, "header", format!("{twice} is there twice")));
    }
    Ok(Header { entries, metadata: members.metadata })
}

fn entry(name: String, info: Info, base: u64) -> Result<Entry, Malformed> {
    let wrong = |field, what: String| Malformed::new(8, field, format!("of {name} {what}"));
    let dtype = Dtype::from_safetensors(&info.dtype)
        .ok_or_else(|| wrong("dtype", format!("is {}, which is not known", info.dtype)))?;
    let (from, to) = info.data_offsets;
    let len = to.checked_sub(from).filter(|len| bytes_of(&info.shape, &dtype) == Some(*len));
    let Some(len) = len else {
        let what = format!("are {from} to {to}; shape and type make another length");
        return Err(wrong("data_offsets", what));
    };
    let data = base
        .checked_add(from)
        .ok_or_else(|| wrong("data_offsets", "are beyond every file".to_owned()))?;
    let (kind, long) = (Kind::StateDict, false);
    let name = Name::plain(name);
    Ok(Entry { name, kind, dtype, shape: info.shape, long, header: data, data, len })
}

/// A header for these tensors, its length included, and the file's length; and of each tensor where
/// its data will lie, by its place among the specs.
pub(crate) fn plan(
    specs: &[Spec],
    metadata: &BTreeMap<String, String>,
) -> Result<(Vec<u8>, Vec<u64>, u64), Unwritable> {
    let mut members = Map::new();
    members.insert(METADATA.to_owned(), json!(metadata));
    let mut order: Vec<usize> = (0..specs.len()).collect();
    // Widest elements first, so that each is aligned behind the one before.
    order.sort_by_key(|nth| std::cmp::Reverse(specs[*nth].dtype.size()));
    let mut at = 0_u64;
    let mut places = vec![0; specs.len()];
    for nth in order {
        let spec = &specs[nth];
        let refused = |why: &str| Unwritable { name: spec.name.shown(), why: why.to_owned() };
        let dtype = spec.dtype.safetensors();
        let dtype = dtype.ok_or_else(|| refused("safetensors has no such type"))?;
        if spec.meta {
            return Err(refused("it has no data, which safetensors cannot say; leave it out"));
        }
        let end = spec.data_len().and_then(|len| at.checked_add(len));
        let end = end.ok_or_else(|| refused("no file is that large"))?;
        let name = spec.name.to_string();
        let info = json!({"dtype": dtype, "shape": spec.shape, "data_offsets": [at, end]});
        if name == METADATA || members.insert(name, info).is_some() {
            return Err(refused("another has its name"));
        }
        places[nth] = at;
        at = end;
    }
    let mut json = Value::Object(members).to_string().into_bytes();
    // Blanks at the end belong to the format; these make the data begin at a page.
    json.resize((8 + json.len()).next_multiple_of(ALIGN as usize) - 8, b' ');
    let mut front = (json.len() as u64).to_le_bytes().to_vec();
    front.append(&mut json);
    let base = front.len() as u64;
    places.iter_mut().for_each(|place| *place += base);
    Ok((front, places, base + at))
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Members;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = Members::default();
        while let Some(name) = map.next_key::<String>()? {
            if name == METADATA {
                members.metadata = map.next_value()?;
            } else {
                members.tensors.push((name, map.next_value()?));
            }
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(json: &str, data: u64) -> Malformed {
        parse(json.as_bytes(), 8 + json.len() as u64 + data).err().unwrap()
    }

    #[test]
    fn what_is_wrong_is_told() {
        let a = |dtype: &str, from: u64, to: u64| {
            format!(r#""a":{{"dtype":"{dtype}","shape":[2],"data_offsets":[{from},{to}]}}"#)
        };
        assert_eq!(refused("{", 0).offset, 9);
        assert_eq!(refused(&format!("{{{}}}", a("F99", 0, 8)), 8).field, "dtype");
        assert_eq!(refused(&format!("{{{}}}", a("F32", 0, 4)), 8).field, "data_offsets");
        assert_eq!(refused(&format!("{{{}}}", a("F32", 9, 1)), 8).field, "data_offsets");
        assert_eq!(refused(&format!("{{{}}}", a("F32", 4, 12)), 12).field, "data_offsets");
        assert!(refused(&format!("{{{}}}", a("F32", 0, 8)), 7).what.contains("truncated"));
        assert_eq!(refused(&format!("{{{}}}", a("F32", 0, 8)), 9).field, "data");
        let twice = format!("{{{},{}}}", a("F32", 0, 8), a("F32", 8, 16));
        assert!(refused(&twice, 16).what.contains("a is there twice"));
        assert!(header_len(u64::MAX.to_le_bytes(), 100).is_err());
    }

    #[test]
    fn what_was_planned_is_read() {
        let spec = |name: &str, dtype: &str| Spec {
            name: Name::plain(name),
            kind: Kind::StateDict,
            module: 0,
            dtype: Dtype::named(dtype).unwrap(),
            shape: vec![3, 1],
            meta: false,
        };
        let specs = [spec("b", "uint8"), spec("a\"", "float64")];
        let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
        let (front, places, len) = plan(&specs, &metadata).unwrap();
        assert_eq!((front.len(), &*places, len), (4096, &[4096 + 24, 4096][..], 4096 + 27));
        let header = parse(&front[8..], len).unwrap();
        let read: Vec<String> = header.entries.iter().map(|e| e.name.to_string()).collect();
        assert_eq!((read, header.metadata), (vec!["a\"".to_owned(), "b".to_owned()], metadata));
    }
}
