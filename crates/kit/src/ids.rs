//! Random identifiers: object UIDs and the name suffixes of generated names.
//!
//! [`Ids`] is the only source of random numbers besides key generation. It draws from the operating
//! system, or from a seed, in which case the same seed gives the same sequence. A seeded source is
//! for simulations and tests: its values can be predicted and must never serve as secrets.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// What name suffixes are made of: no vowels, so that no words appear, and no look-alikes.
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;

/// A source of identifiers. Clones share one sequence.
#[derive(Clone, Debug)]
pub struct Ids(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Seeded(Arc<Mutex<SplitMix64>>),
}

/// The operating system refused random bytes.
#[derive(Debug, thiserror::Error)]
#[error("read random bytes from the operating system")]
pub struct ReadRandom(#[source] getrandom::Error);

impl Ids {
    /// Draws from the operating system.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A repeatable sequence; not for secrets.
    pub fn seeded(seed: u64) -> Self {
        Self(Source::Seeded(Arc::new(Mutex::new(SplitMix64(seed)))))
    }

    /// Fills `bytes` with random values.
    pub fn fill(&self, bytes: &mut [u8]) -> Result<(), ReadRandom> {
        match &self.0 {
            Source::System => getrandom::fill(bytes).map_err(ReadRandom),
            Source::Seeded(generator) => {
                generator.lock().unwrap_or_else(PoisonError::into_inner).fill(bytes);
                Ok(())
            }
        }
    }

    /// A version 4 UUID in its canonical lower-case form.
    pub fn uuid(&self) -> Result<String, ReadRandom> {
        let mut bytes = [0_u8; 16];
        self.fill(&mut bytes)?;
        bytes[6] = (bytes[6] & 0x0f) | 0x40; // version 4
        bytes[8] = (bytes[8] & 0x3f) | 0x80; // RFC 9562 variant
        let mut text = String::with_capacity(36);
        for (index, byte) in bytes.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Ok(text)
    }

    /// The five characters that Kubernetes appends to a `generateName`.
    pub fn name_suffix(&self) -> Result<String, ReadRandom> {
        let alphabet = SUFFIX_ALPHABET.len();
        let mut text = String::with_capacity(SUFFIX_LENGTH);
        while text.len() < SUFFIX_LENGTH {
            let mut bytes = [0_u8; 8];
            self.fill(&mut bytes)?;
            for byte in bytes.map(usize::from) {
                // Values above the largest multiple would favour the first letters.
                if byte < 256 / alphabet * alphabet && text.len() < SUFFIX_LENGTH {
                    text.push(char::from(SUFFIX_ALPHABET[byte % alphabet]));
                }
            }
        }
        Ok(text)
    }
}

/// Steele, Lea and Flood's generator: tiny, and any seed is a good one.
#[derive(Debug)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn uuids_have_version_and_variant() {
        for ids in [Ids::system(), Ids::seeded(7)] {
            for _ in 0..200 {
                let uuid = ids.uuid().unwrap();
                let groups: Vec<usize> = uuid.split('-').map(str::len).collect();
                assert_eq!(groups, [8, 4, 4, 4, 12], "{uuid}");
                assert_eq!(uuid.as_bytes()[14], b'4', "{uuid}");
                assert!(b"89ab".contains(&uuid.as_bytes()[19]), "{uuid}");
                assert!(uuid.bytes().all(|b| b"0123456789abcdef-".contains(&b)), "{uuid}");
            }
        }
    }

    #[test]
    fn suffixes_use_the_whole_alphabet_and_nothing_else() {
        let ids = Ids::seeded(1);
        let mut seen = HashSet::new();
        for _ in 0..500 {
            let suffix = ids.name_suffix().unwrap();
            assert_eq!(suffix.len(), 5);
            seen.extend(suffix.into_bytes());
        }
        assert_eq!(seen, SUFFIX_ALPHABET.iter().copied().collect());
    }

    #[test]
    fn a_seed_decides_the_sequence_and_clones_share_it() {
        let draw = |seed| {
            let ids = Ids::seeded(seed);
            (ids.uuid().unwrap(), ids.clone().uuid().unwrap(), ids.name_suffix().unwrap())
        };
        assert_eq!(draw(42), draw(42));
        assert_ne!(draw(42), draw(43));
        let (first, second, _) = draw(42);
        assert_ne!(first, second);
    }

    #[test]
    fn the_generator_gives_the_published_values() {
        let mut generator = SplitMix64(1_234_567);
        let values: Vec<u64> = (0..3).map(|_| generator.next()).collect();
        assert_eq!(
            values,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }
}
