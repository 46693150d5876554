//! Plays a case's steps against one server and keeps the normalised answers.
//!
//! Guarantees bounded time for every step. A connection that fails ends the case on that server:
//! what would follow could only repeat the same news.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::case::{Action, Body, Request, Step, Until, Vars};
use super::normalise::Normaliser;
use super::protobuf;
use super::template::Scope;
use crate::server::Server;
use crate::server::client::{Answer, PATIENCE, Stream};
use crate::tool;

/// Events arrive within milliseconds; who waits longer waits for one that does not come.
const EVENT_PATIENCE: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(40);
const AGENT: &str = "seatrial-corpus/1";

/// One step as it went.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    pub(crate) request: String,
    pub(crate) answer: Value,
}

/// The state of one case on one server.
pub(crate) struct Player<'a> {
    server: &'a Server,
    captures: Vars,
    shared: Vec<&'a Vars>,
    streams: HashMap<String, Stream>,
    normaliser: Normaliser,
}

impl<'a> Player<'a> {
    /// `shared` holds the values of case and file, the innermost first.
    pub(crate) fn new(server: &'a Server, shared: Vec<&'a Vars>) -> Self {
        Self {
            server,
            captures: Vars::new(),
            shared,
            streams: HashMap::new(),
            normaliser: Normaliser::default(),
        }
    }

    /// Plays steps until one gets no answer. An error is a mistake in the case itself.
    pub(crate) fn play(&mut self, steps: &[Step]) -> Result<Vec<Exchange>> {
        let mut exchanges = Vec::new();
        for step in steps {
            let exchange = self.step(step)?;
            let lost = exchange.answer.get("error").is_some();
            exchanges.push(exchange);
            if lost {
                break;
            }
        }
        Ok(exchanges)
    }

