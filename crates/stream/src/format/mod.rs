//! The tensorizer file format, versions 1 to 5, and safetensors: bytes to facts and back.
//!
//! Everything here is pure: functions over bytes, without I/O, threads or randomness. What is parsed
//! was checked: whoever holds an [`index::Entry`] knows that its bytes lie inside the file and overlap
//! no other's. What is wrong is told with its offset and its field, and nothing is allocated that the
//! bytes at hand do not justify.

pub(crate) mod crypt;
mod cursor;
pub(crate) mod dtype;
pub(crate) mod head;
pub(crate) mod index;
pub(crate) mod layout;
pub(crate) mod name;
pub(crate) mod record;
pub(crate) mod safetensors;
mod sha;

use std::borrow::Cow;

/// A place in a file that is not as its format says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {offset}, {field}: {what}")]
pub struct Malformed {
    /// Where in the file, in bytes from its beginning.
    pub offset: u64,
    /// Which field of the format.
    pub field: Cow<'static, str>,
    /// What is wrong with it.
    pub what: String,
}

impl Malformed {
    pub(crate) fn new(
        offset: u64,
        field: impl Into<Cow<'static, str>>,
        what: impl Into<String>,
    ) -> Self {
        Self { offset, field: field.into(), what: name::printable(&what.into()) }
    }
}

/// What a tensor is to its module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A parameter of a module.
    Parameter,
    /// A buffer of a module.
    Buffer,
    /// A value of a state dict.
    StateDict,
}

impl Kind {
    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Parameter),
            1 => Some(Self::Buffer),
            2 => Some(Self::StateDict),
            _ => None,
        }
    }

    pub(crate) const fn byte(self) -> u8 {
        match self {
            Self::Parameter => 0,
            Self::Buffer => 1,
            Self::StateDict => 2,
        }
    }
}
