//! Sabotage at the boundary of the shipped controllers: what would come about if a guarantee that they
//! stand on, or give, did not hold. Each must be found by the judges; a judge that finds nothing
//! here proves nothing. None is ever active but where a test or `--bugs` names it.

use bytes::Bytes;
use http::{Method, Request, Uri};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A guarantee that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sabotage {
    /// Events are answered and not kept.
    NoEvents,
    /// What the server tells its audit log is lost.
    NoAudit,
    /// What the machine controller writes down is answered and not kept.
    NoStatus,
    /// Grants are answered and not kept.
    NoGrants,
    /// Whoever reads the ledger reads no limits.
    NoLimits,
    /// A write replaces whatever is there by then.
    NoRevisions,
    /// A BMC is told everything twice.
    TellTwice,
    /// Watches leave out every third change.
    LoseWatchEvents,
    /// The node controller's writes of incidents never end.
    Hang,
    /// Somebody takes back whatever cordon there is, in the node controller's name.
    Uncordon,
    /// Somebody resets machines and writes nothing down.
    Reset,
}

impl Sabotage {
    /// Every sabotage with the judgement that must find it.
    pub const ALL: [(Self, &'static str); 11] = [
        (Self::NoEvents, "no effect without Event"),
        (Self::NoAudit, "no effect without audit line"),
        (Self::NoStatus, "no effect without object"),
        (Self::NoGrants, "no work without a grant"),
        (Self::NoLimits, "budgets are never exceeded"),
        (Self::NoRevisions, "one plan at a time decides"),
        (Self::TellTwice, "no duplicate reboot"),
        (Self::LoseWatchEvents, "every machine and incident ends"),
        (Self::Hang, "no stranded fault"),
        (Self::Uncordon, "a person's cordon is never undone"),
        (Self::Reset, "no unwanted reboot"),
    ];
}

/// Carries one sabotage out, or none. Cheap to clone.
#[derive(Clone)]
pub(super) struct Saboteur {
    does: Option<Sabotage>,
    events: Arc<AtomicU64>,
}

impl Saboteur {
    pub(super) fn new(does: Option<Sabotage>) -> Self {
        Self { does, events: Arc::default() }
    }

    pub(super) fn does(&self, what: Sabotage) -> bool {
        self.does == Some(what)
    }

    /// Whether a BMC is told twice.
    pub(super) fn doubles(&self) -> bool {
        self.does(Sabotage::TellTwice)
    }

    /// What a request becomes.
    pub(super) async fn sent(&self, user: &str, request: Request<Bytes>) -> Request<Bytes> {
        let Some(does) = self.does else { return request };
        let path = request.uri().path();
        let reads = request.method() == Method::GET;
        let of = |controller: &str, part: &str| user.ends_with(controller) && path.contains(part);
        match does {
            Sabotage::NoEvents if !reads && path.contains("/events") => dry(request),
            Sabotage::NoStatus if !reads && of(":machine", "/machines/") => dry(request),
            Sabotage::NoGrants if !reads && path.contains("/ledgers/") => dry(request),
            Sabotage::NoRevisions if *request.method() == Method::PATCH => {
                without_revision(request)
            }
            Sabotage::Hang if !reads && of(":node", "/incidents/") => std::future::pending().await,
            _ => request,
        }
    }

    /// What an answer to a read becomes.
    pub(super) fn read(&self, path: &str, body: Bytes) -> Bytes {
        if self.does(Sabotage::NoLimits) && path.contains("/ledgers") {
            return unlimited(&body);
        }
        body
    }

    /// What a watch says; nothing if it leaves it out.
    pub(super) fn told(&self, path: &str, event: Bytes) -> Option<Bytes> {
        if self.does(Sabotage::LoseWatchEvents) {
            let count = self.events.fetch_add(1, Ordering::Relaxed);
            // The list at the beginning arrives.
            let changes = event.windows(8).any(|part| part == b"MODIFIED");
            return (!changes || !count.is_multiple_of(3)).then_some(event);
        }
        Some(self.read(path, event))
    }
}

/// The request is answered as if it were done.
fn dry(mut request: Request<Bytes>) -> Request<Bytes> {
    let mut parts = request.uri().clone().into_parts();
    let old = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    let join = if old.contains('?') { '&' } else { '?' };
    parts.path_and_query = format!("{old}{join}dryRun=All").parse().ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    request
}

fn without_revision(request: Request<Bytes>) -> Request<Bytes> {
    request.map(|body| {
        let Ok(mut object) = serde_json::from_slice::<Value>(&body) else { return body };
        if let Value::Array(steps) = &mut object {
            steps.retain(|step| step["path"] != "/metadata/resourceVersion");
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        object.to_string().into()
    })
}

/// A ledger, or lines of a watch of it, without limits.
fn unlimited(body: &Bytes) -> Bytes {
    let text = String::from_utf8_lossy(body);
    let mut out = String::new();
    for line in text.lines() {
        let Ok(mut said) = serde_json::from_str::<Value>(line) else { return body.clone() };
        for pointer in ["/spec", "/object/spec"] {
            if let Some(spec) = said.pointer_mut(pointer) {
                *spec = json!({});
            }
        }
        out.push_str(&said.to_string());
        out.push('\n');
    }
    out.into()
}
