//! What may be a name: the rules for objects, labels and API kinds, with upstream's long sentences.

/// The rule that an object's name follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain: most kinds.
    Subdomain,
    /// RFC 1123 label: namespaces.
    Label,
    /// RFC 1035 label: services.
    Label1035,
    /// Anything that can stand in a path: RBAC kinds.
    PathSegment,
}

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

impl NameRule {
    /// What is wrong with a name; a prefix may end in a dash.
    pub fn check(self, name: &str, is_prefix: bool) -> Vec<String> {
        let cut;
        let mut name = name;
        if is_prefix && self != Self::PathSegment && name.len() > 1 && name.ends_with('-') {
            let mut chars = name.chars();
            chars.next_back();
            chars.next_back();
            cut = format!("{}a", chars.as_str());
            name = &cut;
        }
        match self {
            Self::Subdomain => subdomain(name),
            Self::Label => label(name),
            Self::Label1035 => label_1035(name),
            Self::PathSegment => path_segment(name, is_prefix),
        }
    }
}

/// What keeps a text from being an RFC 1123 subdomain.
pub fn subdomain(text: &str) -> Vec<String> {
    subdomain_of(text, "characters")
}

fn subdomain_of(text: &str, unit: &str) -> Vec<String> {
    let mut errors = too_long(text, 253, unit);
    if !is_subdomain(text) {
        errors.push(format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
             '-' or '.', and must start and end with an alphanumeric character (e.g. \
             'example.com', regex used for validation is '{LABEL}(\\.{LABEL})*')"
        ));
    }
    errors
}

/// What keeps a text from being an RFC 1123 label.
pub fn label(text: &str) -> Vec<String> {
    let mut errors = too_long(text, 63, "characters");
    if !is_label(text) {
        errors.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            format!(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or \
                 '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or \
                 '123-abc', regex used for validation is '{LABEL}')"
            )
        });
    }
    errors
}

/// What keeps a text from being an RFC 1035 label.
pub fn label_1035(text: &str) -> Vec<String> {
    let mut errors = too_long(text, 63, "characters");
    if !is_label(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        errors.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
             with an alphabetic character, and end with an alphanumeric character (e.g. \
             'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    errors
}

fn path_segment(text: &str, is_prefix: bool) -> Vec<String> {
    if !is_prefix && matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    let within = |c: &&str| text.contains(*c);
    ["/", "%"].iter().filter(|c| within(c)).map(|c| format!("may not contain '{c}'")).collect()
}

/// What keeps a text from being a label or annotation key, or a finalizer.
pub fn qualified(text: &str) -> Vec<String> {
    let sentence = format!(
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
         alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
         validation is '{KEY}')"
    );
    let mut errors = Vec::new();
    let mut parts = text.splitn(3, '/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                let wrong = subdomain_of(prefix, "bytes");
                errors.extend(wrong.into_iter().map(|error| format!("prefix part {error}")));
            }
            name
        }
        (Some(name), None, None) => name,
        _ => {
            return vec![format!(
                "a valid label key {sentence} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    }
    let long = too_long(name, 63, "bytes");
    errors.extend(long.into_iter().map(|error| format!("name part {error}")));
    if !is_key(name) {
        errors.push(format!("name part {sentence}"));
    }
    errors
}

/// What keeps a text from being a label's value.
pub fn label_value(text: &str) -> Vec<String> {
    let mut errors = too_long(text, 63, "bytes");
    if !text.is_empty() && !is_key(text) {
        errors.push(format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
             or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
             'my_value',  or '12345', regex used for validation is '({KEY})?')"
        ));
    }
    errors
}

fn too_long(text: &str, limit: usize, unit: &str) -> Vec<String> {
    if text.len() > limit { vec![format!("must be no more than {limit} {unit}")] } else { vec![] }
}

fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_key(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    text.bytes().all(inner) && edge(bytes.first()) && edge(bytes.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_their_rules() {
        let long = "a".repeat(254);
        for (rule, name, prefix, wrong) in [
            (NameRule::Subdomain, "a.b-c.1", false, 0),
            (NameRule::Subdomain, "a..b", false, 1),
            (NameRule::Subdomain, "A", false, 1),
            (NameRule::Subdomain, "", false, 1),
            (NameRule::Subdomain, &long, false, 1),
            (NameRule::Subdomain, "abc-", true, 0),
            (NameRule::Subdomain, "abc-", false, 1),
            (NameRule::Subdomain, "-", true, 1),
            (NameRule::Subdomain, "é-", true, 0),
            (NameRule::Label, "a.b", false, 1),
            (NameRule::Label, "1-a", false, 0),
            (NameRule::Label1035, "1a", false, 1),
            (NameRule::Label1035, "a1", false, 0),
            (NameRule::PathSegment, "system:Foo", false, 0),
            (NameRule::PathSegment, "..", false, 1),
            (NameRule::PathSegment, "..", true, 0),
            (NameRule::PathSegment, "a/b%c", false, 2),
        ] {
            assert_eq!(rule.check(name, prefix).len(), wrong, "{rule:?} {name}");
        }
        assert_eq!(label("a.b"), ["must not contain dots"]);
        assert_eq!(subdomain(&long), ["must be no more than 253 characters"]);
    }

    #[test]
    fn keys_and_values_follow_theirs() {
        for (key, first) in [
            ("a", ""),
            ("example.com/A_b.c", ""),
            ("/a", "prefix part must be non-empty"),
            ("a/", "name part must be non-empty"),
            ("A/b", "prefix part a lowercase RFC 1123 subdomain must consist"),
            ("a/b/c", "a valid label key must consist of alphanumeric"),
            ("a b", "name part must consist of alphanumeric"),
            (&"a".repeat(64), "name part must be no more than 63 bytes"),
        ] {
            let errors = qualified(key);
            let found = errors.first().map_or("", String::as_str);
            assert!(
                found.starts_with(first) && found.is_empty() == first.is_empty(),
                "{key}: {found}"
            );
        }
        assert!(label_value("").is_empty());
        assert_eq!(label_value("-a").len(), 1);
        assert_eq!(label_value(&"a".repeat(64)), ["must be no more than 63 bytes"]);
    }
}
