//! The built-in catalogue, and files laid over it.

use std::collections::BTreeSet;

use plan::catalogue::{Authority, Catalogue, CatalogueError, Severity, Step};

use crate::CATALOGUE;

fn text(errors: &[CatalogueError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn refused(site: &str) -> String {
    text(&Catalogue::load(&[("site.yaml", site)]).unwrap_err())
}

#[test]
fn every_xid_of_the_catalogue_is_there() {
    let catalogue = &*CATALOGUE;
    for code in 1..=172 {
        assert!(catalogue.row(&format!("xid/{code}")).is_some(), "xid/{code}");
    }
    assert!(catalogue.row("xid/173").is_none());
    let unused: Vec<_> = catalogue.rows().filter(|row| row.reason == "UnusedXid").collect();
    assert!(unused.iter().all(|row| row.policy == "support-when-idle"));
    assert_eq!(unused.len(), 61);
}

#[test]
fn rows_without_an_answer_from_nvidia_say_that_it_is_ours() {
    let catalogue = &*CATALOGUE;
    for code in [162, 166, 167, 168, 169, 170, 171, 172] {
        let row = catalogue.row(&format!("xid/{code}")).unwrap();
        assert_eq!(row.source.authority, Authority::Inferred, "{}", row.id);
    }
}

#[test]
fn severity_and_answer_agree() {
    let catalogue = &*CATALOGUE;
    for row in catalogue.rows() {
        let policy = catalogue.policy(&row.policy).unwrap();
        match row.severity {
            Severity::S1 => {
                assert!(!policy.ladder.is_empty(), "{} is S1 and nothing is done", row.id)
            }
            Severity::S3 => {
                let harmless = policy.ladder.iter().all(|rung| {
                    matches!(
                        rung.step,
                        Step::Diagnose
                            | Step::Triage
                            | Step::Rma
                            | Step::RestartService
                            | Step::Reboot
                    )
                }) && policy.drain.as_str() == "when-idle";
                assert!(harmless, "{} is S3 and disturbs work", row.id);
            }
            Severity::S2 => {}
        }
    }
}

#[test]
fn every_policy_is_used_and_ends_with_people() {
    let catalogue = &*CATALOGUE;
    let mut used: BTreeSet<&str> = catalogue.rows().map(|row| row.policy.as_str()).collect();
    used.insert("follow");
    for policy in catalogue.policies() {
        assert!(used.contains(policy.name.as_str()), "nothing uses policy {}", policy.name);
        if let Some(last) = policy.ladder.last() {
            assert!(matches!(last.step, Step::Triage | Step::Rma), "{} ends nowhere", policy.name);
        }
    }
}

#[test]
fn a_site_changes_one_field_and_keeps_the_rest() {
    let site =
        "rows:\n- id: xid/94\n  policy: reset-when-idle\n- xid: 43 44\n  policy: restart-app\n";
    let catalogue = Catalogue::load(&[("site.yaml", site)]).unwrap();
    let before = &*CATALOGUE;
    let (old, new) = (before.row("xid/94").unwrap(), catalogue.row("xid/94").unwrap());
    assert_eq!(new.policy, "reset-when-idle");
    assert_eq!((&new.meaning, new.severity, &new.seen), (&old.meaning, old.severity, &old.seen));
    assert_eq!(catalogue.row("xid/44").unwrap().policy, "restart-app");
    assert_eq!(catalogue.row("xid/43").unwrap().reason, "ProgramStopped");
}

#[test]
fn a_site_changes_a_policy_and_adds_a_row() {
    let site = "
policies:
- name: reboot
  drain: when-idle
rows:
- id: site/coffee
  meaning: The site's own sensor.
  condition: HostHardwareFault
  reason: Coffee
  severity: S3
  scope: node
  policy: watch
  source: 'inferred: the site'
  seen: [{log: ['coffee machine on fire']}]
";
    let catalogue = Catalogue::load(&[("site.yaml", site)]).unwrap();
    assert_eq!(catalogue.policy("reboot").unwrap().drain.as_str(), "when-idle");
    assert_eq!(catalogue.policy("reboot").unwrap().ladder.len(), 5);
    assert_eq!(catalogue.row("site/coffee").unwrap().reason, "Coffee");
}

#[test]
fn errors_name_file_row_field_and_the_nearest_valid_value() {
    let cases = [
        (
            "rows: [{id: xid/94, severity: S4}]",
            "site.yaml: row xid/94: field severity: \"S4\" is not known; the nearest valid value is \"S1\"",
        ),
        (
            "rows: [{id: xid/94, policy: reset-gpus}]",
            "site.yaml: row xid/94: field policy: \"reset-gpus\" is not known; the nearest valid value is \"reset-gpu\"",
        ),
        (
            "rows: [{id: xid/9999, policy: watch}]",
            "site.yaml: row xid/9999: field id: row \"xid/9999\" is not known; the nearest valid value is \"xid/99\"; a new row needs meaning and seen",
        ),
        (
            "rows: [{id: xid/94, polcy: watch}]",
            "site.yaml: row xid/94: field polcy: field \"polcy\" is not known; the nearest valid value is \"policy\"",
        ),
        (
            "rows: [{id: ib/link-down, seen: [{metric: link-upp, below: 1}]}]",
            "site.yaml: row ib/link-down: field seen[0].metric: \"link-upp\" is not known; the nearest valid value is \"link-up\"",
        ),
        (
            "rows: [{id: ib/link-down, seen: [{metric: link-up, below: 1, for: 30sec}]}]",
            "site.yaml: row ib/link-down: field seen[0].for: \"30sec\" is no time of 0s to 400d; the nearest valid value is \"30s\"",
        ),
        (
            "rows: [{id: xid/95, repeats: [{count: 1, within: 1h, same: part, then: Reboot}]}]",
            "site.yaml: row xid/95: field repeats[0].count: must be a whole number from 2 to 1000; the nearest valid value is 2",
        ),
        (
            "rows: [{id: xid/94, repeats: [{count: 2, within: 1h, same: part, then: PowerCycle}]}]",
            "site.yaml: row xid/94: field repeats: PowerCycle is not on the ladder of policy restart-app-then-reset; the nearest valid value is \"Reboot\"",
        ),
        (
            "rows: [{id: xid/94, reason: memory-error}]",
            "site.yaml: row xid/94: field reason: must be CamelCase; the nearest valid value is \"MemoryError\"",
        ),
        (
            "policies: [{name: reboot, drain: gracefully}]",
            "site.yaml: row reboot: field drain: \"gracefully\" is not known; the nearest valid value is \"graceful\"",
        ),
        (
            "row: []",
            "site.yaml: field row: field \"row\" is not known; the nearest valid value is \"rows\"",
        ),
        ("rows: 5", "site.yaml: field rows: must be a list of maps"),
        ("[1, 2]", "site.yaml: must be a map with rows or policies"),
    ];
    for (site, expected) in cases {
        assert_eq!(refused(site), expected, "{site}");
    }
}

#[test]
fn a_hostile_file_is_refused_within_bounds() {
    let many = format!("rows: [{}]", "{id: xid/1, severity: X},".repeat(5_000));
    for site in
        ["\u{0}", "rows: [", "a: &a [*a]", &"[".repeat(100_000), &"x".repeat(2 << 20), &many]
    {
        let errors = Catalogue::load(&[("site.yaml", site)]).unwrap_err();
        assert!((1..=100).contains(&errors.len()), "{}", errors.len());
    }
}
