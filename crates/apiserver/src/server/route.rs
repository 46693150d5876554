//! From a request to a verb on a resource, or to one of the documents every server has.

mod impersonate;

use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderName, WARNING};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response};

use super::ApiServer;
use super::inflight::{self, Entered};
use crate::audit::{About, Record};
use crate::auth::authn::Credentials;
use crate::auth::authz::{self, Attributes, Decision, Target};
use crate::auth::certificate::PeerCertificates;
use crate::auth::rbac::RbacIndex;
use crate::auth::{AUTHENTICATED, User};
use crate::discovery;
use crate::metrics::Label;
use crate::registry::Call;
use crate::request::{Query, ResourcePath, Route, Verb};
use crate::resource::{GroupResource, Resource};
use crate::selector::FieldSelector;
use crate::status::ApiError;
use crate::wire;
use crate::wire::body::{self, ResponseBody};
use crate::wire::negotiate::{self, Asked, Form, Kinds};

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Answers a request; whatever goes wrong becomes a `Status`.
pub(super) async fn handle<B>(
    server: &ApiServer,
    request: Request<B>,
    user: Option<User>,
) -> Response<ResponseBody>
where
    B: http_body::Body,
    B::Error: std::fmt::Display,
{
    let form = refusal_form(request.headers());
    let mut audit_id = request.headers().get(AUDIT_ID).cloned();
    let fresh = || server.ids().uuid().ok().and_then(|id| HeaderValue::from_str(&id).ok());
    if server.audit().is_some() && audit_id.is_none() {
        audit_id = fresh();
    }
    let mut seen = Seen { label: Label::of(request.method()), record: Record::default() };
    let id = audit_id.as_ref().and_then(|id| id.to_str().ok()).unwrap_or_default();
    let response = match dispatch(server, request, user, id, &mut seen).await {
        Ok(response) => response,
        Err(error) => wire::refuse(&error, form),
    };
    server.metrics().count(seen.label, response.status());
    let mut response = seen.record.end(response);
    if let Some(id) = audit_id.or_else(fresh) {
        response.headers_mut().insert(AUDIT_ID, id);
    }
    response
}

/// What is noted of a request on its way.
struct Seen {
    label: Label,
    record: Record,
}

async fn dispatch<B>(
    server: &ApiServer,
    request: Request<B>,
    user: Option<User>,
    audit_id: &str,
    seen: &mut Seen,
) -> Result<Response<ResponseBody>, ApiError>
where
    B: http_body::Body,
    B::Error: std::fmt::Display,
{
    let (mut parts, body) = request.into_parts();
    let mut query = Query::parse(parts.uri.query());
    let route = Route::parse(parts.uri.path());
    let user = user.map_or_else(|| authenticate(server, &parts), Ok);
    seen.record = begin_record(server, &parts, user.as_ref().ok(), &route, &query, audit_id);
    let user = user?;
    // Nobody behind this point needs the credential.
    parts.headers.remove(AUTHORIZATION);
    let acts = parts.headers.contains_key(impersonate::USER);
    let user = impersonate::acting(|| server.rbac(), user, &mut parts.headers)?;
    if acts {
        seen.record.acts_as(&user);
    }
    let Ok(_inside) = enter(server, &user, &parts.method, &route, &query).await else {
        return Ok(wire::too_many());
    };
    let (mut path, verb) = match route {
        Route::Resource(path) => {
            let verb = path.verb(&parts.method, &query);
            (path, verb)
        }
        Route::Watch(path) => (path, Some(Verb::Watch)),
        Route::Other(segments) => {
            let verb = parts.method.as_str().to_ascii_lowercase();
            let attributes = Attributes { verb: &verb, target: Target::Path(parts.uri.path()) };
            let decision = authz::authorize(&user, &attributes, &server.rules_for(&user));
            note(&mut seen.record, &decision);
            pass(&user, &attributes, decision)?;
            return discovery::answer(server, &parts, &segments);
        }
    };
    let selector = selector(verb, &query);
    let aimed = aim(&path, selector.as_ref());
    let attributes = attributes(&aimed, verb.map_or("", Verb::as_str));
    let decision = server.decide(&user, &attributes, selector.as_ref());
    note(&mut seen.record, &decision);
    pass(&user, &attributes, decision)?;
    let Some((resource, version)) = find(server, &path, verb) else {
        return no_route(server, &path);
    };
    let verb = check_verb(&resource, &path, verb, &parts.method)?;
    seen.label = Label::resource(verb, &resource);
    if verb == Verb::Watch
        && let Some(name) = path.name.take()
    {
        query.set("fieldSelector", format!("metadata.name={name}"));
    }
    let body = body::read(body).await?;
    seen.record.sent(&parts.headers, &body);
    let mut call = Call {
        server,
        user: &user,
        resource: Arc::clone(&resource),
        version,
        namespace: path.namespace.clone().filter(|_| resource.namespaced),
        name: path.name,
        subresource: path.subresource,
        query,
        headers: parts.headers,
        body,
        annotations: Vec::new(),
        emptied: Vec::new(),
        warnings: resource.versions[version].deprecation.clone().into_iter().collect(),
        followed: true,
    };
    let form = refusal_form(&call.headers);
    let outcome = carry_out(&mut call, verb).await;
    for (key, value) in call.annotations.drain(..) {
        seen.record.annotate(key, value);
    }
    let mut response = outcome.unwrap_or_else(|error| wire::refuse(&error, form));
    for warning in &call.warnings {
        let text = format!("299 - \"{}\"", warning.replace('\\', "\\\\").replace('"', "\\\""));
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().append(WARNING, value);
        }
    }
    Ok(response)
}

