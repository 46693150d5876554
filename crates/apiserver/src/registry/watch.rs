//! Watch: what happened since a revision, in order, each change once.
//!
//! A watcher reads the store's shared history at its own pace. It holds no queue, so a slow client
//! costs nothing; one that falls behind compaction is told so by an ERROR event and lists again.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::StreamExt;
use futures::stream;
use serde_json::json;
use store::{Event, Revision, Watch, WatchBatch};
use tokio::time::{Instant, Sleep};

use std::pin::Pin;
use std::sync::Arc;

use super::read::{Selection, Selector};
use super::{Call, by_node, keys};
use crate::request::{ListOptions, Verb, VersionMatch};
use crate::resource::Resource;
use crate::sabotage::Sabotage;
use crate::server::WatchLimits;
use crate::status::ApiError;
use crate::stored::Stored;
use crate::wire::{Answer, Presenter};

/// The annotation on the bookmark that ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// No watch lasts longer, whatever the client names: a day.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Events are sent in frames of about this many bytes.
const FRAME: usize = 64 * 1024;

impl Call<'_> {
    pub(super) fn watch(&mut self) -> Result<Answer, ApiError> {
        let options = ListOptions::parse(&self.query, true)?;
        let selection = self.selection(&options)?;
        let store = self.server.store();

        let initial = match options.send_initial_events {
            Some(wanted) => wanted,
            None => matches!(options.version, VersionMatch::Newest | VersionMatch::Any),
        };
        let mut first = BytesMut::new();
        let mut presenter = self.presenter(Verb::Watch)?;
        let from: Revision = if initial {
            // A list and a watch that follows it without a gap.
            let everything = ListOptions {
                limit: 0,
                continue_token: None,
                version: match options.version {
                    VersionMatch::NotOlderThan(revision) => VersionMatch::NotOlderThan(revision),
                    _ => VersionMatch::Newest,
                },
                ..options.clone()
            };
            let list = match self.collect(&everything, &selection) {
                Ok(list) => list,
                Err(error) => return Ok(over(&error)),
            };
            for stored in &list.items {
                write_event(&mut first, "ADDED", |out| presenter.write(stored, out))?;
                presenter.columns_are_known();
            }
            if options.send_initial_events == Some(true)
                && options.bookmarks
                && !Sabotage::EndlessBeginning.is_planted()
            {
                write_bookmark(&mut first, &presenter, list.revision, true)?;
                presenter.columns_are_known();
            }
            Revision(list.revision)
        } else {
            match options.version {
                VersionMatch::NotOlderThan(revision) => Revision(revision),
                _ => store.revision(),
            }
        };

        let namespace = self.namespace.as_deref();
        let watch = match by_node::range(&self.resource, namespace, &selection) {
            Some(few) => store.watch_aliased(few, Some(from.next())),
            None => store.watch(keys::range(&self.resource, namespace), Some(from.next())),
        };
        let watch = match watch {
            Ok(watch) => watch,
            Err(error) => return Ok(over(&too_old(&error))),
        };
        let limits = self.server.watch_limits();
        let lifetime = options.timeout_seconds.map_or(limits.lifetime, Duration::from_secs);
        let watcher = Watcher {
            watch,
            resource: Arc::clone(&self.resource),
            version: self.version,
            selection,
            presenter,
            bookmarks: options.bookmarks,
            sent: from,
            told: Instant::now(),
            end: Box::pin(tokio::time::sleep(lifetime.min(LONGEST))),
            due: limits.bookmark_every.filter(|_| options.bookmarks).map(Due::after),
            limits,
        };
        let first = (!first.is_empty()).then(|| first.freeze());
        let rest = stream::unfold(Some(watcher), |watcher| async move {
            let mut watcher = watcher?;
            let (frame, go_on) = watcher.next().await?;
            Some((frame, go_on.then_some(watcher)))
        });
        Ok(Answer::Watch(stream::iter(first).chain(rest).boxed()))
    }
}

/// One client's watch.
struct Watcher {
    watch: Watch,
    resource: Arc<Resource>,
    version: usize,
    selection: Selection,
    presenter: Presenter,
    bookmarks: bool,
    /// The last revision that the client knows of.
    sent: Revision,
    /// When it was told something last.
    told: Instant,
    /// When the watch ends.
    end: Pin<Box<Sleep>>,
    /// When a bookmark is due, if the client wants any.
    due: Option<Due>,
    limits: WatchLimits,
}

/// The end of a silence.
struct Due {
    every: Duration,
    at: Pin<Box<Sleep>>,
}

impl Due {
    fn after(every: Duration) -> Self {
        Self { every, at: Box::pin(tokio::time::sleep(every)) }
    }

    /// Resolves when nothing was told for so long. A timer is set once for a silence, and not for each
    /// change.
    async fn since(&mut self, told: Instant) {
        loop {
            self.at.as_mut().await;
            let (at, due) = (self.at.deadline(), told + self.every);
            let silent = due <= at;
            self.at.as_mut().reset(if silent { at + self.every } else { due });
            if silent {
                return;
            }
        }
    }
}

