//! `seatrial tensors`: model weights in files and behind URLs: looked at, checked, converted,
//! encrypted, loaded, served.

mod convert;
mod inspect;
mod load;
mod place;
mod secret;
mod serve;
mod verify;

use std::io::Write;
use std::path::PathBuf;

use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use stream::Model;

use super::Outcome;

/// Arguments of `tensors`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  seatrial tensors convert model.safetensors model.tensors\n  seatrial tensors inspect model.tensors\n  seatrial tensors verify model.tensors\n  seatrial tensors encrypt model.tensors sealed.tensors --key-file key\n  seatrial tensors load model.tensors --bench\n  seatrial tensors load https://models.example/model.tensors --bench\n  seatrial tensors verify s3://bucket/model.tensors\n  seatrial tensors serve /srv/models\n\nWhat is read may lie behind a URL: http://, https:// (a presigned one too) or s3://BUCKET/KEY, whose\ncredentials are those of the AWS tools: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile.\nA presigned URL is a secret while it lasts; no error tells what stands behind its question mark.\n\nA key is read from a file or the environment, never from an argument: --key-file has 32 bytes or 64\nhexadecimal digits, --passphrase-file a line; SEATRIAL_TENSORS_KEY holds the digits,\nSEATRIAL_TENSORS_PASSPHRASE the line."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List the tensors of a file: types, shapes, bytes, hashes
    Inspect(inspect::Args),
    /// Compare every hash of a file; exit code 1 names the tensors that are damaged
    Verify(verify::Args),
    /// Write a model in another format, which the new file's extension says
    Convert(convert::Args),
    /// Write a model encrypted
    Encrypt(convert::Seal),
    /// Write an encrypted model in plain
    Decrypt(convert::Unseal),
    /// Load a model into memory, and say how fast
    Load(load::Args),
    /// Serve a directory over HTTP, or cache what lies in S3 or behind a web server
    Serve(serve::Args),
}

/// How it is printed.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Output {
    /// For people
    #[default]
    Text,
    /// JSON
    Json,
}

/// The file, and how what is said of it is printed.
#[derive(clap::Args)]
struct Common {
    /// A model: .tensors or .safetensors, a file or a URL
    file: PathBuf,
    /// In which form
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    reach: place::Reach,
}

impl Common {
    /// Opens the model.
    fn open(&self) -> Outcome<Model> {
        self.reach.open(&self.file)
    }
}

/// Does a verb.
pub(crate) fn run(args: &Args) -> Outcome {
    match &args.verb {
        Verb::Inspect(args) => inspect::run(args),
        Verb::Verify(args) => verify::run(args),
        Verb::Convert(args) => convert::run(args),
        Verb::Encrypt(args) => convert::seal(args),
        Verb::Decrypt(args) => convert::unseal(args),
        Verb::Load(args) => load::run(args),
        Verb::Serve(args) => serve::run(args),
    }
}

/// A bar on a terminal's standard error; nothing elsewhere.
fn bar(what: &'static str, bytes: u64, output: Output) -> ProgressBar {
    if output == Output::Json {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(bytes).with_prefix(what);
    let template = "  {prefix} {bar:24} {bytes}/{total_bytes}  {bytes_per_sec}  {eta}";
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Bytes as people say them.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// As many of something: `1 tensor`, `2 tensors`.
fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn print(value: &Value) -> Outcome {
    Ok(writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(value)?)?)
}
