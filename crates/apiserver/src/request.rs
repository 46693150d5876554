//! What a request asks for: path, verb, resource and options, parsed at the door.
//!
//! Parsing never looks anything up: whether the resource exists is the table's business, whether
//! the caller may have it the authorizer's. Options are typed per verb; unknown ones are ignored,
//! as every kube-apiserver does.

use http::Method;
use percent_encoding::percent_decode_str;

use crate::resource::GroupKind;
use crate::schema::field::{ErrorKind, FieldError, FieldPath};
use crate::schema::metadata::validate_field_manager;
use crate::status::ApiError;

/// Kubernetes' verbs for resources; other requests carry the HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// The name that RBAC, audit and error messages use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// A request on a resource: `/apis/GROUP/VERSION[/namespaces/NS]/PLURAL[/NAME[/SUBRESOURCE]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ResourcePath {
    pub group: String,
    pub version: String,
    pub namespace: Option<String>,
    pub resource: String,
    pub name: Option<String>,
    pub subresource: Option<String>,
}

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// A resource or one of its objects.
    Resource(ResourcePath),
    /// Anything else: discovery, health, version. The segments, percent-decoded.
    Other(Vec<String>),
}

impl Route {
    /// Reads a URL path.
    pub fn parse(path: &str) -> Self {
        let segments: Vec<String> = path
            .split('/')
            .filter(|s| !s.is_empty())
            .map(|s| percent_decode_str(s).decode_utf8_lossy().into_owned())
            .collect();
        let resource = match segments.first().map(String::as_str) {
            Some("api") if segments.len() > 2 => Self::resource("", &segments[1], &segments[2..]),
            Some("apis") if segments.len() > 3 => {
                Self::resource(&segments[1], &segments[2], &segments[3..])
            }
            _ => None,
        };
        resource.map_or(Self::Other(segments), Self::Resource)
    }

    fn resource(group: &str, version: &str, rest: &[String]) -> Option<ResourcePath> {
        let (namespace, rest) = match rest {
            // A namespace is itself an object, and has subresources of its own.
            [word, ns, sub] if word == "namespaces" && (sub == "status" || sub == "finalize") => {
                let _ = ns;
                (None, rest)
            }
            [word, ns, rest @ ..] if word == "namespaces" && !rest.is_empty() => {
                (Some(ns.clone()), rest)
            }
            _ => (None, rest),
        };
        let mut rest = rest.iter();
        let path = ResourcePath {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace,
            resource: rest.next()?.clone(),
            name: rest.next().cloned(),
            subresource: rest.next().cloned(),
        };
        rest.next().is_none().then_some(path)
    }
}

impl ResourcePath {
    /// The verb of a method on this path; `None` for methods that mean nothing here.
    pub fn verb(&self, method: &Method, query: &Query) -> Option<Verb> {
        let named = self.name.is_some();
        Some(match *method {
            Method::GET | Method::HEAD if named => Verb::Get,
            Method::GET | Method::HEAD if query.flag("watch") => Verb::Watch,
            Method::GET | Method::HEAD => Verb::List,
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE if named => Verb::Delete,
            Method::DELETE => Verb::DeleteCollection,
            _ => return None,
        })
    }
}

/// The query parameters, in the order sent.
#[derive(Debug, Clone, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the part of the URL behind `?`.
    pub fn parse(query: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        Self(pairs.into_owned().collect())
    }

    /// The first value of a parameter; an empty one counts as absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next().filter(|value| !value.is_empty())
    }

    /// Every value of a parameter.
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let name = name.to_owned();
        self.0.iter().filter(move |(n, _)| *n == name).map(|(_, value)| value.as_str())
    }

    /// A boolean parameter, as Kubernetes reads it: there, and neither `0` nor `false`.
    pub fn flag(&self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or(false)
    }

    /// A boolean parameter that may be absent.
    pub fn optional_flag(&self, name: &str) -> Option<bool> {
        let value = self.all(name).next()?;
        Some(value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// A number that may be absent.
    pub fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        self.get(name)
            .map(|text| {
                text.parse().map_err(|_| {
                    ApiError::bad_request(format!(
                        "strconv.ParseInt: parsing {text:?}: invalid syntax"
                    ))
                })
            })
            .transpose()
    }
}

/// How `resourceVersion` bounds a list or a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionMatch {
    /// No version given: the newest.
    Newest,
    /// `0`: whatever is at hand.
    Any,
    /// At least this version.
    NotOlderThan(u64),
    /// This version exactly.
    Exact(u64),
}

