//! Lists and watches as they go over the wire: addresses, pages, and events line by line.
//!
//! kube's own `request_events` fails a whole line when one object cannot be read, and its watches
//! last at most 295 seconds; both are ours to decide here.

use std::collections::BTreeMap;

use bytes::{Buf, Bytes, BytesMut};
use form_urlencoded::Serializer;
use http_body_util::BodyExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::client::Body;
use kube::core::Status;
use kube::{Client, Resource};
use serde::Deserialize;
use serde_json::value::RawValue;

/// An event that is longer is refused: no server stores an object of this size.
const MAX_LINE: usize = 32 << 20;

/// How many objects a page of a list holds.
const PAGE: usize = 500;

/// Which objects a watch is about. Two watches that are equal are one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    /// `/api/v1/pods`
    pub(super) path: String,
    pub(super) group: String,
    pub(super) plural: String,
    pub(super) labels: String,
    pub(super) fields: String,
    /// Only the metadata of objects is asked for.
    pub(super) metadata_only: bool,
}

/// One way in which talking to the server ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The revision that we know is forgotten: list again.
    #[error("the server no longer has the history since our last revision")]
    Expired,
    /// The server does not know `sendInitialEvents`.
    #[error("the server does not stream lists")]
    NoStreaming,
    #[error("the server refused")]
    Refused(#[source] Box<Status>),
    #[error("cannot reach the server")]
    Send(#[source] Box<kube::Error>),
    #[error("the connection broke")]
    Read(#[source] Box<kube::Error>),
    #[error("cannot read what the server sent")]
    Parse(#[source] serde_json::Error),
    #[error("an event is longer than {MAX_LINE} bytes")]
    TooLong,
    #[error("cannot write the request")]
    Request(#[source] http::Error),
}

impl Failure {
    fn refused(status: Box<Status>) -> Self {
        match status.code {
            410 => Self::Expired,
            _ if status.reason == "Expired" => Self::Expired,
            _ => Self::Refused(status),
        }
    }
}

/// What a watch says.
pub(super) enum Event<T> {
    Put(T),
    Deleted(ObjectMeta),
    Bookmark { ends_initial: bool },
    Broken(ObjectMeta, serde_json::Error),
}

/// The least that every object has.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    metadata: ObjectMeta,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Page<'a> {
    metadata: PageMeta,
    // A kube-apiserver writes null for none in lists of metadata.
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

/// A whole list.
pub(super) struct Listed<K> {
    pub(super) revision: String,
    pub(super) good: Vec<K>,
    pub(super) broken: Vec<(ObjectMeta, serde_json::Error)>,
}

/// Reads an object; one that is broken still says what it is called.
fn read<K: Resource + serde::de::DeserializeOwned>(
    raw: &RawValue,
) -> Result<Result<K, (ObjectMeta, serde_json::Error)>, Failure> {
    match serde_json::from_str::<K>(raw.get()) {
        Ok(object) => Ok(Ok(object)),
        Err(error) => {
            let head: Head = serde_json::from_str(raw.get()).map_err(Failure::Parse)?;
            Ok(Err((head.metadata, error)))
        }
    }
}

impl Target {
    fn uri(&self, options: &[(&str, &str)]) -> String {
        let mut query = Serializer::new(String::new());
        for (name, value) in [("labelSelector", &self.labels), ("fieldSelector", &self.fields)] {
            if !value.is_empty() {
                query.append_pair(name, value);
            }
        }
        query.extend_pairs(options);
        format!("{}?{}", self.path, query.finish())
    }

    async fn ask(&self, client: &Client, uri: String, list: bool) -> Result<Body, Failure> {
        let accept = match (self.metadata_only, list) {
            (false, _) => "application/json",
            (true, false) => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            (true, true) => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        };
        let request = http::Request::get(uri)
            .header(http::header::ACCEPT, accept)
            // A compressed stream may hold events back.
            .header(http::header::ACCEPT_ENCODING, "identity")
            .body(Body::empty())
            .map_err(Failure::Request)?;
        let response = client.send(request).await.map_err(|e| Failure::Send(Box::new(e)))?;
        let code = response.status();
        if code.is_success() {
            return Ok(response.into_body());
        }
        let bytes = whole(response.into_body()).await?;
        let status = serde_json::from_slice::<Status>(&bytes).unwrap_or_else(|_| {
            Status::failure(&String::from_utf8_lossy(&bytes), "").with_code(code.as_u16())
        });
        Err(Failure::refused(status.boxed()))
    }

    /// Every object, page by page.
    pub(super) async fn list<K: Resource + serde::de::DeserializeOwned>(
        &self,
        client: &Client,
    ) -> Result<Listed<K>, Failure> {
        let limit = PAGE.to_string();
        let mut listed = Listed { revision: String::new(), good: Vec::new(), broken: Vec::new() };
        let mut token = String::new();
        loop {
            let mut options = vec![("limit", limit.as_str())];
            if !token.is_empty() {
                options.push(("continue", &token));
            }
            let bytes = whole(self.ask(client, self.uri(&options), true).await?).await?;
            let page: Page = serde_json::from_slice(&bytes).map_err(Failure::Parse)?;
            for raw in page.items.unwrap_or_default() {
                match read(raw)? {
                    Ok(object) => listed.good.push(object),
                    Err(broken) => listed.broken.push(broken),
                }
            }
            listed.revision = page.metadata.resource_version;
            match page.metadata.next.filter(|next| !next.is_empty()) {
                Some(next) => token = next,
                None => return Ok(listed),
            }
        }
    }

    /// The revision of every object as the server has it now.
    pub(super) async fn revisions(
        &self,
        client: &Client,
    ) -> Result<BTreeMap<super::ObjectKey, String>, Failure> {
        let bare = Self { metadata_only: true, ..self.clone() };
        let listed = bare.list::<kube::core::PartialObjectMeta<kube::core::DynamicObject>>(client);
        let entry = |object: kube::core::PartialObjectMeta<kube::core::DynamicObject>| {
            let revision = object.metadata.resource_version.clone().unwrap_or_default();
            (super::ObjectKey::of(&object.metadata), revision)
        };
        Ok(listed.await?.good.into_iter().map(entry).collect())
    }

    /// Everything that happened since a revision; with `None`, everything that is there first.
    pub(super) async fn watch(
        &self,
        client: &Client,
        since: Option<&str>,
        lifetime: std::time::Duration,
    ) -> Result<Lines, Failure> {
        let seconds = lifetime.as_secs().max(1).to_string();
        let mut options = vec![
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", seconds.as_str()),
        ];
        match since {
            Some(revision) => options.push(("resourceVersion", revision)),
            None => {
                options.push(("sendInitialEvents", "true"));
                options.push(("resourceVersionMatch", "NotOlderThan"));
            }
        }
        match self.ask(client, self.uri(&options), false).await {
            Ok(body) => Ok(Lines { body, buffer: BytesMut::new(), searched: 0 }),
            Err(Failure::Refused(status))
                if since.is_none() && matches!(status.code, 400 | 422) =>
            {
                Err(Failure::NoStreaming)
            }
            Err(failure) => Err(failure),
        }
    }
}

/// A watch's answer, line by line.
pub(super) struct Lines {
    body: Body,
    buffer: BytesMut,
    /// So much of the buffer holds no end of a line.
    searched: usize,
}

impl Lines {
    /// The next event and the revision that it brings; `None` at the end.
    pub(super) async fn next<K: Resource + serde::de::DeserializeOwned>(
        &mut self,
    ) -> Result<Option<(Event<K>, String)>, Failure> {
        loop {
            let Some(line) = self.line().await? else { return Ok(None) };
            if !line.iter().all(u8::is_ascii_whitespace) {
                return parse(&line).map(Some);
            }
        }
    }

    async fn line(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let fresh = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(at) = fresh.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.searched + at).freeze();
                self.buffer.advance(1);
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > MAX_LINE {
                return Err(Failure::TooLong);
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(Failure::Read(Box::new(error))),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}

fn parse<K: Resource + serde::de::DeserializeOwned>(
    line: &[u8],
) -> Result<(Event<K>, String), Failure> {
    let line: Line = serde_json::from_slice(line).map_err(Failure::Parse)?;
    let head = || serde_json::from_str::<Head>(line.object.get()).map_err(Failure::Parse);
    let revision = |meta: &ObjectMeta| meta.resource_version.clone().unwrap_or_default();
    match line.kind {
        "ADDED" | "MODIFIED" => Ok(match read::<K>(line.object)? {
            Ok(object) => {
                let revision = revision(object.meta());
                (Event::Put(object), revision)
            }
            Err((meta, error)) => {
                let revision = revision(&meta);
                (Event::Broken(meta, error), revision)
            }
        }),
        "DELETED" => {
            let meta = head()?.metadata;
            let revision = revision(&meta);
            Ok((Event::Deleted(meta), revision))
        }
        "BOOKMARK" => {
            let meta = head()?.metadata;
            let mark = "k8s.io/initial-events-end";
            let ends_initial = meta
                .annotations
                .as_ref()
                .and_then(|annotations| annotations.get(mark))
                .is_some_and(|value| value == "true");
            let revision = revision(&meta);
            Ok((Event::Bookmark { ends_initial }, revision))
        }
        _ => {
            let status: Status = serde_json::from_str(line.object.get()).map_err(Failure::Parse)?;
            Err(Failure::refused(status.boxed()))
        }
    }
}

async fn whole(body: Body) -> Result<Bytes, Failure> {
    let collected = body.collect().await.map_err(|e| Failure::Read(Box::new(e)))?;
    Ok(collected.to_bytes())
}
