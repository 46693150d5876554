//! Lays catalogue files over one another and checks the whole.
//!
//! A file holds `defaults` (fields for all its rows), `policies` and `rows`. A row or policy that is
//! already there gets the fields that the file names; the others stay. A row may stand for many
//! codes (`xid: 39-41 70-72`), so that a table of 172 codes stays readable.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::error::{CatalogueError, UnknownWord};
use super::fields::{Context, Fields, MAX_ERRORS};
use super::row::{Row, RowId, Then};
use super::{Catalogue, Policy, Step, decode};

/// The policy of a fault whose cause is another one.
pub(super) const FOLLOW: &str = "follow";

/// The built-in catalogue: name and text of each file, in the order in which they are laid.
pub const FILES: &[(&str, &str)] = &[
    ("policy.yaml", include_str!("../../catalogue/policy.yaml")),
    ("xid.yaml", include_str!("../../catalogue/xid.yaml")),
    ("xid74.yaml", include_str!("../../catalogue/xid74.yaml")),
    ("nvlink5.yaml", include_str!("../../catalogue/nvlink5.yaml")),
    ("sxid.yaml", include_str!("../../catalogue/sxid.yaml")),
    ("gpu.yaml", include_str!("../../catalogue/gpu.yaml")),
    ("fabric.yaml", include_str!("../../catalogue/fabric.yaml")),
    ("node.yaml", include_str!("../../catalogue/node.yaml")),
    ("bmc.yaml", include_str!("../../catalogue/bmc.yaml")),
];

/// The largest file of a site, in bytes.
const MAX_FILE: usize = 1 << 20;
/// The most rows of a catalogue.
const MAX_ROWS: usize = 10_000;

/// The fields of a row or policy before they are read, and which file set each.
struct Raw {
    file: String,
    fields: Map<String, Value>,
    files: BTreeMap<String, String>,
}

#[derive(Default)]
struct Layers {
    rows: BTreeMap<String, Raw>,
    policies: BTreeMap<String, Raw>,
    errors: RefCell<Vec<CatalogueError>>,
}

pub(super) fn load(site: &[(&str, &str)]) -> Result<Catalogue, Vec<CatalogueError>> {
    let mut layers = Layers::default();
    for (name, text) in FILES {
        layers.lay(name, text, true);
    }
    for (name, text) in site {
        layers.lay(name, text, false);
    }
    let policies = layers.policies();
    let rows = layers.rows(&policies);
    let errors = layers.errors.into_inner();
    if errors.is_empty() { Ok(Catalogue { rows, policies }) } else { Err(errors) }
}

impl Layers {
    fn wrong(&self, file: &str, row: Option<&str>, field: Option<&str>, reason: impl Into<String>) {
        let mut errors = self.errors.borrow_mut();
        if errors.len() < MAX_ERRORS {
            errors.push(CatalogueError {
                file: file.to_owned(),
                row: row.map(|row| row.chars().take(80).collect()),
                field: field.map(str::to_owned),
                reason: reason.into(),
            });
        }
    }

    fn lay(&mut self, file: &str, text: &str, built_in: bool) {
        if text.len() > MAX_FILE {
            self.wrong(file, None, None, format!("is larger than {MAX_FILE} bytes"));
            return;
        }
        let map = match serde_saphyr::from_str::<Value>(text) {
            Ok(Value::Object(map)) => map,
            Ok(Value::Null) => return,
            Ok(_) => {
                self.wrong(file, None, None, "must be a map with rows or policies");
                return;
            }
            Err(error) => {
                let first = error.to_string();
                let first = first.lines().next().unwrap_or_default();
                self.wrong(file, None, None, format!("is no YAML: {first}"));
                return;
            }
        };
        const KEYS: [&str; 3] = ["defaults", "policies", "rows"];
        for key in map.keys().filter(|key| !KEYS.contains(&key.as_str())) {
            let valid = UnknownWord::new(key, KEYS.into_iter());
            self.wrong(file, None, Some(key), format!("field {valid}"));
        }
        let none = Map::new();
        let defaults = map.get("defaults").and_then(Value::as_object).unwrap_or(&none);
        for policy in self.entries(file, &map, "policies") {
            let Some(name) = policy.get("name").and_then(Value::as_str) else {
                self.wrong(file, None, Some("policies"), "each must have a name");
                continue;
            };
            let name = name.to_owned();
            merge(&mut self.policies, file, &name, policy, &none);
        }
        for row in self.entries(file, &map, "rows") {
            for (id, row) in self.expand(file, row) {
                let known = self.rows.contains_key(&id);
                if known && built_in {
                    self.wrong(file, Some(&id), None, "stands twice in the built-in catalogue");
                } else if !known && !built_in && !whole(&row) {
                    let ids = self.rows.keys().map(String::as_str);
                    let valid = UnknownWord::new(&id, ids);
                    self.wrong(
                        file,
                        Some(&id),
                        Some("id"),
                        format!("row {valid}; a new row needs meaning and seen"),
                    );
                } else if self.rows.len() < MAX_ROWS {
                    merge(&mut self.rows, file, &id, row, defaults);
                }
            }
        }
    }

