//! Clients that act as somebody, whose rights then count and not the caller's: within the server's
//! own process by calling it as that user, on any other cluster by impersonation, or by a credential
//! that the cluster has given.
//!
//! Impersonation needs the right to it, which administrators have. All clients of a cluster share its
//! connections, so that thousands of nodes in one process do not open thousands of them; a certificate
//! is shown in the handshake, so whoever has one has a connection.

use std::sync::Arc;

use apiserver::ApiServer;
use apiserver::auth::User;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue, Request};
use kube::client::Body;
use kube::{Client, Config};
use sim::hosts::{Credential, Door, bear};
use tokio::sync::Semaphore;
use tower::service_fn;

/// Gives a client that acts as a user of these groups; service accounts and whoever is known at all
/// have theirs by themselves.
pub(crate) type Acting = sim::hosts::Clients;

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");

/// Who is known at all.
const AUTHENTICATED: &str = "system:authenticated";
/// The names of service accounts, before namespace and name.
const ACCOUNTS: &str = "system:serviceaccount:";

/// So many requests wait for the head of their answer at a time. One connection carries one request,
/// and opening them costs the server more than answering.
const AT_ONCE: usize = 256;

/// A name that cannot stand in a header; no Kubernetes name is such a one.
#[derive(Debug, thiserror::Error)]
#[error("nobody can act under a name with control characters")]
struct Unspeakable;

/// The user name of a service account.
pub(crate) fn account(namespace: &str, name: &str) -> String {
    format!("{ACCOUNTS}{namespace}:{name}")
}

/// Whoever acts within the process of this server.
pub(crate) fn within(server: &ApiServer) -> Acting {
    let server = server.clone();
    Arc::new(move |name: &str, groups: &[&str]| {
        let account = name.strip_prefix(ACCOUNTS).and_then(|rest| rest.split_once(':'));
        let implied = account.map(|(namespace, _)| {
            ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
        });
        let mut groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        groups.extend(implied.into_iter().flatten());
        groups.push(AUTHENTICATED.to_owned());
        groups.dedup();
        let user = User { name: name.to_owned(), groups, ..User::default() };
        Client::new(server.service_as(user), "default")
    })
}

/// Whoever acts on the cluster of this client, whose user must have the right to impersonate them.
pub(crate) fn through(client: &Client) -> Acting {
    let (client, slots) = (client.clone(), Arc::new(Semaphore::new(AT_ONCE)));
    Arc::new(move |name: &str, groups: &[&str]| {
        // The server adds what is implied, and need not be asked whether that is allowed.
        let groups = groups.iter().filter(|group| **group != AUTHENTICATED);
        let headers = std::iter::once((USER, name))
            .chain(groups.map(|group| (GROUP, *group)))
            .map(|(header, word)| Some((header, HeaderValue::from_str(word).ok()?)));
        let headers: Option<Arc<[_]>> = headers.collect();
        let (client, slots) = (client.clone(), Arc::clone(&slots));
        let acted = service_fn(move |mut request: Request<Body>| {
            let (client, slots, headers) = (client.clone(), Arc::clone(&slots), headers.clone());
            async move {
                // Without them, the request would be the caller's own.
                for (name, value) in headers.ok_or(Unspeakable)?.iter() {
                    request.headers_mut().append(name.clone(), value.clone());
                }
                let _slot = slots.acquire().await;
                Ok::<_, tower::BoxError>(client.send(request).await?)
            }
        });
        Client::new(acted, "default")
    })
}

/// The door of a cluster that is reached so: whoever comes with a credential acts by it.
///
/// # Errors
/// If the cluster's certificate or address cannot be used.
pub(crate) fn door(config: Config) -> Result<Door, kube::Error> {
    let nobody = Client::try_from(config.clone())?;
    Ok(Arc::new(move |credential| match credential {
        Credential::Token(token) => {
            let nobody = nobody.clone();
            let shown = service_fn(move |mut request: Request<Body>| {
                bear(&token.borrow(), &mut request);
                let nobody = nobody.clone();
                async move { nobody.send(request).await }
            });
            Client::new(shown, "default")
        }
        Credential::Certificate { certificate, key } => {
            let mut config = config.clone();
            config.auth_info.client_certificate_data = Some(STANDARD.encode(certificate));
            config.auth_info.client_key_data = Some(STANDARD.encode(key).into());
            // With one that cannot be used it is nobody, and is told so.
            Client::try_from(config).unwrap_or_else(|_| nobody.clone())
        }
    }))
}
