//! Defaults: what a kube-apiserver fills in where nothing was sent.
//!
//! The facts say nearly all of it, and `facts/README.md` how they apply; `code` holds the few that
//! are written by hand. Objects come decoded and leave as they would be decoded again.

use serde_json::{Map, Value};

use super::code;
use super::decode::is_empty;
use super::facts::{Facts, FieldFact, Form, RuleFact};

type Object = Map<String, Value>;

/// Fills in the defaults of an object; `now` is the time of the request.
pub(super) fn fill(facts: &Facts, of: &Kind<'_>, object: &mut Object) {
    let mut filler = Filler { facts, of, path: String::new() };
    filler.structure(of.type_, object);
    code::kind(of, object);
}

/// What is filled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind<'a> {
    /// `<group version> <kind>`.
    pub(super) name: &'a str,
    pub(super) type_: &'a str,
    /// The time of the request.
    pub(super) now: &'a str,
}

struct Filler<'a> {
    facts: &'a Facts,
    of: &'a Kind<'a>,
    path: String,
}

impl Filler<'_> {
    fn at(&mut self, step: &str, run: impl FnOnce(&mut Self)) {
        let mark = self.path.len();
        if mark > 0 && step != "[]" {
            self.path.push('.');
        }
        self.path.push_str(step);
        run(self);
        self.path.truncate(mark);
    }

    fn structure(&mut self, type_: &str, object: &mut Object) {
        let facts = self.facts;
        self.own(type_, object);
        for field in facts.flat(type_) {
            match (&field.form, object.get_mut(&field.name)) {
                (Form::Struct(inner), Some(Value::Object(child))) => {
                    self.at(&field.name, |this| this.structure(inner, child));
                }
                (Form::List(item), Some(Value::Array(items))) => {
                    if let Form::Struct(inner) = &**item {
                        let step = format!("{}[]", field.name);
                        self.at(&step, |this| {
                            for item in items.iter_mut().filter_map(Value::as_object_mut) {
                                this.structure(inner, item);
                            }
                        });
                    }
                }
                _ => {}
            }
        }
    }

    /// The defaults of one struct's own fields, those of inline structs included.
    fn own(&mut self, type_: &str, object: &mut Object) {
        let facts = self.facts;
        let by_kind = facts.kind_defaults.get(self.of.name);
        for field in &facts.type_(type_).fields {
            if field.inline {
                continue;
            }
            let path = || match self.path.as_str() {
                "" => field.name.clone(),
                above => format!("{above}.{}", field.name),
            };
            let default = by_kind.and_then(|d| d.get(&path())).or(field.default.as_ref());
            if let Some(default) = default
                && unset(field, object)
            {
                object.insert(field.name.clone(), default.clone());
            }
        }
        for rule in &facts.rules {
            let here = match &rule.type_ {
                Some(wanted) => wanted == type_,
                None => {
                    rule.kind.as_deref() == Some(self.of.name)
                        && rule.path.as_deref() == Some(self.path.as_str())
                }
            };
            if here {
                self.rule(rule, type_, object);
            }
        }
        code::structure(type_, object, self.of.now);
        // After the outer struct's own, since inline structs share its object.
        for field in &facts.type_(type_).fields {
            if let (true, Form::Struct(inner)) = (field.inline, &field.form) {
                self.own(inner, object);
            }
        }
    }

    fn rule(&self, rule: &RuleFact, type_: &str, object: &mut Object) {
        let fields = self.facts.flat(type_);
        let find = |name: &str| fields.iter().copied().find(|field| field.name == name);
        let is_unset = |name: &str, object: &Object| find(name).is_none_or(|f| unset(f, object));
        let holds = rule.when.iter().all(|(name, values)| {
            values.iter().any(|value| match value {
                Value::Null => is_unset(name, object),
                Value::String(any) if any == "*" => !is_unset(name, object),
                value => object.get(name) == Some(value),
            })
        });
        if !holds || rule.none && fields.iter().any(|field| !unset(field, object)) {
            return;
        }
        for (name, value) in &rule.set {
            if is_unset(name, object) {
                object.insert(name.clone(), value.clone());
            } else if let (Some(Value::Object(into)), Value::Object(from)) =
                (object.get_mut(name), value)
            {
                merge(into, from);
            }
        }
        for (to, from) in &rule.copy {
            if is_unset(to, object)
                && let Some(value) = object.get(from).cloned()
            {
                object.insert(to.clone(), value);
            }
        }
        for name in &rule.clear {
            object.remove(name);
        }
    }
}

/// Fills what is absent, level by level.
fn merge(into: &mut Object, from: &Object) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Object(into)), Value::Object(from)) => merge(into, from),
            (Some(Value::Null) | None, value) => {
                into.insert(key.clone(), value.clone());
            }
            _ => {}
        }
    }
}

fn unset(field: &FieldFact, object: &Object) -> bool {
    let Some(value) = object.get(&field.name) else { return true };
    match (&field.form, value) {
        (_, Value::Null) => true,
        (_, _) if field.ptr => false,
        (Form::IntOrString, value) => value.as_i64() == Some(0),
        (Form::Struct(_), Value::Object(inner)) => inner.is_empty(),
        (form, value) => is_empty(form, value),
    }
}
