//! Values against a schema, with the errors of a kube-apiserver: same texts, same order.
//!
//! [`validate`] checks a new value, [`validate_update`] a changed one: there, what is wrong at a
//! node whose value did not change is let through (ratcheting). Where upstream walks a Go map in
//! random order, errors come sorted by key. Two limits are ours, against hostile pairs of schema
//! and value: [`MAX_ERRORS`] are reported, and [`MAX_STEPS`] nodes are visited.
//!
//! CEL rules, list sets and maps, and embedded metadata are checked elsewhere.

use std::cmp::Ordering;
use std::collections::HashSet;

use serde_json::{Map, Number, Value};

use super::correlate::Correlated;
use super::field::{ErrorKind, FieldError, FieldPath};
use super::{Additional, Schema, Type, format, pattern, print};

/// How many errors one validation reports at most.
pub const MAX_ERRORS: usize = 256;
/// How many pairs of schema node and value node one validation visits at most.
pub const MAX_STEPS: u64 = 5_000_000;

/// What is wrong with a value that has no past; `at` is where the value stands in its object.
pub fn validate(schema: &Schema, value: &Value, at: &FieldPath) -> Vec<FieldError> {
    run(schema, value, None, at)
}

/// What is wrong with a value that replaces another, leaving out what was so before.
pub fn validate_update(
    schema: &Schema,
    new: &Value,
    old: &Value,
    at: &FieldPath,
) -> Vec<FieldError> {
    run(schema, new, Some(Correlated::new(schema, old)), at)
}

/// The error that stands for the CEL rules when earlier errors keep them from being checked.
pub fn blocking(errors: &[FieldError]) -> Option<FieldError> {
    let blocks = |error: &FieldError| {
        matches!(
            error.kind,
            ErrorKind::NotSupported
                | ErrorKind::Required
                | ErrorKind::TooLong
                | ErrorKind::TooMany
                | ErrorKind::TypeInvalid
        )
    };
    errors.iter().any(blocks).then(|| {
        FieldError::invalid(
            FieldPath::root(),
            Value::Null,
            "some validation rules were not checked because the object was invalid; correct the \
             existing errors to complete validation",
        )
    })
}

fn run(
    schema: &Schema,
    value: &Value,
    old: Option<Correlated<'_>>,
    at: &FieldPath,
) -> Vec<FieldError> {
    let mut validator = Validator { at, steps: MAX_STEPS };
    let outcome = validator.ratcheted(schema, value, old, "");
    let mut errors: Vec<_> = outcome.faults.into_iter().map(|fault| fault.error).collect();
    if validator.steps == 0 {
        let detail = "the value is too large to be validated against its schema";
        errors.push(FieldError::invalid(at.clone(), "", detail));
    }
    errors
}

/// An error, and the sentence that tells it from others.
struct Fault {
    message: String,
    error: FieldError,
}

/// What one schema says about one value.
#[derive(Default)]
struct Outcome {
    faults: Vec<Fault>,
    /// How much of the schema was found to hold or to apply: the alternative of an `anyOf` that got
    /// furthest explains itself.
    matched: u64,
}

impl Outcome {
    fn valid(&self) -> bool {
        self.faults.is_empty()
    }

    fn add(&mut self, fault: Fault) {
        let known = |other: &Fault| other.message == fault.message;
        if self.faults.len() < MAX_ERRORS && !self.faults.iter().any(known) {
            self.faults.push(fault);
        }
    }

    fn merge(&mut self, other: Self) {
        self.matched += other.matched;
        if self.faults.is_empty() {
            self.faults = other.faults;
        } else {
            other.faults.into_iter().for_each(|fault| self.add(fault));
        }
    }
}

struct Validator<'a> {
    at: &'a FieldPath,
    steps: u64,
}

