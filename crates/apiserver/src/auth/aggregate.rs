//! Cluster roles that are made of others: `aggregationRule` names them by label.
//!
//! The rules are gathered when the index of roles is built. The stored objects keep the rules that
//! were written to them; writing the gathered ones back is a controller's work, as in upstream.

use serde_json::{Map, Value};

/// Roles that gather roles that gather roles: deeper than this nobody goes.
const DEPTH: usize = 8;

/// Fills in the rules of every cluster role with an `aggregationRule`.
pub fn gather(roles: &mut [Map<String, Value>]) {
    for _ in 0..DEPTH {
        let mut changed = false;
        for n in 0..roles.len() {
            let Some(selectors) = selectors(&roles[n]) else { continue };
            let gathered: Vec<Value> = (roles.iter().enumerate())
                .filter(|(other, role)| *other != n && selectors.iter().any(|s| selects(s, role)))
                .filter_map(|(_, role)| role.get("rules")?.as_array())
                .flatten()
                .cloned()
                .collect();
            if roles[n].get("rules").and_then(Value::as_array) != Some(&gathered) {
                roles[n].insert("rules".to_owned(), gathered.into());
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}

fn selectors(role: &Map<String, Value>) -> Option<Vec<Value>> {
    let selectors = role.get("aggregationRule")?.get("clusterRoleSelectors")?.as_array()?;
    Some(selectors.clone())
}

/// Whether a label selector holds for a role's labels. An operator that is not known selects nothing.
fn selects(selector: &Value, role: &Map<String, Value>) -> bool {
    let labels = role.get("metadata").and_then(|m| m.get("labels"));
    let label = |key: &str| labels.and_then(|l| l.get(key)).and_then(Value::as_str);
    let wanted = selector.get("matchLabels").and_then(Value::as_object);
    let equal = wanted.into_iter().flatten().all(|(key, value)| label(key) == value.as_str());
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let expressions = expressions.into_iter().flatten().all(|expression| {
        let found = label(expression["key"].as_str().unwrap_or_default());
        let listed = expression["values"].as_array().into_iter().flatten();
        let listed = found.is_some_and(|found| listed.into_iter().any(|value| value == found));
        match expression["operator"].as_str() {
            Some("In") => listed,
            Some("NotIn") => !listed,
            Some("Exists") => found.is_some(),
            Some("DoesNotExist") => found.is_none(),
            _ => false,
        }
    });
    equal && expressions
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn roles_gather_roles_that_gather() {
        let role = |name: &str, of: &str, from: Option<&str>, rules: Value| {
            let mut role =
                json!({"metadata": {"name": name, "labels": {of: "true"}}, "rules": rules});
            if let Some(from) = from {
                role["aggregationRule"] =
                    json!({"clusterRoleSelectors": [{"matchLabels": {from: "true"}}]});
            }
            role.as_object().unwrap().clone()
        };
        let mut roles = [
            role("admin", "none", Some("to-admin"), json!(null)),
            role("edit", "to-admin", Some("to-edit"), json!(null)),
            role("base", "to-edit", None, json!([{"verbs": ["get"]}])),
        ];
        gather(&mut roles);
        for role in &roles {
            assert_eq!(role["rules"], json!([{"verbs": ["get"]}]), "{role:?}");
        }
    }

    #[test]
    fn expressions_select_and_unknown_operators_do_not() {
        let role = json!({"metadata": {"labels": {"a": "x"}}});
        let check = |operator: &str, want: bool| {
            let selector =
                json!({"matchExpressions": [{"key": "a", "operator": operator, "values": ["x"]}]});
            assert_eq!(selects(&selector, role.as_object().unwrap()), want, "{operator}");
        };
        check("In", true);
        check("NotIn", false);
        check("Exists", true);
        check("DoesNotExist", false);
        check("Near", false);
    }
}
