//! Whether a schema's defaults are valid values of the nodes that they stand at, without unknown
//! fields. A default inside metadata is judged within a whole object around it.

use serde_json::{Map, Value, json};

use super::field::{FieldError, FieldPath};
use super::{Schema, coerce, metadata, prune, validate};

/// What is wrong with the defaults of a schema; `at` is where the schema stands in its CRD.
pub(super) fn validate(schema: &Schema, at: &FieldPath) -> Vec<FieldError> {
    let mut checker = Checker { errors: Vec::new() };
    let object = Object { root: schema, steps: &[] };
    checker.node(schema, at, &object, false, true);
    checker.errors
}

/// A step from an object to a value in it.
#[derive(Clone)]
enum Step<'a> {
    Field(&'a str),
    Item,
}

/// The innermost whole object around a node, and the way from it to the node.
struct Object<'a> {
    root: &'a Schema,
    steps: &'a [Step<'a>],
}

impl Object<'_> {
    /// The object with the value at the node, and nothing else but its type.
    fn around(&self, value: &Value) -> Value {
        let mut out = value.clone();
        for step in self.steps.iter().rev() {
            out = match step {
                Step::Item => Value::Array(vec![out]),
                Step::Field(name) => {
                    let mut map = Map::new();
                    map.insert((*name).to_owned(), out);
                    Value::Object(map)
                }
            };
        }
        if let Value::Object(map) = &mut out {
            map.entry("apiVersion").or_insert_with(|| json!("validation/v1"));
            map.entry("kind").or_insert_with(|| json!("Validation"));
        }
        out
    }
}

struct Checker {
    errors: Vec<FieldError>,
}

impl Checker {
    fn node(
        &mut self,
        schema: &Schema,
        at: &FieldPath,
        object: &Object<'_>,
        inside_meta: bool,
        is_root: bool,
    ) {
        let is_object = is_root || schema.embedded_resource;
        let inside_meta = inside_meta && !is_object;
        let own = Object { root: schema, steps: &[] };
        let object = if is_object { &own } else { object };
        if let Some(default) = &schema.default {
            let at = at.child("default");
            let errors = if inside_meta {
                in_metadata(schema, default, &at, object)
            } else {
                self.pruned(schema, default, &at, is_object);
                plain(schema, default, &at, is_object)
            };
            self.errors.extend(errors);
        }
        let below = |step| {
            let mut steps = object.steps.to_vec();
            steps.push(step);
            steps
        };
        if let Some(items) = &schema.items {
            let steps = below(Step::Item);
            let object = Object { root: object.root, steps: &steps };
            self.node(items, &at.child("items"), &object, inside_meta, false);
        }
        for (key, property) in &schema.properties {
            let meta = is_object && matches!(key.as_str(), "metadata" | "apiVersion" | "kind");
            let steps = below(Step::Field(key));
            let object = Object { root: object.root, steps: &steps };
            let at = at.child("properties").key(key);
            self.node(property, &at, &object, inside_meta || meta, false);
        }
    }

    fn pruned(&mut self, schema: &Schema, default: &Value, at: &FieldPath, is_object: bool) {
        let mut left = default.clone();
        let dropped = if is_object {
            prune::prune(schema, &mut left)
        } else {
            prune::prune_part(schema, &mut left)
        };
        if !dropped.is_empty() {
            let detail = "must not have unknown fields";
            self.errors.push(FieldError::invalid(at.clone(), default.clone(), detail));
        }
    }
}

fn plain(schema: &Schema, default: &Value, at: &FieldPath, is_object: bool) -> Vec<FieldError> {
    let mut coerced = default.clone();
    let result = if is_object {
        coerce::whole(schema, &mut coerced, false, at)
    } else {
        coerce::embedded(schema, &mut coerced, false, at).map(|_| ())
    };
    if let Err(error) = result {
        return vec![*error];
    }
    let errors = if is_object {
        metadata::validate_object(schema, &coerced, at)
    } else {
        metadata::validate_embedded(schema, &coerced, at)
    };
    if errors.is_empty() { validate::validate(schema, &coerced, at) } else { errors }
}

fn in_metadata(
    schema: &Schema,
    default: &Value,
    at: &FieldPath,
    object: &Object<'_>,
) -> Vec<FieldError> {
    let mut around = object.around(default);
    let root = FieldPath::root();
    let wrong = match coerce::whole(object.root, &mut around, false, &root) {
        Err(error) => Some(error.to_string()),
        Ok(()) => aggregate(&metadata::validate_object(object.root, &around, &root)),
    };
    match wrong {
        Some(wrong) => {
            let detail = format!("must result in valid metadata: {wrong}");
            vec![FieldError::invalid(at.clone(), default.clone(), detail)]
        }
        None => validate::validate(schema, default, at),
    }
}

/// Several errors as one text.
fn aggregate(errors: &[FieldError]) -> Option<String> {
    match errors {
        [] => None,
        [one] => Some(one.to_string()),
        many => {
            let many: Vec<_> = many.iter().map(ToString::to_string).collect();
            Some(format!("[{}]", many.join(", ")))
        }
    }
}