    /// Plays steps that must succeed; what they answer is not compared.
    pub(crate) fn prepare(&mut self, steps: &[Step]) -> Result<()> {
        for Exchange { request, answer } in self.play(steps)? {
            let status = answer.get("status").and_then(Value::as_u64);
            ensure!(status.is_none_or(|code| code < 300), "{request}\n{answer:#}");
            ensure!(answer.get("error").is_none(), "{request}\n{answer:#}");
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<Exchange> {
        let (request, outcome) = match &step.action {
            Action::Request(request) => self.request(request, step)?,
            Action::Raw(bytes) => {
                let bytes = self.scope().text(bytes)?;
                let bodiless = bytes.starts_with("HEAD ");
                let sent = self.server.client.send(bytes.as_bytes(), bodiless);
                let answer = sent.and_then(Stream::finish);
                let outcome = answer.map(|answer| self.normaliser.answer(&answer));
                (format!("raw {bytes:?}"), outcome)
            }
            Action::Collect { stream, events } => {
                (format!("collect {events} events of {stream}"), self.collect(stream, *events))
            }
        };
        let pick = step.pick.iter().map(|place| self.scope().text(place));
        let pick = pick.collect::<Result<Vec<_>>>()?;
        let answer = match outcome {
            Ok(answer) => picked(answer, &pick),
            Err(error) => json!({"error": format!("{error:#}")}),
        };
        Ok(Exchange { request, answer })
    }

    fn request(&mut self, request: &Request, step: &Step) -> Result<(String, Result<Value>)> {
        let scope = self.scope();
        let path = scope.text(&request.path)?;
        let mut headers = vec![("user-agent".to_owned(), AGENT.to_owned())];
        if request.user != "anonymous" {
            let token = self.server.tokens.get(&request.user);
            let token = token.with_context(|| format!("no user is named {}", request.user))?;
            headers.push(("authorization".to_owned(), format!("Bearer {token}")));
        }
        for (name, value) in &request.headers {
            headers.retain(|(known, _)| known != name);
            if let Some(value) = value {
                headers.push((name.clone(), scope.text(value)?));
            }
        }
        let (body, told) = body_of(&request.body, &scope)?;
        let shown = shown(&request.method, &path, &request.user, &headers, told.as_deref());
        let give_up = Instant::now() + PATIENCE;
        let answer = loop {
            let body = body.as_deref();
            let opened = self.server.client.open(&request.method, &path, &headers, body);
            let answer = opened.and_then(|stream| self.take(stream, request));
            if enough(request.until.as_ref(), answer.as_ref().ok()) || Instant::now() > give_up {
                break answer;
            }
            tool::pause(POLL);
        };
        let outcome = answer.map(|answer| {
            self.capture(&answer, &step.save);
            self.normaliser.answer(&answer)
        });
        Ok((shown, outcome))
    }

    /// Reads an answer, or puts it aside when it is a stream that the case goes on with.
    fn take(&mut self, mut stream: Stream, request: &Request) -> Result<Answer> {
        match &request.stream {
            Some(name) if stream.answer.status == 200 => {
                let mut head = std::mem::take(&mut stream.answer);
                head.body = b"<stream>".to_vec();
                self.streams.insert(name.clone(), stream);
                Ok(head)
            }
            _ => stream.finish(),
        }
    }

    fn capture(&mut self, answer: &Answer, save: &BTreeMap<String, String>) {
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        for (name, place) in save {
            // What is missing is a difference that the comparison shows; later steps go on.
            let value = match place.strip_prefix("header:") {
                Some(header) => answer.header(header).unwrap_or_default().into(),
                None => body.pointer(place).cloned().unwrap_or_else(|| "".into()),
            };
            self.captures.insert(name.clone(), value);
        }
    }

    fn collect(&mut self, name: &str, count: usize) -> Result<Value> {
        // A watch that was refused has been compared already; it has no events.
        let Some(stream) = self.streams.get_mut(name) else { return Ok(json!({"events": []})) };
        let mut events = Vec::new();
        let deadline = Instant::now() + EVENT_PATIENCE;
        while events.len() < count {
            let Some(line) = stream.line(deadline)? else { break };
            let event = serde_json::from_slice(&line).with_context(|| {
                format!("an event is no JSON: {}", String::from_utf8_lossy(&line))
            })?;
            events.push(self.normaliser.document(event));
        }
        Ok(json!({"events": events}))
    }

    fn scope(&self) -> Scope<'_> {
        Scope(std::iter::once(&self.captures).chain(self.shared.iter().copied()).collect())
    }
}

/// Whether a step may go on with this answer; a lost one is asked for again.
fn enough(until: Option<&Until>, answer: Option<&Answer>) -> bool {
    match (until, answer) {
        // For moments after a definition changes, the reference rebuilds its handlers and says so.
        (None, Some(answer)) => answer.status != 503,
        (None, None) => true,
        (Some(_), None) => false,
        (Some(Until::Status(status)), Some(answer)) => answer.status == *status,
        (Some(Until::Has(place)), Some(answer)) => {
            let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            body.pointer(place).is_some()
        }
    }
}

/// The bytes to send, and how a person reads them.
fn body_of(body: &Body, scope: &Scope<'_>) -> Result<(Option<Vec<u8>>, Option<String>)> {
    let text = match body {
        Body::Nothing => return Ok((None, None)),
        Body::Bytes(bytes) => return Ok((Some(bytes.clone()), Some(STANDARD.encode(bytes)))),
        Body::Protobuf(object) => {
            let object = scope.value(object)?;
            return Ok((Some(protobuf::encode(&object)?), Some(object.to_string())));
        }
        Body::Plain(Value::String(text)) if !is_reference(text) => scope.text(text)?,
        Body::Plain(value) => match scope.value(value)? {
            Value::String(text) => text,
            value => value.to_string(),
        },
    };
    Ok((Some(text.clone().into_bytes()), Some(text)))
}

fn is_reference(text: &str) -> bool {
    text.starts_with('<') && text.ends_with('>') && !text.contains(':')
}

fn picked(mut answer: Value, pick: &[String]) -> Value {
    if !pick.is_empty() {
        let parts = pick.iter().map(|place| {
            (place.clone(), part(&answer["body"], place).cloned().unwrap_or_default())
        });
        answer["body"] = Value::Object(parts.collect());
    }
    answer
}

/// What a JSON pointer leads to, of which a part `field=value` is the first item of a list that is so:
/// conditions come in the order in which a server's parts get round to them.
fn part<'a>(body: &'a Value, place: &str) -> Option<&'a Value> {
    let Some((start, rest)) = place.split_once('=') else { return body.pointer(place) };
    let (list, field) = start.rsplit_once('/')?;
    let (value, rest) = rest.find('/').map_or((rest, ""), |end| rest.split_at(end));
    let items = body.pointer(list)?.as_array()?;
    part(items.iter().find(|item| item[field] == value)?, rest)
}

/// A request as a person reads it.
fn shown(
    method: &str,
    path: &str,
    user: &str,
    headers: &[(String, String)],
    body: Option<&str>,
) -> String {
    let mut out = format!("{method} {path}");
    if user != "admin" {
        out.push_str(&format!(" as {user}"));
    }
    let usual = ["authorization", "user-agent"];
    for (name, value) in headers.iter().filter(|(name, _)| !usual.contains(&name.as_str())) {
        if value != "application/json" {
            out.push_str(&format!(" {name}={value}"));
        }
    }
    if let Some(body) = body {
        out.push_str(&format!("\n  {}", super::compare::shortened(body, 2000)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_by_place_and_by_value() {
        let body = json!({"a": [{"type": "x", "b": 1}, {"type": "y", "b": {"c": 2}}]});
        let check = |place: &str, want: Option<Value>| {
            assert_eq!(part(&body, place).cloned(), want, "{place}");
        };
        check("/a/0/b", Some(json!(1)));
        check("/a/type=y/b/c", Some(json!(2)));
        check("/a/type=y", Some(json!({"type": "y", "b": {"c": 2}})));
        check("/a/type=z/b", None);
        check("/b/type=x", None);
    }
}
