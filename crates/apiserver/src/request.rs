//! What a request asks for: path, verb, resource and options, parsed at the door.
//!
//! Parsing never looks anything up: whether the resource exists is the table's business, whether
//! the caller may have it the authorizer's. Options are typed per verb; unknown ones are ignored,
//! as every kube-apiserver does.

use std::num::{IntErrorKind, ParseIntError};

use http::Method;
use percent_encoding::percent_decode_str;

use crate::resource::GroupKind;
use crate::sabotage::Sabotage;
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
    /// The old form of a watch: `/api/VERSION/watch/...`, whatever the method.
    Watch(ResourcePath),
    /// Anything else: discovery, health, version. The segments, percent-decoded.
    Other(Vec<String>),
}

impl Route {
    /// Reads a URL path. It is decoded before it is cut, so that an encoded slash cuts as well.
    pub fn parse(path: &str) -> Self {
        let path = percent_decode_str(path).decode_utf8_lossy();
        let path = path.strip_prefix('/').unwrap_or(&path).trim_end_matches('/');
        let segments: Vec<&str> = if path.is_empty() { vec![] } else { path.split('/').collect() };
        let found = match segments.as_slice() {
            ["api", version, rest @ ..] => Self::resource("", version, rest),
            ["apis", group, version, rest @ ..] => Self::resource(group, version, rest),
            _ => None,
        };
        found.unwrap_or_else(|| Self::Other(segments.into_iter().map(str::to_owned).collect()))
    }

    fn resource(group: &str, version: &str, rest: &[&str]) -> Option<Self> {
        let (watch, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            _ => (false, rest),
        };
        let (namespace, rest) = match rest {
            // A namespace is itself an object, and has subresources of its own.
            ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            _ => (None, rest),
        };
        let (resource, rest) = rest.split_first()?;
        let (name, subresource) = match rest {
            [] => (None, None),
            [name] => (Some((*name).to_owned()), None),
            // What follows is the path on the other side.
            [name, "proxy", ..] => (Some((*name).to_owned()), Some("proxy".to_owned())),
            // No other subresource goes on: such a path leads nowhere.
            [name, rest @ ..] => (Some((*name).to_owned()), Some(rest.join("/"))),
        };
        let path = ResourcePath {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.filter(|n| !n.is_empty()).map(str::to_owned),
            resource: (*resource).to_owned(),
            name,
            subresource,
        };
        Some(if watch { Self::Watch(path) } else { Self::Resource(path) })
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
    /// Reads the part of the URL behind `?`. What is malformed is left out, as upstream does.
    pub fn parse(query: Option<&str>) -> Self {
        let pairs = query.unwrap_or_default().split('&').filter(|pair| is_well_formed(pair));
        Self(pairs.flat_map(|p| form_urlencoded::parse(p.as_bytes()).into_owned()).collect())
    }

    /// Sets a parameter to one value.
    pub fn set(&mut self, name: &str, value: String) {
        self.0.retain(|(n, _)| n != name);
        self.0.push((name.to_owned(), value));
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
                text.parse().map_err(|error| {
                    let why = number_error(&error);
                    ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
                })
            })
            .transpose()
    }
}

/// Whether a pair of a query has no bare semicolon and no broken escape.
fn is_well_formed(pair: &str) -> bool {
    let escaped = |rest: &str| {
        let mut bytes = rest.bytes();
        [bytes.next(), bytes.next()].iter().all(|b| b.is_some_and(|b| b.is_ascii_hexdigit()))
    };
    !pair.contains(';') && pair.split('%').skip(1).all(escaped)
}

/// A `resourceVersion`; Kubernetes' complaint if it is none.
fn resource_version(text: &str) -> Result<u64, String> {
    text.parse().map_err(|error| {
        let why = number_error(&error);
        format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: {why}"
        )
    })
}

/// The version that an object must at least have when it is read; 0 for any.
pub fn oldest_version(query: &Query) -> Result<u64, ApiError> {
    let text = query.get("resourceVersion").unwrap_or("0");
    resource_version(text).map_err(ApiError::unexplained)
}

