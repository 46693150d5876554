//! Named formats: `format.dns1123Label().validate(...)` and its siblings.

use std::sync::LazyLock;

use base64::Engine as _;
use regex::Regex;

use super::meter::{Meter, no_overload};
use super::value::{Out, Val};
use super::{time, url};

/// A format that strings may be validated against.
#[derive(Debug)]
pub(super) struct Format {
    /// As `format.named()` knows it.
    pub(super) name: &'static str,
    /// The function that returns it.
    pub(super) function: &'static str,
    /// The length of the regular expression that prices a validation.
    pub(super) regex_size: u64,
    check: fn(&str) -> Vec<String>,
}

macro_rules! format {
    ($name:literal, $size:expr, $check:expr) => {
        Format {
            name: $name,
            function: concat!("format.", $name),
            regex_size: $size,
            check: $check,
        }
    };
}

pub(super) static FORMATS: [Format; 13] = [
    format!("dns1123Label", 30, dns1123_label),
    format!("dns1123Subdomain", 60, dns1123_subdomain),
    format!("dns1035Label", 30, dns1035_label),
    format!("qualifiedName", 60, qualified_name),
    format!("dns1123LabelPrefix", 30, |s| dns1123_label(&mask_dash(s))),
    format!("dns1123SubdomainPrefix", 60, |s| dns1123_subdomain(&mask_dash(s))),
    format!("dns1035LabelPrefix", 30, |s| dns1035_label(&mask_dash(s))),
    format!("labelValue", 40, label_value),
    format!("uri", 1103, |s| url::problem(s).into_iter().collect()),
    format!("uuid", 70, |s| one(uuid(s), "does not match the UUID format")),
    format!("byte", 84, |s| one(
        base64::engine::general_purpose::STANDARD.decode(s).is_ok(),
        "invalid base64"
    )),
    format!("date", 71, |s| one(time::parse_date(s).is_some(), "invalid date")),
    format!("datetime", 71, |s| one(time::parse_date_time(s).is_some(), "invalid datetime")),
];

fn one(holds: bool, complaint: &str) -> Vec<String> {
    if holds { Vec::new() } else { vec![complaint.to_owned()] }
}

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";

fn is_label(s: &str, first: fn(u8) -> bool) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = s.as_bytes();
    bytes.first().is_some_and(|b| first(*b))
        && bytes.last().is_some_and(|b| inner(*b))
        && bytes.iter().all(|b| inner(*b) || *b == b'-')
}

fn is_dns_label(s: &str) -> bool {
    is_label(s, |b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

fn is_subdomain(s: &str) -> bool {
    s.split('.').all(is_dns_label)
}

fn too_long(s: &str, most: usize) -> Option<String> {
    (s.len() > most).then(|| std::format!("must be no more than {most} characters"))
}

fn shape(message: &str, regex: &str, examples: &str) -> String {
    std::format!("{message} (e.g. {examples}, regex used for validation is '{regex}')")
}

fn dns1123_label(s: &str) -> Vec<String> {
    let mut out: Vec<String> = too_long(s, 63).into_iter().collect();
    if !is_dns_label(s) {
        out.push(match is_subdomain(s) {
            true => "must not contain dots".to_owned(),
            false => shape(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL,
                "'my-name',  or '123-abc'",
            ),
        });
    }
    out
}

fn subdomain_shape() -> String {
    shape(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
        SUBDOMAIN,
        "'example.com'",
    )
}

fn dns1123_subdomain(s: &str) -> Vec<String> {
    let mut out: Vec<String> = too_long(s, 253).into_iter().collect();
    if !is_subdomain(s) {
        out.push(subdomain_shape());
    }
    out
}

fn dns1035_label(s: &str) -> Vec<String> {
    let mut out: Vec<String> = too_long(s, 63).into_iter().collect();
    if !is_label(s, |b| b.is_ascii_lowercase()) {
        out.push(shape(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            "'my-name',  or 'abc-123'",
        ));
    }
    out
}

/// Letters, digits, `-`, `_` and `.`, of which the last three stand only inside.
fn is_name(s: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = s.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

const NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

fn qualified_name(s: &str) -> Vec<String> {
    let named = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let examples = "'MyName',  or 'my.name',  or '123-abc'";
    let parts: Vec<&str> = s.split('/').collect();
    let mut out = Vec::new();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                out.push("prefix part must be non-empty".to_owned());
            } else {
                out.extend(
                    dns1123_subdomain(prefix).iter().map(|e| std::format!("prefix part {e}")),
                );
            }
            name
        }
        _ => {
            let message = std::format!("a qualified name {named}");
            let whole = shape(&message, NAME, examples);
            return vec![std::format!(
                "{whole} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        out.push("name part must be non-empty".to_owned());
    } else if let Some(long) = too_long(name, 63) {
        out.push(std::format!("name part {long}"));
    }
    if !is_name(name) {
        out.push(std::format!("name part {}", shape(named, NAME, examples)));
    }
    out
}

fn label_value(s: &str) -> Vec<String> {
    let mut out: Vec<String> = too_long(s, 63).into_iter().collect();
    if !s.is_empty() && !is_name(s) {
        out.push(shape(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            "'MyValue',  or 'my_value',  or '12345'",
        ));
    }
    out
}

/// A prefix may end in a dash, because something follows it.
fn mask_dash(s: &str) -> String {
    match s.strip_suffix('-') {
        Some(rest) if s.len() > 1 => {
            let kept: String = {
                let mut chars = rest.chars();
                chars.next_back();
                chars.collect()
            };
            kept + "a"
        }
        _ => s.to_owned(),
    }
}

fn uuid(s: &str) -> bool {
    static UUID: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$").ok()
    });
    UUID.as_ref().is_some_and(|r| r.is_match(s))
}

pub(super) fn named<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Str(s)] => {
            Ok(Val::optional(FORMATS.iter().find(|f| *f.name == **s).map(Val::Format)))
        }
        _ => no_overload(),
    }
}

pub(super) fn validate<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    let [Val::Format(format), Val::Str(s)] = args else { return no_overload() };
    let complaints = (format.check)(s);
    if complaints.is_empty() {
        return Ok(Val::Optional(None));
    }
    Ok(Val::optional(Some(Val::list(complaints.into_iter().map(Val::string).collect()))))
}
