//! Our controllers on upstream Kubernetes: installed by kubectl, with the rights that are printed and no
//! others, on a simulated site.
//!
//! Checked: every machine asks the boot service who it is, joins by a one-time token, by a certificate that
//! upstream has signed, comes to production, and every node is Ready; a fault is healed; the leader is
//! killed in the midst of a repair and the next goes on, with no machine reset twice; a second
//! installation changes nothing, an uninstallation loses no object, and pods of the Deployment pass the
//! strictest pod security.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::session::{Session, output};
use crate::upstream;

/// What has not happened on the simulated site by then will not: two busy cores took a minute.
const WITHIN: Duration = Duration::from_secs(300);

const MACHINES: usize = 8;
const SITE: &[&str] = &["--nodes=6", "--cpu-nodes=2", "--racks=2", "--spares=1"];
const SPEED: &str = "--speed=600";

const NAMESPACE: &str = "seatrial-system";
const ACCOUNT: &str = "seatrial-controllers";
const LEADERS: [&str; 2] = ["first", "second"];

/// See the module.
pub(crate) fn check(session: &mut Session) -> Result<()> {
    let printed = seatrial(session, &["install", "--print"])?;
    session.feed(&["apply", "--server-side", "-f", "-"], &printed)?;
    session.kubectl("wait crd --all --for=condition=Established --timeout=60s")?;
    let account = account(session)?;
    let boots = upstream::free_ports::<2>()?.map(|port| format!("127.0.0.1:{port}"));
    for (leader, boots) in LEADERS.into_iter().zip(&boots) {
        start_controllers(session, leader, &account, boots)?;
    }
    start_site(session, &boots)?;
    all_serve(session)?;
    each_joined(session)?;
    each_answers(session, &boots)?;
    let (leader, waits) = leader(session)?;
    // Cured by a reset of the GPU, while nothing else goes wrong.
    strike(session, "gpu-ecc", "r1-s01")?;
    cured(session, "r1-s01")?;
    // Cured by a reboot, whose power operation outlives the process that decided it.
    strike(session, "xid/79", "r2-s01")?;
    session.until_within(WITHIN, "no incident is opened", || {
        let opened = incidents(session, "r2-s01")?;
        ensure!(!opened.is_empty(), "there is none");
        Ok(())
    })?;
    session.kill(leader)?;
    session.until("nobody takes over", || {
        ensure!(self::leader(session)?.0 == waits, "the lease is still {leader}'s");
        Ok(())
    })?;
    cured(session, "r2-s01")?;
    nothing_is_reset_twice(session)?;
    // Whoever still gives a node back to its pool would take its Node away, rightly.
    session.kill(waits)?;
    reinstalled(session)?;
    deployed(session)
}

fn seatrial(session: &Session, words: &[&str]) -> Result<String> {
    output(session.command(&session.program).args(words))
}

/// A kubeconfig by which a process is the controllers' account, as a pod of it would be.
fn account(session: &Session) -> Result<PathBuf> {
    let token = session.kubectl(&format!("-n {NAMESPACE} create token {ACCOUNT}"))?;
    let text = session.kubectl("config view --raw --minify --flatten -o json")?;
    let mut config: Value = serde_json::from_str(&text)?;
    let user = config.pointer_mut("/users/0/user").context("no user in the kubeconfig")?;
    *user = serde_json::json!({"token": token.trim()});
    let path = session.dir.join("account.kubeconfig");
    fs::write(&path, config.to_string())?;
    Ok(path)
}

fn start_controllers(
    session: &mut Session,
    name: &'static str,
    account: &std::path::Path,
    boots: &str,
) -> Result<()> {
    // The name of its host is how a process calls itself in the lease.
    let flags = [
        format!("HOSTNAME={name}"),
        session.program.display().to_string(),
        "controllers".to_owned(),
        format!("--kubeconfig={}", account.display()),
        "--listen=127.0.0.1:0".to_owned(),
        format!("--boot-listen={boots}"),
        "--boot-images=http://images.example".to_owned(),
        SPEED.to_owned(),
    ];
    session.spawn(name, "env".as_ref(), &flags)
}

