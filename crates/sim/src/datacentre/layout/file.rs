//! A site as its owner describes it: YAML in, a layout or the wrong field out.

use super::demo::{ledger, types};
use super::{Layout, LayoutError, MAX_MACHINES, MAX_SLOTS, MachinePlan, Vendor, macs};
use api::instance_type::InstanceTypeSpec;
use api::ledger::LedgerSpec;
use api::machine::Place;
use api::node_pool::NodePoolSpec;
use api::rack::RackSpec;
use api::switch::{SwitchSpec, Tier};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// A description of 10,000 machines by groups has a few hundred kilobytes.
const MAX_BYTES: usize = 8 << 20;
const PORTS: u32 = 64;
const POWER_ONS: u32 = 4;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    site: String,
    /// Beside the built-in ones.
    #[serde(default)]
    types: BTreeMap<String, InstanceTypeSpec>,
    racks: Vec<RackEntry>,
    #[serde(default)]
    spines: Vec<String>,
    #[serde(default)]
    pools: BTreeMap<String, NodePoolSpec>,
    #[serde(default)]
    ledger: Option<LedgerSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RackEntry {
    name: String,
    #[serde(default)]
    row: Option<String>,
    #[serde(default)]
    pdu: Option<String>,
    #[serde(default)]
    leaves: Vec<String>,
    #[serde(default)]
    nvlink_domain: Option<String>,
    #[serde(default)]
    needed: Option<u32>,
    #[serde(default)]
    power_ons: Option<u32>,
    #[serde(default)]
    vendor: Vendor,
    machines: Vec<Group>,
}

/// Some equal machines, in the next slots of the rack.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Group {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default = "one")]
    count: u32,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    slot: Option<u16>,
    #[serde(default)]
    leaf: Option<String>,
    #[serde(default)]
    macs: Vec<String>,
    #[serde(default)]
    vendor: Option<Vendor>,
    #[serde(default)]
    dpu: Option<String>,
    #[serde(default)]
    firmware: BTreeMap<String, String>,
}

const fn one() -> u32 {
    1
}

impl Layout {
    /// The site that a file describes. Names that it does not give follow from rack and slot.
    ///
    /// # Errors
    /// What is wrong with which field, and what would be right.
    pub fn read(yaml: &str) -> Result<Self, LayoutError> {
        if yaml.len() > MAX_BYTES {
            let reason = format!("must be at most {MAX_BYTES} bytes, not {}", yaml.len());
            return Err(LayoutError::new("file", reason));
        }
        let file: File = serde_saphyr::from_str(yaml)
            .map_err(|error| LayoutError::new("file", error.to_string()))?;
        named("site", &file.site)?;
        let mut known = types()?;
        known.extend(file.types);
        let mut layout = Self {
            site: file.site,
            types: known,
            racks: BTreeMap::new(),
            switches: BTreeMap::new(),
            pools: file.pools,
            machines: Vec::new(),
            ledger: file.ledger.unwrap_or_else(ledger),
        };
        let mut taken = Taken::default();
        for (index, rack) in file.racks.iter().enumerate() {
            read_rack(&mut layout, &mut taken, rack, &format!("racks[{index}]"))?;
        }
        if layout.machines.is_empty() {
            return Err(LayoutError::new("racks", "must hold at least one machine"));
        }
        for (index, spine) in file.spines.iter().enumerate() {
            named(&format!("spines[{index}]"), spine)?;
            let spec = SwitchSpec { tier: Tier::Spine, rack: None, ports: PORTS };
            layout.switches.insert(spine.clone(), spec);
        }
        for (name, pool) in &layout.pools {
            named(&format!("pools.{name}"), name)?;
            layout.known_type(&format!("pools.{name}.instanceType"), &pool.instance_type)?;
        }
        Ok(layout)
    }

    /// Whether a field names a type that there is.
    pub(crate) fn known_type(&self, field: &str, kind: &str) -> Result<(), LayoutError> {
        if self.types.contains_key(kind) {
            return Ok(());
        }
        let near = self
            .types
            .keys()
            .min_by_key(|known| strsim::damerau_levenshtein(&short(kind), known))
            .map_or("", String::as_str);
        let reason = format!(
            "{:?} is no instance type: did you mean {near:?}? Describe a new one under types",
            short(kind)
        );
        Err(LayoutError::new(field, reason))
    }
}

