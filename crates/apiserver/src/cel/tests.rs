//! The rules of `golden.jsonl`, whose answers, runtime costs and static estimates were recorded from
//! the reference implementation (Kubernetes 1.35.4), then hostile and random input.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::check::{self, Scope};
use super::decl::Decl;
use super::types::Ty;
use super::{Rules, estimate, validate};
use crate::schema::field::{FieldError, FieldPath};
use crate::schema::{Rule, Schema, openapi};

/// The schema and object that golden rules without their own are about.
fn common() -> (Value, Value) {
    let schema = json!({"type": "object", "properties": {
        "s": {"type": "string", "maxLength": 100},
        "n": {"type": "integer"},
        "d": {"type": "number"},
        "l": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 5}},
        "m": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "integer"}},
        "o": {"type": "object", "properties": {"a": {"type": "string"}}},
        "i": {"type": "integer"},
    }});
    let value = json!({"s": "hello", "n": 3, "d": 1.5, "l": ["a", "b"], "m": {"k": 1},
        "o": {"a": "x"}, "i": 1});
    (schema, value)
}

fn compile(schema: &Value) -> Result<Rules, Vec<FieldError>> {
    let at = FieldPath::root().child("schema");
    let typed: Schema = serde_json::from_value(schema.clone()).unwrap();
    let mut faults = openapi::validate(schema, &at);
    match Rules::compile(&typed, &at, &faults) {
        Ok(rules) if faults.is_empty() => Ok(rules),
        Ok(_) => Err(faults),
        Err(found) => {
            faults.extend(found);
            Err(faults)
        }
    }
}

/// The errors as text, sorted; rules shown whole are abbreviated.
fn texts(errors: Vec<FieldError>) -> Vec<String> {
    let mut out: Vec<String> = errors
        .into_iter()
        .map(|e| match e.detail.split_once("\"OptionalOldSelf\":") {
            Some((rule, rest)) if rule.starts_with("{\"Rule\":") => {
                let detail = rest.split_once("}: ").map_or(rest, |(_, detail)| detail);
                format!("{}: Invalid value: {{R}}: {detail}", e.path)
            }
            _ => e.to_string(),
        })
        .collect();
    out.sort();
    out
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|v| v.as_str().unwrap().to_owned()).collect()
}

/// The estimates of the rules of a schema's root, as far as they compile.
fn estimates(schema: &Value) -> Vec<String> {
    let schema: Schema = serde_json::from_value(schema.clone()).unwrap();
    let decl = Decl::of(&schema, true);
    let this = Ty::of_decl(&decl, "selfType");
    let cost = |rule: &Rule| {
        let old = match rule.optional_old_self {
            Some(true) => Ty::optional(this.clone()),
            _ => this.clone(),
        };
        match check::compile(&rule.rule, &Scope::rule(this.clone(), old)) {
            Ok(program) if program.root.ty == Ty::Bool => {
                estimate::worst_cost(&program.root, &decl).to_string()
            }
            _ => "0".to_owned(),
        }
    };
    schema.rules.iter().map(cost).collect()
}

#[test]
fn golden_rules() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in include_str!("golden.jsonl").lines() {
        count += 1;
        let case: Value = serde_json::from_str(line).unwrap();
        let (mut schema, mut value) = common();
        let name = case["rule"].as_str().or(case["name"].as_str()).unwrap();
        if let Some(rule) = case.get("rule") {
            schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
        } else {
            schema = case["schema"].clone();
            value = case["value"].clone();
        }
        let mut check = |what: &str, got: Value, want: Value| {
            if got != want {
                wrong.push(format!("{name}: {what}\n  got {got:#}\n want {want:#}"));
            }
        };
        if let Some(want) = case.get("static") {
            check("static", json!(estimates(&schema)), want.clone());
        }
        match (compile(&schema), case.get("refused")) {
            (Err(errors), want) => {
                check("refused", json!(texts(errors)), json!(want.map(strings)));
            }
            (Ok(_), Some(want)) => check("accepted", Value::Null, want.clone()),
            (Ok(rules), None) => {
                let Some(root) = &rules.root else { continue };
                let (verdict, cost) = validate::validate(root, &value, case.get("old"));
                let errors = verdict.errors;
                check("errors", json!(texts(errors)), json!(strings(&case["errors"])));
                check("cost", json!(cost), case["cost"].clone());
            }
        }
    }
    assert!(count > 400, "the golden file is whole");
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn object(list: Value, rule: &str) -> Value {
    json!({"type": "object", "properties": {"a": list},
        "x-kubernetes-validations": [{"rule": rule}]})
}

