//! Where everything of a tensorizer file will lie, before a byte of it is written.
//!
//! Shapes are known beforehand, so the index is exactly as long as it must be, however many tensors
//! there are, and every header can be padded until its data is aligned. The official reader takes
//! both; [`Layout::Legacy`] is byte for byte what the official writer lays.

use super::Kind;
use super::crypt::{Boxes, Crypt, Derivation, NONCE};
use super::dtype::Dtype;
use super::head::{self, Head};
use super::index::{self, Entry, bytes_of};
use super::name::{Name, Names};
use super::record::{Draft, HashKind};

/// What data is aligned to: a page, and so what direct reads want.
pub(crate) const ALIGN: u64 = 4096;

/// Bytes of the official writer's index, which cannot grow.
pub(crate) const LEGACY_INDEX: u64 = 256 << 10;

/// Bytes of a piece of an encrypted tensor, as the official writer cuts it.
pub(crate) const PIECE: u64 = 2 << 20;

/// How a file is laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Data at multiples of 4 KiB, an index as long as it must be.
    #[default]
    Aligned,
    /// As the official writer does it: nothing aligned, an index of 256 KiB (more only where the
    /// official writer would fail).
    Legacy,
}

/// A tensor that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Its name, unlike every other.
    pub name: Name,
    /// What it is to its module.
    pub kind: Kind,
    /// Place of its module among its model's; 0 in a state dict.
    pub module: u16,
    /// The type of its elements.
    pub dtype: Dtype,
    /// Its dimensions, outermost first.
    pub shape: Vec<u64>,
    /// Whether it has a shape and no data.
    pub meta: bool,
}

impl Spec {
    /// Bytes of its data; `None` if no number holds them.
    pub fn data_len(&self) -> Option<u64> {
        if self.meta { Some(0) } else { bytes_of(&self.shape, &self.dtype) }
    }
}

/// A tensor that cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tensor {name} cannot be written: {why}")]
pub struct Unwritable {
    /// Which tensor.
    pub name: String,
    /// Why, and what to do.
    pub why: String,
}

/// How the data is to be sealed.
pub(crate) struct Sealing {
    /// Where the key comes from a passphrase.
    pub(crate) derivation: Option<Derivation>,
    /// A random nonce for each tensor.
    pub(crate) nonces: Vec<[u8; NONCE]>,
}

/// Where a tensor will lie.
pub(crate) struct Placed {
    pub(crate) entry: Entry,
    pub(crate) draft: Draft,
    /// Tags still blank.
    pub(crate) boxes: Option<Boxes>,
}

/// A whole file.
pub(crate) struct Planned {
    /// Head and index.
    pub(crate) front: Vec<u8>,
    pub(crate) tensors: Vec<Placed>,
    /// Bytes of the file, its terminator included.
    pub(crate) len: u64,
}

/// Lays a file out.
pub(crate) fn plan(
    specs: &[Spec],
    layout: Layout,
    hashes: &[HashKind],
    sealing: Option<&Sealing>,
) -> Result<Planned, Unwritable> {
    let mut checks = Checks::default();
    let mut entries: Vec<Entry> =
        specs.iter().map(|spec| checks.entry(spec)).collect::<Result<_, _>>()?;
    let versioned = entries.iter().any(|entry| entry.long);
    let exact = index::bytes(&entries, versioned).len() as u64;
    let index_len = if layout == Layout::Legacy { exact.max(LEGACY_INDEX) } else { exact };
    let mut at = head::LEN as u64 + index_len;
    let mut tensors = Vec::with_capacity(specs.len());
    for (nth, (entry, spec)) in entries.iter_mut().zip(specs).enumerate() {
        let sealed = sealing.and_then(|sealing| {
            let nonce = *sealing.nonces.get(nth)?;
            Some(Sealed { derivation: sealing.derivation.as_ref(), nonce })
        });
        entry.header = at;
        let placed = place(entry, spec.module, layout, hashes, sealed);
        at = placed.entry.data + placed.entry.len;
        *entry = placed.entry.clone();
        tensors.push(placed);
    }
    let front = front(&entries, sealing.is_some(), index_len);
    Ok(Planned { front, tensors, len: at + 8 })
}

