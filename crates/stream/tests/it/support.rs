//! What the tests share: the golden files, and models made here.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use stream::{Dtype, Form, Kind, Layout, Name, Secret, Spec};

/// What `golden/make.py` sealed with.
pub(crate) fn key() -> Secret {
    Secret::key(std::array::from_fn(|nth| nth as u8))
}

pub(crate) const GOLDEN: [&str; 10] = [
    "v1-module",
    "v1-types",
    "v2-types",
    "v2-nested",
    "v3-key",
    "v3-passphrase",
    "v4-meta",
    "v4-meta-key",
    "v5-long",
    "v5-long-key",
];

/// What opens a golden file.
pub(crate) fn secret(golden: &str) -> Option<Secret> {
    match golden {
        "v3-passphrase" => Some(Secret::passphrase("correct horse battery staple")),
        _ => golden.contains("key").then(key),
    }
}

/// The bytes of a file that the real package wrote.
pub(crate) fn golden(name: &str) -> Vec<u8> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.tensors.gz"));
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).unwrap();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

/// A directory, and a golden file in it.
pub(crate) fn placed(name: &str) -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("golden.tensors");
    std::fs::write(&path, golden(name)).unwrap();
    (place, path)
}

/// The bytes that a tensor of this name and type has in every golden file.
pub(crate) fn expected(name: &str, dtype: &str, len: usize) -> Vec<u8> {
    let byte = |nth: usize| (31 * nth + name.chars().count()) as u8;
    (0..len).map(|nth| if dtype == "bool" { byte(nth) & 1 } else { byte(nth) }).collect()
}

pub(crate) fn spec(name: &str, dtype: &str, shape: &[u64]) -> Spec {
    let (name, shape) = (Name::plain(name), shape.to_vec());
    let dtype = Dtype::named(dtype).unwrap();
    Spec { name, kind: Kind::StateDict, module: 0, dtype, shape, meta: false }
}

/// A few tensors of all lengths, the last one of several megabytes.
pub(crate) fn model() -> Vec<(Spec, Vec<u8>)> {
    let specs = [
        spec("norm", "float32", &[7]),
        spec("empty", "float32", &[0, 3]),
        spec("odd", "uint8", &[4097]),
        Spec { meta: true, ..spec("marker", "bfloat16", &[3]) },
        spec("scalar", "float64", &[]),
        spec("embedding", "bfloat16", &[1000, 2600]),
    ];
    let bytes = |spec: &Spec| {
        let len = spec.data_len().unwrap() as usize;
        // Without a period, so that nothing can be swapped unnoticed.
        (0..len).map(|nth| (nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
    };
    specs.into_iter().map(|spec| (bytes(&spec), spec)).map(|(bytes, spec)| (spec, bytes)).collect()
}

pub(crate) fn borrowed(model: &[(Spec, Vec<u8>)]) -> Vec<(Spec, &[u8])> {
    model.iter().map(|(spec, bytes)| (spec.clone(), bytes.as_slice())).collect()
}

pub(crate) fn plain(layout: Layout) -> Form<'static> {
    Form::Tensorizer { layout, secret: None }
}
