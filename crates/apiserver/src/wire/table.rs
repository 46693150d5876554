//! The table form: what `kubectl get` prints, one row per object.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::present::metadata_only;
use crate::resource::{Cell, Column, Version};

/// How much of each object a row carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    #[default]
    Metadata,
    Object,
}

impl Include {
    /// The `includeObject` parameter.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "Metadata" => Some(Self::Metadata),
            "None" => Some(Self::None),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

/// What the description of a built-in kind's name column says.
const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

/// How a `Table` is made of objects.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape<'a> {
    /// The version that the objects are shown in.
    pub(super) of: &'a Version,
    /// The version of the table itself.
    pub(super) version: &'static str,
    pub(super) include: Include,
    /// Only the first event of a watch defines the columns.
    pub(super) defines_columns: bool,
    pub(super) now: Timestamp,
}

/// A `Table` of objects.
pub(super) fn table(shape: Shape<'_>, objects: &[Value], metadata: Value) -> Value {
    let rows: Vec<Value> = objects.iter().map(|object| row(shape, object)).collect();
    let columns = if shape.defines_columns { columns(shape.of).into() } else { Value::Null };
    json!({
        "kind": "Table",
        "apiVersion": format!("meta.k8s.io/{}", shape.version),
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

fn columns(of: &Version) -> Vec<Value> {
    let name = json!({
        "name": "Name", "type": "string", "format": "name", "description": NAME, "priority": 0,
    });
    let others = of.columns.iter().map(|c| {
        json!({
            "name": c.name, "type": c.type_, "format": c.format,
            "description": c.description, "priority": c.priority,
        })
    });
    std::iter::once(name).chain(others).collect()
}

fn row(shape: Shape<'_>, object: &Value) -> Value {
    let name = object.get("metadata").and_then(|m| m.get("name")).cloned();
    let mut cells = vec![name.unwrap_or_else(|| "".into())];
    cells.extend(shape.of.columns.iter().map(|column| cell(column, object, shape.now)));
    let shown = match shape.include {
        Include::None => Value::Null,
        Include::Metadata => metadata_only(object, shape.version),
        Include::Object => object.clone(),
    };
    json!({"cells": cells, "object": shown})
}

fn cell(column: &Column, object: &Value, now: Timestamp) -> Value {
    let path = match &column.cell {
        Cell::Path(path) => path,
        Cell::Code(code) => return code(object, now),
    };
    match path.cell(&column.type_, object) {
        Value::String(time) if column.type_ == "date" => age(&time, now).into(),
        cell => cell,
    }
}

/// The time since, in at most two units, as kubectl prints it.
pub(crate) fn age(time: &str, now: Timestamp) -> String {
    let Ok(then) = time.parse::<Timestamp>() else { return "<invalid>".to_owned() };
    let seconds = now.as_second() - then.as_second();
    human(seconds)
}

/// Kubernetes' short form of a duration in seconds.
pub(crate) fn human(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |big: i64, unit: &str, small: i64, sub: &str| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{sub}") }
    };
    match seconds {
        i64::MIN..-1 => "<invalid>".to_owned(),
        -1..=0 => "0s".to_owned(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(s / MINUTE, "m", s % MINUTE, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(s / HOUR, "h", s % HOUR / MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(s / DAY, "d", s % DAY / HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(s / YEAR, "y", s % YEAR / DAY, "d"),
        s => format!("{}y", s / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_kubectl_prints_them() {
        for (seconds, want) in [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (30 * 3600, "30h"),
            (3 * 86400 + 7200, "3d2h"),
            (100 * 86400, "100d"),
            (3 * 365 * 86400, "3y"),
        ] {
            assert_eq!(human(seconds), want, "{seconds}");
        }
    }
}
