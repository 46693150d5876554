//! Models written to where URLs say: stores that behave, and stores that do not.

mod passing;
mod put;
mod s3;
mod taker;

use stream::{Form, Format, Layout, Load, Model, Secret, Spec};

use crate::support::{key, plain, spec};

/// A model of two dozen megabytes: of more parts than one, in whatever way it is sent.
fn large() -> Vec<(Spec, Vec<u8>)> {
    let shapes: [(&str, u64); 6] = [
        ("embedding", 13 << 20),
        ("norm", 4097),
        ("odd", 8 << 20),
        ("scalar", 1),
        ("head", 6_000_001),
        ("empty", 0),
    ];
    let tensor = |(nth, (name, len)): (usize, (&str, u64))| {
        let byte = |at: u64| ((at + nth as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8;
        (spec(name, "uint8", &[len]), (0..len).map(byte).collect())
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