impl Validator<'_> {
    fn fault(
        &self,
        kind: ErrorKind,
        name: &str,
        value: impl Into<Value>,
        message: String,
    ) -> Fault {
        let (value, detail) = (Some(value.into()), message.clone());
        Fault { message, error: FieldError { kind, path: self.path(name), value, detail } }
    }

    fn invalid(&self, name: &str, value: impl Into<Value>, message: String) -> Fault {
        self.fault(ErrorKind::Invalid, name, value, message)
    }

    fn wrong_type(&self, name: &str, expected: &str, found: &str) -> Fault {
        let message = format!("{name} in body must be of type {expected}: {}", print::quote(found));
        self.fault(ErrorKind::TypeInvalid, name, found, message)
    }

    /// A fault of the schema's combinations, which upstream reports without a field.
    fn composite(&self, message: String) -> Fault {
        self.invalid("", "", message)
    }

    fn path(&self, name: &str) -> FieldPath {
        match name.strip_prefix('.').unwrap_or(name) {
            "" => self.at.clone(),
            name => self.at.child(name),
        }
    }

    /// A node that may have a past: unchanged, it has no faults.
    fn ratcheted(
        &mut self,
        schema: &Schema,
        value: &Value,
        old: Option<Correlated<'_>>,
        name: &str,
    ) -> Outcome {
        let mut outcome = self.node(schema, value, old, name);
        if !outcome.valid() && old.is_some_and(|old| old.equals(value)) {
            outcome.faults.clear();
        }
        outcome
    }

    fn node(
        &mut self,
        schema: &Schema,
        value: &Value,
        old: Option<Correlated<'_>>,
        name: &str,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        if self.steps == 0 {
            return outcome;
        }
        self.steps -= 1;
        if value.is_null() {
            outcome.merge(self.type_of_null(schema, name));
            self.enumerated(schema, value, name, &mut outcome);
            return outcome;
        }
        let format = schema.format.as_deref().filter(|name| format::check(name).is_some());
        if schema.type_.is_some() || schema.int_or_string || format.is_some() {
            outcome.matched += 1;
            match self.type_fault(schema, format, value, name) {
                Some(fault) => outcome.add(fault),
                None => outcome.matched += 1,
            }
        }
        let combined = self.combinations(schema, value, old, name);
        outcome.merge(combined);
        outcome.matched += 1;
        match value {
            Value::String(text) => {
                if let Some(fault) = self.string(schema, text, name) {
                    outcome.add(fault);
                }
                outcome.matched += 1;
                if let Some(format) = format {
                    outcome.matched += 1;
                    if format::check(format).is_some_and(|check| !check(text)) {
                        outcome.add(self.wrong_type(name, format, text));
                    }
                }
            }
            Value::Number(number) => {
                self.number(schema, number, name, &mut outcome);
                outcome.matched += 2;
            }
            Value::Array(items) => {
                let found = self.array(schema, items, old, name);
                outcome.merge(found);
                outcome.matched += 2;
            }
            _ => {}
        }
        self.enumerated(schema, value, name, &mut outcome);
        outcome.matched += 1;
        if let Value::Object(map) = value {
            let found = self.object(schema, map, old, name);
            outcome.merge(found);
            outcome.matched += 1;
        }
        outcome.matched += 1;
        outcome
    }

    fn type_of_null(&self, schema: &Schema, name: &str) -> Outcome {
        let mut outcome = Outcome::default();
        let typed = schema.type_.is_some() || schema.int_or_string;
        if typed && !schema.nullable {
            outcome.add(self.wrong_type(name, &type_names(schema), "null"));
        } else {
            outcome.matched = 1;
        }
        outcome
    }

    fn type_fault(
        &self,
        schema: &Schema,
        format: Option<&str>,
        value: &Value,
        name: &str,
    ) -> Option<Fault> {
        let (found, number_format) = match value {
            Value::Null => ("null", ""),
            Value::Bool(_) => ("boolean", ""),
            Value::String(_) => ("string", ""),
            Value::Array(_) => ("array", ""),
            Value::Object(_) => ("object", ""),
            Value::Number(number) if number.is_f64() => ("number", "float64"),
            Value::Number(_) => ("integer", "int64"),
        };
        let wants = |ty: Type| {
            if schema.int_or_string {
                matches!(ty, Type::Integer | Type::String)
            } else {
                schema.type_ == Some(ty)
            }
        };
        let fits = match value {
            Value::Null => false,
            Value::Bool(_) => wants(Type::Boolean),
            Value::String(_) => wants(Type::String),
            Value::Array(_) => wants(Type::Array),
            Value::Object(_) => wants(Type::Object),
            Value::Number(number) if number.is_f64() => {
                wants(Type::Number)
                    || (wants(Type::Integer) && number.as_f64().is_some_and(near_whole))
            }
            Value::Number(_) => wants(Type::Integer) || wants(Type::Number),
        };
        if let Some(format) = format {
            let lengthy = matches!(value, Value::String(_) | Value::Array(_));
            if !lengthy && !fits {
                return Some(self.wrong_type(name, format, number_format));
            }
            // Upstream trusts the format to check the type.
            if lengthy && !wants(Type::Number) && !wants(Type::Integer) {
                return None;
            }
        }
        (!fits).then(|| self.wrong_type(name, &type_names(schema), found))
    }

    fn enumerated(&self, schema: &Schema, value: &Value, name: &str, outcome: &mut Outcome) {
        if schema.enum_.is_empty() || schema.enum_.iter().any(|one| same_as(value, one)) {
            return;
        }
        let shown = |one: &Value| match one {
            Value::String(text) => text.clone(),
            other => print::json(other),
        };
        let values: Vec<_> = schema.enum_.iter().map(shown).collect();
        let message = format!("{name} in body should be one of [{}]", values.join(" "));
        let error = FieldError::not_supported(self.path(name), value.clone(), &values);
        outcome.add(Fault { message, error });
    }

    fn string(&self, schema: &Schema, text: &str, name: &str) -> Option<Fault> {
        let length = || text.chars().count() as u64;
        if let Some(limit) = schema.max_length
            && length() > limit
        {
            let message = format!("{name} in body should be at most {limit} chars long");
            return Some(Fault { message, error: FieldError::too_long(self.path(name), limit) });
        }
        if let Some(limit) = schema.min_length
            && length() < limit
        {
            let message = format!("{name} in body should be at least {limit} chars long");
            return Some(self.invalid(name, text, message));
        }
        let pattern = schema.pattern.as_deref().filter(|pattern| !pattern.is_empty())?;
        let wanted = match pattern::compile(pattern) {
            Ok(regex) if regex.is_match(text) => return None,
            Ok(_) => pattern.to_owned(),
            Err(error) => pattern::broken(pattern, &error),
        };
        Some(self.invalid(name, text, format!("{name} in body should match '{wanted}'")))
    }

    fn number(&self, schema: &Schema, number: &Number, name: &str, outcome: &mut Outcome) {
        let value = || Value::Number(number.clone());
        if let Some(factor) = schema.multiple_of.as_ref().and_then(Number::as_f64) {
            let (ok, shown) = match number.as_i64() {
                // Upstream cuts the factor to a whole number for whole values.
                Some(whole) => {
                    let factor = factor as i64;
                    (factor > 0 && whole % factor == 0, factor.to_string())
                }
                None => {
                    let float = number.as_f64().unwrap_or_default();
                    let times = if factor < 1.0 { 1.0 / factor * float } else { float / factor };
                    (factor > 0.0 && near_whole(times), print::float(factor))
                }
            };
            if shown.starts_with('-') || shown == "0" {
                let message =
                    format!("factor MultipleOf declared for {name} must be positive: {shown}");
                let factor = if shown == "0" { Value::from(0) } else { shown_number(factor) };
                outcome.add(self.invalid(name, factor, message));
            } else if !ok {
                let message = format!("{name} in body should be a multiple of {shown}");
                outcome.add(self.invalid(name, value(), message));
            }
        }
        let (minimum, maximum) = (schema.minimum.as_ref(), schema.maximum.as_ref());
        let bounds = [
            (minimum, schema.exclusive_minimum, "greater", Ordering::Less),
            (maximum, schema.exclusive_maximum, "less", Ordering::Greater),
        ];
        for (bound, exclusive, word, beyond) in bounds {
            let Some(bound) = bound.and_then(Number::as_f64) else {
                continue;
            };
            let (order, shown) = match number.as_i64() {
                Some(whole) => {
                    let bound = bound as i64;
                    (whole.cmp(&bound), bound.to_string())
                }
                None => {
                    let float = number.as_f64().unwrap_or_default();
                    (float.total_cmp(&bound), print::float(bound))
                }
            };
            if order == beyond || (exclusive && order == Ordering::Equal) {
                let or_equal = if exclusive { "" } else { " or equal to" };
                let message = format!("{name} in body should be {word} than{or_equal} {shown}");
                outcome.add(self.invalid(name, value(), message));
            }
        }
    }

    fn array(
        &mut self,
        schema: &Schema,
        items: &[Value],
        old: Option<Correlated<'_>>,
        name: &str,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(item_schema) = &schema.items {
            let olds = old.map(|old| old.items());
            for (i, item) in items.iter().enumerate() {
                let old = olds.as_ref().and_then(|olds| olds.find(item));
                let found = self.ratcheted(item_schema, item, old, &format!("{name}[{i}]"));
                outcome.merge(found);
            }
        }
        let count = items.len() as u64;
        if let Some(limit) = schema.min_items
            && count < limit
        {
            let message = format!("{name} in body should have at least {limit} items");
            outcome.add(self.invalid(name, count, message));
        }
        if let Some(limit) = schema.max_items
            && count > limit
        {
            let message = format!("{name} in body should have at most {limit} items");
            let error = FieldError::too_many(self.path(name), count, limit);
            outcome.add(Fault { message, error });
        }
        if schema.unique_items {
            let mut seen = HashSet::new();
            if !items.iter().all(|item| seen.insert(print::json(item))) {
                let message = format!("{name} in body shouldn't contain duplicates");
                outcome.add(self.invalid(name, "", message));
            }
        }
        outcome
    }

    fn object(
        &mut self,
        schema: &Schema,
        map: &Map<String, Value>,
        old: Option<Correlated<'_>>,
        name: &str,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let count = map.len() as u64;
        if let Some(limit) = schema.min_properties
            && count < limit
        {
            let message = format!("{name} in body should have at least {limit} properties");
            outcome.add(self.invalid(name, count, message));
        }
        if let Some(limit) = schema.max_properties
            && count > limit
        {
            let message = format!("{name} in body should have at most {limit} properties");
            let error = FieldError::too_many(self.path(name), count, limit);
            outcome.add(Fault { message, error });
        }
        let unknown = || map.iter().filter(|(key, _)| !schema.properties.contains_key(*key));
        match &schema.additional_properties {
            Some(Additional::Any(false)) => {
                for (key, _) in unknown() {
                    let message = format!("{name}.{key} in body is a forbidden property");
                    outcome.add(self.invalid(name, key.as_str(), message));
                }
            }
            Some(Additional::Schema(value_schema)) => {
                for (key, value) in unknown() {
                    let old = old.and_then(|old| old.field(key));
                    let found = self.ratcheted(value_schema, value, old, &format!("{name}.{key}"));
                    outcome.merge(found);
                }
            }
            Some(Additional::Any(true)) | None => {}
        }
        for (key, property) in &schema.properties {
            let Some(value) = map.get(key) else {
                continue;
            };
            let below = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            // The old object was converted to this version: its type cannot be compared.
            let typed = name.is_empty() && matches!(key.as_str(), "kind" | "apiVersion");
            let old = old.filter(|_| !typed).and_then(|old| old.field(key));
            let found = self.ratcheted(property, value, old, &below);
            outcome.merge(found);
        }
        for key in schema.required.iter().filter(|key| !map.contains_key(*key)) {
            let below = format!("{name}.{key}");
            let message = format!("{below} in body is required");
            outcome.add(Fault { message, error: FieldError::required(self.path(&below), "") });
        }
        outcome
    }

    fn combinations(
        &mut self,
        schema: &Schema,
        value: &Value,
        old: Option<Correlated<'_>>,
        name: &str,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let quoted = || print::quote(name);
        if !schema.any_of.is_empty() {
            match self.alternatives(&schema.any_of, value, old, name, true) {
                (0, best) => {
                    outcome.add(self.composite(format!(
                        "{} must validate at least one schema (anyOf)",
                        quoted()
                    )));
                    outcome.merge(best);
                }
                (_, success) => outcome.merge(success),
            }
        }
        if !schema.one_of.is_empty() {
            let (count, best) = self.alternatives(&schema.one_of, value, old, name, false);
            if count != 1 {
                let found = match count {
                    0 => "Found none valid".to_owned(),
                    many => format!("Found {many} valid alternatives"),
                };
                outcome.add(self.composite(format!(
                    "{} must validate one and only one schema (oneOf). {found}",
                    quoted()
                )));
            }
            // Several successes explain nothing.
            if count <= 1 {
                outcome.merge(best);
            }
        }
        if !schema.all_of.is_empty() {
            let mut held = 0;
            for one in &schema.all_of {
                let found = self.node(one, value, old, name);
                held += usize::from(found.valid());
                outcome.merge(found);
            }
            if held != schema.all_of.len() {
                let none = if held == 0 { ". None validated" } else { "" };
                outcome.add(self.composite(format!(
                    "{} must validate all the schemas (allOf){none}",
                    quoted()
                )));
            }
        }
        if let Some(not) = &schema.not
            && self.node(not, value, old, name).valid()
        {
            outcome.add(self.composite(format!("{} must not validate the schema (not)", quoted())));
        }
        outcome.matched += 1;
        outcome
    }

    /// How many of the schemas hold, and the first that does or else the failure that got furthest.
    fn alternatives(
        &mut self,
        schemas: &[Schema],
        value: &Value,
        old: Option<Correlated<'_>>,
        name: &str,
        first_is_enough: bool,
    ) -> (usize, Outcome) {
        let mut held = 0;
        let mut best: Option<Outcome> = None;
        for schema in schemas {
            let found = self.node(schema, value, old, name);
            if found.valid() {
                held += 1;
                if held == 1 {
                    best = Some(found);
                }
                if first_is_enough {
                    break;
                }
            } else if held == 0 && best.as_ref().is_none_or(|best| found.matched > best.matched) {
                best = Some(found);
            }
        }
        (held, best.unwrap_or_default())
    }
}

fn shown_number(float: f64) -> Value {
    Number::from_f64(float).map_or(Value::Null, Value::Number)
}

/// The schema's type as messages name it.
fn type_names(schema: &Schema) -> String {
    if schema.int_or_string {
        return "integer,string".to_owned();
    }
    schema.type_.map_or(String::new(), |ty| ty.name().to_owned())
}

/// Whether a value is the given one of an enum: equal once converted to its Go type.
fn same_as(value: &Value, one: &Value) -> bool {
    match (value, one) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(value), Value::Number(one)) => match (value.as_i64(), one.as_i64()) {
            (Some(value), Some(one)) => value == one,
            (None, Some(one)) => value.as_f64().is_some_and(|value| value as i64 == one),
            _ => value.as_f64() == one.as_f64(),
        },
        _ => value == one,
    }
}

/// Whether a float is a whole number, a billionth more or less.
fn near_whole(float: f64) -> bool {
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    if float.is_nan() || float.abs() > LARGEST {
        return false;
    }
    let cut = float.trunc();
    float == cut || (float - cut).abs() / (float.abs() + cut.abs()) < 1e-9
}

#[cfg(test)]
mod tests;
