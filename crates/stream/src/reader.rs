//! Bytes at a location that need not be a model: the file of a key, a configuration beside the weights.
//!
//! Reached as models are, with the same patience and the same care that versions are never mixed.
//! Nothing is kept: whoever reads small pieces asks for them in larger ones.

use crate::error::Error;
use crate::location::Location;
use crate::remote::Remote;
use crate::source::{self, Source};

/// See the module.
#[derive(Debug)]
pub struct Reader {
    place: Location,
    source: Box<dyn Source>,
}

impl Reader {
    /// Opens what lies there. Of a file, how to reach it says nothing.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open_at(place: &Location, how: &Remote) -> Result<Self, Error> {
        Ok(Self { place: place.clone(), source: source::open(place, how)? })
    }

    /// Its bytes.
    pub fn byte_len(&self) -> u64 {
        self.source.len()
    }

    /// Fills this with the bytes from an offset on, as many as there are, and says how many.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn read_at(&self, into: &mut [u8], at: u64) -> Result<usize, Error> {
        let left = usize::try_from(self.byte_len().saturating_sub(at)).unwrap_or(usize::MAX);
        let here = left.min(into.len());
        if here > 0 {
            let read = self.source.read_exact_at(&mut into[..here], at);
            read.map_err(|unread| unread.of(&self.place))?;
        }
        Ok(here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_up_to_the_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"0123456789").unwrap();
        let place = Location::file(file.path());
        let reader = Reader::open_at(&place, &Remote::default()).unwrap();
        let mut bytes = [0; 4];
        assert_eq!((reader.byte_len(), reader.read_at(&mut bytes, 3).unwrap()), (10, 4));
        assert_eq!(&bytes, b"3456");
        assert_eq!(reader.read_at(&mut bytes, 8).unwrap(), 2);
        assert_eq!(&bytes[..2], b"89");
        assert_eq!(reader.read_at(&mut bytes, 11).unwrap(), 0);
    }
}
