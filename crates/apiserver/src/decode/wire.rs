//! The protobuf wire format: fields of a message, one after the other, and upstream's envelope.
//!
//! Guarantees bounded work: nothing is copied, a length beyond the end is refused before anything is
//! made of it, and groups, which nobody sends, are skipped without recursion. What the fields mean
//! is not known here. Refusals are those of the decoders that upstream generates.

use super::TypeMeta;

/// What a protobuf body begins with.
pub(crate) const PREFIX: &[u8; 4] = b"k8s\0";

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    /// Groups and 32-bit values, which no type of upstream's has.
    Other,
}

/// A field of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Field<'a> {
    pub(crate) number: u32,
    pub(crate) wire_type: u8,
    pub(crate) payload: Payload<'a>,
}

impl<'a> Field<'a> {
    /// The refusal of a field of another wire type than its own; `name` is its name in Go.
    pub(crate) fn wrong(&self, name: &str) -> String {
        format!("proto: wrong wireType = {} for field {name}", self.wire_type)
    }

    /// The bytes of a string, a message or a list of packed numbers.
    pub(crate) fn bytes(&self, name: &str) -> Result<&'a [u8], String> {
        match self.payload {
            Payload::Bytes(bytes) => Ok(bytes),
            _ => Err(self.wrong(name)),
        }
    }

    /// An integer or a boolean.
    pub(crate) fn varint(&self, name: &str) -> Result<u64, String> {
        match self.payload {
            Payload::Varint(number) => Ok(number),
            _ => Err(self.wrong(name)),
        }
    }
}

/// The fields of a message, in the order in which they were sent.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    /// The message's name in Go.
    message: &'a str,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(message: &'a str, bytes: &'a [u8]) -> Self {
        Self { message, rest: bytes }
    }

    /// The next field; `None` at the end of the message.
    pub(crate) fn next(&mut self) -> Result<Option<Field<'a>>, String> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = varint(&mut self.rest)?;
        let (number, wire_type) = split(tag);
        if wire_type == 4 {
            return Err(format!("proto: {}: wiretype end group for non-group", self.message));
        }
        if number <= 0 {
            let message = self.message;
            return Err(format!("proto: {message}: illegal tag {number} (wire type {tag})"));
        }
        let payload = payload(wire_type, &mut self.rest)?;
        Ok(Some(Field { number: number.unsigned_abs(), wire_type, payload }))
    }
}

/// Field number and wire type; Go keeps the low 32 bits of the number.
fn split(tag: u64) -> (i32, u8) {
    ((tag >> 3) as u32 as i32, (tag & 7) as u8)
}

fn payload<'a>(wire_type: u8, rest: &mut &'a [u8]) -> Result<Payload<'a>, String> {
    Ok(match wire_type {
        0 => Payload::Varint(varint(rest)?),
        1 => Payload::Fixed64(fixed64(rest)?),
        2 => Payload::Bytes(length_delimited(rest)?),
        3 => {
            skip_group(rest)?;
            Payload::Other
        }
        5 => {
            take(rest, 4)?;
            Payload::Other
        }
        other => return Err(format!("proto: illegal wireType {other}")),
    })
}

/// Skips what is left of a group, and the groups in it.
fn skip_group(rest: &mut &[u8]) -> Result<(), String> {
    let mut depth = 1_usize;
    while depth > 0 {
        match split(varint(rest)?).1 {
            3 => depth += 1,
            4 => depth -= 1,
            wire_type => {
                payload(wire_type, rest)?;
            }
        }
    }
    Ok(())
}

/// A number of seven bits per byte, the lowest first.
pub(crate) fn varint(rest: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first().ok_or_else(truncated)?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Ok(number);
        }
    }
    Err("proto: integer overflow".to_owned())
}

/// Eight bytes, the lowest first.
pub(crate) fn fixed64(rest: &mut &[u8]) -> Result<u64, String> {
    let bytes = take(rest, 8)?;
    Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| truncated())?))
}

fn length_delimited<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], String> {
    let length = varint(rest)?;
    if i64::try_from(length).is_err() {
        return Err("proto: negative length found during unmarshaling".to_owned());
    }
    take(rest, usize::try_from(length).unwrap_or(usize::MAX))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], String> {
    let (taken, after) = rest.split_at_checked(length).ok_or_else(truncated)?;
    *rest = after;
    Ok(taken)
}

