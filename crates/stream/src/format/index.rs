//! The index of a tensorizer file: where every tensor lies.

use super::cursor::Cursor;
use super::dtype::Dtype;
use super::head::{self, Head};
use super::name::{Name, Names};
use super::{Kind, Malformed};

/// An entry version from which dimensions have 64 bits.
pub(crate) const LONG: u32 = 5;

/// A tensor as the index has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: Name,
    pub(crate) kind: Kind,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<u64>,
    /// Whether dimensions have 64 bits, here and in the record.
    pub(crate) long: bool,
    /// Where the record's header begins.
    pub(crate) header: u64,
    /// Where the data begins.
    pub(crate) data: u64,
    /// Bytes of data; 0 for a meta tensor.
    pub(crate) len: u64,
}

impl Entry {
    /// Bytes that the shape and the type come to; `None` if no number holds them.
    pub(crate) fn nominal(&self) -> Option<u64> {
        bytes_of(&self.shape, &self.dtype)
    }

    /// Whether it has a shape and no data.
    pub(crate) fn is_meta(&self) -> bool {
        self.len == 0 && self.nominal() != Some(0)
    }
}

/// Bytes of a tensor; `None` if no number holds them.
pub(crate) fn bytes_of(shape: &[u64], dtype: &Dtype) -> Option<u64> {
    // A dimension of 0 makes it empty, whatever the others are.
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(dtype.size(), |bytes, dim| bytes.checked_mul(*dim))
}

/// Reads the entries, and checks each against the file's length and the one before it.
pub(crate) fn parse(head: &Head, bytes: &[u8], file_len: u64) -> Result<Vec<Entry>, Malformed> {
    let mut cursor = Cursor::new(bytes, head::LEN as u64);
    let mut names = Names::default();
    let mut entries = Vec::new();
    let mut end = head::LEN as u64 + bytes.len() as u64;
    for _ in 0..head.count {
        let entry = entry(&mut cursor, head.versioned, &mut names)?;
        end = place(&cursor, &entry, end, file_len)?;
        entries.push(entry);
    }
    Ok(entries)
}

fn entry(cursor: &mut Cursor<'_>, versioned: bool, names: &mut Names) -> Result<Entry, Malformed> {
    let version = if versioned { cursor.u32("entry version")? } else { 1 };
    if !(1..=5).contains(&version) {
        return Err(cursor.wrong("entry version", format!("{version} is not known")));
    }
    let long = version >= LONG;
    let (name, kind, dtype, shape) = described(cursor, true, long)?;
    names.add(&name).map_err(|what| cursor.wrong("name", what))?;
    let header = cursor.u64("header offset")?;
    let data = cursor.u64("data offset")?;
    let len = cursor.u64("data length")?;
    Ok(Entry { name, kind, dtype, shape, long, header, data, len })
}

/// Name, kind, type and shape. The index and a record have them in different order.
pub(super) fn described(
    cursor: &mut Cursor<'_>,
    name_first: bool,
    long: bool,
) -> Result<(Name, Kind, Dtype, Vec<u64>), Malformed> {
    let before = if name_first { None } else { Some(cursor.u8("kind")?) };
    let len = cursor.u16("name length")?;
    let offset = cursor.offset();
    let name = Name::parse(cursor.take(u64::from(len), "name")?)
        .map_err(|what| Malformed::new(offset, "name", what))?;
    let kind = before.map_or_else(|| cursor.u8("kind"), Ok)?;
    let kind = Kind::from_byte(kind)
        .ok_or_else(|| cursor.wrong("kind", format!("of {name} is {kind}, which is not known")))?;
    if kind != Kind::StateDict && !name.is_plain() {
        return Err(cursor.wrong("name", format!("{name} is a path outside a state dict")));
    }
    let len = cursor.u8("dtype length")?;
    let offset = cursor.offset();
    let dtype = Dtype::parse(cursor.take(u64::from(len), "dtype")?)
        .map_err(|what| Malformed::new(offset, "dtype", format!("of {name} {what}")))?;
    let mut shape = Vec::new();
    for _ in 0..cursor.u8("dimension count")? {
        let dim = if long { cursor.u64("dimension")? } else { u64::from(cursor.u32("dimension")?) };
        shape.push(dim);
    }
    Ok((name, kind, dtype, shape))
}