/// Go's words for a number that does not parse.
fn number_error(error: &ParseIntError) -> &'static str {
    match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
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
        let token = continue_token.as_deref();
        let errors = if watch {
            check_watch(version_text, matching, send_initial_events, token)
        } else {
            check_list(version_text, matching, send_initial_events, token)
        };
        if !errors.is_empty() {
            return Err(invalid_options("ListOptions", &errors));
        }
        let number = || {
            resource_version(version_text).map_err(|why| {
                if watch {
                    return ApiError::unexplained(why);
                }
                ApiError::bad_request(format!("invalid resource version: {why}"))
            })
        };
        let version = match (version_text, matching) {
            ("", _) => VersionMatch::Newest,
            (_, "Exact") => VersionMatch::Exact(number()?),
            ("0", _) => VersionMatch::Any,
            (_, _) if token.is_some() && !watch => {
                return Err(ApiError::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            // With a limit and no explicit match, a version means exactly that one.
            (_, "") if limit > 0 && !watch => VersionMatch::Exact(number()?),
            _ => VersionMatch::NotOlderThan(number()?),
        };
        Ok(Self {
            label_selector: query.get("labelSelector").unwrap_or_default().to_owned(),
            field_selector: query.get("fieldSelector").unwrap_or_default().to_owned(),
            // Whatever is at hand is given whole.
            limit: match version {
                VersionMatch::Any => 0,
                _ => usize::try_from(limit).unwrap_or(0),
            },
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

fn forbidden_option(field: &str, detail: &str) -> FieldError {
    option_error(ErrorKind::Forbidden, field, None, detail)
}

/// The options that contradict each other.
fn check_list(
    version: &str,
    matching: &str,
    initial: Option<bool>,
    token: Option<&str>,
) -> Vec<FieldError> {
    let field = "resourceVersionMatch";
    let mut errors = Vec::new();
    if !matching.is_empty() && version.is_empty() {
        let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
        errors.push(forbidden_option(field, detail));
    }
    if !matching.is_empty() && token.is_some() {
        errors.push(forbidden_option(field, WITH_CONTINUE));
    }
    if !matches!(matching, "" | "Exact" | "NotOlderThan") {
        let detail = "supported values: \"Exact\", \"NotOlderThan\", \"\"";
        errors.push(option_error(ErrorKind::NotSupported, field, Some(matching), detail));
    }
    if matching == "Exact" && version == "0" {
        let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
        errors.push(forbidden_option(field, detail));
    }
    if initial.is_some() {
        let detail = "sendInitialEvents is forbidden for list";
        errors.push(forbidden_option("sendInitialEvents", detail));
    }
    errors
}

const WITH_CONTINUE: &str = "resourceVersionMatch is forbidden when continue is provided";

/// The options that contradict each other.
fn check_watch(
    version: &str,
    matching: &str,
    initial: Option<bool>,
    token: Option<&str>,
) -> Vec<FieldError> {
    // A watch from nowhere begins with what is there, and counts as one that says so.
    let from_nowhere = initial.is_none() && matching.is_empty() && matches!(version, "" | "0");
    let (matching, initial) =
        if from_nowhere { ("NotOlderThan", Some(true)) } else { (matching, initial) };
    let field = "resourceVersionMatch";
    let mut errors = Vec::new();
    if initial.is_some() && matching != "NotOlderThan" {
        let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(forbidden_option(field, detail));
    }
    if matching.is_empty() {
        return errors;
    }
    if initial.is_none() {
        let detail =
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        errors.push(forbidden_option(field, detail));
    }
    if matching != "NotOlderThan" {
        let detail = "supported values: \"NotOlderThan\"";
        errors.push(option_error(ErrorKind::NotSupported, field, Some(matching), detail));
    }
    if token.is_some() {
        errors.push(forbidden_option(field, WITH_CONTINUE));
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
            errors
                .extend(validate_field_manager(manager, &FieldPath::root().child("fieldManager")));
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
    !values.is_empty() && !Sabotage::StoredDryRuns.is_planted()
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
            Route::Watch(r) => format!("watch {} {}", r.resource, r.name.unwrap_or_default()),
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
        check("/apis/g/v/r/n/s/too/long", "g|v||r|n|s/too/long");
        check("/api/v1/namespaces//pods", "|v1||pods||");
        check("/api/v1/namespaces%2Fx", "|v1||namespaces|x|");
        check("/api/v1/watch/namespaces/x/pods/p", "watch pods p");
        check("/api/v1/watch", "|v1||watch||");
        check("//api/v1/namespaces", ",api,v1,namespaces");
        check("/api//v1/namespaces/x", "|||v1|namespaces|x");
        check("/", "");
    }

    #[test]
    fn flags_read_as_kubernetes_reads_them() {
        let query = Query::parse(Some("a=0&b=false&c=1&d&e=FALSE"));
        let flags: Vec<bool> = ["a", "b", "c", "d", "e", "f"].map(|f| query.flag(f)).into();
        assert_eq!(flags, [false, false, true, true, false, false]);
    }

    #[test]
    fn malformed_parameters_are_left_out() {
        let query = Query::parse(Some("a=1;b=2&c=%zz&d=%&e=%41%20+&f"));
        let values = ["a", "c", "d", "e", "f"].map(|name| query.all(name).next());
        assert_eq!(values, [None, None, None, Some("A  "), Some("")]);
    }

    #[test]
    fn contradicting_watch_options_are_refused() {
        for (query, fine) in [
            ("", true),
            ("continue=x", false),
            ("continue=x&resourceVersion=5", true),
            ("sendInitialEvents=true", false),
            ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan", true),
            ("sendInitialEvents=true&resourceVersionMatch=Exact", false),
            ("resourceVersionMatch=NotOlderThan", false),
        ] {
            let options = ListOptions::parse(&Query::parse(Some(query)), true);
            assert_eq!(options.is_ok(), fine, "{query}");
        }
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
