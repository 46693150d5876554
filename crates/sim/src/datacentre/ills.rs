//! What is broken about a machine: how faults strike, show, and end.

use super::delays::Delay;
use super::fault::{Cure, Fault, Mishap, Voice};
use super::hardware::{FaultId, Heal, Signal};
use super::show;
use super::truth::{Around, Due, Ill, Truth};
use jiff::Timestamp;

/// The most faults that one machine has at a time; older ones make room.
const MAX_ILLS: usize = 64;

impl Truth {
    /// Whether a mishap of this kind happens now; uses up one occasion.
    pub(super) fn mishap(&mut self, is: impl Fn(Mishap) -> bool) -> bool {
        let found = self.ills.iter_mut().enumerate().find_map(|(index, ill)| {
            let mishap = ill.fault.mishap.as_mut().filter(|mishap| is(**mishap))?;
            Some((index, mishap.use_up()))
        });
        let Some((index, left)) = found else { return false };
        if !left && self.ills.get(index).is_some_and(|ill| ill.fault.row.is_none()) {
            self.ills.remove(index);
        } else if !left && let Some(ill) = self.ills.get_mut(index) {
            ill.fault.mishap = None;
        }
        true
    }

    /// Whether a mishap of this kind is there.
    pub(super) fn has(&self, is: impl Fn(Mishap) -> bool) -> bool {
        self.ills.iter().any(|ill| ill.fault.mishap.is_some_and(&is))
    }

    /// Who can be heard may have changed.
    pub(super) fn voices(&mut self) {
        self.news.push(Signal::Voices);
        self.stirred = true;
    }

    /// What a running boot shows after this process began anew: signals that have been due are not
    /// told again but to whoever asks.
    pub(super) fn resume(&mut self, around: &Around<'_>) {
        if self.running.is_some() {
            self.show_all(around);
            self.outbox.retain(|due| due.at > around.now);
        }
    }

    /// What this boot has shown until now.
    pub(super) fn shown(&self, around: &Around<'_>) -> Vec<Signal> {
        let mut due: Vec<Due> = Vec::new();
        if self.running.is_some() {
            let shows = self.ills.iter().filter(|ill| !ill.fault.latent || ill.found);
            due.extend(shows.flat_map(|ill| show::symptoms(ill, around)));
            due.retain(|due| due.at <= around.now);
            due.sort_by_key(|due| due.at);
        }
        due.into_iter().map(|due| due.signal).collect()
    }

    /// Puts everything that this boot shows into the outbox.
    pub(super) fn show_all(&mut self, around: &Around<'_>) {
        self.outbox.clear();
        for ill in &self.ills {
            if !ill.fault.latent || ill.found {
                self.outbox.extend(show::symptoms(ill, around));
            }
        }
    }

    /// Everything that is due goes to whoever listens.
    pub(super) fn deliver(&mut self, at: Timestamp) {
        self.outbox.sort_by_key(|due| due.at);
        let later = self.outbox.partition_point(|due| due.at <= at);
        let rest = self.outbox.split_off(later);
        self.news.extend(self.outbox.drain(..).map(|due| due.signal));
        self.outbox = rest;
    }

    /// A fault strikes.
    pub(super) fn strike(&mut self, mut fault: Fault, around: &Around<'_>) -> FaultId {
        self.struck += 1;
        let id = FaultId(self.struck);
        let now = around.now;
        fault.part = show::part(&fault, self.struck, around);
        if fault.cure == Cure::App && fault.until.is_none() {
            fault.until = Some(around.after(now, Delay::AppEnds));
        }
        if self.ills.len() >= MAX_ILLS {
            self.ills.remove(0);
        }
        let ill = Ill { id, fault, since: now, found: false };
        if self.running.is_some() && !ill.fault.latent {
            self.outbox.extend(show::symptoms(&ill, around));
        }
        let silences = ill.fault.silences.is_some();
        self.ills.push(ill);
        if self.powerless() {
            self.orders.clear();
            self.back_at = None;
            self.cut(now);
        }
        // What can still be seen is seen before the silence.
        self.deliver(now);
        if silences {
            self.voices();
        }
        id
    }

    /// What is done from outside to mend it.
    pub(super) fn heal(&mut self, what: &Heal, around: &Around<'_>) -> usize {
        let was_powerless = self.powerless();
        let ended = self.end_ills(around.now, around, |ill| match what {
            Heal::All => true,
            Heal::One(id) => ill.id == *id,
            Heal::Named(name) => {
                ill.fault.word == *name || ill.fault.row.as_deref() == Some(name.as_str())
            }
            Heal::Parts => ill.fault.cure != Cure::Domain,
        });
        if was_powerless && !self.powerless() && !self.on {
            // Machines are set to come back when power does.
            self.last_reset = Some(around.now);
            self.switch_on(around.now, around);
        }
        ended
    }

    /// Faults end within a boot; their numbers say so.
    pub(super) fn end_ills(
        &mut self,
        at: Timestamp,
        around: &Around<'_>,
        ends: impl Fn(&Ill) -> bool,
    ) -> usize {
        let (ended, left): (Vec<Ill>, Vec<Ill>) = self.ills.drain(..).partition(|ill| ends(ill));
        self.ills = left;
        for ill in &ended {
            self.outbox.retain(|due| due.of != ill.id);
            if self.running.is_some() && (!ill.fault.latent || ill.found) {
                self.outbox.extend(show::over(ill, at, around));
            }
        }
        if ended.iter().any(|ill| ill.fault.silences.is_some()) {
            self.voices();
        }
        ended.len()
    }

    /// What a boot or a cut of the power cures.
    pub(super) fn cure(&mut self, cure: Cure) {
        self.ills.retain(|ill| ill.fault.row.is_none() || ill.fault.cure > cure);
    }

    /// Whether this voice can be heard.
    pub(super) fn speaks(&self, voice: Voice) -> bool {
        let silent = |ill: &Ill| {
            ill.fault.silences.is_some_and(|silent| silent == Voice::Node || silent == voice)
        };
        self.running.is_some() && !self.ills.iter().any(silent)
    }
}
