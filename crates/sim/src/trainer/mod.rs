//! A tenant's training program, simulated: it computes nothing, and says of its progress what a real
//! one would.
//!
//! Any indexed Job with the annotation [`annotations::CHECKPOINT_EVERY`] is one: its pods are ranks
//! that must all compute for a step to count ([`course`]). Whether a rank computes is the simulated
//! hardware's truth: its container runs, during the boot that its machine runs, and no fault of the
//! machine kills what runs on its GPUs. The program feels that at once; what is made of it is the
//! controllers' affair. Training passes as fast as the hardware is faster than real.
//!
//! What it says stands in a ConfigMap ([`api::training`]) and is read again by whoever starts next:
//! a control plane that dies stops no training. Nothing ticks; it looks when pods or hardware change.

pub mod course;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use api::training::{KEY, LABEL, Pace, Progress, config_map};
use jiff::SignedDuration;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kit::controller::{
    Adder, Cache, Context, Controller, Error, Manager, Mood, Note, ObjectKey, Wake, Watch, Wiring,
};
use kube::Client;
use plan::catalogue::Severity;
use tokio::task::JoinSet;

use crate::datacentre::{Cure, Datacentre, Fault, Hardware};
use crate::hosts::kubelet;
use course::{Facts, Recipe, Seat};

/// Annotations of a Job that say how it trains. Durations are written as `90s`, `5m` or `1h 30m` and
/// are those of the training, which passes as fast as the hardware.
pub mod annotations {
    /// Work between two checkpoints. A Job that has it is a training job.
    pub const CHECKPOINT_EVERY: &str = "sim.seatrial.dev/checkpoint-every";
    /// What writing a checkpoint takes: 20 s, with which published tables reckon, unless said otherwise.
    pub const CHECKPOINT_TAKES: &str = "sim.seatrial.dev/checkpoint-takes";
    /// From the moment that all ranks run until steps are made: 2 min unless said otherwise;
    /// published figures lie between 1 and 5.
    pub const RESTART_TAKES: &str = "sim.seatrial.dev/restart-takes";
}

const CHECKPOINT_TAKES: f64 = 20.0;
const RESTART_TAKES: f64 = 120.0;

/// The user that the trainer acts as.
pub const USER: &str = "trainer";

/// What a pod asks for GPUs by.
const GPU: &str = "nvidia.com/gpu";
/// The label of a pod of an indexed Job that says which it is.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// What the trainer works on: the hardware, and the jobs that feel its changes.
#[derive(Clone, Default)]
pub struct Settings {
    site: Option<Datacentre>,
    bell: Bell,
}

/// By which a change of hardware reaches the jobs.
#[derive(Clone, Default)]
struct Bell(Arc<Mutex<Ring>>);

#[derive(Default)]
struct Ring {
    adder: Option<Adder<ObjectKey>>,
    jobs: BTreeSet<ObjectKey>,
}

