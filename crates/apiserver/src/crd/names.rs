//! Whether a CRD's names are free in its group, and the status that says so.

use serde_json::{Value, json};

use crate::registry::{Object, strings, text};

/// The status of a CRD beside the others of its group, in the order they came. `now` stamps
/// conditions that changed.
pub(crate) fn establish(object: &Object, others: &[&Object], now: &str) -> Value {
    let names = sub(object.get("spec"), "names");
    let status = object.get("status");
    let taken: Vec<Object> = others.iter().map(|o| sub(o.get("status"), "acceptedNames")).collect();
    let conflict = conflict(&names, &taken);
    let accepted =
        if conflict.is_none() { names.clone() } else { sub(status, "acceptedNames") };

    let mut conditions: Vec<Value> =
        status.and_then(|s| s.get("conditions")).and_then(Value::as_array).cloned().unwrap_or_default();
    match &conflict {
        None => {
            set(&mut conditions, "NamesAccepted", true, "NoConflicts", "no conflicts found", now);
            if !is_true(&conditions, "Established") {
                let message = "the initial names have been accepted";
                set(&mut conditions, "Established", true, "InitialNamesAccepted", message, now);
            }
        }
        Some((reason, message)) => {
            set(&mut conditions, "NamesAccepted", false, reason, message, now);
            if !is_true(&conditions, "Established") {
                let message = "not all names are accepted";
                set(&mut conditions, "Established", false, "NotAccepted", message, now);
            }
        }
    }
    let mut out = status.and_then(Value::as_object).cloned().unwrap_or_default();
    out.insert("conditions".to_owned(), conditions.into());
    out.insert("acceptedNames".to_owned(), accepted.into());
    Value::Object(out)
}

/// Whether a condition of an object is True.
pub(super) fn is_established(object: &Object) -> bool {
    let conditions = object.get("status").and_then(|s| s.get("conditions"));
    conditions.and_then(Value::as_array).is_some_and(|c| is_true(c, "Established"))
}

fn sub(value: Option<&Value>, field: &str) -> Object {
    value.and_then(|v| v.get(field)).and_then(Value::as_object).cloned().unwrap_or_default()
}

/// The first name that another CRD has: reason and message of the condition.
fn conflict(names: &Object, taken: &[Object]) -> Option<(&'static str, String)> {
    let resources = |names: &Object| -> Vec<String> {
        let mut all = vec![text(names, "plural").to_owned(), text(names, "singular").to_owned()];
        all.extend(strings(names, "shortNames").into_iter().map(str::to_owned));
        all
    };
    let kinds = |names: &Object| [text(names, "kind").to_owned(), text(names, "listKind").to_owned()];
    let is_taken = |name: &str| {
        !name.is_empty() && taken.iter().any(|other| resources(other).iter().any(|n| n == name))
    };
    let kind_is_taken = |name: &str| {
        !name.is_empty() && taken.iter().any(|other| kinds(other).iter().any(|n| n == name))
    };
    let in_use = |name: &str| format!("\"{name}\" is already in use");
    let plural = text(names, "plural");
    if is_taken(plural) {
        return Some(("PluralConflict", in_use(plural)));
    }
    let singular = text(names, "singular");
    if is_taken(singular) {
        return Some(("SingularConflict", in_use(singular)));
    }
    if let Some(short) = strings(names, "shortNames").into_iter().find(|n| is_taken(n)) {
        return Some(("ShortNamesConflict", in_use(short)));
    }
    for (field, reason) in [("kind", "KindConflict"), ("listKind", "ListKindConflict")] {
        let name = text(names, field);
        if kind_is_taken(name) {
            return Some((reason, in_use(name)));
        }
    }
    None
}

fn is_true(conditions: &[Value], name: &str) -> bool {
    conditions.iter().any(|c| c["type"] == name && c["status"] == "True")
}

/// Sets a condition; the time of its last transition moves only with its status.
fn set(
    conditions: &mut Vec<Value>,
    name: &str,
    value: bool,
    reason: &str,
    message: &str,
    now: &str,
) {
    let value = if value { "True" } else { "False" };
    let before = conditions.iter().position(|c| c["type"] == name);
    let since = match before.map(|i| &conditions[i]) {
        Some(old) if old["status"] == value => old["lastTransitionTime"].clone(),
        _ => now.into(),
    };
    let condition = json!({
        "type": name, "status": value, "lastTransitionTime": since,
        "reason": reason, "message": message,
    });
    match before {
        Some(i) => conditions[i] = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(plural: &str, kind: &str, accepted: bool) -> Object {
        let names = json!({"plural": plural, "singular": kind.to_lowercase(), "kind": kind,
            "listKind": format!("{kind}List")});
        let mut object = json!({"spec": {"names": names}, "status": {}});
        if accepted {
            object["status"]["acceptedNames"] = names;
        }
        object.as_object().unwrap().clone()
    }

    fn condition<'a>(status: &'a Value, name: &str) -> &'a Value {
        let mut conditions = status["conditions"].as_array().unwrap().iter();
        conditions.find(|c| c["type"] == name).unwrap()
    }

    #[test]
    fn free_names_are_accepted_and_the_crd_is_established() {
        let status = establish(&crd("widgets", "Widget", false), &[], "now");
        assert_eq!(condition(&status, "Established")["status"], "True");
        assert_eq!(status["acceptedNames"]["plural"], "widgets");
    }

    #[test]
    fn a_taken_kind_is_a_conflict() {
        let other = crd("widgets", "Widget", true);
        let status = establish(&crd("gadgets", "Widget", false), &[&other], "now");
        assert_eq!(condition(&status, "NamesAccepted")["reason"], "SingularConflict");
        assert_eq!(condition(&status, "Established")["status"], "False");
        assert_eq!(status["acceptedNames"], json!({}));
    }

    #[test]
    fn a_second_look_changes_nothing() {
        let mut object = crd("widgets", "Widget", false);
        let first = establish(&object, &[], "then");
        object.insert("status".to_owned(), first.clone());
        assert_eq!(establish(&object, &[], "now"), first);
    }
}
