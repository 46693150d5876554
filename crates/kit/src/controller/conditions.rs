//! Conditions as the API conventions have them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// What is true of an object, is not, or is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// `True`
    True,
    /// `False`
    False,
    /// `Unknown`
    Unknown,
}

impl Truth {
    /// The value as conditions spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Truth {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

/// A condition that shall hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// `Ready`
    pub type_: String,
    /// Whether it holds.
    pub status: Truth,
    /// One CamelCase word; part of the API.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
}

/// Sets a condition. The time of transition moves only when the status does, and is given in whole
/// seconds, the finest that the API keeps; `generation` is the one that was looked at.
pub fn set(
    conditions: &mut Vec<Condition>,
    wanted: Wanted,
    generation: Option<i64>,
    now: Timestamp,
) {
    let second = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let known = conditions.iter_mut().find(|known| known.type_ == wanted.type_);
    let status = wanted.status.as_str();
    let since = known.as_ref().filter(|known| known.status == status);
    let new = Condition {
        last_transition_time: since
            .map_or(Time(second), |known| known.last_transition_time.clone()),
        message: wanted.message,
        observed_generation: generation,
        reason: wanted.reason,
        status: status.to_owned(),
        type_: wanted.type_,
    };
    match known {
        Some(known) => *known = new,
        None => conditions.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_moves_only_with_the_status() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let wanted = |status, reason: &str| Wanted {
            type_: "Ready".to_owned(),
            status,
            reason: reason.to_owned(),
            message: String::new(),
        };
        let mut conditions = Vec::new();
        set(&mut conditions, wanted(Truth::False, "Waits"), Some(1), at("2026-01-01T00:00:00.5Z"));
        set(&mut conditions, wanted(Truth::False, "Waiting"), Some(2), at("2026-01-01T00:01:00Z"));
        let [one] = &conditions[..] else { panic!("{conditions:?}") };
        assert_eq!((one.reason.as_str(), one.observed_generation), ("Waiting", Some(2)));
        assert_eq!(one.last_transition_time.0, at("2026-01-01T00:00:00Z"));
        set(&mut conditions, wanted(Truth::True, "Done"), Some(2), at("2026-01-01T00:02:00Z"));
        assert_eq!(conditions[0].last_transition_time.0, at("2026-01-01T00:02:00Z"));
    }
}
