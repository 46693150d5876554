//! A fleet at scale beside its peers' published figures: how it comes up, falls ill, and comes back.
//!
//! What takes hours of hardware is measured in virtual time, with all delays of the simulator; what is
//! about latency, on the wall clock over TLS with server, controllers and load in processes of their
//! own. Peers' figures are theirs, on their machines: a frame, and not a comparison in one run.

mod peers;
mod table;
mod wire;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use self::table::{Line, Table};
use crate::tool;

/// Arguments of `cargo xtask bench fleet`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask bench fleet\n  cargo xtask bench fleet --only bring-up\n  cargo xtask bench fleet --only cordon,return --nodes 1500"
)]
pub(crate) struct Args {
    /// Only these parts (repeatable or after commas) [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    only: Vec<Part>,
    /// Nodes of the fleet that falls ill
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    nodes: usize,
    /// Nodes that lose their server and find it again
    #[arg(long, default_value_t = 6_000, value_name = "N")]
    herd: usize,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// From power-off to production, 450 and 4,500 machines
    BringUp,
    /// The same with 10,000 machines, and what memory it takes
    Memory,
    /// From a fault to a cordon, one by one and 750 at once
    Cordon,
    /// All nodes find the embedded server again at one instant
    Return,
    /// All nodes find upstream's server again at one instant
    ReturnUpstream,
}

impl Part {
    const ALL: [Self; 5] =
        [Self::BringUp, Self::Memory, Self::Cordon, Self::Return, Self::ReturnUpstream];
}

/// Builds what is measured, measures it, and prints the table.
#[expect(clippy::print_stdout, reason = "the table is what was asked for")]
pub(crate) fn run(args: &Args) -> Result<()> {
    let parts: &[Part] = if args.only.is_empty() { &Part::ALL } else { &args.only };
    tool::release()?;
    let mut table = Table::begin()?;
    for part in parts {
        match part {
            Part::BringUp => bring_up(&mut table)?,
            Part::Memory => memory(&mut table)?,
            Part::Cordon => cordon(&mut table, args.nodes)?,
            Part::Return => returns(&mut table, args.herd, wire::Place::Embedded)?,
            Part::ReturnUpstream => returns(&mut table, args.herd, wire::Place::Upstream)?,
        }
    }
    println!("\n{}", table.markdown()?);
    Ok(())
}

/// Machines of eight GPUs in a rack, of which four may be switched on at once: what most halls can cool.
const RACK: usize = 4;

/// The same where the hall can cool more: half of a rack waits while the other half boots.
const FULL_RACK: usize = 8;

/// One fleet in a process of its own, since its memory is a figure.
fn measured(machines: usize, per_rack: usize) -> Result<Value> {
    let mut command = tool::example("measure_fleet");
    command.args([machines.to_string(), per_rack.to_string()]);
    let output = command.output().context("cannot start measure_fleet")?;
    if !output.status.success() {
        bail!("{machines} machines: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("measure_fleet printed no JSON")
}

/// A number of what a measurement printed.
fn number(found: &Value, name: &str) -> Result<f64> {
    found.get(name).and_then(Value::as_f64).with_context(|| format!("no {name} in {found}"))
}

/// Requests for each machine.
fn requests(found: &Value) -> Result<f64> {
    let all = found.get("requests").and_then(Value::as_object).context("no requests")?;
    let sum: f64 = all.values().filter_map(Value::as_f64).sum();
    Ok(sum / number(found, "machines")?)
}

fn bring_up(table: &mut Table) -> Result<()> {
    let (few, many) = (measured(450, RACK)?, measured(4_500, RACK)?);
    let minutes = number(&many, "seconds")? / 60.0;
    table.add(Line {
        what: "4,500 machines from power-off to production in racks of 4, simulated".to_owned(),
        ours: format!("{minutes:.1} min"),
        goal: "<= 30 min",
        peer: peers::BRING_UP,
    });
    let full = number(&measured(450, FULL_RACK)?, "seconds")? / 60.0;
    table.add(Line {
        what: "450 machines in racks of 8, of which 4 at once are switched on".to_owned(),
        ours: format!("{full:.1} min"),
        goal: "<= 30 min",
        peer: "",
    });
    let (small, large) = (number(&few, "cpu_seconds")?, number(&many, "cpu_seconds")?);
    table.add(Line {
        what: "CPU for it, over that for 450".to_owned(),
        ours: format!("{large:.1} s over {small:.1} s: {:.1}", large / small),
        goal: "<= 11",
        peer: peers::SUPERLINEAR,
    });
    table.add(Line {
        what: "requests to the API for each of 450, of 4,500".to_owned(),
        ours: format!("{:.1}, {:.1}", requests(&few)?, requests(&many)?),
        goal: "equal",
        peer: "",
    });
    Ok(())
}

fn memory(table: &mut Table) -> Result<()> {
    let found = measured(10_000, RACK)?;
    table.add(Line {
        what: "10,000 machines with API, controllers and hardware in one process: peak memory"
            .to_owned(),
        ours: format!("{:.2} GiB", number(&found, "peak_mib")? / 1024.0),
        goal: "<= 8 GB",
        peer: peers::MEMORY,
    });
    table.add(Line {
        what: "… from power-off to production, simulated; CPU".to_owned(),
        ours: format!(
            "{:.1} min; {:.0} s",
            number(&found, "seconds")? / 60.0,
            number(&found, "cpu_seconds")?
        ),
        goal: "",
        peer: peers::TEN_THOUSAND,
    });
    Ok(())
}

fn cordon(table: &mut Table, nodes: usize) -> Result<()> {
    let found = wire::measure(wire::Happens::Cordon, nodes, wire::Place::Embedded)?;
    let (count, signals) = (number(&found, "blast")?, number(&found, "signals")?);
    table.add(Line {
        what: format!("{count} of {nodes} nodes ill at one instant: all cordoned after"),
        ours: format!("{:.1} s", number(&found, "blast_seconds")?),
        goal: "<= 5 s",
        peer: peers::BLAST,
    });
    table.add(Line {
        what: format!("signal to cordon at {nodes} nodes, {signals} signals: P50, P99"),
        ours: format!("{:.0} ms, {:.0} ms", number(&found, "p50_ms")?, number(&found, "p99_ms")?),
        goal: "P99 <= 100 ms",
        peer: peers::CORDON,
    });
    table.add(Line {
        what: "… peak memory of server, of controllers".to_owned(),
        ours: wire::peaks(&found),
        goal: "",
        peer: peers::MEMORY,
    });
    Ok(())
}

fn returns(table: &mut Table, nodes: usize, place: wire::Place) -> Result<()> {
    let found = wire::measure(wire::Happens::Return, nodes, place)?;
    let on = place.words();
    table.add(Line {
        what: format!("{nodes} nodes find {on} again at one instant: all Ready after"),
        ours: format!("{:.1} s", number(&found, "ready_seconds")?),
        goal: "all",
        peer: "",
    });
    table.add(Line {
        what: "… pods evicted; nodes still Ready".to_owned(),
        ours: format!("{}; {}", number(&found, "evicted")?, number(&found, "still_ready")?),
        goal: "0; all",
        peer: "",
    });
    table.add(Line {
        what: "… requests: peak under way, in all, told to come again".to_owned(),
        ours: format!(
            "{}, {}, {}",
            number(&found, "peak_under_way")?,
            number(&found, "requests")?,
            number(&found, "refused")?
        ),
        goal: "",
        peer: "",
    });
    table.add(Line {
        what: format!("… peak memory of {}", place.processes()),
        ours: wire::peaks(&found),
        goal: "",
        peer: "",
    });
    Ok(())
}
