//! Signals in, held faults out: the detectors of `plan`, with the memory that they need.

use std::sync::Arc;

use jiff::Timestamp;
use plan::agent::{Faults, Witness, silence};
use plan::catalogue::Catalogue;
use plan::detect::{Driver, Lines, Metrics, Window};

use crate::platform::Signal;

/// The readers of log lines and numbers. Costly to make, cheap to clone: a process makes one.
#[derive(Clone, Debug)]
pub struct Detectors(Arc<Readers>);

#[derive(Debug)]
struct Readers {
    catalogue: Arc<Catalogue>,
    lines: Lines,
    metrics: Metrics,
}

/// The catalogue's patterns cannot be searched for.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a reader of the kernel's log from the fault catalogue: {0}")]
pub struct Unreadable(String);

impl Detectors {
    /// Readers for what this catalogue knows.
    ///
    /// # Errors
    /// When its patterns are too many or too large.
    pub fn new(catalogue: Arc<Catalogue>) -> Result<Self, Unreadable> {
        let lines = Lines::new(&catalogue).map_err(|error| Unreadable(error.to_string()))?;
        let metrics = Metrics::new(&catalogue, None);
        Ok(Self(Arc::new(Readers { catalogue, lines, metrics })))
    }

    /// The catalogue that they read for.
    pub fn catalogue(&self) -> &Catalogue {
        &self.0.catalogue
    }
}

/// What one boot has shown so far.
pub(crate) struct Senses {
    detectors: Detectors,
    driver: Driver,
    window: Window,
    pub(crate) faults: Faults,
}

impl Senses {
    pub(crate) fn new(detectors: Detectors, driver: Option<&str>) -> Self {
        let driver = driver.map_or(Driver::UNKNOWN, Driver::version);
        Self { detectors, driver, window: Window::default(), faults: Faults::default() }
    }

    pub(crate) fn take(&mut self, signal: &Signal, now: Timestamp) {
        let readers = &self.detectors.0;
        let (witness, findings) = match signal {
            Signal::Line(line) => {
                (Witness::Line, readers.lines.read(line.as_bytes(), now, self.driver))
            }
            Signal::Sample(sample) if silence(sample.metric) => return,
            Signal::Sample(sample) => {
                let window = std::mem::take(&mut self.window);
                let (window, findings) = readers.metrics.read(window, sample);
                self.window = window;
                (Witness::Number, findings)
            }
        };
        for finding in &findings {
            self.faults.heed(witness, finding, &readers.catalogue);
        }
    }
}
