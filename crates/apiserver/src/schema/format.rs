//! `format`: the string formats that a custom resource's schema checks.
//!
//! The list and each rule are those of kube-apiserver 1.35; a format that is not on it means
//! nothing. E-mail addresses and request URIs are judged by their shape, not by Go's full grammars.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

/// The check of a format that is known and validated; dashes in the name do not matter.
pub fn check(name: &str) -> Option<fn(&str) -> bool> {
    let name = name.replace('-', "");
    CHECKS.iter().find(|(known, _)| *known == name).map(|(_, check)| *check)
}

type Check = fn(&str) -> bool;

const CHECKS: [(&str, Check); 26] = [
    ("bsonobjectid", |s| s.len() == 24 && s.bytes().all(|b| b.is_ascii_hexdigit())),
    ("uri", is_request_uri),
    ("email", is_email),
    ("hostname", is_hostname),
    ("ipv4", is_ipv4),
    ("ipv6", |s| s.contains(':') && s.parse::<Ipv6Addr>().is_ok()),
    ("cidr", is_cidr),
    ("mac", is_mac),
    ("uuid", |s| UUID.is_match(s)),
    ("uuid3", |s| UUID3.is_match(s)),
    ("uuid4", |s| UUID4.is_match(s)),
    ("uuid5", |s| UUID5.is_match(s)),
    ("isbn", |s| is_isbn10(s) || is_isbn13(s)),
    ("isbn10", is_isbn10),
    ("isbn13", is_isbn13),
    ("creditcard", is_credit_card),
    ("ssn", |s| SSN.is_match(s)),
    ("hexcolor", |s| HEX_COLOR.is_match(s)),
    ("rgbcolor", |s| RGB_COLOR.is_match(s)),
    ("byte", |s| BASE64.is_match(s)),
    ("password", |_| true),
    ("date", is_date),
    ("duration", is_duration),
    ("datetime", is_date_time),
    ("k8sshortname", |s| s.len() <= 63 && SHORT_NAME.is_match(s)),
    ("k8slongname", |s| s.len() <= 253 && LONG_NAME.is_match(s)),
];

macro_rules! patterns {
    ($($name:ident = $pattern:expr;)*) => {$(
        #[allow(clippy::unwrap_used, reason = "a constant that the tests compile")]
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($pattern).unwrap());
    )*};
}

patterns! {
    UUID = r"(?i-u)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID3 = r"(?i-u)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID4 = r"(?i-u)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    UUID5 = r"(?i-u)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    SSN = r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$";
    HEX_COLOR = r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
    RGB_COLOR = r"^rgb\([\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*,[\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*,[\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*\)$";
    BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$";
    CREDIT_CARD = r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$";
    HOSTNAME = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
    TIME = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
    GO_DURATION = r"^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";
    LOOSE_DURATION = r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)";
    SHORT_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
    LONG_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
    SCHEME = r"^[a-zA-Z][a-zA-Z0-9+.\-]*:";
    EMAIL = r#"^(?:[^<>"]*|"[^"]*")\s*(?:<([^<>]*)>)$"#;
    ADDRESS = r#"^(?:[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\x{80}-\x{10ffff}]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\x{80}-\x{10ffff}]+)*|"(?:[^"\\\x00-\x1f]|\\.)+")@(?:[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\x{80}-\x{10ffff}]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\x{80}-\x{10ffff}]+)*|\[[0-9A-Fa-f.:]+\])$"#;
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|part| part.len() <= 63) && HOSTNAME.is_match(text)
}

fn is_email(text: &str) -> bool {
    let text = text.trim();
    match EMAIL.captures(text).and_then(|found| found.get(1)) {
        Some(address) => ADDRESS.is_match(address.as_str().trim()),
        None => ADDRESS.is_match(text),
    }
}

