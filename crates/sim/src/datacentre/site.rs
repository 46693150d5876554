//! The whole site: every machine's hidden truth, the clock, and what they share.

use super::delays::Delays;
use super::fault::{Fault, Faults};
use super::hardware::{FaultId, Hardware, Running};
use super::layout::{Layout, MachinePlan};
use kit::clock::Clock;
use metal::Exchange;
use plan::catalogue::Catalogue;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

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

/// The hardware's state cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the hardware's state in {file}: {why}; remove the file to begin with new hardware")]
pub struct StartError {
    /// The file.
    pub file: String,
    /// What is wrong with it.
    pub why: String,
}

/// Every machine of a site. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Datacentre(Arc<Site>);

#[derive(Debug)]
struct Site {
    layout: Layout,
    settings: Settings,
    faults: Faults,
    by_name: BTreeMap<String, usize>,
    units: Vec<Unit>,
    boot_service: Mutex<Option<BootService>>,
}

#[derive(Debug)]
pub(super) struct Unit {
    pub(super) running: watch::Sender<Option<Running>>,
}

impl Datacentre {
    /// The site of a layout, with the hardware as its file has it or as delivered. To be called
    /// within a tokio runtime, as what was under way goes on at once.
    ///
    /// # Errors
    /// The file of the hardware's state cannot be read.
    pub fn start(layout: Layout, settings: Settings) -> Result<Self, StartError> {
        let by_name =
            layout.machines.iter().enumerate().map(|(i, m)| (m.name.clone(), i)).collect();
        let units =
            layout.machines.iter().map(|_| Unit { running: watch::Sender::new(None) }).collect();
        let faults = Faults::new(settings.catalogue.clone());
        let boot_service = Mutex::default();
        Ok(Self(Arc::new(Site { layout, settings, faults, by_name, units, boot_service })))
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
        *self.0.boot_service.lock().unwrap_or_else(PoisonError::into_inner) = Some(service);
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

    pub(super) fn plan(&self, index: usize) -> &MachinePlan {
        &self.0.layout.machines[index]
    }

    pub(super) fn unit(&self, index: usize) -> &Unit {
        &self.0.units[index]
    }
}
