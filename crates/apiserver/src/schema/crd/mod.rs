//! A CustomResourceDefinition as a whole: what may be created, and what an update may change.
//!
//! The CRD is the JSON of `apiextensions.k8s.io/v1`, with [`fill_defaults`] applied. Upstream judges
//! an older form of it, so what all versions share is reported at the top: `spec.validation` rather
//! than `spec.versions[0].schema`. CEL expressions are compiled by what the caller gives along. An update assumes that the stored CRD was valid when it was written, so
//! there is no ratcheting. Webhook conversion is judged as upstream does; serving it is another
//! matter. Wrongly typed fields, which upstream refuses on reading, are told as one error each.

pub(crate) mod approval;
mod parts;

use std::collections::HashSet;

use serde_json::{Value, json};

use super::field::{FieldError, FieldPath};
use super::raw::Raw;
use super::{Schema, default_check, metadata, names, openapi, print, structural};

/// Fills in what a CRD leaves out: names, conversion and the stored versions.
pub fn fill_defaults(crd: &mut Value) {
    let spec = Raw(crd.get("spec").unwrap_or(&Value::Null));
    let names = spec.schema("names").unwrap_or(Raw(&Value::Null));
    let kind = names.text("kind");
    let storage = spec.list("versions").iter().find(|one| Raw(one).flag("storage"));
    let stored: Vec<_> = storage.map(|one| Raw(one).text("name").to_owned()).into_iter().collect();
    let (singular, list_kind) = (kind.to_lowercase(), format!("{kind}List"));
    let (kind, no_conversion) = (kind.to_owned(), spec.get("conversion").is_none());
    if let Some(Value::Object(spec)) = crd.get_mut("spec") {
        if let Some(Value::Object(names)) = spec.get_mut("names")
            && !kind.is_empty()
        {
            for (field, value) in [("singular", singular), ("listKind", list_kind)] {
                let old = names.entry(field).or_insert_with(|| "".into());
                if old.as_str().is_none_or(str::is_empty) {
                    *old = value.into();
                }
            }
        }
        if no_conversion {
            spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
        }
    }
    let Value::Object(crd) = crd else {
        return;
    };
    let status = crd.entry("status").or_insert_with(|| json!({}));
    if let Value::Object(status) = status
        && !Raw(&Value::Object(status.clone())).has("storedVersions")
        && !stored.is_empty()
    {
        status.insert("storedVersions".to_owned(), stored.into());
    }
}

/// Compiles the CEL rules of a schema that stands at a path, but for those above something that is
/// wrong already, and says what is wrong with them.
pub type CompileRules = fn(&Schema, &FieldPath, &[FieldError]) -> Vec<FieldError>;

/// What is wrong with a new CRD.
pub fn validate(crd: &Value, compile: CompileRules) -> Vec<FieldError> {
    let crd = Raw(crd);
    let null = Value::Null;
    let spec = part(crd, "spec", &null);
    let names = part(spec, "names", &null);
    let required = format!("{}.{}", names.text("plural"), spec.text("group"));
    let rule = |name: &str, is_prefix: bool| {
        let mut errors = names::NameRule::Subdomain.check(name, is_prefix);
        if name != required {
            errors.push("must be spec.names.plural+\".\"+spec.group".to_owned());
        }
        errors
    };
    let meta = crd.get("metadata").unwrap_or(&null);
    let at = FieldPath::root().child("metadata");
    let mut errors = metadata::validate_named(meta, false, rule, &at);
    errors.extend(validate_spec(spec, compile));
    errors.extend(validate_rest(crd, spec, None));
    errors
}

/// What is wrong with a CRD that replaces another, beside its metadata.
pub fn validate_update(new: &Value, old: &Value, compile: CompileRules) -> Vec<FieldError> {
    let (new, old, null) = (Raw(new), Raw(old), Value::Null);
    let (spec, old_spec) = (part(new, "spec", &null), part(old, "spec", &null));
    let mut errors = validate_spec(spec, compile);
    let at = FieldPath::root().child("spec");
    let established = part(old, "status", &null)
        .list("conditions")
        .iter()
        .any(|one| Raw(one).text("type") == "Established" && Raw(one).text("status") == "True");
    let (names, old_names) = (part(spec, "names", &null), part(old_spec, "names", &null));
    let names_at = at.child("names");
    for (field, at, when, new, old) in [
        ("scope", &at, established, spec, old_spec),
        ("kind", &names_at, established, names, old_names),
        ("group", &at, true, spec, old_spec),
        ("plural", &names_at, true, names, old_names),
    ] {
        if when && new.text(field) != old.text(field) {
            let at = at.child(field);
            errors.push(FieldError::invalid(at, new.text(field), "field is immutable"));
        }
    }
    errors.extend(validate_rest(new, spec, Some(old)));
    errors
}

