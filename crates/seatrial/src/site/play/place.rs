//! How far a script has come, as an object of the API: written before an act, read by whoever goes on.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Client};
use serde::{Deserialize, Serialize};

use super::{PlayError, refused};

/// The ConfigMap, in our namespace, and its key.
const NAME: &str = "scenario";
const KEY: &str = "script.json";

/// The act that is under way, and what was settled when it began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Place {
    /// Its position in the script; behind the last when all is over.
    pub(super) act: usize,
    /// When it began.
    pub(super) since: Timestamp,
    /// The machine that breaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) machine: Option<String>,
    /// How often the job had been stopped.
    #[serde(default)]
    pub(super) stopped: u64,
    /// How many nodes the pool served.
    #[serde(default)]
    pub(super) served: u32,
    /// How many the pool shall want.
    #[serde(default)]
    pub(super) wanted: u32,
}

impl Place {
    /// The beginning of an act.
    pub(super) fn at(act: usize, since: Timestamp) -> Self {
        Self { act, since, machine: None, stopped: 0, served: 0, wanted: 0 }
    }

    /// Where the script is, if it was begun.
    pub(super) async fn read(admin: &Client) -> Result<Option<Self>, PlayError> {
        let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), api::names::NAMESPACE);
        let found =
            maps.get_opt(NAME).await.map_err(|error| refused("the script's place", error))?;
        let text = found.and_then(|map| map.data?.remove(KEY));
        let read = text.map(|text| serde_json::from_str(&text)).transpose();
        read.map_err(|source| {
            let what =
                format!("ConfigMap {}/{NAME}; delete it to begin anew", api::names::NAMESPACE);
            PlayError::Unreadable { what, source }
        })
    }

    /// Writes it down.
    pub(super) async fn write(&self, admin: &Client) -> Result<(), PlayError> {
        let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), api::names::NAMESPACE);
        let text = serde_json::to_string(self).map_err(|source| PlayError::Unreadable {
            what: "the script's place".to_owned(),
            source,
        })?;
        let map = ConfigMap {
            metadata: ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() },
            data: Some([(KEY.to_owned(), text)].into()),
            ..ConfigMap::default()
        };
        let apply = PatchParams::apply("seatrial-up").force();
        let done = maps.patch(NAME, &apply, &Patch::Apply(&map)).await;
        done.map(drop).map_err(|error| refused("the script's place", error))
    }
}
