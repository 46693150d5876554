//! Strings in double quotes, spelled as Go's `%q` spells them: clients compare whole messages.

use std::fmt::Write;

/// `text` in double quotes.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{07}' => quoted.push_str("\\a"),
            '\u{08}' => quoted.push_str("\\b"),
            '\u{0b}' => quoted.push_str("\\v"),
            '\u{0c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            printable if is_printable(printable) => quoted.push(printable),
            other => {
                let code = u32::from(other);
                // Writing to a String cannot fail.
                let _ = match code {
                    0..0x80 => write!(quoted, "\\x{code:02x}"),
                    0x80..0x1_0000 => write!(quoted, "\\u{code:04x}"),
                    _ => write!(quoted, "\\U{code:08x}"),
                };
            }
        }
    }
    quoted.push('"');
    quoted
}

/// `["a" "b"]`
pub(super) fn quote_all<T: AsRef<str>>(texts: &[T]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quote(text.as_ref())).collect();
    format!("[{}]", quoted.join(" "))
}

/// `escape_debug` escapes what is not printable, and a combining character only where it begins the
/// text, hence the letter before it.
fn is_printable(character: char) -> bool {
    match character {
        ' '..='~' => true,
        '\0'..='\x7f' => false,
        other => !String::from_iter(['a', other]).escape_debug().any(|escaped| escaped == '\\'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spells_as_go_does() {
        let check = |text: &str, expect: &str| assert_eq!(quote(text), expect);
        check("", r#""""#);
        check("system:serviceaccount:x:y", r#""system:serviceaccount:x:y""#);
        check("a\"b\\c'd", r#""a\"b\\c'd""#);
        check("\u{7}\u{8}\u{b}\u{c}\n\r\t", r#""\a\b\v\f\n\r\t""#);
        check("\u{0}\u{1b}\u{7f}", r#""\x00\x1b\x7f""#);
        check("é日e\u{301}", "\"é日e\u{301}\"");
        check("\u{a0}\u{200b}\u{e000}\u{10ffff}", r#""\u00a0\u200b\ue000\U0010ffff""#);
        assert_eq!(quote_all(&["a", "b\""]), r#"["a" "b\""]"#);
        assert_eq!(quote_all::<&str>(&[]), "[]");
    }
}
