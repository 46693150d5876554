//! Values as Go prints them: `%q`, `%v` and `encoding/json`.
//!
//! Clients compare and show these texts, so the escapes and the float forms are Go's. Printability
//! of rare characters follows Rust's Unicode tables, which may be a version apart from Go's.

use std::fmt::Write;

use serde_json::{Number, Value};

/// A string as `%q` prints it.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        push_escaped(&mut out, c, '"');
    }
    out.push('"');
    out
}

/// One character as `%q` prints it, between single quotes.
pub fn quote_char(c: char) -> String {
    let mut out = String::from("'");
    push_escaped(&mut out, c, '\'');
    out.push('\'');
    out
}

fn push_escaped(out: &mut String, c: char, quote: char) {
    match c {
        '\\' => out.push_str("\\\\"),
        '\x07' => out.push_str("\\a"),
        '\x08' => out.push_str("\\b"),
        '\x0c' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\x0b' => out.push_str("\\v"),
        c if c == quote => {
            out.push('\\');
            out.push(c);
        }
        c if printable(c) => out.push(c),
        c => {
            let code = u32::from(c);
            // Writing to a string cannot fail.
            let _ = match code {
                0..=0x7f => write!(out, "\\x{code:02x}"),
                0x80..=0xffff => write!(out, "\\u{code:04x}"),
                _ => write!(out, "\\U{code:08x}"),
            };
        }
    }
}

/// Whether Go's `unicode.IsPrint` holds, near enough.
pub fn printable(c: char) -> bool {
    match c {
        ' '..='~' => true,
        '\0'..='\u{a0}' | '\u{ad}' => false,
        c if c.is_whitespace() => false,
        c => !c.escape_debug().to_string().starts_with("\\u") || is_mark(c),
    }
}

/// A combining mark alone is escaped by Rust but printable in Go; behind a letter both print it.
fn is_mark(c: char) -> bool {
    let pair: String = ['a', c].iter().collect();
    !pair.escape_debug().to_string().contains("\\u")
}

/// A float as `%v` prints it: the shortest digits, with an exponent where its size leaves `-4..6`.
pub fn float(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value.is_nan() {
            "NaN".to_owned()
        } else if value.is_infinite() {
            if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() }
        } else if value.is_sign_negative() {
            "-0".to_owned()
        } else {
            "0".to_owned()
        };
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    format!("{value}")
}

/// A value as `encoding/json` writes it: sorted keys, `<`, `>` and `&` escaped.
pub fn json(value: &Value) -> String {
    let mut out = String::new();
    push_json(&mut out, value);
    out
}

fn push_json(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => out.push_str(&json_number(n)),
        Value::String(s) => push_json_string(out, s),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                push_json(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (i, (key, item)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                push_json_string(out, key);
                out.push(':');
                push_json(out, item);
            }
            out.push('}');
        }
    }
}

fn push_json_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\0'..='\x1f' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn json_number(number: &Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() => {
            let magnitude = value.abs();
            if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
                let text = float(value);
                // JSON drops the exponent's leading zero: 1e-07 is written 1e-7.
                return text.replacen("e-0", "e-", 1);
            }
            format!("{value}")
        }
        _ => number.to_string(),
    }
}

/// A value as `%v` prints it.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(plain).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let entries: Vec<_> =
                entries.into_iter().map(|(key, item)| format!("{key}:{}", plain(item))).collect();
            format!("map[{}]", entries.join(" "))
        }
        scalar => shown(scalar),
    }
}

/// A value as a field error shows it.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(s) => quote(s),
        Value::Number(n) if n.is_f64() => float(n.as_f64().unwrap_or_default()),
        other => json(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_print_as_in_go() {
        for (value, expect) in [
            (json!("a\"b\\c\n\u{7f}\u{a0}é"), r#""a\"b\\c\n\x7f\u00a0é""#),
            (json!("\u{0}\u{1b}\u{200b}"), r#""\x00\x1b\u200b""#),
            (json!(1.5), "1.5"),
            (json!(1e21), "1e+21"),
            (json!(100000.0), "100000"),
            (json!(1000000.0), "1e+06"),
            (json!("\u{301}"), "\"\u{301}\""),
            (json!(1e-5), "1e-05"),
            (json!(7), "7"),
            (json!(true), "true"),
            (json!(null), "null"),
            (json!({"b": [1, "<"], "a": 1.0}), r#"{"a":1,"b":[1,"\u003c"]}"#),
            (json!([1e-7, 1e22]), "[1e-7,1e+22]"),
        ] {
            assert_eq!(shown(&value), expect);
        }
        assert_eq!(
            plain(&json!({"b": [1, null, "x y"], "a": {"c": 1e21}})),
            "map[a:map[c:1e+21] b:[1 <nil> x y]]"
        );
        assert_eq!(quote_char('\''), r"'\''");
        assert_eq!(quote_char('"'), "'\"'");
    }
}
