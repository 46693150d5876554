//! The Redfish services of every BMC, by path: `/bmc/NAME/redfish/v1/…`.
//!
//! Follows DMTF DSP0266 and the schemas ComputerSystem, Chassis, Thermal, Power and SessionService as
//! far as power control, sensors and versions go; what vendors do differently is a table
//! ([`habits`]). The same function answers requests within the process and over TCP. No request
//! panics or makes it allocate without bound; a BMC that is silent keeps a client waiting and then
//! cuts the connection.

mod habits;
mod resource;

use super::delays::Delay;
use super::fault::Mishap;
use super::layout::{PASSWORD, USER};
use super::show::draw;
use super::site::Datacentre;
use super::truth::Truth;
use api::request::Power;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use habits::{Habits, habits};
use http::header::{
    ALLOW, AUTHORIZATION, CONTENT_TYPE, ETAG, IF_MATCH, LOCATION, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use metal::{Exchange, Unreachable};
use resource::{Seen, document};
use serde_json::{Value, json};
use std::collections::VecDeque;
use tokio::net::TcpListener;

/// The header in which whoever tells a BMC may say for which operation; kept in the log of resets.
const OPERATION: &str = "seatrial-operation";
/// BMCs have room for few sessions; the oldest is forgotten.
const MAX_SESSIONS: usize = 16;
/// A request's body says little.
const MAX_BODY: usize = 64 << 10;
const MAX_PATH: usize = 1_024;

/// What a BMC remembers until it restarts.
#[derive(Debug, Default)]
pub(super) struct Memory {
    tokens: VecDeque<String>,
    issued: u64,
    systems_read: bool,
    boot_target: Option<(String, String)>,
    changes: u64,
}

impl Datacentre {
    /// Carries requests to the BMCs of this site within the process.
    pub fn redfish(&self) -> Exchange {
        let site = self.clone();
        Exchange::new(tower::service_fn(move |request| {
            let site = site.clone();
            async move { site.answer(request).await }
        }))
    }

    /// Serves the BMCs behind one listener, told apart by path, until it is dropped: for the wall
    /// clock.
    pub async fn serve_redfish(self, listener: TcpListener) {
        metal::serve(listener, self.redfish()).await;
    }

    async fn answer(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Unreachable> {
        let unreachable = |why: &str| {
            let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
            Unreachable { host, why: why.to_owned() }
        };
        let path = request.uri().path();
        let Some(call) = Call::parse(path) else {
            return Ok(plain(StatusCode::NOT_FOUND, "BMCs answer at /bmc/NAME/redfish/v1"));
        };
        let Some(machine) = self.machine(call.name) else {
            return Err(unreachable("no machine of this site has this BMC"));
        };
        let delays = &self.settings().delays;
        let (silent, slow) = self.look(machine.index, |truth, _| {
            let silent = |m| matches!(m, Mishap::NoPower | Mishap::BmcSilent);
            (truth.has(silent), truth.has(|m| m == Mishap::BmcSlow))
        });
        if silent {
            tokio::time::sleep(delays.of(Delay::BmcSilence)).await;
            return Err(unreachable("it keeps the connection and says nothing"));
        }
        let habits = habits(machine.plan().vendor);
        let mut wait = delays.of(Delay::BmcAnswer);
        for (slow, delay) in [(habits.slow, Delay::BmcHabit), (slow, Delay::BmcSlow)] {
            wait += if slow { delays.of(delay) } else { std::time::Duration::ZERO };
        }
        tokio::time::sleep(wait).await;
        if request.body().len() > MAX_BODY {
            return Ok(error(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long"));
        }
        let bmc = Bmc { site: self, index: machine.index, habits, call: &call };
        Ok(bmc.answer(&request))
    }
}

/// Whose BMC is called, and for what.
struct Call<'a> {
    name: &'a str,
    /// What follows `/redfish`, by segments.
    path: Vec<&'a str>,
}

impl<'a> Call<'a> {
    fn parse(path: &'a str) -> Option<Self> {
        if path.len() > MAX_PATH {
            return None;
        }
        let mut segments = path.strip_prefix('/')?.trim_end_matches('/').split('/');
        let ("bmc", name, "redfish") = (segments.next()?, segments.next()?, segments.next()?)
        else {
            return None;
        };
        Some(Self { name, path: segments.collect() })
    }
}

/// One BMC with one request.
struct Bmc<'a> {
    site: &'a Datacentre,
    index: usize,
    habits: &'static Habits,
    call: &'a Call<'a>,
}

impl Bmc<'_> {
    fn answer(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let (method, path) = (request.method(), self.call.path.as_slice());
        let open = matches!(path, [] | ["v1"]) || path == ["v1", "SessionService", "Sessions"];
        let free = open && (*method == Method::GET || *method == Method::POST);
        if !free && !self.knows(request.headers()) {
            let mut answer =
                error(StatusCode::UNAUTHORIZED, "user and password, or a session, are needed");
            let basic = HeaderValue::from_static("Basic realm=\"BMC\"");
            answer.headers_mut().insert(WWW_AUTHENTICATE, basic);
            return answer;
        }
        match (method, path) {
            (&Method::POST, ["v1", "SessionService", "Sessions"]) => self.log_in(request.body()),
            (&Method::DELETE, ["v1", "SessionService", "Sessions", id]) => self.log_out(id),
            (&Method::POST, ["v1", "Systems", id, "Actions", "ComputerSystem.Reset"])
                if *id == self.habits.system =>
            {
                self.reset(request)
            }
            (&Method::PATCH, ["v1", "Systems", id]) if *id == self.habits.system => {
                self.set_boot(request)
            }
            (&Method::GET, _) => self.get(path),
            _ => {
                let mut answer = error(StatusCode::METHOD_NOT_ALLOWED, "the resource takes GET");
                answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
                answer
            }
        }
    }

    fn knows(&self, headers: &HeaderMap) -> bool {
        if let Some(token) = headers.get("x-auth-token").and_then(|token| token.to_str().ok()) {
            return self.memory(|memory| memory.tokens.iter().any(|known| known == token));
        }
        if self.habits.sessions_only {
            return false;
        }
        let basic = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let basic = basic.and_then(|value| value.strip_prefix("Basic "));
        let login = basic.and_then(|basic| STANDARD.decode(basic.trim()).ok());
        login.is_some_and(|login| login == format!("{USER}:{PASSWORD}").as_bytes())
    }

    fn memory<R>(&self, act: impl FnOnce(&mut Memory) -> R) -> R {
        let mut memory = self
            .site
            .unit(self.index)
            .bmc
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        act(&mut memory)
    }

    fn log_in(&self, body: &Bytes) -> Response<Bytes> {
        let login: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |key: &str| login.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("UserName") != USER || text("Password") != PASSWORD {
            return error(StatusCode::UNAUTHORIZED, "unknown user or wrong password");
        }
        let seed = self.memory(|memory| {
            memory.issued += 1;
            memory.issued
        });
        let token = self.site.look(self.index, |_, around| {
            format!("{:016x}", draw(around, &format!("token {seed}")))
        });
        self.memory(|memory| {
            memory.tokens.push_back(token.clone());
            if memory.tokens.len() > MAX_SESSIONS {
                memory.tokens.pop_front();
            }
        });
        let at = format!("/bmc/{}/redfish/v1/SessionService/Sessions/{token}", self.call.name);
        let mut answer = reply(StatusCode::CREATED, &json!({"@odata.id": at, "Id": token}));
        for (name, value) in [("x-auth-token", &token), (LOCATION.as_str(), &at)] {
            if let (Ok(name), Ok(value)) =
                (http::HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
            {
                answer.headers_mut().insert(name, value);
            }
        }
        answer
    }

    fn log_out(&self, id: &str) -> Response<Bytes> {
        let known = self.memory(|memory| {
            let before = memory.tokens.len();
            memory.tokens.retain(|token| token != id);
            memory.tokens.len() < before
        });
        if known { empty(StatusCode::NO_CONTENT) } else { missing() }
    }

    /// Whether the BMC fails at what it was asked now.
    fn fails(&self) -> bool {
        let errors = |mishap| matches!(mishap, Mishap::BmcErrors(_));
        self.site.look(self.index, |truth, _| truth.has(errors))
            && self.site.touch(self.index, |truth, _| truth.mishap(errors))
    }

    fn get(&self, path: &[&str]) -> Response<Bytes> {
        let system = matches!(path, ["v1", "Systems", _]);
        if path == ["v1", "Systems"] {
            self.memory(|memory| memory.systems_read = true);
        } else if path.starts_with(&["v1", "Systems"])
            && self.habits.collection_first
            && !self.memory(|memory| memory.systems_read)
        {
            return missing();
        }
        if system && self.fails() {
            return error(StatusCode::INTERNAL_SERVER_ERROR, "the BMC is busy with itself");
        }
        let lies = |mishap| matches!(mishap, Mishap::BmcLies(_));
        let lie = system
            && self.site.look(self.index, |truth, _| truth.has(lies))
            && self.site.touch(self.index, |truth, _| truth.mishap(lies));
        let (boot_target, changes) =
            self.memory(|memory| (memory.boot_target.clone(), memory.changes));
        let (found, etag) = self.site.look(self.index, |truth, around| {
            let name = self.call.name;
            let seen = Seen { truth, around, habits: self.habits, name, lie, boot_target };
            (document(&seen, path), etag(truth, changes))
        });
        let Some(document) = found else { return missing() };
        let mut answer = reply(StatusCode::OK, &document);
        if system && let Ok(etag) = HeaderValue::from_str(&etag) {
            answer.headers_mut().insert(ETAG, etag);
        }
        answer
    }

    fn reset(&self, request: &Request<Bytes>) -> Response<Bytes> {
        if self.fails() {
            return error(StatusCode::INTERNAL_SERVER_ERROR, "the BMC is busy with itself");
        }
        let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let kind = body.get("ResetType").and_then(Value::as_str).unwrap_or_default();
        if !self.habits.resets.contains(&kind) {
            let kinds = self.habits.resets.join(", ");
            let kind: String = kind.chars().take(40).collect();
            let why = format!("ResetType {kind:?} is not supported: it takes {kinds}");
            return error(StatusCode::BAD_REQUEST, &why);
        }
        let power = match kind {
            "ForceOff" | "GracefulShutdown" => Power::Off,
            "GracefulRestart" => Power::GracefulRestart,
            "ForceRestart" => Power::ForceRestart,
            "PowerCycle" => Power::Cycle,
            _ => Power::On,
        };
        let restart = matches!(power, Power::GracefulRestart | Power::ForceRestart);
        let operation = request.headers().get(OPERATION).and_then(|value| value.to_str().ok());
        let accepted = self.site.touch(self.index, |truth, around| {
            let accepted = truth.on || !restart;
            if accepted {
                truth.order(power, operation, around);
            }
            accepted
        });
        if !accepted {
            return error(StatusCode::CONFLICT, "the system is off and cannot be restarted");
        }
        empty(StatusCode::NO_CONTENT)
    }

    fn set_boot(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let boot = body.get("Boot");
        let text = |key: &str| boot.and_then(|boot| boot.get(key)).and_then(Value::as_str);
        let target = text("BootSourceOverrideTarget").unwrap_or("None");
        let enabled = text("BootSourceOverrideEnabled").unwrap_or("Once");
        if boot.is_none()
            || !resource::BOOT_TARGETS.contains(&target)
            || !resource::BOOT_ENABLED.contains(&enabled)
        {
            return error(StatusCode::BAD_REQUEST, "Boot takes a target and Once or Continuous");
        }
        let changes = self.memory(|memory| memory.changes);
        let current = self.site.look(self.index, |truth, _| etag(truth, changes));
        let matches = |value: &HeaderValue| {
            value.to_str().is_ok_and(|value| value == "*" || value == current)
        };
        if request.headers().get(IF_MATCH).is_some_and(|value| !matches(value)) {
            return error(StatusCode::PRECONDITION_FAILED, "the system has changed since");
        }
        self.memory(|memory| {
            memory.boot_target = Some((target.to_owned(), enabled.to_owned()));
            memory.changes += 1;
        });
        empty(StatusCode::NO_CONTENT)
    }
}

/// Changes with everything that a client might have decided upon.
fn etag(truth: &Truth, changes: u64) -> String {
    format!("W/\"{}-{}-{changes}\"", truth.resets, u8::from(truth.on))
}

fn reply(status: StatusCode, body: &Value) -> Response<Bytes> {
    let mut answer = Response::new(Bytes::from(body.to_string()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer.headers_mut().insert("odata-version", HeaderValue::from_static("4.0"));
    answer
}

fn empty(status: StatusCode) -> Response<Bytes> {
    let mut answer = Response::new(Bytes::new());
    *answer.status_mut() = status;
    answer
}

fn plain(status: StatusCode, text: &'static str) -> Response<Bytes> {
    let mut answer = empty(status);
    *answer.body_mut() = Bytes::from_static(text.as_bytes());
    answer
}

fn missing() -> Response<Bytes> {
    error(StatusCode::NOT_FOUND, "there is no such resource")
}

/// An error as DSP0266, 8.6, has it.
fn error(status: StatusCode, message: &str) -> Response<Bytes> {
    let code =
        if status == StatusCode::NOT_FOUND { "ResourceMissingAtURI" } else { "GeneralError" };
    let code = format!("Base.1.8.{code}");
    reply(
        status,
        &json!({"error": {"code": code, "message": message, "@Message.ExtendedInfo": [
            {"MessageId": code, "Message": message, "Severity": "Critical"}
        ]}}),
    )
}
