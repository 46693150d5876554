//! `audit.k8s.io/v1` Policy: the first rule that matches a request says how much of it is told.

use serde::Deserialize;

use crate::auth::User;

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Level {
    /// Nothing.
    None,
    /// Who, what, when, and what came of it.
    Metadata,
    /// That, and what was sent.
    Request,
    /// That, and what was answered.
    RequestResponse,
}

impl Level {
    /// The level's name in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// A point in the life of a request at which an event is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "the names of the Kubernetes type")]
pub enum Stage {
    RequestReceived,
    ResponseStarted,
    ResponseComplete,
    Panic,
}

impl Stage {
    /// The stage's name in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

/// A policy that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadPolicy {
    /// The text is no policy.
    #[error("read the audit policy")]
    Parse(#[source] serde_saphyr::Error),
    /// It is of another kind.
    #[error("the file holds {kind} of {api_version}; a Policy of audit.k8s.io/v1 is wanted")]
    Kind {
        /// What it says it is.
        kind: String,
        /// Of which version.
        api_version: String,
    },
    /// It has no rules, which would audit nothing.
    #[error("the audit policy has no rules; one with `level: Metadata` tells of every request")]
    NoRules,
    /// A rule contradicts itself.
    #[error("rules[{rule}]: {problem}")]
    Rule {
        /// Which, counted from zero.
        rule: usize,
        /// What is wrong.
        problem: &'static str,
    },
}

/// What is told of which requests.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    rules: Vec<Rule>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    #[serde(default)]
    omit_managed_fields: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    level: Level,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    user_groups: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    resources: Vec<GroupResources>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    omit_managed_fields: Option<bool>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GroupResources {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

/// A request, as far as a policy looks at it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matched<'a> {
    /// Nobody where the request was not let in.
    pub(crate) user: Option<&'a User>,
    pub(crate) verb: &'a str,
    pub(crate) target: Aim<'a>,
}

/// What a request is aimed at.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Aim<'a> {
    Resource { group: &'a str, resource: &'a str, part: &'a str, namespace: &'a str, name: &'a str },
    Path(&'a str),
}

/// What is told of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ruling {
    pub(crate) level: Level,
    pub(crate) omit: Vec<Stage>,
    pub(crate) omit_managed_fields: bool,
}

/// What is told where nobody says otherwise: who reads, and what is written; of what may hold
/// secrets never more than that it was touched.
const DEFAULT: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: Metadata
  resources:
  - {group: "", resources: [secrets, configmaps, serviceaccounts/token]}
  - {group: authentication.k8s.io, resources: [tokenreviews]}
- {level: Request, verbs: [create, update, patch, delete, deletecollection]}
- {level: Metadata}
"#;

impl Policy {
    /// Reads a policy in YAML or JSON.
    pub fn parse(text: &str) -> Result<Self, ReadPolicy> {
        let policy: Self = serde_saphyr::from_str(text).map_err(ReadPolicy::Parse)?;
        if policy.api_version != "audit.k8s.io/v1" || policy.kind != "Policy" {
            let Self { api_version, kind, .. } = policy;
            return Err(ReadPolicy::Kind { kind, api_version });
        }
        if policy.rules.is_empty() {
            return Err(ReadPolicy::NoRules);
        }
        for (rule, each) in policy.rules.iter().enumerate() {
            if let Some(problem) = each.problem() {
                return Err(ReadPolicy::Rule { rule, problem });
            }
        }
        Ok(policy)
    }

    /// The policy for who names none.
    pub fn standard() -> Result<Self, ReadPolicy> {
        Self::parse(DEFAULT)
    }

    pub(crate) fn judge(&self, request: &Matched<'_>) -> Ruling {
        let Some(rule) = self.rules.iter().find(|rule| rule.matches(request)) else {
            let omit = self.omit_stages.clone();
            let omit_managed_fields = self.omit_managed_fields;
            return Ruling { level: Level::None, omit, omit_managed_fields };
        };
        Ruling {
            level: rule.level,
            omit: self.omit_stages.iter().chain(&rule.omit_stages).copied().collect(),
            omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
        }
    }
}

impl Rule {
    fn problem(&self) -> Option<&'static str> {
        let paths = &self.non_resource_urls;
        let of_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        if of_resources && !paths.is_empty() {
            return Some("a rule is about resources or about nonResourceURLs, not both");
        }
        if paths.iter().any(|path| path != "*" && !path.starts_with('/')) {
            return Some("a nonResourceURL begins with / or is *");
        }
        if paths.iter().any(|path| path.trim_end_matches('*').contains('*')) {
            return Some("a nonResourceURL has * only at its end");
        }
        let nameless = |r: &GroupResources| !r.resource_names.is_empty() && r.resources.is_empty();
        self.resources.iter().any(nameless).then_some("resourceNames need resources")
    }

