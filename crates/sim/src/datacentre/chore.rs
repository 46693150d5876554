//! What comes of the agent's chores, given the hidden truth: how long each takes, what a test finds
//! and measures, what a reset cures.

use super::delays::Delay;
use super::fault::{Cure, Lack, Mishap, Test};
use super::show::{draw, same_part};
use super::truth::{Around, Ill, Truth, Work};
use api::inventory::Inventory;
use api::request::{Chore, Outcome, Report, Task};
use std::collections::BTreeMap;

/// What a figure below its floor comes to, as a share of the floor.
pub(super) const LOW: f64 = 0.8;
/// A sound machine measures between these shares of its floors.
const SOUND: (f64, f64) = (1.02, 1.06);

impl Truth {
    /// Takes a task on, unless it is known already; none if its boot does not run.
    pub(super) fn take_on(
        &mut self,
        task: &Task,
        profile: Option<&BTreeMap<String, String>>,
        around: &Around<'_>,
    ) -> Option<()> {
        self.running.as_ref().filter(|running| running.boot == task.boot)?;
        if self.work.as_ref().is_some_and(|work| work.id == task.id) {
            return Some(());
        }
        let hangs = self.mishap(|mishap| matches!(mishap, Mishap::ChoreHangs(_)));
        let delay = match task.chore {
            Chore::Inventory => Delay::Inventory,
            Chore::Sanitise => Delay::Sanitise,
            Chore::Firmware if self.differs(profile, around).is_empty() => Delay::FirmwareCheck,
            Chore::Firmware => Delay::Firmware,
            Chore::ResetGpu => Delay::ResetGpu,
            Chore::RestartService => Delay::RestartService,
            Chore::TestReadiness => Delay::TestReadiness,
            Chore::TestQuick => Delay::TestQuick,
            Chore::TestIdle => Delay::TestIdle,
            Chore::TestFull => Delay::TestFull,
            Chore::Diagnose => Delay::Diagnose,
        };
        let ends = (!hangs).then(|| around.after(around.now, delay));
        self.work = Some(Work { id: task.id.clone(), ends, report: None });
        self.stirred = true;
        Some(())
    }

    /// Ends a task whose time has come and says what came of it.
    pub(super) fn finish(
        &mut self,
        task: &Task,
        profile: Option<&BTreeMap<String, String>>,
        around: &Around<'_>,
    ) -> Option<Report> {
        let work = self.work.as_ref().filter(|work| work.id == task.id)?;
        if let Some(report) = &work.report {
            return Some(report.clone());
        }
        work.ends.filter(|ends| *ends <= around.now)?;
        let done = self.carry_out_chore(task, profile, around);
        let report = Report {
            id: task.id.clone(),
            boot: task.boot.clone(),
            outcome: done.outcome,
            detail: done.detail,
            part: done.part,
            figures: done.figures,
            at: around.now,
        };
        if let Some(work) = &mut self.work {
            work.report = Some(report.clone());
        }
        Some(report)
    }

