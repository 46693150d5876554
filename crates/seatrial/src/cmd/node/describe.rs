//! All that is known of a node and the machine below it, on one page.

use std::io::Write;

use plan::catalogue::Catalogue;

use super::super::Outcome;
use super::super::view::View;
use crate::table::aligned;

pub(in crate::cmd) fn run(view: &View) -> Outcome {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", view.why(&Catalogue::built_in()))?;
    let fields = fields(view);
    let lines: Vec<Vec<String>> =
        fields.into_iter().map(|(name, value)| vec![format!("{name}:"), value]).collect();
    write!(out, "\n{}", aligned(&lines))?;
    for (title, lines) in [
        ("Conditions", conditions(view)),
        ("Parts", parts(view)),
        ("Tests", tests(view)),
        ("Pods", pods(view)),
        ("Incidents", incidents(view)),
    ] {
        if lines.len() > 1 {
            write!(out, "\n{title}:\n")?;
            for line in aligned(&lines).lines() {
                writeln!(out, "  {line}")?;
            }
        }
    }
    Ok(())
}

fn fields(view: &View) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    let mut tell = |name, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            all.push((name, value));
        }
    };
    tell("Node", view.node.as_ref().and_then(|node| node.metadata.name.clone()));
    let Some(machine) = &view.machine else { return all };
    let (spec, place) = (&machine.spec, &machine.spec.place);
    let status = machine.status.clone().unwrap_or_default();
    tell("Machine", Some(machine.name().to_owned()));
    tell("Type", Some(spec.instance_type.clone()));
    let row = place.row.as_ref().map_or(String::new(), |row| format!("/{row}"));
    tell("Place", Some(format!("{}{row}/{} slot {}", place.site, place.rack, place.slot)));
    tell("Leaf", place.leaf.clone());
    tell("NVLink domain", place.nvlink_domain.clone());
    tell("State", Some(format!("{} ({})", status.state, status.role.name())));
    tell("Stage", Some(status.stage.clone()));
    tell("Pool", status.pool.clone());
    tell("Tenant", status.tenant.clone());
    tell("Reserved for", spec.reservation.clone());
    tell("Image", status.agent.as_ref().map(|agent| agent.image.clone()));
    tell("Boot", status.agent.as_ref().map(|agent| agent.boot.clone()));
    let firmware: Vec<String> =
        status.firmware.iter().map(|(part, version)| format!("{part} {version}")).collect();
    tell("Firmware", Some(firmware.join(", ")));
    tell("BMC", Some(spec.bmc.address.clone()));
    let lemon = status.lemon.map(|lemon| format!("{} of 100", lemon.score));
    tell("Lemon score", lemon);
    all
}

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

fn conditions(view: &View) -> Vec<Vec<String>> {
    let mut lines = vec![row(&["TYPE", "STATUS", "REASON", "MESSAGE"])];
    let node = view.node.iter().filter_map(|node| node.status.as_ref()?.conditions.as_ref());
    for condition in node.flatten() {
        let (reason, message) = (&condition.reason, &condition.message);
        let (reason, message) = (reason.as_deref(), message.as_deref());
        lines.push(row(&[
            &condition.type_,
            &condition.status,
            reason.unwrap_or_default(),
            message.unwrap_or_default(),
        ]));
    }
    let machine = view.machine.iter().filter_map(|machine| machine.status.as_ref());
    for condition in machine.flat_map(|status| &status.conditions) {
        let (status, reason) = (&condition.status, &condition.reason);
        lines.push(row(&[&condition.type_, status, reason, &condition.message]));
    }
    lines
}

fn parts(view: &View) -> Vec<Vec<String>> {
    let mut lines = vec![row(&["PART", "FOUND"])];
    let machine = view.machine.as_ref().and_then(|machine| machine.status.as_ref());
    if let Some(inventory) = machine.and_then(|status| status.inventory.as_ref())
        && let Ok(serde_json::Value::Object(parts)) = serde_json::to_value(inventory)
    {
        lines.extend(parts.iter().map(|(part, found)| {
            let found = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
            row(&[part, &found])
        }));
    }
    lines
}

fn tests(view: &View) -> Vec<Vec<String>> {
    let mut lines = vec![row(&["WHEN", "TEST", "PASSED", "DETAIL"])];
    let machine = view.machine.iter().filter_map(|machine| machine.status.as_ref());
    for test in machine.flat_map(|status| &status.tests).take(5) {
        let passed = if test.passed { "yes" } else { "no" };
        let at = test.at.strftime("%Y-%m-%d %H:%M:%S").to_string();
        lines.push(row(&[&at, &test.test, passed, &test.detail]));
    }
    lines
}

fn pods(view: &View) -> Vec<Vec<String>> {
    let mut lines = vec![row(&["NAMESPACE", "NAME", "PHASE", "TREATMENT"])];
    for pod in &view.pods {
        let (meta, treatment) = (&pod.metadata, plan::pod::treatment(pod));
        let treatment = if plan::pod::holds(pod) { treatment.name() } else { "holds nothing" };
        lines.push(row(&[
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default(),
            plan::pod::phase(pod),
            treatment,
        ]));
    }
    lines
}

fn incidents(view: &View) -> Vec<Vec<String>> {
    let mut lines = vec![row(&["OPENED", "CAUSE", "STAGE", "END", "WHY"])];
    let mut own = view.own_incidents();
    own.sort_by_key(|incident| std::cmp::Reverse(incident.spec.opened));
    for incident in own.iter().take(10) {
        let status = incident.status.clone().unwrap_or_default();
        let end = status.end.map_or(String::new(), |end| format!("{end:?}"));
        let at = incident.spec.opened.strftime("%Y-%m-%d %H:%M:%S").to_string();
        let stage = format!("{:?}", status.stage);
        lines.push(row(&[&at, &incident.spec.cause, &stage, &end, &status.why]));
    }
    lines
}
