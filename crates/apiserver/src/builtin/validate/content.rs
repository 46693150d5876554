//! ConfigMaps and Secrets: keys, size, immutability, and the keys that a Secret's type asks for;
//! with them leases and the finalizers of namespaces.

use serde_json::{Map, Value};

use super::form;
use super::place::{At, Errors};
use crate::schema::field::{ErrorKind, FieldError, FieldPath};

/// The most that the values of a ConfigMap or Secret may hold, in bytes.
const MAX_BYTES: usize = 1024 * 1024;

/// The keys that a Secret of a type must have.
const SECRET_KEYS: &[(&str, &[&str])] = &[
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
];

/// A ConfigMap.
pub(super) fn config_map(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    errors.extend(immutable(old, at.value, &["data", "binaryData"]));
    errors.extend(data(at.value, &["data", "binaryData"]));
}

/// A Secret.
pub(super) fn secret(old: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    errors.extend(immutable(old, at.value, &["data"]));
    errors.extend(secret_type(old, at.value));
    errors.extend(data(at.value, &["data"]));
}

/// A namespace.
pub(super) fn namespace(_: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let finalizers = &at.value["spec"]["finalizers"];
    errors.extend(standard_finalizers(finalizers, &field("spec").child("finalizers")));
}

/// A lease.
pub(super) fn lease(_: Option<&Value>, at: &At<'_>, errors: &mut Errors) {
    let new = at.value;
    let bounds = [
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ];
    for (name, least, why) in bounds {
        if let Some(number) = new["spec"][name].as_i64().filter(|n| *n < least) {
            errors.push(FieldError::invalid(field("spec").child(name), number, why));
        }
    }
}

/// Finalizers of core kinds are standard ones, or have a domain in front.
pub(crate) fn standard_finalizers(finalizers: &Value, at: &FieldPath) -> Vec<FieldError> {
    const STANDARD: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];
    let names = finalizers.as_array().into_iter().flatten().filter_map(Value::as_str);
    names
        .enumerate()
        .filter(|(_, name)| !name.contains('/') && !STANDARD.contains(name))
        .map(|(n, name)| {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            FieldError::invalid(at.index(n), name, why)
        })
        .collect()
}

fn field(name: &str) -> FieldPath {
    FieldPath::root().child(name)
}

fn map<'a>(object: &'a Value, name: &str) -> Option<&'a Map<String, Value>> {
    object.get(name).and_then(Value::as_object)
}

/// Keys must be file names, be there once, and not hold too much.
fn data(object: &Value, fields: &[&str]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut bytes = 0;
    for name in fields {
        for (key, value) in map(object, name).into_iter().flatten() {
            let at = field(name).key(key);
            errors.extend(
                form::data_key(key)
                    .into_iter()
                    .map(|why| FieldError::invalid(at.clone(), &**key, why)),
            );
            let twice = |other: &&&str| {
                *other != name && map(object, other).is_some_and(|m| m.contains_key(key))
            };
            // Told once, at the first of the two.
            if let Some(other) = fields.iter().find(twice).filter(|_| *name == fields[0]) {
                errors.push(FieldError::invalid(
                    at,
                    &**key,
                    format!("duplicate of key present in {other}"),
                ));
            }
            let text = value.as_str().unwrap_or_default();
            // What is base64 here counts by what it stands for.
            let encoded = *name == "binaryData" || fields.len() == 1;
            bytes += if encoded { text.trim_end_matches('=').len() * 3 / 4 } else { text.len() };
        }
    }
    if bytes > MAX_BYTES {
        // Upstream has no name for the two fields together.
        let at = if fields.len() == 1 { field("data") } else { FieldPath::root().key("") };
        errors.push(FieldError::too_long(at, MAX_BYTES as u64));
    }
    errors
}

