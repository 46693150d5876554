//! What the programs that play schedules share: arguments, progress, and what is printed.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "programs that print reports")]

use sim::explore::{Summary, Told};
use std::fmt::Debug;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// What is done with schedules of one kind.
pub(crate) struct Explorer<B: 'static> {
    /// Plays so many, from a number on, on so many threads, and tells of each one.
    pub(crate) explore: fn(u64, u64, u64, Told<'_>) -> Summary,
    /// Looks for the first in which a planted bug shows.
    pub(crate) hunt: fn(u64, u64, B) -> Option<(u64, String)>,
    /// Tells one.
    pub(crate) replay: fn(u64) -> (Vec<String>, Vec<String>),
    /// The planted bugs, each with what shows it.
    pub(crate) bugs: &'static [(B, &'static str)],
    /// How many are played if nobody says.
    pub(crate) schedules: u64,
}

/// How often it is told how far it is.
const STEPS: u64 = 20;

struct Args {
    schedules: u64,
    seed: u64,
    jobs: u64,
    replay: Option<u64>,
    bugs: Option<u64>,
}

impl Args {
    fn parse(schedules: u64) -> Result<Self, String> {
        let jobs = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        let mut read = Self { schedules, seed: 1, jobs, replay: None, bugs: None };
        let mut args = std::env::args().skip(1);
        while let Some(name) = args.next() {
            let value = args.next().unwrap_or_default();
            let number = value.parse().map_err(|_| format!("{name} takes a number, not {value:?}"));
            match name.as_str() {
                "--schedules" => read.schedules = number?,
                "--seed" => read.seed = number?,
                "--jobs" => read.jobs = number?.max(1),
                "--replay" => read.replay = Some(number?),
                "--bugs" => read.bugs = Some(number?),
                _ => {
                    let known = "--schedules, --seed, --jobs, --replay and --bugs";
                    return Err(format!("unknown argument {name}; there are {known}"));
                }
            }
        }
        Ok(read)
    }
}

impl<B: Copy + Debug + Send + Sync> Explorer<B> {
    /// Does what the arguments say.
    pub(crate) fn run(&self) -> ExitCode {
        let args = match Args::parse(self.schedules) {
            Ok(args) => args,
            Err(wrong) => {
                eprintln!("{wrong}");
                return ExitCode::from(2);
            }
        };
        let well = match (args.replay, args.bugs) {
            (Some(number), _) => self.tell(number),
            (None, Some(most)) => self.hunt_all(&args, most),
            (None, None) => self.play(&args),
        };
        if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn tell(&self, number: u64) -> bool {
        let (lines, wrong) = (self.replay)(number);
        println!("{}\n{} wrong", lines.join("\n"), wrong.len());
        wrong.is_empty()
    }

    fn play(&self, args: &Args) -> bool {
        let (begin, played) = (Instant::now(), AtomicU64::new(0));
        let step = (args.schedules / STEPS).max(1);
        let summary =
            (self.explore)(args.seed, args.schedules, args.jobs, &|number, wrong: Option<&str>| {
                if let Some(wrong) = wrong {
                    eprintln!("--replay {number}: {wrong}");
                }
                let played = played.fetch_add(1, Ordering::Relaxed) + 1;
                if played.is_multiple_of(step) && played < args.schedules {
                    let took = begin.elapsed().as_secs_f64();
                    eprintln!("{played} of {} after {took:.0} s", args.schedules);
                }
            });
        print!("{summary}");
        println!("took {:.1} s on {} threads", begin.elapsed().as_secs_f64(), args.jobs);
        summary.wrong.is_empty()
    }

    /// How many schedules it takes to find each planted bug.
    fn hunt_all(&self, args: &Args, most: u64) -> bool {
        let mut well = true;
        for some in self.bugs.chunks(usize::try_from(args.jobs).unwrap_or(1)) {
            let found: Vec<_> = std::thread::scope(|scope| {
                let hunt = |bug: B| scope.spawn(move || (self.hunt)(args.seed, most, bug));
                let hunts: Vec<_> =
                    some.iter().map(|(bug, shows)| (bug, shows, hunt(*bug))).collect();
                hunts.into_iter().map(|(b, s, hunt)| (b, s, hunt.join().ok().flatten())).collect()
            });
            for (bug, shows, found) in found {
                let name = format!("{bug:?}");
                match found {
                    Some((schedules, how)) => println!("{name:<20} {schedules:>6}  {shows}: {how}"),
                    None => {
                        well = false;
                        println!("{name:<20} missed  {shows}");
                    }
                }
            }
        }
        well
    }
}
