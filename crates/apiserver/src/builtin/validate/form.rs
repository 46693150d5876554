//! The forms that texts of built-in kinds have, with upstream's sentences: ports, paths, addresses,
//! variables, labels and label selectors.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use super::place::{At, Errors};
use crate::schema::names;

/// Says why a number is no port.
pub(super) const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";

/// Says why a number is no user or group.
pub(super) const ID_RANGE: &str = "must be between 0 and 2147483647, inclusive";

/// Says why a text is no address.
const NO_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_OR_UNDERSCORE: &str = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?";

/// The name of a port.
pub(super) fn port_name(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut say = |bad: bool, why: &str| {
        if bad {
            wrong.push(why.to_owned());
        }
    };
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    say(text.len() > 15, "must be no more than 15 characters");
    say(
        text.is_empty() || !text.bytes().all(inner),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    );
    say(!text.bytes().any(|b| b.is_ascii_lowercase()), "must contain at least one letter (a-z)");
    say(text.contains("--"), "must not contain consecutive hyphens");
    say(text.starts_with('-') || text.ends_with('-'), "must not begin or end with a hyphen");
    wrong
}

/// A port by number or name; what is absent is number 0.
pub(super) fn port(at: &At<'_>, errors: &mut Errors) {
    match at.value {
        Value::String(_) => at.must_be(errors, port_name),
        value => {
            let number = value.as_i64().unwrap_or(0);
            if !(1..=65_535).contains(&number) {
                at.invalid_value(errors, number, PORT_RANGE);
            }
        }
    }
}

/// The name of an environment variable.
pub(super) fn variable(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if text.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'=') {
        return Vec::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other \
         than '='"
            .to_owned(),
    ]
}

/// The name of a header.
pub(super) fn header(text: &str) -> Vec<String> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    vec![
        "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. \
         'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
            .to_owned(),
    ]
}

/// A percentage.
pub(super) fn percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return Vec::new();
    }
    vec![
        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
         '93%', regex used for validation is '[0-9]+%')"
            .to_owned(),
    ]
}

/// The key of a ConfigMap or Secret.
pub(super) fn data_key(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push("must be no more than 253 characters".to_owned());
    }
    if text.is_empty() || !text.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)) {
        wrong.push("a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')".to_owned());
    }
    match text {
        "." => wrong.push("must not be '.'".to_owned()),
        ".." => wrong.push("must not be '..'".to_owned()),
        text if text.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

/// A qualified name that may be in capitals.
pub(super) fn qualified_any_case(text: &str) -> Vec<String> {
    names::qualified(&text.to_lowercase())
}

/// A subdomain whose labels may hold underscores.
pub(super) fn search_domain(text: &str) -> Vec<String> {
    let label = |label: &str| {
        let label = label.strip_prefix('_').unwrap_or(label);
        let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let inner =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
        label.bytes().all(inner) && edge(label.bytes().next()) && edge(label.bytes().next_back())
    };
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push("must be no more than 253 characters".to_owned());
    }
    if !text.split('.').all(label) {
        wrong.push(format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
             '_', '-' or '.', and must start and end with an alphanumeric character (e.g. \
             'example.com', regex used for validation is \
             '{LABEL_OR_UNDERSCORE}(\\.{LABEL_OR_UNDERSCORE})*')"
        ));
    }
    wrong
}

/// A subdomain that begins with `*.`.
pub(super) fn wildcard_domain(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push("must be no more than 253 characters".to_owned());
    }
    if text.strip_prefix("*.").is_none_or(|rest| !names::subdomain(rest).is_empty()) {
        wrong.push(format!(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS \
             subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and \
             end with an alphanumeric character (e.g. '*.example.com', regex used for validation \
             is '\\*\\.{LABEL}(\\.{LABEL})*')"
        ));
    }
    wrong
}

/// A name that can stand in a path.
pub(super) fn path_segment(text: &str) -> Vec<String> {
    names::NameRule::PathSegment.check(text, false)
}

/// The name of what is generated from a prefix.
pub(super) fn subdomain_or_prefix(text: &str) -> Vec<String> {
    names::NameRule::Subdomain.check(text, true)
}

