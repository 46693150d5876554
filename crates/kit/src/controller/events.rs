//! Events: what a controller did or found, for people who ask the object.
//!
//! Written on transitions only, under names made of what they say, so that the same fact said twice
//! is one Event with a count and not two. Where the server has `events.k8s.io/v1` they go there,
//! else to core `v1`.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::clock::{rfc3339_micros, rfc3339_seconds};

/// Longest note that the API takes, in bytes.
const LONGEST_NOTE: usize = 1024;

/// How an Event is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mood {
    /// As it should be.
    Normal,
    /// Somebody should look.
    Warning,
}

impl Mood {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// What there is to say of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// How it is meant.
    pub mood: Mood,
    /// One CamelCase word, which people automate on.
    pub reason: String,
    /// What was done about it, in one CamelCase word.
    pub action: String,
    /// A sentence for people.
    pub text: String,
}

/// Writes Events under a controller's name.
#[derive(Clone)]
pub(super) struct Recorder {
    controller: String,
    instance: String,
    form: Arc<OnceCell<Form>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Core,
    Group,
}

impl Recorder {
    pub(super) fn new(controller: String, instance: String) -> Self {
        Self { controller, instance, form: Arc::default() }
    }

    pub(super) async fn record(
        &self,
        client: &Client,
        about: ObjectReference,
        note: Note,
        now: Timestamp,
    ) {
        if let Err(error) = self.write(client, &about, &note, now).await {
            let error = crate::error::chain(&error);
            tracing::warn!(reason = note.reason, %error, "cannot record an event");
        }
    }

    /// Writes it, or says why not.
    pub(super) async fn write(
        &self,
        client: &Client,
        about: &ObjectReference,
        note: &Note,
        now: Timestamp,
    ) -> Result<(), kube::Error> {
        let form = *self.form.get_or_try_init(|| find_form(client)).await?;
        // Events of things without a namespace are kept in `default`.
        let namespace = about.namespace.as_deref().unwrap_or("default");
        let name = name(&self.controller, about, note);
        let mut body = match form {
            Form::Group => self.group(about, note, now),
            Form::Core => self.core(about, note, now),
        };
        body["metadata"] = json!({"name": name, "namespace": namespace});
        let path = match form {
            Form::Group => format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"),
            Form::Core => format!("/api/v1/namespaces/{namespace}/events"),
        };
        match send(client, http::Method::POST, &path, "application/json", &body).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            other => return other.map(drop),
        }
        // Said before: it happened once more.
        let path = format!("{path}/{name}");
        let known =
            send(client, http::Method::GET, &path, "application/json", &Value::Null).await?;
        let again = match form {
            Form::Group => {
                let count = known.pointer("/series/count").and_then(Value::as_i64).unwrap_or(1);
                let last = rfc3339_micros(now);
                json!({"series": {"count": count + 1, "lastObservedTime": last}})
            }
            Form::Core => {
                let count = known.get("count").and_then(Value::as_i64).unwrap_or(1);
                json!({"count": count + 1, "lastTimestamp": rfc3339_seconds(now)})
            }
        };
        let merge = "application/merge-patch+json";
        send(client, http::Method::PATCH, &path, merge, &again).await.map(drop)
    }

    fn group(&self, about: &ObjectReference, note: &Note, now: Timestamp) -> Value {
        json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "eventTime": rfc3339_micros(now), "type": note.mood.as_str(),
            "reason": note.reason, "action": note.action, "note": short(&note.text),
            "regarding": about,
            "reportingController": self.controller, "reportingInstance": self.instance,
        })
    }

    fn core(&self, about: &ObjectReference, note: &Note, now: Timestamp) -> Value {
        let second = rfc3339_seconds(now);
        json!({
            "apiVersion": "v1", "kind": "Event",
            "firstTimestamp": second, "lastTimestamp": second, "count": 1,
            "type": note.mood.as_str(),
            "reason": note.reason, "action": note.action, "message": short(&note.text),
            "involvedObject": about, "source": {"component": self.controller},
            "reportingComponent": self.controller, "reportingInstance": self.instance,
        })
    }
}

async fn find_form(client: &Client) -> Result<Form, kube::Error> {
    match send(client, http::Method::GET, "/apis/events.k8s.io/v1", "", &Value::Null).await {
        Ok(_) => Ok(Form::Group),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Form::Core),
        Err(error) => Err(error),
    }
}

async fn send(
    client: &Client,
    method: http::Method,
    path: &str,
    content_type: &str,
    body: &Value,
) -> Result<Value, kube::Error> {
    let bytes = match body {
        Value::Null => Vec::new(),
        body => serde_json::to_vec(body).map_err(kube::Error::SerdeError)?,
    };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::CONTENT_TYPE, content_type)
        .body(bytes)
        .map_err(kube::Error::HttpError)?;
    client.request(request).await
}

/// The object's name and a number made of what is said; equal facts have equal names.
fn name(controller: &str, about: &ObjectReference, note: &Note) -> String {
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    (controller, &about.kind, &about.uid, note).hash(&mut hasher);
    let object: String = about.name.as_deref().unwrap_or_default().chars().take(200).collect();
    // Some kinds allow names that an Event may not have.
    let object = object.replace([':', '_'], "-").to_lowercase();
    format!("{}.{:016x}", object.trim_matches(['-', '.']), hasher.finish())
}

/// FNV-1a: the same in every build, which the hasher of the standard library does not promise.
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// At most [`LONGEST_NOTE`] bytes, cut between characters.
fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST_NOTE)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_facts_have_one_name_and_others_another() {
        let about = ObjectReference {
            name: Some("system:node_1".to_owned()),
            uid: Some("u".to_owned()),
            ..ObjectReference::default()
        };
        let note = |text: &str| Note {
            mood: Mood::Normal,
            reason: "Done".to_owned(),
            action: "Do".to_owned(),
            text: text.to_owned(),
        };
        let one = name("c", &about, &note("a"));
        assert_eq!(one, name("c", &about, &note("a")));
        assert_ne!(one, name("c", &about, &note("b")));
        assert!(one.starts_with("system-node-1."), "{one}");
    }

    #[test]
    fn long_notes_are_cut_between_characters() {
        let long = "ä".repeat(600);
        assert_eq!(short(&long).len(), 1024);
        assert_eq!(short(&format!("x{long}")).len(), 1023);
    }
}
