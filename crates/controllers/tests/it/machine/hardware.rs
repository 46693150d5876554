//! Hardware of the tests: BMCs that speak Redfish through an exchange, and what their machines run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use api::Machine;
use api::machine::Agent;
use api::request::{Outcome, Report};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use jiff::Timestamp;
use metal::redfish::Bmcs;
use metal::{Exchange, Unreachable};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// What the next reset does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mood {
    /// What it is told.
    #[default]
    Well,
    /// Never answers, and does nothing.
    HangsBefore,
    /// Does it, and never answers.
    HangsAfter,
    /// Does it, and the answer is lost.
    LosesTheAnswer,
}

#[derive(Default)]
struct Box {
    on: bool,
    boots: u32,
    resets: u32,
    told: Vec<String>,
    mood: Mood,
    silent: bool,
    looks: u32,
    press_at: u32,
    hanging: Arc<Notify>,
}

impl Box {
    fn reset(&mut self, on: bool) {
        self.on = on;
        self.resets += 1;
        self.boots += u32::from(on);
    }

    fn system(&mut self) -> Value {
        self.looks += 1;
        if self.looks == self.press_at {
            self.reset(true);
        }
        json!({
            "PowerState": if self.on { "On" } else { "Off" },
            "LastResetTime": format!("reset {}", self.resets),
            "Boot": {"BootSourceOverrideTarget@Redfish.AllowableValues": ["Pxe", "Hdd"]},
            "Actions": {"#ComputerSystem.Reset": {
                "target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
                "ResetType@Redfish.AllowableValues":
                    ["On", "ForceOff", "GracefulRestart", "ForceRestart", "PowerCycle"],
            }},
        })
    }
}

/// All hardware of a test, by the addresses of BMCs. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Hardware(Arc<Mutex<BTreeMap<String, Box>>>);

impl Hardware {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Box>> {
        self.0.lock().unwrap()
    }

    fn change<T>(&self, address: &str, change: impl FnOnce(&mut Box) -> T) -> T {
        change(self.all().get_mut(address).unwrap())
    }

    pub(crate) fn add(&self, address: &str) {
        self.all().insert(address.to_owned(), Box::default());
    }

    /// What the BMC was told and did.
    pub(crate) fn told(&self, address: &str) -> Vec<String> {
        self.change(address, |hardware| hardware.told.clone())
    }

    pub(crate) fn at_the_next_reset(&self, address: &str, mood: Mood) {
        self.change(address, |hardware| hardware.mood = mood);
    }

    pub(crate) fn silence(&self, address: &str, silent: bool) {
        self.change(address, |hardware| hardware.silent = silent);
    }

    /// Somebody presses the button.
    pub(crate) fn press(&self, address: &str) {
        self.change(address, |hardware| hardware.reset(true));
    }

    /// The same, when the BMC is looked at for the so-manieth time.
    pub(crate) fn press_at_look(&self, address: &str, look: u32) {
        self.change(address, |hardware| hardware.press_at = look);
    }

    pub(crate) async fn until_hanging(&self, address: &str) {
        let hanging = self.change(address, |hardware| Arc::clone(&hardware.hanging));
        hanging.notified().await;
    }

    /// What the agent on a machine says, if it has anything new to say.
    pub(crate) fn agent(&self, machine: &Machine, now: Timestamp) -> Option<Value> {
        let all = self.all();
        let hardware = all.get(&machine.spec.bmc.address).filter(|h| h.on && h.boots > 0)?;
        let status = machine.status.clone().unwrap_or_default();
        let boot = format!("boot-{}", hardware.boots);
        let agent = status.agent.filter(|agent| agent.boot == boot);
        let known = agent.is_some();
        let agent = agent.unwrap_or_else(|| Agent {
            boot: boot.clone(),
            image: "img".to_owned(),
            kernel: None,
            since: now,
        });
        let done = status.report.as_ref().map(|report| &report.id);
        let task = status.task.filter(|task| task.boot == boot && Some(&task.id) != done);
        if known && task.is_none() {
            return None;
        }
        let report = task.map(|task| Report {
            id: task.id,
            boot,
            outcome: Outcome::Succeeded,
            detail: "all well".to_owned(),
            part: None,
            figures: BTreeMap::new(),
            at: now,
        });
        let report = report.or(status.report);
        Some(json!({"agent": agent, "inventory": {"gpus": 8}, "report": report}))
    }

    pub(crate) fn bmcs(&self) -> Bmcs {
        let this = self.clone();
        Bmcs::through(Exchange::new(tower::service_fn(move |request| {
            let this = this.clone();
            async move { this.answer(request).await }
        })))
    }

    async fn answer(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Unreachable> {
        let lost = || Unreachable { host: "bmcs".to_owned(), why: "cut off".to_owned() };
        let uri = request.uri().to_string();
        let (address, path) = uri.split_once("/redfish").unwrap();
        if self.all().get(address).is_none_or(|hardware| hardware.silent) {
            return Err(lost());
        }
        let good = "Basic cm9vdDpzZWNyZXQ=";
        if request.headers().get("authorization").is_none_or(|given| given != good) {
            return Ok(reply(StatusCode::UNAUTHORIZED, &Value::Null));
        }
        match path {
            "/v1/Systems" => {
                let members = json!({"Members": [{"@odata.id": "/redfish/v1/Systems/1"}]});
                Ok(reply(StatusCode::OK, &members))
            }
            "/v1/Systems/1" if request.method() == http::Method::GET => {
                Ok(reply(StatusCode::OK, &self.change(address, Box::system)))
            }
            "/v1/Systems/1" => Ok(reply(StatusCode::OK, &Value::Null)),
            _ => {
                let body: Value = serde_json::from_slice(request.body()).unwrap();
                let kind = body["ResetType"].as_str().unwrap().to_owned();
                let (mood, hanging) = self.change(address, |hardware| {
                    let mood = std::mem::take(&mut hardware.mood);
                    if mood != Mood::HangsBefore {
                        hardware.reset(kind != "ForceOff");
                        hardware.told.push(kind);
                    }
                    (mood, Arc::clone(&hardware.hanging))
                });
                match mood {
                    Mood::Well => Ok(reply(StatusCode::NO_CONTENT, &Value::Null)),
                    Mood::LosesTheAnswer => Err(lost()),
                    Mood::HangsBefore | Mood::HangsAfter => {
                        hanging.notify_one();
                        std::future::pending().await
                    }
                }
            }
        }
    }
}

fn reply(status: StatusCode, body: &Value) -> Response<Bytes> {
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    Response::builder().status(status).body(body).unwrap()
}