/// Options of list and watch.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names are ListOptions' own")]
pub struct ListOptions {
    pub label_selector: String,
    pub field_selector: String,
    pub limit: usize,
    pub continue_token: Option<String>,
    pub version: VersionMatch,
    pub timeout_seconds: Option<u64>,
    pub bookmarks: bool,
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Reads and checks the options of a list, or of a watch.
    pub fn parse(query: &Query, watch: bool) -> Result<Self, ApiError> {
        let limit = query.number("limit")?.unwrap_or(0);
        let timeout = query.number("timeoutSeconds")?;
        let continue_token = query.get("continue").map(str::to_owned);
        let version_text = query.get("resourceVersion").unwrap_or_default();
        let matching = query.get("resourceVersionMatch").unwrap_or_default();
        let send_initial_events = query.optional_flag("sendInitialEvents");
        let errors = if watch {
            check_watch(version_text, matching, send_initial_events, query)
        } else {
            check_list(version_text, matching, send_initial_events, continue_token.as_deref())
        };
        if !errors.is_empty() {
            let kind = GroupKind { group: "meta.k8s.io".into(), kind: "ListOptions".into() };
            return Err(ApiError::invalid(&kind, "", &errors));
        }
        let number = || {
            version_text.parse::<u64>().map_err(|_| {
                ApiError::bad_request(format!(
                    "Invalid value: {version_text:?}: strconv.ParseUint: parsing {version_text:?}: invalid syntax"
                ))
            })
        };
        let version = match (version_text, matching) {
            ("", _) => VersionMatch::Newest,
            (_, "Exact") => VersionMatch::Exact(number()?),
            ("0", _) => VersionMatch::Any,
            // With a limit and no explicit match, a version means exactly that one.
            (_, "") if limit > 0 && !watch => VersionMatch::Exact(number()?),
            _ => VersionMatch::NotOlderThan(number()?),
        };
        Ok(Self {
            label_selector: query.get("labelSelector").unwrap_or_default().to_owned(),
            field_selector: query.get("fieldSelector").unwrap_or_default().to_owned(),
            limit: usize::try_from(limit).unwrap_or(0),
            continue_token,
            version,
            timeout_seconds: timeout.and_then(|t| u64::try_from(t).ok()).filter(|t| *t > 0),
            bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events,
        })
    }
}

fn option_error(kind: ErrorKind, field: &str, value: Option<&str>, detail: &str) -> FieldError {
    FieldError::new(kind, FieldPath::root().child(field), value.map(Into::into), detail)
}

fn check_list(
    version: &str,
    matching: &str,
    initial: Option<bool>,
    token: Option<&str>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let field = "resourceVersionMatch";
    if initial.is_some() {
        errors.push(option_error(
            ErrorKind::Forbidden,
            "sendInitialEvents",
            None,
            "sendInitialEvents is forbidden for list",
        ));
    }
    if matching.is_empty() {
        return errors;
    }
    if version.is_empty() {
        errors.push(option_error(
            ErrorKind::Forbidden,
            field,
            None,
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ));
    }
    if token.is_some() {
        errors.push(option_error(
            ErrorKind::Forbidden,
            field,
            None,
            "resourceVersionMatch is forbidden when continue is provided",
        ));
    }
    if matching != "Exact" && matching != "NotOlderThan" {
        errors.push(option_error(
            ErrorKind::NotSupported,
            field,
            Some(matching),
            "supported values: \"Exact\", \"NotOlderThan\"",
        ));
    }
    if matching == "Exact" && version == "0" {
        errors.push(option_error(
            ErrorKind::Forbidden,
            field,
            None,
            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        ));
    }
    errors
}

