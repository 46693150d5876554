//! What detectors of numbers read, and how sensors, silence and drift become numbers.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::catalogue::{CatalogueError, Metric, Part, PartKind, UnknownWord};
use crate::words::Word as _;

/// One number at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// When it was measured.
    pub at: Timestamp,
    /// What was measured.
    pub metric: Metric,
    /// On what.
    pub part: Part,
    /// The value, in the metric's unit. A value that is not finite is left out.
    pub value: f64,
    /// What the instance type, the drive or the driver says it should be.
    pub expected: Option<f64>,
}

/// The health of a sensor, as Redfish's `Status.Health`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// All is well.
    Ok,
    /// Soon it is not.
    Warning,
    /// It is not.
    Critical,
}

/// What a BMC says of one sensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// When it was read.
    pub at: Timestamp,
    /// Which kind of sensor; one of the `Sensor` metrics.
    pub metric: Metric,
    /// Its name.
    pub name: String,
    /// What the BMC thinks of it, if it says.
    pub health: Option<Health>,
    /// The number it shows, if it shows one.
    pub value: Option<f64>,
    /// Above this it is a warning.
    pub upper_caution: Option<f64>,
    /// Above this it is critical.
    pub upper_critical: Option<f64>,
}

/// A sensor as a sample: the worse of what the BMC thinks and what the number says. BMCs have been
/// seen to say OK beside a number far above their own limit.
#[must_use]
pub fn sensor(reading: &Reading) -> Sample {
    let above =
        |limit: Option<f64>| reading.value.zip(limit).is_some_and(|(value, limit)| value > limit);
    let shown = if above(reading.upper_critical) {
        Health::Critical
    } else if above(reading.upper_caution) {
        Health::Warning
    } else {
        Health::Ok
    };
    let value = match reading.health.map_or(shown, |health| health.max(shown)) {
        Health::Ok => 0.0,
        Health::Warning => 1.0,
        Health::Critical => 2.0,
    };
    let part = Part::new(PartKind::Sensor, &reading.name);
    Sample { at: reading.at, metric: reading.metric, part, value, expected: None }
}

/// Something that has not been heard of.
#[derive(Clone, Debug, PartialEq)]
pub struct Silence {
    /// Which age: of the heartbeat, the kubelet, the agent, the BMC, a query of a driver.
    pub metric: Metric,
    /// What is silent.
    pub part: Part,
    /// When it was last heard of.
    pub since: Timestamp,
}

/// Silence as a sample: how long it has lasted, in seconds. A clock that ran backwards is no silence.
#[must_use]
pub fn silence(silence: &Silence, now: Timestamp) -> Sample {
    let value = now.duration_since(silence.since).as_secs_f64().max(0.0);
    Sample { at: now, metric: silence.metric, part: silence.part.clone(), value, expected: None }
}

/// Drift as a sample: how many settings differ from, or lack in, what the profile says.
#[must_use]
pub fn drift<'a>(
    at: Timestamp,
    metric: Metric,
    profile: impl IntoIterator<Item = (&'a str, &'a str)>,
    actual: &BTreeMap<String, String>,
) -> Sample {
    let differs = |(name, value): &(&str, &str)| actual.get(*name).is_none_or(|have| have != value);
    let count = profile.into_iter().filter(differs).take(1_000).count();
    let value = u32::try_from(count).map_or(f64::MAX, f64::from);
    Sample { at, metric, part: Part::node(), value, expected: None }
}

const FLOORS: (&str, &str) = ("floors.yaml", include_str!("../../catalogue/floors.yaml"));

/// What a test or count must reach, by type of machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Floors(BTreeMap<String, BTreeMap<Metric, f64>>);

impl Floors {
    /// The built-in floors with a site's files laid over them, number by number.
    ///
    /// # Errors
    /// Everything that is wrong with the site's files.
    pub fn load(site: &[(&str, &str)]) -> Result<Self, Vec<CatalogueError>> {
        let mut floors = Self(BTreeMap::new());
        let mut errors = Vec::new();
        for (file, text) in std::iter::once(&FLOORS).chain(site) {
            floors.lay(file, text, &mut errors);
        }
        if errors.is_empty() { Ok(floors) } else { Err(errors) }
    }

    fn lay(&mut self, file: &str, text: &str, errors: &mut Vec<CatalogueError>) {
        let mut wrong = |row: Option<&str>, field: Option<&str>, reason: String| {
            if errors.len() < 100 {
                errors.push(CatalogueError {
                    file: file.to_owned(),
                    row: row.map(str::to_owned),
                    field: field.map(str::to_owned),
                    reason,
                });
            }
        };
        let types = match serde_saphyr::from_str::<Value>(text) {
            Ok(Value::Object(types)) => types,
            Ok(Value::Null) => return,
            _ => return wrong(None, None, "must be a map of types".to_owned()),
        };
        for (name, floors) in &types {
            let Some(floors) = floors.as_object() else {
                wrong(Some(name), None, "must be a map of metrics".to_owned());
                continue;
            };
            for (metric, floor) in floors {
                let valid = || Metric::ALL.iter().map(|metric| metric.as_str());
                match (Metric::read(metric), floor.as_f64().filter(|f| f.is_finite() && *f > 0.0)) {
                    (Some(metric), Some(floor)) => {
                        self.0.entry(name.clone()).or_default().insert(metric, floor);
                    }
                    (None, _) => wrong(
                        Some(name),
                        Some(metric),
                        UnknownWord::new(metric, valid()).to_string(),
                    ),
                    (_, None) => {
                        wrong(Some(name), Some(metric), "must be a number above 0".to_owned())
                    }
                }
            }
        }
    }

    /// What the metric must reach on this type of machine, if anything says so.
    #[must_use]
    pub fn expected(&self, machine: &str, metric: Metric) -> Option<f64> {
        self.0.get(machine)?.get(&metric).copied()
    }
}