/// Lets a request in when there is room; those that go on for long are not counted.
async fn enter(
    server: &ApiServer,
    user: &User,
    method: &Method,
    route: &Route,
    query: &Query,
) -> Result<Option<Entered>, inflight::Full> {
    const LONG: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];
    let lower = method.as_str().to_ascii_lowercase();
    let verb = match route {
        Route::Watch(_) => return Ok(None),
        Route::Resource(path) if path.subresource.as_deref().is_some_and(|s| LONG.contains(&s)) => {
            return Ok(None);
        }
        Route::Resource(path) => match path.verb(method, query) {
            Some(Verb::Watch) => return Ok(None),
            verb => verb.map_or("", Verb::as_str),
        },
        Route::Other(_) => lower.as_str(),
    };
    server.0.doors.enter(user, verb).await.map(Some)
}

async fn carry_out(call: &mut Call<'_>, verb: Verb) -> Result<Response<ResponseBody>, ApiError> {
    let presenter = call.presenter(verb)?;
    let answer = call.run(verb).await?;
    wire::respond(call.server.metrics().follow(answer), &presenter)
}

/// The form of a refusal: as the client likes it, or JSON.
fn refusal_form(headers: &HeaderMap) -> Form {
    negotiate::accept(headers, Asked::Object, Kinds::BuiltIn).unwrap_or(Form::JSON)
}

/// Begins the audit record of a request, let in or not.
fn begin_record(
    server: &ApiServer,
    parts: &Parts,
    user: Option<&User>,
    route: &Route,
    query: &Query,
    id: &str,
) -> Record {
    let lower = parts.method.as_str().to_ascii_lowercase();
    let (path, verb) = match route {
        Route::Resource(path) => {
            (Some(path), path.verb(&parts.method, query).map_or("", Verb::as_str))
        }
        Route::Watch(path) => (Some(path), Verb::Watch.as_str()),
        Route::Other(_) => (None, lower.as_str()),
    };
    let namespace = path.map(namespace_of).unwrap_or_default();
    let about = About { parts, user, verb, path, namespace, id };
    Record::begin(server.audit(), server.clock(), &about)
}

fn note(record: &mut Record, decision: &Decision) {
    match decision {
        Decision::Allow { reason } => record.decided(true, reason),
        Decision::NoOpinion { reason } => record.decided(false, reason),
    }
}

/// Who a request from the network speaks for.
fn authenticate(server: &ApiServer, parts: &Parts) -> Result<User, ApiError> {
    let credentials = Credentials {
        certificates: parts.extensions.get::<PeerCertificates>(),
        authorization: parts.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes),
        audiences: None,
    };
    let found = server.authenticator().authenticate(&credentials, server.timestamp());
    found.map(|found| found.user).map_err(|refused| {
        tracing::debug!(rejected = refused.rejected.len(), "credentials refused");
        ApiError::unauthorized()
    })
}

/// What narrows a request on a whole collection.
fn selector(verb: Option<Verb>, query: &Query) -> Option<FieldSelector> {
    if !matches!(verb, Some(Verb::List | Verb::Watch | Verb::DeleteCollection)) {
        return None;
    }
    FieldSelector::parse(query.get("fieldSelector")?).ok()
}

/// A list or watch of one name counts as aimed at that name.
fn aim(path: &ResourcePath, selector: Option<&FieldSelector>) -> ResourcePath {
    let mut aimed = path.clone();
    if aimed.name.is_none() {
        let exact = selector.and_then(|selector| selector.exact("metadata.name"));
        aimed.name = exact.map(str::to_owned);
    }
    aimed
}

/// Whether a user may do something; the refusal otherwise.
pub(super) fn authorize(
    server: &ApiServer,
    user: &User,
    path: &ResourcePath,
    verb: &str,
) -> Result<(), ApiError> {
    let attributes = attributes(path, verb);
    pass(user, &attributes, server.decide(user, &attributes, None))
}

