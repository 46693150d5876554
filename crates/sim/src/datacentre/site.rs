//! The whole site: every machine's hidden truth, the clock, what machines share, and the timers.
//!
//! Every change of a machine goes through [`Datacentre::touch`]: what is due happens first, then the
//! change, then listeners hear of it, the file is written, and one timer is set for what is due next.

use super::delays::{Delay, Delays};
use super::fault::Fault;
use super::faults::{Faults, FaultsError};
use super::file::{Journal, JournalError};
use super::hardware::{FaultId, Hardware, Running, Signal};
use super::layout::{Layout, MachinePlan};
use super::truth::{Around, Step, Truth, plus};
use api::instance_type::InstanceTypeSpec;
use jiff::Timestamp;
use kit::clock::Clock;
use metal::Exchange;
use plan::catalogue::Catalogue;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::AbortHandle;

/// How a site is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the time comes from.
    pub clock: Clock,
    /// How long everything takes.
    pub delays: Delays,
    /// What faults look like.
    pub catalogue: Arc<Catalogue>,
    /// Decides everything that is drawn.
    pub seed: u64,
    /// Where the hardware's state is kept; nowhere if absent.
    pub file: Option<PathBuf>,
}

/// Where machines boot from.
#[derive(Clone, Debug)]
pub struct BootService {
    /// Carries their requests.
    pub exchange: Exchange,
    /// The beginning of its URLs, as `http://boot.seatrial.local`.
    pub url: String,
}

/// The site cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The hardware's state cannot be read.
    #[error(transparent)]
    File(#[from] JournalError),
    /// The built-in table of faults does not fit the catalogue, which a site may have changed.
    #[error(transparent)]
    Faults(#[from] FaultsError),
    /// A machine of the layout has no type.
    #[error("machine {machine}: the layout has no instance type {kind}")]
    Type {
        /// The machine.
        machine: String,
        /// What it says its type is.
        kind: String,
    },
}

/// How the hardware of a site stands at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Stands(BTreeMap<String, Truth>);

/// Every machine of a site. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Datacentre(Arc<Site>);

#[derive(Debug)]
struct Site {
    layout: Layout,
    settings: Settings,
    faults: Faults,
    kinds: BTreeMap<String, InstanceTypeSpec>,
    by_name: BTreeMap<String, usize>,
    units: Vec<Unit>,
    boot_service: Mutex<Option<BootService>>,
    /// Until when the boot service is busy with images that were asked for.
    busy: Mutex<Timestamp>,
    journal: Option<Mutex<Journal>>,
}

/// One machine with what hangs on it.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) running: watch::Sender<Option<Running>>,
    /// Boots, silences and tasks have changed.
    pub(super) changed: Notify,
    pub(super) bmc: Mutex<super::redfish::Memory>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    truth: Truth,
    ears: Vec<mpsc::UnboundedSender<Signal>>,
    timer: Option<AbortHandle>,
}

impl Datacentre {
    /// The site of a layout, with the hardware as its file has it or as delivered. To be called
    /// within a tokio runtime, as what was under way goes on at once.
    ///
    /// # Errors
    /// The file of the hardware's state cannot be read, or the layout is not whole.
    pub fn start(layout: Layout, settings: Settings) -> Result<Self, StartError> {
        let (journal, kept) = match &settings.file {
            Some(file) => {
                let (journal, kept) = Journal::open(file)?;
                (Some(Mutex::new(journal)), kept)
            }
            None => (None, BTreeMap::new()),
        };
        Self::with(layout, settings, journal, kept)
    }

    /// The same with hardware as it stood in another site of this layout.
    pub(crate) fn resumed(
        layout: Layout,
        settings: Settings,
        stands: &Stands,
    ) -> Result<Self, StartError> {
        Self::with(layout, settings, None, stands.0.clone())
    }

    /// Every machine runs, as if it had come up just now: a site that is met in service.
    pub(crate) fn serve(&self) {
        for index in 0..self.0.units.len() {
            self.touch(index, |truth, around| truth.serve(around));
        }
    }

