//! Talking to a machine's BMC, with the credential that its object names.

use api::Machine;
use api::names::NAMESPACE;
use api::request::Power;
use k8s_openapi::api::core::v1::Secret;
use kit::controller::{Context, Error, Mood, Note, ObjectKey};
use metal::redfish::{Bmcs, Credential, Failure, Status};
use plan::machine::{Heard, Reading};

use super::{not_done, secret};
use crate::machine::Machines;

/// The most of a BMC's complaint that is kept, in characters.
const LONGEST: usize = 300;

impl Machines {
    /// Asks the BMC and has the machine looked at with the answer.
    pub(super) async fn ask(
        &self,
        context: &Context,
        bmcs: &Bmcs,
        machine: &Machine,
    ) -> Result<(), Error> {
        // What it says was so when it was asked, or later.
        let at = context.now();
        let heard = self.hear(context, bmcs, machine).await?;
        self.memory().heard(machine.name(), Reading { at, heard });
        self.again.add(ObjectKey::cluster(machine.name()));
        Ok(())
    }

    /// What the BMC says now. Only the API's failures are errors.
    pub(super) async fn hear(
        &self,
        context: &Context,
        bmcs: &Bmcs,
        machine: &Machine,
    ) -> Result<Heard, Error> {
        let credential = match credential(context, machine).await? {
            Ok(credential) => credential,
            Err(why) => return Ok(Heard::Error(why)),
        };
        Ok(match bmcs.read(&machine.spec.bmc, &credential).await {
            Ok(status) => heard(status),
            Err(Failure::Silence(_)) => Heard::Silence,
            Err(Failure::Error(why)) => Heard::Error(why.chars().take(LONGEST).collect()),
        })
    }

    /// Tells the BMC. The Event stands already.
    pub(super) async fn power(
        &self,
        context: &Context,
        bmcs: &Bmcs,
        machine: &Machine,
        power: Power,
    ) -> Result<(), Error> {
        let failure = match credential(context, machine).await? {
            Ok(credential) => {
                context.count_effect();
                self.memory().forget(machine.name());
                bmcs.power(&machine.spec.bmc, &credential, power).await.err().map(|f| f.to_string())
            }
            Err(why) => Some(why),
        };
        let Some(why) = failure else { return Ok(()) };
        let text: String = why.chars().take(LONGEST).collect();
        let note = Note {
            mood: Mood::Warning,
            reason: "PowerFailed".to_owned(),
            action: "Lifecycle".to_owned(),
            text: text.clone(),
        };
        context.record::<Machine>(&(), &machine.metadata, note).await;
        Err(not_done(text))
    }
}

/// Says a status as decisions take it. A machine that is off has not been switched on since it was
/// seen off: that is a word about its last reset too, and the only one of BMCs that give no time.
fn heard(status: Status) -> Heard {
    let Status { on, last_reset } = status;
    let last_reset = match (on, last_reset) {
        (true, said) => said,
        (false, Some(said)) => Some(format!("{said}, off")),
        (false, None) => Some("off".to_owned()),
    };
    Heard::Answer { on, last_reset }
}

/// The credential that a machine names, or what is wrong with it.
async fn credential(
    context: &Context,
    machine: &Machine,
) -> Result<Result<Credential, String>, Error> {
    let object = secret(machine);
    let name = format!("{NAMESPACE}/{}", machine.spec.bmc.credential);
    let Some(secret) = context.get::<Secret>(&(), &object).await? else {
        let keys = "with the keys username and password";
        return Ok(Err(format!("there is no Secret {name}; create it, {keys}")));
    };
    let data = secret.data.unwrap_or_default();
    let word = |key: &str| {
        let word = data.get(key).and_then(|bytes| String::from_utf8(bytes.0.clone()).ok());
        word.filter(|word| !word.is_empty())
            .ok_or_else(|| format!("the Secret {name} has no text under the key {key}"))
    };
    Ok(word("username")
        .and_then(|username| Ok(Credential { username, password: word("password")? })))
}