/// An absolute path or a URI with a scheme, without control characters and broken escapes.
fn is_request_uri(text: &str) -> bool {
    let plain = !text.chars().any(|c| c.is_ascii_control());
    let rest = match SCHEME.find(text) {
        Some(scheme) => text.get(scheme.end()..).unwrap_or_default(),
        None if text.starts_with('/') => text,
        None => return text == "*",
    };
    let Some(authority) = rest.strip_prefix("//") else {
        // What follows a scheme is either rooted or opaque; a query alone is neither.
        return plain && escapes_hold(rest);
    };
    let end = authority.find(['/', '?']).unwrap_or(authority.len());
    let (authority, path) = authority.split_at(end);
    let host = authority.rsplit('@').next().unwrap_or_default();
    let odd = |c: char| matches!(c, ' ' | '<' | '>' | '"' | '\\' | '^' | '`' | '{' | '|' | '}');
    let port = host.rsplit_once(':').filter(|_| !host.ends_with(']')).map(|(_, port)| port);
    plain
        && !host.contains(odd)
        && port.is_none_or(|port| port.bytes().all(|b| b.is_ascii_digit()))
        && escapes_hold(path.split('?').next().unwrap_or_default())
}

fn escapes_hold(text: &str) -> bool {
    text.split('%')
        .skip(1)
        .all(|after| after.len() >= 2 && after.bytes().take(2).all(|byte| byte.is_ascii_hexdigit()))
}

/// Dotted decimals, leading zeros tolerated; or an IPv6 address that ends in such.
fn is_ipv4(text: &str) -> bool {
    sloppy_v4(text).is_some() || (text.contains('.') && text.parse::<Ipv6Addr>().is_ok())
}

fn sloppy_v4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        *octet = part.parse().ok().filter(|_| digits)?;
    }
    parts.next().is_none().then_some(Ipv4Addr::from(octets))
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let most = if sloppy_v4(address).is_some() {
        32
    } else if address.parse::<Ipv6Addr>().is_ok() {
        128
    } else {
        return false;
    };
    let digits = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
    digits && bits.parse::<u32>().is_ok_and(|bits| bits <= most)
}

/// 6, 8 or 20 bytes, in pairs by `:` or `-` or in fours by `.`.
fn is_mac(text: &str) -> bool {
    let groups = |separator: char, width: usize, counts: [usize; 3]| {
        let parts: Vec<_> = text.split(separator).take(21).collect();
        let hex = |part: &&str| part.len() == width && part.bytes().all(|b| b.is_ascii_hexdigit());
        counts.contains(&parts.len()) && parts.iter().all(hex)
    };
    groups(':', 2, [6, 8, 20]) || groups('-', 2, [6, 8, 20]) || groups('.', 4, [3, 4, 10])
}

/// The text without dashes and spaces.
fn bare(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '-' | ' ' | '\t' | '\n' | '\x0c' | '\r')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = bare(text);
    digits.len() == 10
        && digits
            .chars()
            .zip(1..)
            .try_fold(0, |sum, (c, weight)| match c.to_digit(10) {
                Some(digit) => Some(sum + weight * digit),
                None => (c == 'X' && weight == 10).then_some(sum + 100),
            })
            .is_some_and(|sum| sum % 11 == 0)
}

fn is_isbn13(text: &str) -> bool {
    let digits = bare(text);
    digits.len() == 13
        && digits
            .chars()
            .enumerate()
            .try_fold(0, |sum, (i, c)| Some(sum + [1, 3][i % 2] * c.to_digit(10)?))
            .is_some_and(|sum| sum % 10 == 0)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let sum: u32 = digits
        .chars()
        .rev()
        .filter_map(|c| c.to_digit(10))
        .enumerate()
        .map(|(i, digit)| if i % 2 == 0 { digit } else { digit * 2 / 10 + digit * 2 % 10 })
        .sum();
    CREDIT_CARD.is_match(&digits) && sum.is_multiple_of(10)
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| {
        let part = text.get(range)?;
        part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse::<u32>().ok())?
    };
    if bytes.len() != 10 || bytes.get(4) != Some(&b'-') || bytes.get(7) != Some(&b'-') {
        return false;
    }
    let (Some(year), Some(month), Some(day)) = (digits(0..4), digits(5..7), digits(8..10)) else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=last).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    let within =
        |found: regex::Captures<'_>| &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59";
    is_date(date) && TIME.captures(time).is_some_and(within)
}

