//! ResourceQuota: what the objects of a namespace may come to together.
//!
//! Every write of something that quotas count carries what it changes into their `status.used`, in
//! the same transaction: a quota is never exceeded, whoever creates at the same time, and what is
//! deleted or has ended is free at once. A quota that is made or changed is counted anew by the
//! request that wrote it. So no controller is needed, and one that counts as well finds the same.
//!
//! Not done: devices of resource claims by class; pods that overstay their grace period count until
//! they are gone; the status is owned by no manager.

mod locks;
mod scope;
mod usage;

use bytes::Bytes;
use serde_json::{Value, json};
use store::{Compare, Op, Revision, Test, Txn};

use self::locks::Guard;
pub(crate) use self::locks::Locks;
use self::usage::{Counting, bounds, counting, unsaid};
use super::metadata::is_deleting;
use super::{Call, Object, index_of, into_object};
use crate::builtin::sum::{self, Quantity, Resources};
use crate::resource::Resource;
use crate::sabotage::Sabotage;
use crate::status::ApiError;
use crate::stored::{self, Stored};

const PLURAL: &str = "resourcequotas";

/// A quota as it is in the store.
struct Found {
    key: Bytes,
    revision: Revision,
    quota: Value,
}

/// The quotas that a write may change, kept as they are until it is done.
pub(super) struct Held {
    _guard: Guard,
    counting: Counting,
    quotas: Vec<Found>,
}

impl Held {
    /// Whether there are any.
    pub(super) fn any(&self) -> bool {
        !self.quotas.is_empty()
    }
}

/// What becomes of an object.
#[derive(Clone, Copy)]
pub(super) struct Change<'a> {
    pub(super) old: Option<&'a Object>,
    pub(super) new: Option<&'a Object>,
}