/// What is wrong with the new status of a CRD.
pub fn validate_status(new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    accepted_names(part(Raw(new), "status", &Value::Null), &mut errors);
    errors
}

/// What stands in a field; the given null where it is no object.
fn part<'a>(of: Raw<'a>, field: &str, null: &'a Value) -> Raw<'a> {
    of.schema(field).unwrap_or(Raw(null))
}

fn accepted_names(status: Raw<'_>, errors: &mut Vec<FieldError>) {
    if let Some(names) = status.schema("acceptedNames") {
        let at = FieldPath::root().child("status").child("acceptedNames");
        validate_names(names, &at, errors);
    }
}

/// The status, the approval of protected groups, and the one thing that v1 gave up.
fn validate_rest(crd: Raw<'_>, spec: Raw<'_>, old: Option<Raw<'_>>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let null = Value::Null;
    let status = part(crd, "status", &null);
    accepted_names(status, &mut errors);
    stored_versions(status, spec, &mut errors);
    errors.extend(approval::validate(crd, old));
    let old_preserves =
        old.is_some_and(|old| part(old, "spec", &null).flag("preserveUnknownFields"));
    if spec.flag("preserveUnknownFields") && !old_preserves {
        let at = FieldPath::root().child("spec").child("preserveUnknownFields");
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        errors.push(FieldError::invalid(at, true, detail));
    }
    errors
}

fn stored_versions(status: Raw<'_>, spec: Raw<'_>, errors: &mut Vec<FieldError>) {
    let at = FieldPath::root().child("status").child("storedVersions");
    let stored: Vec<_> = status.texts("storedVersions").collect();
    if stored.is_empty() {
        let detail = "must have at least one stored version";
        return errors.push(FieldError::invalid(at, Value::Null, detail));
    }
    let mut left: Vec<_> = stored.iter().enumerate().collect();
    for version in spec.list("versions").iter().map(Raw) {
        let name = version.text("name");
        let before = left.len();
        left.retain(|(_, one)| **one != name);
        if version.flag("storage") && left.len() == before {
            let detail = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(at.clone(), stored.clone(), detail));
        }
    }
    for (i, name) in left {
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain \
             in spec.versions until a storage migration ensures no data remains persisted in \
             {name} and removes {name} from status.storedVersions"
        );
        errors.push(FieldError::invalid(at.index(i), *name, detail));
    }
}

/// What the versions of a CRD say, each for itself or all the same.
struct Versions<'a> {
    all: Vec<Raw<'a>>,
}

impl<'a> Versions<'a> {
    /// A field that all versions share; `None` where they differ.
    fn shared(&self, field: &str) -> Option<Option<&'a Value>> {
        let mut values = self.all.iter().map(|one| one.get(field).filter(|_| one.has(field)));
        let first = values.next()?;
        values.all(|value| value == first).then_some(first)
    }

    /// A version's own field, unless all share it.
    fn own(&self, version: Raw<'a>, field: &str) -> Option<&'a Value> {
        version.get(field).filter(|_| self.shared(field).is_none())
    }

    /// The versions in the form that upstream shows.
    fn shown(&self) -> String {
        let one = |version: &Raw<'a>| {
            let field = |name: &str| version.get(name).map_or("null".to_owned(), print::json);
            let own = |name: &str| self.own(*version, name).map_or("null".to_owned(), print::json);
            format!(
                "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\
                 \"DeprecationWarning\":{},\"Schema\":{},\"Subresources\":{},\
                 \"AdditionalPrinterColumns\":{},\"SelectableFields\":{}}}",
                print::json(&version.text("name").into()),
                version.flag("served"),
                version.flag("storage"),
                version.flag("deprecated"),
                field("deprecationWarning"),
                own("schema"),
                own("subresources"),
                own("additionalPrinterColumns"),
                own("selectableFields"),
            )
        };
        let all: Vec<_> = self.all.iter().map(one).collect();
        format!("[{}]", all.join(","))
    }
}

