//! Power and boot source of a machine, through the Redfish service of its BMC.
//!
//! Follows DMTF DSP0266 (protocol) and the schema ComputerSystem; what vendors do differently stands
//! beside the code that allows for it. Guarantees: no answer, however wrong, makes it panic, wait
//! longer than its bounds, or send the credential to another host; a command is sent once, and one
//! whose answer is lost is not sent again: whoever asked looks at what came of it.
//!
//! It keeps no history and decides nothing: who may be told what is decided and written down before.

mod link;
mod network;
mod reset;
mod session;
mod system;

pub use network::Unusable;

use crate::exchange::Exchange;
use api::machine::Bmc;
use api::request::Power;
use http::{Method, StatusCode};
use reset::{Steps, steps};
use serde_json::{Value, json};
use session::{Inner, Reply, Session};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use system::System;

/// Where every service lists its systems (DSP0266, 6.4).
const SYSTEMS: &str = "/redfish/v1/Systems";
/// How many systems of one service are looked at for one that can be reset.
const MOST_SYSTEMS: usize = 8;
/// How long a machine may take to switch off.
const OFF_WITHIN: Duration = Duration::from_secs(60);
/// How long a look at a machine may take in all, so that what it says is not old when it is said.
const READ_WITHIN: Duration = Duration::from_secs(20);
/// How often a machine that switches off is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long the power stays cut where the BMC has no power cycle of its own, so that supplies drain.
/// Vendors' manuals ask for 10 to 30 s.
const DRAIN: Duration = Duration::from_secs(10);

/// User and password of a BMC.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// The user.
    pub username: String,
    /// The password; never logged.
    pub password: String,
}

impl fmt::Debug for Credential {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Credential").field("username", &self.username).finish_non_exhaustive()
    }
}

/// What a BMC says about its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Whether the machine is switched on.
    pub on: bool,
    /// When it was last reset, in the BMC's own words; some never say.
    pub last_reset: Option<String>,
}

/// Why a BMC did not do, or did not say, what it was asked. One sentence each.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Failure {
    /// No answer: what it was told may have happened or not.
    #[error("{0}")]
    Silence(String),
    /// An answer, but not to what was asked.
    #[error("{0}")]
    Error(String),
}

/// All BMCs of a site. Cheap to clone; clones share sessions.
#[derive(Clone, Debug)]
pub struct Bmcs {
    inner: Arc<Inner>,
    /// By how much the hardware is faster than real.
    speed: f64,
}

impl Bmcs {
    /// BMCs over the network.
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub fn real() -> Result<Self, Unusable> {
        network::exchange().map(Self::through)
    }

    /// BMCs that are reached by `exchange`.
    pub fn through(exchange: Exchange) -> Self {
        Self { inner: Arc::new(Inner::new(exchange)), speed: 1.0 }
    }

    /// The same for simulated hardware that is so many times faster than real: what is waited for the
    /// sake of the hardware shrinks with it, what is waited for the network does not.
    #[must_use]
    pub fn at_speed(self, speed: f64) -> Self {
        Self { speed, ..self }
    }

    fn scaled(&self, time: Duration) -> Duration {
        Duration::try_from_secs_f64(time.as_secs_f64() / self.speed).unwrap_or(time)
    }

    /// How a machine stands.
    ///
    /// # Errors
    /// If the BMC does not answer, or answers with an error or nonsense.
    pub async fn read(&self, bmc: &Bmc, credential: &Credential) -> Result<Status, Failure> {
        let session = self.inner.session(bmc, credential)?;
        let system = tokio::time::timeout(READ_WITHIN, find(&session)).await.map_err(|_| {
            let limit = READ_WITHIN.as_secs();
            Failure::Silence(format!("the BMC did not say how things stand within {limit} s"))
        })??;
        Ok(Status { on: system.on, last_reset: system.last_reset })
    }

    /// Tells the BMC; whatever switches a machine on or restarts it has it boot from the network.
    /// What the machine is already is not told: one that is off is not switched off, and a restart
    /// of one that is off switches it on.
    ///
    /// # Errors
    /// If the BMC does not answer, or answers with an error or nonsense. A [`Failure::Error`] may
    /// come after the power was cut: look at how the machine stands.
    pub async fn power(
        &self,
        bmc: &Bmc,
        credential: &Credential,
        power: Power,
    ) -> Result<(), Failure> {
        let session = self.inner.session(bmc, credential)?;
        let system = find(&session).await?;
        let allowed = allowed(&session, &system).await?;
        let steps = steps(power, system.on, &allowed).map_err(Failure::Error)?;
        if power != Power::Off && steps != Steps::Nothing {
            boot_from_network(&session, &system).await?;
        }
        match steps {
            Steps::Nothing => Ok(()),
            Steps::One(kind) => reset(&session, &system, kind).await,
            Steps::OffThenOn { off, on } => {
                reset(&session, &system, off).await?;
                until_off(&session, self.scaled(LOOK_EVERY)).await?;
                tokio::time::sleep(self.scaled(DRAIN)).await;
                reset(&session, &system, on).await
            }
        }
    }
}

