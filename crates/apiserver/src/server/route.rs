//! From a request to a verb on a resource, or to one of the documents every server has.

use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderName, WARNING};
use http::{HeaderValue, Method, Request, Response};

use super::ApiServer;
use crate::auth::authn::Credentials;
use crate::auth::authz::{self, Attributes, Decision, Target};
use crate::auth::certificate::PeerCertificates;
use crate::auth::rbac::RbacIndex;
use crate::auth::{AUTHENTICATED, User};
use crate::discovery;
use crate::registry::Call;
use crate::request::{Query, ResourcePath, Route, Verb};
use crate::resource::{GroupResource, Resource};
use crate::status::ApiError;
use crate::wire::body::{self, ResponseBody};
use crate::wire::negotiate::{self, Form};
use crate::wire;

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
    let form = negotiate::accept(request.headers(), true).unwrap_or(Form::JSON);
    let audit_id = request.headers().get(AUDIT_ID).cloned();
    let mut response = match dispatch(server, request, user).await {
        Ok(response) => response,
        Err(error) => wire::refuse(&error, form),
    };
    let fresh = || server.ids().uuid().ok().and_then(|id| HeaderValue::from_str(&id).ok());
    if let Some(id) = audit_id.or_else(fresh) {
        response.headers_mut().insert(AUDIT_ID, id);
    }
    response
}

async fn dispatch<B>(
    server: &ApiServer,
    request: Request<B>,
    user: Option<User>,
) -> Result<Response<ResponseBody>, ApiError>
where
    B: http_body::Body,
    B::Error: std::fmt::Display,
{
    let user = match user {
        Some(user) => user,
        None => authenticate(server, &request)?,
    };
    let (mut parts, body) = request.into_parts();
    // Nobody behind this point needs the credential.
    parts.headers.remove(AUTHORIZATION);
    let query = Query::parse(parts.uri.query());
    let path = match Route::parse(parts.uri.path()) {
        Route::Resource(path) => path,
        Route::Other(segments) => {
            authorize_path(server, &user, &parts.method, parts.uri.path())?;
            return discovery::answer(server, &parts, &segments);
        }
    };
    let Some(verb) = path.verb(&parts.method, &query) else {
        return Err(ApiError::method_not_allowed(
            &GroupResource::new(&path.group, &path.resource),
            parts.method.as_str(),
        ));
    };
    let aimed = aim(&path, verb, &query);
    authorize(&server.rbac(), &user, &aimed, verb)?;
    let (resource, version) = find(server, &path)?;
    check_verb(&resource, &path, verb)?;
    let body = body::read(body).await?;
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
        warnings: resource.versions[version].deprecation.clone().into_iter().collect(),
        followed: true,
    };
    let presenter = call.presenter(negotiate::accept(&call.headers, true)?)?;
    let answer = call.run(verb).await?;
    let mut response = wire::respond(answer, &presenter)?;
    for warning in &call.warnings {
        let text = format!("299 - \"{}\"", warning.replace('\\', "\\\\").replace('"', "\\\""));
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().append(WARNING, value);
        }
    }
    Ok(response)
}

/// Who a request from the network speaks for.
fn authenticate<B>(server: &ApiServer, request: &Request<B>) -> Result<User, ApiError> {
    let credentials = Credentials {
        certificates: request.extensions().get::<PeerCertificates>(),
        authorization: request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes),
    };
    server.authenticator().authenticate(&credentials, server.timestamp()).map_err(|refused| {
        tracing::debug!(rejected = refused.rejected.len(), "credentials refused");
        ApiError::unauthorized()
    })
}

/// A list or watch of one name counts as aimed at that name.
fn aim(path: &ResourcePath, verb: Verb, query: &Query) -> ResourcePath {
    let mut aimed = path.clone();
    if aimed.name.is_none()
        && matches!(verb, Verb::List | Verb::Watch | Verb::DeleteCollection)
        && let Some(selector) = query.get("fieldSelector")
        && let Ok(selector) = crate::selector::FieldSelector::parse(selector)
    {
        aimed.name = selector.exact("metadata.name").map(str::to_owned);
    }
    aimed
}

/// Whether a user may do something; the refusal otherwise.
pub(super) fn authorize(
    rbac: &RbacIndex,
    user: &User,
    path: &ResourcePath,
    verb: Verb,
) -> Result<(), ApiError> {
    let name = path.name.as_deref().unwrap_or_default();
    let attributes = Attributes {
        verb: verb.as_str(),
        target: Target::Resource {
            group: &path.group,
            resource: &path.resource,
            subresource: path.subresource.as_deref().unwrap_or_default(),
            // A namespace is an object of its own; its own rules are those of its own scope.
            namespace: namespace_of(path),
            name,
        },
    };
    match authz::authorize(user, &attributes, rbac) {
        Decision::Allow { .. } => Ok(()),
        Decision::NoOpinion { reason } => {
            let resource = GroupResource::new(&path.group, &path.resource);
            let message = authz::forbidden_message(user, &attributes, &reason);
            Err(ApiError::forbidden(&resource, name, message))
        }
    }
}

fn namespace_of(path: &ResourcePath) -> &str {
    match (&path.namespace, &path.name) {
        (Some(namespace), _) => namespace,
        (None, Some(name)) if path.group.is_empty() && path.resource == "namespaces" => name,
        _ => "",
    }
}

fn authorize_path(
    server: &ApiServer,
    user: &User,
    method: &Method,
    path: &str,
) -> Result<(), ApiError> {
    let verb = method.as_str().to_ascii_lowercase();
    let attributes = Attributes { verb: &verb, target: Target::Path(path) };
    match authz::authorize(user, &attributes, &server.rbac()) {
        Decision::Allow { .. } => Ok(()),
        Decision::NoOpinion { reason } => Err(ApiError::forbidden_path(
            authz::forbidden_message(user, &attributes, &reason),
        )),
    }
}

fn find(server: &ApiServer, path: &ResourcePath) -> Result<(Arc<Resource>, usize), ApiError> {
    let table = server.table();
    let resource = table.get(&path.group, &path.resource).ok_or_else(ApiError::no_such_resource)?;
    let version = (resource.versions.iter())
        .position(|v| v.served && v.name == path.version)
        .ok_or_else(ApiError::no_such_resource)?;
    if path.namespace.is_some() && !resource.namespaced {
        return Err(ApiError::no_such_resource());
    }
    if path.namespace.is_none() && resource.namespaced && path.name.is_some() {
        return Err(ApiError::no_such_resource());
    }
    Ok((Arc::clone(resource), version))
}

/// A verb that the resource or subresource does not offer.
fn check_verb(resource: &Resource, path: &ResourcePath, verb: Verb) -> Result<(), ApiError> {
    let offers = |verbs: &[String]| verbs.iter().any(|v| v == verb.as_str());
    let refused = || {
        let name = resource.group_resource();
        Err(ApiError::method_not_allowed(&name, verb.as_str()))
    };
    match path.subresource.as_deref() {
        None if offers(&resource.verbs) => Ok(()),
        None => refused(),
        Some(name) => match resource.subresources.iter().find(|s| s.name == name) {
            Some(subresource) if offers(&subresource.verbs) => Ok(()),
            Some(_) => refused(),
            None => Err(ApiError::no_such_resource()),
        },
    }
}

/// Everybody in the process has proved who they are.
pub(crate) fn in_process(mut user: User) -> User {
    if !user.is_in(AUTHENTICATED) && user.name != crate::auth::ANONYMOUS {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}
