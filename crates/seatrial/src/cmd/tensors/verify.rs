//! `seatrial tensors verify`.

use std::io::Write;

use serde_json::{Value, json};

use super::{Common, Output, bar, count, print, secret, size};
use crate::cmd::Outcome;

/// Arguments of `verify`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial tensors verify model.tensors\n  seatrial tensors verify sealed.tensors --key-file key\n  seatrial tensors verify https://models.example/model.tensors\n\nThe model is never held in memory as a whole. A safetensors file carries no hashes: of it only the\nstructure is checked, and that is said."
)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    secret: secret::From,
}

/// The file is not what was written.
#[derive(Debug, thiserror::Error)]
#[error("{damaged} of {all} damaged: {names}")]
struct Damaged {
    damaged: usize,
    all: String,
    names: String,
}

/// How many names an error says.
const NAMED: usize = 5;

/// Looks at every tensor.
pub(super) fn run(args: &Args) -> Outcome {
    let model = args.common.open()?;
    let secret = args.secret.for_model(&model)?;
    let bar = bar("verifying", model.data_len(), args.common.output);
    let verdicts = model.verify(secret.as_ref(), &|bytes| bar.inc(bytes))?;
    bar.finish_and_clear();
    let (mut rows, mut bad, mut unhashed) = (Vec::new(), Vec::new(), 0);
    let mut out = std::io::stdout().lock();
    for verdict in verdicts {
        let name = model.tensors()[verdict.tensor].name();
        let row = match verdict.outcome {
            Ok(hashes) => {
                unhashed += usize::from(hashes.is_empty());
                let hashes: Vec<String> = hashes.iter().map(ToString::to_string).collect();
                json!({"name": name.to_string(), "ok": true, "hashes": hashes})
            }
            Err(error) => {
                let why = kit::error::chain(&error).to_string();
                if args.common.output == Output::Text {
                    writeln!(out, "{why}")?;
                }
                bad.push(name.shown());
                json!({"name": name.to_string(), "ok": false, "error": why})
            }
        };
        rows.push(row);
    }
    let all = count(model.tensors().len(), "tensor");
    if args.common.output == Output::Json {
        print(&json!({"ok": bad.is_empty(), "unhashed": unhashed, "tensors": Value::Array(rows)}))?;
    } else if bad.is_empty() {
        let without = match unhashed {
            0 => String::new(),
            _ => format!("; {} without a hash, so only their place was checked", unhashed),
        };
        writeln!(out, "{all}, {}: nothing is damaged{without}", size(model.data_len()))?;
    }
    if bad.is_empty() {
        return Ok(());
    }
    let more = bad.len().saturating_sub(NAMED);
    let mut names = bad.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 {
        names.push_str(&format!(" and {more} more"));
    }
    Err(Damaged { damaged: bad.len(), all, names }.into())
}
