//! What a node wears: labels and taints that follow from its machine's object, and those that its pool
//! wants. Ours win: a pool cannot give a node another rack, nor a spare its freedom.

use super::look::Look;
use super::{Act, Clothes, FromPool, same_taint};
use api::names;
use api::node_pool::NodePoolSpec;
use api::state::{Role, State};
use k8s_openapi::api::core::v1::Taint;
use std::collections::BTreeMap;

/// The longest name or value of a label.
const LONGEST: usize = 63;
/// The longest prefix of a label's key, before its `/`.
const LONGEST_PREFIX: usize = 253;

pub(super) fn dress(look: &mut Look<'_>) {
    let Some(node) = look.observed.node else { return };
    let machine = look.observed.machine;
    let role = machine.status.as_ref().map(|status| status.role).unwrap_or_default();
    let mut clothes = Clothes { labels: ours(look), ..Clothes::default() };
    for (key, on) in [
        (names::TAINT_STATE, machine.state() != State::Production),
        (names::TAINT_SPARE, role == Role::Spare),
    ] {
        let taint = taint(key, "NoSchedule");
        if on { clothes.on.push(taint) } else { clothes.off.push(taint) }
    }
    if let Some(pool) = look.observed.pool {
        add(&pool.spec, &mut clothes);
    }
    take_off(&node.from_pool, &mut clothes);

    let worn = clothes.labels.iter().all(|(name, value)| node.labels.get(name) == value.as_ref());
    let value = |taint: &Taint| taint.value.clone().unwrap_or_default();
    let on = |taint: &Taint| {
        node.taints.iter().any(|there| same_taint(there, taint) && value(there) == value(taint))
    };
    let off = |taint: &Taint| !node.taints.iter().any(|there| same_taint(there, taint));
    if worn
        && clothes.on.iter().all(on)
        && clothes.off.iter().all(off)
        && clothes.from_pool == node.from_pool
    {
        return;
    }
    let why = format!("the machine is in {}, {}", machine.state(), role.name());
    look.deed(Act::Dress(clothes), why);
}

