//! How a change is written down, in the data file and in snapshots alike.
//!
//! A record is a kind, the key's length, the key, for a value also when its key was created, its
//! version, its lease if it has one, and the value, then a checksum that covers the record's
//! position as well, so that a record found in another's place is not taken for it. Integers are
//! little endian. What is read is believed only once its checksum and every length agree.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::crc::Crc;
use crate::mvcc::Position;
use crate::{Entry, LeaseId, Revision};

const DELETE: u8 = 0;
const PUT: u8 = 1;
const PUT_LEASED: u8 = 2;

const CHECKSUM: usize = size_of::<u32>();

/// More than any record that was written under any limits can take.
pub(crate) const MAX_RECORD: usize = 1 << 30;

pub(crate) fn encode(at: Position, key: &[u8], entry: Option<&Entry>) -> BytesMut {
    let value = entry.map_or(0, |entry| entry.value.len());
    let mut record = BytesMut::with_capacity(1 + 4 + key.len() + 24 + value + CHECKSUM);
    record.put_u8(match entry {
        None => DELETE,
        Some(Entry { lease: None, .. }) => PUT,
        Some(Entry { lease: Some(_), .. }) => PUT_LEASED,
    });
    // The limits keep keys far below what the length can say.
    record.put_u32_le(u32::try_from(key.len()).unwrap_or(u32::MAX));
    record.put_slice(key);
    if let Some(entry) = entry {
        record.put_u64_le(entry.created.0);
        record.put_u64_le(entry.version);
        if let Some(lease) = entry.lease {
            record.put_u64_le(lease.0);
        }
        record.put_slice(&entry.value);
    }
    let sum = checksum(at, &record);
    record.put_u32_le(sum);
    record
}

/// The key and what it held, which share the record's memory.
pub(crate) fn decode(
    at: Position,
    mut record: Bytes,
) -> Result<(Bytes, Option<Arc<Entry>>), &'static str> {
    const SHORT: &str = "a record is cut short";
    let Some(body) = record.len().checked_sub(CHECKSUM) else { return Err(SHORT) };
    if record.split_off(body).get_u32_le() != checksum(at, &record) {
        return Err("a record's checksum is wrong");
    }
    let short = |_| SHORT;
    let kind = record.try_get_u8().map_err(short)?;
    let length = record.try_get_u32_le().map_err(short)? as usize;
    if length > record.len() {
        return Err(SHORT);
    }
    let key = record.split_to(length);
    if kind == DELETE {
        return if record.is_empty() {
            Ok((key, None))
        } else {
            Err("a deletion's record holds a value")
        };
    }
    let created = Revision(record.try_get_u64_le().map_err(short)?);
    let version = record.try_get_u64_le().map_err(short)?;
    let lease = match kind {
        PUT => None,
        PUT_LEASED => Some(LeaseId(record.try_get_u64_le().map_err(short)?)),
        _ => return Err("a record is of an unknown kind"),
    };
    let entry =
        Entry { key: key.clone(), value: record, created, modified: at.revision, version, lease };
    Ok((key, Some(Arc::new(entry))))
}

/// The checksum at the end of a record.
pub(crate) fn sum_of(record: &[u8]) -> u32 {
    record.last_chunk::<CHECKSUM>().map_or(0, |sum| u32::from_le_bytes(*sum))
}

fn checksum(at: Position, body: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(&at.revision.0.to_le_bytes());
    crc.update(&at.sub.to_le_bytes());
    crc.update(body);
    crc.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AT: Position = Position { revision: Revision(7), sub: 3 };

    fn entry() -> impl Strategy<Value = Option<Entry>> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
        let entry = (bytes(), bytes(), any::<(u64, u64)>(), any::<Option<u64>>());
        proptest::option::of(entry.prop_map(|(key, value, (created, version), lease)| Entry {
            key,
            value,
            created: Revision(created),
            modified: AT.revision,
            version,
            lease: lease.map(LeaseId),
        }))
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(entry in entry()) {
            let key = entry.as_ref().map_or(Bytes::from("k"), |entry| entry.key.clone());
            let record = encode(AT, &key, entry.as_ref()).freeze();
            prop_assert_eq!(decode(AT, record), Ok((key, entry.map(Arc::new))));
        }

        #[test]
        fn no_damage_passes(entry in entry(), at: prop::sample::Index, bit in 0..8_u32) {
            let mut record = encode(AT, b"k", entry.as_ref());
            let at = at.index(record.len());
            prop_assert!(decode(AT, record.clone().freeze().slice(..at)).is_err());
            let elsewhere = Position { sub: 4, ..AT };
            prop_assert!(decode(elsewhere, record.clone().freeze()).is_err());
            record[at] ^= 1_u8 << bit;
            prop_assert!(decode(AT, record.freeze()).is_err());
        }

        #[test]
        fn nothing_panics(kind: u8, mut body in proptest::collection::vec(any::<u8>(), 0..64)) {
            body.insert(0, kind % 4);
            let sum = checksum(AT, &body);
            body.extend(sum.to_le_bytes());
            let _ = decode(AT, body.into());
        }
    }
}
