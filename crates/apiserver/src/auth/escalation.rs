//! Nobody grants what they do not hold.
//!
//! Rules are broken down into single verb, group, resource and name, and each must be covered by
//! one rule of the grantor. The work is bounded: a request whose breakdown would take too long is
//! refused rather than computed.
//!
//! Pure comparison only: the caller lets `system:masters` and holders of `escalate` or `bind` pass
//! before asking, and finds the rules on both sides.

use std::collections::{BTreeMap, BTreeSet};

use super::User;
use super::authz::aggregate;
use super::quote::{quote, quote_all};
use super::rbac::{PolicyRule, Unresolved, has, has_or_all, url_covers};

/// String comparisons that one check may take: some tenths of a second.
const MAX_COMPARISONS: usize = 50_000_000;
/// Uncovered rules that one message may list, before they are compacted.
const MAX_MISSING: usize = 10_000;

/// Why rules may not be granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uncovered {
    /// These, broken down, are not held.
    Missing(Vec<PolicyRule>),
    /// There are too many combinations to check.
    TooMany,
}

/// Whether whoever holds `held` may grant all of `wanted`.
pub fn rules_cover(held: &[&PolicyRule], wanted: &[PolicyRule]) -> Result<(), Uncovered> {
    let entries: usize = held.iter().map(|rule| size(rule)).sum();
    let atoms = wanted.iter().fold(0_usize, |sum, rule| sum.saturating_add(breadth(rule)));
    if atoms.saturating_mul(entries.max(1)) > MAX_COMPARISONS {
        return Err(Uncovered::TooMany);
    }
    let mut missing = Vec::new();
    for atom in wanted.iter().flat_map(atoms_of) {
        if !held.iter().any(|rule| atom.is_covered_by(rule)) {
            if missing.len() == MAX_MISSING {
                return Err(Uncovered::TooMany);
            }
            missing.push(atom.to_rule());
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(Uncovered::Missing(missing)) }
}

/// Whether `user`, who holds `held`, may grant `wanted`; if not, the sentence that follows
/// `... is forbidden: `. `unresolved` are the bindings that led nowhere while `held` was gathered,
/// `resource` is what is being written.
pub fn confirm_no_escalation(
    user: &User,
    held: &[&PolicyRule],
    wanted: &[PolicyRule],
    unresolved: &[Unresolved<'_>],
    resource: &str,
) -> Result<(), String> {
    let (name, groups) = (quote(&user.name), quote_all(&user.groups));
    let mut message = match rules_cover(held, wanted) {
        Ok(()) => return Ok(()),
        Err(Uncovered::TooMany) => {
            return Err(format!(
                "user {name} (groups={groups}) is attempting to grant more combinations of \
                 RBAC permissions than can be checked"
            ));
        }
        Err(Uncovered::Missing(rules)) => {
            let lines: BTreeSet<String> = compact(rules).iter().map(describe).collect();
            let lines: Vec<String> = lines.into_iter().collect();
            format!(
                "user {name} (groups={groups}) is attempting to grant RBAC permissions not \
                 currently held:\n{}",
                lines.join("\n")
            )
        }
    };
    if !unresolved.is_empty() {
        let problems = aggregate(unresolved, |problem| problem.as_write_to(resource));
        message.push_str(&format!("; resolution errors: [{problems}]"));
    }
    Err(message)
}

/// A rule for one verb on one thing.
#[derive(Clone, Copy)]
enum Atom<'a> {
    Resource { verb: &'a str, group: &'a str, resource: &'a str, name: Option<&'a str> },
    Url { verb: &'a str, url: &'a str },
}

fn atoms_of(rule: &PolicyRule) -> impl Iterator<Item = Atom<'_>> {
    let PolicyRule { verbs, api_groups, resources, resource_names, non_resource_urls } = rule;
    let any_name = resource_names.is_empty().then_some(None);
    let names = move || any_name.into_iter().chain(resource_names.iter().map(|n| Some(n.as_str())));
    let on_resources = api_groups.iter().flat_map(move |group| {
        resources.iter().flat_map(move |resource| {
            verbs.iter().flat_map(move |verb| {
                names().map(move |name| Atom::Resource { verb, group, resource, name })
            })
        })
    });
    let on_urls = non_resource_urls
        .iter()
        .flat_map(move |url| verbs.iter().map(move |verb| Atom::Url { verb, url }));
    on_resources.chain(on_urls)
}