/// How the data of one tensor is to be sealed.
pub(crate) struct Sealed<'a> {
    pub(crate) derivation: Option<&'a Derivation>,
    pub(crate) nonce: [u8; NONCE],
}

/// Lays one tensor out, whose header begins where its entry says.
pub(crate) fn place(
    entry: &Entry,
    module: u16,
    layout: Layout,
    hashes: &[HashKind],
    sealed: Option<Sealed<'_>>,
) -> Placed {
    let encrypted = sealed.is_some();
    let sealed = sealed.filter(|_| entry.len > 0);
    let boxes = sealed.as_ref().map(|sealed| Boxes::blank(PIECE, sealed.nonce, entry.len));
    let derivation = sealed.and_then(|sealed| sealed.derivation.cloned());
    let crypt = encrypted.then(|| Crypt { derivation, boxes: boxes.clone() });
    // A checksum of what is secret is no help against change, and tells more than need be.
    let kept = |hash: &&HashKind| boxes.is_none() || **hash != HashKind::Crc32;
    let hashes: Vec<HashKind> = hashes.iter().filter(kept).copied().collect();
    let align = (layout == Layout::Aligned && entry.len > 0).then_some(ALIGN);
    let draft = Draft::new(entry, module, &hashes, crypt.as_ref(), align);
    let data = entry.header + draft.len() as u64;
    Placed { entry: Entry { data, ..entry.clone() }, draft, boxes }
}

/// Head and index of these tensors.
pub(crate) fn front(entries: &[Entry], encrypted: bool, index_len: u64) -> Vec<u8> {
    let versioned = entries.iter().any(|entry| entry.long);
    let head = Head {
        version: version(entries, encrypted),
        encrypted,
        versioned,
        data_bytes: entries.iter().map(|entry| entry.len).sum(),
        count: entries.len() as u64,
        index_len,
    };
    let mut front = head.bytes().to_vec();
    front.extend_from_slice(&index::bytes(entries, versioned));
    front.resize(usize::try_from(head::LEN as u64 + index_len).unwrap_or(usize::MAX), 0);
    front
}

/// What a reader must know.
fn version(entries: &[Entry], encrypted: bool) -> u32 {
    let opaque = entries.iter().any(|entry| entry.dtype.is_opaque());
    let meta = entries.iter().any(Entry::is_meta);
    let long = entries.iter().any(|entry| entry.long);
    let needs = [(opaque, 2), (encrypted, 3), (meta, 4), (long, 5)];
    needs.into_iter().filter(|(need, _)| *need).map(|(_, version)| version).max().unwrap_or(1)
}

/// What the tensors of one file must not be together.
#[derive(Default)]
pub(crate) struct Checks {
    names: Names,
    total: u64,
}

