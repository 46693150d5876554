//! What the server counts, in the text form that Prometheus reads.
//!
//! Few and cheap: requests by verb, resource and code, watches that are open, and the store's
//! revision. Latencies are left to the traces.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use http::{Method, StatusCode};

use crate::request::Verb;
use crate::resource::{GroupResource, Resource};
use crate::wire::Answer;

/// What a request was for. Only names that the server itself knows: a client cannot make more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Label {
    verb: &'static str,
    resource: Option<GroupResource>,
}

impl Label {
    /// A request that has not found a resource.
    pub(crate) fn of(method: &Method) -> Self {
        let verb = match *method {
            Method::GET => "GET",
            Method::HEAD => "HEAD",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::PATCH => "PATCH",
            Method::DELETE => "DELETE",
            _ => "other",
        };
        Self { verb, resource: None }
    }

    pub(crate) fn resource(verb: Verb, resource: &Resource) -> Self {
        Self { verb: verb.as_str(), resource: Some(resource.group_resource()) }
    }
}

/// The counters of one server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<(Label, u16), u64>>,
    watches: Arc<AtomicI64>,
}

/// Counts a watch for as long as it lives.
struct OpenWatch(Arc<AtomicI64>);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// Counts an answered request.
    pub(crate) fn count(&self, label: Label, code: StatusCode) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((label, code.as_u16())).or_default() += 1;
    }

    /// Counts the answer as long as it goes on, if it is a watch.
    pub(crate) fn follow(&self, answer: Answer) -> Answer {
        let Answer::Watch(stream) = answer else { return answer };
        self.watches.fetch_add(1, Ordering::Relaxed);
        let open = OpenWatch(Arc::clone(&self.watches));
        Answer::Watch(
            stream
                .map(move |frame| {
                    let _ = &open;
                    frame
                })
                .boxed(),
        )
    }

    /// The text that Prometheus reads.
    pub(crate) fn text(&self, revision: u64) -> String {
        let mut out = String::new();
        family(&mut out, "apiserver_request_total", "counter", "Answered requests.");
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        for ((label, code), count) in &*requests {
            let resource = label.resource.as_ref();
            let (group, name) =
                resource.map_or(("", ""), |r| (r.group.as_str(), r.resource.as_str()));
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "apiserver_request_total{{verb=\"{}\",group=\"{group}\",resource=\"{name}\",code=\"{code}\"}} {count}",
                label.verb
            );
        }
        for (name, help, value) in [
            ("apiserver_open_watches", "Watches in flight.", self.watches.load(Ordering::Relaxed)),
            ("apiserver_store_revision", "The store's revision.", revision.cast_signed()),
        ] {
            family(&mut out, name, "gauge", help);
            let _ = writeln!(out, "{name} {value}");
        }
        out
    }
}

fn family(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_and_open_watches_are_counted() {
        let metrics = Metrics::default();
        for _ in 0..2 {
            metrics.count(Label::of(&Method::GET), StatusCode::OK);
        }
        let watch = metrics.follow(Answer::Watch(futures::stream::pending().boxed()));
        let text = metrics.text(7);
        assert!(
            text.contains("{verb=\"GET\",group=\"\",resource=\"\",code=\"200\"} 2\n"),
            "{text}"
        );
        assert!(text.contains("apiserver_open_watches 1\n"), "{text}");
        assert!(text.contains("apiserver_store_revision 7\n"), "{text}");
        drop(watch);
        assert!(metrics.text(7).contains("apiserver_open_watches 0\n"));
    }
}