/// Go's durations, and Scala's: any number with a unit anywhere in the text.
fn is_duration(text: &str) -> bool {
    const UNITS: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    let known = |unit: &str| {
        let unit = unit.to_lowercase();
        UNITS.iter().any(|variants| {
            variants.contains(&unit.as_str())
                || variants.last().is_some_and(|long| unit.starts_with(long))
        })
    };
    if GO_DURATION.is_match(text) {
        return true;
    }
    // A capitalised unit counts like a small one; a plural or a longer word by its start.
    let mut found = false;
    for one in LOOSE_DURATION.captures_iter(text) {
        if one[1].parse::<i64>().is_err() {
            return false;
        }
        found |= known(&one[2]);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_upstreams() {
        for (format, good, bad) in [
            ("bsonobjectid", &["507f1f77bcf86cd799439011"][..], &["507f", ""][..]),
            (
                "uri",
                &["http://a.b/c?d", "/a", "a:b", "http://[::1]:80/"],
                &["a", "", "http://a b/"],
            ),
            ("email", &["a@b.c", "A B <a@b>"], &["a", "a@", "@b", "a b@c"]),
            ("hostname", &["a", "a-b.example.com", "1.example"], &["-a", "a..b", ""]),
            ("ipv4", &["1.2.3.4", "010.0.0.1"], &["1.2.3", "1.2.3.256", "::1", "+1.2.3.4"]),
            ("ipv6", &["::1", "fe80::1"], &["1.2.3.4", "g::"]),
            ("cidr", &["10.0.0.0/8", "fd00::/8"], &["10.0.0.0", "10.0.0.0/33", "a/8"]),
            ("mac", &["01:23:45:67:89:ab", "0123.4567.89ab"], &["01:23", "01:23:45:67:89:xx"]),
            ("uuid", &["0F8FAD5B-D9CB-469F-A165-70867728950E"], &["x", ""]),
            (
                "uuid4",
                &["0f8fad5b-d9cb-469f-a165-70867728950e"],
                &["0f8fad5b-d9cb-169f-a165-70867728950e"],
            ),
            ("isbn", &["0321751043", "978-0321751041"], &["0321751040", "1"]),
            ("creditcard", &["4111 1111 1111 1111"], &["4111111111111112"]),
            ("ssn", &["111-22-3333"], &["111-2-3333"]),
            ("hexcolor", &["#FFF", "00ff00"], &["#FFFF"]),
            ("rgbcolor", &["rgb(255, 0,1)"], &["rgb(256,0,0)"]),
            ("byte", &["aGVsbG8=", "aaaa"], &["", "a", "a-b="]),
            ("password", &["", "x"], &[]),
            ("date", &["2024-02-29"], &["2023-02-29", "2023-13-01", "2023-1-01", ""]),
            (
                "date-time",
                &["2024-02-29T12:30:00Z", "2024-02-29t12:30:00.5+01:00"],
                &["2024-02-29", "2024-02-29T24:00:00Z", "2024-02-29T12:30:00"],
            ),
            ("duration", &["1h30m", "-1.5s", "0", "22 ns", "3 days"], &["", "x", "1"]),
            ("k8s-short-name", &["a-b"], &["a.b", "A"]),
            ("k8s-long-name", &["a.b"], &["a..b"]),
        ] {
            let check = check(format).expect(format);
            for text in good {
                assert!(check(text), "{format} admits {text}");
            }
            for text in bad {
                assert!(!check(text), "{format} refuses {text}");
            }
        }
        for unknown in ["int64", "int32", "double", "binary", "foo"] {
            assert!(check(unknown).is_none(), "{unknown}");
        }
    }
}
