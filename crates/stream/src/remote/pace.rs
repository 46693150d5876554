//! How many connections are worth having: more while more bytes come of it.
//!
//! Pure: it is told how fast a round was and says how wide the next one is. It doubles while a round
//! is faster than every narrower one, goes back to the widest that was, and looks again now and then,
//! since neighbours on a network come and go. A server that says it is busy halves it.

/// See the module.
#[derive(Debug)]
pub(crate) struct Pace {
    width: usize,
    most: usize,
    /// The fastest round, and how wide it was.
    best: (f64, usize),
    /// Rounds since it was widest.
    settled: u32,
}

/// Connections to begin with.
const FIRST: usize = 4;

/// What a wider round must gain: less is the network's mood.
const GAIN: f64 = 1.05;

/// Rounds until it looks again.
const REST: u32 = 16;

impl Pace {
    pub(crate) fn new(most: usize) -> Self {
        let width = FIRST.min(most.max(1));
        Self { width, most: most.max(1), best: (0.0, width), settled: 0 }
    }

    /// Connections that may be at work.
    pub(crate) const fn width(&self) -> usize {
        self.width
    }

    /// A round at this width had this speed, in bytes per second.
    pub(crate) fn was(&mut self, speed: f64) {
        let (best, at) = self.best;
        if speed > best * GAIN && self.width >= at || best == 0.0 {
            self.best = (speed, self.width);
            self.width = (self.width * 2).min(self.most);
            self.settled = 0;
            return;
        }
        self.width = at;
        self.settled += 1;
        if self.settled >= REST {
            // As fast as now, not as once.
            self.best = (speed, at);
            self.width = (at + at.div_ceil(2)).min(self.most);
            self.settled = 0;
        }
    }

    /// The server wants less.
    pub(crate) fn throttled(&mut self) {
        self.width = (self.width / 2).max(1);
        self.best = (f64::MAX / 2.0, self.width);
        self.settled = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds at a link that gives each connection so much, up to a limit.
    fn settle(pace: &mut Pace, each: f64, limit: f64, rounds: usize) -> usize {
        for _ in 0..rounds {
            pace.was((each * pace.width() as f64).min(limit));
        }
        pace.width()
    }

    #[test]
    fn it_widens_while_that_helps_and_no_further() {
        assert_eq!(settle(&mut Pace::new(64), 1.0, 100.0, 10), 64);
        assert_eq!(settle(&mut Pace::new(64), 1.0, 16.0, 8), 16);
        assert_eq!(settle(&mut Pace::new(64), 1.0, 1.0, 8), 4);
        assert_eq!(settle(&mut Pace::new(2), 1.0, 100.0, 8), 2);
        assert_eq!(Pace::new(0).width(), 1);
    }

    #[test]
    fn it_looks_again_when_the_link_became_wider() {
        let mut pace = Pace::new(64);
        settle(&mut pace, 1.0, 8.0, 10);
        assert_eq!(pace.width(), 8);
        assert!(settle(&mut pace, 1.0, 1000.0, 60) > 32);
    }

    #[test]
    fn a_busy_server_is_asked_less() {
        let mut pace = Pace::new(64);
        settle(&mut pace, 1.0, 1000.0, 4);
        assert_eq!(pace.width(), 64);
        (0..3).for_each(|_| pace.throttled());
        assert_eq!(settle(&mut pace, 1.0, 1000.0, 3), 8);
        (0..10).for_each(|_| pace.throttled());
        assert_eq!(pace.width(), 1);
    }
}
