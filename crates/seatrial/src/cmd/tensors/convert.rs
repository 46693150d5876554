//! `seatrial tensors convert`, `encrypt` and `decrypt`: one model into another.

use std::io::{self, Write as _};
use std::path::PathBuf;

use serde_json::json;
use stream::{Convert, Destination, Form, Layout, Location, Model, Remote, Secret};

use super::{Output, bar, count, place, print, secret, size};
use crate::cmd::{Outcome, Unusable};

/// Arguments of `convert`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial tensors convert model.safetensors model.tensors\n  seatrial tensors convert model.tensors model.safetensors --drop-meta\n  seatrial tensors convert model.tensors old.tensors --layout legacy\n  seatrial tensors convert s3://bucket/model.safetensors model.tensors\n  seatrial tensors convert model.safetensors s3://bucket/model.tensors\n  seatrial tensors convert model.tensors \"$PRESIGNED_URL_FOR_PUT\"\n\nWhat is read is checked against its hashes on the way. A .tensors file carries CRC-32 and SHA-256 of\nevery tensor. OUT appears when it is whole; what had its name stays until then. Nothing is copied to a\ndisk on its way to S3, which takes it in parts, nor to an http(s):// URL, which takes it as one PUT: for\nthat IN is read twice."
)]
pub(super) struct Args {
    #[command(flatten)]
    files: Files,
    /// Leave out tensors that have a shape and no data, which safetensors cannot hold
    #[arg(long)]
    drop_meta: bool,
    #[command(flatten)]
    secret: secret::From,
}

/// Arguments of `encrypt`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  head -c 32 /dev/urandom > key; chmod 600 key\n  seatrial tensors encrypt model.tensors sealed.tensors --key-file key\n  seatrial tensors encrypt model.safetensors sealed.tensors --passphrase-file pass\n\nNames, types, shapes and the SHA-256 of each tensor stay in plain: the format wants it so."
)]
pub(super) struct Seal {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    secret: secret::From,
}

/// Arguments of `decrypt`.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  seatrial tensors decrypt sealed.tensors model.tensors --key-file key"
)]
pub(super) struct Unseal {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    secret: secret::From,
}

#[derive(clap::Args)]
struct Files {
    /// The model to read, a file or a URL
    #[arg(value_name = "IN")]
    from: PathBuf,
    /// The model to write, .tensors or .safetensors: a file, s3://, or a URL that takes a PUT
    #[arg(value_name = "OUT")]
    to: PathBuf,
    /// Of a .tensors file: where its data lies
    #[arg(long, value_enum, default_value_t)]
    layout: Where,
    /// In which form what was done is printed
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    reach: place::Reach,
}

impl Files {
    /// Opens the model that is read.
    fn open(&self) -> Outcome<Model> {
        self.reach.open(&self.from)
    }
}

/// Layouts of a .tensors file.
#[derive(clap::ValueEnum, Clone, Copy, Default)]
enum Where {
    /// Data at multiples of 4 KiB: loads fastest; the official package reads it
    #[default]
    Aligned,
    /// As the official package lays it, byte for byte
    Legacy,
}

/// The name of the file to write says no format.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("{place} ends in neither .tensors nor .safetensors, which say its format")]
    Extension { place: Location },
    #[error("{place} cannot be encrypted: only a .tensors file can")]
    Flat { place: Location },
}

pub(super) fn run(args: &Args) -> Outcome {
    let model = args.files.open()?;
    let secret = args.secret.for_model(&model)?;
    write(&model, &args.files, secret.as_ref(), None, args.drop_meta)
}

pub(super) fn seal(args: &Seal) -> Outcome {
    let secret = args.secret.needed()?;
    let model = args.files.open()?;
    write(&model, &args.files, None, Some(&secret), false)
}

pub(super) fn unseal(args: &Unseal) -> Outcome {
    let model = args.files.open()?;
    let secret = args.secret.needed()?;
    write(&model, &args.files, Some(&secret), None, false)
}

fn write(
    model: &Model,
    files: &Files,
    open: Option<&Secret>,
    seal: Option<&Secret>,
    drop_meta: bool,
) -> Outcome {
    let place = Location::parse(files.to.as_os_str()).map_err(|error| Unusable(error.into()))?;
    let form = form(&place, files.layout, seal).map_err(|error| Unusable(error.into()))?;
    let bar = bar("writing", model.data_len(), files.output);
    let progress = |bytes| bar.inc(bytes);
    let how = Convert { secret: open, form, drop_meta, progress: &progress };
    let remote = files.reach.remote(Remote::default());
    let written = model.convert(Destination::At(&place, &remote), &how)?;
    bar.finish_and_clear();
    let (tensors, bytes) = (written.tensors, written.file_len);
    if files.output == Output::Json {
        return print(&json!({"file": place.to_string(), "tensors": tensors, "bytes": bytes}));
    }
    Ok(writeln!(io::stdout(), "{place}: {}, {}", count(tensors, "tensor"), size(bytes))?)
}

fn form<'s>(
    place: &Location,
    layout: Where,
    secret: Option<&'s Secret>,
) -> Result<Form<'s>, Refused> {
    let layout = match layout {
        Where::Aligned => Layout::Aligned,
        Where::Legacy => Layout::Legacy,
    };
    match place.extension() {
        Some("tensors") => Ok(Form::Tensorizer { layout, secret }),
        Some("safetensors") if secret.is_some() => Err(Refused::Flat { place: place.clone() }),
        Some("safetensors") => Ok(Form::Safetensors),
        _ => Err(Refused::Extension { place: place.clone() }),
    }
}
