//! Watches machines and nodes, and says how far they have come.

use std::collections::BTreeMap;
use std::pin::pin;

use api::Machine;
use api::state::State;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};

use super::progress::{Progress, Step};

enum Seen {
    Machine(Box<watcher::Event<Machine>>),
    Node(Box<watcher::Event<Node>>),
}

/// What is known of machines and of the nodes on them.
#[derive(Default)]
struct World {
    progress: Progress,
    machines: BTreeMap<String, Machine>,
    ready: BTreeMap<String, bool>,
    listed: bool,
}

impl World {
    fn see(&mut self, seen: Seen) {
        match seen {
            Seen::Machine(event) => match *event {
                watcher::Event::Apply(machine) | watcher::Event::InitApply(machine) => {
                    self.weigh(&machine);
                    self.machines.insert(machine.name().to_owned(), machine);
                }
                watcher::Event::Delete(machine) => {
                    self.machines.remove(machine.name());
                    self.progress.forget(machine.name());
                }
                watcher::Event::InitDone => self.listed = true,
                watcher::Event::Init => {}
            },
            Seen::Node(event) => match *event {
                watcher::Event::Apply(node) | watcher::Event::InitApply(node) => {
                    self.turn(&node, is_ready(&node));
                }
                watcher::Event::Delete(node) => self.turn(&node, false),
                watcher::Event::Init | watcher::Event::InitDone => {}
            },
        }
    }

    fn weigh(&mut self, machine: &Machine) {
        let node = machine.status.as_ref().and_then(|status| status.node.as_ref());
        let ready = node.is_some_and(|node| self.ready.get(&node.name) == Some(&true));
        self.progress.see(machine, ready);
    }

    fn turn(&mut self, node: &Node, ready: bool) {
        let name = node.name_any();
        if self.ready.insert(name, ready) == Some(ready) {
            return;
        }
        let machine = node.labels().get(api::names::MACHINE);
        if let Some(machine) = machine.and_then(|name| self.machines.get(name)).cloned() {
            self.weigh(&machine);
        }
    }
}

fn is_ready(node: &Node) -> bool {
    let status = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    status.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

/// A machine that waits for people.
#[derive(Debug, thiserror::Error)]
#[error(
    "{machine} is in {state} and waits for people: {why} (seatrial machine describe {machine})"
)]
pub(crate) struct Aside {
    machine: String,
    state: State,
    why: String,
}

/// Follows the site until every machine is in production, and tells of each change on the way.
///
/// # Errors
/// If a machine ends elsewhere, or the API cannot be watched.
pub(crate) async fn until_production(
    client: &Client,
    mut tell: impl FnMut(Step, usize, usize) -> std::io::Result<()>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let machines = watcher(Api::<Machine>::all(client.clone()), watcher::Config::default());
    let nodes = watcher(Api::<Node>::all(client.clone()), watcher::Config::default());
    let machines = machines.default_backoff().map_ok(|event| Seen::Machine(Box::new(event)));
    let nodes = nodes.default_backoff().map_ok(|event| Seen::Node(Box::new(event)));
    let mut seen = pin!(futures::stream::select(machines, nodes));
    let mut world = World::default();
    let mut told = [usize::MAX; 6];
    while let Some(event) = seen.next().await {
        // One that breaks is taken up again by itself.
        let Ok(event) = event else { continue };
        world.see(event);
        if !world.listed {
            continue;
        }
        let total = world.progress.total();
        for (step, told) in Step::ALL.into_iter().zip(&mut told) {
            let done = world.progress.done(step);
            if *told != done {
                *told = done;
                tell(step, done, total)?;
            }
        }
        if world.progress.done(Step::Production) == total {
            return Ok(());
        }
        if let Some((machine, state)) = world.progress.aside().next() {
            let status = world.machines.get(machine).and_then(|m| m.status.as_ref());
            let why = status.map(|status| status.why.clone()).unwrap_or_default();
            return Err(Aside { machine: machine.to_owned(), state, why }.into());
        }
    }
    Ok(())
}