/// What may stand only once.
#[derive(Default)]
struct Taken {
    machines: BTreeSet<String>,
    macs: BTreeSet<String>,
}

fn read_rack(
    layout: &mut Layout,
    taken: &mut Taken,
    rack: &RackEntry,
    field: &str,
) -> Result<(), LayoutError> {
    named(&format!("{field}.name"), &rack.name)?;
    let mut slot = 0_u16;
    let first = layout.machines.len();
    let mut slots = BTreeSet::new();
    for (index, group) in rack.machines.iter().enumerate() {
        let field = format!("{field}.machines[{index}]");
        check(layout, group, &field)?;
        for _ in 0..group.count {
            slot = group.slot.unwrap_or_else(|| slot.saturating_add(1));
            if slot == 0 || u32::from(slot) > MAX_SLOTS || !slots.insert(slot) {
                let reason = format!("{slot} is taken or not 1 to {MAX_SLOTS}");
                return Err(LayoutError::new(&format!("{field}.slot"), reason));
            }
            let plan = plan(layout, rack, group, slot);
            if !taken.machines.insert(plan.name.clone()) {
                let reason =
                    format!("{} is there already: machines need names of their own", plan.name);
                return Err(LayoutError::new(&format!("{field}.name"), reason));
            }
            for mac in &plan.macs {
                if !taken.macs.insert(mac.clone()) {
                    let reason = format!("{mac} belongs to another machine");
                    return Err(LayoutError::new(&format!("{field}.macs"), reason));
                }
            }
            layout.machines.push(plan);
        }
    }
    spread(layout, rack, first);
    let count = u32::from(slots.iter().next_back().copied().unwrap_or_default()).max(1);
    let spec = RackSpec {
        site: layout.site.clone(),
        row: rack.row.clone(),
        slots: count,
        needed: rack.needed,
        nvlink_domain: rack.nvlink_domain.clone(),
        power_ons: rack.power_ons.unwrap_or(POWER_ONS).clamp(1, MAX_SLOTS),
    };
    if rack.needed.is_some_and(|needed| needed == 0 || needed > count) {
        return Err(LayoutError::new(
            &format!("{field}.needed"),
            format!("must be 1 to {count}, the slots of the rack"),
        ));
    }
    for leaf in &rack.leaves {
        named(&format!("{field}.leaves"), leaf)?;
        let spec = SwitchSpec { tier: Tier::Leaf, rack: Some(rack.name.clone()), ports: PORTS };
        layout.switches.insert(leaf.clone(), spec);
    }
    if layout.racks.insert(rack.name.clone(), spec).is_some() {
        let reason = format!("{} is there already: racks need names of their own", rack.name);
        return Err(LayoutError::new(&format!("{field}.name"), reason));
    }
    Ok(())
}

