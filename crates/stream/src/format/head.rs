//! The first 73 bytes of a tensorizer file: version, features, how many tensors, how long an index.

use super::Malformed;
use super::cursor::Cursor;

/// What every tensorizer file begins with.
pub(crate) const MAGIC: [u8; 5] = *b"|TZR|";

/// Bytes before the index.
pub(crate) const LEN: usize = 73;

const ENCRYPTED: u8 = 1;
const VERSIONED: u8 = 2;

/// What the head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// 1 to 5: what a reader must know to read the file.
    pub(crate) version: u32,
    /// Whether every record has an encryption block.
    pub(crate) encrypted: bool,
    /// Whether every index entry begins with its version.
    pub(crate) versioned: bool,
    /// Bytes of all tensors; informational.
    pub(crate) data_bytes: u64,
    /// Tensors in the index.
    pub(crate) count: u64,
    /// Bytes of the index, its padding included.
    pub(crate) index_len: u64,
}

impl Head {
    /// Reads the head off the beginning of a file.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(bytes, 0);
        if cursor.array("magic")? != MAGIC {
            return Err(Malformed::new(0, "magic", "is not |TZR|: this is no tensorizer file"));
        }
        let version = cursor.u32("version")?;
        if !(1..=5).contains(&version) {
            let what = format!("is {version}; versions 1 to 5 are known");
            return Err(Malformed::new(5, "version", what));
        }
        let flags: [u8; 32] = cursor.array("feature flags")?;
        // Before version 4 these bytes meant nothing.
        let known = if version >= 4 { flags[0] } else { 0 };
        let unknown = known & !(ENCRYPTED | VERSIONED) != 0
            || version >= 4 && flags.iter().skip(1).any(|byte| *byte != 0);
        if unknown {
            return Err(Malformed::new(9, "feature flags", "features that are not known are used"));
        }
        let data_bytes = cursor.u64("tensor bytes")?;
        cursor.u64("reserved")?;
        let count = cursor.u64("tensor count")?;
        if count == 0 {
            return Err(Malformed::new(57, "tensor count", "is 0: the file was not finished"));
        }
        let index_len = cursor.u64("index length")?;
        Ok(Self {
            version,
            encrypted: version == 3 || known & ENCRYPTED != 0,
            versioned: known & VERSIONED != 0,
            data_bytes,
            count,
            index_len,
        })
    }

    /// The head as bytes.
    pub(crate) fn bytes(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..5].copy_from_slice(&MAGIC);
        bytes[5..9].copy_from_slice(&self.version.to_le_bytes());
        if self.version >= 4 {
            bytes[9] = u8::from(self.encrypted) * ENCRYPTED + u8::from(self.versioned) * VERSIONED;
        }
        bytes[41..49].copy_from_slice(&self.data_bytes.to_le_bytes());
        bytes[57..65].copy_from_slice(&self.count.to_le_bytes());
        bytes[65..73].copy_from_slice(&self.index_len.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(version: u32, encrypted: bool) -> Head {
        let versioned = version == 5;
        Head { version, encrypted, versioned, data_bytes: 7, count: 1, index_len: 262_144 }
    }

    #[test]
    fn what_was_written_is_read() {
        for head in [head(1, false), head(2, false), head(3, true), head(4, true), head(5, false)] {
            assert_eq!(Head::parse(&head.bytes()), Ok(head));
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let told = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = head(4, true).bytes().to_vec();
            change(&mut bytes);
            Head::parse(&bytes).unwrap_err().to_string()
        };
        let magic = told(&|bytes| bytes[0] = b'x');
        assert_eq!(magic, "at byte 0, magic: is not |TZR|: this is no tensorizer file");
        let version = told(&|bytes| bytes[5] = 6);
        assert_eq!(version, "at byte 5, version: is 6; versions 1 to 5 are known");
        assert!(told(&|bytes| bytes[9] = 4).starts_with("at byte 9, feature flags"));
        assert!(told(&|bytes| bytes[40] = 1).starts_with("at byte 9, feature flags"));
        assert!(told(&|bytes| bytes[57] = 0).starts_with("at byte 57, tensor count"));
        let short = told(&|bytes| bytes.truncate(60));
        assert_eq!(short, "at byte 57, tensor count: 8 bytes are needed, 3 are left");
    }
}