fn start_site(session: &mut Session, boots: &[String]) -> Result<()> {
    let mut flags = vec![
        "simulate".to_owned(),
        "site".to_owned(),
        format!("--kubeconfig={}", session.kubeconfig.display()),
        format!("--data-dir={}", site(session).display()),
        SPEED.to_owned(),
    ];
    flags.extend(boots.iter().map(|address| format!("--boot-url=http://{address}")));
    flags.extend(SITE.iter().map(|flag| (*flag).to_owned()));
    let program = session.program.clone();
    session.spawn("site", &program, &flags)
}

fn site(session: &Session) -> PathBuf {
    session.dir.join("site")
}

/// Every machine is in production, and every node Ready.
fn all_serve(session: &Session) -> Result<()> {
    session.until_within(WITHIN, "not every machine is in production", || {
        let states = session.kubectl("get machines -o jsonpath={.items[*].status.state}")?;
        let states: Vec<&str> = states.split_whitespace().collect();
        let serve = states.iter().filter(|state| **state == "Production").count();
        ensure!(serve == MACHINES, "{serve} of {MACHINES} are: {}", states.join(" "));
        Ok(())
    })?;
    session.until_within(WITHIN, "not every node is Ready", || {
        let ready = "{.items[*].status.conditions[?(@.type==\"Ready\")].status}";
        let ready = session.kubectl(&format!("get nodes -o jsonpath={ready}"))?;
        ensure!(ready.split_whitespace().eq(["True"; MACHINES]), "they are {ready}");
        Ok(())
    })
}

/// Every node has a certificate of its own, asked for with a token, approved by our controller, and
/// issued by upstream's.
fn each_joined(session: &Session) -> Result<()> {
    let all: Value = serde_json::from_str(&session.kubectl("get csr -o json")?)?;
    let items = all["items"].as_array().context("no list of requests")?;
    let issued = |one: &&Value| {
        let by = one["spec"]["username"].as_str().unwrap_or_default();
        by.starts_with("system:bootstrap:") && one["status"]["certificate"].is_string()
    };
    let issued = items.iter().filter(issued).count();
    ensure!(issued >= MACHINES, "{issued} certificates were issued for {MACHINES} machines");
    Ok(())
}

/// Whoever leads, each process tells a machine what it boots, and says the same.
fn each_answers(session: &Session, boots: &[String]) -> Result<()> {
    let mac = session.kubectl("get machine r1-s01 -o jsonpath={.spec.macs[0]}")?;
    let mut told = BTreeSet::new();
    for address in boots {
        let mut answer =
            ureq::get(format!("http://{address}/boot/v1/script?mac={}", mac.trim())).call()?;
        told.insert(answer.body_mut().read_to_string()?.replace(address, "ADDRESS"));
    }
    ensure!(told.len() == 1, "they say different things: {told:#?}");
    Ok(())
}

/// Who leads by the lease, and who does not.
fn leader(session: &Session) -> Result<(&'static str, &'static str)> {
    let words = format!("-n {NAMESPACE} get lease {ACCOUNT} -o jsonpath={{.spec.holderIdentity}}");
    let holder = session.kubectl(&words)?;
    let [first, second] = LEADERS;
    match holder.split('_').next() {
        Some(name) if name == first => Ok((first, second)),
        Some(name) if name == second => Ok((second, first)),
        _ => bail!("the lease is `{holder}`'s"),
    }
}

fn strike(session: &Session, fault: &str, machine: &str) -> Result<()> {
    let data = format!("--data-dir={}", site(session).display());
    seatrial(session, &["simulate", "fault", fault, machine, &data]).map(drop)
}

/// The incidents of a node, as stage and end.
fn incidents(session: &Session, node: &str) -> Result<Vec<(String, String)>> {
    let all: Value = serde_json::from_str(&session.kubectl("get incidents -o json")?)?;
    let items = all["items"].as_array().context("no list of incidents")?;
    let of = items.iter().filter(|incident| incident["spec"]["node"] == node);
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(of.map(|one| (word(&one["status"]["stage"]), word(&one["status"]["end"]))).collect())
}

