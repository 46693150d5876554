//! How a whole site comes up: from power-off until every machine serves, counted and timed.
//!
//! It is the site of a replay with all delays of its hardware, and without faults. Cables are
//! certified at once, since the hours of people are no part of what is measured.

use std::collections::BTreeMap;
use std::time::Duration;

use plan::catalogue::Catalogue;
use tokio::time::Instant;

use super::world::{Fleet, Met, World};
use super::{BRING_UP, RunError, held};
use crate::people::Hands;

/// What is brought up.
#[derive(Clone, Copy, Debug)]
pub struct BringUp {
    /// How many machines; all of them serve in the end.
    pub machines: usize,
    /// Machines in a rack, of which four may be switched on at once.
    pub per_rack: u32,
    /// Decides everything that is drawn.
    pub seed: u64,
}

/// How it came up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BroughtUp {
    /// From the last machine's being described, switched off, to the last one's serving: simulated.
    pub took: Duration,
    /// What the API was asked until then, by verb and resource, as `patch machines`.
    pub requests: BTreeMap<String, u64>,
}

/// Brings a site up in virtual time, as fast as this machine can.
///
/// # Errors
/// The fleet cannot be made, or does not come up within a week of simulated time.
pub fn bring_up(what: BringUp) -> Result<BroughtUp, RunError> {
    held()?.block_on(async {
        let hands = Hands { certify: Duration::ZERO, ..Hands::default() };
        let BringUp { machines, per_rack, seed } = what;
        let met = Met::Delivered;
        let fleet =
            Fleet { met, servers: machines, spares: 0, per_rack, seed, cures: false, hands };
        let mut world = World::start(&fleet, Catalogue::built_in()).await?;
        let began = Instant::now();
        world.until_up(BRING_UP).await?;
        let took = began.elapsed();
        Ok(BroughtUp { took, requests: requests(&world.metrics().await?) })
    })
}

/// Answered requests by verb and resource, from what the server shows.
fn requests(metrics: &str) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for line in metrics.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        let Some((labels, count)) = line.rsplit_once("} ") else { continue };
        let label = |name: &str| {
            let from = labels.split_once(&format!("{name}=\"")).map_or("", |(_, rest)| rest);
            from.split('"').next().unwrap_or_default()
        };
        let what = format!("{} {}", label("verb"), label("resource"));
        *all.entry(what).or_default() += count.parse().unwrap_or(0);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_whatever_they_were_answered() {
        let line = |verb: &str, code: u16, count: u64| {
            format!(
                "apiserver_request_total{{verb=\"{verb}\",group=\"g\",resource=\"machines\",code=\"{code}\"}} {count}"
            )
        };
        let lines = [line("get", 200, 3), line("patch", 200, 4), line("patch", 409, 1)];
        let text = format!("# TYPE x counter\n{}\napiserver_open_watches 9\n", lines.join("\n"));
        let wanted = [("get machines".to_owned(), 3), ("patch machines".to_owned(), 5)];
        assert_eq!(requests(&text), wanted.into());
    }
}
