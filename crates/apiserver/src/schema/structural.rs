//! Whether a CRD's schema is structural: it says the shape of objects in one place only.
//!
//! Every node has a type, value validations (`allOf`, `anyOf`, `oneOf`, `not`) say nothing of the
//! shape and speak only of what the shape has. Errors come sorted by their text, as upstream's do.

use serde_json::Value;

use super::field::{FieldError, FieldPath};
use super::pattern;
use super::raw::Raw;

/// Where a node stands.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// What keeps a schema from being structural; `at` is where it stands in its CRD.
pub fn validate(schema: &Value, at: &FieldPath) -> Vec<FieldError> {
    let mut checker = Checker { errors: Vec::new() };
    checker.node(Raw(schema), Level::Root, at);
    // Upstream compares only what is said at the root with the shape.
    checker.complete(Raw(schema), Some(Raw(schema)), at, at);
    checker.errors.sort_by_cached_key(ToString::to_string);
    checker.errors
}

struct Checker {
    errors: Vec<FieldError>,
}

impl Checker {
    fn required(&mut self, at: FieldPath, detail: impl Into<String>) {
        self.errors.push(FieldError::required(at, detail));
    }

    fn forbidden(&mut self, at: FieldPath, detail: &str) {
        self.errors.push(FieldError::forbidden(at, detail));
    }

    fn invalid(&mut self, at: FieldPath, value: impl Into<Value>, detail: impl Into<String>) {
        self.errors.push(FieldError::invalid(at, value, detail));
    }

    /// A node that says the shape, and all below it.
    fn node(&mut self, node: Raw<'_>, level: Level, at: &FieldPath) {
        let ty = node.ty();
        if ty == "array" && node.items().is_none() {
            self.required(at.child("items"), "must be specified");
        }
        if let Some(items) = node.items() {
            self.node(items, Level::Item, &at.child("items"));
        }
        for (key, property) in node.properties() {
            self.node(property, Level::Field, &at.child("properties").key(key));
        }
        if node.get("additionalProperties").is_some() {
            let at = at.child("additionalProperties");
            if level == Level::Root {
                self.forbidden(at.clone(), "must not be used at the root");
            }
            if let Some(values) = node.values() {
                self.node(values, Level::Field, &at);
            }
        }
        self.extensions(node, at);
        let skip_any = is_int_or_string(node.list("anyOf"));
        let first = node.list("allOf").first();
        let skip_first = first.is_some_and(|first| is_int_or_string(Raw(first).list("anyOf")));
        self.values(node, skip_any, skip_first, at, true);
        self.kind_of_node(node, level, at);
        self.type_and_metadata(node, level, at);
    }

    fn extensions(&mut self, node: Raw<'_>, at: &FieldPath) {
        if node.flag("x-kubernetes-int-or-string") {
            for other in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"]
            {
                if node.flag(other) {
                    let detail = "must be false if x-kubernetes-int-or-string is true";
                    self.invalid(at.child(other), true, detail);
                }
            }
        }
    }

