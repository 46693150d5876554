//! How agents and kubelets come by their identities, and how they show them to the API.

use std::fmt;
use std::sync::Arc;

use api::names::{MACHINE_GROUP, MACHINE_USER};
use apiserver::ApiServer;
use apiserver::auth::certificate::PeerCertificates;
use http::header::{AUTHORIZATION, HeaderValue};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;
use tower::ServiceExt as _;

use super::Clients;
use crate::datacentre::BootService;

/// Where the identities of hosts come from.
#[derive(Clone)]
pub enum Identity {
    /// They are handed over, under the names that the boot service would have given: a replay of a year
    /// spends its time on decisions, and not on signatures.
    Declared,
    /// Each boot asks the boot service, and joins by its token.
    Asked(Asking),
}

/// Whom a boot asks who it is, and the door through which it then goes.
#[derive(Clone)]
pub struct Asking {
    /// The boot service.
    pub boots: BootService,
    /// The API.
    pub door: Door,
}

/// A client for whoever has a credential.
pub type Door = Arc<dyn Fn(Credential) -> Client + Send + Sync>;

/// What is shown to the API with every request.
#[derive(Clone)]
pub enum Credential {
    /// A bearer token, as it is at that moment.
    Token(watch::Receiver<String>),
    /// A certificate and its key, both PEM.
    Certificate {
        /// What is shown.
        certificate: String,
        /// What only the holder has.
        key: String,
    },
}

impl fmt::Debug for Identity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Declared => "Declared",
            Self::Asked(_) => "Asked",
        })
    }
}

impl Credential {
    /// A token that stays as it is.
    pub fn token(token: String) -> Self {
        Self::Token(watch::channel(token).1)
    }
}

/// Writes a bearer token into a request.
pub fn bear<B>(token: &str, request: &mut http::Request<B>) {
    // A token that cannot stand in a header is shown to nobody, and refused.
    if let Ok(mut bearer) = HeaderValue::from_str(&format!("Bearer {token}")) {
        bearer.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, bearer);
    }
}

/// The door of a server in this process. Credentials are judged as on the network; only the handshake,
/// in which a peer proves that it has its certificate's key, falls away.
pub fn door(server: &ApiServer) -> Door {
    let server = server.clone();
    Arc::new(move |credential: Credential| {
        let service = server.service();
        let peer = match &credential {
            Credential::Token(_) => None,
            Credential::Certificate { certificate, .. } => {
                PeerCertificates::of_this_process(certificate)
            }
        };
        let shown = tower::service_fn(move |mut request: http::Request<Body>| {
            if let Credential::Token(token) = &credential {
                bear(&token.borrow(), &mut request);
            }
            if let Some(peer) = &peer {
                request.extensions_mut().insert(peer.clone());
            }
            service.clone().oneshot(request)
        });
        Client::new(shown, "default")
    })
}

/// The clients of agent and kubelet of a machine, under the names that they would have been given.
pub(super) fn declared(clients: &Clients, machine: &str) -> (Client, Client) {
    let agent = format!("{MACHINE_USER}{machine}");
    let groups = ["system:serviceaccounts", MACHINE_GROUP, "system:authenticated"];
    let node = format!("system:node:{machine}");
    (clients(&agent, &groups), clients(&node, &["system:nodes", "system:authenticated"]))
}