fn validate_spec(spec: Raw<'_>, compile: CompileRules) -> Vec<FieldError> {
    let at = FieldPath::root().child("spec");
    let mut errors = Vec::new();
    let group = spec.text("group");
    let wrong = names::subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required(at.child("group"), ""));
    } else if !wrong.is_empty() {
        errors.push(FieldError::invalid(at.child("group"), group, wrong.join(",")));
    } else if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        errors.push(FieldError::invalid(at.child("group"), group, detail));
    }
    parts::one_of(&at.child("scope"), spec.text("scope"), &["Cluster", "Namespaced"], &mut errors);

    let versions = Versions { all: spec.list("versions").iter().map(Raw).collect() };
    let shared_schema = versions.shared("schema").flatten();
    for (i, version) in versions.all.iter().enumerate() {
        let schema = version.schema("schema").and_then(|schema| schema.get("openAPIV3Schema"));
        if schema.is_none() {
            let at = at.child("versions").index(i).child("schema").child("openAPIV3Schema");
            errors.push(FieldError::required(at, ""));
        }
    }
    let has_default = |version: &Raw<'_>| {
        let schema = version.schema("schema").and_then(|schema| schema.schema("openAPIV3Schema"));
        schema.is_some_and(|schema| schema.any(&|node: Raw<'_>| node.get("default").is_some()))
    };
    let preserves = spec.flag("preserveUnknownFields");
    if preserves && versions.all.iter().any(has_default) {
        let detail = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid(at.child("preserveUnknownFields"), true, detail));
    }

    for (i, version) in versions.all.iter().enumerate() {
        let at = at.child("versions").index(i);
        validate_version(*version, &versions, &at, compile, &mut errors);
    }
    let count = versions.all.iter().filter(|version| version.flag("storage")).count();
    let mut seen = HashSet::new();
    let unique = versions.all.iter().all(|version| seen.insert(version.text("name")));
    for (wrong, words) in [
        (!unique, "must contain unique version names"),
        (count != 1, "must have exactly one version marked as storage version"),
    ] {
        if wrong {
            let shown = spec.get("versions").map_or("null".to_owned(), |_| versions.shown());
            errors.push(FieldError::invalid_as(at.child("versions"), &shown, words));
        }
    }
    if let Some(first) = versions.all.first() {
        let wrong = names::label_1035(first.text("name"));
        if !first.text("name").is_empty() && !wrong.is_empty() {
            let at = at.child("version");
            errors.push(FieldError::invalid(at, first.text("name"), wrong.join(",")));
        }
    }

    let null = Value::Null;
    let names = part(spec, "names", &null);
    for field in ["plural", "singular", "kind", "listKind"] {
        if names.text(field).is_empty() {
            errors.push(FieldError::required(at.child("names").child(field), ""));
        }
    }
    validate_names(names, &at.child("names"), &mut errors);
    let any_status = versions.all.iter().any(|version| has_status(*version));
    let schema_at = at.child("validation");
    validate_schema(shared_schema, any_status, &schema_at, compile, &mut errors);
    let subresources = versions.shared("subresources").flatten();
    parts::subresources(subresources, &at.child("subresources"), &mut errors);
    let columns = versions.shared("additionalPrinterColumns").flatten();
    parts::columns(columns, &at.child("additionalPrinterColumns"), &mut errors);
    let fields = versions.shared("selectableFields").flatten();
    let missing = "may only be set when validations.schema is included";
    let fields_at = at.child("selectableFields");
    parts::selectable(fields, shared_schema, &fields_at, missing, &mut errors);
    let conversion = part(spec, "conversion", &null);
    let strategy = conversion.text("strategy");
    if preserves && !strategy.is_empty() && strategy != "None" {
        let at = at.child("conversion").child("strategy");
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(FieldError::invalid(at, strategy, detail));
    }
    if spec.get("conversion").is_some() {
        parts::conversion(conversion, &at.child("conversion"), &mut errors);
    }
    errors
}

fn has_status(version: Raw<'_>) -> bool {
    version.schema("subresources").is_some_and(|all| all.get("status").is_some())
}

fn validate_version<'a>(
    version: Raw<'a>,
    versions: &Versions<'a>,
    at: &FieldPath,
    compile: CompileRules,
    errors: &mut Vec<FieldError>,
) {
    let name = version.text("name");
    let wrong = names::label_1035(name);
    if !wrong.is_empty() {
        errors.push(FieldError::invalid(at.child("name"), name, wrong.join(",")));
    }
    if let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) {
        let mut say = |words: String| {
            errors.push(FieldError::invalid(at.child("deprecationWarning"), warning, words));
        };
        if !version.flag("deprecated") {
            say("can only be set for deprecated versions".to_owned());
        } else {
            if warning.len() > 256 {
                say("must be <= 256 characters long".to_owned());
            }
            if warning.is_empty() {
                say("must not be an empty string".to_owned());
            }
            if let Some((at, _)) = warning.char_indices().find(|(_, c)| !print::printable(*c)) {
                say(format!(
                    "must only contain printable UTF-8 characters; non-printable character found \
                     at index {at}"
                ));
            }
        }
    }
    let schema = versions.own(version, "schema");
    validate_schema(schema, has_status(version), &at.child("schema"), compile, errors);
    let subresources = versions.own(version, "subresources");
    parts::subresources(subresources, &at.child("subresources"), errors);
    let columns = versions.own(version, "additionalPrinterColumns");
    parts::columns(columns, &at.child("additionalPrinterColumns"), errors);
    let fields = versions.own(version, "selectableFields");
    let missing = "may only be set when `version.schema.openAPIV3Schema` is not included";
    parts::selectable(fields, schema, &at.child("selectableFields"), missing, errors);
}