    fn kind_of_node(&mut self, node: Raw<'_>, level: Level, at: &FieldPath) {
        let ty = node.ty();
        let free = node.flag("x-kubernetes-int-or-string")
            || node.flag("x-kubernetes-preserve-unknown-fields");
        if node.flag("x-kubernetes-embedded-resource") {
            let detail = "must be object if x-kubernetes-embedded-resource is true";
            match ty {
                "object" => {}
                "" => self.required(at.child("type"), detail),
                other => self.invalid(at.child("type"), other, detail),
            }
            if node.get("additionalProperties").is_some() {
                let detail = "must not be used if x-kubernetes-embedded-resource is set";
                self.forbidden(at.child("additionalProperties"), detail);
            }
            if !node.flag("x-kubernetes-preserve-unknown-fields")
                && node.map("properties").is_none()
            {
                let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                              x-kubernetes-preserve-unknown-fields";
                self.required(at.child("properties"), detail);
            }
        } else if ty.is_empty() && !free {
            let detail = match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            };
            self.required(at.child("type"), detail);
        }
        if level == Level::Root && !matches!(ty, "" | "object") {
            self.invalid(at.child("type"), ty, "must be object at the root");
        }
    }

    fn type_and_metadata(&mut self, node: Raw<'_>, level: Level, at: &FieldPath) {
        let is_object = level == Level::Root || node.flag("x-kubernetes-embedded-resource");
        let at = at.child("properties");
        for field in ["kind", "apiVersion"] {
            if let Some(property) = node.property(field).filter(|_| is_object)
                && property.ty() != "string"
            {
                self.invalid(at.key(field).child("type"), property.ty(), "must be string");
            }
        }
        let Some(meta) = node.property("metadata") else {
            return;
        };
        let at = at.key("metadata");
        if is_object && meta.ty() != "object" {
            self.invalid(at.child("type"), meta.ty(), "must be object");
        }
        if level == Level::Root && says_more_than_names(meta) {
            let detail = "must not specify anything other than name and generateName, but metadata \
                          is implicitly specified";
            self.forbidden(at, detail);
        }
    }

    /// The value validations of a node.
    fn values(
        &mut self,
        node: Raw<'_>,
        skip_any: bool,
        skip_first: bool,
        at: &FieldPath,
        shape: bool,
    ) {
        if !skip_any {
            for (one, at) in node.all("anyOf", at) {
                self.nested(one, false, &at);
            }
        }
        for (i, (one, at)) in node.all("allOf", at).enumerate() {
            self.nested(one, skip_first && i == 0 && shape, &at);
        }
        for (one, at) in node.all("oneOf", at) {
            self.nested(one, false, &at);
        }
        if let Some(not) = node.schema("not") {
            self.nested(not, false, &at.child("not"));
        }
        let text = node.text("pattern");
        if !text.is_empty()
            && let Err(error) = pattern::compile(text)
        {
            self.invalid(at.child("pattern"), text, pattern::refusal(&error));
        }
    }

    /// A node that only validates values, and all below it.
    fn nested(&mut self, node: Raw<'_>, skip_any: bool, at: &FieldPath) {
        self.values(node, skip_any, false, at, false);
        if let Some(items) = node.items() {
            self.nested(items, false, &at.child("items"));
        }
        for (key, property) in node.properties() {
            self.nested(property, false, &at.child("properties").key(key));
        }
        for (field, must_be) in [
            ("type", "empty"),
            ("additionalProperties", "undefined"),
            ("default", "undefined"),
            ("title", "empty"),
            ("description", "empty"),
            ("nullable", "false"),
            ("x-kubernetes-preserve-unknown-fields", "false"),
            ("x-kubernetes-embedded-resource", "false"),
            ("x-kubernetes-int-or-string", "false"),
            ("x-kubernetes-list-map-keys", "empty"),
            ("x-kubernetes-list-type", "undefined"),
            ("x-kubernetes-map-type", "undefined"),
            ("x-kubernetes-validations", "empty"),
        ] {
            let said = match must_be {
                "undefined" => node.get(field).is_some(),
                _ => node.has(field),
            };
            if said {
                self.forbidden(at.child(field), &format!("must be {must_be} to be structural"));
            }
        }
        if node.property("metadata").is_some() {
            let detail = "must not be specified in a nested context";
            self.forbidden(at.child("properties").key("metadata"), detail);
        }
    }

    /// What value validations speak of must be in the shape.
    fn complete(
        &mut self,
        values: Raw<'_>,
        shape: Option<Raw<'_>>,
        shape_at: &FieldPath,
        at: &FieldPath,
    ) {
        let not = values.schema("not").map(|not| (not, at.child("not")));
        let all = ["allOf", "anyOf", "oneOf"];
        let nested: Vec<_> =
            not.into_iter().chain(all.iter().flat_map(|key| values.all(key, at))).collect();
        for (one, at) in nested {
            self.complete_nested(one, shape, shape_at, &at);
        }
    }

    fn complete_nested(
        &mut self,
        values: Raw<'_>,
        shape: Option<Raw<'_>>,
        shape_at: &FieldPath,
        at: &FieldPath,
    ) {
        let Some(shape) = shape else {
            return self.required(shape_at.clone(), format!("because it is defined in {at}"));
        };
        self.complete(values, Some(shape), shape_at, at);
        if let Some(items) = values.items() {
            let shape_at = shape_at.child("items");
            self.complete_nested(items, shape.items(), &shape_at, &at.child("items"));
        }
        for (key, property) in values.properties() {
            let (shape_at, at) =
                (shape_at.child("properties").key(key), at.child("properties").key(key));
            self.complete_nested(property, shape.property(key), &shape_at, &at);
        }
    }
}

/// Exactly an integer or a string: the form that `x-kubernetes-int-or-string` may take.
fn is_int_or_string(any_of: &[Value]) -> bool {
    let only = |node: &Value, ty: &str| {
        Raw(node).ty() == ty
            && node
                .as_object()
                .is_some_and(|map| map.keys().all(|key| key == "type" || !Raw(node).has(key)))
    };
    matches!(any_of, [first, second] if only(first, "integer") && only(second, "string"))
}

fn says_more_than_names(meta: Raw<'_>) -> bool {
    let names = |key: &str| matches!(key, "name" | "generateName");
    meta.0.as_object().into_iter().flatten().any(|(key, _)| match key.as_str() {
        "type" | "default" | "example" | "externalDocs" => false,
        "properties" => meta.properties().any(|(key, _)| !names(key)),
        // An empty schema or a flat no says something too.
        "additionalProperties" => meta.get(key).is_some(),
        other => meta.has(other),
    })
}