    fn matches(&self, request: &Matched<'_>) -> bool {
        let among = |list: &[String], wanted: &str| list.iter().any(|entry| entry == wanted);
        let by_name = |user: &User| among(&self.users, &user.name);
        let by_group = |user: &User| user.groups.iter().any(|g| among(&self.user_groups, g));
        if !self.users.is_empty() && !request.user.is_some_and(by_name)
            || !self.user_groups.is_empty() && !request.user.is_some_and(by_group)
            || !self.verbs.is_empty() && !among(&self.verbs, request.verb)
        {
            return false;
        }
        let of_resources = !(self.namespaces.is_empty() && self.resources.is_empty());
        match request.target {
            Aim::Resource { namespace, .. } if of_resources => {
                (self.namespaces.is_empty() || among(&self.namespaces, namespace))
                    && (self.resources.is_empty()
                        || self.resources.iter().any(|r| r.matches(&request.target)))
            }
            Aim::Path(_) if of_resources => false,
            _ if self.non_resource_urls.is_empty() => true,
            Aim::Resource { .. } => false,
            Aim::Path(path) => self.non_resource_urls.iter().any(|spec| {
                spec == path || spec.ends_with('*') && path.starts_with(spec.trim_end_matches('*'))
            }),
        }
    }
}

impl GroupResources {
    fn matches(&self, target: &Aim<'_>) -> bool {
        let Aim::Resource { group, resource, part, name, .. } = *target else { return false };
        if self.group != group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        if !self.resource_names.is_empty() && !self.resource_names.iter().any(|n| n == name) {
            return false;
        }
        let whole =
            if part.is_empty() { resource.to_owned() } else { format!("{resource}/{part}") };
        self.resources.iter().any(|wanted| {
            *wanted == whole
                || wanted == "*"
                || !part.is_empty() && wanted.strip_prefix("*/") == Some(part)
                || wanted.strip_suffix("/*") == Some(resource)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource<'a>(resource: &'a str, part: &'a str, namespace: &'a str) -> Aim<'a> {
        Aim::Resource { group: "", resource, part, namespace, name: "x" }
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let policy = Policy::parse(
            "{apiVersion: audit.k8s.io/v1, kind: Policy, omitStages: [RequestReceived], rules: [\
             {level: None, users: [bot]}, \
             {level: Metadata, resources: [{group: '', resources: [secrets, 'pods/*']}]}, \
             {level: Request, namespaces: [a], omitStages: [ResponseStarted], omitManagedFields: true}, \
             {level: RequestResponse, nonResourceURLs: ['/healthz*']}, \
             {level: Request, userGroups: [devs], verbs: [get]}]}",
        )
        .unwrap();
        let user = |name: &str, group: &str| User {
            name: name.into(),
            groups: vec![group.into()],
            ..User::default()
        };
        let (bot, dev, zoe) = (user("bot", ""), user("eve", "devs"), user("zoe", ""));
        let check = |user: &User, verb: &str, target: Aim<'_>, want: Level| {
            let got = policy.judge(&Matched { user: Some(user), verb, target });
            assert_eq!(got.level, want, "{verb} {target:?}");
        };
        check(&bot, "get", resource("secrets", "", "a"), Level::None);
        check(&zoe, "get", resource("secrets", "", "a"), Level::Metadata);
        check(&zoe, "get", resource("pods", "log", "b"), Level::Metadata);
        check(&zoe, "get", resource("pods", "", "b"), Level::Metadata);
        check(&zoe, "get", resource("maps", "", "a"), Level::Request);
        check(&zoe, "get", resource("maps", "", "b"), Level::None);
        check(&dev, "get", resource("maps", "", "b"), Level::Request);
        check(&dev, "list", resource("maps", "", "b"), Level::None);
        check(&zoe, "get", Aim::Path("/healthz/x"), Level::RequestResponse);
        let matched = Matched { user: None, verb: "get", target: resource("maps", "", "a") };
        let ruling = policy.judge(&matched);
        assert_eq!(ruling.omit, [Stage::RequestReceived, Stage::ResponseStarted]);
        assert!(ruling.omit_managed_fields);
    }

    #[test]
    fn secrets_are_told_of_and_never_told() {
        let policy = Policy::standard().unwrap();
        for verb in ["get", "create", "patch"] {
            for (name, part) in [("secrets", ""), ("serviceaccounts", "token")] {
                let target = resource(name, part, "a");
                let level = policy.judge(&Matched { user: None, verb, target }).level;
                assert_eq!(level, Level::Metadata, "{verb} {name}");
            }
        }
    }

    #[test]
    fn what_is_no_policy_is_refused_with_the_reason() {
        let check = |text: &str, want: &str| {
            let error = kit::error::chain(&Policy::parse(text).unwrap_err()).to_string();
            assert!(error.contains(want), "{text}: {error}");
        };
        check("{}", "a Policy of audit.k8s.io/v1 is wanted");
        check("{apiVersion: audit.k8s.io/v1, kind: Policy}", "has no rules");
        let rule =
            |rule: &str| format!("{{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{rule}]}}");
        check(&rule("{level: Loud}"), "Loud");
        check(&rule("{level: None, oops: 1}"), "oops");
        check(&rule("{level: None, namespaces: [a], nonResourceURLs: [/x]}"), "not both");
        check(&rule("{level: None, nonResourceURLs: ['/a*b']}"), "only at its end");
    }
}