/// The system that the BMC is in charge of.
async fn find(session: &Session<'_>) -> Result<System, Failure> {
    if let Some(path) = session.known_system() {
        let reply = session.get(&path).await?;
        // Some answer 404 until the collection above was read (NVIDIA/infra-controller #5201), and
        // a new mainboard has a new name.
        if reply.status != StatusCode::NOT_FOUND {
            return System::read(&path, &reply);
        }
        session.forget_system();
    }
    let collection = session.get(SYSTEMS).await?.success("list systems")?;
    let (mut first, mut last) = (None, None);
    for path in system::members(&collection.json()?).into_iter().take(MOST_SYSTEMS) {
        let reply = session.get(&path).await?;
        match System::read(&path, &reply) {
            Ok(system) if system.reset.is_some() => {
                session.know_system(&path);
                return Ok(system);
            }
            Ok(system) => first = first.or(Some(system)),
            Err(failure) => last = Some(failure),
        }
    }
    let none = || Failure::Error("the BMC lists no system at /redfish/v1/Systems".to_owned());
    first.ok_or_else(|| last.unwrap_or_else(none))
}

/// The reset types that the BMC says it takes. Where it does not say, those that every BMC has.
async fn allowed(session: &Session<'_>, system: &System) -> Result<Vec<String>, Failure> {
    let Some(action) = &system.reset else {
        return Err(Failure::Error("the BMC offers no reset of its system".to_owned()));
    };
    if let Some(allowed) = &action.allowed {
        return Ok(allowed.clone());
    }
    // Newer services state the values in a resource of its own (DSP0266, 7.5.3.3).
    if let Some(info) = &action.info {
        let reply = session.get(info).await?;
        if reply.status.is_success()
            && let Some(allowed) = system::action_info(&reply.json()?)
        {
            return Ok(allowed);
        }
    }
    Ok(reset::USUAL.iter().map(|kind| (*kind).to_owned()).collect())
}

async fn reset(session: &Session<'_>, system: &System, kind: &str) -> Result<(), Failure> {
    let target = system.reset.as_ref().map(|action| action.target.as_str()).unwrap_or_default();
    let body = json!({"ResetType": kind});
    let reply = session.send(Method::POST, target, Some(&body), None).await?;
    reply.success(kind).map(drop)
}

async fn until_off(session: &Session<'_>, look_every: Duration) -> Result<(), Failure> {
    let off = async {
        while find(session).await?.on {
            tokio::time::sleep(look_every).await;
        }
        Ok(())
    };
    tokio::time::timeout(OFF_WITHIN, off).await.unwrap_or_else(|_| {
        Err(Failure::Error(format!("the machine did not switch off in {} s", OFF_WITHIN.as_secs())))
    })
}

/// Has the next boot, and where the BMC can also those after it, come from the network.
///
/// A BMC that refuses every form of it is left alone: then the firmware's boot order decides, and
/// whether the right system came up is seen by what booted, since what BMCs read back is not to be
/// trusted (sushy-tools reports `Continuous` for `Once`; several lists come in no order).
async fn boot_from_network(session: &Session<'_>, system: &System) -> Result<(), Failure> {
    for (path, target, enabled) in system.overrides() {
        let body = json!({"Boot": {
            "BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": enabled,
        }});
        let reply = patch(session, system, path, &body).await?;
        if reply.status.is_success() {
            return Ok(());
        }
        let refused = reply.status.is_client_error() || reply.status == StatusCode::NOT_IMPLEMENTED;
        if !refused {
            return reply.success("set the boot source").map(drop);
        }
    }
    Ok(())
}

/// A PATCH under the ETag that was read, and once more under a new one if it has changed since.
async fn patch(
    session: &Session<'_>,
    system: &System,
    path: &str,
    body: &Value,
) -> Result<Reply, Failure> {
    let known = system.etag.as_deref().filter(|_| path == system.path);
    let reply = session.send(Method::PATCH, path, Some(body), known).await?;
    let stale = [StatusCode::PRECONDITION_FAILED, StatusCode::PRECONDITION_REQUIRED];
    if !stale.contains(&reply.status) {
        return Ok(reply);
    }
    let etag = session.get(path).await?.etag();
    // Some demand the header and give no ETag.
    let etag = etag.as_deref().unwrap_or("*");
    session.send(Method::PATCH, path, Some(body), Some(etag)).await
}
