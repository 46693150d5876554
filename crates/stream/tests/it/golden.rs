//! Files that the real package wrote, in every version: read, compared, and written again.

use stream::{Convert, Error, Form, Format, HashKind, Layout, Load, Model, Secret};

use crate::support::{GOLDEN, expected, golden, placed, plain, secret};

#[test]
fn every_version_is_read() {
    for name in GOLDEN {
        let (_place, path) = placed(name);
        let model = Model::open(&path).unwrap();
        let Format::Tensorizer { version, encrypted } = model.format() else { panic!("{name}") };
        assert_eq!(format!("v{version}"), name[..2], "{name}");
        let secret = secret(name);
        assert_eq!(encrypted, secret.is_some(), "{name}");
        let how = Load { secret: secret.as_ref(), verify: true, ..Load::default() };
        let loaded = model.load(&how).unwrap();
        for (nth, tensor) in model.tensors().iter().enumerate() {
            let (tensor_name, dtype) = (tensor.name().to_string(), tensor.dtype().to_string());
            let (_, bytes) = loaded.get(&tensor_name).unwrap();
            let want = expected(&tensor_name, &dtype, tensor.data_len() as usize);
            assert_eq!(bytes, want, "{name}: {tensor_name}");
            assert_eq!(model.read(nth, secret.as_ref()).unwrap(), want, "{name}: {tensor_name}");
            let sealed = encrypted && !bytes.is_empty();
            let both = vec![HashKind::Crc32, HashKind::Sha256];
            let hashes = if sealed { vec![HashKind::Sha256] } else { both };
            assert_eq!(model.hashes(nth).unwrap(), hashes, "{name}: {tensor_name}");
        }
        for verdict in model.verify(secret.as_ref(), &|_| {}).unwrap() {
            verdict.outcome.unwrap();
        }
    }
}

#[test]
fn names_types_and_shapes_are_those_of_the_package() {
    let told = |name: &str| {
        let (_place, path) = placed(name);
        let model = Model::open(&path).unwrap();
        let tensor = |t: &stream::Tensor| format!("{} {} {:?}", t.name(), t.dtype(), t.shape());
        model.tensors().iter().map(tensor).collect::<Vec<_>>()
    };
    assert_eq!(
        told("v1-module"),
        [".bias float16 [7]", "inner.weight float32 [3, 5]", "inner.count int64 []"]
    );
    let nested = [
        "layers.0.w float32 [2, 3]",
        "layers.1.w float32 [2, 3]",
        "layers.1.ä\" int8 [4]",
        "plain.name bfloat16 [9]",
    ];
    assert_eq!(told("v2-nested"), nested);
    assert!(told("v5-long").contains(&"long_meta int8 [8589934592, 2]".to_owned()));
    assert!(told("v2-types").contains(&"complex32 complex32 [5]".to_owned()));
}

/// What the real package wrote, read and written again in its own layout, is the same file.
#[test]
fn the_legacy_layout_is_the_packages_byte_for_byte() {
    for name in GOLDEN.into_iter().filter(|name| secret(name).is_none()) {
        let (place, path) = placed(name);
        let again = place.path().join("again.tensors");
        let how = Convert {
            secret: None,
            form: plain(Layout::Legacy),
            drop_meta: false,
            progress: &|_| {},
        };
        Model::open(&path).unwrap().convert(&again, &how).unwrap();
        let (again, golden) = (std::fs::read(&again).unwrap(), golden(name));
        let differs = again.iter().zip(&golden).position(|(a, b)| a != b);
        assert_eq!((differs, again.len()), (None, golden.len()), "{name}");
    }
}

/// Sealed anew with other nonces, so only the plain bytes and the file's length can be the same.
#[test]
fn an_encrypted_file_is_decrypted_and_sealed_again() {
    for name in GOLDEN.into_iter().filter(|name| name.contains("key")) {
        let (place, path) = placed(name);
        let [open, again] = ["open", "again"].map(|name| place.path().join(name));
        let secret = secret(name);
        let convert = |from, to, with, sealed| {
            let form = Form::Tensorizer { layout: Layout::Legacy, secret: sealed };
            let how = Convert { secret: with, form, drop_meta: false, progress: &|_| {} };
            Model::open(from).unwrap().convert(to, &how).unwrap();
        };
        convert(&path, &open, secret.as_ref(), None);
        convert(&open, &again, None, secret.as_ref());
        let how = Load { secret: secret.as_ref(), verify: true, ..Load::default() };
        let sealed = Model::open(&again).unwrap();
        let loaded = sealed.load(&how).unwrap();
        for (tensor, bytes) in loaded.iter() {
            let name = tensor.name().to_string();
            assert_eq!(bytes, expected(&name, &tensor.dtype().to_string(), bytes.len()));
        }
    }
}

#[test]
fn without_the_right_key_nothing_is_read() {
    let (_place, path) = placed("v3-key");
    let model = Model::open(&path).unwrap();
    assert!(matches!(model.load(&Load::default()), Err(Error::Locked { .. })));
    let wrong = Secret::key([9; 32]);
    let load = |secret| model.load(&Load { secret, ..Load::default() }).err().unwrap();
    let told = load(Some(&wrong)).to_string();
    assert!(told.starts_with("tensor "), "{told}");
    let passphrase = Secret::passphrase("x");
    assert!(matches!(load(Some(&passphrase)), Error::Key { .. }));

    let (_place, path) = placed("v3-passphrase");
    let model = Model::open(&path).unwrap();
    let wrong = Secret::passphrase("correct horse");
    let failed = model.load(&Load { secret: Some(&wrong), ..Load::default() }).err().unwrap();
    assert!(matches!(failed, Error::Tensor { .. }));

    let (_place, path) = placed("v1-types");
    let model = Model::open(&path).unwrap();
    let failed = model.load(&Load { secret: Some(&wrong), ..Load::default() }).err().unwrap();
    assert!(matches!(failed, Error::NotLocked { .. }));
}
