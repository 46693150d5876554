//! Paths into an object: which field, list item or set value.
//!
//! A path element has two texts: the one people read in conflicts (`[name="a"]`) and the one that
//! `fieldsV1` stores (`k:{"name":"a"}`). The order is upstream's: fields, keys, values, indices.

use std::fmt;

use serde_json::Value;

use super::value::{self, Ordered};
use crate::schema::print;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// A field of a map, by name.
    Field(String),
    /// An item of a `map` list, by its key fields, sorted by name.
    Key(Vec<(String, Ordered)>),
    /// An item of a `set` list, by its value.
    Value(Ordered),
    /// An item of any list, by position.
    Index(i64),
}

/// Why a stored path element makes no sense.
#[derive(Debug, thiserror::Error)]
pub enum ParseElement {
    /// Too short, or not `<letter>:<content>`.
    #[error("missing colon: {0}")]
    MissingColon(String),
    /// The content is not the JSON that the letter calls for.
    #[error("invalid path element {0:?}")]
    Content(String),
}

impl PathElement {
    /// The element as `fieldsV1` stores it.
    pub fn to_key(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let mut out = "k:{".to_owned();
                for (i, (name, value)) in fields.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    value::write_json_string(&mut out, name);
                    out.push(':');
                    out.push_str(&print::json(&value.0));
                }
                out.push('}');
                out
            }
            Self::Value(value) => format!("v:{}", print::json(&value.0)),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// Reads what [`PathElement::to_key`] wrote; `None` for a letter that a later version may know.
    pub fn from_key(key: &str) -> Result<Option<Self>, ParseElement> {
        let content_error = || ParseElement::Content(key.to_owned());
        let Some((letter, content)) = key.split_once(':').filter(|(letter, _)| letter.len() == 1)
        else {
            return Err(ParseElement::MissingColon(key.to_owned()));
        };
        let parse = || serde_json::from_str::<Value>(content).map_err(|_| content_error());
        Ok(Some(match letter {
            "f" => Self::Field(content.to_owned()),
            "v" => Self::Value(Ordered(parse()?)),
            "k" => match parse()? {
                Value::Object(fields) => Self::key(fields),
                Value::Null => Self::Key(Vec::new()),
                _ => return Err(content_error()),
            },
            "i" => Self::Index(content.parse().map_err(|_| content_error())?),
            _ => return Ok(None),
        }))
    }

    /// A key element with its fields in order.
    pub(super) fn key(fields: impl IntoIterator<Item = (String, Value)>) -> Self {
        let mut fields: Vec<_> = fields.into_iter().map(|(name, v)| (name, Ordered(v))).collect();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Self::Key(fields)
    }
}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", value::path_text(&value.0))?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={}]", value::path_text(&value.0)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_read_back() {
        let check = |key: &str, text: &str| {
            let element = PathElement::from_key(key).unwrap().unwrap();
            assert_eq!(element.to_key(), key);
            assert_eq!(element.to_string(), text);
        };
        check("f:", ".");
        check("f:spec", ".spec");
        check("f:a:b", ".a:b");
        check(r#"k:{"name":"a<b"}"#.replace('<', "\\u003c").as_str(), r#"[name="a<b"]"#);
        check(r#"k:{"port":80,"protocol":"TCP"}"#, r#"[port=80,protocol="TCP"]"#);
        check(r#"k:{"name":null}"#, "[name=null]");
        check(r#"v:"a""#, r#"[="a"]"#);
        check("v:1.5", "[=1.5]");
        check("i:3", "[3]");
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(PathElement::from_key("r:later").unwrap().is_none());
        for key in ["", "x", "name", "é:a", "i:", "i:1.5", "v:", "v:{", "k:1", "k:{"] {
            assert!(PathElement::from_key(key).is_err(), "{key}");
        }
    }
}
