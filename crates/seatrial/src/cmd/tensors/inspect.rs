//! `seatrial tensors inspect`.

use std::io::Write;

use serde_json::json;
use stream::{Format, Kind};

use super::{Common, Output, count, print, size};
use crate::cmd::Outcome;
use crate::table::aligned;

/// Arguments of `inspect`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial tensors inspect model.tensors\n  seatrial tensors inspect model.safetensors -o json | jq .tensors[0]\n  seatrial tensors inspect s3://bucket/model.tensors\n\nNo key is needed: names, types and shapes of an encrypted model are in plain."
)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
}

/// Prints what is in the file.
pub(super) fn run(args: &Args) -> Outcome {
    let model = args.common.open()?;
    let all_hashes = model.all_hashes()?;
    let mut lines = vec![["NAME", "DTYPE", "SHAPE", "BYTES", "HASHES"].map(str::to_owned).to_vec()];
    let mut rows = Vec::new();
    for (tensor, hashes) in model.tensors().iter().zip(all_hashes) {
        let hashes: Vec<String> = hashes.iter().map(ToString::to_string).collect();
        let shape: Vec<String> = tensor.shape().iter().map(ToString::to_string).collect();
        let meta = if tensor.is_meta() { "meta".to_owned() } else { tensor.data_len().to_string() };
        lines.push(vec![
            tensor.name().shown(),
            tensor.dtype().to_string(),
            if shape.is_empty() { "scalar".to_owned() } else { shape.join("×") },
            meta,
            if hashes.is_empty() { "-".to_owned() } else { hashes.join(" ") },
        ]);
        rows.push(json!({
            "name": tensor.name().to_string(),
            "kind": kind(tensor.kind()),
            "dtype": tensor.dtype().to_string(),
            "shape": tensor.shape(),
            "bytes": tensor.data_len(),
            "offset": tensor.data_offset(),
            "meta": tensor.is_meta(),
            "hashes": hashes,
        }));
    }
    let (format, version, encrypted) = match model.format() {
        Format::Tensorizer { version, encrypted } => ("tensorizer", Some(version), encrypted),
        Format::Safetensors => ("safetensors", None, false),
    };
    if args.common.output == Output::Json {
        return print(&json!({
            "file": model.place().to_string(), "format": format, "version": version,
            "encrypted": encrypted, "bytes": model.file_len(), "dataBytes": model.data_len(),
            "metadata": model.metadata(), "tensors": rows,
        }));
    }
    let mut out = std::io::stdout().lock();
    out.write_all(aligned(&lines).as_bytes())?;
    let version = version.map(|version| format!(" version {version}")).unwrap_or_default();
    let encrypted = if encrypted { ", encrypted" } else { "" };
    let tensors = count(model.tensors().len(), "tensor");
    let (data, file) = (size(model.data_len()), size(model.file_len()));
    writeln!(out, "\n{format}{version}{encrypted}: {tensors} with {data} in a file of {file}")?;
    Ok(())
}

const fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Parameter => "parameter",
        Kind::Buffer => "buffer",
        Kind::StateDict => "state-dict",
    }
}