    /// How all hardware stands now.
    pub(crate) fn stands(&self) -> Stands {
        let truth = |index: usize| lock(&self.unit(index).inner).truth.clone();
        let names = self.0.by_name.iter();
        Stands(names.map(|(name, index)| (name.clone(), truth(*index))).collect())
    }

    fn with(
        layout: Layout,
        settings: Settings,
        journal: Option<Mutex<Journal>>,
        mut kept: BTreeMap<String, Truth>,
    ) -> Result<Self, StartError> {
        for plan in &layout.machines {
            if layout.kind(plan).is_none() {
                let (machine, kind) = (plan.name.clone(), plan.instance_type.clone());
                return Err(StartError::Type { machine, kind });
            }
        }
        let faults = Faults::load(settings.catalogue.clone())?;
        let unit = |plan: &MachinePlan| {
            let truth = kept.remove(&plan.name).unwrap_or_else(|| Truth::delivered(plan));
            Unit {
                running: watch::Sender::new(truth.running.clone()),
                changed: Notify::new(),
                bmc: Mutex::default(),
                inner: Mutex::new(Inner { truth, ..Inner::default() }),
            }
        };
        let units: Vec<Unit> = layout.machines.iter().map(unit).collect();
        let by_name =
            layout.machines.iter().enumerate().map(|(i, m)| (m.name.clone(), i)).collect();
        let site = Self(Arc::new(Site {
            kinds: layout.types.clone(),
            layout,
            settings,
            faults,
            by_name,
            units,
            boot_service: Mutex::default(),
            busy: Mutex::new(Timestamp::MIN),
            journal,
        }));
        for index in 0..site.0.units.len() {
            site.resume(index);
        }
        Ok(site)
    }

