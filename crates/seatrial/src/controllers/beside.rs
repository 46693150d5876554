//! Beside the embedded server: their rights are written first, and nobody else is there to lead.

use apiserver::ApiServer;
use controllers::{Entry, Selection, Site};
use kit::clock::Clock;
use kit::controller::{Manager, Options, Running, WATCH_LIFETIME};
use kit::ids::Ids;
use kube::Client;

use super::add;
use crate::identity;
use crate::install::{self, rights};

/// Where their accounts lie.
const NAMESPACE: &str = api::names::NAMESPACE;

/// Starts the chosen controllers in this process.
///
/// # Errors
/// If their roles cannot be written.
pub(crate) async fn start(
    selection: &Selection,
    server: &ApiServer,
    site: &Site,
    clock: Clock,
) -> Result<Running, Box<dyn std::error::Error + Send + Sync>> {
    let entries: Vec<&Entry> = selection.entries(site).collect();
    let admin = Client::new(server.service_as_admin(), "default");
    let mut rights = rights::of_controllers(&entries, NAMESPACE)?;
    rights.extend(rights::of_process(rights::SERVER, &entries, NAMESPACE)?);
    // A server without a fleet has no namespace of ours, and nothing in it that they need.
    rights.retain(|document| site.fleet || !document.is_namespaced());
    install::apply(&rights, &admin).await?;
    let acting = identity::within(server);
    let mut manager = Manager::new(Options {
        client: acting(&identity::account(NAMESPACE, rights::SERVER), &[]),
        clock,
        ids: Ids::system(),
        watch_lifetime: WATCH_LIFETIME,
        instance: "seatrial-serve".to_owned(),
    });
    add(&mut manager, &entries, &acting, NAMESPACE, site);
    let metrics = manager.metrics();
    server.tell_metrics_of(move || metrics.text());
    Ok(manager.start())
}