    fn carry_out_chore(
        &mut self,
        task: &Task,
        profile: Option<&BTreeMap<String, String>>,
        around: &Around<'_>,
    ) -> Done {
        let target = task.target.as_deref();
        match task.chore {
            Chore::Inventory => {
                let found = self.inventory(around);
                let gpus = match &found.gpu_model {
                    Some(model) => format!("{} {model}, ", found.gpus),
                    None => String::new(),
                };
                Done::well(format!(
                    "{gpus}{} cores, {} GiB, {} disks, {} power supplies",
                    found.cores, found.memory_gib, found.disks, found.power_supplies
                ))
            }
            Chore::Sanitise if self.mishap(|m| matches!(m, Mishap::WipeFails(_))) => {
                Done::failed("nvme0n1 refused the cryptographic erase", Some("nvme0n1"))
            }
            Chore::Sanitise => {
                let disks = self.inventory(around).disks;
                Done::well(format!("{disks} disks and the TPM were wiped and read back"))
            }
            Chore::Firmware => self.flash(profile, around),
            Chore::ResetGpu => {
                let cured = |ill: &Ill| {
                    let gpu = ill.fault.cure == Cure::ResetGpu || ill.fault.cure == Cure::App;
                    gpu && same_part(target.unwrap_or_default(), &ill.fault.part)
                };
                self.end_ills(around.now, around, cured);
                Done::well(format!("{} answers again", target.unwrap_or("every GPU")))
            }
            Chore::RestartService => {
                let served = |ill: &Ill| {
                    ill.fault.cure <= Cure::Service
                        && target.is_none_or(|name| around.faults.served_by(&ill.fault, name))
                };
                self.end_ills(around.now, around, served);
                Done::well(format!("{} runs", target.unwrap_or("the service")))
            }
            Chore::TestReadiness => self.test(Test::Readiness, task, around),
            Chore::TestQuick | Chore::TestIdle => self.test(Test::Quick, task, around),
            Chore::TestFull => self.test(Test::Full, task, around),
            Chore::Diagnose => self.test(Test::Diagnose, task, around),
        }
    }

    /// Components whose firmware is not that of the profile, with what it should be.
    fn differs(
        &self,
        profile: Option<&BTreeMap<String, String>>,
        around: &Around<'_>,
    ) -> BTreeMap<String, String> {
        let have = self.written.as_ref().unwrap_or(&self.firmware);
        let version = |name: &String| have.get(name).or_else(|| around.kind.firmware.get(name));
        let drifted = self.ills.iter().any(|ill| ill.fault.word == "firmware-old");
        profile
            .unwrap_or(&around.kind.firmware)
            .iter()
            .filter(|(name, wanted)| drifted || version(name) != Some(wanted))
            .map(|(name, wanted)| (name.clone(), wanted.clone()))
            .collect()
    }

    fn flash(&mut self, profile: Option<&BTreeMap<String, String>>, around: &Around<'_>) -> Done {
        let differs = self.differs(profile, around);
        if differs.is_empty() {
            return Done::well("firmware is that of the profile".to_owned());
        }
        if self.mishap(|mishap| matches!(mishap, Mishap::FlashFails(_))) {
            let part = differs.keys().next().map(String::as_str);
            return Done::failed("the update was written and could not be verified", part);
        }
        let names: Vec<&str> = differs.keys().map(String::as_str).collect();
        let detail = format!("{} written, active after the power was cut", names.join(", "));
        let mut written = self.written.take().unwrap_or_else(|| self.firmware.clone());
        for (name, wanted) in differs {
            if around.kind.firmware.get(&name) == Some(&wanted) {
                written.remove(&name);
            } else {
                written.insert(name, wanted);
            }
        }
        self.written = Some(written);
        self.end_ills(around.now, around, |ill| {
            ill.fault.row.as_deref().is_some_and(|row| row.starts_with("drift/"))
        });
        Done::well(detail)
    }

    /// A test finds what it can find, and measures the rest.
    fn test(&mut self, level: Test, task: &Task, around: &Around<'_>) -> Done {
        let measures = matches!(level, Test::Quick | Test::Full);
        let mut figures = BTreeMap::new();
        if measures {
            for (name, floor) in &around.kind.floors {
                figures.insert(name.clone(), floor * sound(around, &task.id, name));
            }
        }
        let (mut failed, mut low) = (None, None);
        let mut shown = Vec::new();
        for ill in &mut self.ills {
            if ill.fault.found.is_none_or(|found| found > level) {
                continue;
            }
            if ill.fault.latent && !ill.found {
                ill.found = true;
                ill.since = around.now;
                shown.extend(super::show::symptoms(ill, around));
            }
            let figure = ill.fault.figure.as_ref().filter(|_| measures);
            let measured = figure.and_then(|figure| {
                let floor = around.kind.floors.get(figure)?;
                figures.insert(figure.clone(), floor * LOW);
                Some(())
            });
            let finding = (ill.fault.word.clone(), ill.fault.row.clone(), ill.fault.part.clone());
            match measured {
                Some(()) => low = low.or(Some(finding)),
                None => failed = failed.or(Some(finding)),
            }
        }
        self.outbox.extend(shown);
        let outcome = if failed.is_some() { Outcome::Failed } else { Outcome::Succeeded };
        let Some((word, row, part)) = failed.or(low) else {
            return Done { figures, ..Done::well(well(level, around)) };
        };
        let meaning = row.as_deref().and_then(|row| around.faults.catalogue().row(row));
        let detail = match meaning {
            Some(row) if outcome == Outcome::Failed => row.meaning.clone(),
            Some(row) => format!("measured to the end: {}", row.meaning),
            None => word,
        };
        Done { outcome, detail, part: Some(part).filter(|part| !part.is_empty()), figures }
    }