impl Watcher {
    /// The next frame, and whether another may follow; `None` when the watch is over.
    async fn next(&mut self) -> Option<(Bytes, bool)> {
        loop {
            let Self { watch, end, due, limits, told, .. } = self;
            let silence = async {
                match due {
                    Some(due) => due.since(*told).await,
                    None => std::future::pending().await,
                }
            };
            let batch = tokio::select! {
                biased;
                () = limits.stopping.wait() => return self.last(),
                batch = watch.next() => batch,
                () = end => return self.last(),
                () = silence => {
                    let frame = self.bookmark();
                    if frame.is_some() {
                        return frame.map(|frame| (frame, true));
                    }
                    continue;
                }
            };
            let mut out = BytesMut::new();
            let outcome = match batch {
                Ok(batch) => self.write(&batch, &mut out),
                Err(error) => Err(too_old(&error)),
            };
            match outcome {
                Ok(()) if out.is_empty() => {}
                Ok(()) => {
                    self.told = Instant::now();
                    return Some((out.freeze(), true));
                }
                Err(error) => {
                    write_error(&mut out, &error);
                    return Some((out.freeze(), false));
                }
            }
        }
    }

    /// A watch that ends in good order says first how far it came.
    fn last(&mut self) -> Option<(Bytes, bool)> {
        self.bookmark().map(|frame| (frame, false))
    }

    fn bookmark(&mut self) -> Option<Bytes> {
        let progress = self.watch.progress();
        if !self.bookmarks || progress <= self.sent {
            return None;
        }
        self.sent = progress;
        let mut out = BytesMut::new();
        write_bookmark(&mut out, &self.presenter, progress.0, false).ok()?;
        self.presenter.columns_are_known();
        Some(out.freeze())
    }

    fn write(&mut self, batch: &WatchBatch, out: &mut BytesMut) -> Result<(), ApiError> {
        out.reserve(FRAME.min(batch.events.len() * 1024));
        for event in &batch.events {
            let Some((kind, stored)) = self.seen(event)? else { continue };
            write_event(out, kind, |out| self.presenter.write(&stored, out))?;
            self.presenter.columns_are_known();
            self.sent = event.revision();
        }
        Ok(())
    }

    /// The event as this client's selectors show it: an object that begins to match is ADDED, one
    /// that no longer does is DELETED, as it last was.
    fn seen(&self, event: &Event) -> Result<Option<(&'static str, Stored)>, ApiError> {
        let selector = Selector::new(&self.resource, self.version, &self.selection);
        let key = event.key();
        let load = |entry: &store::Entry| Stored::from_entry(entry).map_err(ApiError::internal);
        let (now, before) = match event {
            Event::Put { entry, previous } => {
                (Some(load(entry)?), previous.as_deref().map(load).transpose()?)
            }
            Event::Delete { previous, .. } => (None, Some(load(previous)?)),
        };
        let selects = |stored: &Option<Stored>| match stored {
            Some(stored) => selector.selects(key, stored),
            None => Ok(false),
        };
        let (is, was) = (selects(&now)?, selects(&before)?);
        let was = was && !Sabotage::ForgetfulWatch.is_planted();
        Ok(match (now, before) {
            (Some(now), _) if is => Some((if was { "MODIFIED" } else { "ADDED" }, now)),
            (_, Some(before)) if was => Some(("DELETED", before.at(event.revision()))),
            _ => None,
        })
    }
}

/// A watch that ends with an error before it began.
fn over(error: &ApiError) -> Answer {
    let mut out = BytesMut::new();
    write_error(&mut out, error);
    Answer::Watch(stream::once(async move { out.freeze() }).boxed())
}

fn write_event(
    out: &mut BytesMut,
    kind: &str,
    object: impl FnOnce(&mut BytesMut) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    out.put_slice(b"{\"type\":\"");
    out.put_slice(kind.as_bytes());
    out.put_slice(b"\",\"object\":");
    object(out)?;
    out.put_slice(b"}\n");
    Ok(())
}

fn write_bookmark(
    out: &mut BytesMut,
    presenter: &Presenter,
    revision: u64,
    ends_initial_events: bool,
) -> Result<(), ApiError> {
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if ends_initial_events {
        metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
    }
    write_event(out, "BOOKMARK", |out| presenter.write_bookmark(metadata, out))
}

fn write_error(out: &mut BytesMut, error: &ApiError) {
    let event = json!({"type": "ERROR", "object": error.to_value()});
    out.put_slice(event.to_string().as_bytes());
    out.put_slice(b"\n");
}

fn too_old(error: &store::Error) -> ApiError {
    match error {
        store::Error::Compacted { asked, compacted } => {
            let asked = asked.previous();
            ApiError::expired(format!("too old resource version: {asked} ({compacted})"))
        }
        error => ApiError::internal(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silence_is_counted_from_what_was_told_last() {
        let begin = Instant::now();
        let minutes = |n: u64| Duration::from_secs(60 * n);
        let mut due = Due::after(minutes(2));
        for after in [3, 5, 7] {
            due.since(begin + minutes(1)).await;
            assert_eq!(begin.elapsed(), minutes(after));
        }
    }
}
