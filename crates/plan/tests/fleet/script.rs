//! Scripts in, decisions out: each `scripts/NAME.txt` is played and what happened is compared with
//! `scripts/NAME.out`. `UPDATE=1 cargo test -p plan --test fleet` writes the latter; read the diff.
//!
//! A line is `at TIME VERB ARGUMENTS`; `#` begins a remark, `until TIME` ends the play.

use crate::world::{Cure, Ill, Mode, World};
use api::NodePool;
use api::node_pool::NodePoolSpec;
use api::request::{Ask, Chore, Request};
use api::treatment::Treatment;
use plan::node::{PodSeen, Reported};
use std::path::{Path, PathBuf};
use std::time::Duration;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/scripts")
}

#[test]
fn every_script_plays_as_written() {
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .collect();
    scripts.sort();
    assert!(scripts.len() > 20, "the scripts are gone");
    let update = std::env::var_os("UPDATE").is_some();
    let mut differ = Vec::new();
    for script in scripts {
        let played = play(&std::fs::read_to_string(&script).unwrap());
        let golden = script.with_extension("out");
        if update {
            std::fs::write(&golden, &played).unwrap();
        } else if std::fs::read_to_string(&golden).unwrap_or_default() != played {
            differ.push(format!("{}:\n{played}", script.display()));
        }
    }
    assert!(differ.is_empty(), "played otherwise than written:\n{}", differ.join("\n"));
}

/// Plays one script and gives what happened.
fn play(script: &str) -> String {
    let lines = script.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    let mut lines = lines.peekable();
    let first = lines.next().unwrap();
    let count = first.strip_prefix("machines ").unwrap().parse().unwrap();
    let mut world = World::new(count);
    let start = world.now;
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = start.checked_add(time(words[1])).unwrap();
        if at > world.now {
            world.run(at);
        }
        match words[0] {
            "at" => {
                world.say(format!("> {}", words[2..].join(" ")));
                act(&mut world, &words[2..]);
            }
            "until" => {}
            other => panic!("a line begins with at or until, not {other:?}"),
        }
    }
    assert!(world.wrong.is_empty(), "lint: {:#?}\n{}", world.wrong, world.log.join("\n"));
    for (name, machine) in &world.machines {
        let status = machine.status.clone().unwrap_or_default();
        let serving =
            world.nodes.get(name).and_then(|n| n.condition("InService")).map(|c| c.reason.clone());
        let line =
            format!("= {name} {} {}: {}", status.state, serving.unwrap_or_default(), status.why);
        world.log.push(line);
    }
    world.log.join("\n") + "\n"
}

fn time(word: &str) -> Duration {
    let (number, unit) = word.split_at(word.len() - 1);
    let number: u64 = number.parse().unwrap();
    Duration::from_secs(
        number
            * match unit {
                "s" => 1,
                "m" => 60,
                "h" => 3_600,
                "d" => 86_400,
                other => panic!("no unit {other:?}"),
            },
    )
}

fn act(world: &mut World, words: &[&str]) {
    match *words {
        ["limit", nodes] => world.ledger.spec.fleet.nodes = Some(nodes.parse().unwrap()),
        ["idle-tests"] => world.rules.idle_test_every = Some(Duration::from_secs(3_600)),
        ["acknowledge", breaker] => {
            let breaker =
                world.breakers.iter_mut().find(|b| b.metadata.name.as_deref() == Some(breaker));
            let breaker = breaker.unwrap();
            breaker.spec.acknowledged = breaker.status.as_ref().unwrap().openings;
            breaker.spec.by = Some("ada".to_owned());
        }
        ["pool", name, target] => {
            let known = world.pools.iter_mut().find(|p| p.metadata.name.as_deref() == Some(name));
            let target = Some(target.parse().unwrap());
            match known {
                Some(pool) => pool.spec.target_nodes = target,
                None => world.pools.push(NodePool::new(
                    name,
                    NodePoolSpec {
                        instance_type: "h100".to_owned(),
                        tenant: format!("tenant-{name}"),
                        target_nodes: target,
                        ..NodePoolSpec::default()
                    },
                )),
            }
        }
        [verb, name, ref rest @ ..] => act_on(world, verb, name, rest),
        _ => panic!("what is {words:?}?"),
    }
}

