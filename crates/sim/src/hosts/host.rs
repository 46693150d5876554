//! One machine: whatever runs on it, from boot to power loss.

use std::sync::Mutex;

use agent::{Agent, Detectors, Signal, Signs, Sources};
use kit::clock::Clock;
use kit::ids::Ids;
use kube::Client;
use plan::detect::Symptom;
use tokio::sync::{mpsc, watch};

use super::Clients;
use super::fleet::{Comparison, Fleet};
use super::identity::{Credential, Identity, declared};
use super::join::Joining;
use super::platform::{Kubelet, Simulated, signals};
use crate::datacentre::{Hardware, Running, Signal as Seen, Voice};

/// One machine of the datacentre.
pub(super) struct Host {
    pub(super) hardware: Hardware,
    pub(super) fleet: Fleet,
    pub(super) clients: Clients,
    pub(super) clock: Clock,
    pub(super) ids: Ids,
    pub(super) detectors: Detectors,
    pub(super) identity: Identity,
    pub(super) signs: Signs,
}

/// A boot that runs; when it ends, however it does, its agent and its kubelet are gone.
struct Boot<'a> {
    host: &'a Host,
    running: Running,
    /// Acts as its agent.
    agent: Client,
    kubelet: Kubelet,
}

impl Drop for Boot<'_> {
    fn drop(&mut self) {
        let (fleet, name) = (&self.host.fleet, self.host.hardware.name());
        fleet.hear_agent(name, false, self.host.clock.now());
        fleet.stop_kubelet(name, self.host.clock.now());
    }
}

impl Host {
    /// Follows the machine from boot to boot.
    pub(super) async fn run(self) {
        let mut running = self.hardware.running();
        loop {
            let now = running.borrow_and_update().clone();
            let boot = async {
                match now {
                    Some(running) => self.boot(running).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = running.changed() => if changed.is_err() { return },
                () = boot => {}
            }
        }
    }

    /// What runs during one boot; ends only by being dropped.
    async fn boot(&self, running: Running) {
        let asking = match &self.identity {
            Identity::Asked(asking) => asking,
            Identity::Declared => {
                let (agent, node) = declared(&self.clients, self.hardware.name());
                let kubelet = Kubelet::Runs(node);
                return Boot { host: self, running, agent, kubelet }.live_on().await;
            }
        };
        let joining = Joining { host: self, running: &running, asking };
        let identity = joining.enrol().await;
        let (tokens, token) = watch::channel(identity.token);
        let (wants, wanted) = watch::channel(false);
        let boot = Boot {
            host: self,
            running: running.clone(),
            agent: (asking.door)(Credential::Token(token)),
            kubelet: Kubelet::Joins(wants),
        };
        tokio::join!(
            boot.live_on(),
            joining.stay_enrolled(tokens, identity.expires),
            joining.kubelet(wanted)
        );
    }

    /// Whether this voice reaches the network.
    pub(super) fn heard(&self, voice: Voice) -> bool {
        self.hardware.speaks(voice) && self.hardware.speaks(Voice::Node)
    }
}

impl Boot<'_> {
    /// One life of the agent after the other.
    async fn live_on(&self) {
        loop {
            self.live().await;
        }
    }

    /// One life of the agent: it ends when a fault silences it, or it can be heard again.
    async fn live(&self) {
        let (host, name) = (self.host, self.host.hardware.name());
        let seen = host.hardware.signals();
        let (sender, receiver) = mpsc::unbounded_channel();
        let speaks = host.heard(Voice::Agent);
        host.fleet.hear_agent(name, speaks, host.clock.now());
        let sources = host.fleet.with(name, |seat| Sources {
            machine: seat.machine.subscribe(),
            node: seat.node.subscribe(),
        });
        let agent = Agent {
            platform: Simulated {
                hardware: host.hardware.clone(),
                running: self.running.clone(),
                fleet: host.fleet.clone(),
                kubelet: self.kubelet.clone(),
                clock: host.clock.clone(),
                signals: Mutex::new(Some(receiver)),
            },
            client: self.agent.clone(),
            clock: host.clock.clone(),
            ids: host.ids.clone(),
            detectors: host.detectors.clone(),
            signs: host.signs,
        };
        let agent = async {
            match sources {
                Some(sources) if speaks => agent.run(sources).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.listen(seen, sender, speaks) => {}
            () = agent => {}
        }
    }

    /// Tells the monitor how the node stands among its peers.
    fn compare(&self, symptom: &Symptom) {
        let Symptom::Peers { metric, peers, typical, value } = *symptom else { return };
        let (host, at) = (self.host, self.host.clock.now());
        let found = Comparison { at, peers, typical, value };
        host.fleet.compared(host.hardware.name(), &self.running.boot, metric, found);
    }

    /// Hands on what the hardware shows, until the agent's voice comes or goes.
    async fn listen(
        &self,
        mut seen: mpsc::UnboundedReceiver<Seen>,
        agent: mpsc::UnboundedSender<Signal>,
        speaks: bool,
    ) {
        let host = self.host;
        loop {
            let mute = !host.heard(Voice::Kubelet);
            host.fleet.mute_kubelet(host.hardware.name(), mute, host.clock.now());
            if host.heard(Voice::Agent) != speaks {
                return;
            }
            match seen.recv().await {
                Some(Seen::Voices) => {}
                Some(Seen::Symptom(symptom)) => {
                    self.compare(&symptom);

                    // An agent that has ended reads nothing.
                    signals(*symptom).into_iter().for_each(|signal| drop(agent.send(signal)));
                }
                None => return std::future::pending().await,
            }
        }
    }
}
