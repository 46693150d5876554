//! A place in an object: a value together with how one got there.
//!
//! Walking down costs no memory; the printed path is made only where something is wrong.

use serde_json::{Map, Value};

use crate::schema::field::{ErrorKind, FieldError, FieldPath};

/// What is wrong so far, in the order in which it was found.
pub(super) type Errors = Vec<FieldError>;

/// How many errors are told; whoever has more than these has others to mend first.
const MOST_ERRORS: usize = 1000;

/// Adds an error, up to a bound.
pub(super) fn push(errors: &mut Errors, error: FieldError) {
    if errors.len() < MOST_ERRORS {
        errors.push(error);
    }
}

/// What keeps a text from having a form: upstream's sentences.
pub(super) type Form = fn(&str) -> Vec<String>;

static NULL: Value = Value::Null;

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

/// A value of an object and the way to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct At<'a> {
    above: Option<&'a Self>,
    step: Step<'a>,
    /// What lies here; null where there is nothing.
    pub(super) value: &'a Value,
}

impl<'a> At<'a> {
    /// The object itself.
    pub(super) fn root(value: &'a Value) -> Self {
        Self { above: None, step: Step::Root, value }
    }

    /// The named field.
    pub(super) fn field<'b>(&'b self, name: &'b str) -> At<'b> {
        At { above: Some(self), step: Step::Field(name), value: self.get(name) }
    }

    /// Another value, said to lie under this name.
    pub(super) fn with<'b>(&'b self, name: &'b str, value: &'b Value) -> At<'b> {
        At { above: Some(self), step: Step::Field(name), value }
    }

    /// The map entry, printed in brackets.
    pub(super) fn key<'b>(&'b self, key: &'b str) -> At<'b> {
        At { above: Some(self), step: Step::Key(key), value: self.get(key) }
    }

    /// The items of a list; of anything else, none.
    pub(super) fn items(&self) -> impl Iterator<Item = At<'_>> {
        let items = self.value.as_array().map_or(&[][..], Vec::as_slice);
        items.iter().enumerate().map(|(n, value)| At {
            above: Some(self),
            step: Step::Index(n),
            value,
        })
    }

    /// A place in the list that this is, whether or not the list reaches that far.
    pub(super) fn index(&self, n: usize) -> At<'_> {
        At { above: Some(self), step: Step::Index(n), value: self.value.get(n).unwrap_or(&NULL) }
    }

    /// The place that this one lies in.
    pub(super) fn above(&self) -> Option<&'a Self> {
        self.above
    }

    /// Another value, said to lie at this very place.
    pub(super) fn instead<'b>(&'b self, value: &'b Value) -> At<'b> {
        At { above: self.above, step: self.step, value }
    }

    /// The value of a field; null where there is none.
    pub(super) fn get(&self, name: &str) -> &'a Value {
        self.value.get(name).unwrap_or(&NULL)
    }

    /// Whether a field holds anything.
    pub(super) fn has(&self, name: &str) -> bool {
        !self.get(name).is_null()
    }

    /// A text field, empty where there is none.
    pub(super) fn text(&self, name: &str) -> &'a str {
        self.get(name).as_str().unwrap_or_default()
    }

    /// A whole number.
    pub(super) fn int(&self, name: &str) -> Option<i64> {
        self.get(name).as_i64()
    }

    /// Whether a field is true.
    pub(super) fn is_true(&self, name: &str) -> bool {
        self.get(name).as_bool().unwrap_or(false)
    }

    /// A list field, empty where there is none.
    pub(super) fn list(&self, name: &str) -> &'a [Value] {
        self.get(name).as_array().map_or(&[], Vec::as_slice)
    }

    /// A map field.
    pub(super) fn map(&self, name: &str) -> Option<&'a Map<String, Value>> {
        self.get(name).as_object()
    }

    /// The value here as text.
    pub(super) fn as_text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    /// The printed way here.
    pub(super) fn path(&self) -> FieldPath {
        let above = self.above.map(At::path).unwrap_or_default();
        match self.step {
            Step::Root => above,
            Step::Field(name) => above.child(name),
            Step::Index(n) => above.index(n),
            Step::Key(key) => above.key(key),
        }
    }

    /// It must be there.
    pub(super) fn required(&self, errors: &mut Errors, why: &str) {
        push(errors, FieldError::required(self.path(), why));
    }

    /// What is here breaks a rule.
    pub(super) fn invalid(&self, errors: &mut Errors, why: impl Into<String>) {
        self.invalid_value(errors, self.value.clone(), why);
    }

    /// The value shown breaks a rule; it is not always what lies here.
    pub(super) fn invalid_value(
        &self,
        errors: &mut Errors,
        shown: impl Into<Value>,
        why: impl Into<String>,
    ) {
        push(errors, FieldError::invalid(self.path(), shown, why));
    }

    /// As `invalid`, without a value or with one that the caller has printed.
    pub(super) fn invalid_as(&self, errors: &mut Errors, shown: &str, why: &str) {
        push(errors, FieldError::invalid_as(self.path(), shown, why));
    }

    /// A rule is broken by more than one value, so none is shown.
    pub(super) fn invalid_unshown(&self, errors: &mut Errors, why: &str) {
        push(errors, FieldError::new(ErrorKind::Invalid, self.path(), None, why));
    }

    /// It must not be set.
    pub(super) fn forbidden(&self, errors: &mut Errors, why: impl Into<String>) {
        push(errors, FieldError::forbidden(self.path(), why));
    }

    /// What is here is not among the values that there are.
    pub(super) fn not_supported(&self, errors: &mut Errors, supported: &[&str]) {
        let shown = if self.value.is_null() { Value::from("") } else { self.value.clone() };
        push(errors, FieldError::not_supported(self.path(), shown, supported));
    }

    /// It is there twice.
    pub(super) fn duplicate(&self, errors: &mut Errors, shown: impl Into<Value>) {
        push(errors, FieldError::duplicate(self.path(), shown));
    }

    /// What it names is not there.
    pub(super) fn not_found(&self, errors: &mut Errors, shown: &str, why: &str) {
        let shown = Some(Value::from(shown));
        push(errors, FieldError::new(ErrorKind::NotFound, self.path(), shown, why));
    }

    /// More bytes than the limit.
    pub(super) fn too_long(&self, errors: &mut Errors, limit: u64) {
        push(errors, FieldError::too_long(self.path(), limit));
    }

    /// More items than the limit.
    pub(super) fn too_many(&self, errors: &mut Errors, limit: u64) {
        let actual =
            self.value.as_array().map_or(0, Vec::len) + self.value.as_object().map_or(0, Map::len);
        push(errors, FieldError::too_many(self.path(), actual as u64, limit));
    }

    /// The text here must have the form, empty or not.
    pub(super) fn must_be(&self, errors: &mut Errors, form: Form) {
        for why in form(self.as_text()) {
            self.invalid_value(errors, self.as_text(), why);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_place_knows_its_way() {
        let object = json!({"spec": {"ports": [{"port": 1}], "limits": {"cpu": "1"}}});
        let root = At::root(&object);
        let spec = root.field("spec");
        let ports = spec.field("ports");
        let paths: Vec<String> =
            ports.items().map(|port| port.field("port").path().to_string()).collect();
        assert_eq!(paths, ["spec.ports[0].port"]);
        let limits = spec.field("limits");
        assert_eq!(limits.key("cpu").path().to_string(), "spec.limits[cpu]");
        assert_eq!(limits.key("cpu").as_text(), "1");
        assert!(spec.field("none").value.is_null());
    }
}