/// What a request on a resource attempts.
fn attributes<'a>(path: &'a ResourcePath, verb: &'a str) -> Attributes<'a> {
    let target = Target::Resource {
        group: &path.group,
        resource: &path.resource,
        subresource: path.subresource.as_deref().unwrap_or_default(),
        // A namespace is an object of its own; its own rules are those of its own scope.
        namespace: namespace_of(path),
        name: path.name.as_deref().unwrap_or_default(),
    };
    Attributes { verb, target }
}

/// Passes an attempt that a rule allows.
fn allow(rbac: &RbacIndex, user: &User, attributes: &Attributes<'_>) -> Result<(), ApiError> {
    pass(user, attributes, authz::authorize(user, attributes, rbac))
}

/// The refusal of what was not allowed.
fn pass(user: &User, attributes: &Attributes<'_>, decision: Decision) -> Result<(), ApiError> {
    let reason = match decision {
        Decision::Allow { .. } => return Ok(()),
        Decision::NoOpinion { reason } => reason,
    };
    let message = authz::forbidden_message(user, attributes, &reason);
    Err(match attributes.target {
        Target::Path(_) => ApiError::forbidden_path(message),
        Target::Resource { group, resource, name, .. } => {
            ApiError::forbidden(&GroupResource::new(group, resource), name, message)
        }
    }
    .echoing())
}

fn namespace_of(path: &ResourcePath) -> &str {
    match (&path.namespace, &path.name) {
        (Some(namespace), _) => namespace,
        (None, Some(name)) if path.group.is_empty() && path.resource == "namespaces" => name,
        _ => "",
    }
}

/// The resource and the version that a path names, if it is served there.
fn find(
    server: &ApiServer,
    path: &ResourcePath,
    verb: Option<Verb>,
) -> Option<(Arc<Resource>, usize)> {
    let table = server.table();
    let resource = table.get(&path.group, &path.resource)?;
    let version = resource.versions.iter().position(|v| v.served && v.name == path.version)?;
    let across = match verb {
        Some(Verb::List | Verb::Watch) => true,
        // Upstream knows the path of a built-in collection across namespaces, whatever the method.
        _ => !resource.is_custom() && path.name.is_none(),
    };
    let fits = if resource.namespaced {
        path.namespace.is_some() || across
    } else {
        path.namespace.is_none()
    };
    fits.then(|| (Arc::clone(resource), version))
}

/// The answer for a path that names no resource: a built-in group's own router says so in a
/// `Status`, for the others there is no page.
fn no_route(server: &ApiServer, path: &ResourcePath) -> Result<Response<ResponseBody>, ApiError> {
    let table = server.table();
    if table.iter().any(|r| !r.is_custom() && r.group == path.group) {
        return Err(ApiError::no_such_resource());
    }
    Ok(wire::no_page())
}

/// The verb, if the resource or subresource offers it.
fn check_verb(
    resource: &Resource,
    path: &ResourcePath,
    verb: Option<Verb>,
    method: &Method,
) -> Result<Verb, ApiError> {
    let name = resource.group_resource();
    let verbs = match path.subresource.as_deref() {
        None => &resource.verbs,
        Some(wanted) => match resource.subresources.iter().find(|s| s.name == wanted) {
            Some(subresource) => &subresource.verbs,
            None if resource.is_custom() => {
                let object = path.name.as_deref().unwrap_or_default();
                return Err(ApiError::not_found(&name, object));
            }
            None => return Err(ApiError::no_such_resource()),
        },
    };
    let offered = verb.filter(|verb| verbs.iter().any(|v| v == verb.as_str()));
    if resource.is_custom() {
        let asked = verb.map_or("", Verb::as_str);
        return offered.ok_or_else(|| ApiError::method_not_allowed(&name, asked));
    }
    offered
        .filter(|verb| has_route(resource, path, *verb, method))
        .ok_or_else(ApiError::no_such_method)
}

/// Whether upstream has a route for a method on a built-in resource's path. A verb alone does not
/// say: a POST to an object is a create as well.
fn has_route(resource: &Resource, path: &ResourcePath, verb: Verb, method: &Method) -> bool {
    let named = path.name.is_some();
    let everywhere = resource.namespaced && path.namespace.is_none();
    match verb {
        Verb::Get | Verb::List | Verb::Watch => *method == Method::GET,
        Verb::Create => path.subresource.is_some() || !named && !everywhere,
        Verb::DeleteCollection => !everywhere,
        Verb::Update | Verb::Patch | Verb::Delete => named,
    }
}

/// Everybody in the process has proved who they are.
pub(crate) fn in_process(mut user: User) -> User {
    if !user.is_in(AUTHENTICATED) && user.name != crate::auth::ANONYMOUS {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}
