//! The JSON reader: one pass over the bytes, with the words of Go's scanner on the first bad one.

use serde_json::{Map, Number, Value};

use super::{DecodeError, Decoded, MAX_DEPTH, Repetitions, TypeMeta};
use crate::schema::print;

/// What becomes of a value when its field comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// The last value counts.
    Replaces,
    /// Of two objects both count, and of what both have the last: so Go reads into structs and maps.
    Merges,
}

pub(super) fn decode(body: &[u8], again: Again) -> Result<Decoded, DecodeError> {
    let mut reader = Reader {
        body,
        at: 0,
        depth: 0,
        repetitions: Repetitions::default(),
        overflow: None,
        again,
    };
    let value = reader.document().map_err(DecodeError::ParseJson)?;
    if let Some(literal) = reader.overflow {
        let text = |field: &str| {
            value.get(field).and_then(Value::as_str).map(ToOwned::to_owned).unwrap_or_default()
        };
        let about = TypeMeta { api_version: text("apiVersion"), kind: text("kind") };
        return Err(DecodeError::ReadNumber { literal, about });
    }
    Ok(Decoded { value, duplicates: reader.repetitions.found })
}

struct Reader<'a> {
    body: &'a [u8],
    at: usize,
    depth: usize,
    repetitions: Repetitions,
    /// The first number that no float holds; told only once the syntax is known to be fine.
    overflow: Option<String>,
    again: Again,
}

impl Reader<'_> {
    fn document(&mut self) -> Result<Value, String> {
        let value = self.value()?;
        self.skip_space();
        match self.peek() {
            None => Ok(value),
            Some(_) => Err(self.unexpected("after top-level value")),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.body.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// The complaint about the byte at hand, or about the end.
    fn unexpected(&self, context: &str) -> String {
        match self.peek() {
            None => "unexpected end of JSON input".to_owned(),
            Some(byte) => {
                format!("invalid character {} {context}", print::quote_char(char::from(byte)))
            }
        }
    }

    fn value(&mut self) -> Result<Value, String> {
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(Value::String),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, String>) -> Result<Value, String> {
        if self.depth == MAX_DEPTH {
            return Err(self.unexpected("exceeded max depth"));
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn object(&mut self) -> Result<Value, String> {
        let mut map = Map::new();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(map));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.string()?;
            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            let mark = self.repetitions.enter_key(&key);
            if map.contains_key(&key) {
                self.repetitions.note(|path| format!("duplicate field {}", print::quote(path)));
            }
            let value = self.value()?;
            self.repetitions.leave(mark);
            match map.get_mut(&key) {
                Some(before) if self.again == Again::Merges => merge(before, value),
                _ => drop(map.insert(key, value)),
            }
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(map));
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
    }

    fn array(&mut self) -> Result<Value, String> {
        let mut items = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            let mark = self.repetitions.enter_index(items.len());
            items.push(self.value()?);
            self.repetitions.leave(mark);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::Array(items));
                }
                _ => return Err(self.unexpected("after array element")),
            }
        }
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, String> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                let expected = print::quote_char(char::from(expected));
                return Err(self.unexpected(&format!("in literal {word} (expecting {expected})")));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn some_digits(&mut self, context: &str) -> Result<(), String> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.unexpected(context));
        }
        self.digits();
        Ok(())
    }

    fn number(&mut self) -> Result<Value, String> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.some_digits("in numeric literal")?;
        }
        let mut pointed = false;
        if self.peek() == Some(b'.') {
            pointed = true;
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        let text = self.body.get(start..self.at).and_then(|b| std::str::from_utf8(b).ok());
        let text = text.unwrap_or_default();
        if !pointed && let Ok(whole) = text.parse::<i64>() {
            return Ok(whole.into());
        }
        match text.parse::<f64>().ok().and_then(Number::from_f64) {
            Some(number) => Ok(Value::Number(number)),
            None => {
                self.overflow.get_or_insert_with(|| text.to_owned());
                Ok(Value::Null)
            }
        }
    }

    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let start = self.at;
            while let Some(byte) = self.peek()
                && byte != b'"'
                && byte != b'\\'
                && byte >= 0x20
            {
                self.at += 1;
            }
            push_lossy(&mut out, self.body.get(start..self.at).unwrap_or_default());
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    /// What stands behind a backslash.
    fn escape(&mut self) -> Result<char, String> {
        let c = match self.peek() {
            Some(b'b') => '\x08',
            Some(b'f') => '\x0c',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(b'u') => {
                self.at += 1;
                return self.unicode_escape();
            }
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        Ok(c)
    }

    /// The four digits behind `\u`; half a surrogate pair becomes U+FFFD.
    fn unicode_escape(&mut self) -> Result<char, String> {
        let first = self.hex4()?;
        if let Some(c) = char::from_u32(first) {
            return Ok(c);
        }
        let behind = self.at;
        if (0xd800..0xdc00).contains(&first) && self.body.get(behind..).is_some_and(is_escape) {
            self.at += 2;
            let second = self.hex4()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = behind;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex4(&mut self) -> Result<u32, String> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else {
                return Err(self.unexpected("in \\u hexadecimal character escape"));
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }
}

/// Lays a value over the one before.
fn merge(before: &mut Value, value: Value) {
    match (before, value) {
        (Value::Object(before), Value::Object(value)) => {
            for (key, value) in value {
                match before.get_mut(&key) {
                    Some(before) => merge(before, value),
                    None => drop(before.insert(key, value)),
                }
            }
        }
        (before, value) => *before = value,
    }
}

fn is_escape(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\\u")
}

/// Appends the bytes, each one that is not UTF-8 as one U+FFFD.
fn push_lossy(out: &mut String, mut bytes: &[u8]) {
    loop {
        match std::str::from_utf8(bytes) {
            Ok(text) => return out.push_str(text),
            Err(error) => {
                let (good, bad) = bytes.split_at(error.valid_up_to());
                out.push_str(std::str::from_utf8(good).unwrap_or_default());
                out.push(char::REPLACEMENT_CHARACTER);
                bytes = bad.get(1..).unwrap_or_default();
            }
        }
    }
}