fn validate_names(names: Raw<'_>, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut label = |at: FieldPath, value: &str, mixed: bool| {
        let text = if mixed { value.to_lowercase() } else { value.to_owned() };
        let wrong = names::label_1035(&text);
        if !wrong.is_empty() {
            let lead = if mixed { "may have mixed case, but should otherwise match: " } else { "" };
            errors.push(FieldError::invalid(at, value, format!("{lead}{}", wrong.join(","))));
        }
    };
    for (field, mixed) in
        [("plural", false), ("singular", false), ("kind", true), ("listKind", true)]
    {
        if !names.text(field).is_empty() {
            label(at.child(field), names.text(field), mixed);
        }
    }
    for (i, name) in names.texts("shortNames").enumerate() {
        label(at.child("shortNames").index(i), name, false);
    }
    let (kind, list_kind) = (names.text("kind"), names.text("listKind"));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(at.child("listKind"), list_kind, detail));
    }
    for (i, name) in names.texts("categories").enumerate() {
        let wrong = names::label_1035(name);
        if !wrong.is_empty() {
            let at = at.child("categories").index(i);
            errors.push(FieldError::invalid(at, name, wrong.join(",")));
        }
    }
}

/// `{"openAPIV3Schema": …}`, of one version or of all.
fn validate_schema(
    holder: Option<&Value>,
    has_status: bool,
    at: &FieldPath,
    compile: CompileRules,
    errors: &mut Vec<FieldError>,
) {
    let at = at.child("openAPIV3Schema");
    let Some(value) = holder.and_then(|holder| Raw(holder).get("openAPIV3Schema")) else {
        return;
    };
    let schema = Raw(value);
    let before = errors.len();
    if has_status {
        root_with_status(schema, &at, errors);
    }
    if schema.flag("nullable") {
        let detail = "nullable cannot be true at the root";
        errors.push(FieldError::forbidden(at.child("nullable"), detail));
    }
    let unsupported = openapi::unsupported(schema);
    let typed = serde_json::from_value::<Schema>(value.clone());
    let mut sound = None;
    if unsupported.is_none() {
        let found = structural::validate(value, &at);
        if !found.is_empty() {
            errors.extend(found);
        } else if let Ok(typed) = &typed {
            let found = default_check::validate(typed, &at);
            sound = Some(typed).filter(|_| found.is_empty());
            errors.extend(found);
        }
    }
    let faults = openapi::validate(value, &at);
    let broken = sound.map(|typed| compile(typed, &at, &faults)).unwrap_or_default();
    errors.extend(faults);
    errors.extend(broken);
    if errors.len() > before {
        return;
    }
    if let Some(keyword) = unsupported {
        let detail = format!("OpenAPIV3Schema '{keyword}' is not supported");
        errors.push(FieldError::invalid(at, "", detail));
    } else if let Err(error) = typed {
        errors.push(FieldError::invalid(at, "", format!("cannot be read: {error}")));
    }
}

/// With a status subresource, the root may say little more than its properties.
fn root_with_status(schema: Raw<'_>, at: &FieldPath, errors: &mut Vec<FieldError>) {
    const FORBIDDEN: [&str; 23] = [
        "id",
        "$schema",
        "$ref",
        "nullable",
        "default",
        "maxProperties",
        "minProperties",
        "allOf",
        "oneOf",
        "anyOf",
        "not",
        "additionalProperties",
        "patternProperties",
        "dependencies",
        "additionalItems",
        "definitions",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "enum",
        "xml",
    ];
    let early = ["id", "$schema", "$ref"].iter().any(|key| schema.has(key));
    if !matches!(schema.ty(), "" | "object") && !early {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the \
                      status subresource is enabled";
        errors.push(FieldError::invalid(at.child("type"), schema.ty(), detail));
    } else if FORBIDDEN.iter().any(|key| schema.has(key)) {
        let detail = "only [Description Type Format Title Maximum ExclusiveMaximum Minimum \
                      ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems \
                      MultipleOf Required Items Properties ExternalDocs Example \
                      XPreserveUnknownFields XValidations] fields are allowed at the root of the \
                      schema if the status subresource is enabled";
        errors.push(FieldError::invalid(at.clone(), schema.0.clone(), detail));
    }
}

#[cfg(test)]
mod tests;