/// Runs rules that the estimate would refuse, as if they had been accepted.
fn run_unpriced(schema: &Value, value: &Value) -> (Vec<String>, u64) {
    let mut bounded = schema.clone();
    // A bound that makes the estimate pass, which the object then exceeds.
    bounded["properties"]["a"]["maxItems"] = json!(3);
    let rules = compile(&bounded).unwrap_or_else(|e| panic!("{schema} {:?}", texts(e)));
    let (verdict, cost) = validate::validate(rules.root.as_ref().unwrap(), value, None);
    let errors = verdict.errors;
    (texts(errors), cost)
}

#[test]
fn hostile_loops_stop_at_the_cost_limit() {
    let rule = "self.a.all(x, self.a.all(y, self.a.all(z, x + y + z >= 0)))";
    let schema = object(json!({"type": "array", "items": {"type": "integer"}}), rule);
    let Err(refused) = compile(&schema) else { panic!("too expensive to accept") };
    assert!(texts(refused)[1].contains("exceeds budget by factor of more than 100x"));
    let value = json!({"a": (0..400).collect::<Vec<_>>()});
    let (errors, cost) = run_unpriced(&schema, &value);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("call cost exceeds limit for rule"), "{errors:?}");
    assert!(cost < 1_000_010);
}

#[test]
fn the_budget_of_an_object_is_shared() {
    let rule = "self.all(x, self.all(y, x + y >= 0))";
    let schema = json!({"type": "object", "properties": {"a": {"type": "array", "maxItems": 3,
        "items": {"type": "array", "maxItems": 3, "items": {"type": "integer"},
            "x-kubernetes-validations": [{"rule": rule}]}}}});
    let value = json!({"a": vec![(0..300).collect::<Vec<_>>(); 30]});
    let rules = compile(&schema).unwrap();
    let errors = texts(rules.validate(&value, None).errors);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("running out of cost budget"), "{errors:?}");
}

#[test]
fn cheap_functions_do_not_hide_work_or_memory() {
    let long = "x".repeat(2_000_000);
    for rule in [
        "lists.range(100).all(i, lists.range(100).all(j, self.a[0].charAt(1900000) == 'x'))",
        "lists.range(100).all(i, lists.range(100).all(j, self.a[0] == self.a[1]))",
        "self.a[0].replace('', self.a[1]).size() > 0",
        "lists.range(10).all(i, self.a.join('').size() > 0)",
        "lists.range(100).all(i, lists.range(100).all(j, size(self.a[0]) > 0))",
    ] {
        let schema =
            object(json!({"type": "array", "items": {"type": "string", "maxLength": 3}}), rule);
        let (errors, _) = run_unpriced(&schema, &json!({"a": [long, long]}));
        assert_eq!(errors.len(), 1, "{rule}: {errors:?}");
    }
}

#[test]
fn deep_expressions_fit_an_ordinary_stack() {
    let nested = |open: &str, core: &str, close: &str| {
        format!("{}{core}{}", open.repeat(120), close.repeat(120))
    };
    for (rule, fails) in [
        (nested("(", "true", ")"), false),
        (nested("!(", "true", ")"), false),
        (nested("(1 + ", "1", ")") + " == 121", false),
        (nested("[", "1", "]") + ".size() == 1", false),
        (nested("{'a': ", "1", "}") + ".size() == 1", false),
        (format!("{}true{}", "[1].all(x, ".repeat(240), ")".repeat(240)), false),
        (nested("true ? (", "true", ") : false"), false),
        (format!("dyn(self){} == 1", ".a".repeat(240)), true),
        (format!("1{} == 241", " + 1".repeat(240)), false),
    ] {
        let schema = object(json!({"type": "integer"}), &rule);
        let rules = compile(&schema).unwrap_or_else(|e| panic!("{:?}", texts(e)));
        let errors = texts(rules.validate(&json!({"a": 1}), None).errors);
        assert_eq!(!errors.is_empty(), fails, "{errors:?}");
    }
}

