//! The agent of one boot: one loop over what changes, at rest while nothing does.

use std::sync::Arc;

use api::Machine;
use api::request::{Chore, Outcome, Report, Task};
use api::state::State;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kit::clock::Clock;
use kit::ids::Ids;
use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::detect::{Detectors, Senses};
use crate::machine::{Statement, Voice};
use crate::node::Board;
use crate::platform::{Platform, Signal, System};
use crate::pulse::Pulse;

/// So many signals are taken in before the node is looked at again.
const BATCH: usize = 256;

/// What an agent is told of the cluster: its own Machine and Node, as a watch has them. None where
/// there is none, or none is known yet.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Its Machine.
    pub machine: watch::Receiver<Option<Arc<Machine>>>,
    /// Its Node.
    pub node: watch::Receiver<Option<Arc<Node>>>,
}

/// How those that run on a machine say that they live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signs {
    /// Each renews a Lease: on the wall clock.
    Leases,
    /// Not at all: whoever asks is told by a function of the time. In virtual time, where nothing
    /// ticks.
    Function,
}

/// Everything that an agent is made of.
pub struct Agent<P> {
    /// The machine that it runs on.
    pub platform: P,
    /// Its own identity towards the API.
    pub client: Client,
    /// The time.
    pub clock: Clock,
    /// Where jitter comes from.
    pub ids: Ids,
    /// What reads log lines and numbers.
    pub detectors: Detectors,
    /// How it says that it lives.
    pub signs: Signs,
}

/// A task that is being carried out.
struct Work {
    task: Task,
    began: Timestamp,
    report: BoxFuture<'static, Option<Report>>,
}

struct Run<P> {
    platform: P,
    clock: Clock,
    ids: Ids,
    detectors: Detectors,
    system: System,
    machine: Option<Arc<Machine>>,
    statement: Option<Statement>,
    voice: Voice,
    pulse: Option<Pulse>,
    board: Board,
    senses: Senses,
    work: Option<Work>,
}

impl<P: Platform> Agent<P> {
    /// Runs for as long as the boot lasts: it ends only by being dropped, and may be dropped at any
    /// moment. Another one of the same boot takes up where it was.
    pub async fn run(self, sources: Sources) {
        let Sources { mut machine, mut node } = sources;
        let mut signals = self.platform.signals();
        let mut busy = self.platform.busy();
        let system = self.platform.system();
        let mut run = Run {
            voice: Voice::new(self.client.clone()),
            pulse: (self.signs == Signs::Leases).then(|| Pulse::new(self.client.clone())),
            board: Board::new(self.client, system.boot.clone()),
            senses: Senses::new(self.detectors.clone(), system.driver.as_deref()),
            platform: self.platform,
            clock: self.clock,
            ids: self.ids,
            detectors: self.detectors,
            system,
            machine: None,
            statement: None,
            work: None,
        };
        run.see(latest(&mut machine));
        run.see_node(latest(&mut node));
        loop {
            let is_busy = *busy.borrow_and_update();
            run.attend(is_busy);
            let wake = run.speak();
            tokio::select! {
                biased;
                Ok(()) = machine.changed() => run.see(latest(&mut machine)),
                Ok(()) = node.changed() => run.see_node(latest(&mut node)),
                Ok(()) = busy.changed() => {}
                Some(signal) = signals.recv() => run.sense(signal, &mut signals),
                report = report(&mut run.work) => run.reported(report).await,
                () = run.voice.heard(&run.ids) => {}
                () = run.board.heard(&run.ids) => {}
                () = beaten(&mut run.pulse, &run.ids) => {}
                () = sleep(wake) => {}
            }
        }
    }
}

impl<P: Platform> Run<P> {
    fn see(&mut self, machine: Option<Arc<Machine>>) {
        // A machine that is not known keeps what runs on it: blindness is no command.
        if let Some(machine) = &machine {
            self.platform.kubelet(machine.state() == State::Production);
            let now = self.clock.now();
            self.statement.get_or_insert_with(|| Statement::begin(machine, &self.system, now));
        }
        self.machine = machine;
    }

