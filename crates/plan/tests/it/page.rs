//! The page that people read says what the catalogue says.
//!
//! `UPDATE=1 cargo test -p plan page` writes it anew.

use std::fmt::Write as _;
use std::path::Path;

use plan::catalogue::{Repeat, Row, Same};

use crate::CATALOGUE;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/faults.md");

const HEAD: &str = "# Faults

Every fault that Seatrial knows: what it means, how bad it is, what is done first and where repeats
lead. The rows are data in `crates/plan/catalogue/`; this page is made from them
(`UPDATE=1 cargo test -p plan page`) and a test fails when it is old.

**Severity.** S1: the node leaves production, or the part is reset, at once. S2: the program dies and the
node stays; repeats count. S3: counted.

**First.** How running work ends (`now`, `graceful`: with the time that each pod asks for, `when-idle`:
the step waits), then the step. `count` does nothing else. A step that fails its proof is followed by the
next on the ladder of its policy; the [policies](#policies) stand at the end. XID 154, with which the
driver itself names the recovery, overrides the first step of every XID of the same GPU within a minute.

**Source.** `nvidia`: NVIDIA's documents; `published`: another source, named in the row's file; `inferred`:
ours, because no source gives an answer. The source speaks of the row; times, counts and the order of
steps in a policy are ours where its file names no source.

## Change it for your site

A file laid over the catalogue changes single fields of rows or policies, without a rebuild; everything
else stays. A wrong file is refused with file, row, field and the nearest valid value.

```yaml
policies:
  - name: reboot
    drain: when-idle
rows:
  - id: xid/94
    policy: reset-when-idle
  - xid: 39-41 70-72
    severity: S3
```
";

/// The parts of the page: title, and the beginning of the rows' names.
const SECTIONS: &[(&str, &[&str])] = &[
    ("GPU driver (XID)", &["xid/", "xid-unknown"]),
    ("Recovery named by the driver (XID 154)", &["xid154/"]),
    ("NVLink registers (XID 74)", &["xid74/"]),
    ("NVLink 5 words (XID 144 to 150)", &["nvlink5/"]),
    ("NVSwitch driver (SXID)", &["sxid/", "sxid-unknown/"]),
    ("GPUs and NVLinks", &["gpu/", "nvlink/"]),
    ("Compute fabric", &["ib/", "nic/"]),
    ("Speed", &["perf/"]),
    ("Host, kernel and storage", &["node/", "kernel/", "nvme/", "fs/"]),
    ("BMC", &["bmc/"]),
    ("Drift and people", &["drift/", "ops/"]),
];

/// Rows of one table line: the same in everything but their code.
struct Group<'a> {
    codes: Vec<u32>,
    row: &'a Row,
    text: String,
}

fn code(row: &Row) -> Option<u32> {
    let (family, code) = row.id.as_str().split_once('/')?;
    matches!(family, "xid" | "sxid").then(|| code.parse().ok())?
}

fn line(row: &Row) -> String {
    let meaning = match code(row) {
        Some(code) => row
            .meaning
            .replace(&format!(" (XID {code})"), "")
            .replace(&format!(" (SXID {code})"), "")
            .replace(&format!("XID {code} is"), "This code is"),
        None => row.meaning.clone(),
    };
    let policy = CATALOGUE.policy(&row.policy).unwrap();
    let first = match policy.ladder.first() {
        Some(rung) if !policy.only_repeats => format!("{} {}", policy.drain, rung.step),
        _ => "count".to_owned(),
    };
    let repeats: Vec<String> = row.repeats.iter().chain(&policy.repeats).map(repeat).collect();
    format!(
        "{meaning} | {}: {} | {} | {first} | {} | {} | {}",
        row.condition,
        row.reason,
        row.severity,
        repeats.join("; "),
        row.policy,
        row.source.authority
    )
}

fn repeat(repeat: &Repeat) -> String {
    let hours = repeat.within.as_secs() / 3_600;
    let within = if hours.is_multiple_of(24) && hours > 24 {
        format!("{} d", hours / 24)
    } else {
        format!("{hours} h")
    };
    let same = match repeat.same {
        Same::Unit => ", same unit",
        Same::Part => "",
        Same::Node => ", node",
    };
    format!("{} in {within}{same}: {}", repeat.count, repeat.escalate)
}

fn groups(starts: &[&str]) -> Vec<Group<'static>> {
    let mut rows: Vec<&Row> = CATALOGUE
        .rows()
        .filter(|row| starts.iter().any(|start| row.id.as_str().starts_with(start)))
        .collect();
    rows.sort_by_key(|row| code(row));
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in rows {
        let text = line(row);
        let code = code(row);
        let known = groups.iter_mut().find(|group| code.is_some() && group.text == text);
        match known {
            Some(group) => group.codes.extend(code),
            None => groups.push(Group { codes: code.into_iter().collect(), row, text }),
        }
    }
    groups
}

/// 39, 40, 41, 70 as `39–41, 70`.
fn ranges(codes: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &code in codes {
        match parts.last_mut() {
            Some((_, end)) if *end + 1 == code => *end = code,
            _ => parts.push((code, code)),
        }
    }
    let text = |(low, high): &(u32, u32)| {
        if low == high { low.to_string() } else { format!("{low}–{high}") }
    };
    parts.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn page() -> String {
    let mut text = HEAD.to_owned();
    for (title, starts) in SECTIONS {
        write!(text, "\n## {title}\n\n").unwrap();
        text.push_str("| fault | meaning | condition: reason | severity | first | repeats | policy | source |\n");
        text.push_str("|---|---|---|---|---|---|---|---|\n");
        for group in groups(starts) {
            let name = match group.codes.is_empty() {
                true => format!("`{}`", group.row.id),
                false => ranges(&group.codes),
            };
            writeln!(text, "| {name} | {} |", group.text).unwrap();
        }
    }
    text.push_str(
        "\n## Policies\n\n| policy | what it does | work ends | steps |\n|---|---|---|---|\n",
    );
    for policy in CATALOGUE.policies() {
        let steps: Vec<String> = policy
            .ladder
            .iter()
            .map(|rung| {
                let service =
                    rung.service.as_deref().map(|s| format!(" ({s})")).unwrap_or_default();
                format!(
                    "{}× {}{service}, {} min",
                    rung.tries,
                    rung.step,
                    rung.within.as_secs() / 60
                )
            })
            .collect();
        writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            policy.name,
            policy.about,
            policy.drain,
            steps.join(" → ")
        )
        .unwrap();
    }
    text
}

#[test]
fn the_page_is_current() {
    let page = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PAGE, &page).unwrap();
    }
    let written = std::fs::read_to_string(Path::new(PAGE)).unwrap_or_default();
    assert!(written == page, "docs/faults.md is old: UPDATE=1 cargo test -p plan page");
}

#[test]
fn every_row_is_on_the_page() {
    let listed: usize = SECTIONS
        .iter()
        .flat_map(|(_, starts)| groups(starts))
        .map(|group| group.codes.len().max(1))
        .sum();
    assert_eq!(listed, CATALOGUE.rows().count());
}
