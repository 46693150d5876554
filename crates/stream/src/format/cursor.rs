//! Reads little-endian fields off bytes and remembers where in the file it is.

use super::Malformed;

/// See the module.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    base: u64,
}

impl<'a> Cursor<'a> {
    /// Over bytes whose first one lies at `base` in the file.
    pub(super) const fn new(bytes: &'a [u8], base: u64) -> Self {
        Self { bytes, at: 0, base }
    }

    /// Where in the file the next byte is.
    pub(super) const fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Where in the bytes the next one is.
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// That a field of what was just read is wrong.
    pub(super) fn wrong(&self, field: &'static str, what: impl Into<String>) -> Malformed {
        Malformed::new(self.offset(), field, what)
    }

    pub(super) fn take(&mut self, len: u64, field: &'static str) -> Result<&'a [u8], Malformed> {
        let left = self.bytes.get(self.at..).unwrap_or_default();
        let taken = usize::try_from(len).ok().and_then(|len| left.get(..len));
        let Some(taken) = taken else {
            let what = format!("{len} bytes are needed, {} are left", left.len());
            return Err(self.wrong(field, what));
        };
        self.at += taken.len();
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(
        &mut self,
        field: &'static str,
    ) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64, field)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array(field)?))
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array(field)?))
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array(field)?))
    }

    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }
}
