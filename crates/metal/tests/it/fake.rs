//! A Redfish service of the tests, with the habits that one test gives it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use metal::redfish::Bmcs;
use metal::{Exchange, Unreachable};
use serde_json::{Value, json};

/// An answer in place of the service's own: status, body, after how long.
pub(crate) type Odd = (u16, &'static str, Duration);

/// How the service behaves.
#[derive(Clone)]
pub(crate) struct Habits {
    pub(crate) members: Vec<&'static str>,
    pub(crate) allowed: Option<Vec<&'static str>>,
    pub(crate) sources: Option<Vec<&'static str>>,
    pub(crate) last_reset: Value,
    /// What stands before `/redfish` in its URLs, and whether its links carry it.
    pub(crate) prefix: (&'static str, bool),
    /// Only a session's token opens the door.
    pub(crate) sessions_only: bool,
    /// Boot sources that a PATCH refuses.
    pub(crate) refuses: Vec<&'static str>,
    /// A PATCH must name this ETag.
    pub(crate) etag: Option<&'static str>,
    /// For requests whose `METHOD path` contains this, answer so.
    pub(crate) odd: Vec<(&'static str, Odd)>,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            members: vec!["1"],
            allowed: Some(vec!["On", "ForceOff", "GracefulRestart", "ForceRestart", "PowerCycle"]),
            sources: Some(vec!["Pxe", "UefiHttp", "Hdd"]),
            last_reset: json!("2026-01-01T00:00:00+00:00"),
            prefix: ("", false),
            sessions_only: false,
            refuses: Vec::new(),
            etag: None,
            odd: Vec::new(),
        }
    }
}

#[derive(Default)]
struct State {
    on: bool,
    /// The tokens given out; the last one is good.
    tokens: usize,
    log: Vec<String>,
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Service {
    habits: Habits,
    state: Arc<Mutex<State>>,
}

impl Service {
    pub(crate) fn new(on: bool, habits: Habits) -> Self {
        Self { habits, state: Arc::new(Mutex::new(State { on, ..State::default() })) }
    }

    pub(crate) fn bmcs(&self) -> Bmcs {
        let this = self.clone();
        Bmcs::through(Exchange::new(tower::service_fn(move |request| {
            let this = this.clone();
            async move { this.answer(request).await }
        })))
    }

    /// What was asked since the last time, as `POST On` or `GET /redfish/v1/Systems`.
    pub(crate) fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().log)
    }

    /// Changes of the machine since the last time: PATCH and reset.
    pub(crate) fn told(&self) -> Vec<String> {
        self.log().into_iter().filter(|line| !line.starts_with("GET")).collect()
    }

    /// All tokens are worth nothing any more.
    pub(crate) fn end_sessions(&self) {
        self.state.lock().unwrap().tokens += 1;
    }

    async fn answer(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Unreachable> {
        let (prefix, carried) = self.habits.prefix;
        let uri = request.uri().to_string();
        let path = uri.strip_prefix("http://bmc").unwrap();
        let Some(path) = path.strip_prefix(prefix) else {
            return Ok(reply(404, "", &[]));
        };
        let body: Value = serde_json::from_slice(request.body()).unwrap_or(Value::Null);
        let word = match (request.method(), body.pointer("/Boot")) {
            (&Method::POST, _) => body["ResetType"].as_str().unwrap_or("login").to_owned(),
            (_, Some(boot)) => format!(
                "{} {} {path}",
                boot["BootSourceOverrideTarget"].as_str().unwrap(),
                boot["BootSourceOverrideEnabled"].as_str().unwrap()
            ),
            _ => path.to_owned(),
        };
        self.state.lock().unwrap().log.push(format!("{} {word}", request.method()));
        let line = format!("{} {path}", request.method());
        if let Some((_, odd)) = self.habits.odd.iter().find(|(part, _)| line.contains(part)) {
            let (status, body, wait) = *odd;
            tokio::time::sleep(wait).await;
            if status == 0 {
                return Err(Unreachable { host: "bmc".to_owned(), why: "cut off".to_owned() });
            }
            return Ok(reply(status, body, &[]));
        }
        let link = |path: &str| if carried { format!("{prefix}{path}") } else { path.to_owned() };
        Ok(self.serve(&request, path, &body, &link))
    }

    fn serve(
        &self,
        request: &Request<Bytes>,
        path: &str,
        body: &Value,
        link: &dyn Fn(&str) -> String,
    ) -> Response<Bytes> {
        let mut state = self.state.lock().unwrap();
        let given =
            |name: &str| request.headers().get(name).map(|v| v.to_str().unwrap().to_owned());
        if path == "/redfish/v1/SessionService/Sessions" {
            if body["Password"] != "secret" {
                return reply(401, "", &[]);
            }
            state.tokens += 1;
            return reply(201, "{}", &[("x-auth-token", &format!("token-{}", state.tokens))]);
        }
        let token = given("x-auth-token") == Some(format!("token-{}", state.tokens));
        let basic = given("authorization").as_deref() == Some("Basic cm9vdDpzZWNyZXQ=");
        if !token && (self.habits.sessions_only || !basic) {
            return reply(401, "", &[]);
        }
        if path == "/redfish/v1/Systems" {
            let member = |id: &&str| json!({"@odata.id": link(&format!("{path}/{id}"))});
            let members: Vec<Value> = self.habits.members.iter().map(member).collect();
            return reply(200, &json!({"Members": members}).to_string(), &[]);
        }
        match *request.method() {
            Method::GET => reply(200, &self.system(state.on, path, link).to_string(), &[]),
            Method::PATCH => {
                let wants = self.habits.etag.map(str::to_owned);
                let target = body["Boot"]["BootSourceOverrideTarget"].as_str().unwrap();
                if wants.is_some() && given("if-match") != wants {
                    reply(412, "", &[])
                } else if self.habits.refuses.contains(&target) {
                    reply(400, "", &[])
                } else {
                    reply(200, "", &[])
                }
            }
            _ => {
                state.on = body["ResetType"] != "ForceOff";
                reply(204, "", &[])
            }
        }
    }

    fn system(&self, on: bool, path: &str, link: &dyn Fn(&str) -> String) -> Value {
        let host = !path.contains("HGX");
        let mut reset = json!({"target": link(&format!("{path}/Actions/ComputerSystem.Reset"))});
        if let Some(allowed) = &self.habits.allowed {
            reset["ResetType@Redfish.AllowableValues"] = json!(allowed);
        }
        let mut boot = json!({});
        if let Some(sources) = &self.habits.sources {
            boot["BootSourceOverrideTarget@Redfish.AllowableValues"] = json!(sources);
        }
        json!({
            "@odata.etag": self.habits.etag,
            "PowerState": if on { "On" } else { "Off" },
            "LastResetTime": self.habits.last_reset,
            "Boot": boot,
            "Actions": if host { json!({"#ComputerSystem.Reset": reset}) } else { json!({}) },
            "@Redfish.Settings": {"SettingsObject": {"@odata.id": link(&format!("{path}/SD"))}},
        })
    }
}

fn reply(status: u16, body: &str, headers: &[(&str, &str)]) -> Response<Bytes> {
    let mut response = Response::builder().status(StatusCode::from_u16(status).unwrap());
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(Bytes::copy_from_slice(body.as_bytes())).unwrap()
}
