//! Alert rules, their tests and the dashboard of a controller, made from its declaration.
//!
//! Every controller has the same four alerts under the same names, told apart by the label
//! `controller`; a declaration may add its own, each with an example under which it fires. Rules and
//! tests are what `promtool` reads, the dashboard is what Grafana imports.

use serde_json::{Map, Value, json};

use super::declare::Declaration;

struct Rule {
    name: &'static str,
    expr: String,
    lasts: &'static str,
    severity: &'static str,
    summary: String,
    series: Vec<(String, String)>,
    fires_at: &'static str,
    labels: Vec<(String, String)>,
}

fn rules(declaration: &Declaration) -> Vec<Rule> {
    let name = declaration.name;
    let of = format!("controller=\"{name}\"");
    let mut rules = vec![
        Rule {
            name: "SeatrialControllerFails",
            expr: format!(
                "sum by (controller) (rate(seatrial_controller_reconciles_total{{{of},\
                 result=~\"transient|bug\"}}[10m])) > 0"
            ),
            lasts: "15m",
            severity: "warning",
            summary: format!("{name} keeps failing; its log says at which objects"),
            series: vec![(
                format!("seatrial_controller_reconciles_total{{{of},result=\"transient\"}}"),
                "0+1x60".to_owned(),
            )],
            fires_at: "40m",
            labels: Vec::new(),
        },
        Rule {
            name: "SeatrialControllerPanics",
            expr: format!(
                "sum by (controller) (increase(seatrial_controller_panics_total{{{of}}}[15m])) > 0"
            ),
            lasts: "0m",
            severity: "critical",
            summary: format!("{name} has a defect; the panic is in its log, please report it"),
            series: vec![(
                format!("seatrial_controller_panics_total{{{of}}}"),
                "0 0 0 0 0 1 1 1 1 1 1".to_owned(),
            )],
            fires_at: "10m",
            labels: Vec::new(),
        },
        Rule {
            name: "SeatrialControllerBehind",
            expr: format!("max by (controller) (seatrial_controller_queue_depth{{{of}}}) > 100"),
            lasts: "15m",
            severity: "warning",
            summary: format!("{name} has had more than 100 keys waiting for 15 minutes"),
            series: vec![(format!("seatrial_controller_queue_depth{{{of}}}"), "500x40".to_owned())],
            fires_at: "20m",
            labels: Vec::new(),
        },
        Rule {
            name: "SeatrialControllerLate",
            expr: format!(
                "histogram_quantile(0.99, sum by (controller, le) \
                 (rate(seatrial_controller_wake_lag_seconds_bucket{{{of}}}[10m]))) > 5"
            ),
            lasts: "15m",
            severity: "warning",
            summary: format!("{name} meets its deadlines more than 5 seconds late"),
            series: vec![
                (
                    format!("seatrial_controller_wake_lag_seconds_bucket{{{of},le=\"5.0\"}}"),
                    "0x60".to_owned(),
                ),
                (
                    format!("seatrial_controller_wake_lag_seconds_bucket{{{of},le=\"30.0\"}}"),
                    "0+9x60".to_owned(),
                ),
                (
                    format!("seatrial_controller_wake_lag_seconds_bucket{{{of},le=\"+Inf\"}}"),
                    "0+9x60".to_owned(),
                ),
            ],
            fires_at: "40m",
            labels: Vec::new(),
        },
    ];
    let own = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>()
    };
    rules.extend(declaration.alerts.iter().map(|alert| Rule {
        name: alert.name,
        expr: alert.expr.to_owned(),
        lasts: alert.lasts,
        severity: alert.severity,
        summary: alert.summary.to_owned(),
        series: own(alert.example),
        fires_at: alert.fires_at,
        labels: own(alert.labels),
    }));
    rules
}

/// The alert rules, as Prometheus loads them.
pub fn alert_rules(declaration: &Declaration) -> Value {
    let rule = |rule: Rule| {
        json!({
            "alert": rule.name,
            "expr": rule.expr,
            "for": rule.lasts,
            "labels": {"severity": rule.severity, "controller": declaration.name},
            "annotations": {"summary": rule.summary},
        })
    };
    let rules: Vec<Value> = rules(declaration).into_iter().map(rule).collect();
    json!({"groups": [{"name": format!("seatrial-{}", declaration.name), "rules": rules}]})
}

