//! Faults of hardware, as the datacentre has them.

use super::super::draw::Draw;
use super::super::tale::Fault;
use super::site::Site;
use crate::datacentre::{Hardware, Heal};
use api::evidence::Evidence;
use api::names::manager;
use api::request::Power;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// What happens by itself after a fault has struck.
pub(super) enum Later {
    /// What struck a domain is repaired.
    Heal(&'static str),
    /// It comes back, so many times more.
    Again(String, u32),
}

/// The words of the datacentre for a fault, of which one is drawn.
const fn words(fault: Fault) -> &'static [&'static str] {
    match fault {
        Fault::App => &["gpu-app"],
        Fault::GpuReset => &["gpu-ecc", "gpu-remap", "nvlink"],
        Fault::Reboot => &["gpu-hang", "gpu-firmware", "read-only", "memory"],
        Fault::PowerCycle => &["gpu-lost", "nic-lost", "disk-lost"],
        Fault::Parts => &["gpu-memory", "nvlink-down", "disk"],
        Fault::Transient | Fault::Flapping => &["gpu-hang", "gpu-firmware"],
        Fault::Leaf => &["leaf-down"],
        Fault::Pdu => &["pdu-feed", "power-loss"],
        Fault::BmcSilent => &["bmc-silent", "bmc-slow"],
        Fault::BmcError => &["bmc-errors", "bmc-lies"],
        Fault::BmcIgnores => &["bmc-ignores", "bmc-half", "no-last-reset"],
        Fault::NoBoot => &["boot-hangs", "boot-fails", "never-boots"],
        Fault::Panic => &["kernel-panic", "kernel-hang"],
        Fault::GpuMissing => &["gpu-missing"],
        Fault::ChoreFails => &["wipe-fails", "flash-fails"],
        Fault::ChoreHangs => &["chore-hangs"],
        Fault::NoJoin => &["kubelet-dead"],
        Fault::Mute => &["node-silent", "agent-dead"],
        Fault::NodeDeleted | Fault::LateEvidence => &[],
    }
}

/// Faults after which whatever is done to the machine has a reason.
const fn is_flaw(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::BmcSilent
            | Fault::BmcError
            | Fault::BmcIgnores
            | Fault::NoBoot
            | Fault::Panic
            | Fault::GpuMissing
            | Fault::ChoreFails
            | Fault::ChoreHangs
            | Fault::NoJoin
            | Fault::Mute
            | Fault::NodeDeleted
    )
}

impl Site {
    /// A fault strikes a machine; says what follows by itself, and when.
    pub(super) async fn strike(
        &self,
        name: &str,
        fault: Fault,
        draw: &mut Draw,
    ) -> Option<(Duration, Later)> {
        let hardware = self.datacentre.machine(name)?;
        {
            let mut seen = self.record.seen();
            let state = seen.state(name);
            seen.tale.coverage.fault(state, fault);
            seen.step(true, &["strike", name, &format!("{fault:?}")]);
            seen.say(|| format!("** {name} is struck by {fault:?}"));
            if is_flaw(fault) {
                seen.struck(name, true);
            }
        }
        let word = draw.pick(words(fault)).unwrap_or_default();
        match fault {
            Fault::NodeDeleted => self.delete_node(name).await,
            Fault::LateEvidence => self.late_evidence(name).await,
            Fault::Panic if draw.once_in(2) => {
                // The machine restarts by itself.
                self.record.seen().truth(name).own_resets += u32::from(hardware.on());
                hardware.power(Power::ForceRestart, None);
            }
            Fault::Leaf | Fault::Pdu => return self.strike_domain(&hardware, fault, word),
            Fault::Transient => self.strike_word(name, word, Some(MINUTE / 2)),
            Fault::Flapping => {
                self.strike_word(name, word, Some(MINUTE));
                return Some((5 * MINUTE, Later::Again(name.to_owned(), 2)));
            }
            _ => self.strike_word(name, word, None),
        }
        None
    }

