//! Types of elements, as tensorizer files, safetensors files and people write them.
//!
//! A tensorizer file says a type as numpy does (`<f4`), and one that numpy lacks as bytes without
//! meaning, followed by torch's name (`<V2\0torch.bfloat16`). Nothing here converts an element.

use std::fmt;

/// A type that all three formats know, or nearly.
struct Row {
    name: &'static str,
    numpy: &'static str,
    torch: Option<&'static str>,
    safetensors: Option<&'static str>,
}

const fn row(
    name: &'static str,
    numpy: &'static str,
    torch: Option<&'static str>,
    safetensors: Option<&'static str>,
) -> Row {
    Row { name, numpy, torch, safetensors }
}

const ROWS: &[Row] = &[
    row("float64", "<f8", None, Some("F64")),
    row("float32", "<f4", None, Some("F32")),
    row("float16", "<f2", None, Some("F16")),
    row("bfloat16", "<V2", Some("torch.bfloat16"), Some("BF16")),
    row("float8_e4m3fn", "|V1", Some("torch.float8_e4m3fn"), Some("F8_E4M3")),
    row("float8_e5m2", "|V1", Some("torch.float8_e5m2"), Some("F8_E5M2")),
    row("float8_e8m0fnu", "|V1", Some("torch.float8_e8m0fnu"), Some("F8_E8M0")),
    row("int64", "<i8", None, Some("I64")),
    row("int32", "<i4", None, Some("I32")),
    row("int16", "<i2", None, Some("I16")),
    row("int8", "|i1", None, Some("I8")),
    row("uint64", "<u8", None, Some("U64")),
    row("uint32", "<u4", None, Some("U32")),
    row("uint16", "<u2", None, Some("U16")),
    row("uint8", "|u1", None, Some("U8")),
    row("bool", "|b1", None, Some("BOOL")),
    row("complex64", "<c8", None, Some("C64")),
    row("complex128", "<c16", None, None),
];

/// A type of elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dtype {
    numpy: String,
    torch: Option<String>,
    size: u64,
}

impl Dtype {
    /// The type of this name, as torch and numpy call it: `float32`, `bfloat16`.
    pub fn named(name: &str) -> Option<Self> {
        ROWS.iter().find(|row| row.name == name).and_then(Self::of)
    }

    fn of(row: &Row) -> Option<Self> {
        let size = size(row.numpy)?;
        Some(Self { numpy: row.numpy.to_owned(), torch: row.torch.map(str::to_owned), size })
    }

    /// Reads what a tensorizer file says: a type of numpy (`<f4`), or bytes of a size, a zero and a type
    /// of torch (`<V2\0torch.bfloat16`).
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
        let (numpy, torch) = match text.split_once('\0') {
            Some((numpy, torch)) => (numpy, Some(torch)),
            None => (text, None),
        };
        if torch.is_some_and(|torch| torch.contains('\0') || !torch.starts_with("torch.")) {
            return Err(format!("{text:?} names no type of torch"));
        }
        let size = size(numpy).ok_or_else(|| format!("{numpy:?} is no type of numpy"))?;
        Ok(Self { numpy: numpy.to_owned(), torch: torch.map(str::to_owned), size })
    }

    /// As a tensorizer file says it.
    pub fn text(&self) -> String {
        match &self.torch {
            Some(torch) => format!("{}\0{torch}", self.numpy),
            None => self.numpy.clone(),
        }
    }

    pub(crate) fn from_safetensors(text: &str) -> Option<Self> {
        ROWS.iter().find(|row| row.safetensors == Some(text)).and_then(Self::of)
    }

    /// As a safetensors file says it, if that format knows it.
    pub(crate) fn safetensors(&self) -> Option<&'static str> {
        self.row().and_then(|row| row.safetensors)
    }

    fn row(&self) -> Option<&'static Row> {
        ROWS.iter().find(|row| row.numpy == self.numpy && row.torch == self.torch.as_deref())
    }

    /// Whether numpy lacks it, which takes version 2 of the format.
    pub(crate) const fn is_opaque(&self) -> bool {
        self.torch.is_some()
    }

    /// Bytes of an element.
    pub const fn size(&self) -> u64 {
        self.size
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let torch = self.torch.as_deref().map(|torch| torch.trim_start_matches("torch."));
        out.write_str(self.row().map(|row| row.name).or(torch).unwrap_or(&self.numpy))
    }
}

/// Bytes of an element of a numpy type: byte order, kind, size.
fn size(numpy: &str) -> Option<u64> {
    let rest = numpy.strip_prefix(['<', '>', '|', '='])?;
    let digits = rest.strip_prefix(['b', 'i', 'u', 'f', 'c', 'V'])?;
    let plain = !digits.is_empty() && digits.len() <= 2 && !digits.starts_with('0');
    let size = digits.parse().ok()?;
    (plain && digits.bytes().all(|byte| byte.is_ascii_digit()) && size <= 32).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_said_and_read_alike() {
        for row in ROWS {
            let dtype = Dtype::named(row.name).unwrap();
            assert_eq!(Dtype::parse(dtype.text().as_bytes()), Ok(dtype.clone()));
            assert_eq!(dtype.to_string(), row.name);
            if let Some(text) = row.safetensors {
                assert_eq!(Dtype::from_safetensors(text), Some(dtype));
            }
        }
        let bits = Dtype::parse(b"<V4\0torch.complex32").unwrap();
        assert_eq!((bits.to_string().as_str(), bits.size()), ("complex32", 4));
        assert_eq!(bits.safetensors(), None);
    }

    #[test]
    fn what_is_no_type_is_refused() {
        for bad in [
            "",
            "f4",
            "<x4",
            "<f",
            "<f-4",
            "<f+4",
            "<f04",
            "<V2\0",
            "<V2\0bfloat16",
            "<V2\0torch.a\0b",
            "<f99",
            "<V0",
        ] {
            assert!(Dtype::parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(Dtype::parse(b"<f\xff").is_err());
    }
}