    /// What stands where.
    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }

    /// How it is run.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The faults that there can be.
    pub fn faults(&self) -> &Faults {
        &self.0.faults
    }

    /// The machine of this name.
    pub fn machine(&self, name: &str) -> Option<Hardware> {
        let index = *self.0.by_name.get(name)?;
        Some(Hardware { site: self.clone(), index })
    }

    /// Every machine, in the order of the layout.
    pub fn machines(&self) -> impl Iterator<Item = Hardware> {
        (0..self.0.units.len()).map(|index| Hardware { site: self.clone(), index })
    }

    /// From now on machines boot from here; until then each boots the image of its type.
    pub fn boot_from(&self, service: BootService) {
        *lock(&self.0.boot_service) = Some(service);
    }

    /// Breaks a leaf switch: the fault shows on every machine below it.
    pub fn strike_leaf(&self, leaf: &str, fault: &Fault) -> Vec<(Hardware, FaultId)> {
        self.strike_where(fault, |plan| plan.place.leaf.as_deref() == Some(leaf))
    }

    /// Breaks a power distribution unit: the fault shows on every machine below it.
    pub fn strike_pdu(&self, pdu: &str, fault: &Fault) -> Vec<(Hardware, FaultId)> {
        self.strike_where(fault, |plan| plan.place.pdu.as_deref() == Some(pdu))
    }

    fn strike_where(
        &self,
        fault: &Fault,
        below: impl Fn(&MachinePlan) -> bool,
    ) -> Vec<(Hardware, FaultId)> {
        let below = self.machines().filter(|machine| below(machine.plan()));
        below.map(|machine| (machine.clone(), machine.strike(fault.clone()))).collect()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.0.settings.clock.now()
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "handles are made for machines of this layout only"
    )]
    pub(super) fn plan(&self, index: usize) -> &MachinePlan {
        &self.0.layout.machines[index]
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "handles are made for machines of this layout only"
    )]
    pub(super) fn unit(&self, index: usize) -> &Unit {
        &self.0.units[index]
    }

    pub(super) fn boot_service(&self) -> Option<BootService> {
        lock(&self.0.boot_service).clone()
    }

    /// When an image that is asked for at `at` has been served: one after the other, each with the
    /// whole bandwidth. It ends no later than with equal shares, and the last ends the same.
    fn loaded(&self, at: Timestamp) -> Timestamp {
        let delays = &self.0.settings.delays;
        let serve = delays.of(Delay::Serve) / delays.servers(self.0.units.len());
        let mut busy = lock(&self.0.busy);
        *busy = plus((*busy).max(at), serve);
        *busy
    }

    fn around<R>(&self, index: usize, act: impl FnOnce(&Around<'_>) -> R) -> R {
        let plan = self.plan(index);
        let default = InstanceTypeSpec::default();
        let around = Around {
            now: self.now(),
            delays: &self.0.settings.delays,
            faults: &self.0.faults,
            plan,
            kind: self.0.kinds.get(&plan.instance_type).unwrap_or(&default),
            seed: self.0.settings.seed,
            boots_from_service: lock(&self.0.boot_service).is_some(),
            loaded: &|at| self.loaded(at),
        };
        act(&around)
    }

    /// Looks at a machine.
    pub(super) fn look<R>(&self, index: usize, look: impl FnOnce(&Truth, &Around<'_>) -> R) -> R {
        self.around(index, |around| look(&lock(&self.unit(index).inner).truth, around))
    }

    /// Changes a machine.
    pub(super) fn touch<R>(
        &self,
        index: usize,
        act: impl FnOnce(&mut Truth, &Around<'_>) -> R,
    ) -> R {
        self.around(index, |around| {
            let mut inner = lock(&self.unit(index).inner);
            inner.truth.happen(around);
            let result = act(&mut inner.truth, around);
            inner.truth.happen(around);
            self.settle(index, &mut inner);
            result
        })
    }

    /// Listens from now on; what this boot has shown already comes first.
    pub(super) fn listen(&self, index: usize, ear: mpsc::UnboundedSender<Signal>) {
        self.around(index, |around| {
            let mut inner = lock(&self.unit(index).inner);
            for signal in inner.truth.shown(around) {
                let _ = ear.send(signal);
            }
            inner.ears.retain(|ear| !ear.is_closed());
            inner.ears.push(ear);
        });
    }

    /// What was under way when this process began goes on.
    fn resume(&self, index: usize) {
        self.around(index, |around| {
            let mut inner = lock(&self.unit(index).inner);
            inner.truth.resume(around);
            inner.truth.happen(around);
            self.settle(index, &mut inner);
        });
    }

    /// Tells, writes down, and sets the timer.
    fn settle(&self, index: usize, inner: &mut Inner) {
        let unit = self.unit(index);
        let truth = &mut inner.truth;
        if *unit.running.borrow() != truth.running {
            unit.running.send_replace(truth.running.clone());
        }
        let news = std::mem::take(&mut truth.news);
        if !news.is_empty() {
            inner.ears.retain(|ear| news.iter().all(|signal| ear.send(signal.clone()).is_ok()));
        }
        if std::mem::take(&mut truth.stirred) {
            unit.changed.notify_waiters();
        }
        if let Some(journal) = &self.0.journal {
            lock(journal).write(&self.plan(index).name, truth);
        }
        if truth.step == Some(Step::Fetch) && !truth.fetching {
            truth.fetching = true;
            tokio::spawn(super::boot::fetch(self.clone(), index, truth.starts));
        }
        if let Some(timer) = inner.timer.take() {
            timer.abort();
        }
        if let Some(at) = truth.next() {
            let wait = at.duration_since(self.now()).unsigned_abs();
            let wait = if at <= self.now() { std::time::Duration::ZERO } else { wait };
            inner.timer =
                Some(tokio::spawn(ring(Arc::downgrade(&self.0), index, wait)).abort_handle());
        }
    }
}

/// Something of a machine is due. Holds the site no longer than needed: a site that nobody has any
/// more has no timers.
async fn ring(site: Weak<Site>, index: usize, wait: std::time::Duration) {
    tokio::time::sleep(wait).await;
    if let Some(site) = site.upgrade() {
        Datacentre(site).touch(index, |_, _| ());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
