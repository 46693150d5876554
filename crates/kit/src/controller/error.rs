//! Why a reconcile failed, in the four classes that decide what happens next, and the delays.

use std::time::Duration;

use crate::ids::Ids;

/// The kind of a failure. It decides when the key is tried again, and is a label of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The object asks for what cannot be: only a change of it can help, so nothing is retried.
    Invalid,
    /// Something else must happen first, or somebody wrote in between: tried again soon.
    NotReady,
    /// The API or the network failed: tried again, more and more rarely.
    Transient,
    /// A defect of ours, a panic among them: logged as an error, tried again rarely.
    Bug,
}

impl Class {
    /// The class as a metric's label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::NotReady => "not_ready",
            Self::Transient => "transient",
            Self::Bug => "bug",
        }
    }

    /// The first delay and the longest.
    fn bounds(self) -> Option<(Duration, Duration)> {
        let seconds = Duration::from_secs;
        match self {
            Self::Invalid => None,
            Self::NotReady => Some((Duration::from_millis(50), seconds(10))),
            Self::Transient => Some((Duration::from_millis(200), seconds(300))),
            Self::Bug => Some((seconds(1), seconds(300))),
        }
    }

    /// How long to wait after so many failures in a row before this one: exponential, bounded, and
    /// spread between half and one and a half, lest many keys come back at one instant. `None`: not
    /// until something changes.
    pub(super) fn delay(self, failures: u32, ids: &Ids) -> Option<Duration> {
        let (first, longest) = self.bounds()?;
        let exact = first.saturating_mul(2_u32.saturating_pow(failures.min(20))).min(longest);
        Some(jitter(exact, ids))
    }
}

/// A duration between half and one and a half of `exact`.
pub(super) fn jitter(exact: Duration, ids: &Ids) -> Duration {
    let mut bytes = [0; 2];
    // Without random numbers all come back at once, which is slower and still right.
    let share = match ids.fill(&mut bytes) {
        Ok(()) => f64::from(u16::from_le_bytes(bytes)) / f64::from(u16::MAX),
        Err(_) => 0.5,
    };
    exact.mul_f64(0.5 + share)
}

/// A reconcile that failed.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Error {
    class: Class,
    what: String,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// A failure of some class, in words.
    pub fn new(class: Class, what: impl Into<String>) -> Self {
        Self { class, what: what.into(), source: None }
    }

    /// Something else must happen first.
    pub fn not_ready(what: impl Into<String>) -> Self {
        Self::new(Class::NotReady, what)
    }

    /// A failed operation with its cause; the class is the cause's.
    pub fn during(what: impl Into<String>, cause: kube::Error) -> Self {
        Self { class: classify(&cause), what: what.into(), source: Some(Box::new(cause)) }
    }

    /// A defect with its cause.
    pub fn bug(
        what: impl Into<String>,
        cause: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self { class: Class::Bug, what: what.into(), source: Some(Box::new(cause)) }
    }

    /// The class.
    pub fn class(&self) -> Class {
        self.class
    }

    /// The API's answer, if it was one that made the operation fail.
    pub fn status(&self) -> Option<&kube::core::Status> {
        match self.source.as_ref()?.downcast_ref()? {
            kube::Error::Api(status) => Some(status),
            _ => None,
        }
    }

    /// The API said that the object is not there.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404)
    }

    /// The API said that it conflicts with what is there.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|status| status.code == 409)
    }

    /// The API said that the object is there already.
    pub fn already_exists(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "AlreadyExists")
    }
}

impl From<kube::Error> for Error {
    fn from(cause: kube::Error) -> Self {
        Self::during("ask the API", cause)
    }
}

fn classify(error: &kube::Error) -> Class {
    match error {
        kube::Error::Api(status) => match status.code {
            // What a namespace that ends refuses, it refuses until it is gone.
            403 if terminating(status) => Class::NotReady,
            404 | 409 | 410 => Class::NotReady,
            400 | 405 | 413 | 415 | 422 => Class::Bug,
            // Rights may yet be granted, servers come back.
            _ => Class::Transient,
        },
        kube::Error::SerdeError(_) | kube::Error::BuildRequest(_) => Class::Bug,
        _ => Class::Transient,
    }
}

fn terminating(status: &kube::core::Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_bound_and_are_spread() {
        let ids = Ids::seeded(1);
        let delay = |failures| Class::Transient.delay(failures, &ids).unwrap();
        let between = |d: Duration, low: u64, high: u64| {
            assert!((low..=high).contains(&(d.as_millis() as u64)), "{d:?}");
        };
        between(delay(0), 100, 300);
        between(delay(3), 800, 2_400);
        between(delay(u32::MAX), 150_000, 450_000);
        let many: std::collections::BTreeSet<Duration> = (0..20).map(|_| delay(5)).collect();
        assert!(many.len() > 15, "{many:?}");
        assert_eq!(Class::Invalid.delay(0, &ids), None);
    }

    #[test]
    fn answers_of_the_api_have_their_class() {
        let class = |code: u16, reason: &str| {
            let status = kube::core::Status { code, ..kube::core::Status::failure("no", reason) };
            Error::from(kube::Error::Api(status.boxed()))
        };
        assert_eq!(class(409, "Conflict").class(), Class::NotReady);
        assert_eq!(class(422, "Invalid").class(), Class::Bug);
        assert_eq!(class(403, "Forbidden").class(), Class::Transient);
        assert_eq!(class(503, "ServiceUnavailable").class(), Class::Transient);
        assert!(class(409, "AlreadyExists").already_exists());
        assert!(class(404, "NotFound").is_not_found());
    }
}