impl Checks {
    /// The entry of one more tensor, without its place; or why the format cannot hold it.
    pub(crate) fn entry(&mut self, spec: &Spec) -> Result<Entry, Unwritable> {
        let refused = |why: String| Unwritable { name: spec.name.shown(), why };
        self.names.add(&spec.name).map_err(refused)?;
        if spec.name.bytes().len() > usize::from(u16::MAX) {
            return Err(refused("its name is longer than 65,535 bytes".to_owned()));
        }
        if spec.name.bytes().is_empty() {
            return Err(refused("its name is empty".to_owned()));
        }
        if spec.kind != Kind::StateDict && !spec.name.is_plain() {
            return Err(refused("only a state dict has paths".to_owned()));
        }
        if spec.shape.len() > 255 || spec.dtype.text().len() > 255 {
            return Err(refused("more than 255 dimensions or letters of a type".to_owned()));
        }
        let len = spec.data_len();
        // The sum is checked too: offsets are sums of it and of headers.
        self.total = len.and_then(|len| self.total.checked_add(len)).unwrap_or(u64::MAX);
        let Some(len) = len.filter(|_| self.total < 1 << 62) else {
            return Err(refused("no file is that large".to_owned()));
        };
        let (name, kind, dtype) = (spec.name.clone(), spec.kind, spec.dtype.clone());
        let shape = spec.shape.clone();
        let long = shape.iter().any(|dim| *dim > u64::from(u32::MAX));
        Ok(Entry { name, kind, dtype, shape, long, header: 0, data: 0, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str, dtype: &str, shape: &[u64]) -> Spec {
        let dtype = Dtype::named(dtype).unwrap();
        let (name, shape) = (Name::plain(name), shape.to_vec());
        Spec { name, kind: Kind::StateDict, module: 0, dtype, shape, meta: false }
    }

    fn version_of(specs: &[Spec], sealed: bool) -> u32 {
        let sealing = Sealing { derivation: None, nonces: vec![[0; NONCE]; specs.len()] };
        let planned = plan(specs, Layout::Aligned, &[], sealed.then_some(&sealing)).unwrap();
        let head = Head::parse(&planned.front).unwrap();
        let index = &planned.front[head::LEN..];
        let read = index::parse(&head, index, planned.len).unwrap();
        assert_eq!(read, planned.tensors.into_iter().map(|t| t.entry).collect::<Vec<_>>());
        head.version
    }

    #[test]
    fn a_file_asks_no_more_of_its_reader_than_it_must() {
        let plain = spec("a", "float32", &[3]);
        let opaque = spec("b", "bfloat16", &[3]);
        let meta = Spec { meta: true, ..spec("c", "float32", &[3]) };
        let long = Spec { meta: true, ..spec("d", "float32", &[1 << 33]) };
        let empty = spec("e", "float32", &[0, 5]);
        assert_eq!(version_of(&[plain.clone(), empty], false), 1);
        assert_eq!(version_of(&[plain.clone(), opaque.clone()], false), 2);
        assert_eq!(version_of(&[opaque], true), 3);
        assert_eq!(version_of(&[plain.clone(), meta.clone()], true), 4);
        assert_eq!(version_of(&[plain, meta, long.clone()], false), 5);
        assert_eq!(version_of(&[long], true), 5);
    }

    #[test]
    fn data_is_aligned_and_what_has_none_takes_no_room() {
        let specs = [spec("a", "uint8", &[5]), spec("b", "uint8", &[0]), spec("c", "uint8", &[7])];
        let planned = plan(&specs, Layout::Aligned, &[HashKind::Crc32], None).unwrap();
        let at: Vec<u64> = planned.tensors.iter().map(|t| t.entry.data % ALIGN).collect();
        assert_eq!((at[0], at[2]), (0, 0));
        assert!(planned.len < 3 * ALIGN);
    }

    #[test]
    fn what_the_format_cannot_hold_is_refused_by_name() {
        let told = |specs: &[Spec]| plan(specs, Layout::Aligned, &[], None).err().unwrap().name;
        assert_eq!(told(&[spec("a", "int8", &[1]), spec("a", "int8", &[1])]), "a");
        assert_eq!(told(&[spec("wide", "int8", &[1; 256])]), "wide");
        assert_eq!(told(&[spec("huge", "int64", &[1 << 40, 1 << 40])]), "huge");
        assert_eq!(told(&[spec("a", "int8", &[1 << 61]), spec("b", "int8", &[1 << 61])]), "b");
        let path = Name::path(vec![super::super::name::Segment::Place(0)]).unwrap();
        let module = Spec { name: path, kind: Kind::Buffer, ..spec("", "int8", &[1]) };
        assert_eq!(told(&[module]), "0");
    }
}
