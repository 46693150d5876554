//! The parts of a CRD's versions that are no schema: subresources, printer columns, selectable
//! fields; and the conversion between versions.

use std::collections::HashSet;

use serde_json::Value;

use super::super::field::{FieldError, FieldPath};
use super::super::names;
use super::super::raw::{self, Raw};

const MAX_SELECTABLE_FIELDS: u64 = 8;
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

pub(super) fn one_of(at: &FieldPath, value: &str, known: &[&str], errors: &mut Vec<FieldError>) {
    if value.is_empty() {
        errors.push(FieldError::required(at.clone(), ""));
    } else if !known.contains(&value) {
        errors.push(FieldError::not_supported(at.clone(), value, known));
    }
}

fn simple_path(at: &FieldPath, path: &str, errors: &mut Vec<FieldError>) -> bool {
    let fine = path.starts_with('.');
    if !fine {
        let detail = "must be a simple json path starting with .";
        errors.push(FieldError::invalid(at.clone(), path, detail));
    }
    fine
}

pub(super) fn subresources(all: Option<&Value>, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(scale) = all.and_then(|all| Raw(all).schema("scale")) else {
        return;
    };
    let at = at.child("scale");
    for (field, under, words, required) in [
        ("specReplicasPath", &[".spec."][..], "should be a json path under .spec", true),
        ("statusReplicasPath", &[".status."], "should be a json path under .status", true),
        (
            "labelSelectorPath",
            &[".spec.", ".status."],
            "should be a json path under either .spec or .status",
            false,
        ),
    ] {
        let (at, path) = (at.child(field), scale.text(field));
        if path.is_empty() {
            if required {
                errors.push(FieldError::required(at, ""));
            }
        } else if simple_path(&at, path, errors)
            && !under.iter().any(|prefix| path.starts_with(prefix))
        {
            errors.push(FieldError::invalid(at, path, words));
        }
    }
}

pub(super) fn columns(columns: Option<&Value>, at: &FieldPath, errors: &mut Vec<FieldError>) {
    for (i, column) in columns.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let (at, column) = (at.index(i), Raw(column));
        if column.text("name").is_empty() {
            errors.push(FieldError::required(at.child("name"), ""));
        }
        let ty = column.text("type");
        let detail = format!("must be one of {}", COLUMN_TYPES.join(","));
        if ty.is_empty() {
            errors.push(FieldError::required(at.child("type"), detail));
        } else if !COLUMN_TYPES.contains(&ty) {
            errors.push(FieldError::invalid(at.child("type"), ty, detail));
        }
        let format = column.text("format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(FieldError::invalid(at.child("format"), format, detail));
        }
        let (at, path) = (at.child("JSONPath"), column.text("jsonPath"));
        if path.is_empty() {
            errors.push(FieldError::required(at, ""));
        } else {
            simple_path(&at, path, errors);
        }
    }
}

pub(super) fn selectable(
    fields: Option<&Value>,
    holder: Option<&Value>,
    at: &FieldPath,
    missing: &str,
    errors: &mut Vec<FieldError>,
) {
    let fields = fields.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if fields.is_empty() {
        return;
    }
    let Some(schema) = holder.and_then(|holder| Raw(holder).schema("openAPIV3Schema")) else {
        return errors.push(FieldError::invalid(at.clone(), "", missing));
    };
    let mut seen = HashSet::new();
    for (i, field) in fields.iter().enumerate() {
        let at = at.index(i).child("jsonPath");
        let path = Raw(field).text("jsonPath");
        if path.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        let mut wrong = |words: &str| {
            errors.push(FieldError::invalid(at.clone(), path, words));
        };
        let (place, found) = match raw::follow(path, schema, false) {
            Ok(found) => found,
            Err(error) => {
                wrong(&format!("is an invalid path: {error}"));
                continue;
            }
        };
        if place.as_str() == "metadata" || place.as_str().starts_with("metadata.") {
            wrong("must not point to fields in metadata");
        }
        if !matches!(found.ty(), "string" | "boolean" | "integer") {
            wrong(
                "must point to a field of type string, boolean or integer. Enum string fields and \
                 strings with formats are allowed.",
            );
        }
        if !seen.insert(place) {
            errors.push(FieldError::duplicate(at, path));
        }
    }
    let count = seen.len() as u64;
    if count > MAX_SELECTABLE_FIELDS {
        errors.push(FieldError::too_many(at.clone(), count, MAX_SELECTABLE_FIELDS));
    }
}

pub(super) fn conversion(conversion: Raw<'_>, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let strategy = conversion.text("strategy");
    one_of(&at.child("strategy"), strategy, &["None", "Webhook"], errors);
    let webhook = conversion.schema("webhook");
    let client = webhook.and_then(|webhook| webhook.schema("clientConfig"));
    let versions: Vec<_> =
        webhook.into_iter().flat_map(|webhook| webhook.texts("conversionReviewVersions")).collect();
    let (client_at, versions_at) =
        (at.child("webhookClientConfig"), at.child("conversionReviewVersions"));
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if client.is_some() {
            errors.push(FieldError::forbidden(client_at, detail));
        }
        if !versions.is_empty() {
            errors.push(FieldError::forbidden(versions_at, detail));
        }
        return;
    }
    let words = match client {
        None => Some("required when strategy is set to Webhook"),
        Some(client) if client.get("url").is_some() == client.get("service").is_some() => {
            Some("exactly one of url or service is required")
        }
        Some(_) => None,
    };
    errors.extend(words.map(|words| FieldError::required(client_at, words)));
    if versions.is_empty() {
        return errors.push(FieldError::required(versions_at, ""));
    }
    for (i, version) in versions.iter().enumerate() {
        let at = versions_at.index(i);
        if versions.iter().take(i).any(|before| before == version) {
            errors.push(FieldError::invalid(at, *version, "duplicate version"));
            continue;
        }
        for words in names::label_1035(version) {
            errors.push(FieldError::invalid(at.clone(), *version, words));
        }
    }
    if !versions.iter().any(|version| matches!(*version, "v1" | "v1beta1")) {
        let detail = "must include at least one of v1, v1beta1";
        errors.push(FieldError::invalid(versions_at, versions, detail));
    }
}
