//! Files of models, in both formats: opened, listed, loaded whole and one by one, verified, converted.
//!
//! Held to: what loads with its hashes compared can be read tensor by tensor to the same bytes, and what is written
//! from it reads as the same again.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::num::NonZero;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use stream::{
    Access, Convert, Dtype, Form, Format, Kind, Layout, Load, Model, Name, Secret, Spec, write,
};
use tempfile::TempDir;

thread_local! {
    static PLACE: TempDir = TempDir::new().expect("a directory for a file");
}

fn path(name: &str) -> PathBuf {
    PLACE.with(|place| place.path().join(name))
}

/// The key that files of the seeds are sealed with.
fn secret() -> Secret {
    Secret::key([7; 32])
}

/// The bytes of a file.
pub(crate) fn run(data: &[u8]) {
    let (file, copy) = (path("model"), path("copy"));
    std::fs::write(&file, data).expect("a file can be written");
    let Ok(model) = Model::open(&file) else { return };
    let encrypted = matches!(model.format(), Format::Tensorizer { encrypted: true, .. });
    let secret = secret();
    let secret = encrypted.then_some(&secret);
    let one = NonZero::new(1);
    let how = Load { secret, threads: one, access: Access::Buffered, ..Load::default() };
    let _ = (model.all_hashes(), model.verify(secret, &|_| {}), model.load(&how));
    let Ok(whole) = model.load(&Load { verify: true, ..how }) else { return };
    let loaded: BTreeMap<String, Vec<u8>> =
        whole.iter().map(|(tensor, bytes)| (tensor.name().shown(), bytes.to_vec())).collect();
    for (nth, tensor) in model.tensors().iter().enumerate() {
        let bytes = model.read(nth, secret).expect("what loads can be read");
        assert_eq!(Some(&bytes), loaded.get(&tensor.name().shown()), "{}", tensor.name().shown());
    }
    let form = Form::Tensorizer { layout: Layout::Aligned, secret: None };
    let how = Convert { secret, form, drop_meta: false, progress: &|_| {} };
    if model.convert(&copy, &how).is_ok() {
        let again = Model::open(&copy).expect("what was written can be opened");
        let again = again.load(&Load { verify: true, threads: one, ..Load::default() });
        let again = again.expect("and loads");
        let again: BTreeMap<String, Vec<u8>> =
            again.iter().map(|(tensor, bytes)| (tensor.name().shown(), bytes.to_vec())).collect();
        assert_eq!(again, loaded);
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    // Written by the official package, one for each version of the format.
    let official: [&[u8]; 6] = [
        include_bytes!("../../stream/tests/golden/v1-module.tensors.gz"),
        include_bytes!("../../stream/tests/golden/v1-types.tensors.gz"),
        include_bytes!("../../stream/tests/golden/v2-nested.tensors.gz"),
        include_bytes!("../../stream/tests/golden/v2-types.tensors.gz"),
        include_bytes!("../../stream/tests/golden/v4-meta.tensors.gz"),
        include_bytes!("../../stream/tests/golden/v5-long.tensors.gz"),
    ];
    let mut seeds: Vec<Vec<u8>> = official.map(unpacked).into();
    let spec = |name: &str, dtype: &[u8], shape: &[u64]| Spec {
        name: Name::plain(name),
        kind: Kind::StateDict,
        module: 0,
        dtype: Dtype::parse(dtype).expect("a type"),
        shape: shape.to_vec(),
        meta: false,
    };
    let tensors: [(Spec, &[u8]); 2] = [
        (spec("a.weight", b"<f4", &[2, 1]), &[1, 2, 3, 4, 5, 6, 7, 8]),
        (spec("b", b"|u1", &[3]), &[1, 2, 3]),
    ];
    let secret = secret();
    for form in [
        Form::Safetensors,
        Form::Tensorizer { layout: Layout::Aligned, secret: None },
        Form::Tensorizer { layout: Layout::Aligned, secret: Some(&secret) },
    ] {
        let file = path("seed");
        write(&file, &tensors, form).expect("a model can be written");
        seeds.push(std::fs::read(&file).expect("and read"));
    }
    seeds
}

fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes).expect("a whole archive");
    bytes
}
