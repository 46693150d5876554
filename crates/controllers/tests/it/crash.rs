//! A controller that dies between any two of its writes: whoever comes after it goes on, and nothing
//! is done twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::condition::Node as Condition;
use api::request::Ask;
use kube::client::Body;
use kube::{Client, Error};

use crate::fleet::{Fleet, XID_95};
use crate::support::on_a_cluster;

/// What happens at one of the controller's writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mishap {
    /// The controller dies before it; another comes after it.
    Death,
    /// It is done, and the answer is lost; the controller lives on.
    LostAnswer,
}

/// Stands between a controller and the API, and lets so many writes through.
pub(crate) struct Between {
    writes: AtomicUsize,
    after: usize,
    mishap: Mishap,
}

impl Between {
    pub(crate) fn new(after: usize, mishap: Mishap) -> Arc<Self> {
        Arc::new(Self { writes: AtomicUsize::new(0), after, mishap })
    }

    /// Whether it has come to the mishap.
    pub(crate) fn came(&self) -> bool {
        self.writes.load(Ordering::Relaxed) > self.after
    }

    fn is_dead(&self) -> bool {
        self.mishap == Mishap::Death && self.came()
    }

    pub(crate) fn client(self: &Arc<Self>, client: Client) -> Client {
        let this = Arc::clone(self);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (this, client) = (Arc::clone(&this), client.clone());
            async move {
                let writes = request.method() != http::Method::GET;
                let nth = this.writes.fetch_add(usize::from(writes), Ordering::Relaxed);
                if this.is_dead() {
                    return Err(Error::Service("the controller is dead".into()));
                }
                let answer = client.send(request).await?;
                if writes && nth == this.after {
                    return Err(Error::Service("the answer is lost".into()));
                }
                Ok(answer)
            }
        });
        Client::new(service, "default")
    }
}

/// What happens to a node before the controller dies.
#[derive(Clone, Copy, Debug)]
enum Story {
    Fault,
    Phase,
}

/// Plays a story with a mishap; says whether it came to that.
async fn play(fleet: &mut Fleet, story: Story, after: usize, mishap: Mishap) -> bool {
    let node = format!("{mishap:?}-{after}").to_lowercase();
    fleet.join(&node, &node).await;
    fleet.pod("default", &node, &node, "now").await;
    let (between, site) = (Between::new(after, mishap), Fleet::site());
    let through = |client| between.client(client);
    let mut running = fleet.cluster.start_through(&["node"], &site, through).await;
    let asks = match story {
        Story::Fault => {
            fleet.strike(&node, XID_95, "boot-1").await;
            [Ask::ResetGpu, Ask::Test]
        }
        Story::Phase => {
            let now = Condition::ImmediatePhase.name();
            fleet.condition(&node, now, true, "Reboot", "it must").await;
            [Ask::Reboot, Ask::Test]
        }
    };
    if mishap == Mishap::Death {
        for _ in 0..6 {
            if between.came() {
                break;
            }
            fleet.cluster.pass(8).await;
            fleet.answer().await;
        }
        running.stop().await;
        running = fleet.start(&["node"]).await;
    }
    fleet.rest(&running).await;
    assert_eq!(fleet.done(&node), asks, "{story:?}, {after}, {mishap:?}");
    let incidents = fleet.incidents().await;
    let count = incidents.iter().filter(|incident| incident.spec.node == node).count();
    assert_eq!(count, 1, "{story:?}, {after}, {mishap:?}: {incidents:?}");
    fleet.assert_at_rest(&node).await;
    assert_eq!(running.metrics().reconciles("node", "bug"), 0);
    running.stop().await;
    between.came()
}

fn play_all(story: Story, mishap: Mishap) {
    on_a_cluster(async |cluster| {
        let mut fleet = Fleet::new(cluster).await;
        fleet.ledger(1).await;
        let mut after = 0;
        while play(&mut fleet, story, after, mishap).await {
            after += 1;
            assert!(after < 200, "it never gets through");
        }
        assert!(after > 20, "{after} writes are not the whole story");
    });
}

#[test]
fn a_fault_is_cured_once_wherever_its_controller_dies() {
    play_all(Story::Fault, Mishap::Death);
}

#[test]
fn a_fault_is_cured_once_whichever_answer_is_lost() {
    play_all(Story::Fault, Mishap::LostAnswer);
}

#[test]
fn a_phase_is_carried_out_once_wherever_its_controller_dies() {
    play_all(Story::Phase, Mishap::Death);
}

#[test]
fn a_phase_is_carried_out_once_whichever_answer_is_lost() {
    play_all(Story::Phase, Mishap::LostAnswer);
}
