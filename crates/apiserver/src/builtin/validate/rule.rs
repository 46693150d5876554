//! Rules as data: a table of what must hold for a struct, and the walk that holds it.
//!
//! A family's rules are `static` tables, in the order in which upstream finds what is wrong, since
//! clients see that order. What upstream computes is a function named by [`Rule::Own`].

use super::place::{At, Errors, Form};
use super::pod::Pod;

/// What a rule may look at besides the value it stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    /// The pod around a container, volume or claim.
    pub(super) pod: &'a Pod<'a>,
}

/// The rules of a struct, in order.
pub(super) type Rules = &'static [Rule];

/// A function that holds a value to rules of its own.
pub(super) type Own = fn(&At<'_>, &Context<'_>, &mut Errors);

/// What must hold for a field of a struct.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// Not empty.
    Required(&'static str),
    /// Not empty, for the reason given.
    RequiredTo(&'static str, &'static str),
    /// Of this form, if not empty.
    Is(&'static str, Form),
    /// Not empty, and then of this form.
    Named(&'static str, Form),
    /// Of this form, empty or not.
    Must(&'static str, Form),
    /// One of these, and not empty.
    OneOf(&'static str, &'static [&'static str]),
    /// One of these, if set at all.
    OneOfIfSet(&'static str, &'static [&'static str]),
    /// A number not below zero.
    NotNegative(&'static str),
    /// A number between the two, if set.
    Between(&'static str, i64, i64, &'static str),
    /// A port number, if set and not zero.
    Port(&'static str),
    /// Labels, as a map of keys and values.
    Labels(&'static str),
    /// At most so many items.
    AtMost(&'static str, u64),
    /// The struct in a field, if there is one.
    Sub(&'static str, Rules),
    /// Every struct of a list.
    Each(&'static str, Rules),
    /// A function's own rules on a field, whatever it holds.
    On(&'static str, Own),
    /// A function's own rules on the struct.
    Own(Own),
}

/// Says why a number is below zero.
pub(super) const NEGATIVE: &str = "must be greater than or equal to 0";

/// Holds a struct to its rules.
pub(super) fn check(rules: Rules, at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    for rule in rules {
        rule.check(at, context, errors);
    }
}

impl Rule {
    fn check(&self, at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
        match *self {
            Self::Required(name) => required(&at.field(name), errors, ""),
            Self::RequiredTo(name, why) => required(&at.field(name), errors, why),
            Self::Is(name, form) => {
                if !at.text(name).is_empty() {
                    at.field(name).must_be(errors, form);
                }
            }
            Self::Named(name, form) => match at.text(name) {
                "" => at.field(name).required(errors, ""),
                _ => at.field(name).must_be(errors, form),
            },
            Self::Must(name, form) => at.field(name).must_be(errors, form),
            Self::OneOf(name, values) => match at.text(name) {
                "" => at.field(name).required(errors, ""),
                text if values.contains(&text) => {}
                _ => at.field(name).not_supported(errors, values),
            },
            Self::OneOfIfSet(name, values) => {
                if at.get(name).as_str().is_some_and(|text| !values.contains(&text)) {
                    at.field(name).not_supported(errors, values);
                }
            }
            Self::Labels(name) => super::form::labels(&at.field(name), errors),
            Self::AtMost(name, limit) => {
                if at.list(name).len() as u64 > limit {
                    at.field(name).too_many(errors, limit);
                }
            }
            Self::On(name, own) => own(&at.field(name), context, errors),
            Self::Own(own) => own(at, context, errors),
            Self::Sub(name, rules) => {
                if at.has(name) {
                    check(rules, &at.field(name), context, errors);
                }
            }
            Self::Each(name, rules) => {
                for item in at.field(name).items() {
                    check(rules, &item, context, errors);
                }
            }
            Self::NotNegative(_) | Self::Between(..) | Self::Port(_) => self.number(at, errors),
        }
    }

    fn number(&self, at: &At<'_>, errors: &mut Errors) {
        let (name, least, most, why) = match *self {
            Self::NotNegative(name) => (name, 0, i64::MAX, NEGATIVE),
            Self::Between(name, least, most, why) => (name, least, most, why),
            Self::Port(name) if at.int(name) == Some(0) => return,
            Self::Port(name) => (name, 1, 65_535, super::form::PORT_RANGE),
            _ => return,
        };
        if at.int(name).is_some_and(|n| n < least || n > most) {
            at.field(name).invalid(errors, why);
        }
    }
}

fn required(at: &At<'_>, errors: &mut Errors, why: &str) {
    let value = at.value;
    let empty = value.is_null()
        || value.as_str().is_some_and(str::is_empty)
        || value.as_array().is_some_and(Vec::is_empty);
    if empty {
        at.required(errors, why);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn find(rules: Rules, value: &Value) -> Vec<String> {
        let (mut errors, pod) = (Vec::new(), Pod::default());
        check(rules, &At::root(value), &Context { pod: &pod }, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn tables_say_what_is_wrong_in_their_order() {
        static PORT: Rules = &[
            Rule::Named("name", crate::schema::names::label),
            Rule::Port("port"),
            Rule::OneOf("protocol", &["TCP", "UDP"]),
        ];
        static ALL: Rules =
            &[Rule::NotNegative("n"), Rule::Each("ports", PORT), Rule::AtMost("ports", 1)];
        let value = json!({"n": -1, "ports": [
            {"name": "a", "port": 70000, "protocol": "X"},
            {"name": "a", "protocol": "TCP"},
        ]});
        assert_eq!(
            find(ALL, &value),
            [
                "n: Invalid value: -1: must be greater than or equal to 0",
                "ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive",
                "ports[0].protocol: Unsupported value: \"X\": supported values: \"TCP\", \"UDP\"",
                "ports: Too many: 2: must have at most 1 item",
            ]
        );
        assert!(find(ALL, &json!({})).is_empty());
    }
}