fn check(layout: &Layout, group: &Group, field: &str) -> Result<(), LayoutError> {
    let error =
        |name: &str, reason: String| Err(LayoutError::new(&format!("{field}.{name}"), reason));
    layout.known_type(&format!("{field}.type"), &group.kind)?;
    let left = (MAX_MACHINES as usize).saturating_sub(layout.machines.len());
    if group.count == 0 || group.count > MAX_SLOTS || group.count as usize > left {
        return error("count", format!("must be 1 to {MAX_SLOTS}, not {}", group.count));
    }
    if let Some(name) = &group.name {
        named(&format!("{field}.name"), name)?;
    }
    if group.count > 1 && (group.name.is_some() || group.slot.is_some() || !group.macs.is_empty()) {
        return error("count", "must be 1 where name, slot or macs are given".to_owned());
    }
    for mac in &group.macs {
        let pair = |pair: &str| {
            pair.len() == 2
                && pair.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        if mac.split(':').count() != 6 || !mac.split(':').all(pair) {
            return error("macs", format!("{:?} must be as 02:5e:00:00:00:01", short(mac)));
        }
    }
    Ok(())
}

fn plan(layout: &Layout, rack: &RackEntry, group: &Group, slot: u16) -> MachinePlan {
    let place = Place {
        site: layout.site.clone(),
        row: rack.row.clone(),
        rack: rack.name.clone(),
        slot,
        leaf: group.leaf.clone(),
        pdu: rack.pdu.clone(),
        nvlink_domain: rack.nvlink_domain.clone(),
    };
    let name = group.name.clone().unwrap_or_else(|| format!("{}-s{slot:02}", rack.name));
    let own = macs(layout.machines.len());
    MachinePlan {
        name,
        instance_type: group.kind.clone(),
        place,
        macs: if group.macs.is_empty() { own } else { group.macs.clone() },
        vendor: group.vendor.unwrap_or(rack.vendor),
        dpu: group.dpu.clone(),
        delivered: group.firmware.clone(),
    }
}

/// Machines without a leaf hang on those of the rack, in equal shares from the bottom.
fn spread(layout: &mut Layout, rack: &RackEntry, first: usize) {
    let machines = layout.machines.get_mut(first..).unwrap_or_default();
    let share = machines.len().div_ceil(rack.leaves.len().max(1)).max(1);
    for (index, machine) in machines.iter_mut().enumerate() {
        if machine.place.leaf.is_none() {
            machine.place.leaf = rack.leaves.get(index / share).cloned();
        }
    }
}

/// Names become names of objects and labels.
fn named(field: &str, name: &str) -> Result<(), LayoutError> {
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends = name.bytes().next().is_some_and(letter) && name.bytes().last().is_some_and(letter);
    if ends && name.len() <= 63 && name.bytes().all(|b| letter(b) || b == b'-') {
        return Ok(());
    }
    let reason =
        format!("{:?} must be lower-case letters, digits and - within, at most 63", short(name));
    Err(LayoutError::new(field, reason))
}

fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: &str = "
site: lab
racks:
  - name: a
    pdu: pdu-a
    leaves: [leaf-1, leaf-2]
    vendor: cedar
    machines:
      - {type: gd-8xh100ib-i128, count: 3}
      - {type: cd-gp-a192-genoa, name: login, slot: 9, macs: ['02:00:00:00:00:09'], firmware: {bios: '1.0'}}
spines: [spine-1]
pools:
  train: {instanceType: gd-8xh100ib-i128, tenant: acme, targetNodes: 2}
";

    #[test]
    fn a_described_site_is_read() {
        let layout = Layout::read(SITE).unwrap();
        let names: Vec<&str> = layout.machines.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["a-s01", "a-s02", "a-s03", "login"]);
        let leaves: Vec<_> =
            layout.machines.iter().filter_map(|m| m.place.leaf.as_deref()).collect();
        assert_eq!(leaves, ["leaf-1", "leaf-1", "leaf-2", "leaf-2"]);
        assert!(layout.machines.iter().all(|m| m.vendor == Vendor::Cedar));
        assert_eq!(layout.racks["a"].slots, 9);
        assert_eq!(layout.switches.len(), 3);
    }

    #[test]
    fn errors_name_the_field_and_the_remedy() {
        for (was, is, field, says) in [
            ("site: lab", "site: Lab", "site", "lower-case"),
            ("site: lab", "sight: lab", "file", "sight"),
            ("count: 3", "count: 0", "racks[0].machines[0].count", "1 to 64"),
            ("count: 3", "count: 65", "racks[0].machines[0].count", "1 to 64"),
            (
                "gd-8xh100ib-i128, count",
                "gd-8xh100, count",
                "racks[0].machines[0].type",
                "gd-8xh100ib-i128",
            ),
            ("slot: 9", "slot: 2", "racks[0].machines[1].slot", "taken"),
            ("name: login", "name: a-s01", "racks[0].machines[1].name", "already"),
            ("02:00:00:00:00:09", "02-00", "racks[0].machines[1].macs", "as 02:5e"),
            ("02:00:00:00:00:09", "02:5e:00:00:00:00", "racks[0].machines[1].macs", "another"),
            (
                "instanceType: gd-8xh100ib-i128",
                "instanceType: h100",
                "pools.train.instanceType",
                "types",
            ),
            ("    pdu: pdu-a", "    needed: 99", "racks[0].needed", "1 to 9"),
        ] {
            let text = SITE.replace(was, is);
            assert_ne!(text, SITE, "{was}");
            let error = Layout::read(&text).unwrap_err();
            assert_eq!(error.field, field, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn hostile_files_are_refused() {
        let bomb = format!("a: &a [1,1,1,1,1,1,1,1]\n{}", "b: [*a,*a,*a,*a]\n".repeat(20_000));
        for text in ["", "[]", "site: lab\nracks: []", &"[".repeat(100_000), &bomb] {
            assert!(Layout::read(text).is_err());
        }
    }
}
