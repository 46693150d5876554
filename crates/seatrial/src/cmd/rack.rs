//! `seatrial rack`: racks as a list, and as they stand.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};

use api::{Incident, Machine, Rack};
use clap::Subcommand;
use k8s_openapi::api::core::v1::Node;
use kube::Resource as _;
use plan::tell::{Mark, slot};

use super::Outcome;
use super::view::node_of;
use crate::client::{Cluster, Where, run as block_on, unknown};
use crate::table::{self, Get};

/// Arguments of `rack`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial rack get\n  seatrial rack map\n  seatrial rack map r1 r2"
)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: Where,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List racks as kubectl does
    Get(Get),
    /// Draw racks with what is in each slot
    Map {
        /// Only these
        racks: Vec<String>,
    },
}

/// Does a verb.
pub(crate) fn run(args: &Args) -> Outcome {
    block_on(async {
        let cluster = args.cluster.connect().await?;
        match &args.verb {
            Verb::Get(get) => table::get(&cluster, &Rack::url_path(&(), None), "rack", get).await,
            Verb::Map { racks } => map(&cluster, racks).await,
        }
    })
}

/// A slot that is taken: its machine, how that stands, and the word for it.
struct Taken {
    machine: String,
    mark: Mark,
    word: String,
}

/// What is in each slot. Two machines in one are a mistake of their description, and shown as such.
type Slots = BTreeMap<u16, Vec<Taken>>;

/// Racks side by side in 100 columns.
const ACROSS: usize = 4;

/// The columns of one rack: 24, and one between.
const WIDTH: usize = 24;

async fn map(cluster: &Cluster, wanted: &[String]) -> Outcome {
    let machines: Vec<Machine> = cluster.fleet().await?;
    let described: Vec<Rack> = cluster.list().await?;
    let nodes: Vec<Node> = cluster.list().await?;
    let incidents: Vec<Incident> = cluster.list().await?;
    let mut racks: BTreeMap<String, Slots> = BTreeMap::new();
    for rack in &described {
        racks.entry(rack.metadata.name.clone().unwrap_or_default()).or_default();
    }
    let nodes: BTreeMap<&str, &Node> =
        nodes.iter().filter_map(|node| Some((node.metadata.name.as_deref()?, node))).collect();
    let mut sick: BTreeMap<&str, Vec<&Incident>> = BTreeMap::new();
    for incident in &incidents {
        sick.entry(&incident.spec.machine).or_default().push(incident);
    }
    for machine in &machines {
        let node = node_of(machine).and_then(|name| nodes.get(name).copied());
        let none = Vec::new();
        let (mark, word) = slot(machine, node, sick.get(machine.name()).unwrap_or(&none));
        let place = &machine.spec.place;
        let taken = Taken { machine: machine.name().to_owned(), mark, word };
        racks.entry(place.rack.clone()).or_default().entry(place.slot).or_default().push(taken);
    }
    if let Some(wrong) = wanted.iter().find(|name| !racks.contains_key(*name)) {
        return Err(unknown("rack", wrong, racks.keys().map(String::as_str)).into());
    }
    racks.retain(|name, _| wanted.is_empty() || wanted.contains(name));
    let mut out = std::io::stdout().lock();
    let coloured = out.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let mut named: Vec<(&String, &Slots)> = racks.iter().collect();
    // As people count: r2 before r10.
    named.sort_by_key(|(name, _)| (name.len(), (*name).clone()));
    for row in named.chunks(ACROSS) {
        out.write_all(drawn(row, coloured).as_bytes())?;
        writeln!(out)?;
    }
    let all: Vec<&Taken> = racks.values().flat_map(BTreeMap::values).flatten().collect();
    let counts = Mark::ALL.map(|mark| (all.iter().filter(|t| t.mark == mark).count(), mark));
    let counts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, mark)| format!("{} {count} {}", sign(*mark), mark.words()))
        .collect();
    Ok(writeln!(out, "{}", counts.join(" · "))?)
}

/// The sign of a mark, which colour only repeats.
const fn sign(mark: Mark) -> char {
    match mark {
        Mark::Serving => '■',
        Mark::Spare => '□',
        Mark::Underway => '▸',
        Mark::Sick => '✗',
        Mark::Waiting => '?',
    }
}

/// The colour of a mark on a terminal.
const fn colour(mark: Mark) -> &'static str {
    match mark {
        Mark::Serving => "\u{1b}[32m",
        Mark::Spare => "\u{1b}[36m",
        Mark::Underway => "\u{1b}[33m",
        Mark::Sick => "\u{1b}[31m",
        Mark::Waiting => "\u{1b}[35m",
    }
}

/// A row of racks, the highest slot on top.
fn drawn(row: &[(&String, &Slots)], coloured: bool) -> String {
    let mut lines = vec![row.iter().map(|(name, _)| fitted(name, WIDTH)).collect::<Vec<_>>()];
    let top = row.iter().filter_map(|(_, slots)| slots.keys().max()).max().copied();
    for number in (1..=top.unwrap_or_default()).rev() {
        let here = |slots: &Slots| slots.get(&number).map_or(0, Vec::len);
        let deep = row.iter().map(|(_, slots)| here(slots)).max().unwrap_or_default();
        for nth in 0..deep {
            let cell = |slots: &Slots| match slots.get(&number).and_then(|all| all.get(nth)) {
                None => fitted("", WIDTH),
                Some(taken) => filled(number, taken, coloured),
            };
            lines.push(row.iter().map(|(_, slots)| cell(slots)).collect());
        }
    }
    let mut text = String::new();
    for line in lines {
        text.push_str(line.join(" ").trim_end());
        text.push('\n');
    }
    text
}

fn filled(number: u16, taken: &Taken, coloured: bool) -> String {
    let text = format!("{number:>2} {} {} {}", sign(taken.mark), taken.machine, taken.word);
    let text = fitted(&text, WIDTH);
    if coloured { format!("{}{text}\u{1b}[0m", colour(taken.mark)) } else { text }
}

/// The text in exactly so many columns.
fn fitted(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return format!("{text}{}", " ".repeat(width - length));
    }
    let mut cut: String = text.chars().take(width - 1).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn racks_stand_side_by_side_and_no_machine_hides_another() {
        let taken = |name: &str, mark, word: &str| Taken {
            machine: name.to_owned(),
            mark,
            word: word.to_owned(),
        };
        let one: Slots = [
            (2, vec![taken("r1-s02", Mark::Serving, "h100")]),
            (1, vec![taken("a", Mark::Spare, "spare"), taken("b", Mark::Sick, "not ready")]),
        ]
        .into();
        let long = "a-name-that-is-longer-than-its-slot";
        let other: Slots = [(1, vec![taken(long, Mark::Underway, "Test")])].into();
        let (first, second) = ("r1".to_owned(), "r2".to_owned());
        let row = [(&first, &one), (&second, &other)];
        let plain = drawn(&row, false);
        let expected = [
            "r1                       r2",
            " 2 ■ r1-s02 h100",
            " 1 □ a spare              1 ▸ a-name-that-is-lon…",
            " 1 ✗ b not ready",
        ];
        assert_eq!(plain.lines().collect::<Vec<_>>(), expected);
        let coloured = drawn(&row, true);
        assert!(coloured.contains("\u{1b}[31m 1 ✗ b not ready"), "{coloured}");
    }
}
