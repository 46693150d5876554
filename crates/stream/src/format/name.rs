//! Names of tensors: plain ones, and paths through nested dictionaries and lists.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use serde_json::Value;

/// What a path in a file begins with: the record separator of JSON text sequences.
const SEPARATOR: u8 = 0x1e;

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// A key of a dictionary.
    Key(String),
    /// A place in a list.
    Place(u64),
}

/// The name of a tensor; its steps joined by dots when displayed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name(Vec<Segment>);

impl Name {
    /// A name of one string.
    pub fn plain(name: impl Into<String>) -> Self {
        Self(vec![Segment::Key(name.into())])
    }

    /// A path through nested dictionaries and lists; `None` if it has no step.
    pub fn path(segments: Vec<Segment>) -> Option<Self> {
        (!segments.is_empty()).then_some(Self(segments))
    }

    /// Its steps; at least one.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.is_empty() {
            return Err("is empty".to_owned());
        }
        if bytes.first() != Some(&SEPARATOR) {
            let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
            return Ok(Self::plain(text));
        }
        let json = bytes.get(1..).unwrap_or_default();
        let array = json.first() == Some(&b'[') && json.last() == Some(&b']');
        if !array || json.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
            return Err("is no path: it must be a JSON array on one line".to_owned());
        }
        let values: Vec<Value> =
            serde_json::from_slice(json).map_err(|error| format!("is no path: {error}"))?;
        let segment = |value| match value {
            Value::String(key) => Some(Segment::Key(key)),
            Value::Number(number) => number.as_u64().map(Segment::Place),
            _ => None,
        };
        let segments: Option<Vec<Segment>> = values.into_iter().map(segment).collect();
        let segments = segments.ok_or("is no path: strings and places only")?;
        Self::path(segments).ok_or_else(|| "is a path without a step".to_owned())
    }

    /// As a tensorizer file has it.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        if let [Segment::Key(name)] = self.0.as_slice() {
            return name.clone().into_bytes();
        }
        let steps: Vec<String> = self.0.iter().map(Segment::json).collect();
        let mut bytes = vec![SEPARATOR];
        bytes.extend_from_slice(format!("[{}]", steps.join(",")).as_bytes());
        bytes
    }

    /// The name for people: what a terminal would obey is written out.
    pub fn shown(&self) -> String {
        printable(&self.to_string())
    }

    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.0.as_slice(), [Segment::Key(_)])
    }
}

impl Segment {
    /// In JSON of ASCII characters, as Python's `json` writes it.
    fn json(&self) -> String {
        let key = match self {
            Self::Place(place) => return place.to_string(),
            Self::Key(key) => Value::from(key.as_str()).to_string(),
        };
        let mut ascii = String::with_capacity(key.len());
        for unit in key.encode_utf16() {
            match u8::try_from(unit) {
                Ok(byte) if byte < 0x7f => ascii.push(char::from(byte)),
                _ => ascii.push_str(&format!("\\u{unit:04x}")),
            }
        }
        ascii
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, segment) in self.0.iter().enumerate() {
            if nth > 0 {
                out.write_str(".")?;
            }
            match segment {
                Segment::Key(key) => out.write_str(key)?,
                Segment::Place(place) => write!(out, "{place}")?,
            }
        }
        Ok(())
    }
}

/// Text from a file as one line that a terminal only prints.
pub(crate) fn printable(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() {
            line.extend(letter.escape_unicode());
        } else {
            line.push(letter);
        }
    }
    line
}

/// The names of one file: each once, none inside another, and keys and places never on one level.
#[derive(Default)]
pub(crate) struct Names {
    /// What is under a step of a branch; the root is branch 0.
    steps: HashMap<(usize, Segment), Under>,
    /// Of each branch, whether it is a list.
    lists: Vec<bool>,
}

#[derive(Clone, Copy)]
enum Under {
    Tensor,
    Branch(usize),
}

