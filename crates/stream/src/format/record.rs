//! The header of a tensor's record: what the index said once more, hashes, and the encryption block.

use std::ops::Range;

use super::Malformed;
use super::crypt::{Crypt, MAC};
use super::cursor::Cursor;
use super::index::{Entry, described, type_and_shape};
use super::sha::{self, Sha};

/// Hashes that a record can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashKind {
    /// CRC-32 with zlib's polynomial.
    Crc32,
    /// SHA-256.
    Sha256,
}

impl std::fmt::Display for HashKind {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Crc32 => "CRC-32",
            Self::Sha256 => "SHA-256",
        })
    }
}

/// What a record's header says beyond its index entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Place of the tensor's module among its model's.
    pub(crate) module: u16,
    pub(crate) crc: Option<u32>,
    pub(crate) sha: Option<[u8; 32]>,
    /// Of encrypted files.
    pub(crate) crypt: Option<Crypt>,
    /// What is hashed before the data: the header with zeros for hashes and without its encryption.
    pub(crate) preimage: Vec<u8>,
}

impl Record {
    /// Reads a header, which must say what its index entry says.
    pub(crate) fn parse(bytes: &[u8], entry: &Entry, encrypted: bool) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(bytes, entry.header);
        let size = cursor.u64("header size")?;
        if size != bytes.len() as u64 {
            let what = format!("of {} is {size}, and {} by the index", entry.name, bytes.len());
            return Err(Malformed::new(entry.header, "header size", what));
        }
        let module = cursor.u16("module index")?;
        let (name, kind, dtype, shape) = described(&mut cursor, false, entry.long)?;
        let same = name == entry.name && kind == entry.kind && dtype == entry.dtype;
        if !same || shape != entry.shape {
            let what = format!("is of {name}; by the index it is of {}", entry.name);
            return Err(cursor.wrong("record", what));
        }
        let mut preimage = bytes.to_vec();
        let (mut crc, mut sha) = (None, None);
        let len = cursor.u16("hash block length")?;
        let (start, at) = (cursor.offset(), cursor.at());
        let mut block = Cursor::new(cursor.take(u64::from(len), "hash block")?, start);
        for _ in 0..block.u8("hash count")? {
            let kind = block.u8("hash kind")?;
            let len = block.u8("hash length")?;
            let zeroed = at + block.at();
            match (kind, len) {
                (0, 4) => crc = Some(block.u32("CRC-32")?),
                (1, 32) => sha = Some(block.array("SHA-256")?),
                _ => {
                    let what = format!("{kind} of {len} bytes is not known");
                    return Err(block.wrong("hash kind", what));
                }
            }
            preimage[zeroed..at + block.at()].fill(0);
        }
        let crypt_start = cursor.at();
        let crypt = match encrypted {
            true => Some(Crypt::parse(&mut cursor, entry.len)?),
            false => None,
        };
        preimage.drain(crypt_start..cursor.at());
        let left = bytes.len() - cursor.at();
        cursor.take((left as u64).saturating_sub(8), "padding")?;
        let len = cursor.u64("data length")?;
        if len != entry.len {
            let what = format!("of {name} is {len}, and {} by the index", entry.len);
            return Err(cursor.wrong("data length", what));
        }
        Ok(Self { module, crc, sha, crypt, preimage })
    }

    /// Which hashes it carries.
    pub(crate) fn hashes(&self) -> Vec<HashKind> {
        let crc = self.crc.map(|_| HashKind::Crc32);
        crc.into_iter().chain(self.sha.map(|_| HashKind::Sha256)).collect()
    }
}

/// A header whose hashes and tags are not known yet.
pub(crate) struct Draft {
    bytes: Vec<u8>,
    crc: Option<usize>,
    sha: Option<usize>,
    crypt: Range<usize>,
    macs: Range<usize>,
}

impl Draft {
    /// Makes the header of a tensor; `align` is what its data's offset is to be a multiple of.
    pub(crate) fn new(
        entry: &Entry,
        module: u16,
        hashes: &[HashKind],
        crypt: Option<&Crypt>,
        align: Option<u64>,
    ) -> Self {
        let mut bytes = vec![0; 8];
        bytes.extend_from_slice(&module.to_le_bytes());
        bytes.push(entry.kind.byte());
        let name = entry.name.bytes();
        bytes.extend_from_slice(&(name.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&name);
        type_and_shape(&mut bytes, &entry.dtype, &entry.shape, entry.long);
        let (mut crc, mut sha) = (None, None);
        let block = bytes.len();
        bytes.extend_from_slice(&[0, 0, hashes.len() as u8]);
        for hash in hashes {
            let (kind, len, at) = match hash {
                HashKind::Crc32 => (0, 4, &mut crc),
                HashKind::Sha256 => (1, 32, &mut sha),
            };
            bytes.extend_from_slice(&[kind, len]);
            *at = Some(bytes.len());
            bytes.resize(bytes.len() + usize::from(len), 0);
        }
        let len = (bytes.len() - block - 2) as u16;
        bytes[block..block + 2].copy_from_slice(&len.to_le_bytes());
        let start = bytes.len();
        let mut macs = start..start;
        if let Some(crypt) = crypt {
            let (block, within) = crypt.bytes();
            macs = start + within.start..start + within.end;
            bytes.extend_from_slice(&block);
        }
        let crypt = start..bytes.len();
        let end = entry.header + bytes.len() as u64 + 8;
        let padding = align.map_or(0, |align| end.next_multiple_of(align) - end);
        bytes.resize(bytes.len() + usize::try_from(padding).unwrap_or_default(), 0);
        bytes.extend_from_slice(&entry.len.to_le_bytes());
        let size = bytes.len() as u64;
        bytes[..8].copy_from_slice(&size.to_le_bytes());
        Self { bytes, crc, sha, crypt, macs }
    }

    pub(crate) const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// What is hashed before the data.
    pub(crate) fn hashers(&self) -> Hashers {
        let mut hashers = Hashers::new(self.crc.is_some(), self.sha.is_some());
        hashers.update(&self.bytes[..self.crypt.start]);
        hashers.update(&self.bytes[self.crypt.end..]);
        hashers
    }

    /// The header, whole.
    pub(crate) fn filled(&self, hashers: Hashers, macs: &[[u8; MAC]]) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let (crc, sha) = hashers.finish();
        if let (Some(at), Some(crc)) = (self.crc, crc) {
            bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        }
        if let (Some(at), Some(sha)) = (self.sha, sha) {
            bytes[at..at + 32].copy_from_slice(&sha);
        }
        bytes[self.macs.clone()].copy_from_slice(macs.as_flattened());
        bytes
    }
}

