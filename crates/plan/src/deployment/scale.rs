//! How large each set shall be: a rolling update's steps, and growth in proportion.

use std::collections::BTreeSet;

use super::revision::{DESIRED, MOST, annotation};
use super::{World, available, size};

impl World<'_> {
    fn total(&self) -> i32 {
        self.sizes.iter().fold(0, |sum: i32, size| sum.saturating_add(*size))
    }

    /// Available pods of a set that stay: its status may still count those that it was told to end.
    fn staying(&self, i: usize) -> i32 {
        available(self.sets[i]).min(self.sizes[i])
    }

    fn all_staying(&self) -> i32 {
        (0..self.sets.len()).fold(0, |sum: i32, i| sum.saturating_add(self.staying(i)))
    }

    fn floor(&self) -> i32 {
        self.replicas - self.unavailable
    }

    /// Somebody changed the number of replicas since the sets were sized.
    pub(super) fn is_scaled(&self) -> bool {
        let wanted = |text: &str| text.parse::<i32>().ok();
        let active = self.sets.iter().filter(|set| size(set) > 0);
        active
            .filter_map(|set| annotation(set, DESIRED).and_then(wanted))
            .any(|desired| desired != self.replicas)
    }

    /// The size of the current set, as far as the ceiling lets it grow.
    pub(super) fn new_size(&self, known: i32) -> i32 {
        if !self.rolling {
            return self.replicas;
        }
        let room = self.replicas.saturating_add(self.surge).saturating_sub(self.total());
        known.saturating_add(room.min(self.replicas - known).max(0))
    }

    /// Sizes the current set; says whether it changed.
    pub(super) fn grow_new(&mut self) -> bool {
        let Some(new) = self.new else { return false };
        let known = self.sizes[new];
        let wanted = if known > self.replicas { self.replicas } else { self.new_size(known) };
        self.sizes[new] = wanted;
        wanted != known
    }

    /// Takes old pods away as far as the floor lets us: first those that are not available.
    pub(super) fn shrink_old(&mut self) {
        let old: Vec<usize> = self.old().collect();
        let in_waiting = self.new.map_or(0, |new| self.sizes[new] - self.staying(new));
        let mut most = self.total() - self.floor() - in_waiting;
        if most <= 0 {
            return;
        }
        for &i in &old {
            let broken = (self.sizes[i] - self.staying(i)).clamp(0, most);
            self.sizes[i] -= broken;
            most -= broken;
        }
        let mut spare = (self.all_staying() - self.floor()).max(0);
        for &i in &old {
            let fewer = self.sizes[i].min(spare);
            self.sizes[i] -= fewer;
            spare -= fewer;
        }
    }

    /// Recreate: all old pods go first. Says whether they have gone.
    pub(super) fn stop_old(&mut self, running: &BTreeSet<String>) -> bool {
        let old: Vec<usize> = self.old().collect();
        let mut gone = true;
        for i in old {
            let uid = self.sets[i].metadata.uid.as_ref();
            gone &= self.sizes[i] == 0 && !uid.is_some_and(|uid| running.contains(uid));
            self.sizes[i] = 0;
        }
        gone
    }

    /// All sets grow or shrink by their share, so that a rollout that goes wrong meanwhile is not
    /// made larger by that.
    pub(super) fn scale_proportionally(&mut self) {
        let active: Vec<usize> = (0..self.sets.len()).filter(|&i| self.sizes[i] > 0).collect();
        let only = match active[..] {
            [] => self.new.or_else(|| self.old().last()),
            [one] => Some(one),
            _ => None,
        };
        if let Some(only) = only {
            self.sizes[only] = self.replicas;
            return;
        }
        if let Some(new) = self.new.filter(|&new| self.is_saturated(new)) {
            for i in active.into_iter().filter(|&i| i != new) {
                self.sizes[i] = 0;
            }
            return;
        }
        if self.rolling {
            self.share_out(active);
        }
    }

    fn is_saturated(&self, new: usize) -> bool {
        let set = self.sets[new];
        annotation(set, DESIRED).and_then(|text| text.parse().ok()) == Some(self.replicas)
            && size(set) == self.replicas
            && available(set) == self.replicas
    }

    fn share_out(&mut self, mut active: Vec<usize>) {
        let ceiling = if self.replicas > 0 { self.replicas.saturating_add(self.surge) } else { 0 };
        let todo = ceiling - self.total();
        if todo == 0 {
            return;
        }
        // The largest first; among equals the newest grows and the oldest shrinks first.
        if todo > 0 {
            active.reverse();
        }
        active.sort_by_key(|&i| std::cmp::Reverse(self.sizes[i]));
        let mut done = 0;
        for &i in &active {
            let part = self.fraction(i);
            let part =
                if todo > 0 { part.clamp(0, todo - done) } else { part.clamp(todo - done, 0) };
            self.sizes[i] += part;
            done += part;
        }
        if let Some(&first) = active.first() {
            self.sizes[first] = (self.sizes[first] + todo - done).max(0);
        }
    }

    /// By how much a set grows if all keep their share.
    fn fraction(&self, i: usize) -> i32 {
        let known = self.sizes[i];
        if self.replicas == 0 {
            return -known;
        }
        let before = annotation(self.sets[i], MOST).and_then(|text| text.parse::<i64>().ok());
        let status = self.deployment.status.as_ref().and_then(|status| status.replicas);
        let before = before.filter(|most| *most > 0).unwrap_or(i64::from(status.unwrap_or(0)));
        if before <= 0 {
            return 0;
        }
        let ceiling = i64::from(self.replicas) + i64::from(self.surge);
        let wanted = (i64::from(known) * ceiling * 2 + before) / (before * 2);
        i32::try_from(wanted - i64::from(known)).unwrap_or(0)
    }
}
