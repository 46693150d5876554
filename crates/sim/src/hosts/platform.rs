//! The machine as its agent sees it: simulated hardware, and the kubelet in this process.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use agent::{Platform, Signal, System};
use api::inventory::Inventory;
use api::request::{Report, Task};
use kit::clock::Clock;
use kube::Client;
use plan::detect::Symptom;
use tokio::sync::{mpsc, watch};

use super::fleet::Fleet;
use crate::datacentre::{Hardware, Running, Voice};

/// How a kubelet is made to run.
#[derive(Clone)]
pub(super) enum Kubelet {
    /// At once, acting by this client.
    Runs(Client),
    /// Whoever listens here sees to it that it joins first.
    Joins(watch::Sender<bool>),
}

/// One boot of simulated hardware.
pub(super) struct Simulated {
    pub(super) hardware: Hardware,
    pub(super) running: Running,
    pub(super) fleet: Fleet,
    pub(super) kubelet: Kubelet,
    pub(super) clock: Clock,
    /// What the agent reads; filled by whoever listens to the hardware.
    pub(super) signals: Mutex<Option<mpsc::UnboundedReceiver<Signal>>>,
}

impl Platform for Simulated {
    fn system(&self) -> System {
        System {
            boot: self.running.boot.clone(),
            image: self.running.image.clone(),
            kernel: Some(self.running.kernel.clone()),
            driver: None,
        }
    }

    async fn inventory(&self) -> Inventory {
        self.hardware.inventory()
    }

    async fn firmware(&self) -> BTreeMap<String, String> {
        self.hardware.firmware()
    }

    fn perform(&self, task: Task) -> impl Future<Output = Option<Report>> + Send + 'static {
        let hardware = self.hardware.clone();
        async move { hardware.perform(&task).await }
    }

    fn signals(&self) -> mpsc::UnboundedReceiver<Signal> {
        let mut signals = self.signals.lock().unwrap_or_else(PoisonError::into_inner);
        signals.take().unwrap_or_else(|| mpsc::unbounded_channel().1)
    }

    fn busy(&self) -> watch::Receiver<bool> {
        let busy = self.fleet.with(self.hardware.name(), |seat| seat.busy.subscribe());
        busy.unwrap_or_else(|| watch::channel(false).1)
    }

    fn kubelet(&self, wanted: bool) {
        let (name, now) = (self.hardware.name(), self.clock.now());
        match &self.kubelet {
            Kubelet::Joins(wants) => {
                wants.send_if_modified(|was| std::mem::replace(was, wanted) != wanted);
            }
            Kubelet::Runs(client) if wanted => {
                let mute = !self.hardware.speaks(Voice::Kubelet);
                self.fleet.start_kubelet(name, &self.running, client.clone(), mute, now);
            }
            Kubelet::Runs(_) => self.fleet.stop_kubelet(name, now),
        }
    }
}

/// What an agent can make of what the hardware shows. A comparison with others is not its to make:
/// see [`super::peers`].
pub(super) fn signals(symptom: Symptom) -> Vec<Signal> {
    match symptom {
        Symptom::Line(line) => vec![Signal::Line(line)],
        Symptom::Samples(samples) => samples.into_iter().map(Signal::Sample).collect(),
        Symptom::Peers { .. } => Vec::new(),
    }
}