/// Once `immutable` is set, neither it nor the data changes.
fn immutable(old: Option<&Value>, new: &Value, fields: &[&str]) -> Vec<FieldError> {
    let Some(old) = old.filter(|old| old["immutable"] == true) else { return Vec::new() };
    let why = "field is immutable when `immutable` is set";
    let mut errors = Vec::new();
    if new["immutable"] != true {
        errors.push(FieldError::forbidden(field("immutable"), why));
    }
    for name in fields.iter().filter(|name| old.get(**name) != new.get(**name)) {
        errors.push(FieldError::forbidden(field(name), why));
    }
    errors
}

fn secret_type(old: Option<&Value>, new: &Value) -> Vec<FieldError> {
    let kind = |secret: &Value| secret["type"].as_str().unwrap_or("Opaque").to_owned();
    let mut errors = Vec::new();
    if old.is_some_and(|old| kind(old) != kind(new)) {
        errors.push(FieldError::invalid(field("type"), kind(new), "field is immutable"));
    }
    let basic = ["username", "password"];
    if kind(new) == "kubernetes.io/basic-auth"
        && !basic.iter().any(|key| map(new, "data").is_some_and(|d| d.contains_key(*key)))
    {
        let missing = |key| FieldError::new(ErrorKind::Required, field("data").key(key), None, "");
        errors.extend(basic.map(missing));
    }
    let keys = SECRET_KEYS.iter().find(|(name, _)| *name == kind(new)).map_or(&[][..], |(_, k)| k);
    if kind(new) == "kubernetes.io/service-account-token" {
        const ACCOUNT: &str = "kubernetes.io/service-account.name";
        let account = new["metadata"]["annotations"][ACCOUNT].as_str().unwrap_or_default();
        if account.is_empty() {
            let at = field("metadata").child("annotations").key(ACCOUNT);
            errors.push(FieldError::required(at, ""));
        }
    }
    errors.extend(docker_json(&kind(new), new));
    for key in keys.iter().filter(|key| !map(new, "data").is_some_and(|d| d.contains_key(**key))) {
        errors.push(FieldError::new(ErrorKind::Required, field("data").key(key), None, ""));
    }
    errors
}

/// What docker is configured with must be JSON.
fn docker_json(kind: &str, new: &Value) -> Option<FieldError> {
    use base64::Engine as _;
    let key = match kind {
        "kubernetes.io/dockercfg" => ".dockercfg",
        "kubernetes.io/dockerconfigjson" => ".dockerconfigjson",
        _ => return None,
    };
    let text = map(new, "data")?.get(key)?.as_str()?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
    let why = crate::decode::json(&bytes).err()?.to_string();
    let at = field("data").key(key);
    Some(FieldError::invalid(at, "<secret contents redacted>", why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(errors: &[FieldError], want: &[&str]) {
        let got: Vec<String> = errors.iter().map(|e| e.path.to_string()).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn keys_are_file_names_and_there_once() {
        let object = json!({"data": {"ok.x": "", "..": "", "a b": ""}, "binaryData": {"ok.x": ""}});
        let errors = data(&object, &["data", "binaryData"]);
        check(&errors, &["data[..]", "data[a b]", "data[ok.x]"]);
        let large = json!({"data": {"k": "x".repeat(MAX_BYTES + 1)}});
        assert_eq!(data(&large, &["data", "binaryData"])[0].kind, ErrorKind::TooLong);
    }

    #[test]
    fn what_is_immutable_stays() {
        let old = json!({"immutable": true, "data": {"k": "v"}});
        check(&immutable(Some(&old), &old, &["data"]), &[]);
        check(&immutable(Some(&old), &json!({"data": {}}), &["data"]), &["immutable", "data"]);
    }

    #[test]
    fn a_secrets_type_asks_for_keys_and_stays() {
        let tls = json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}});
        check(&secret_type(None, &tls), &["data[tls.key]"]);
        check(&secret_type(Some(&json!({})), &tls), &["type", "data[tls.key]"]);
    }
}