/// How many atoms a rule breaks down into.
fn breadth(rule: &PolicyRule) -> usize {
    let verbs = rule.verbs.len();
    let resources = rule.api_groups.len().saturating_mul(rule.resources.len());
    let named = resources.saturating_mul(rule.resource_names.len().max(1));
    named.saturating_add(rule.non_resource_urls.len()).saturating_mul(verbs)
}

fn size(rule: &PolicyRule) -> usize {
    let PolicyRule { verbs, api_groups, resources, resource_names, non_resource_urls } = rule;
    let lists = [verbs, api_groups, resources, resource_names, non_resource_urls];
    1 + lists.map(Vec::len).iter().sum::<usize>()
}

impl Atom<'_> {
    fn is_covered_by(&self, held: &PolicyRule) -> bool {
        match *self {
            Self::Resource { verb, group, resource, name } => {
                has_or_all(&held.verbs, verb)
                    && has_or_all(&held.api_groups, group)
                    && covers_resource(&held.resources, resource)
                    // One name is less than all names, never the other way round.
                    && (held.resource_names.is_empty()
                        || name.is_some_and(|name| has(&held.resource_names, name)))
            }
            // A rule for URLs that has resource names covers no URL.
            Self::Url { verb, url } => {
                has_or_all(&held.verbs, verb)
                    && held.resource_names.is_empty()
                    && held.non_resource_urls.iter().any(|pattern| url_covers(pattern, url))
            }
        }
    }

    fn to_rule(self) -> PolicyRule {
        let one = |text: &str| vec![text.to_owned()];
        match self {
            Self::Resource { verb, group, resource, name } => PolicyRule {
                verbs: one(verb),
                api_groups: one(group),
                resources: one(resource),
                resource_names: name.map(one).unwrap_or_default(),
                ..PolicyRule::default()
            },
            Self::Url { verb, url } => PolicyRule {
                verbs: one(verb),
                non_resource_urls: one(url),
                ..PolicyRule::default()
            },
        }
    }
}

/// `*` covers all, `*/scale` every scale.
fn covers_resource(held: &[String], wanted: &str) -> bool {
    has_or_all(held, wanted)
        || wanted.split_once('/').is_some_and(|(_, subresource)| {
            held.iter().any(|entry| entry.strip_prefix("*/") == Some(subresource))
        })
}

/// Joins the verbs of rules that are otherwise the same; rules for URLs stay single.
fn compact(rules: Vec<PolicyRule>) -> Vec<PolicyRule> {
    type Thing = (Vec<String>, Vec<String>, Vec<String>);
    let mut compacted = Vec::new();
    let mut by_thing: BTreeMap<Thing, Vec<String>> = BTreeMap::new();
    for rule in rules {
        if rule.non_resource_urls.is_empty() {
            let thing = (rule.api_groups, rule.resources, rule.resource_names);
            by_thing.entry(thing).or_default().extend(rule.verbs);
        } else {
            compacted.push(rule);
        }
    }
    compacted.extend(by_thing.into_iter().map(
        |((api_groups, resources, resource_names), verbs)| PolicyRule {
            verbs,
            api_groups,
            resources,
            resource_names,
            ..PolicyRule::default()
        },
    ));
    compacted
}

/// `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`, empty lists left out.
fn describe(rule: &PolicyRule) -> String {
    let lists = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let filled = lists.iter().filter(|(_, list)| !list.is_empty());
    let parts: Vec<String> =
        filled.map(|(label, list)| format!("{label}:{}", quote_all(list))).collect();
    format!("{{{}}}", parts.join(", "))
}

#[cfg(test)]
#[path = "escalation_tests.rs"]
mod tests;
