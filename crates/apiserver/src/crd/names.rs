//! Whether a CRD's names are free in its group, and the status that says so.

use std::collections::HashSet;

use serde_json::Value;

use super::conditions::{self, Condition};
use crate::registry::{Object, strings, text};
use crate::schema::crd::approval;

/// The status of a CRD beside the others of its group, in the order they came. `now` stamps
/// conditions that changed.
pub(crate) fn establish(object: &Object, others: &[&Object], now: &str) -> Value {
    let status = object.get("status");
    let accepted = sub(status, "acceptedNames");
    let taken: Vec<Object> = others.iter().map(|o| sub(o.get("status"), "acceptedNames")).collect();
    let (accepted, conflict) = accept(sub(object.get("spec"), "names"), accepted, &taken);

    let mut conditions = conditions::of(object).to_vec();
    let mut set = |name, holds, reason: &str, message: &str| {
        Condition { name, holds, reason, message }.set(&mut conditions, now);
    };
    if let Some(approval) = approval::of(object.get("spec"), object.get("metadata")) {
        let (holds, reason) = approval.condition();
        set("KubernetesAPIApprovalPolicyConformant", holds, reason, &approval.words());
    }
    let established = is_established(object);
    match &conflict {
        None => {
            set("NamesAccepted", true, "NoConflicts", "no conflicts found");
            if !established {
                let message = "the initial names have been accepted";
                set("Established", true, "InitialNamesAccepted", message);
            }
        }
        Some((reason, message)) => {
            set("NamesAccepted", false, reason, message);
            if !established {
                set("Established", false, "NotAccepted", "not all names are accepted");
            }
        }
    }
    let mut out = status.and_then(Value::as_object).cloned().unwrap_or_default();
    out.insert("conditions".to_owned(), conditions.into());
    out.insert("acceptedNames".to_owned(), accepted.into());
    Value::Object(out)
}

/// Whether the CRD's names have been accepted once.
pub(crate) fn is_established(object: &Object) -> bool {
    conditions::is_true(conditions::of(object), "Established")
}

fn sub(value: Option<&Value>, field: &str) -> Object {
    value.and_then(|v| v.get(field)).and_then(Value::as_object).cloned().unwrap_or_default()
}

/// The names that a CRD has once those that are free have been taken, and reason and message of the
/// condition if some are not: of several conflicts the last is told.
fn accept(
    asked: Object,
    accepted: Object,
    taken: &[Object],
) -> (Object, Option<(&'static str, String)>) {
    let used = |fields: [&str; 2], list: &str| -> HashSet<String> {
        let of = |names: &Object| -> Vec<String> {
            let single = fields.iter().map(|field| text(names, field));
            single.chain(strings(names, list)).map(str::to_owned).collect()
        };
        taken.iter().flat_map(of).filter(|name| !name.is_empty()).collect()
    };
    let resources = used(["plural", "singular"], "shortNames");
    let kinds = used(["kind", "listKind"], "");
    let in_use = |name: &str| format!("\"{name}\" is already in use");
    let own_short: HashSet<&str> = strings(&accepted, "shortNames").into_iter().collect();

    let mut out = asked.clone();
    let mut conflict = None;
    for (field, reason, used) in [
        ("plural", "PluralConflict", &resources),
        ("singular", "SingularConflict", &resources),
        ("shortNames", "ShortNamesConflict", &resources),
        ("kind", "KindConflict", &kinds),
        ("listKind", "ListKindConflict", &kinds),
    ] {
        let names = match field {
            "shortNames" => strings(&asked, field),
            field => vec![text(&asked, field)],
        };
        let is_own = |name: &str| text(&accepted, field) == name || own_short.contains(name);
        let lost: Vec<String> = names
            .into_iter()
            .filter(|name| !is_own(name) && used.contains(*name))
            .map(in_use)
            .collect();
        if lost.is_empty() {
            continue;
        }
        match accepted.get(field) {
            Some(before) => out.insert(field.to_owned(), before.clone()),
            None => out.remove(field),
        };
        let message =
            if lost.len() == 1 { lost.concat() } else { format!("[{}]", lost.join(", ")) };
        conflict = Some((reason, message));
    }
    // A CRD without a name shows it empty.
    for field in ["plural", "kind"] {
        out.entry(field).or_insert_with(|| "".into());
    }
    (out, conflict)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
    fn of_several_conflicts_the_last_is_told_and_free_names_are_kept() {
        let other = crd("widgets", "Widget", true);
        let status = establish(&crd("gadgets", "Widget", false), &[&other], "now");
        let names = condition(&status, "NamesAccepted");
        assert_eq!(names["reason"], "ListKindConflict");
        assert_eq!(names["message"], "\"WidgetList\" is already in use");
        assert_eq!(condition(&status, "Established")["status"], "False");
        assert_eq!(status["acceptedNames"], json!({"plural": "gadgets", "kind": ""}));
    }

    #[test]
    fn lost_short_names_are_told_together_and_an_established_crd_stays() {
        let mut other = crd("widgets", "Widget", true);
        other["status"]["acceptedNames"]["shortNames"] = json!(["a", "b"]);
        let mut object = crd("gadgets", "Gadget", true);
        object["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
        object["status"]["acceptedNames"]["shortNames"] = json!(["b"]);
        for (asked, message) in [
            (json!(["b", "c"]), ""),
            (json!(["a"]), "\"a\" is already in use"),
            (json!(["a", "widget"]), "[\"a\" is already in use, \"widget\" is already in use]"),
        ] {
            object["spec"]["names"]["shortNames"] = asked.clone();
            let status = establish(&object, &[&other], "now");
            let kept = if message.is_empty() { asked } else { json!(["b"]) };
            assert_eq!(status["acceptedNames"]["shortNames"], kept);
            if !message.is_empty() {
                assert_eq!(condition(&status, "NamesAccepted")["message"], message);
            }
            assert_eq!(condition(&status, "Established")["status"], "True");
        }
    }

    #[test]
    fn a_second_look_changes_nothing() {
        let mut object = crd("widgets", "Widget", false);
        let first = establish(&object, &[], "then");
        object.insert("status".to_owned(), first.clone());
        assert_eq!(establish(&object, &[], "now"), first);
    }
}
