//! The custom resource definitions as a person meets them.

use serde_json::Value;
use std::collections::BTreeSet;

fn definitions() -> Vec<Value> {
    api::definitions().iter().map(|crd| serde_json::to_value(crd).unwrap()).collect()
}

#[test]
fn each_is_ours_and_shows_itself_well() {
    let mut short = BTreeSet::new();
    for crd in definitions() {
        let spec = &crd["spec"];
        let name = spec["names"]["kind"].as_str().unwrap();
        assert_eq!(spec["group"], api::GROUP, "{name}");
        assert_eq!(spec["versions"][0]["name"], api::VERSION, "{name}");
        assert_eq!(spec["scope"], "Cluster", "{name}");
        assert_eq!(spec["names"]["categories"][0], "seatrial", "{name}");
        for word in spec["names"]["shortNames"].as_array().unwrap() {
            assert!(short.insert(word.to_string()), "{word} is taken");
        }
        let columns = spec["versions"][0]["additionalPrinterColumns"].as_array().unwrap();
        let shown: Vec<&str> = columns
            .iter()
            .filter(|column| column["priority"].as_i64().unwrap_or(0) == 0)
            .map(|column| column["name"].as_str().unwrap())
            .collect();
        assert!((3..=8).contains(&shown.len()), "{name} shows {shown:?}");
    }
}

#[test]
fn every_printed_column_and_every_field_is_there_and_explained() {
    let mut wrong = Vec::new();
    for crd in definitions() {
        let name = crd["spec"]["names"]["kind"].as_str().unwrap();
        let version = &crd["spec"]["versions"][0];
        let root = &version["schema"]["openAPIV3Schema"];
        for column in version["additionalPrinterColumns"].as_array().unwrap() {
            let path = column["jsonPath"].as_str().unwrap();
            let mut at = root;
            for word in path.trim_start_matches('.').split('.') {
                let word = word.trim_end_matches("[*]");
                at = &at["properties"][word];
                if at["items"].is_object() {
                    at = &at["items"];
                }
            }
            if at.is_null() {
                wrong.push(format!("{name}: no field {path}"));
            }
        }
        for part in ["spec", "status"] {
            unexplained(&root["properties"][part], &format!("{name}.{part}"), &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn unexplained(schema: &Value, path: &str, wrong: &mut Vec<String>) {
    for (field, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{field}");
        // Conditions and taints are Kubernetes' own; variants of an enum are explained by it.
        if path.ends_with(".effect.power") || path.ends_with(".effect.chore") {
            continue;
        }
        if inner["description"].as_str().is_none_or(str::is_empty) {
            wrong.push(format!("{path} is not explained"));
        }
        unexplained(inner, &path, wrong);
        unexplained(&inner["items"], &path, wrong);
    }
}