    /// The parts that a running system finds.
    pub(super) fn inventory(&self, around: &Around<'_>) -> Inventory {
        let mut found = around.kind.expected.clone();
        let less = |count: &mut u32| *count = count.saturating_sub(1);
        let mut dead = 0;
        for ill in &self.ills {
            match ill.fault.lacks {
                Some(Lack::Gpu) => less(&mut found.gpus),
                Some(Lack::Nvlink) => less(&mut found.nvlinks),
                Some(Lack::FabricPort) => {
                    less(&mut found.fabric_ports);
                    dead += 1;
                }
                Some(Lack::AllFabricPorts) => {
                    dead += found.fabric_ports;
                    found.fabric_ports = 0;
                }
                Some(Lack::Disk) => less(&mut found.disks),
                Some(Lack::PowerSupply) => less(&mut found.power_supplies),
                None => {}
            }
        }
        if let Some(leaf) = &around.plan.place.leaf {
            for port in dead.min(64)..around.kind.expected.fabric_ports.min(64) {
                let there = format!("{leaf}/{}", u32::from(around.plan.place.slot) * 8 + port);
                found.neighbours.insert(format!("mlx5_{port}"), there);
            }
        }
        found
    }

    /// The firmware that a running system finds.
    pub(super) fn firmware(&self, around: &Around<'_>) -> BTreeMap<String, String> {
        let mut found = around.kind.firmware.clone();
        found.extend(self.firmware.clone());
        let drifted = self.ills.iter().any(|ill| ill.fault.word == "firmware-old");
        if drifted && let Some(bios) = found.get_mut("bios") {
            "0.9.0".clone_into(bios);
        }
        found
    }
}

struct Done {
    outcome: Outcome,
    detail: String,
    part: Option<String>,
    figures: BTreeMap<String, f64>,
}

impl Done {
    fn well(detail: String) -> Self {
        Self { outcome: Outcome::Succeeded, detail, part: None, figures: BTreeMap::new() }
    }

    fn failed(detail: &str, part: Option<&str>) -> Self {
        Self {
            outcome: Outcome::Failed,
            part: part.map(str::to_owned),
            ..Self::well(detail.to_owned())
        }
    }
}

fn well(level: Test, around: &Around<'_>) -> String {
    let parts = match around.kind.expected.gpus {
        0 => "every part".to_owned(),
        gpus => format!("{gpus} GPUs and every other part"),
    };
    match level {
        Test::Readiness => format!("{parts} answer"),
        Test::Quick => format!("{parts} are sound"),
        Test::Full => format!("{parts} are sound after burn-in"),
        Test::Diagnose => "the vendor's diagnosis found nothing".to_owned(),
    }
}

/// What a sound machine measures, as a share of the floor; the same for the same task.
fn sound(around: &Around<'_>, task: &str, figure: &str) -> f64 {
    let draw = draw(around, &format!("figure {task} {figure}")) >> 11;
    let unit = draw as f64 / (1_u64 << 53) as f64;
    let share = SOUND.0 + (SOUND.1 - SOUND.0) * unit;
    (share * 1e4).round() / 1e4
}