impl Names {
    /// Takes a name in, or says what it collides with.
    pub(crate) fn add(&mut self, name: &Name) -> Result<(), String> {
        let mut branch = None;
        let mut from = 0;
        for (nth, segment) in name.segments().iter().enumerate() {
            let list = matches!(segment, Segment::Place(_));
            let at = branch.unwrap_or_else(|| {
                // The root is made with the first name.
                if nth == 0 && !self.lists.is_empty() {
                    return 0;
                }
                self.lists.push(list);
                let made = self.lists.len() - 1;
                if nth > 0 {
                    let before = name.segments()[nth - 1].clone();
                    self.steps.insert((from, before), Under::Branch(made));
                }
                made
            });
            if self.lists.get(at) != Some(&list) {
                return Err(format!("{name} has a key and a place on one level with another"));
            }
            let last = nth + 1 == name.segments().len();
            branch = match self.steps.entry((at, segment.clone())) {
                Entry::Occupied(under) => match *under.get() {
                    Under::Tensor if last => return Err(format!("{name} is there twice")),
                    Under::Branch(_) if last => {
                        return Err(format!("{name} is a tensor and a level of others"));
                    }
                    Under::Tensor => return Err(format!("{name} lies inside another tensor")),
                    Under::Branch(branch) => Some(branch),
                },
                Entry::Vacant(free) if last => {
                    free.insert(Under::Tensor);
                    return Ok(());
                }
                Entry::Vacant(_) => None,
            };
            from = at;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(key: &str) -> Segment {
        Segment::Key(key.to_owned())
    }

    #[test]
    fn paths_are_said_as_python_says_them() {
        let path = Name::path(vec![key("m"), Segment::Place(0), key("ä\"😀")]).unwrap();
        assert_eq!(path.bytes(), b"\x1e[\"m\",0,\"\\u00e4\\\"\\ud83d\\ude00\"]");
        assert_eq!(Name::parse(&path.bytes()), Ok(path.clone()));
        assert_eq!(path.to_string(), "m.0.ä\"😀");
        assert_eq!(Name::plain("a\x1b[2J\n").shown(), "a\\u{1b}[2J\\u{a}");
        assert_eq!(Name::parse("ä".as_bytes()), Ok(Name::plain("ä")));
        // A list at the root: one place is a path, one key is a plain name.
        assert_eq!(Name::path(vec![Segment::Place(3)]).unwrap().bytes(), b"\x1e[3]");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let bad: [&[u8]; 9] = [
            b"",
            b"\x1e",
            b"\x1e[]",
            b"\x1e{}",
            b"\x1e[1.5]",
            b"\x1e[-1]",
            b"\x1e[\"a\",\n1]",
            b"\x1e[[1]]",
            b"\xff",
        ];
        for bad in bad {
            assert!(Name::parse(bad).is_err(), "{bad:?}");
        }
        let deep = [b"\x1e".as_slice(), &[b'['; 60_000], &[b']'; 60_000]].concat();
        assert!(Name::parse(&deep).is_err());
    }

    #[test]
    fn names_do_not_collide() {
        let path = |steps: &[Segment]| Name::path(steps.to_vec()).unwrap();
        let mut names = Names::default();
        names.add(&path(&[key("a"), Segment::Place(0)])).unwrap();
        names.add(&path(&[key("a"), Segment::Place(1), key("w")])).unwrap();
        names.add(&path(&[key("a"), Segment::Place(1), key("v")])).unwrap();
        names.add(&Name::plain("a.0")).unwrap();
        for (bad, why) in [
            (path(&[key("a"), Segment::Place(0)]), "there twice"),
            (path(&[key("a")]), "a level of others"),
            (path(&[key("a"), Segment::Place(0), key("x")]), "inside another"),
            (path(&[key("a"), key("x")]), "on one level"),
            (path(&[Segment::Place(0)]), "on one level"),
        ] {
            let told = names.add(&bad).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }
}