impl Call<'_> {
    /// Keeps the quotas of this namespace as they are; `None` where what is written is not counted.
    pub(super) async fn hold_quotas(&self) -> Result<Option<Held>, ApiError> {
        let Some(counting) = counting(&self.resource) else { return Ok(None) };
        let Some(namespace) = self.namespace.as_deref() else { return Ok(None) };
        let locks = self.server.quotas();
        let guard = locks.shared(namespace).await;
        if self.quotas(namespace)?.is_empty() {
            return Ok(Some(Held { _guard: guard, counting, quotas: Vec::new() }));
        }
        drop(guard);
        let guard = locks.alone(namespace).await;
        Ok(Some(Held { _guard: guard, counting, quotas: self.quotas(namespace)? }))
    }

    fn quotas(&self, namespace: &str) -> Result<Vec<Found>, ApiError> {
        let table = self.server.table();
        let Some(resource) = table.get("", PLURAL) else { return Ok(Vec::new()) };
        let range = super::keys::range(resource, Some(namespace));
        let page = self.server.store().list(&range, None, None).map_err(ApiError::internal)?;
        let found = page.entries.iter().map(|entry| {
            let stored = Stored::from_entry(entry).map_err(ApiError::internal)?;
            let quota = stored.to_value().map_err(ApiError::internal)?;
            Ok(Found { key: entry.key.clone(), revision: entry.modified, quota })
        });
        found.collect()
    }

    /// Adds to a transaction on `key` what it changes in the quotas; refused if that is too much.
    pub(super) fn charge_quotas(
        &self,
        held: &Held,
        key: &Bytes,
        change: Change<'_>,
        mut txn: Txn,
    ) -> Result<Txn, ApiError> {
        for (found, status) in self.charges(held, change)? {
            // A quota that is being written brings its own status.
            if found.key != *key {
                let unchanged = Test::Modified(Compare::Equal, found.revision);
                let value = self.with_status(&found.quota, status)?;
                txn = txn.when(found.key.clone(), unchanged);
                txn = txn.then(Op::put(found.key.clone(), value));
            }
        }
        Ok(txn)
    }

    /// Refuses what no quota would take, and charges nothing.
    pub(super) async fn check_quotas(&self, change: Change<'_>) -> Result<(), ApiError> {
        match self.hold_quotas().await? {
            Some(held) if held.any() => self.charges(&held, change).map(drop),
            _ => Ok(()),
        }
    }

    /// The quotas that change, each with its new status.
    fn charges<'h>(
        &self,
        held: &'h Held,
        change: Change<'_>,
    ) -> Result<Vec<(&'h Found, Value)>, ApiError> {
        let counted = Counted { resource: &self.resource, counting: held.counting };
        let asked = change.new.filter(|new| {
            !is_deleting(new) && is_held(held.counting, self.subresource.as_deref(), change)
        });
        let mut quotas = Vec::new();
        for found in &held.quotas {
            let mut quota = found.quota.clone();
            // Instances of a kind that was not there when the quota was counted.
            if self.resource.is_custom() && counted.unknown(&quota).is_some() {
                quota["status"] = self.counted(&quota)?;
            }
            quotas.push((found, quota));
        }
        if let Some(asked) = asked {
            for (_, quota) in &quotas {
                if let Some(why) = counted.unfit(quota, asked) {
                    return Err(self.forbidden(asked, &why));
                }
            }
        }
        let mut changed = Vec::new();
        for (found, quota) in quotas {
            let delta = counted.delta(&quota, change);
            if let (Some(asked), Some(why)) = (asked, exceeded(&quota, &delta))
                && !Sabotage::NoQuotas.is_planted()
            {
                return Err(self.forbidden(asked, &why));
            }
            let status = spent(&quota["status"], &delta);
            if status != found.quota["status"] {
                changed.push((found, status));
            }
        }
        Ok(changed)
    }

    /// Counts a quota anew that was made or changed.
    pub(super) async fn recount(&self, key: &Bytes) -> Result<(), ApiError> {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let _guard = self.server.quotas().alone(namespace).await;
        let Some(entry) = self.server.store().get(key, None).map_err(ApiError::internal)? else {
            return Ok(());
        };
        let stored = Stored::from_entry(&entry).map_err(ApiError::internal)?;
        let quota = stored.to_value().map_err(ApiError::internal)?;
        let status = self.counted(&quota)?;
        if status == quota["status"] {
            return Ok(());
        }
        let unchanged = Test::Modified(Compare::Equal, entry.modified);
        let value = self.with_status(&quota, status)?;
        let txn = Txn::new().when(key.clone(), unchanged).then(Op::put(key.clone(), value));
        self.server.store().commit(txn).await.map_err(super::write_failed)?;
        Ok(())
    }

    /// What a quota's status should be, by what is in its namespace.
    fn counted(&self, quota: &Value) -> Result<Value, ApiError> {
        let namespace = quota["metadata"]["namespace"].as_str();
        let hard = sum::resources(&quota["spec"]["hard"]);
        let mut used = Resources::new();
        for resource in self.server.table().iter() {
            let Some(counting) = counting(resource) else { continue };
            let mine: Vec<&String> =
                hard.keys().filter(|name| bounds(resource, counting, name)).collect();
            if mine.is_empty() {
                continue;
            }
            for name in &mine {
                used.entry((*name).clone()).or_default();
            }
            for object in self.server.read_all_in(resource, namespace)? {
                if scope::counts(quota, counting, &object) {
                    let mut own = usage::usage(resource, counting, &object);
                    own.retain(|name, _| mine.contains(&name));
                    sum::add(&mut used, &own);
                }
            }
        }
        let mut status = json!({});
        for (field, amounts) in [("hard", hard), ("used", used)] {
            if !amounts.is_empty() {
                status[field] = sum::written(&amounts);
            }
        }
        Ok(status)
    }

    fn with_status(&self, quota: &Value, status: Value) -> Result<Bytes, ApiError> {
        let mut quota = into_object(quota.clone())?;
        quota.insert("status".to_owned(), status);
        let table = self.server.table();
        let resource = table.get("", PLURAL).ok_or_else(ApiError::no_such_resource)?;
        stored::encode(&quota, &index_of(resource, &quota)).map_err(ApiError::internal)
    }
}

/// Whether a write is held to the bounds; what is not is still counted.
fn is_held(counting: Counting, subresource: Option<&str>, change: Change<'_>) -> bool {
    let ends = |object: Option<&Object>| {
        let spec = object.and_then(|object| object.get("spec"));
        spec.and_then(|spec| spec["activeDeadlineSeconds"].as_i64()).is_some_and(|n| n >= 0)
    };
    match (counting, subresource) {
        (Counting::Pods, Some("resize")) => true,
        (_, Some(_)) => false,
        (Counting::Services | Counting::Claims, None) => true,
        (Counting::Pods, None) => change.old.is_none() || ends(change.old) != ends(change.new),
        (Counting::Objects, None) => change.old.is_none(),
    }
}

/// A resource and how it is counted.
struct Counted<'a> {
    resource: &'a Resource,
    counting: Counting,
}

