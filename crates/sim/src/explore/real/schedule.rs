//! One schedule through the embedded server: disturbed hours drawn from its number, then calm until
//! nothing is written any more, then judgement.

use super::super::draw::Draw;
use super::super::tale::{Disturbance, Fault, Tale};
use super::sabotage::Sabotage;
use super::site::{Beginning, Site};
use super::strike::Later;
use super::weather::{End, Link};
use api::request::{Ask, Power};
use api::state::State;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// What a schedule does itself later.
enum Due {
    Controllers,
    Hosts,
    SecondEnds,
    Heal(&'static str),
    Again(String, u32),
}

struct Schedule {
    site: Site,
    draw: Draw,
    due: Vec<(Instant, Due)>,
    machines: Vec<String>,
    /// Where faults and people mostly meet.
    focus: String,
}

/// What is wrong with a schedule that was never played.
pub(super) const NO_BEGINNING: &str = "cannot begin";

/// Plays the schedule of this number from a beginning.
pub(super) async fn play(
    begin: &Beginning,
    number: u64,
    sabotage: Option<Sabotage>,
    told: bool,
) -> Tale {
    let failed =
        |why: String| Tale { wrong: vec![format!("{NO_BEGINNING}: {why}")], ..Tale::default() };
    let mut site = match Site::start(begin, number, sabotage, told).await {
        Ok(site) => site,
        Err(why) => return failed(why),
    };
    if let Err(why) = site.start_hosts() {
        return failed(why);
    }
    site.start_controllers();
    let mut draw = Draw::new(number);
    let machines = site.record.seen().names();
    let focus = machines.get(draw.below(machines.len())).cloned().unwrap_or_default();
    let mut schedule = Schedule { site, draw, due: Vec::new(), machines, focus };
    schedule.disturbed().await;
    schedule.calm().await;
    let mut seen = schedule.site.record.seen();
    std::mem::take(&mut seen.tale)
}

/// Plays nothing: a site is brought up, for others to begin from.
pub(super) async fn bring_up(begin: &Beginning) -> Result<Beginning, String> {
    let mut site = Site::start(begin, begin.shape.vendor, None, false).await?;
    site.start_hosts()?;
    site.start_controllers();
    if !site.rest().await {
        return Err("the site never comes to rest".to_owned());
    }
    let mut seen = site.record.seen();
    seen.look_at_all();
    seen.end();
    let wrong = seen.tale.wrong.clone();
    drop(seen);
    match wrong.first() {
        None => Beginning::of(begin.shape, &site),
        Some(wrong) => Err(wrong.clone()),
    }
}

impl Schedule {
    async fn disturbed(&mut self) {
        if self.draw.once_in(2) {
            self.lead().await;
        }
        self.site.weather.storm();
        let steps = 8 + self.draw.below(14);
        let mut faults = 1 + self.draw.below(4);
        for step in 0..steps {
            if !self.site.record.seen().tale.wrong.is_empty() {
                return;
            }
            if step > 0 {
                self.wait().await;
            }
            let target = match self.draw.below(4) {
                0 => self.draw.pick(&self.machines.iter().collect::<Vec<_>>()).cloned(),
                _ => None,
            };
            let target = target.unwrap_or_else(|| self.focus.clone());
            let chance = self.draw.below(100);
            if faults > 0 && (chance < 20 || step < 2 && chance < 60) {
                faults -= 1;
                let fault = self.draw.pick(&Fault::ALL).unwrap_or(Fault::Reboot);
                let follows = self.site.strike(&target, fault, &mut self.draw).await;
                self.follow(follows);
            } else {
                let what = self.draw.pick(&Disturbance::ALL).unwrap_or(Disturbance::Crash);
                self.disturb(&target, what).await;
            }
            self.sabotage().await;
        }
    }

    /// Half of all begin with one machine on its way through a state.
    async fn lead(&mut self) {
        let state = self.draw.pick(&State::ALL).unwrap_or(State::Production);
        let ask = match state {
            State::Onboard | State::SeaTrial | State::Test => Ask::Onboard,
            State::Zap | State::ZapFailed => Ask::Zap,
            State::Triage => Ask::Triage,
            State::Debug => Ask::Debug,
            State::Rma => Ask::Rma,
            State::Production => return,
        };
        let focus = self.focus.clone();
        if state == State::ZapFailed
            && let Some(hardware) = self.site.datacentre.machine(&focus)
            && let Ok(fault) = self.site.datacentre.faults().named("wipe-fails")
        {
            self.site.record.seen().struck(&focus, true);
            for _ in 0..3 {
                hardware.strike(fault.clone());
            }
        }
        self.site.ask(&focus, ask).await;
        for _ in 0..240 {
            if self.site.record.seen().state(&focus) == state {
                return;
            }
            tokio::time::sleep(60 * SECOND).await;
        }
    }

    fn later(&mut self, wait: Duration, due: Due) {
        self.due.push((Instant::now() + wait, due));
    }

    fn seconds(&mut self, below: usize) -> Duration {
        let most = below.saturating_mul(1_000);
        Duration::from_millis(u64::try_from(self.draw.below(most)).unwrap_or(0))
    }

    fn follow(&mut self, follows: Option<(Duration, Later)>) {
        match follows {
            Some((wait, Later::Heal(word))) => self.later(wait, Due::Heal(word)),
            Some((wait, Later::Again(name, times))) => self.later(wait, Due::Again(name, times)),
            None => {}
        }
    }

    /// Time passes: moments, minutes, or an hour. What is due meanwhile happens.
    async fn wait(&mut self) {
        let most = match self.draw.below(8) {
            0 | 1 => 1,
            2 | 3 => 30,
            4 | 5 => 300,
            6 => 1_800,
            _ => 5_400,
        };
        let until = Instant::now() + self.seconds(most);
        self.pass(until).await;
    }

