//! The configured webhooks, read and compiled by version.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::super::super::Object;
use super::super::super::metadata::{meta, text};
use super::super::criteria::Criteria;
use super::super::policy::Compiled;
use super::client::Trust;
use crate::cel::admission::{Environment, Gives};

/// How long a webhook may take if its configuration does not say.
const TIMEOUT: u64 = 10;

/// Every webhook of each sort, in the order in which they are asked.
#[derive(Debug, Default)]
pub(crate) struct Webhooks {
    pub(super) mutating: Vec<Arc<Configuration>>,
    pub(super) validating: Vec<Arc<Configuration>>,
}

/// The webhooks of one object.
#[derive(Debug)]
pub(super) struct Configuration {
    pub(super) name: String,
    version: String,
    pub(super) hooks: Vec<Hook>,
}

/// A webhook.
#[derive(Debug)]
pub(super) struct Hook {
    pub(super) name: String,
    pub(super) criteria: Criteria,
    pub(super) target: Target,
    /// What the webhook's certificate is held against, or why that cannot be told.
    pub(super) trust: Result<Trust, String>,
    pub(super) timeout: Duration,
    /// Whether a webhook that cannot be asked refuses the request.
    pub(super) fails: bool,
    /// Whether it may be asked about what will not be done.
    pub(super) takes_dry_runs: bool,
    /// Whether it wants to see what others changed after it.
    pub(super) again: bool,
    /// The version of the review that it reads.
    pub(super) review: Option<&'static str>,
    pub(super) environment: Environment,
    pub(super) conditions: Vec<Compiled>,
}

/// Where a webhook is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Url(String),
    Service { namespace: String, name: String, path: String, port: u16 },
}

impl Webhooks {
    pub(in crate::registry::admission) fn is_empty(&self) -> bool {
        self.mutating.is_empty() && self.validating.is_empty()
    }

    /// The index of these configurations; what is known already is not read again.
    pub(crate) fn of(known: &Self, mutating: Vec<Object>, validating: Vec<Object>) -> Self {
        Self {
            mutating: configurations(&known.mutating, mutating),
            validating: configurations(&known.validating, validating),
        }
    }
}

fn configurations(known: &[Arc<Configuration>], objects: Vec<Object>) -> Vec<Arc<Configuration>> {
    let mut all: Vec<Arc<Configuration>> = objects
        .into_iter()
        .map(|object| {
            let name = text(meta(&object), "name").to_owned();
            let version = text(meta(&object), "resourceVersion").to_owned();
            let same = known.iter().find(|one| one.name == name && one.version == version);
            same.cloned().unwrap_or_else(|| {
                let hooks = object.get("webhooks").and_then(Value::as_array);
                let hooks = hooks.into_iter().flatten().map(Hook::of).collect();
                Arc::new(Configuration { name, version, hooks })
            })
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

impl Hook {
    fn of(value: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let client = &value["clientConfig"];
        let service = &client["service"];
        let target = match client["url"].as_str() {
            Some(url) => Target::Url(url.to_owned()),
            None => Target::Service {
                namespace: text(&service["namespace"]),
                name: text(&service["name"]),
                path: text(&service["path"]),
                port: service["port"].as_u64().and_then(|p| u16::try_from(p).ok()).unwrap_or(443),
            },
        };
        let environment = Environment::new(false, false);
        let conditions = value["matchConditions"].as_array().into_iter().flatten();
        let conditions = conditions
            .map(|one| environment.compile(text(&one["expression"]).trim(), Gives::Bool, true))
            .collect();
        let effects = value["sideEffects"].as_str().unwrap_or_default();
        let reviews = value["admissionReviewVersions"].as_array().into_iter().flatten();
        Self {
            name: text(&value["name"]),
            criteria: Criteria::of_webhook(value),
            target,
            trust: Trust::of(client["caBundle"].as_str().unwrap_or_default()),
            timeout: Duration::from_secs(value["timeoutSeconds"].as_u64().unwrap_or(TIMEOUT)),
            fails: value["failurePolicy"] != "Ignore",
            takes_dry_runs: matches!(effects, "None" | "NoneOnDryRun"),
            again: value["reinvocationPolicy"] == "IfNeeded",
            review: reviews
                .filter_map(Value::as_str)
                .find_map(|version| ["v1", "v1beta1"].into_iter().find(|known| *known == version)),
            environment,
            conditions,
        }
    }
}