    /// What flaps comes back for a minute.
    pub(super) fn strike_again(&self, name: &str) {
        self.record.seen().say(|| format!("** {name} is struck again"));
        self.strike_word(
            name,
            words(Fault::Flapping).first().copied().unwrap_or_default(),
            Some(MINUTE),
        );
    }

    fn strike_word(&self, name: &str, word: &str, lasts: Option<Duration>) {
        let Some(hardware) = self.datacentre.machine(name) else { return };
        let Ok(mut fault) = self.datacentre.faults().named(word) else { return };
        fault.until = lasts.and_then(|lasts| self.clock.now().checked_add(lasts).ok());
        self.record.seen().say(|| format!("   it is {word}"));
        // A program's fault is no fault of the machine.
        if word != "gpu-app" {
            self.record.seen().struck(name, false);
        }
        hardware.strike(fault);
    }

    fn strike_domain(
        &self,
        hardware: &Hardware,
        fault: Fault,
        word: &'static str,
    ) -> Option<(Duration, Later)> {
        let place = &hardware.plan().place;
        let Ok(what) = self.datacentre.faults().named(word) else { return None };
        let below: Vec<String> = self
            .datacentre
            .machines()
            .filter(|machine| match fault {
                Fault::Leaf => machine.plan().place.leaf == place.leaf,
                _ => machine.plan().place.pdu == place.pdu,
            })
            .map(|machine| machine.name().to_owned())
            .collect();
        for name in &below {
            self.record.seen().struck(name, word == "power-loss");
        }
        self.record.seen().say(|| format!("   it is {word} on {below:?}"));
        match fault {
            Fault::Leaf => self.datacentre.strike_leaf(place.leaf.as_deref().unwrap_or(""), &what),
            _ => self.datacentre.strike_pdu(place.pdu.as_deref().unwrap_or(""), &what),
        };
        Some((40 * MINUTE, Later::Heal(word)))
    }

    /// What struck a domain is repaired.
    pub(super) fn heal_domain(&self, word: &str) {
        self.record.seen().say(|| format!("** {word} is repaired"));
        for hardware in self.datacentre.machines() {
            hardware.heal(&Heal::Named(word.to_owned()));
        }
    }

    /// From now on no operation goes wrong any more, and no domain is broken. What shows and can be
    /// worked on stays.
    pub(super) fn mend_the_unseen(&self) {
        for hardware in self.datacentre.machines() {
            for (id, fault) in hardware.faults() {
                let unseen = fault.row.is_none() || fault.cure == crate::datacentre::Cure::Domain;
                if unseen || fault.row.as_deref() == Some("bmc/silent") {
                    hardware.heal(&Heal::One(id));
                }
            }
        }
    }

    async fn delete_node(&self, name: &str) {
        let nodes: Api<Node> = Api::all(self.person.clone());
        // One that is gone is gone.
        let _ = nodes.delete(name, &DeleteParams::default()).await;
    }

    /// A line of the log of an earlier boot is told again.
    async fn late_evidence(&self, name: &str) {
        let catalogue = self.datacentre.faults().catalogue();
        let Some(row) = catalogue.row("xid/95") else { return };
        let evidence = Evidence {
            text: "it was seen".to_owned(),
            boot: Some("an-earlier-boot".to_owned()),
            part: Some("GPU-3".to_owned()),
            count: None,
        };
        let condition = json!({
            "type": row.condition.as_str(), "status": "True", "reason": row.reason,
            "message": evidence.with_row(row.id.as_str()),
            "lastTransitionTime": kit::clock::rfc3339_seconds(self.clock.now()),
        });
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        let by = PatchParams {
            field_manager: Some(manager::MONITOR.to_owned()),
            ..PatchParams::default()
        };
        let nodes: Api<Node> = Api::all(self.person.clone());
        let _ = nodes.patch_status(name, &by, &patch).await;
    }
}
