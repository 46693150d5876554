//! `<name>` in a case's text: values that stand for captures, shared definitions and filling.
//!
//! A string that is nothing but `<name>` becomes the value itself, whatever its type; inside a
//! longer string the value must be text or a number. `<fill:N>` is the letter x N times. Values
//! may use other values, to a bounded depth.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use super::case::Vars;

const DEPTH: usize = 8;
const LONGEST_FILL: usize = 8 << 20;

/// Values by name, the innermost first.
pub(crate) struct Scope<'a>(pub(crate) Vec<&'a Vars>);

impl Scope<'_> {
    pub(crate) fn text(&self, text: &str) -> Result<String> {
        self.text_at(text, 0)
    }

    pub(crate) fn value(&self, value: &Value) -> Result<Value> {
        self.value_at(value, 0)
    }

    fn value_at(&self, value: &Value, depth: usize) -> Result<Value> {
        match value {
            Value::String(text) => match whole(text) {
                Some(name) => self.value_at(self.get(name)?, deeper(depth)?),
                None => Ok(Value::String(self.text_at(text, depth)?)),
            },
            Value::Array(items) => {
                items.iter().map(|item| self.value_at(item, depth)).collect::<Result<_>>()
            }
            Value::Object(fields) => {
                let fields = fields.iter().map(|(key, value)| {
                    Ok((self.text_at(key, depth)?, self.value_at(value, depth)?))
                });
                Ok(Value::Object(fields.collect::<Result<Map<_, _>>>()?))
            }
            plain => Ok(plain.clone()),
        }
    }

    fn text_at(&self, text: &str, depth: usize) -> Result<String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find('<') {
            let (before, from) = rest.split_at(start);
            out.push_str(before);
            let Some(name) = leading(from) else {
                out.push('<');
                rest = &from[1..];
                continue;
            };
            rest = &from[name.len() + 2..];
            if let Some(count) = name.strip_prefix("fill:") {
                let count: usize = count.parse().with_context(|| format!("<{name}>"))?;
                out.push_str(&"x".repeat(count.min(LONGEST_FILL)));
                continue;
            }
            match self.get(name)? {
                Value::String(value) => out.push_str(&self.text_at(value, deeper(depth)?)?),
                Value::Number(value) => out.push_str(&value.to_string()),
                _ => bail!("<{name}> is no text, so it cannot stand inside text"),
            }
        }
        out.push_str(rest);
        Ok(out)
    }

    fn get(&self, name: &str) -> Result<&Value> {
        let known = self.0.iter().find_map(|vars| vars.get(name));
        known.with_context(|| format!("nothing is named <{name}>"))
    }
}

fn deeper(depth: usize) -> Result<usize> {
    if depth == DEPTH {
        bail!("values name each other more than {DEPTH} deep")
    } else {
        Ok(depth + 1)
    }
}

/// The name when the text is `<name>` and nothing else.
fn whole(text: &str) -> Option<&str> {
    leading(text).filter(|name| name.len() + 2 == text.len() && !name.starts_with("fill:"))
}

/// The name when the text begins with `<name>`.
fn leading(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix('<')?.split_once('>')?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-:".contains(c);
    (name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(plain)).then_some(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn expand(value: Value) -> Result<Value> {
        let inner = Vars::from([("a".into(), json!("x<b>")), ("o".into(), json!({"k": "<a>"}))]);
        let outer = Vars::from([("a".into(), json!("hidden")), ("b".into(), json!(7))]);
        Scope(vec![&inner, &outer]).value(&value)
    }

    #[test]
    fn values_and_text() {
        let check = |input: Value, expect: Value| assert_eq!(expand(input).unwrap(), expect);
        check(json!("<a>"), json!("x7"));
        check(json!("<b>"), json!(7));
        check(json!({"p-<b>": ["<o>"]}), json!({"p-7": [{"k": "x7"}]}));
        check(json!("1 < 2 <B> <a"), json!("1 < 2 <B> <a"));
        check(json!("<fill:3>!"), json!("xxx!"));
    }

    #[test]
    fn unknown_names_and_cycles_are_errors() {
        assert!(expand(json!("<nope>")).is_err());
        assert!(expand(json!("-<o>")).is_err());
        let looped = Vars::from([("a".into(), json!("<a>"))]);
        assert!(Scope(vec![&looped]).value(&json!("<a>")).is_err());
        assert!(Scope(vec![&looped]).text("-<a>").is_err());
    }
}