/// The hashes of a tensor as its bytes go by.
#[derive(Clone)]
pub(crate) struct Hashers {
    crc: Option<crc32fast::Hasher>,
    sha: Option<Sha>,
}

/// Bytes that stay in the cache for the second hash.
const STEP: usize = 64 << 10;

impl Hashers {
    pub(crate) fn new(crc: bool, sha: bool) -> Self {
        Self { crc: crc.then(crc32fast::Hasher::new), sha: sha.then(Sha::new) }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        for bytes in bytes.chunks(STEP) {
            self.check(bytes);
            if let Some(sha) = &mut self.sha {
                sha.update(bytes);
            }
        }
    }

    /// Goes on with two, each with bytes of its own: quicker than one after the other.
    pub(crate) fn update_both(a: &mut Self, of_a: &[u8], b: &mut Self, of_b: &[u8]) {
        let both = of_a.len().min(of_b.len());
        let ((now_a, more_a), (now_b, more_b)) = (of_a.split_at(both), of_b.split_at(both));
        for (of_a, of_b) in now_a.chunks(STEP).zip(now_b.chunks(STEP)) {
            a.check(of_a);
            b.check(of_b);
            match (&mut a.sha, &mut b.sha) {
                (Some(a), Some(b)) => sha::update_both(a, of_a, b, of_b),
                (Some(a), None) => a.update(of_a),
                (None, Some(b)) => b.update(of_b),
                (None, None) => {}
            }
        }
        a.update(more_a);
        b.update(more_b);
    }

    fn check(&mut self, bytes: &[u8]) {
        if let Some(crc) = &mut self.crc {
            crc.update(bytes);
        }
    }

    pub(crate) fn finish(self) -> (Option<u32>, Option<[u8; 32]>) {
        (self.crc.map(crc32fast::Hasher::finalize), self.sha.map(Sha::finish))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::super::crypt::Boxes;
    use super::super::dtype::Dtype;
    use super::super::name::Name;
    use super::*;

    fn entry() -> Entry {
        let dtype = Dtype::named("float32").unwrap();
        let name = Name::plain("x");
        let kind = Kind::Parameter;
        Entry { name, kind, dtype, shape: vec![2], long: false, header: 262_217, data: 0, len: 8 }
    }

    const BOTH: [HashKind; 2] = [HashKind::Crc32, HashKind::Sha256];

    #[test]
    fn a_header_is_as_long_as_the_official_one() {
        assert_eq!(Draft::new(&entry(), 0, &BOTH, None, None).len(), 74);
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let boxes = Boxes { piece: 1024, nonce: [1; 24], macs: vec![[0; 16]] };
        let crypt = Crypt { derivation: None, boxes: Some(boxes) };
        for crypt in [None, Some(&crypt)] {
            for align in [None, Some(4096)] {
                let draft = Draft::new(&entry(), 7, &BOTH, crypt, align);
                let mut hashers = draft.hashers();
                hashers.update(b"12345678");
                let (crc, sha) = hashers.clone().finish();
                let macs = vec![[5; 16]; crypt.iter().count()];
                let bytes = draft.filled(hashers, &macs);
                let record = Record::parse(&bytes, &entry(), crypt.is_some()).unwrap();
                assert_eq!((record.module, record.crc, record.sha), (7, crc, sha));
                let read = record.crypt.and_then(|crypt| crypt.boxes);
                assert_eq!(read.map(|boxes| boxes.macs), crypt.map(|_| macs));
                let mut again = Hashers::new(true, true);
                again.update(&record.preimage);
                again.update(b"12345678");
                assert_eq!(again.finish(), (crc, sha), "the hash covers what it covered");
                if align.is_some() {
                    assert_eq!((entry().header + bytes.len() as u64) % 4096, 0);
                }
            }
        }
    }

    #[test]
    fn a_record_of_another_tensor_is_refused() {
        let bytes =
            Draft::new(&entry(), 0, &BOTH, None, None).filled(Hashers::new(false, false), &[]);
        let mut other = entry();
        other.name = Name::plain("y");
        let wrong = Record::parse(&bytes, &other, false).unwrap_err();
        assert!(wrong.to_string().contains("is of x; by the index it is of y"), "{wrong}");
        for cut in 0..bytes.len() {
            assert!(Record::parse(&bytes[..cut], &entry(), false).is_err());
        }
    }
}
