//! Objects as kubectl prints them: the server's own tables, or JSON, YAML, names.

use std::io::Write;

use http::header::ACCEPT;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{ClientError, Cluster};
use crate::cmd::Outcome;

/// In which form objects are printed.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Output {
    /// The server's columns
    #[default]
    Table,
    /// More columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Only names
    Name,
}

/// What `get` takes.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Get {
    /// Only these
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// In which form
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Only those with these labels, as KEY=VALUE,KEY
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "names")]
    selector: Option<String>,
}

/// A table as the server sends it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Table {
    column_definitions: Option<Vec<Column>>,
    #[serde(default)]
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Column {
    name: String,
    #[serde(default)]
    priority: i32,
}

#[derive(Deserialize)]
struct Row {
    cells: Vec<Value>,
}

const AS_TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// Prints the objects of a collection, by the path of its API.
///
/// # Errors
/// What the API answered.
pub(crate) async fn get(cluster: &Cluster, collection: &str, kind: &str, get: &Get) -> Outcome {
    let mut paths: Vec<String> =
        get.names.iter().map(|name| format!("{collection}/{name}")).collect();
    if paths.is_empty() {
        let query =
            get.selector.as_deref().map(|selector| format!("?labelSelector={}", escaped(selector)));
        paths.push(format!("{collection}{}", query.unwrap_or_default()));
    }
    let accept = match get.output {
        Output::Table | Output::Wide => AS_TABLE,
        _ => "application/json",
    };
    let mut answers: Vec<Value> = Vec::new();
    for path in paths {
        answers.push(ask(cluster, &path, accept).await?);
    }
    let mut out = std::io::stdout().lock();
    match get.output {
        Output::Table | Output::Wide => {
            let wide = get.output == Output::Wide;
            let text = tables(answers, wide)?;
            if text.is_empty() {
                eprintln!("No {kind}s found");
            }
            out.write_all(text.as_bytes())?;
        }
        Output::Json => writeln!(out, "{}", serde_json::to_string_pretty(&whole(answers))?)?,
        Output::Yaml => out.write_all(serde_saphyr::to_string(&whole(answers))?.as_bytes())?,
        Output::Name => {
            for name in answers.iter().flat_map(names) {
                writeln!(out, "{kind}/{name}")?;
            }
        }
    }
    Ok(())
}

/// A value of a query.
fn escaped(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let one = |byte: u8| {
        if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(one).collect()
}

async fn ask(cluster: &Cluster, path: &str, accept: &str) -> Result<Value, ClientError> {
    let request = http::Request::get(path).header(ACCEPT, accept).body(Vec::new());
    let request = request.map_err(|error| cluster.explain(kube::Error::HttpError(error)))?;
    cluster.client().request(request).await.map_err(|error| cluster.explain(error))
}

/// One object as it is, several as a list.
fn whole(mut answers: Vec<Value>) -> Value {
    match answers.len() {
        1 => answers.remove(0),
        _ => json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": answers}),
    }
}

fn names(answer: &Value) -> Vec<&str> {
    let items = answer.get("items").and_then(Value::as_array);
    let objects = items.map_or(std::slice::from_ref(answer), Vec::as_slice);
    objects.iter().filter_map(|object| object.pointer("/metadata/name")?.as_str()).collect()
}

/// The rows of all answers under the columns of the first.
fn tables(answers: Vec<Value>, wide: bool) -> Result<String, serde_json::Error> {
    let mut columns: Vec<Column> = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    for answer in answers {
        let table: Table = serde_json::from_value(answer)?;
        if columns.is_empty() {
            columns = table.column_definitions.unwrap_or_default();
        }
        rows.extend(table.rows);
    }
    if rows.is_empty() {
        return Ok(String::new());
    }
    let shown = |index: &usize| columns.get(*index).is_some_and(|c| wide || c.priority == 0);
    let shown: Vec<usize> = (0..columns.len()).filter(shown).collect();
    let head = shown.iter().filter_map(|index| columns.get(*index));
    let mut lines = vec![head.map(|column| column.name.to_uppercase()).collect::<Vec<_>>()];
    lines.extend(
        rows.iter().map(|row| shown.iter().map(|index| cell(row.cells.get(*index))).collect()),
    );
    Ok(aligned(&lines))
}

/// Lines of cells, each column as wide as its widest cell and three spaces.
pub(crate) fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let mut row = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            row.push_str(cell);
            row.push_str(&" ".repeat(width + 3 - cell.chars().count()));
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        // A cell is one line, whatever an object says.
        Some(Value::String(text)) => text.lines().next().unwrap_or_default().to_owned(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let table = |cells: Value| {
            json!({"columnDefinitions": [{"name": "Name"}, {"name": "Why", "priority": 0},
                {"name": "Rack", "priority": 1}], "rows": [{"cells": cells}]})
        };
        let answers = || vec![table(json!(["m1", "a\nb", "r1"])), table(json!(["m-20", null, 7]))];
        assert_eq!(tables(answers(), false).unwrap(), "NAME   WHY\nm1     a\nm-20\n");
        let wide = tables(answers(), true).unwrap();
        assert_eq!(wide, "NAME   WHY   RACK\nm1     a     r1\nm-20         7\n");
    }

    #[test]
    fn a_selector_is_escaped() {
        assert_eq!(escaped("a/b=c,d"), "a%2Fb%3Dc%2Cd");
    }
}