fn check_watch(
    version: &str,
    matching: &str,
    initial: Option<bool>,
    query: &Query,
) -> Vec<FieldError> {
    let _ = version;
    let mut errors = Vec::new();
    let field = "resourceVersionMatch";
    if query.get("continue").is_some() {
        errors.push(option_error(
            ErrorKind::Forbidden,
            "continue",
            None,
            "continue is forbidden for watch",
        ));
    }
    if initial.is_some() && matching.is_empty() {
        errors.push(option_error(
            ErrorKind::Forbidden,
            field,
            None,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    } else if initial.is_none() && !matching.is_empty() {
        errors.push(option_error(
            ErrorKind::Forbidden,
            field,
            None,
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ));
    }
    if !matching.is_empty() && matching != "NotOlderThan" {
        errors.push(option_error(
            ErrorKind::NotSupported,
            field,
            Some(matching),
            "supported values: \"NotOlderThan\"",
        ));
    }
    if initial == Some(true) && !query.flag("allowWatchBookmarks") {
        // Without bookmarks the client could never tell where the initial events end.
        errors.push(option_error(
            ErrorKind::Forbidden,
            "allowWatchBookmarks",
            None,
            "sendInitialEvents requires setting allowWatchBookmarks",
        ));
    }
    errors
}

/// How unknown and duplicate fields are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValidation {
    /// Dropped silently.
    Ignore,
    /// Dropped with a `Warning` header each.
    Warn,
    /// Refused.
    Strict,
}

/// Options of create, update and patch.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names are the options' own")]
pub struct WriteOptions {
    pub dry_run: bool,
    pub field_manager: Option<String>,
    pub field_validation: FieldValidation,
    pub force: Option<bool>,
}

impl WriteOptions {
    /// Reads and checks the options; `kind` is the name that errors use, as in `CreateOptions`.
    pub fn parse(query: &Query, kind: &str) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        let dry_run = parse_dry_run(query.all("dryRun"), &mut errors);
        let field_manager = query.get("fieldManager").map(str::to_owned);
        if let Some(manager) = &field_manager {
            errors.extend(validate_field_manager(manager, &FieldPath::root().child("fieldManager")));
        }
        let field_validation = match query.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                errors.push(option_error(
                    ErrorKind::NotSupported,
                    "fieldValidation",
                    Some(other),
                    "supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
                ));
                FieldValidation::Strict
            }
        };
        let force = query.optional_flag("force");
        if errors.is_empty() {
            return Ok(Self { dry_run, field_manager, field_validation, force });
        }
        Err(invalid_options(kind, &errors))
    }
}

/// The 422 for bad request options.
pub fn invalid_options(kind: &str, errors: &[FieldError]) -> ApiError {
    let kind = GroupKind { group: "meta.k8s.io".into(), kind: kind.into() };
    ApiError::invalid(&kind, "", errors)
}

/// `dryRun` may be `All` or nothing.
pub fn parse_dry_run<'a>(
    values: impl Iterator<Item = &'a str>,
    errors: &mut Vec<FieldError>,
) -> bool {
    let values: Vec<&str> = values.collect();
    if values.iter().any(|v| *v != "All") {
        errors.push(FieldError::new(
            ErrorKind::NotSupported,
            FieldPath::root().child("dryRun"),
            Some(values.clone().into()),
            "supported values: \"All\"",
        ));
    }
    !values.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, want: &str) {
        let got = match Route::parse(path) {
            Route::Resource(r) => format!(
                "{}|{}|{}|{}|{}|{}",
                r.group,
                r.version,
                r.namespace.unwrap_or_default(),
                r.resource,
                r.name.unwrap_or_default(),
                r.subresource.unwrap_or_default()
            ),
            Route::Other(segments) => segments.join(","),
        };
        assert_eq!(got, want, "{path}");
    }

    #[test]
    fn paths_lead_to_resources() {
        check("/api/v1/namespaces", "|v1||namespaces||");
        check("/api/v1/namespaces/x", "|v1||namespaces|x|");
        check("/api/v1/namespaces/x/status", "|v1||namespaces|x|status");
        check("/api/v1/namespaces/x/pods", "|v1|x|pods||");
        check("/api/v1/namespaces/x/pods/p/log", "|v1|x|pods|p|log");
        check("/apis/apps/v1/deployments", "apps|v1||deployments||");
        check("/apis/rbac/v1/roles/a%3Ab", "rbac|v1||roles|a:b|");
        check("/api/v1", "api,v1");
        check("/apis/apps/v1", "apis,apps,v1");
        check("/healthz", "healthz");
        check("/apis/g/v/r/n/s/too/long", "apis,g,v,r,n,s,too,long");
    }

    #[test]
    fn flags_read_as_kubernetes_reads_them() {
        let query = Query::parse(Some("a=0&b=false&c=1&d&e=FALSE"));
        let flags: Vec<bool> = ["a", "b", "c", "d", "e", "f"].map(|f| query.flag(f)).into();
        assert_eq!(flags, [false, false, true, true, false, false]);
    }

    #[test]
    fn list_versions_are_typed() {
        let parse = |q: &str| ListOptions::parse(&Query::parse(Some(q)), false).map(|o| o.version);
        assert_eq!(parse(""), Ok(VersionMatch::Newest));
        assert_eq!(parse("resourceVersion=0"), Ok(VersionMatch::Any));
        assert_eq!(parse("resourceVersion=5"), Ok(VersionMatch::NotOlderThan(5)));
        assert_eq!(parse("resourceVersion=5&limit=3"), Ok(VersionMatch::Exact(5)));
        assert!(parse("resourceVersionMatch=Exact").is_err());
        assert!(parse("resourceVersion=x").is_err());
    }
}
