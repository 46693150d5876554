//! What anybody with a watch sees: how many nodes are ready, tainted, cordoned, and when.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kit::clock::Clock;
use kit::controller::{
    Change, Context, Controller, Manager, ObjectKey, Options, Running, WATCH_LIFETIME, Wake, Watch,
    Wiring,
};
use kit::ids::Ids;
use kube::Client;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::Error;

/// Nothing that is waited for takes so long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(900);

/// How many nodes stand how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) nodes: usize,
    pub(crate) ready: usize,
    pub(crate) unknown: usize,
    /// With a taint of a node that is not ready.
    pub(crate) tainted: usize,
    /// That serve, as the node controller says.
    pub(crate) serving: usize,
    pub(crate) cordoned: usize,
    /// Pods that are gone or shall go.
    pub(crate) evicted: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stand {
    ready: bool,
    unknown: bool,
    tainted: bool,
    serving: bool,
    cordoned: bool,
}

/// See the module. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    stands: Arc<Mutex<BTreeMap<String, Stand>>>,
    cordoned: Arc<Mutex<BTreeMap<String, Instant>>>,
    counts: watch::Sender<Counts>,
}

impl Controller for Seen {
    type Key = ObjectKey;
    type Settings = Self;
    type Observed = ();
    type Plan = ();
    const NAME: &'static str = "measure";

    fn wire(seen: Self, wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring.about("Watches what is measured");
        let own = seen.clone();
        wiring.read(Watch::<Node>::all()).on_change(move |change| own.node(change));
        let own = seen.clone();
        wiring.read(Watch::<Pod>::all()).on_change(move |change| own.pod(change));
        seen
    }

    async fn observe(
        &self,
        _: &Context,
        _: &ObjectKey,
    ) -> Result<Option<()>, kit::controller::Error> {
        Ok(None)
    }

    fn plan((): &()) {}

    async fn apply(
        &self,
        _: &Context,
        _: &ObjectKey,
        (): (),
    ) -> Result<Wake, kit::controller::Error> {
        Ok(Wake::Never)
    }
}

impl Seen {
    /// Watches from now on, until what is returned is dropped.
    pub(crate) fn start(client: Client) -> (Self, Running) {
        let seen = Self::default();
        let mut manager = Manager::new(Options {
            client: client.clone(),
            clock: Clock::system(),
            ids: Ids::system(),
            watch_lifetime: WATCH_LIFETIME,
            instance: "measure".to_owned(),
        });
        manager.add_with::<Self>(client, seen.clone());
        (seen, manager.start())
    }

    pub(crate) fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// When a node was seen to take no new work.
    pub(crate) fn cordoned(&self, node: &str) -> Option<Instant> {
        self.cordoned.lock().unwrap_or_else(PoisonError::into_inner).get(node).copied()
    }

    /// Waits until it holds; says when that was.
    pub(crate) async fn until(
        &self,
        what: &str,
        holds: impl Fn(&Counts) -> bool,
    ) -> Result<Instant, Error> {
        let mut counts = self.counts.subscribe();
        let began = Instant::now();
        let done = tokio::time::timeout(PATIENCE, counts.wait_for(|counts| holds(counts))).await;
        if !matches!(done, Ok(Ok(_))) {
            return Err(format!("not {what} after {PATIENCE:?}: {:?}", self.counts()).into());
        }
        let now = Instant::now();
        eprintln!("{:6.1} s until {what}", (now - began).as_secs_f64());
        Ok(now)
    }

    fn node(&self, change: &Change<Node>) {
        let name = &change.key.name;
        let mut stands = self.stands.lock().unwrap_or_else(PoisonError::into_inner);
        let old = stands.remove(name);
        let new = change.new.as_deref().map(stand);
        if let Some(new) = new {
            stands.insert(name.clone(), new);
            if new.cordoned && !old.is_some_and(|old| old.cordoned) {
                let mut cordoned = self.cordoned.lock().unwrap_or_else(PoisonError::into_inner);
                cordoned.insert(name.clone(), Instant::now());
            }
        }
        self.counts.send_if_modified(|counts| {
            let before = *counts;
            for (stand, more) in [(old, false), (new, true)] {
                let Some(stand) = stand else { continue };
                let count = |of: &mut usize, is: bool| match (is, more) {
                    (false, _) => {}
                    (true, true) => *of += 1,
                    (true, false) => *of -= 1,
                };
                count(&mut counts.nodes, true);
                count(&mut counts.ready, stand.ready);
                count(&mut counts.unknown, stand.unknown);
                count(&mut counts.tainted, stand.tainted);
                count(&mut counts.serving, stand.serving);
                count(&mut counts.cordoned, stand.cordoned);
            }
            before != *counts
        });
    }

    fn pod(&self, change: &Change<Pod>) {
        let ends = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
        let was = change.old.as_deref().is_some_and(ends);
        if !was && change.new.as_deref().is_none_or(ends) {
            self.counts.send_modify(|counts| counts.evicted += 1);
        }
    }
}

fn stand(node: &Node) -> Stand {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is = |kind: &str, status: &str| {
        conditions.clone().any(|condition| condition.type_ == kind && condition.status == status)
    };
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let gone = ["node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"];
    Stand {
        ready: is("Ready", "True"),
        unknown: is("Ready", "Unknown"),
        tainted: taints.into_iter().any(|taint| gone.contains(&taint.key.as_str())),
        serving: is(api::condition::Node::InService.name(), "True"),
        cordoned: node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true),
    }
}