/// Tests of the alert rules, which lie in `file`: each fires in its example, and none at rest.
pub fn alert_tests(declaration: &Declaration, file: &str) -> Value {
    let mut tests = Vec::new();
    for rule in rules(declaration) {
        let series: Vec<Value> = rule
            .series
            .iter()
            .map(|(series, values)| json!({"series": series, "values": values}))
            .collect();
        let mut labels: Map<String, Value> =
            rule.labels.iter().map(|(k, v)| (k.clone(), v.clone().into())).collect();
        labels.insert("severity".to_owned(), rule.severity.into());
        labels.insert("controller".to_owned(), declaration.name.into());
        let fired = json!({
            "exp_labels": labels, "exp_annotations": {"summary": rule.summary},
        });
        tests.push(json!({
            "interval": "1m",
            "input_series": series,
            "alert_rule_test": [
                {"eval_time": "0m", "alertname": rule.name, "exp_alerts": []},
                {"eval_time": rule.fires_at, "alertname": rule.name, "exp_alerts": [fired]},
            ],
        }));
    }
    json!({"rule_files": [file], "evaluation_interval": "1m", "tests": tests})
}

/// The dashboard, as Grafana imports it.
pub fn dashboard(declaration: &Declaration) -> Value {
    let name = declaration.name;
    let of = format!("controller=\"{name}\"");
    let panels = [
        (
            "Reconciles by result",
            "ops",
            "{{result}}",
            format!("sum by (result) (rate(seatrial_controller_reconciles_total{{{of}}}[5m]))"),
        ),
        (
            "Time of a reconcile, P99",
            "s",
            "P99",
            format!(
                "histogram_quantile(0.99, sum by (le) \
             (rate(seatrial_controller_reconcile_duration_seconds_bucket{{{of}}}[5m])))"
            ),
        ),
        (
            "Keys that wait",
            "short",
            "keys",
            format!("max(seatrial_controller_queue_depth{{{of}}})"),
        ),
        (
            "Retries",
            "ops",
            "retries",
            format!("sum(rate(seatrial_controller_retries_total{{{of}}}[5m]))"),
        ),
        (
            "How late deadlines are met, P99",
            "s",
            "P99",
            format!(
                "histogram_quantile(0.99, sum by (le) \
             (rate(seatrial_controller_wake_lag_seconds_bucket{{{of}}}[5m])))"
            ),
        ),
        (
            "What it counts, by state",
            "short",
            "{{what}} {{state}}",
            format!("max by (what, state) (seatrial_controller_objects{{{of}}})"),
        ),
        (
            "Watches that broke",
            "ops",
            "{{resource}} {{reason}}",
            "sum by (resource, reason) (rate(seatrial_watch_restarts_total[5m]))".to_owned(),
        ),
    ];
    let legends: Vec<String> =
        declaration.measures.iter().map(|measure| format!("{{{{{}}}}}", measure.label)).collect();
    let own = declaration.measures.iter().zip(&legends).map(|(measure, legend)| {
        let expr = format!("max by ({}) (seatrial_{})", measure.label, measure.name);
        (measure.help, "short", legend.as_str(), expr)
    });
    let panels: Vec<(&str, &str, &str, String)> = panels.into_iter().chain(own).collect();
    let panel = |(at, (title, unit, legend, expr)): (usize, &(&str, &str, &str, String))| {
        json!({
            "id": at + 1,
            "type": "timeseries",
            "title": title,
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "gridPos": {"h": 8, "w": 12, "x": at % 2 * 12, "y": at / 2 * 8},
            "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
            "targets": [{"refId": "A", "expr": expr, "legendFormat": legend}],
        })
    };
    json!({
        "uid": format!("seatrial-{name}"),
        "title": format!("Seatrial: {name}"),
        "description": declaration.about,
        "tags": ["seatrial"],
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus"},
        ]},
        "panels": panels.iter().enumerate().map(panel).collect::<Vec<_>>(),
    })
}