#[test]
fn rules_cross_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Rules>();
}

/// A random expression, sound in form and often in type.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("self".to_owned()),
        Just("self.s".to_owned()),
        Just("self.n".to_owned()),
        Just("self.l".to_owned()),
        Just("self.m".to_owned()),
        Just("dyn(self)".to_owned()),
        Just("x".to_owned()),
        Just("null".to_owned()),
        Just("optional.none()".to_owned()),
        Just("duration('1h')".to_owned()),
        Just("timestamp('9999-12-31T23:59:59Z')".to_owned()),
        any::<i64>().prop_map(|i| i.to_string()),
        any::<u64>().prop_map(|u| format!("{u}u")),
        (-1e9..1e9f64).prop_map(|d| format!("{d:?}")),
        "[a-zé%./:{}\\[0-9]{0,6}".prop_map(|s| format!("'{s}'")),
    ];
    leaf.prop_recursive(5, 40, 3, |inner| {
        let binary = prop::sample::select(vec![
            "+", "-", "*", "/", "%", "==", "!=", "<", ">=", "&&", "||", "in",
        ]);
        let macros = prop::sample::select(vec![
            "all",
            "exists",
            "exists_one",
            "map",
            "filter",
            "sortBy",
            "optMap",
        ]);
        let functions = prop::sample::select(vec![
            "size",
            "type",
            "int",
            "uint",
            "double",
            "string",
            "bytes",
            "bool",
            "duration",
            "timestamp",
            "quantity",
            "ip",
            "cidr",
            "url",
            "semver",
            "isURL",
            "lists.range",
            "optional.of",
            "strings.quote",
            "dyn",
            "sign",
            "isQuantity",
            "ip.isCanonical",
        ]);
        let methods = prop::sample::select(vec![
            "size",
            "contains",
            "matches",
            "find",
            "findAll",
            "split",
            "replace",
            "substring",
            "charAt",
            "indexOf",
            "lastIndexOf",
            "join",
            "format",
            "sum",
            "min",
            "max",
            "isSorted",
            "sort",
            "distinct",
            "reverse",
            "flatten",
            "slice",
            "first",
            "orValue",
            "value",
            "getHours",
            "getSeconds",
            "add",
            "sub",
            "compareTo",
            "containsIP",
            "getQuery",
            "trim",
        ]);
        prop_oneof![
            (inner.clone(), binary, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (inner.clone(), macros, inner.clone()).prop_map(|(a, m, b)| format!("{a}.{m}(x, {b})")),
            (functions, inner.clone()).prop_map(|(f, a)| format!("{f}({a})")),
            (inner.clone(), methods, prop::collection::vec(inner.clone(), 0..3))
                .prop_map(|(a, m, args)| format!("{a}.{m}({})", args.join(", "))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}[{b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}[?{b}]")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            prop::collection::vec(inner.clone(), 0..3).prop_map(|v| format!("[{}]", v.join(", "))),
            (inner.clone(), inner.clone()).prop_map(|(k, v)| format!("{{{k}: {v}}}")),
            inner.clone().prop_map(|a| format!("{a}.?zz")),
            inner.clone().prop_map(|a| format!("has({a}.s)")),
            inner.prop_map(|a| format!("dyn({a})")),
        ]
    })
}

/// Compiling and running never panics, and what runs keeps to its price.
fn survives(rule: &str) {
    let (mut schema, value) = common();
    schema["x-kubernetes-validations"] = json!([{"rule": rule, "message": "m"}]);
    match compile(&schema) {
        Err(errors) => {
            for error in texts(errors) {
                assert!(!error.contains("could not be compiled"), "{rule}: {error}");
            }
        }
        Ok(rules) => {
            let root = rules.root.as_ref().unwrap();
            let old = json!({"s": "old", "n": 1});
            let (_, cost) = validate::validate(root, &value, Some(&old));
            assert!(cost <= 1_000_000_000, "{rule}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_expressions_survive(body in expression()) {
        survives(&format!("dyn({body}) == dyn(1)"));
        survives(&format!("[1, 2].all(x, dyn({body}) == 1)"));
    }

    #[test]
    fn random_text_survives(text in "[-a-z0-9 .()\\[\\]{}'\"?:,&|!<>=+*/%éü\\\\\n`@]{0,40}") {
        survives(&text);
    }
}
