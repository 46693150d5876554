//! Every kind that the API serves, found by discovery.

use std::collections::BTreeMap;

use kit::controller::Error;
use kube::Client;
use kube::core::ApiResource;

/// A kind whose objects can be listed, watched and deleted, at its preferred version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
    /// All objects can be deleted by one request.
    pub(crate) collection: bool,
    /// Objects can be watched.
    pub(crate) watched: bool,
}

/// The kinds that can be deleted, by group and plural.
pub(crate) async fn discover(client: &Client) -> Result<BTreeMap<(String, String), Served>, Error> {
    let failed = |what: String| move |error| Error::during(what, error);
    let mut versions = vec!["v1".to_owned()];
    let groups = client.list_api_groups().await.map_err(failed("list API groups".to_owned()))?;
    for group in groups.groups {
        let preferred = group.preferred_version.map(|version| version.group_version);
        let all = group.versions.into_iter().map(|version| version.group_version);
        // The preferred one first; the others for what only they have.
        versions.extend(preferred.clone());
        versions.extend(all.filter(|version| Some(version) != preferred.as_ref()));
    }
    let mut kinds = BTreeMap::new();
    for version in versions {
        let what = format!("list the resources of {version}");
        let list = match version.split_once('/') {
            None => client.list_core_api_resources(&version).await,
            Some(_) => client.list_api_group_resources(&version).await,
        };
        let list = match list {
            Ok(list) => list,
            // Removed since the groups were listed.
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            Err(error) => return Err(failed(what)(error)),
        };
        let (group, number) = version.split_once('/').unwrap_or(("", &version));
        for resource in list.resources {
            let can = |verb: &str| resource.verbs.iter().any(|known| known == verb);
            if resource.name.contains('/') || !can("delete") || !can("list") {
                continue;
            }
            let served = Served {
                namespaced: resource.namespaced,
                collection: can("deletecollection"),
                watched: can("watch"),
                resource: ApiResource {
                    group: group.to_owned(),
                    version: number.to_owned(),
                    api_version: version.clone(),
                    kind: resource.kind,
                    plural: resource.name.clone(),
                },
            };
            kinds.entry((group.to_owned(), resource.name)).or_insert(served);
        }
    }
    Ok(kinds)
}

impl Served {
    /// Events are no part of what owns and is owned, and there are many of them.
    pub(crate) fn is_event(&self) -> bool {
        self.resource.kind == "Event" && matches!(&*self.resource.group, "" | "events.k8s.io")
    }
}
