//! `seatrial replay`: exit codes, warnings, and a report that is the same every time.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::seatrial;

fn event(at: f64, edge: &str, node: &str, desc: &str) -> Value {
    json!({
        "node_id": node, "event_time": at, "event_type": edge,
        "fault_type": {"Level": "Hardware Failure", "Class": "GPU", "Desc": desc},
    })
}

/// What it printed, what it warned of, and its exit code.
fn replay(trace: &str, directory: &Path, more: &[&str]) -> (String, String, i32) {
    let faults = directory.join("trace.json");
    std::fs::write(&faults, trace).unwrap();
    let mut command = seatrial(&["replay"]);
    command.arg("--faults").arg(&faults).args(more);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code().unwrap())
}

#[test]
fn what_is_no_trace_is_refused_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |trace: &str, says: &str| {
        let (out, error, code) = replay(trace, directory.path(), &[]);
        assert_eq!((out.as_str(), code), ("", 2), "{error}");
        assert!(error.trim_end().ends_with(says), "{error}");
    };
    refused("node,from,to\n", "line 1: expected ident");
    refused(
        "[\n{\"node\": \"a\"}\n]",
        "line 2: unknown field `node`, expected one of `node_id`, `event_time`, `event_type`, `fault_type`",
    );
    let two =
        [event(1.0, "fault_start", "a", "GPU Lost"), event(2.0, "fault_start", "b", "GPU Lost")];
    let (_, error, code) = replay(&json!(two).to_string(), directory.path(), &["--servers", "1"]);
    assert_eq!(code, 2);
    assert!(
        error.contains("the trace names 2 servers; --servers must be at least that"),
        "{error}"
    );
}

#[test]
fn an_odd_trace_is_told_by_line_and_replayed_the_same_every_time() {
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("out");
    let odd = json!([
        event(1.5, "fault_start", "b", "no such words"),
        event(0.5, "fault_start", "a", "GPU Lost"),
        event(0.5, "fault_end", "a", "GPU Lost"),
        event(2.0, "fault_end", "c", "GPU Lost"),
    ]);
    let trace = serde_json::to_string_pretty(&odd).unwrap();
    let run = || {
        let more = ["--servers", "4", "--spares", "1", "--report", report.to_str().unwrap()];
        let (out, error, code) = replay(&trace, directory.path(), &more);
        assert_eq!(code, 0, "{error}");
        (out, error, std::fs::read_to_string(report.join("report.json")).unwrap())
    };
    let (out, error, first) = run();
    for warning in [
        "warning: line 2: the fault never ends",
        "warning: line 12: the event is earlier than one before it",
        "warning: line 12: the fault ends as it begins",
        "warning: line 32: a fault ends that never began",
    ] {
        assert!(error.contains(warning), "{warning}\n{error}");
    }
    assert!(out.starts_with("2 days · 4 servers, 1 spare · 2 faults · seed 1 · "), "{out}");
    let found: Value = serde_json::from_str(&first).unwrap();
    let verdict = json!({"no_evidence": 0, "against_person": 0, "over_budget": 0});
    assert_eq!(found["verdict"], verdict);
    assert_eq!((&found["faults"]["read"], &found["faults"]["injected"]), (&json!(2), &json!(2)));
    let warnings = found["faults"]["warnings"].to_string();
    assert!(warnings.contains("is not known and taken for an unknown error"), "{warnings}");
    assert!(std::fs::read_to_string(report.join("report.html")).unwrap().contains("<svg"));
    assert_eq!(run().2, first);
}
