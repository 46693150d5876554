//! The acts of a script: what each settles when it begins, does, and waits for.

use std::collections::BTreeSet;
use std::time::Duration;

use api::training::{KEY, Phase, Progress, config_map};
use api::{Incident, Machine, NodePool};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kit::clock::Clock;
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Resource, ResourceExt as _};
use plan::tell;
use serde::de::DeserializeOwned;
use serde_json::json;
use sim::scenario::{Act, choose};

use super::place::Place;
use super::{Done, Error, PlayError, Stage, refused};

impl Stage<'_> {
    /// What is settled before an act is done.
    pub(super) async fn begin(&self, index: usize, act: &Act) -> Result<Place, Error> {
        let mut place = Place::at(index, Clock::system().now());
        match act {
            Act::Train {} | Act::Wait(_) => {}
            Act::Break { place: whereabouts, .. } => {
                let machines: Vec<Machine> = self.all().await?;
                let busy = self.busy().await?;
                let machine = choose(*whereabouts, &machines, |node| busy.contains(node))?;
                place.machine = Some(machine.name().to_owned());
                place.stopped = self.progress().await?.map_or(0, |progress| progress.stopped);
            }
            Act::Grow { pool, by } => {
                let pool = self.pools().get(pool).await.map_err(|error| refused(pool, error))?;
                place.served = pool.status.map_or(0, |status| status.current);
                place.wanted = pool.spec.target_nodes.unwrap_or_default().saturating_add(*by);
            }
        }
        Ok(place)
    }

    /// Does an act, and returns when it is over.
    pub(super) async fn perform(&self, act: &Act, place: &Place) -> Result<Option<Done>, Error> {
        match act {
            Act::Train {} => self.train().await.map(Some),
            Act::Wait(long) => {
                let over = place.since.checked_add(self.here(*long)).unwrap_or(place.since);
                let left = over.duration_since(Clock::system().now());
                tokio::time::sleep(Duration::try_from(left).unwrap_or_default()).await;
                Ok(None)
            }
            Act::Break { fault, .. } => self.strike(fault, place).await.map(Some),
            Act::Grow { pool, .. } => self.grow(pool, place).await.map(Some),
        }
    }

    /// The tenant applies the job.
    async fn train(&self) -> Result<Done, Error> {
        let job = &self.scenario.job;
        let namespace = job.namespace().unwrap_or_default();
        let apply = PatchParams::apply("tenant").force();
        let home = Namespace {
            metadata: ObjectMeta { name: Some(namespace.clone()), ..ObjectMeta::default() },
            ..Namespace::default()
        };
        let namespaces: Api<Namespace> = Api::all(self.admin.clone());
        let done = namespaces.patch(&namespace, &apply, &Patch::Apply(&home)).await;
        done.map_err(|error| refused(&format!("namespace {namespace}"), error))?;
        let jobs: Api<Job> = Api::namespaced(self.admin.clone(), &namespace);
        let done = jobs.patch(&job.name_any(), &apply, &Patch::Apply(job)).await;
        done.map_err(|error| refused(&format!("job {namespace}/{}", job.name_any()), error))?;
        let progress = self.until(|progress| progress.phase == Phase::Computing).await?;
        let Progress { ranks, gpus, pace, .. } = &progress;
        Ok(Done {
            name: "training".to_owned(),
            subject: format!("{ranks}/{ranks}"),
            about: format!(
                "{}: {} GPUs, a checkpoint every {} ({} here)",
                self.job(),
                tell::thousands(u64::from(*ranks) * u64::from(*gpus)),
                tell::span(Duration::from_secs_f64(pace.every)),
                tell::short(Duration::from_secs_f64(pace.every / progress.speed)),
            ),
        })
    }

    /// What is shown when a machine breaks.
    pub(super) fn struck(&self, fault: &str, machine: &str) -> Done {
        let named = self.datacentre.faults().named(fault).ok();
        let row = named.and_then(|fault| fault.row).unwrap_or_default();
        let leaf = self.datacentre.machine(machine);
        let leaf = leaf.and_then(|machine| machine.plan().place.leaf.clone()).unwrap_or_default();
        Done {
            name: "fault".to_owned(),
            subject: machine.to_owned(),
            about: format!("{fault} ({row}) below {leaf}: seatrial node why {machine}"),
        }
    }

    /// Breaks the machine, unless that was done before, and waits until the job computes again.
    async fn strike(&self, fault: &str, place: &Place) -> Result<Done, Error> {
        let name = place.machine.clone().unwrap_or_default();
        let stopped = self.progress().await?.is_some_and(|now| now.stopped > place.stopped);
        if let Some(machine) = self.datacentre.machine(&name)
            && !stopped
            && machine.faults().iter().all(|(_, there)| there.word != fault)
        {
            machine.strike(self.datacentre.faults().named(fault)?);
        }
        let again = |progress: &Progress| {
            progress.stopped > place.stopped && progress.phase == Phase::Computing
        };
        let progress = self.until(again).await?;
        let machines: Vec<Machine> = self.all().await?;
        let stop = progress.stops.last();
        let took = stop.and_then(|stop| Some(stop.going?.duration_since(stop.at)));
        let took = took.and_then(|took| Duration::try_from(took).ok()).unwrap_or_default();
        let cover = stop.and_then(plan::training::slowest);
        let cover = cover.and_then(|lost| plan::training::cover(lost, &machines));
        let cover = cover.map_or(String::new(), |(spare, near)| {
            format!(", on spare {} ({})", spare.name(), near.unwrap_or("another site"))
        });
        let ranks = progress.ranks;
        Ok(Done {
            name: "training again".to_owned(),
            subject: format!("{ranks}/{ranks}"),
            about: format!("after {}{cover}", tell::short(took)),
        })
    }

    /// Asks a pool for more nodes, and waits until they serve or cannot.
    async fn grow(&self, name: &str, place: &Place) -> Result<Done, Error> {
        let body = Patch::Merge(json!({"spec": {"targetNodes": place.wanted}}));
        let by = PatchParams { field_manager: Some("tenant".to_owned()), ..PatchParams::default() };
        let pools = self.pools();
        let asked = pools.patch(name, &by, &body).await.map_err(|error| refused(name, error))?;
        let generation = asked.metadata.generation;
        let settled = move |pool: Option<&NodePool>| {
            pool.and_then(|pool| pool.status.as_ref()).is_some_and(|status| {
                status.observed_generation >= generation
                    && (status.current >= place.wanted
                        || (status.queued > 0 && status.in_progress == 0))
            })
        };
        let pool = await_condition(pools, name, settled).await.map_err(|source| {
            PlayError::Follow { what: format!("pool {name}"), source: Box::new(source) }
        })?;
        let took = Clock::system().now().duration_since(place.since);
        let took = tell::short(Duration::try_from(took).unwrap_or_default());
        let status = pool.and_then(|pool| pool.status).unwrap_or_default();
        let more = status.current.saturating_sub(place.served);
        let about = if status.current >= place.wanted {
            format!("{more} more serve after {took}: the spares were warm")
        } else {
            let why = status.why.split(';').next().unwrap_or_default();
            format!("{more} more after {took}; {why}")
        };
        let subject = format!("{}/{}", status.current, place.wanted);
        Ok(Done { name: format!("grow {name}"), subject, about })
    }

    /// Where the time of the job went.
    pub(super) async fn account(&self) -> Result<Option<tell::Training>, Error> {
        let Some(progress) = self.progress().await? else { return Ok(None) };
        let (incidents, machines): (Vec<Incident>, Vec<Machine>) =
            (self.all().await?, self.all().await?);
        let now = Clock::system().now();
        Ok(Some(tell::training(now, &self.job(), &progress, &incidents, &machines)))
    }

    /// The job as people name it.
    fn job(&self) -> String {
        let job = &self.scenario.job;
        format!("{}/{}", job.namespace().unwrap_or_default(), job.name_any())
    }

    /// How long a time of training is here.
    fn here(&self, time: Duration) -> Duration {
        let speed = self.datacentre.settings().delays.speed();
        Duration::try_from_secs_f64(time.as_secs_f64() / speed).unwrap_or_default()
    }

    fn pools(&self) -> Api<NodePool> {
        Api::all(self.admin.clone())
    }

    fn said(&self) -> Api<ConfigMap> {
        Api::namespaced(self.admin.clone(), &self.scenario.job.namespace().unwrap_or_default())
    }

    /// What the job says of its progress.
    async fn progress(&self) -> Result<Option<Progress>, Error> {
        let name = config_map(&self.scenario.job.name_any());
        let found = self.said().get_opt(&name).await.map_err(|error| refused(&name, error))?;
        Ok(found.as_ref().and_then(read))
    }

    /// Waits until the job says so.
    async fn until(
        &self,
        wanted: impl Fn(&Progress) -> bool + Send + Sync,
    ) -> Result<Progress, Error> {
        let name = config_map(&self.scenario.job.name_any());
        let so = |map: Option<&ConfigMap>| map.and_then(read).is_some_and(|said| wanted(&said));
        let found =
            await_condition(self.said(), &name, so).await.map_err(|source| PlayError::Follow {
                what: format!("the progress of {}", self.job()),
                source: Box::new(source),
            })?;
        let progress = found.as_ref().and_then(read);
        progress.ok_or_else(|| format!("{} is gone", self.job()).into())
    }

    /// The nodes on which ranks run.
    async fn busy(&self) -> Result<BTreeSet<String>, Error> {
        let job = &self.scenario.job;
        let pods: Api<Pod> =
            Api::namespaced(self.admin.clone(), &job.namespace().unwrap_or_default());
        let of = format!("batch.kubernetes.io/job-name={}", job.name_any());
        let pods = pods.list(&ListParams::default().labels(&of)).await;
        let pods = pods.map_err(|error| refused("a list of pods", error))?;
        let runs =
            |pod: &Pod| plan::pod::phase(pod) == "Running" && !plan::pod::is_terminating(pod);
        let nodes = pods.into_iter().filter(runs).filter_map(|pod| pod.spec?.node_name);
        Ok(nodes.collect())
    }

    async fn all<K>(&self) -> Result<Vec<K>, Error>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let listed = Api::<K>::all(self.admin.clone()).list(&ListParams::default()).await;
        Ok(listed.map_err(|error| refused("a list", error))?.items)
    }
}

fn read(map: &ConfigMap) -> Option<Progress> {
    serde_json::from_str(map.data.as_ref()?.get(KEY)?).ok()
}
