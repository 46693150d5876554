//! How long everything takes on real hardware: one table, each figure with its source.
//!
//! What is told to a simulated machine takes as long as the table says, divided by the speed at
//! which the site is run. Amounts (an image, the bandwidth to load it) stand beside the times.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const TABLE: &str = include_str!("../../data/delays.yaml");
/// No delay is longer; a longer one is a slip of the pen.
const LONGEST: f64 = 366.0 * 86_400.0;

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delay {
    /// From power to the first DHCP request.
    PowerOnToDhcp,
    /// From DHCP to a running system, if the image is loaded without contention.
    Boot,
    /// A BMC's answer.
    BmcAnswer,
    /// What a slow BMC adds to each answer.
    BmcSlow,
    /// What a BMC of a slow make adds to each answer.
    BmcHabit,
    /// From a BMC's yes to the change of power.
    BmcBegin,
    /// From a graceful restart's begin to the reset itself.
    GracefulShutdown,
    /// How long the power must be off to count as cut.
    PowerDrain,
    /// How long a silent BMC holds a connection.
    BmcSilence,
    /// Reading parts and cables.
    Inventory,
    /// Wiping disks and secrets.
    Sanitise,
    /// Bringing firmware to the profile.
    Firmware,
    /// Finding that firmware is that of the profile already.
    FirmwareCheck,
    /// From a failed boot to the next try.
    BootRetry,
    /// How long a program that a fault has hit takes to end.
    AppEnds,
    /// Resetting GPUs.
    ResetGpu,
    /// Restarting a service.
    RestartService,
    /// The test of seconds.
    TestReadiness,
    /// The test of minutes.
    TestQuick,
    /// The test of idle nodes.
    TestIdle,
    /// Burn-in.
    TestFull,
    /// The vendor's diagnosis.
    Diagnose,
    /// The way of a request to the API and back, in virtual time: there the network is memory.
    ApiRequest,
    /// Loading a boot image over a machine's own port. Not in the table: it follows from
    /// `boot-image` and `boot-port`.
    #[serde(skip)]
    Load,
    /// How long one server of images is busy with one: `boot-image` over `boot-service`.
    #[serde(skip)]
    Serve,
}

impl Delay {
    const IN_TABLE: [Self; 23] = [
        Self::PowerOnToDhcp,
        Self::Boot,
        Self::BmcAnswer,
        Self::BmcSlow,
        Self::BmcBegin,
        Self::GracefulShutdown,
        Self::PowerDrain,
        Self::BmcSilence,
        Self::Inventory,
        Self::Sanitise,
        Self::Firmware,
        Self::FirmwareCheck,
        Self::BootRetry,
        Self::AppEnds,
        Self::BmcHabit,
        Self::ResetGpu,
        Self::RestartService,
        Self::TestReadiness,
        Self::TestQuick,
        Self::TestIdle,
        Self::TestFull,
        Self::Diagnose,
        Self::ApiRequest,
    ];
}

/// What stands in the table but a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
enum Amount {
    #[serde(rename = "boot-image")]
    Image,
    #[serde(rename = "boot-port")]
    Port,
    #[serde(rename = "boot-service")]
    Service,
    #[serde(rename = "boot-service-serves")]
    Serves,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(untagged)]
enum Name {
    Delay(Delay),
    Amount(Amount),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Unit {
    #[serde(rename = "ms")]
    Millisecond,
    #[serde(rename = "s")]
    Second,
    #[serde(rename = "min")]
    Minute,
    #[serde(rename = "h")]
    Hour,
    #[serde(rename = "GB")]
    Gigabyte,
    #[serde(rename = "Gb/s")]
    GigabitPerSecond,
    #[serde(rename = "machines")]
    Machines,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    value: f64,
    unit: Unit,
    source: String,
}

/// The table cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("delays: {0}")]
pub struct DelaysError(String);

/// How long everything takes. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Delays {
    times: Arc<BTreeMap<Delay, Duration>>,
    sources: Arc<BTreeMap<Delay, String>>,
    /// How many machines one server of images serves.
    serves: u32,
    /// How many times faster than real.
    speed: f64,
}

impl Delays {
    /// The built-in table.
    ///
    /// # Errors
    /// The table lacks a line, or a line has the wrong unit.
    pub fn load() -> Result<Self, DelaysError> {
        Self::read(TABLE)
    }