/// Its incidents are closed, and the fault is gone.
fn cured(session: &Session, node: &str) -> Result<()> {
    session.until_within(WITHIN, &format!("{node} is not cured"), || {
        let found = incidents(session, node)?;
        let solved = |(stage, end): &(String, String)| stage == "Closed" && end == "Solved";
        ensure!(!found.is_empty() && found.iter().all(solved), "its incidents: {found:?}");
        Ok(())
    })?;
    let data = format!("--data-dir={}", site(session).display());
    let broken = seatrial(session, &["simulate", "list", &data])?;
    ensure!(!broken.contains(node), "still broken: {broken}");
    Ok(())
}

/// By the hardware's own account, which no controller writes.
fn nothing_is_reset_twice(session: &Session) -> Result<()> {
    let account = fs::read_to_string(site(session).join("hardware.json"))?;
    let lines = account.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let truths: Vec<Value> = lines.map(|line| line["truth"].clone()).collect();
    let some = |field: &str| truths.iter().filter(|t| t[field].as_u64() > Some(0)).count();
    ensure!(some("resets") > 0, "the account tells of no reset");
    ensure!(some("cutOffs") == 0, "a boot was cut off by a second reset");
    Ok(())
}

/// Another installation changes nothing; an uninstallation loses nothing.
fn reinstalled(session: &Session) -> Result<()> {
    let objects = || {
        let columns = "KIND:.kind,NAME:.metadata.name,UID:.metadata.uid";
        let words = format!(
            "get machines,nodepools,incidents,nodes --no-headers -o custom-columns={columns}"
        );
        let all = session.kubectl(&words)?;
        anyhow::Ok(all.lines().map(str::to_owned).collect::<BTreeSet<_>>())
    };
    let before = objects()?;
    ensure!(before.len() > 2 * MACHINES, "there are but {}", before.len());
    // kubectl applied it under another manager's name; from the second time on it is ours.
    seatrial(session, &["install"])?;
    let again = seatrial(session, &["install"])?;
    ensure!(again.starts_with("0 created, 0 changed, "), "a second installation: {again}");
    seatrial(session, &["uninstall", "--yes"])?;
    session.until_get("clusterroles -l app.kubernetes.io/name=seatrial -o name", "")?;
    let after = objects()?;
    let lost: Vec<&String> = before.difference(&after).collect();
    ensure!(lost.is_empty(), "lost: {lost:#?}");
    Ok(())
}

/// The Deployment's pods are admitted under the namespace's standard.
fn deployed(session: &Session) -> Result<()> {
    let image = "--image=registry.example/seatrial";
    seatrial(session, &["install", image])?;
    let again = [
        image,
        "--boot-images=http://images.example/",
        "--boot-url=http://boot.example:8082",
        "--boot-api=https://api.example:6443",
        "--boot-argument=console=ttyS0",
    ];
    seatrial(session, &[&["install"], &again[..]].concat())?;
    let pods = "{.items[*].spec.serviceAccountName}";
    let words = format!("-n {NAMESPACE} pods -o jsonpath={pods}");
    session.until_get(&words, &[ACCOUNT; 2].join(" "))?;
    // What the Service selects is what the Deployment runs, by the port's name.
    let boot = "{.spec.selector.app\\.kubernetes\\.io/component}:{.spec.ports[*].targetPort}";
    let words = format!("-n {NAMESPACE} service seatrial-boot -o jsonpath={boot}");
    session.until_get(&words, &format!("{ACCOUNT}:boot"))?;
    let port = "{.items[*].spec.containers[*].ports[?(@.name==\"boot\")].containerPort}";
    session.until_get(&format!("-n {NAMESPACE} pods -o jsonpath={port}"), "8082 8082")?;
    seatrial(session, &["uninstall", "--yes"])?;
    let left = format!("-n {NAMESPACE} deployments,poddisruptionbudgets,services -o name");
    session.until_get(&left, "")
}