/// Checks where a tensor lies, and says where it ends.
fn place(cursor: &Cursor<'_>, entry: &Entry, before: u64, file_len: u64) -> Result<u64, Malformed> {
    let name = &entry.name;
    if entry.header < before {
        let what = format!("of {name} is {}; what comes before ends at {before}", entry.header);
        return Err(cursor.wrong("header offset", what));
    }
    if entry.data <= entry.header {
        let what = format!("of {name} is {}; its header begins there or later", entry.data);
        return Err(cursor.wrong("data offset", what));
    }
    let nominal = entry.nominal();
    if entry.len > 0 && nominal != Some(entry.len) {
        let nominal = nominal.map_or_else(|| "too many".to_owned(), |bytes| bytes.to_string());
        let what = format!("of {name} is {}; its shape and type make {nominal}", entry.len);
        return Err(cursor.wrong("data length", what));
    }
    match entry.data.checked_add(entry.len) {
        Some(end) if end <= file_len => Ok(end),
        _ => {
            let what = format!(
                "of {name} is {} from byte {} on; the file ends at {file_len}: it is truncated",
                entry.len, entry.data
            );
            Err(cursor.wrong("data length", what))
        }
    }
}

/// The entries as bytes, without padding.
pub(crate) fn bytes(entries: &[Entry], versioned: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        if versioned {
            let version = if entry.long { LONG } else { 1 };
            bytes.extend_from_slice(&version.to_le_bytes());
        }
        let name = entry.name.bytes();
        bytes.extend_from_slice(&(name.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&name);
        bytes.push(entry.kind.byte());
        type_and_shape(&mut bytes, &entry.dtype, &entry.shape, entry.long);
        for number in [entry.header, entry.data, entry.len] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
    }
    bytes
}

pub(super) fn type_and_shape(bytes: &mut Vec<u8>, dtype: &Dtype, shape: &[u64], long: bool) {
    let dtype = dtype.text();
    bytes.push(dtype.len() as u8);
    bytes.extend_from_slice(dtype.as_bytes());
    bytes.push(shape.len() as u8);
    for dim in shape {
        if long {
            bytes.extend_from_slice(&dim.to_le_bytes());
        } else {
            bytes.extend_from_slice(&(*dim as u32).to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(name: &str, header: u64, len: u64) -> Entry {
        let dtype = Dtype::named("float32").unwrap();
        let (name, shape) = (Name::plain(name), vec![len / 4]);
        let kind = Kind::StateDict;
        Entry { name, kind, dtype, shape, long: false, header, data: header + 100, len }
    }

    fn head(count: u64) -> Head {
        let (data_bytes, index_len) = (0, 0);
        Head { version: 1, encrypted: false, versioned: false, data_bytes, count, index_len }
    }

    #[track_caller]
    fn refused(entries: &[Entry]) -> String {
        let bytes = bytes(entries, false);
        parse(&head(entries.len() as u64), &bytes, 10_000).unwrap_err().to_string()
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        let mut long = example("b", 1200, 0);
        (long.long, long.shape) = (true, vec![1 << 33, 1 << 40]);
        let entries = [example("a", 1000, 40), long];
        let bytes = bytes(&entries, true);
        let head = Head { versioned: true, ..head(2) };
        assert_eq!(parse(&head, &bytes, 10_000), Ok(entries.to_vec()));
        assert!(entries[1].is_meta(), "more elements than a number holds, and no data");
    }

    #[test]
    fn tensors_lie_one_behind_the_other_inside_the_file() {
        assert!(refused(&[example("a", 10, 4)]).contains("header offset: of a is 10"));
        let over = refused(&[example("a", 1000, 40), example("b", 1139, 40)]);
        assert!(over.contains("header offset: of b is 1139; what comes before ends at 1140"));
        let truncated = refused(&[example("a", 1000, 9000)]);
        assert!(truncated.contains("data length: of a") && truncated.contains("truncated"));
        let mut wide = example("a", 1000, 40);
        wide.shape = vec![11];
        assert!(refused(&[wide]).contains("its shape and type make 44"));
        let mut far = example("a", 1000, 40);
        far.data = u64::MAX - 3;
        assert!(refused(&[far]).contains("truncated"));
    }

    #[test]
    fn a_count_is_no_reason_to_allocate() {
        let bytes = bytes(&[example("a", 1000, 40)], false);
        let wrong = parse(&head(u64::MAX), &bytes, 10_000).unwrap_err();
        assert_eq!(wrong.field, "name length");
    }
}