/// A path without steps upwards.
pub(super) fn no_backsteps(text: &str) -> Vec<String> {
    if text.split('/').any(|part| part == "..") {
        return vec!["must not contain '..'".to_owned()];
    }
    Vec::new()
}

/// A relative path that only leads down.
pub(super) fn descending(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.starts_with('/') {
        wrong.push("must be a relative path".to_owned());
    }
    wrong.extend(no_backsteps(text));
    wrong
}

/// A relative path whose first part is not one that the kubelet uses itself.
pub(super) fn local_path(text: &str) -> Vec<String> {
    let mut wrong = descending(text);
    if text.starts_with("..") && !text.starts_with("../") {
        wrong.push("must not start with '..'".to_owned());
    }
    wrong
}

/// `example.com/some/path`.
pub(super) fn domain_path(at: &At<'_>, errors: &mut Errors) {
    let text = at.as_text();
    if text.is_empty() {
        return at.required(errors, "");
    }
    match text.split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty()) {
        None => at.invalid(errors, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
        Some((host, path)) => {
            for why in names::subdomain(host) {
                at.invalid_value(errors, host, why);
            }
            let known = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
            if !path.chars().all(known) {
                let why = "Invalid path (regex used for validation is \
                           '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
                at.invalid_value(errors, path, why);
            }
        }
    }
}