fn act_on(world: &mut World, verb: &str, name: &str, rest: &[&str]) {
    let now = world.now;
    let machine = world.machines.get_mut(name).unwrap();
    let hardware = world.hardware.get_mut(name).unwrap();
    match (verb, rest) {
        ("uncertify", []) => machine.spec.certified = 0,
        ("certify", []) => {
            machine.spec.certified = machine.status.as_ref().unwrap().onboardings;
        }
        ("ask", [ask]) => {
            let ask: Ask = serde_json::from_value((*ask).into()).unwrap();
            machine.spec.request = Some(Request {
                id: format!("ada-{}", now.as_second()),
                ask,
                target: None,
                by: "ada".to_owned(),
                why: "a person wants it".to_owned(),
                evidence: Vec::new(),
                incident: None,
                node_uid: None,
                boot: None,
                shown: None,
                at: now,
            });
            machine.metadata.generation = machine.metadata.generation.map(|g| g + 1);
        }
        ("ask-stale", [ask, boot]) => {
            act_on(world, "ask", name, &[*ask]);
            let machine = world.machines.get_mut(name).unwrap();
            machine.spec.request.as_mut().unwrap().boot = Some((*boot).to_owned());
        }
        ("gpus", [count]) => hardware.inventory.gpus = count.parse().unwrap(),
        ("bmc", [how]) => hardware.bmc = mode(how),
        ("boots", [how]) => hardware.boots = mode(how),
        ("joins", [how]) => hardware.joins = *how == "yes",
        ("stale", [how]) => hardware.stale = *how == "yes",
        ("chore", [chore, how]) => {
            let chore: Chore = serde_json::from_value((*chore).into()).unwrap();
            hardware.chore.retain(|(there, _)| *there != chore);
            hardware.chore.push((chore, mode(how)));
        }
        ("fault", [row, part, cure]) => hardware.ill.push(Ill {
            row: (*row).to_owned(),
            part: (*part != "-").then(|| (*part).to_owned()),
            cure: match *cure {
                "reset" => Cure::Reset,
                "boot" => Cure::Boot,
                "cycle" => Cure::Cycle,
                _ => Cure::Never,
            },
            since: now,
        }),
        ("heal", []) => hardware.ill.clear(),
        ("hands-off", why) => {
            let why = why.join(" ");
            world.nodes.get_mut(name).unwrap().hands_off = (!why.is_empty()).then_some(why);
        }
        ("hands-off-machine", why) => {
            let annotations = machine.metadata.annotations.get_or_insert_default();
            annotations.remove(api::names::HANDS_OFF);
            if !why.is_empty() {
                annotations.insert(api::names::HANDS_OFF.to_owned(), why.join(" "));
            }
        }
        ("cordon", []) => world.nodes.get_mut(name).unwrap().unschedulable = true,
        ("uncordon", []) => world.nodes.get_mut(name).unwrap().unschedulable = false,
        ("phase", [kind, phase]) => {
            let kind = if *kind == "now" { "ImmediatePhase" } else { "PendingPhase" };
            world.nodes.get_mut(name).unwrap().conditions.push(Reported {
                kind: kind.to_owned(),
                holds: true,
                reason: (*phase).to_owned(),
                message: "a person wants it".to_owned(),
                by: "ada".to_owned(),
                since: now,
            });
        }
        ("withdraw-phase", []) => {
            world.nodes.get_mut(name).unwrap().conditions.retain(|c| !c.kind.ends_with("Phase"));
        }
        ("pod", [pod, treatment]) => {
            let pod = PodSeen {
                namespace: "acme".to_owned(),
                name: (*pod).to_owned(),
                uid: format!("pod-{pod}"),
                treatment: Treatment::read(Some(treatment)),
                holds: true,
                grace: Duration::from_secs(60),
                ending: None,
            };
            world.pods.entry(name.to_owned()).or_default().push(pod);
        }
        ("pod-ends", [pod]) => {
            world.pods.get_mut(name).unwrap().retain(|there| there.name != *pod);
        }
        _ => panic!("what is {verb:?} {rest:?}?"),
    }
}

fn mode(word: &str) -> Mode {
    match word.split_once('-') {
        Some(("fails", n)) => Mode::FailsTimes(n.parse().unwrap()),
        Some(("hangs", n)) => Mode::HangsTimes(n.parse().unwrap()),
        _ => match word {
            "well" => Mode::Well,
            "fails" => Mode::Fails,
            "hangs" => Mode::Hangs,
            other => panic!("no mode {other:?}"),
        },
    }
}
