//! Priority: a pod's class decides its priority, and at most one class is the default.

use serde_json::Value;

use super::super::metadata::{keep as keep_field, meta, text};
use super::super::{Call, Object};
use super::spec_mut;
use crate::status::ApiError;

const GROUP: &str = "scheduling.k8s.io";
const PLURAL: &str = "priorityclasses";

/// What a cluster without a default class gives to pods that name none.
const PREEMPTION: &str = "PreemptLowerPriority";

impl Call<'_> {
    /// Sets what the pod's class says, and refuses a pod that says otherwise.
    pub(super) fn prioritize(&self, pod: &mut Object) -> Result<(), ApiError> {
        let named = text(spec_mut(pod), "priorityClassName").to_owned();
        let class = if named.is_empty() {
            self.default_class()?
        } else {
            let class = self.server.read(GROUP, PLURAL, None, &named)?;
            let why = || format!("no PriorityClass with name {named} was found");
            Some(class.ok_or_else(|| self.forbidden(pod, &why()))?)
        };
        let (priority, preemption) = match &class {
            Some(class) => {
                let value = class.get("value").and_then(Value::as_i64).unwrap_or(0);
                let policy = Some(text(class, "preemptionPolicy")).filter(|p| !p.is_empty());
                (value, policy.map(str::to_owned))
            }
            None => (0, Some(PREEMPTION.to_owned())),
        };
        let spec = spec_mut(pod);
        if let Some(sent) = spec.get("priority").and_then(Value::as_i64).filter(|p| *p != priority)
        {
            let why = format!(
                "the integer value of priority ({sent}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
            );
            return Err(self.forbidden(pod, &why));
        }
        let sent = text(spec, "preemptionPolicy").to_owned();
        if let Some(policy) = preemption.as_ref().filter(|p| !sent.is_empty() && **p != sent) {
            let why = format!(
                "the string value of PreemptionPolicy ({sent}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
            );
            return Err(self.forbidden(pod, &why));
        }
        if let Some(class) = class.filter(|_| named.is_empty()) {
            let name = text(meta(&class), "name");
            spec.insert("priorityClassName".to_owned(), name.into());
        }
        spec.insert("priority".to_owned(), priority.into());
        if let Some(policy) = preemption {
            spec.insert("preemptionPolicy".to_owned(), policy.into());
        }
        Ok(())
    }

    /// The class of pods that name none; of several the one that counts least.
    fn default_class(&self) -> Result<Option<Object>, ApiError> {
        let table = self.server.table();
        let Some(resource) = table.get(GROUP, PLURAL) else { return Ok(None) };
        let classes = self.server.read_all(resource)?;
        let defaults = classes.into_iter().filter(|c| c.get("globalDefault") == Some(&true.into()));
        Ok(defaults.min_by_key(|class| class.get("value").and_then(Value::as_i64)))
    }

    /// There is one default class at most.
    pub(super) fn check_only_default(
        &self,
        live: Option<&Object>,
        class: &Object,
    ) -> Result<(), ApiError> {
        if class.get("globalDefault") != Some(&true.into()) {
            return Ok(());
        }
        let Some(default) = self.default_class()? else { return Ok(()) };
        let name = text(meta(&default), "name");
        if live.is_some_and(|live| text(meta(live), "name") == name) {
            return Ok(());
        }
        let why = format!(
            "PriorityClass {name} is already marked as default. Only one default can exist"
        );
        Err(self.forbidden(class, &why))
    }
}

/// A write that leaves out what the class decided leaves it as it is.
pub(super) fn keep(live: &Object, pod: &mut Object) {
    let Some(live) = live.get("spec").and_then(Value::as_object) else { return };
    let spec = spec_mut(pod);
    for field in ["priority", "preemptionPolicy"] {
        if spec.get(field).is_none_or(Value::is_null) {
            keep_field(live, spec, field);
        }
    }
}
