//! The cells of the table form for built-in kinds: what `kubectl get` prints in each column.
//!
//! `facts/builtin.json` says which columns a kind has; here stands how each comes about, as a
//! [`Recipe`], and what it means, in our own words. A recipe is data wherever the cell is a field, a
//! count, a list or an age; what upstream's printers compute is a function beside its kind.

mod access;
mod cluster;
mod devices;
mod events;
mod network;
mod pods;
mod recipe;
mod storage;
mod workloads;

pub(crate) use self::pods::finished;
pub(crate) use self::recipe::Recipe;

/// A column's name, its recipe, and what it means.
type Column = (&'static str, Recipe, &'static str);

/// A kind as `<group version> <kind>` and the columns that are its own.
type Kind = (&'static str, &'static [Column]);

const FAMILIES: [&[Kind]; 8] = [
    access::KINDS,
    cluster::KINDS,
    devices::KINDS,
    events::KINDS,
    network::KINDS,
    pods::KINDS,
    storage::KINDS,
    workloads::KINDS,
];

/// Columns that mean the same in every kind that does not say otherwise.
const COMMON: &[Column] = &[
    (
        "Name",
        Recipe::Text("metadata.name"),
        "The object's name, its own within namespace and kind.",
    ),
    ("Age", Recipe::Age("metadata.creationTimestamp", UNKNOWN), "Time since it was created."),
    (
        "Created At",
        Recipe::TextOr("metadata.creationTimestamp", "0001-01-01T00:00:00Z"),
        "When it was created.",
    ),
];

/// What stands for nothing.
const NONE: &str = "<none>";
/// What stands for a field that nobody set.
const UNSET: &str = "<unset>";
/// What stands for something that nobody knows yet.
const UNKNOWN: &str = "<unknown>";

/// How the cells of a kind's column come about, and what they mean.
pub(super) fn column(kind: &str, name: &str) -> Option<(&'static Recipe, &'static str)> {
    let own = FAMILIES.iter().copied().flatten().find(|(known, _)| *known == kind);
    let columns = own.into_iter().flat_map(|(_, columns)| columns.iter()).chain(COMMON);
    let mut found = columns.filter(|(known, ..)| *known == name);
    found.next().map(|(_, recipe, words)| (recipe, *words))
}

#[cfg(test)]
mod tests;
