//! The encryption block of a record: how the key is derived, and what seals the data.
//!
//! The data is cut into pieces of one size; piece *i* is a box of its own under the first nonce plus
//! *i*. Nothing here holds a key.

use std::ops::Range;

use super::Malformed;
use super::cursor::Cursor;

/// Bytes of a nonce of XSalsa20.
pub(crate) const NONCE: usize = 24;

/// Bytes of a Poly1305 tag.
pub(crate) const MAC: usize = 16;

/// Bytes of a salt of Argon2id, as libsodium wants it.
pub(crate) const SALT: usize = 16;

/// What a file may make its reader do to derive a key: memory of a pass, and memory times passes.
/// libsodium's heaviest preset asks for 1 GiB and four passes.
const MAX_MEMORY: u64 = 1 << 30;
const MAX_WORK: u64 = 1 << 34;

/// How a key comes of a passphrase: Argon2id as libsodium calls it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Derivation {
    /// Passes over the memory: libsodium's `opslimit`.
    pub passes: u64,
    /// Bytes of memory, 8 KiB to 1 GiB: libsodium's `memlimit`.
    pub memory: u64,
    /// Random, and no secret.
    pub salt: [u8; SALT],
}

/// How the data of a tensor is sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Boxes {
    /// Bytes of a piece, the last one aside.
    pub(crate) piece: u64,
    /// Of the first piece.
    pub(crate) nonce: [u8; NONCE],
    /// A tag for each piece.
    pub(crate) macs: Vec<[u8; MAC]>,
}

/// The block. A tensor without data has no boxes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Crypt {
    pub(crate) derivation: Option<Derivation>,
    pub(crate) boxes: Option<Boxes>,
}

impl Crypt {
    /// Reads the block, its length included.
    pub(super) fn parse(cursor: &mut Cursor<'_>, data_len: u64) -> Result<Self, Malformed> {
        let len = cursor.u64("encryption block length")?;
        let start = cursor.offset();
        let mut block = Cursor::new(cursor.take(len, "encryption block")?, start);
        let mut crypt = Self::default();
        for _ in 0..block.u16("chunk count")? {
            let len = block.u64("chunk length")?;
            let start = block.offset();
            let mut chunk = Cursor::new(block.take(len, "chunk")?, start);
            let again = match chunk.u16("chunk kind")? {
                1 => crypt.derivation.replace(Derivation::parse(&mut chunk)?).is_some(),
                2 => crypt.boxes.replace(Boxes::parallel(&mut chunk, data_len)?).is_some(),
                3 => crypt.boxes.replace(Boxes::sequential(&mut chunk, data_len)?).is_some(),
                kind => return Err(chunk.wrong("chunk kind", format!("{kind} is not known"))),
            };
            if again {
                return Err(chunk.wrong("chunk kind", "is there twice"));
            }
        }
        if crypt.boxes.is_none() && data_len > 0 {
            return Err(block.wrong("encryption block", "says nothing of how the data is sealed"));
        }
        Ok(crypt)
    }

    /// The block, its length included, and where in it the tags are.
    pub(super) fn bytes(&self) -> (Vec<u8>, Range<usize>) {
        let mut chunks: Vec<Vec<u8>> = Vec::new();
        chunks.extend(self.derivation.as_ref().map(Derivation::chunk));
        chunks.extend(self.boxes.as_ref().map(Boxes::chunk));
        let len: usize = 2 + chunks.iter().map(|chunk| 8 + chunk.len()).sum::<usize>();
        let mut bytes = Vec::with_capacity(8 + len);
        bytes.extend_from_slice(&(len as u64).to_le_bytes());
        // One chunk of each kind at most.
        bytes.extend_from_slice(&[u8::from(!chunks.is_empty()) + u8::from(chunks.len() > 1), 0]);
        for chunk in &chunks {
            bytes.extend_from_slice(&(chunk.len() as u64).to_le_bytes());
            bytes.extend_from_slice(chunk);
        }
        let macs = self.boxes.as_ref().map_or(0, |boxes| boxes.macs.len() * MAC);
        let range = bytes.len() - macs..bytes.len();
        (bytes, range)
    }
}

impl Derivation {
    fn parse(chunk: &mut Cursor<'_>) -> Result<Self, Malformed> {
        match chunk.u16("derivation method")? {
            1 => {}
            other => {
                return Err(chunk.wrong("derivation method", format!("{other} is not known")));
            }
        }
        let passes = chunk.u64("opslimit")?;
        let memory = chunk.u64("memlimit")?;
        let algorithm = chunk.u32("algorithm")?;
        if algorithm != 2 {
            return Err(chunk.wrong("algorithm", format!("{algorithm} is not Argon2id (2)")));
        }
        check(passes, memory).map_err(|(field, what)| chunk.wrong(field, what))?;
        if chunk.u16("salt length")? != SALT as u16 {
            return Err(chunk.wrong("salt length", "must be 16 bytes"));
        }
        Ok(Self { passes, memory, salt: chunk.array("salt")? })
    }

    /// What is more or less than any reader here accepts, and why.
    pub(crate) fn check(&self) -> Result<(), String> {
        check(self.passes, self.memory).map_err(|(field, what)| format!("{field} {what}"))
    }