fn truncated() -> String {
    "unexpected EOF".to_owned()
}

/// A string as it is shown: Go keeps broken UTF-8 and writes it as U+FFFD.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A body: what it says that it is, and the object's message.
pub(super) fn envelope(body: &[u8]) -> Result<(TypeMeta, &[u8]), String> {
    if body.is_empty() {
        return Err("empty data".to_owned());
    }
    let Some(message) = body.strip_prefix(PREFIX) else {
        return Err(format!(
            "provided data does not appear to be a protobuf message, expected prefix {}",
            format!("{PREFIX:?}").replace(',', "")
        ));
    };
    if message.is_empty() {
        return Err("empty body".to_owned());
    }
    let (mut about, mut raw): (TypeMeta, &[u8]) = (TypeMeta::default(), &[]);
    let mut fields = Fields::new("Unknown", message);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => type_meta(field.bytes("TypeMeta")?, &mut about)?,
            2 => raw = field.bytes("Raw")?,
            // Read by nobody.
            3 => drop(field.bytes("ContentEncoding")?),
            4 => drop(field.bytes("ContentType")?),
            _ => {}
        }
    }
    Ok((about, raw))
}

fn type_meta(bytes: &[u8], about: &mut TypeMeta) -> Result<(), String> {
    let mut fields = Fields::new("TypeMeta", bytes);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => about.api_version = text(field.bytes("APIVersion")?),
            2 => about.kind = text(field.bytes("Kind")?),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<(u32, Payload<'_>)>, String> {
        let mut fields = Fields::new("Thing", bytes);
        let mut out = Vec::new();
        while let Some(field) = fields.next()? {
            out.push((field.number, field.payload));
        }
        Ok(out)
    }

    #[test]
    fn fields_are_read_and_groups_skipped() {
        let bytes =
            b"\x08\x96\x01\x12\x02hi\x19\x01\0\0\0\0\0\0\0\x23\x08\x01\x2b\x2c\x24\x2d\0\0\0\0";
        let want = vec![
            (1, Payload::Varint(150)),
            (2, Payload::Bytes(b"hi")),
            (3, Payload::Fixed64(1)),
            (4, Payload::Other),
            (5, Payload::Other),
        ];
        assert_eq!(read(bytes).unwrap(), want);
    }

    #[test]
    fn what_is_no_message_is_refused_in_upstreams_words() {
        for (bytes, want) in [
            (&b"\x08"[..], "unexpected EOF"),
            (b"\x12\x05hi", "unexpected EOF"),
            (b"\x12\xff\xff\xff\xff\x7f", "unexpected EOF"),
            (b"\x19\x01", "unexpected EOF"),
            (b"\x23\x08\x01", "unexpected EOF"),
            (
                b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                "proto: negative length found during unmarshaling",
            ),
            (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "proto: integer overflow"),
            (b"\x0c", "proto: Thing: wiretype end group for non-group"),
            (b"\x02\x00", "proto: Thing: illegal tag 0 (wire type 2)"),
            (b"\x0e", "proto: illegal wireType 6"),
        ] {
            assert_eq!(read(bytes).unwrap_err(), want, "{bytes:?}");
        }
    }

    #[test]
    fn the_envelope_names_the_kind() {
        let body = b"k8s\0\x0a\x0b\x0a\x02v1\x12\x05Thing\x12\x03abc\x1a\0\x22\0";
        let (about, raw) = envelope(body).unwrap();
        assert_eq!((about.api_version.as_str(), about.kind.as_str()), ("v1", "Thing"));
        assert_eq!(raw, b"abc");
        for (body, want) in [
            (&b""[..], "empty data"),
            (b"k8s\0", "empty body"),
            (
                b"{}",
                "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
            ),
            (b"k8s\0\x0a\x03\x08\x01", "unexpected EOF"),
            (b"k8s\0\x08\x01", "proto: wrong wireType = 0 for field TypeMeta"),
        ] {
            assert_eq!(envelope(body).unwrap_err(), want, "{body:?}");
        }
    }
}