    fn see_node(&mut self, node: Option<Arc<Node>>) {
        let (now, catalogue) = (self.clock.now(), self.detectors.catalogue());
        self.board.look(node, &mut self.senses.faults, catalogue, now);
    }

    fn sense(&mut self, first: Signal, more: &mut mpsc::UnboundedReceiver<Signal>) {
        let now = self.clock.now();
        self.senses.take(&first, now);
        for _ in 1..BATCH {
            let Ok(signal) = more.try_recv() else { return };
            self.senses.take(&signal, now);
        }
    }

    /// Begins, goes on with or gives up the task.
    fn attend(&mut self, busy: bool) {
        // Without sight of its machine it goes on with what it has begun.
        let Some(machine) = &self.machine else { return };
        let task = machine.status.as_ref().and_then(|status| status.task.as_ref());
        let task = task.filter(|task| task.boot == self.system.boot);
        let reported = self.statement.as_ref().and_then(|said| said.report.as_ref());
        let task = task.filter(|task| {
            let done = reported
                .is_some_and(|report| report.id == task.id && report.outcome != Outcome::Running);
            // Work goes before a test of idle time. A report would be read as a verdict; whoever asked
            // for the test sees the work as well and takes the task back.
            !(done || busy && task.chore == Chore::TestIdle)
        });
        let same = |work: &Work| task.is_some_and(|task| task.id == work.task.id);
        if self.work.as_ref().is_some_and(same) {
            return;
        }
        self.work = task.map(|task| Work {
            task: task.clone(),
            began: self.clock.now(),
            report: Box::pin(self.platform.perform(task.clone())),
        });
    }

    async fn reported(&mut self, report: Option<Report>) {
        let (Some(work), Some(statement)) = (self.work.take(), &mut self.statement) else { return };
        let Some(report) = report else {
            // It cannot be done during this boot. Asked again and again it would be a busy loop.
            let pending = Box::pin(std::future::pending());
            self.work = Some(Work { report: pending, ..work });
            return;
        };
        if report.outcome == Outcome::Succeeded {
            if work.task.chore == Chore::Inventory {
                statement.inventory = Some(self.platform.inventory().await);
                statement.firmware = self.platform.firmware().await;
            }
            let target = work.task.target.as_deref();
            let catalogue = self.detectors.catalogue();
            self.senses.faults.mended(work.task.chore, target, work.began, catalogue);
        }
        statement.report = Some(report);
    }

    /// Writes what is to be said, and says when to look again if nothing changes before.
    fn speak(&mut self) -> Option<Instant> {
        let now = self.clock.now();
        self.senses.faults.pass(now);
        let (faults, catalogue) = (&self.senses.faults, self.detectors.catalogue());
        let statement = self.machine.as_ref().zip(self.statement.as_ref());
        let voice = statement.and_then(|(machine, said)| self.voice.speak(machine, said));
        let pulse = self.machine.as_ref().zip(self.pulse.as_mut());
        let pulse = pulse.and_then(|(machine, pulse)| pulse.beat(machine, now));
        let board = self.board.show(faults, catalogue, now);
        let quiet = faults.next().map(|at| {
            let after = at.duration_since(now).try_into().unwrap_or_default();
            Instant::now() + after
        });
        [voice, pulse, board, quiet].into_iter().flatten().min()
    }
}

/// What comes of the task; nothing for as long as there is none.
async fn report(work: &mut Option<Work>) -> Option<Report> {
    match work {
        Some(work) => (&mut work.report).await,
        None => std::future::pending().await,
    }
}

/// Waits for a sign of life that is under way.
async fn beaten(pulse: &mut Option<Pulse>, ids: &Ids) {
    match pulse {
        Some(pulse) => pulse.heard(ids).await,
        None => std::future::pending().await,
    }
}

/// What a channel holds, and no longer its lock: whoever sends may wait for what the value leads to.
fn latest<T: Clone>(channel: &mut watch::Receiver<T>) -> T {
    channel.borrow_and_update().clone()
}

async fn sleep(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}
