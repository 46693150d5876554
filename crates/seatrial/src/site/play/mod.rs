//! Plays a scenario's script on a site that lives, and tells what comes of it.
//!
//! It asks for things as a tenant does and breaks hardware as bad luck does; nothing it does helps a
//! controller. How far it has come is written down before each act ([`place`]), so that whoever starts
//! next goes on with the act that was under way and does none twice.

mod act;
mod place;

use std::time::Instant;

use kit::clock::Clock;
use kube::Client;
use sim::datacentre::Datacentre;
use sim::scenario::{Act, Scenario};

use super::display::{Display, Said, seconds};
use place::Place;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Why a script does not go on.
#[derive(Debug, thiserror::Error)]
enum PlayError {
    #[error("the API did not take {what}")]
    Refused { what: String, source: Box<kube::Error> },
    #[error("cannot follow {what}")]
    Follow { what: String, source: Box<kube::runtime::wait::Error> },
    #[error("{what} cannot be read")]
    Unreadable { what: String, source: serde_json::Error },
}

fn refused(what: &str, source: kube::Error) -> PlayError {
    PlayError::Refused { what: what.to_owned(), source: Box::new(source) }
}

/// A scenario on its site.
pub(crate) struct Stage<'a> {
    pub(crate) admin: &'a Client,
    pub(crate) datacentre: &'a Datacentre,
    pub(crate) scenario: &'a Scenario,
    /// When this process began, for what is shown.
    pub(crate) began: Instant,
}

/// What an act has come to: its line.
struct Done {
    name: String,
    subject: String,
    about: String,
}

impl Stage<'_> {
    /// Whether the script was begun by a process before this one, and is not over.
    ///
    /// # Errors
    /// What the API answered.
    pub(crate) async fn is_under_way(&self) -> Result<bool, Error> {
        let place = Place::read(self.admin).await?;
        Ok(place.is_some_and(|place| place.act < self.scenario.script.len()))
    }

    /// Plays what is left of the script, and tells where the time of the job went.
    ///
    /// # Errors
    /// What the API refused, or that nothing stands where the script wants to strike.
    pub(crate) async fn play(&self, display: &mut Display) -> Result<(), Error> {
        let before = Place::read(self.admin).await?;
        let first = before.as_ref().map_or(0, |place| place.act);
        let mut under_way = before;
        for (index, act) in self.scenario.script.iter().enumerate().skip(first) {
            let place = match under_way.take().filter(|place| place.act == index) {
                Some(place) => place,
                None => self.begin(index, act).await?,
            };
            place.write(self.admin).await?;
            if let Act::Break { fault, .. } = act
                && let Some(machine) = &place.machine
            {
                self.show(display, self.struck(fault, machine))?;
            }
            if let Some(done) = self.perform(act, &place).await? {
                self.show(display, done)?;
            }
        }
        Place::at(self.scenario.script.len(), Clock::system().now()).write(self.admin).await?;
        if let Some(told) = self.account().await? {
            display.show(&Said::Account { text: told.to_string() })?;
        }
        Ok(())
    }

    fn show(&self, display: &mut Display, done: Done) -> std::io::Result<()> {
        let Done { name, subject, about } = done;
        let seconds = seconds(self.began.elapsed());
        display.show(&Said::Act { name, subject, seconds, about })
    }
}
