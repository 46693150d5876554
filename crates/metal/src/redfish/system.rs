//! Resources of a Redfish service, read with suspicion: every field may be absent or wrong.

use super::Failure;
use super::session::Reply;
use serde_json::Value;

/// The most values of a list, and the longest word, that are kept.
const MOST: usize = 64;
const LONGEST: usize = 256;

/// A ComputerSystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct System {
    pub(super) path: String,
    pub(super) on: bool,
    pub(super) last_reset: Option<String>,
    pub(super) reset: Option<Action>,
    pub(super) etag: Option<String>,
    /// The boot sources that it takes, if it says.
    sources: Option<Vec<String>>,
    /// Where settings are written that hold from the next boot.
    settings: Option<String>,
}

/// The action that resets a system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Action {
    pub(super) target: String,
    pub(super) allowed: Option<Vec<String>>,
    pub(super) info: Option<String>,
}

impl System {
    /// Reads the answer to a GET.
    pub(super) fn read(path: &str, reply: &Reply) -> Result<Self, Failure> {
        let body = reply.successful("read the system")?.json()?;
        let on = match body.get("PowerState").and_then(Value::as_str) {
            Some("On" | "PoweringOn" | "PoweringOff" | "Paused") => true,
            Some("Off") => false,
            _ => {
                let why = "the BMC does not say whether the machine is on (PowerState)";
                return Err(Failure::Error(why.to_owned()));
            }
        };
        Ok(Self {
            path: path.to_owned(),
            on,
            last_reset: word(body.get("LastResetTime")).filter(|at| is_time(at)),
            reset: body.pointer("/Actions/#ComputerSystem.Reset").and_then(action),
            etag: reply.etag().or_else(|| word(body.get("@odata.etag"))),
            sources: words(body.pointer("/Boot/BootSourceOverrideTarget@Redfish.AllowableValues")),
            settings: link(body.pointer("/@Redfish.Settings/SettingsObject")),
        })
    }

    /// Every way of having the machine boot from the network, the best first: path, source, and for
    /// how long it holds. UEFI HTTP needs no TFTP, so it comes before PXE where it is taken at all;
    /// for good comes before once, since a system that crashes boots without us.
    ///
    /// Some firmware takes the PATCH only at the settings object (DSP0266, 7.8: what holds from the
    /// next boot is written there); sushy-tools refuses UEFI HTTP unless it can fetch the image.
    pub(super) fn overrides(&self) -> Vec<(&str, &'static str, &'static str)> {
        let taken = |source: &&str| match &self.sources {
            Some(sources) => sources.iter().any(|known| known == source),
            None => *source == "Pxe",
        };
        let paths = || std::iter::once(self.path.as_str()).chain(self.settings.as_deref());
        let mut all = Vec::new();
        for source in ["UefiHttp", "Pxe"].into_iter().filter(taken) {
            for enabled in ["Continuous", "Once"] {
                all.extend(paths().map(|path| (path, source, enabled)));
            }
        }
        all
    }
}

/// The systems of a collection, in the order of their names: the order of a collection means nothing
/// (taking it for one stopped 36 of 36 hosts in NVIDIA/infra-controller #5836). What is known not to
/// be the host comes last.
pub(super) fn members(collection: &Value) -> Vec<String> {
    let members = collection.get("Members").and_then(Value::as_array);
    let mut all: Vec<String> =
        members.into_iter().flatten().take(MOST).filter_map(|member| link(Some(member))).collect();
    // NVIDIA's BMCs list the GPU baseboard as a system beside the host (`HGX_Baseboard_0`).
    let baseboard =
        |path: &String| path.rsplit('/').next().is_some_and(|id| id.starts_with("HGX_"));
    all.sort_by_key(|path| (baseboard(path), path.clone()));
    all.dedup();
    all
}

/// The reset types of an ActionInfo.
pub(super) fn action_info(body: &Value) -> Option<Vec<String>> {
    let parameters = body.get("Parameters")?.as_array()?;
    let reset = parameters.iter().find(|parameter| parameter["Name"] == "ResetType")?;
    words(reset.get("AllowableValues"))
}

fn action(body: &Value) -> Option<Action> {
    Some(Action {
        target: word(body.get("target"))?,
        allowed: words(body.get("ResetType@Redfish.AllowableValues")),
        info: word(body.get("@Redfish.ActionInfo")),
    })
}

fn link(object: Option<&Value>) -> Option<String> {
    // Some write null where a link should be (NVIDIA/infra-controller #4831).
    word(object?.get("@odata.id"))
}

fn word(value: Option<&Value>) -> Option<String> {
    let word = value?.as_str()?;
    (!word.is_empty() && word.len() <= LONGEST).then(|| word.to_owned())
}

fn words(value: Option<&Value>) -> Option<Vec<String>> {
    let values = value?.as_array()?;
    Some(values.iter().take(MOST).filter_map(|value| word(Some(value))).collect())
}

/// A BMC whose clock was never set says the same for ever, which would look as if nothing happened.
fn is_time(at: &str) -> bool {
    !["0000-", "0001-", "1970-"].iter().any(|epoch| at.starts_with(epoch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_host_comes_before_the_baseboard_whatever_the_order() {
        let of = |names: &[&str]| {
            let members: Vec<Value> = names
                .iter()
                .map(|name| json!({"@odata.id": format!("/redfish/v1/Systems/{name}")}))
                .chain([json!(null), json!({"@odata.id": null}), json!(3)])
                .collect();
            members_of(&json!({"Members": members}))
        };
        assert_eq!(of(&["HGX_Baseboard_0", "System_0"]), ["System_0", "HGX_Baseboard_0"]);
        assert_eq!(of(&["2", "1", "2"]), ["1", "2"]);
        for nonsense in [json!(null), json!([]), json!({"Members": {"x": 1}})] {
            assert!(members(&nonsense).is_empty());
        }
    }

    fn members_of(collection: &Value) -> Vec<String> {
        let id = |path: String| path.rsplit('/').next().unwrap_or_default().to_owned();
        members(collection).into_iter().map(id).collect()
    }

    #[test]
    fn a_clock_that_was_never_set_is_no_word() {
        assert!(is_time("2026-01-01T00:00:00Z"));
        assert!(!is_time("1970-01-01T00:00:12Z"));
    }
}
