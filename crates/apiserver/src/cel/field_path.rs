//! A rule's `fieldPath`: `.spec.a` or `.labels['a.b']`, relative to the rule's node.

use crate::schema::{Additional, Schema};

/// The path as errors print it, if every step of it is declared.
pub(super) fn normalize(path: &str, schema: &Schema) -> Option<String> {
    let mut out = String::new();
    let mut node = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let (name, tail) = step(rest)?;
        rest = tail;
        if !node.properties.is_empty() {
            node = node.properties.get(&name)?;
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&name);
        } else {
            let Some(Additional::Schema(values)) = &node.additional_properties else {
                return None;
            };
            node = values;
            out.push('[');
            out.push_str(&name);
            out.push(']');
        }
    }
    (!out.is_empty()).then_some(out)
}

/// The first step of a path, and the rest.
fn step(path: &str) -> Option<(String, &str)> {
    if let Some(rest) = path.strip_prefix('.') {
        let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
        return (end > 0).then(|| (rest[..end].to_owned(), &rest[end..]));
    }
    let rest = path.strip_prefix("['")?;
    let mut name = String::new();
    let mut chars = rest.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '\'' => return Some((name, rest[i + 1..].strip_prefix(']')?)),
            '\\' => name.push(match chars.next()?.1 {
                'a' => '\x07',
                'b' => '\x08',
                'f' => '\x0c',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\x0b',
                c @ ('\'' | '\\') => c,
                _ => return None,
            }),
            c => name.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_the_schema() {
        let schema: Schema = serde_json::from_str(
            r#"{"type":"object","properties":{"a":{"type":"object","properties":{"b.c":{"type":"string"}}},
                "m":{"type":"object","additionalProperties":{"type":"string"}}}}"#,
        )
        .unwrap();
        let cases = [
            (".a", Some("a")),
            (".a['b.c']", Some("a.b.c")),
            (".m['k']", Some("m[k]")),
            (".m.k", Some("m[k]")),
            (".x", None),
            ("a", None),
            (".a[0]", None),
            (".a['b", None),
            (".", None),
        ];
        for (path, expect) in cases {
            assert_eq!(normalize(path, &schema).as_deref(), expect, "{path}");
        }
    }
}