    fn read(text: &str) -> Result<Self, DelaysError> {
        let lines: BTreeMap<Name, Line> =
            serde_saphyr::from_str(text).map_err(|error| DelaysError(error.to_string()))?;
        let mut times = BTreeMap::new();
        let mut sources = BTreeMap::new();
        for delay in Delay::IN_TABLE {
            let line = lines
                .get(&Name::Delay(delay))
                .ok_or_else(|| DelaysError(format!("{delay:?} is missing")))?;
            let scale = match line.unit {
                Unit::Millisecond => 1e-3,
                Unit::Second => 1.0,
                Unit::Minute => 60.0,
                Unit::Hour => 3_600.0,
                Unit::Gigabyte | Unit::GigabitPerSecond | Unit::Machines => {
                    return Err(DelaysError(format!("{delay:?} must have a unit of time")));
                }
            };
            times.insert(delay, seconds(delay, line.value * scale)?);
            sources.insert(delay, line.source.clone());
        }
        let amount = |amount, unit| {
            let line = lines.get(&Name::Amount(amount)).filter(|line| line.unit == unit);
            let line = line.filter(|line| line.value > 0.0 && line.value.is_finite());
            line.ok_or_else(|| DelaysError(format!("{amount:?} must be a number with its unit")))
        };
        let image = amount(Amount::Image, Unit::Gigabyte)?.value * 8.0;
        for (delay, over) in [(Delay::Load, Amount::Port), (Delay::Serve, Amount::Service)] {
            let line = amount(over, Unit::GigabitPerSecond)?;
            times.insert(delay, seconds(delay, image / line.value)?);
            sources.insert(delay, line.source.clone());
        }
        let serves = amount(Amount::Serves, Unit::Machines)?.value.max(1.0) as u32;
        Ok(Self { times: Arc::new(times), sources: Arc::new(sources), serves, speed: 1.0 })
    }

    /// The same hardware, so many times faster; below one it is slower. Delays are whole
    /// milliseconds then, as timers are.
    ///
    /// # Errors
    /// `speed` is no number above 0.
    pub fn divided_by(&self, speed: f64) -> Result<Self, DelaysError> {
        if !speed.is_finite() || speed <= 0.0 {
            return Err(DelaysError(format!("--speed must be a number above 0, not {speed}")));
        }
        let times = self
            .times
            .iter()
            .map(|(delay, time)| Ok((*delay, seconds(*delay, time.as_secs_f64() / speed)?)))
            .collect::<Result<BTreeMap<_, _>, DelaysError>>()?;
        let speed = self.speed * speed;
        Ok(Self {
            times: Arc::new(times),
            sources: self.sources.clone(),
            serves: self.serves,
            speed,
        })
    }

    /// How many times faster than real this hardware is.
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// How many servers of images a site of so many machines has.
    pub(super) fn servers(&self, machines: usize) -> u32 {
        u32::try_from(machines.div_ceil(self.serves as usize)).unwrap_or(u32::MAX).max(1)
    }

    /// How long it takes.
    pub fn of(&self, delay: Delay) -> Duration {
        self.times.get(&delay).copied().unwrap_or_default()
    }

    /// Every delay with its source, for a report.
    pub fn lines(&self) -> impl Iterator<Item = (Delay, Duration, &str)> {
        self.times.iter().map(|(delay, time)| {
            (*delay, *time, self.sources.get(delay).map_or("", String::as_str))
        })
    }
}

/// Whole milliseconds, but for what is shorter than one.
fn seconds(delay: Delay, seconds: f64) -> Result<Duration, DelaysError> {
    if !(0.0..=LONGEST).contains(&seconds) {
        return Err(DelaysError(format!("{delay:?} must be between 0 s and a year")));
    }
    let exact = Duration::try_from_secs_f64(seconds)
        .map_err(|error| DelaysError(format!("{delay:?}: {error}")))?;
    if exact < Duration::from_millis(1) {
        return Ok(exact);
    }
    Ok(Duration::from_millis((exact.as_secs_f64() * 1_000.0).round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole_and_every_line_has_a_source() {
        let delays = Delays::load().unwrap();
        assert_eq!(delays.of(Delay::PowerOnToDhcp), Duration::from_secs(150));
        assert_eq!(delays.of(Delay::Boot), Duration::from_secs(240));
        assert_eq!(delays.of(Delay::TestFull), Duration::from_secs(86_400));
        assert_eq!(delays.of(Delay::Load), Duration::from_millis(1_120));
        assert_eq!(delays.of(Delay::Serve), Duration::from_millis(112));
        assert_eq!(delays.lines().count(), 25);
        assert_eq!([0, 36, 1_000, 1_001, 4_500].map(|n| delays.servers(n)), [1, 1, 1, 2, 5]);
        assert!(delays.lines().all(|(_, _, source)| source.len() > 10));
    }

    #[test]
    fn speed_divides_every_delay() {
        let fast = Delays::load().unwrap().divided_by(600.0).unwrap();
        assert_eq!(fast.of(Delay::PowerOnToDhcp), Duration::from_millis(250));
        assert_eq!(fast.of(Delay::Boot), Duration::from_millis(400));
        assert!(fast.of(Delay::Serve) > Duration::ZERO);
        for speed in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-9] {
            assert!(Delays::load().unwrap().divided_by(speed).is_err(), "{speed}");
        }
    }

    #[test]
    fn a_wrong_table_is_refused() {
        for (text, says) in [
            ("boot: {value: 1, unit: s, source: x}", "PowerOnToDhcp is missing"),
            (&TABLE.replace("value: 240, unit: s", "value: 240, unit: GB"), "unit of time"),
            (&TABLE.replace("value: 240,", "value: -1,"), "between 0 s"),
        ] {
            let error = Delays::read(text).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