    async fn pass(&mut self, until: Instant) {
        loop {
            let next = self.due.iter().map(|(at, _)| *at).min().filter(|at| *at < until);
            let weather = self.site.weather.clone();
            let died = tokio::select! {
                biased;
                () = weather.died() => true,
                () = tokio::time::sleep_until(next.unwrap_or(until)) => false,
            };
            if died {
                self.site.record.seen().say(|| "-- the controllers die at a write".to_owned());
                self.kill_controllers();
                continue;
            }
            self.happen().await;
            if next.is_none() {
                break;
            }
        }
        for met in self.site.weather.met() {
            self.site.record.seen().tale.coverage.disturbance(None, met);
        }
        self.site.record.seen().look_at_all();
    }

    async fn happen(&mut self) {
        let now = Instant::now();
        let (due, later) =
            std::mem::take(&mut self.due).into_iter().partition(|(at, _)| *at <= now);
        self.due = later;
        let due: Vec<(Instant, Due)> = due;
        for (_, due) in due {
            match due {
                Due::Controllers => self.site.start_controllers(),
                Due::Hosts => self.start_hosts(),
                Due::SecondEnds => self.site.kill_second(),
                Due::Heal(word) => self.site.heal_domain(word),
                Due::Again(name, times) => {
                    self.site.strike_again(&name);
                    if times > 1 {
                        self.later(300 * SECOND, Due::Again(name, times - 1));
                    }
                }
            }
        }
    }

    fn start_hosts(&mut self) {
        if let Err(why) = self.site.start_hosts() {
            self.site.record.seen().wrong(why);
        }
    }

    fn kill_controllers(&mut self) {
        self.site.kill_controllers();
        let wait = self.seconds(120);
        self.later(wait, Due::Controllers);
    }

    fn kill_hosts(&mut self) {
        self.site.kill_hosts();
        let wait = self.seconds(60);
        self.later(wait, Due::Hosts);
    }

    /// A disturbance comes about.
    async fn disturb(&mut self, name: &str, what: Disturbance) {
        {
            let mut seen = self.site.record.seen();
            let stage = seen.stage(name);
            seen.tale.coverage.disturbance(stage, what);
            seen.step(true, &["disturb", name, &format!("{what:?}")]);
            seen.say(|| format!("** {what:?} ({name})"));
        }
        let weather = self.site.weather.clone();
        match what {
            Disturbance::Crash => self.crash(),
            Disturbance::Partition => {
                let links = [Link::Reader, Link::Controller, Link::Hosts];
                let link = self.draw.pick(&links).unwrap_or(Link::Reader);
                let most = if link == Link::Hosts { 60 } else { 300 };
                weather.cut(link, self.seconds(most));
            }
            Disturbance::BmcPartition => weather.cut(Link::Bmc, self.seconds(600)),
            Disturbance::TwoLeaders => {
                self.site.start_second();
                let wait = self.seconds(600);
                self.later(wait, Due::SecondEnds);
            }
            Disturbance::LostReply | Disturbance::LostRequest => {
                // These meet every request; a watch that is late makes more of them.
                let link = self.draw.pick(&Link::ALL).unwrap_or(Link::Reader);
                weather.delay(link, self.seconds(900), 60);
            }
            Disturbance::Duplicate => {
                let how = if self.draw.once_in(2) { End::Expired } else { End::Cut };
                weather.break_watches(Link::Reader, how);
                weather.break_watches(Link::Hosts, how);
            }
            _ => self.site.person(name, what, &mut self.draw).await,
        }
    }

    fn crash(&mut self) {
        match self.draw.below(6) {
            0 => self.kill_hosts(),
            1 => {
                self.kill_hosts();
                self.kill_controllers();
            }
            2 => self.kill_controllers(),
            _ => {
                let (writes, after) = (self.draw.below(12), self.draw.once_in(2));
                self.site.weather.arm(writes, after);
            }
        }
    }

    /// What somebody does who must be found.
    async fn sabotage(&mut self) {
        if self.site.saboteur.does(Sabotage::Uncordon) {
            let cordoned = self.site.record.seen().cordoned();
            let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(self.site.forger.clone());
            for name in cordoned {
                let patch = Patch::Merge(json!({"spec": {"unschedulable": false}}));
                let _ = nodes.patch(&name, &PatchParams::default(), &patch).await;
            }
        }
        if self.site.saboteur.does(Sabotage::Reset)
            && let Some(hardware) = self.site.datacentre.machine(&self.focus)
        {
            hardware.power(Power::ForceRestart, None);
        }
    }

    /// Everything is reachable again, nothing new goes wrong, and there is time.
    async fn calm(&mut self) {
        self.site.weather.calm();
        self.site.kill_second();
        self.due.retain(|(_, due)| matches!(due, Due::Heal(_)));
        self.site.record.seen().say(|| "-- calm".to_owned());
        self.site.mend_the_unseen();
        self.start_hosts();
        self.site.start_controllers();
        for _ in 0..2 {
            if !self.site.record.seen().tale.wrong.is_empty() {
                return;
            }
            if !self.site.rest().await {
                self.site.record.seen().wrong("the site never comes to rest".to_owned());
                return;
            }
            self.site.release().await;
        }
        if !self.site.rest().await {
            self.site.record.seen().wrong("the site never comes to rest".to_owned());
            return;
        }
        let mut seen = self.site.record.seen();
        seen.look_at_all();
        if seen.tale.wrong.is_empty() {
            seen.end();
        }
    }
}
