//! How the objects that describe a site get into the API.
//!
//! Objects that are there are left as they are, since people may have changed them; only the address
//! of a BMC follows the simulator's listener.

use api::Machine;
use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use sim::datacentre::Objects;

/// Who writes the objects of a site.
const MANAGER: &str = "seatrial-up";
/// How many requests are under way at once.
const AT_ONCE: usize = 64;

/// The API refuses an object.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {what} to the API")]
pub(crate) struct FurnishError {
    what: String,
    source: Box<kube::Error>,
}

/// Puts the objects of a site into the API, where the fleet's kinds are installed.
///
/// # Errors
/// What the API refuses.
pub(crate) async fn furnish(client: &Client, objects: Objects) -> Result<(), FurnishError> {
    let Objects { namespace, credential, instance_types, racks, switches, machines, pools, ledger } =
        objects;
    make(Api::all(client.clone()), vec![namespace]).await?;
    let secrets = credential.namespace().unwrap_or_default();
    make(Api::namespaced(client.clone(), &secrets), vec![credential]).await?;
    make(Api::all(client.clone()), instance_types).await?;
    make(Api::all(client.clone()), racks).await?;
    make(Api::all(client.clone()), switches).await?;
    make(Api::all(client.clone()), vec![ledger]).await?;
    make(Api::all(client.clone()), pools).await?;
    let addresses: Vec<(String, String)> =
        machines.iter().map(|m| (m.name().to_owned(), m.spec.bmc.address.clone())).collect();
    make(Api::all(client.clone()), machines).await?;
    readdress(&Api::all(client.clone()), addresses).await
}

/// Creates what is not there.
async fn make<K>(api: Api<K>, objects: Vec<K>) -> Result<(), FurnishError>
where
    K: Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let post = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    let (api, post) = (&api, &post);
    futures::stream::iter(objects)
        .map(|object| async move {
            match api.create(post, &object).await {
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
                Err(source) => Err(failed(&object.name_any(), source)),
                Ok(_) => Ok(()),
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

/// Tells machines where their BMCs answer now.
async fn readdress(
    machines: &Api<Machine>,
    addresses: Vec<(String, String)>,
) -> Result<(), FurnishError> {
    let all = machines.list(&kube::api::ListParams::default()).await;
    let all = all.map_err(|source| failed("machines", source))?;
    let old: std::collections::BTreeMap<&str, &str> =
        all.items.iter().map(|m| (m.name(), m.spec.bmc.address.as_str())).collect();
    let moved = addresses.into_iter().filter(|(name, address)| {
        old.get(name.as_str()).is_some_and(|old| *old != address.as_str())
    });
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let params = &params;
    futures::stream::iter(moved)
        .map(|(name, address)| async move {
            let patch = Patch::Merge(json!({"spec": {"bmc": {"address": address}}}));
            let done = machines.patch(&name, params, &patch).await;
            done.map(drop).map_err(|source| failed(&name, source))
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

fn failed(what: &str, source: kube::Error) -> FurnishError {
    FurnishError { what: what.to_owned(), source: Box::new(source) }
}