impl Bell {
    fn with<T>(&self, act: impl FnOnce(&mut Ring) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn ring(&self) {
        let (adder, jobs) = self.with(|ring| (ring.adder.clone(), ring.jobs.clone()));
        if let Some(adder) = adder {
            jobs.into_iter().for_each(|job| adder.add(job));
        }
    }
}

/// The ears on the hardware. They end when this is dropped.
#[derive(Debug)]
pub struct Ears(#[expect(dead_code, reason = "held for its tasks")] JoinSet<()>);

/// Adds the trainer to a manager; it acts by this client. To be called within a tokio runtime.
pub fn join(manager: &mut Manager, client: Client, site: &Datacentre) -> Ears {
    let settings = Settings { site: Some(site.clone()), bell: Bell::default() };
    let mut ears = JoinSet::new();
    for hardware in site.machines() {
        ears.spawn(listen(hardware, settings.bell.clone()));
    }
    manager.add_with::<Trainer>(client, settings);
    Ears(ears)
}

/// Passes on whatever changes what can be computed on a machine.
async fn listen(hardware: Hardware, bell: Bell) {
    let (mut signals, mut running) = (hardware.signals(), hardware.running());
    loop {
        tokio::select! {
            signal = signals.recv() => if signal.is_none() { return },
            changed = running.changed() => if changed.is_err() { return },
        }
        bell.ring();
    }
}

/// See the module.
pub struct Trainer {
    settings: Settings,
    jobs: Cache<Job>,
    pods: Cache<Pod>,
    said: Cache<ConfigMap>,
}

/// A training job, and what was said of it.
pub enum Observed {
    /// Its annotations cannot be read.
    Refused(Arc<Job>, String),
    /// Its ConfigMap holds something else.
    Unreadable(Arc<Job>, String),
    /// It trains; what was said of it before, and how it is.
    Trains(Arc<Job>, Box<(Option<Progress>, Facts)>),
}

/// What is to be said.
pub enum Plan {
    /// Nothing.
    Nothing,
    /// Why it does not train.
    Refuse(Arc<Job>, String),
    /// How far it has come.
    Say(Arc<Job>, Box<Progress>),
}

impl Controller for Trainer {
    type Key = ObjectKey;
    type Settings = Settings;
    type Observed = Observed;
    type Plan = Plan;
    const NAME: &'static str = "simulated-trainer";

    fn wire(settings: Settings, wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring
            .about("Stands for the program of simulated training jobs")
            .may(&["create", "patch"], "", &["configmaps"])
            .records_events();
        let adder = wiring.adder();
        settings.bell.with(|ring| ring.adder = Some(adder));
        let jobs = wiring.own(Watch::<Job>::all().when_metadata().when_generation());
        let pods = wiring.controlled::<Job, Pod>(Watch::all());
        let said = wiring.read(Watch::<ConfigMap>::all().labels(LABEL));
        Self { settings, jobs, pods, said }
    }

    async fn observe(&self, context: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let job = self.jobs.get(key).filter(|job| trains(job));
        let Some((job, site)) = job.zip(self.settings.site.as_ref()) else {
            self.settings.bell.with(|ring| ring.jobs.remove(key));
            return Ok(None);
        };
        self.settings.bell.with(|ring| ring.jobs.insert(key.clone()));
        let recipe = match recipe(&job, site.settings().delays.speed()) {
            Ok(recipe) => recipe,
            Err(why) => return Ok(Some(Observed::Refused(job, why))),
        };
        let said = self.said.get(&ObjectKey::new(key.namespace.clone(), config_map(&key.name)));
        let text = said.and_then(|said| said.data.as_ref()?.get(KEY).cloned());
        let before = match text.map(|text| serde_json::from_str::<Progress>(&text)).transpose() {
            Ok(before) => before,
            Err(error) => return Ok(Some(Observed::Unreadable(job, error.to_string()))),
        };
        let mut seats: BTreeMap<u32, Vec<Seat>> = BTreeMap::new();
        for pod in self.pods.in_namespace(&key.namespace) {
            if owned(&pod, &job)
                && !plan::pod::is_finished(&pod)
                && let Some(rank) = rank(&pod)
            {
                seats.entry(rank).or_default().push(seat(&pod, site));
            }
        }
        // The pod that was there first comes first.
        for all in seats.values_mut() {
            all.sort_by_key(|seat| !seat.leaves);
        }
        let facts = Facts { now: context.now(), recipe, seats };
        Ok(Some(Observed::Trains(job, Box::new((before, facts)))))
    }

    fn plan(observed: &Observed) -> Plan {
        match observed {
            Observed::Refused(job, why) => Plan::Refuse(Arc::clone(job), why.clone()),
            Observed::Unreadable(job, why) => Plan::Refuse(
                Arc::clone(job),
                format!("its checkpoints cannot be found, as its progress cannot be read: {why}"),
            ),
            Observed::Trains(job, seen) => {
                let (before, facts) = &**seen;
                let next = course::next(before.as_ref(), facts);
                if before.as_ref() == Some(&next) {
                    Plan::Nothing
                } else {
                    Plan::Say(Arc::clone(job), Box::new(next))
                }
            }
        }
    }

    async fn apply(&self, context: &Context, _: &ObjectKey, plan: Plan) -> Result<Wake, Error> {
        match plan {
            Plan::Nothing => {}
            Plan::Refuse(job, text) => {
                let (reason, action) = ("NotTraining".to_owned(), "Training".to_owned());
                let note = Note { mood: Mood::Warning, reason, action, text };
                context.record::<Job>(&(), &job.metadata, note).await;
            }
            Plan::Say(job, progress) => {
                let text = serde_json::to_string_pretty(&progress)
                    .map_err(|error| Error::bug("write JSON", error))?;
                context.apply(&told(&job, text)).await?;
            }
        }
        Ok(Wake::Never)
    }
}

/// Whether it is a training job that goes on.
fn trains(job: &Job) -> bool {
    let marked = job.metadata.annotations.as_ref();
    marked.is_some_and(|all| all.contains_key(annotations::CHECKPOINT_EVERY))
        && job.metadata.deletion_timestamp.is_none()
        && !plan::job::is_finished(job)
}

/// Whether a Job can train: what its annotations and its template ask for can be read.
///
/// # Errors
/// What is wrong, and what would be right.
pub fn check(job: &Job) -> Result<(), String> {
    if !trains(job) {
        let name = annotations::CHECKPOINT_EVERY;
        return Err(format!("a training job needs the annotation {name}, as 5m"));
    }
    recipe(job, 1.0).map(drop)
}

/// What its annotations and its template ask for.
///
/// # Errors
/// Which is wrong, and what would be right.
fn recipe(job: &Job, speed: f64) -> Result<Recipe, String> {
    let said = |name: &str| job.metadata.annotations.as_ref().and_then(|all| all.get(name));
    let seconds = |name: &str, usual: f64| match said(name) {
        None => Ok(usual),
        Some(text) => {
            let read = text.parse::<SignedDuration>().ok().map(|read| read.as_secs_f64());
            read.filter(|read| *read > 0.0)
                .ok_or_else(|| format!("annotation {name} must be a duration as 5m, not {text:?}"))
        }
    };
    let spec = job.spec.clone().unwrap_or_default();
    let ranks = spec.completions.filter(|all| spec.parallelism == Some(*all));
    let indexed = spec.completion_mode.as_deref() == Some("Indexed");
    let ranks = ranks.filter(|_| indexed).and_then(|ranks| u32::try_from(ranks).ok());
    let ranks = ranks.filter(|ranks| *ranks > 0).ok_or(
        "a training job needs completionMode Indexed and as much parallelism as completions: all \
         ranks compute together",
    )?;
    let containers = spec.template.spec.map(|spec| spec.containers).unwrap_or_default();
    let gpus = containers.iter().filter_map(|container| {
        let resources = container.resources.as_ref()?;
        let asked = resources.limits.as_ref().and_then(|all| all.get(GPU));
        asked.or_else(|| resources.requests.as_ref()?.get(GPU))?.0.parse::<u32>().ok()
    });
    Ok(Recipe {
        ranks,
        gpus: gpus.sum(),
        pace: Pace {
            every: seconds(annotations::CHECKPOINT_EVERY, 0.0)?,
            write: seconds(annotations::CHECKPOINT_TAKES, CHECKPOINT_TAKES)?,
            restart: seconds(annotations::RESTART_TAKES, RESTART_TAKES)?,
        },
        speed,
    })
}

fn owned(pod: &Pod, job: &Job) -> bool {
    let owner = plan::claim::controller(&pod.metadata);
    owner.is_some_and(|owner| Some(&owner.uid) == job.metadata.uid.as_ref())
}

fn rank(pod: &Pod) -> Option<u32> {
    pod.metadata.labels.as_ref()?.get(INDEX)?.parse().ok()
}

/// A pod and the truth below it.
fn seat(pod: &Pod, site: &Datacentre) -> Seat {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let hardware = node.as_deref().and_then(|node| site.machine(node));
    let boot = hardware.as_ref().and_then(|machine| {
        machine.running().borrow().as_ref().map(|running| running.boot.clone())
    });
    Seat {
        pod: pod.metadata.uid.clone().unwrap_or_default(),
        runs: boot.is_some_and(|boot| kubelet::runs_in(pod, &boot)),
        leaves: plan::pod::is_terminating(pod),
        broken: hardware.and_then(|machine| broken(&machine, site)),
        node,
    }
}

/// The fault of a machine that kills what computes on it, in words.
fn broken(machine: &Hardware, site: &Datacentre) -> Option<String> {
    let catalogue = &site.settings().catalogue;
    let fatal = |fault: &Fault| {
        let row = fault.row.as_deref().and_then(|row| catalogue.row(row))?;
        let grave = row.severity == Severity::S1 || fault.cure == Cure::App;
        (grave && !fault.latent).then(|| format!("{}: {}", row.id, row.meaning))
    };
    machine.faults().iter().find_map(|(_, fault)| fatal(fault))
}

/// What is said, as an object that goes with its Job.
fn told(job: &Job, text: String) -> ConfigMap {
    let name = job.metadata.name.clone().unwrap_or_default();
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(config_map(&name)),
            namespace: job.metadata.namespace.clone(),
            labels: Some([(LABEL.to_owned(), name.clone())].into()),
            owner_references: Some(vec![OwnerReference {
                api_version: "batch/v1".to_owned(),
                kind: "Job".to_owned(),
                name,
                uid: job.metadata.uid.clone().unwrap_or_default(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        data: Some([(KEY.to_owned(), text)].into()),
        ..ConfigMap::default()
    }
}
