//! CRC-32C, eight bytes at a time.
//!
//! It finds damage, not malice. Records and snapshots end in one.

const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    // The Castagnoli polynomial, bits reversed.
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (POLYNOMIAL * (crc & 1));
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    // Table n advances a byte past n more bytes of zeros.
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let crc: u32 = tables[table - 1][byte];
            tables[table][byte] = (crc >> 8) ^ tables[0][(crc & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// A checksum in the making.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crc(u32);

impl Crc {
    pub(crate) const fn new() -> Self {
        Self(u32::MAX)
    }

    pub(crate) fn update(&mut self, data: &[u8]) {
        let mut crc = self.0;
        let (chunks, rest) = data.as_chunks::<8>();
        for chunk in chunks {
            let word = u64::from_le_bytes(*chunk) ^ u64::from(crc);
            crc = word
                .to_le_bytes()
                .iter()
                .zip(TABLES.iter().rev())
                .fold(0, |crc, (byte, table)| crc ^ table[usize::from(*byte)]);
        }
        for byte in rest {
            let index = crc.to_le_bytes()[0] ^ byte;
            crc = (crc >> 8) ^ TABLES[0][usize::from(index)];
        }
        self.0 = crc;
    }

    pub(crate) const fn finish(self) -> u32 {
        !self.0
    }
}

/// The checksum of one piece of data.
pub(crate) fn checksum(data: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(data);
    crc.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_published_vectors() {
        let check = |parts: &[&[u8]], expected| {
            let mut crc = Crc::new();
            parts.iter().for_each(|part| crc.update(part));
            assert_eq!(crc.finish(), expected, "{parts:?}");
        };
        // RFC 3720, B.4, and the check value of the catalogue of CRC parameters.
        check(&[&[0; 32]], 0x8a91_36aa);
        check(&[&[0xff; 32]], 0x62a8_ab43);
        check(&[&std::array::from_fn::<u8, 32, _>(|i| i as u8)], 0x46dd_794e);
        check(&[b"123456789"], 0xe306_9283);
        check(&[b"123", b"", b"456789"], 0xe306_9283);
        check(&[], 0);
    }
}