    fn chunk(&self) -> Vec<u8> {
        let mut bytes = vec![1, 0, 1, 0];
        bytes.extend_from_slice(&self.passes.to_le_bytes());
        bytes.extend_from_slice(&self.memory.to_le_bytes());
        bytes.extend_from_slice(&2_u32.to_le_bytes());
        bytes.extend_from_slice(&(SALT as u16).to_le_bytes());
        bytes.extend_from_slice(&self.salt);
        bytes
    }
}

/// The field that asks for too little or too much, and what is wrong with it.
fn check(passes: u64, memory: u64) -> Result<(), (&'static str, String)> {
    if !(8 << 10..=MAX_MEMORY).contains(&memory) {
        return Err(("memlimit", format!("is {memory} bytes; 8 KiB to 1 GiB are accepted")));
    }
    if passes == 0 || passes.saturating_mul(memory) > MAX_WORK {
        return Err(("opslimit", format!("{passes} passes are not accepted")));
    }
    Ok(())
}

impl Boxes {
    /// Boxes whose tags are not known yet.
    pub(crate) fn blank(piece: u64, nonce: [u8; NONCE], data_len: u64) -> Self {
        let count = usize::try_from(data_len.div_ceil(piece)).unwrap_or(usize::MAX);
        Self { piece, nonce, macs: vec![[0; MAC]; count] }
    }

    fn parallel(chunk: &mut Cursor<'_>, data_len: u64) -> Result<Self, Malformed> {
        let piece = chunk.u64("chunk size")?;
        if piece < 1024 || !piece.is_multiple_of(64) {
            let what = format!("is {piece}; it must be a multiple of 64 and at least 1024");
            return Err(chunk.wrong("chunk size", what));
        }
        let nonce = chunk.array("nonce")?;
        let count = chunk.u64("tag count")?;
        // One tag means one box, however long.
        let piece = if count == 1 { data_len.max(1) } else { piece };
        if count != data_len.div_ceil(piece) {
            let what = format!("is {count} for {data_len} bytes in pieces of {piece}");
            return Err(chunk.wrong("tag count", what));
        }
        let macs = chunk.take(count.saturating_mul(MAC as u64), "tags")?;
        let macs = macs.as_chunks::<MAC>().0.to_vec();
        Ok(Self { piece, nonce, macs })
    }

    fn sequential(chunk: &mut Cursor<'_>, data_len: u64) -> Result<Self, Malformed> {
        let nonce = chunk.array("nonce")?;
        Ok(Self { piece: data_len.max(1), nonce, macs: vec![chunk.array("tag")?] })
    }

    fn chunk(&self) -> Vec<u8> {
        let mut bytes = vec![2, 0];
        bytes.extend_from_slice(&self.piece.to_le_bytes());
        bytes.extend_from_slice(&self.nonce);
        bytes.extend_from_slice(&(self.macs.len() as u64).to_le_bytes());
        bytes.extend(self.macs.iter().flatten());
        bytes
    }

    /// The nonce of a piece.
    pub(crate) fn nonce(&self, piece: u64) -> [u8; NONCE] {
        let mut nonce = self.nonce;
        let mut carry = u128::from(piece);
        for byte in &mut nonce {
            carry += u128::from(*byte);
            *byte = (carry & 0xff) as u8;
            carry >>= 8;
        }
        nonce
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_count_with_carry() {
        let mut boxes = Boxes::blank(1024, [0xff; NONCE], 5000);
        assert_eq!(boxes.macs.len(), 5);
        assert_eq!(boxes.nonce(1), [0; NONCE]);
        boxes.nonce = [0; NONCE];
        boxes.nonce[0] = 0xfe;
        assert_eq!(boxes.nonce(0x103)[..3], [1, 2, 0]);
    }

    #[test]
    fn a_block_is_read_as_it_was_written() {
        let derivation = Derivation { passes: 3, memory: 256 << 20, salt: [7; SALT] };
        let crypt = Crypt {
            derivation: Some(derivation),
            boxes: Some(Boxes::blank(2048, [9; NONCE], 5000)),
        };
        let (bytes, macs) = crypt.bytes();
        assert_eq!(bytes[macs], [0; 3 * MAC]);
        let mut cursor = Cursor::new(&bytes, 0);
        assert_eq!(Crypt::parse(&mut cursor, 5000), Ok(crypt));
        assert_eq!(cursor.at(), bytes.len());
        let (none, _) = Crypt::default().bytes();
        assert_eq!(none, [2, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_file_cannot_ask_for_any_amount_of_work() {
        for (passes, memory, told) in
            [(1, 1 << 40, "memlimit"), (1 << 40, 1 << 30, "opslimit"), (0, 1 << 20, "opslimit")]
        {
            let derivation = Some(Derivation { passes, memory, salt: [0; SALT] });
            let (bytes, _) = Crypt { derivation, boxes: None }.bytes();
            let wrong = Crypt::parse(&mut Cursor::new(&bytes, 0), 0).unwrap_err();
            assert_eq!(wrong.field, told);
        }
    }

    #[test]
    fn tags_are_counted_before_they_are_held() {
        let (mut bytes, _) =
            Crypt { derivation: None, boxes: Some(Boxes::blank(1024, [0; NONCE], 0)) }.bytes();
        let count = bytes.len() - 8;
        bytes[count..].copy_from_slice(&u64::MAX.to_le_bytes());
        let wrong = Crypt::parse(&mut Cursor::new(&bytes, 0), u64::MAX - 1).unwrap_err();
        assert_eq!(wrong.field, "tag count");
    }
}
