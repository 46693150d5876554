//! Models written to where URLs say: stores that behave, and stores that do not.

mod passing;
mod put;
mod s3;
mod taker;

use stream::{Form, Format, Layout, Load, Model, Secret, Spec};

use crate::support::{key, plain, spec};

/// A model of two dozen megabytes: of more parts than one, in whatever way it is sent.
fn large() -> Vec<(Spec, Vec<u8>)> {
    // The narrow before the wide, which safetensors has the other way round.
    let shapes: [(&str, &str, u64); 6] = [
        ("embedding", "uint8", 13 << 20),
        ("norm", "float32", 4097),
        ("odd", "bfloat16", 4 << 20),
        ("scalar", "float64", 1),
        ("head", "uint8", 6_000_001),
        ("empty", "float32", 0),
    ];
    let tensor = |(nth, (name, dtype, len)): (usize, (&str, &str, u64))| {
        let byte = |at: u64| ((at + nth as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8;
        let spec = spec(name, dtype, &[len]);
        let bytes = (0..spec.data_len().unwrap()).map(byte).collect();
        (spec, bytes)
    };
    shapes.into_iter().enumerate().map(tensor).collect()
}

/// Every form in which a model is written.
fn forms(secret: &Secret) -> [(&'static str, Form<'_>); 4] {
    [
        ("aligned", plain(Layout::Aligned)),
        ("legacy", plain(Layout::Legacy)),
        ("sealed", Form::Tensorizer { layout: Layout::Aligned, secret: Some(secret) }),
        ("flat", Form::Safetensors),
    ]
}

/// That a model has these tensors, and hashes that say so.
#[track_caller]
fn holds(model: &Model, tensors: &[(Spec, Vec<u8>)]) {
    let sealed = matches!(model.format(), Format::Tensorizer { encrypted: true, .. });
    let secret = sealed.then(key);
    let how = Load { secret: secret.as_ref(), verify: true, ..Load::default() };
    let loaded = model.load(&how).unwrap();
    let mut found: Vec<_> = loaded.iter().map(|(t, bytes)| (t.name().to_string(), bytes)).collect();
    let mut wanted: Vec<_> =
        tensors.iter().map(|(spec, bytes)| (spec.name.to_string(), bytes.as_slice())).collect();
    found.sort();
    wanted.sort();
    assert!(found == wanted, "other tensors, or other bytes");
}