    fn entries(&self, file: &str, map: &Map<String, Value>, key: &str) -> Vec<Map<String, Value>> {
        let list = match map.get(key) {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(list)) => list,
            Some(_) => {
                self.wrong(file, None, Some(key), "must be a list of maps");
                return Vec::new();
            }
        };
        let mut entries = Vec::new();
        for (i, entry) in list.iter().enumerate() {
            match entry {
                Value::Object(entry) => entries.push(entry.clone()),
                _ => self.wrong(file, None, Some(&format!("{key}[{i}]")), "must be a map"),
            }
        }
        entries
    }

    /// A row's name, or for `xid` and `sxid` the names of all its codes.
    fn expand(&self, file: &str, mut row: Map<String, Value>) -> Vec<(String, Map<String, Value>)> {
        for family in ["xid", "sxid"] {
            let Some(codes) = row.remove(family) else { continue };
            let text = codes.as_str().map_or_else(|| codes.to_string(), str::to_owned);
            let Some(codes) = ranges(&text) else {
                let reason = format!("{text:?} is no list of codes such as \"39-41 70\"");
                self.wrong(file, None, Some(family), reason);
                return Vec::new();
            };
            let each = |code: u32| {
                let mut row = row.clone();
                if let Some(Value::String(meaning)) = row.get_mut("meaning") {
                    *meaning = meaning.replace("{code}", &code.to_string());
                }
                (format!("{family}/{code}"), row)
            };
            return codes.into_iter().map(each).collect();
        }
        match row.remove("id") {
            Some(Value::String(id)) => vec![(id, row)],
            _ => {
                self.wrong(file, None, Some("rows"), "each must have an id, or xid or sxid codes");
                Vec::new()
            }
        }
    }

    fn policies(&self) -> BTreeMap<String, Policy> {
        let read = |(name, raw): (&String, &Raw)| {
            let context = self.context(name, raw);
            Some((
                name.clone(),
                decode::policy(&Fields::new(&context, &raw.fields, decode::POLICY))?,
            ))
        };
        self.policies.iter().filter_map(read).collect()
    }

    fn rows(&self, policies: &BTreeMap<String, Policy>) -> BTreeMap<RowId, Row> {
        let mut rows = BTreeMap::new();
        for (id, raw) in &self.rows {
            let context = self.context(id, raw);
            let fields = Fields::new(&context, &raw.fields, decode::ROW);
            let Some(row) = decode::row(id, &fields) else { continue };
            self.check(&fields, &row, policies);
            rows.insert(row.id.clone(), row);
        }
        rows
    }

    /// What no single field shows: policies and rows that are named exist, and repeats lead to a
    /// step that the ladder has.
    fn check(&self, fields: &Fields<'_>, row: &Row, policies: &BTreeMap<String, Policy>) {
        let names = || self.policies.keys().map(String::as_str);
        let Some(policy) = policies.get(&row.policy) else {
            if !self.policies.contains_key(&row.policy) {
                fields.wrong("policy", UnknownWord::new(&row.policy, names()).to_string());
            }
            return;
        };
        for repeat in &row.repeats {
            if policy.rung(repeat.escalate).is_none() {
                let order = |step: Step| Step::ALL.iter().position(|s| *s == step).unwrap_or(0);
                let wanted = order(repeat.escalate);
                let steps = policy.ladder.iter().map(|rung| rung.step);
                let near = steps.min_by_key(|step| order(*step).abs_diff(wanted));
                let near = near.map_or("a policy with a ladder", Step::as_str);
                let reason = format!(
                    "{} is not on the ladder of policy {}; the nearest valid value is {near:?}",
                    repeat.escalate, policy.name
                );
                fields.wrong("repeats", reason);
            }
        }
        for correlation in &row.correlations {
            if let Then::Policy(name) = &correlation.then
                && !self.policies.contains_key(name)
            {
                fields.wrong("beside", UnknownWord::new(name, names()).to_string());
            }
            for with in correlation.with.iter().filter(|with| !with.ends_with('*')) {
                if !self.rows.contains_key(with) {
                    let ids = self.rows.keys().map(String::as_str);
                    fields.wrong("beside", format!("row {}", UnknownWord::new(with, ids)));
                }
            }
        }
    }

    fn context<'a>(&'a self, name: &'a str, raw: &'a Raw) -> Context<'a> {
        Context { row: name, file: &raw.file, files: &raw.files, errors: &self.errors }
    }
}

/// Can the row stand without one below it?
fn whole(row: &Map<String, Value>) -> bool {
    ["meaning", "seen"].iter().all(|field| row.contains_key(*field))
}

fn merge(
    all: &mut BTreeMap<String, Raw>,
    file: &str,
    name: &str,
    fields: Map<String, Value>,
    defaults: &Map<String, Value>,
) {
    let raw = all.entry(name.to_owned()).or_insert_with(|| Raw {
        file: file.to_owned(),
        fields: defaults.clone(),
        files: BTreeMap::new(),
    });
    for (field, value) in fields {
        raw.files.insert(field.clone(), file.to_owned());
        raw.fields.insert(field, value);
    }
}

/// `39-41 70` as 39, 40, 41, 70.
fn ranges(text: &str) -> Option<Vec<u32>> {
    let mut codes = Vec::new();
    for word in text.split_whitespace() {
        let (low, high) = word.split_once('-').unwrap_or((word, word));
        let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
        if low > high || (high - low) as usize > MAX_ROWS || codes.len() > MAX_ROWS {
            return None;
        }
        codes.extend(low..=high);
    }
    (!codes.is_empty()).then_some(codes)
}