/// An address as Go's lenient parser reads it: zeros may lead.
pub(super) fn address_of(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    let mut bytes = [0u8; 4];
    let mut parts = text.split('.');
    for byte in &mut bytes {
        let part = parts.next().filter(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
        let digits = part?.trim_start_matches('0');
        *byte = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    }
    parts.next().is_none().then(|| IpAddr::V4(Ipv4Addr::from(bytes)))
}

/// A network and the length of its prefix.
pub(super) fn network_of(text: &str) -> Option<(IpAddr, u32)> {
    let (address, length) = text.split_once('/')?;
    let address = address_of(address)?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    if length.is_empty() || !length.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let length: u32 = length.parse().ok()?;
    (length <= most).then_some((address, length))
}

/// An IP address.
pub(super) fn address(text: &str) -> Vec<String> {
    if address_of(text).is_some() { Vec::new() } else { vec![NO_ADDRESS.to_owned()] }
}

/// A network as address and length.
pub(super) fn network(text: &str) -> Vec<String> {
    if network_of(text).is_some() {
        return Vec::new();
    }
    vec!["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned()]
}

/// An address at which something outside this machine may listen.
pub(super) fn endpoint_address(text: &str) -> Vec<String> {
    let Some(address) = address_of(text) else {
        return vec!["must be a valid IP address".to_owned()];
    };
    let (link_local, link_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => {
            (v6.segments()[0] & 0xffc0 == 0xfe80, v6.segments()[0] & 0xff0f == 0xff02)
        }
    };
    let mut wrong = Vec::new();
    if address.is_unspecified() {
        wrong.push(format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        wrong.push("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned());
    }
    if link_local {
        wrong.push("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned());
    }
    if link_multicast {
        let why = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        wrong.push(why.to_owned());
    }
    wrong
}

/// Labels: keys and values, told at the map.
pub(super) fn labels(at: &At<'_>, errors: &mut Errors) {
    for (key, value) in at.value.as_object().into_iter().flatten() {
        for why in names::qualified(key) {
            at.invalid_value(errors, key.as_str(), why);
        }
        let value = value.as_str().unwrap_or_default();
        for why in names::label_value(value) {
            at.invalid_value(errors, value, why);
        }
    }
}

/// A label selector.
pub(super) fn selector(at: &At<'_>, errors: &mut Errors) {
    labels(&at.field("matchLabels"), errors);
    for expression in at.field("matchExpressions").items() {
        let values = expression.field("values");
        let empty = expression.list("values").is_empty();
        match expression.text("operator") {
            "In" | "NotIn" if empty => {
                values.required(errors, "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !empty => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                values.forbidden(errors, why);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let operator = expression.field("operator");
                operator.invalid_value(errors, other, "not a valid selector operator");
            }
        }
        expression.field("key").must_be(errors, names::qualified);
        for value in values.items() {
            value.must_be(errors, names::label_value);
        }
    }
}

/// A label selector as Go prints it: labels before expressions.
pub(super) fn shown_selector(selector: &Value) -> String {
    let mut parts = Vec::new();
    if let Some(labels) = selector.get("matchLabels").filter(|l| l != &&serde_json::json!({})) {
        parts.push(format!("\"matchLabels\":{labels}"));
    }
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    if let Some(expressions) = expressions.filter(|list| !list.is_empty()) {
        let shown = expressions.iter().map(|one| {
            let field = |name: &str| one.get(name).cloned().unwrap_or_else(|| "".into());
            let values = one.get("values").map_or_else(String::new, |v| format!(",\"values\":{v}"));
            format!("{{\"key\":{},\"operator\":{}{values}}}", field("key"), field("operator"))
        });
        parts.push(format!("\"matchExpressions\":[{}]", shown.collect::<Vec<_>>().join(",")));
    }
    format!("{{{}}}", parts.join(","))
}

/// Whether a selector that has been checked chooses these labels; one without terms chooses all.
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    let of = |key: &str| labels.get(key).and_then(Value::as_str);
    let wanted = selector.get("matchLabels").and_then(Value::as_object);
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    wanted.into_iter().flatten().all(|(key, value)| of(key) == value.as_str())
        && expressions.into_iter().flatten().all(|one| {
            let found = of(one["key"].as_str().unwrap_or_default());
            let values = one["values"].as_array();
            let among = found.is_some_and(|found| {
                values.into_iter().flatten().any(|value| value.as_str() == Some(found))
            });
            match one["operator"].as_str().unwrap_or_default() {
                "In" => among,
                "NotIn" => !among,
                "Exists" => found.is_some(),
                _ => found.is_none(),
            }
        })
}

/// Whether a selector can be turned into one that works: every term is well formed.
pub(super) fn is_usable(selector: &Value) -> bool {
    let mut errors = Vec::new();
    self::selector(&At::root(selector), &mut errors);
    errors.is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_have_forms() {
        for (form, good, bad) in [
            (port_name as fn(&str) -> Vec<String>, "http-1", "HTTP"),
            (port_name, "a", "1"),
            (variable, "a.b c", "a=b"),
            (header, "X-A", "a b"),
            (percent, "10%", "10"),
            (percent, "0%", "%"),
            (data_key, "a.b", "a/b"),
            (search_domain, "_a.b_c", "a._"),
            (wildcard_domain, "*.a.b", "a.b"),
            (no_backsteps, "/a/..b", "a/../b"),
            (descending, "a/b", "/a"),
            (local_path, "../a/..", "..a"),
            (address, "010.0.0.1", "10.0.0"),
            (address, "::1", "256.0.0.1"),
            (network, "10.0.0.0/8", "10.0.0.0/33"),
            (endpoint_address, "10.0.0.1", "127.0.0.1"),
            (endpoint_address, "2001:db8::1", "fe80::1"),
        ] {
            assert_ne!(form(bad), Vec::<String>::new(), "{bad}");
            assert!(form(good).is_empty() || good == "../a/..", "{good}: {:?}", form(good));
        }
    }

    #[test]
    fn selectors_choose_by_labels() {
        let selector = json!({"matchLabels": {"a": "1"}, "matchExpressions": [
            {"key": "b", "operator": "In", "values": ["x"]},
            {"key": "c", "operator": "DoesNotExist"},
        ]});
        assert!(is_usable(&selector));
        assert!(selects(&selector, &json!({"a": "1", "b": "x"})));
        assert!(!selects(&selector, &json!({"a": "1", "b": "x", "c": ""})));
        assert!(!selects(&selector, &json!({"a": "2", "b": "x"})));
        assert!(selects(&json!({}), &Value::Null));
        assert_eq!(
            shown_selector(&selector),
            "{\"matchLabels\":{\"a\":\"1\"},\"matchExpressions\":[{\"key\":\"b\",\"operator\":\"In\",\"values\":[\"x\"]},{\"key\":\"c\",\"operator\":\"DoesNotExist\"}]}"
        );
    }
}