impl Counted<'_> {
    /// What a quota bounds of this resource.
    fn bounded<'q>(&self, quota: &'q Value) -> Vec<&'q str> {
        let hard = quota["status"]["hard"].as_object().into_iter().flat_map(|hard| hard.keys());
        hard.map(String::as_str).filter(|name| bounds(self.resource, self.counting, name)).collect()
    }

    /// What a quota bounds without knowing how much of it is used.
    fn unknown(&self, quota: &Value) -> Option<String> {
        let bounded = self.bounded(quota);
        let used = &quota["status"]["used"];
        bounded.iter().any(|name| used.get(*name).is_none()).then(|| bounded.join(","))
    }

    /// Why a quota cannot judge an object.
    fn unfit(&self, quota: &Value, object: &Object) -> Option<String> {
        let bounded = self.bounded(quota);
        if bounded.is_empty() || !scope::counts(quota, self.counting, object) {
            return None;
        }
        let name = quota["metadata"]["name"].as_str().unwrap_or_default();
        if let (Counting::Pods, Some(spec)) = (self.counting, object.get("spec"))
            && let Some(why) = unsaid(&bounded, spec)
        {
            return Some(format!("failed quota: {name}: {why}"));
        }
        let unknown = self.unknown(quota)?;
        Some(format!("status unknown for quota: {name}, resources: {unknown}"))
    }

    /// What a change uses up more, or less, of what a quota bounds.
    fn delta(&self, quota: &Value, change: Change<'_>) -> Resources {
        let bounded = self.bounded(quota);
        let usage = |object: Option<&Object>| {
            let counted = object.filter(|object| scope::counts(quota, self.counting, object));
            let mut used = counted
                .map(|object| usage::usage(self.resource, self.counting, object))
                .unwrap_or_default();
            used.retain(|name, _| bounded.contains(&name.as_str()));
            used
        };
        let mut delta = usage(change.new);
        for (name, amount) in usage(change.old) {
            let more = delta.get(&name).copied().unwrap_or_default();
            delta.insert(name, more.minus(amount));
        }
        delta.retain(|_, amount| !amount.is_zero());
        delta
    }
}

/// Says what of a change is more than a quota has left.
fn exceeded(quota: &Value, delta: &Resources) -> Option<String> {
    let (hard, used) =
        (sum::resources(&quota["status"]["hard"]), sum::resources(&quota["status"]["used"]));
    let over: Vec<&String> = delta
        .iter()
        .filter(|(name, more)| {
            let used = used.get(*name).copied().unwrap_or_default();
            more.nanos() > 0 && hard.get(*name).is_some_and(|most| used.plus(**more) > *most)
        })
        .map(|(name, _)| name)
        .collect();
    if over.is_empty() {
        return None;
    }
    let told = |amounts: &Resources| {
        let parts = over.iter().filter_map(|name| {
            let amount = amounts.get(*name)?;
            Some(format!("{name}={amount}"))
        });
        parts.collect::<Vec<_>>().join(",")
    };
    let name = quota["metadata"]["name"].as_str().unwrap_or_default();
    Some(format!(
        "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
        told(delta),
        told(&used),
        told(&hard)
    ))
}

/// A quota's status after a change. What nobody has counted yet stays unknown.
fn spent(status: &Value, delta: &Resources) -> Value {
    let mut used = sum::resources(&status["used"]);
    let mut status = status.clone();
    let mut changed = false;
    for (name, more) in delta {
        if let Some(there) = used.get_mut(name) {
            let sum = there.plus(*more);
            *there = if sum.nanos() < 0 { Quantity::default() } else { sum };
            changed = true;
        }
    }
    if changed {
        status["used"] = sum::written(&used);
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(hard: Value, used: Value) -> Value {
        json!({"metadata": {"name": "q"}, "status": {"hard": hard, "used": used}})
    }

    #[test]
    fn what_is_left_can_be_used() {
        let quota = quota(json!({"pods": "3", "cpu": "2"}), json!({"pods": "2", "cpu": "1500m"}));
        let delta = |pods, cpu: &str| {
            let cpu = Quantity::read(cpu);
            Resources::from([("pods".into(), Quantity::count(pods)), ("cpu".into(), cpu)])
        };
        assert_eq!(exceeded(&quota, &delta(1, "500m")), None);
        assert_eq!(
            exceeded(&quota, &delta(1, "600m")).as_deref(),
            Some("exceeded quota: q, requested: cpu=600m, used: cpu=1500m, limited: cpu=2")
        );
        let less = Resources::from([("cpu".into(), Quantity::read("-9"))]);
        assert_eq!(exceeded(&quota, &less), None);
        assert_eq!(spent(&quota["status"], &less)["used"], json!({"pods": "2", "cpu": "0"}));
        let status = spent(&quota["status"], &delta(1, "500m"));
        assert_eq!(status["used"], json!({"pods": "3", "cpu": "2"}));
    }
}