/// The labels that say where the machine stands, and how.
fn ours(look: &Look<'_>) -> BTreeMap<String, Option<String>> {
    let machine = look.observed.machine;
    let (spec, status) = (&machine.spec, machine.status.as_ref());
    let role = status.map(|status| status.role).unwrap_or_default();
    let some = |value: &str| Some(value.to_owned());
    [
        (names::MACHINE, some(machine.name())),
        (names::INSTANCE_TYPE, some(&spec.instance_type)),
        (names::ZONE, some(&spec.place.site)),
        (names::ROW, spec.place.row.clone()),
        (names::RACK, some(&spec.place.rack)),
        (names::SLOT, Some(spec.place.slot.to_string())),
        (names::LEAF, spec.place.leaf.clone()),
        (names::NVLINK_DOMAIN, spec.place.nvlink_domain.clone()),
        (names::STATE, Some(machine.state().label())),
        (names::ROLE, (role != Role::None).then(|| role.name().to_owned())),
        (names::POOL, status.and_then(|status| status.pool.clone())),
        (names::TENANT, status.filter(|s| s.pool.is_some()).and_then(|s| s.tenant.clone())),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// Adds what the pool wants, as far as it may and Kubernetes would take it.
fn add(pool: &NodePoolSpec, clothes: &mut Clothes) {
    for (key, value) in &pool.labels {
        if is_pools(key) && is_value(value) && !clothes.labels.contains_key(key) {
            clothes.labels.insert(key.clone(), Some(value.clone()));
            clothes.from_pool.labels.insert(key.clone());
        }
    }
    for taint in &pool.taints {
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        let value = taint.value.as_deref().unwrap_or_default();
        let fits = is_pools(&taint.key) && is_value(value);
        let again = clothes.on.iter().any(|there| same_taint(there, taint));
        if fits && effects.contains(&taint.effect.as_str()) && !again {
            clothes.from_pool.taints.insert(name(taint));
            // A time belongs to what was put on by somebody else.
            clothes.on.push(Taint { time_added: None, ..taint.clone() });
        }
    }
}

/// What an earlier wish of the pool, or another pool, has left on.
fn take_off(before: &FromPool, clothes: &mut Clothes) {
    for key in before.labels.difference(&clothes.from_pool.labels) {
        clothes.labels.entry(key.clone()).or_insert(None);
    }
    for name in before.taints.difference(&clothes.from_pool.taints) {
        if let Some((key, effect)) = name.rsplit_once(':').filter(|(key, _)| is_pools(key)) {
            clothes.off.push(taint(key, effect));
        }
    }
}

fn taint(key: &str, effect: &str) -> Taint {
    Taint { key: key.to_owned(), effect: effect.to_owned(), ..Taint::default() }
}

fn name(taint: &Taint) -> String {
    format!("{}:{}", taint.key, taint.effect)
}

/// Whether a pool may use this key: one that Kubernetes takes, and none of ours.
fn is_pools(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(p, n)| (Some(p), n));
    let domain = |prefix: &str| {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
        prefix.len() <= LONGEST_PREFIX && is_framed(prefix) && prefix.chars().all(fits)
    };
    prefix.is_none_or(|prefix| prefix != api::GROUP && domain(prefix))
        && !name.is_empty()
        && is_value(name)
}

/// Whether Kubernetes takes this as a label's value.
fn is_value(value: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    value.is_empty() || (value.len() <= LONGEST && is_framed(value) && value.chars().all(fits))
}

/// Whether it begins and ends with a letter or a digit.
fn is_framed(text: &str) -> bool {
    let framed = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    framed(text.chars().next()) && framed(text.chars().next_back())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_adds_what_kubernetes_takes_and_takes_nothing_of_ours() {
        let labels = [
            ("team", "search"),
            ("example.com/tier", "a.b-C_1"),
            ("empty", ""),
            (names::RACK, "r9"),
            ("fleet.seatrial.dev/mine", "x"),
            ("bad key", "x"),
            ("Bad.Prefix/x", "x"),
            ("value", "-x"),
        ];
        let pool = NodePoolSpec {
            labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            taints: vec![
                Taint { value: Some("yes".to_owned()), ..taint("dedicated", "NoSchedule") },
                taint("dedicated", "NoExecute"),
                taint("dedicated", "Sometimes"),
                taint(names::TAINT_SPARE, "NoSchedule"),
            ],
            ..NodePoolSpec::default()
        };
        let rack = (names::RACK.to_owned(), Some("r1".to_owned()));
        let mut clothes = Clothes { labels: [rack].into(), ..Clothes::default() };
        add(&pool, &mut clothes);
        let keys: Vec<&String> = clothes.from_pool.labels.iter().collect();
        assert_eq!(keys, ["empty", "example.com/tier", "team"]);
        assert_eq!(clothes.labels[names::RACK].as_deref(), Some("r1"));
        let on: Vec<String> = clothes.on.iter().map(name).collect();
        assert_eq!(on, ["dedicated:NoSchedule", "dedicated:NoExecute"]);

        // The pool changes its mind, and what it had wanted goes.
        let before = FromPool::read(&clothes.from_pool.text().unwrap());
        assert_eq!(before, clothes.from_pool);
        let mut clothes = Clothes::default();
        let less = NodePoolSpec { labels: [("team".into(), "b".into())].into(), ..pool };
        add(&NodePoolSpec { taints: Vec::new(), ..less }, &mut clothes);
        take_off(&before, &mut clothes);
        assert_eq!(clothes.labels["team"].as_deref(), Some("b"));
        assert_eq!(clothes.labels["empty"], None);
        assert_eq!(clothes.off.len(), 2);
        assert_eq!(clothes.from_pool.text().as_deref(), Some("team;"));
        assert_eq!(FromPool::default().text(), None);
    }
}
