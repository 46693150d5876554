//! Damaged files: nothing panics, nothing is believed, and what is wrong is told.

use std::path::Path;

use proptest::prelude::*;
use stream::{Convert, Error, Flaw, Form, Layout, Load, Model, write};

use crate::support::{GOLDEN, borrowed, golden, model, plain, secret, spec};

/// Everything that can be done with a file. Whether it can is not asked.
fn use_up(path: &Path, name: &str) -> Result<(), Error> {
    let model = Model::open(path)?;
    let secret = secret(name);
    let loaded = model.load(&Load { secret: secret.as_ref(), verify: true, ..Load::default() })?;
    let held: usize = loaded.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(held as u64 <= model.file_len(), "more is held than the file has");
    model.verify(secret.as_ref(), &|_| {})?;
    let out = path.with_extension("out");
    let form = Form::Tensorizer { layout: Layout::Aligned, secret: None };
    let how = Convert { secret: secret.as_ref(), form, drop_meta: false, progress: &|_| {} };
    model.convert(&out, &how).map(drop)
}

/// Bytes that mean something: most of an official file is the empty end of its index.
fn meaningful(bytes: &[u8]) -> Vec<usize> {
    let index = bytes.iter().rposition(|byte| *byte != 0).unwrap_or_default();
    let start = bytes[73..].windows(64).position(|window| window.iter().all(|byte| *byte == 0));
    let empty = start.map_or(0..0, |start| start + 73..(73 + (256 << 10)).min(index));
    (0..bytes.len()).filter(|at| !empty.contains(at)).collect()
}

/// Every byte of every official file is changed in turn: whatever is said, it is said as an error or
/// the plain bytes are the same, since a hash or a tag covers them.
#[test]
fn no_changed_byte_is_believed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model");
    for name in ["v1-module", "v2-nested", "v4-meta"] {
        let whole = golden(name);
        let places = meaningful(&whole);
        for at in places.iter().step_by(1 + places.len() / 700) {
            let mut bytes = whole.clone();
            bytes[*at] ^= 0x41;
            std::fs::write(&path, &bytes).unwrap();
            let Ok(model) = Model::open(&path) else { continue };
            let Ok(loaded) = model.load(&Load { verify: true, ..Load::default() }) else {
                continue;
            };
            for (tensor, bytes) in loaded.iter() {
                let (name, dtype) = (tensor.name().to_string(), tensor.dtype().to_string());
                let want = crate::support::expected(&name, &dtype, bytes.len());
                assert_eq!(bytes, want, "byte {at} was changed unnoticed");
            }
        }
    }
}

#[test]
fn a_file_that_was_cut_short_says_so() {
    for name in GOLDEN {
        let whole = golden(name);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model");
        let places = meaningful(&whole);
        for at in places.iter().step_by(1 + places.len() / 60) {
            std::fs::write(&path, &whole[..*at]).unwrap();
            // The last eight bytes only say that nothing follows.
            if at + 8 < whole.len() {
                let cut = Model::open(&path).err().unwrap_or_else(|| panic!("{name} at {at}"));
                assert!(matches!(cut, Error::Malformed { .. }), "{name} at {at}: {cut}");
            }
        }
    }
}

#[test]
fn flaws_are_told_by_the_name_of_the_tensor() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model");
    let key = crate::support::key();
    let made = model();
    let sealed = Form::Tensorizer { layout: Layout::Aligned, secret: Some(&key) };
    for (form, secret) in [(plain(Layout::Aligned), None), (sealed, Some(&key))] {
        write(&path, &borrowed(&made), form).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let opened = Model::open(&path).unwrap();
        let at = |name: &str| {
            let tensor = &opened.tensors()[opened.find(name).unwrap()];
            (tensor.data_offset() as usize, tensor.data_len() as usize)
        };
        let told = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let model = Model::open(&path).unwrap();
            let failed = model.load(&Load { secret, verify: true, ..Load::default() });
            let one = failed.err().unwrap();
            let verdicts = model.verify(secret, &|_| {}).unwrap();
            let bad: Vec<String> =
                verdicts.into_iter().filter_map(|v| Some(v.outcome.err()?.to_string())).collect();
            assert!(bad.contains(&one.to_string()), "{bad:?}");
            bad
        };
        let (start, len) = at("odd");
        let mut flipped = whole.clone();
        flipped[start + len - 1] ^= 0x80;
        assert_eq!(told(&flipped), ["tensor odd"]);
        // Two pieces of one tensor in each other's place.
        let (start, _) = at("embedding");
        let mut swapped = whole.clone();
        let (a, b) = swapped[start..].split_at_mut(2 << 20);
        a.swap_with_slice(&mut b[..2 << 20]);
        assert_eq!(told(&swapped), ["tensor embedding"]);
    }
    assert!(matches!(
        Model::open(&path).unwrap().load(&Load { secret: Some(&key), ..Load::default() }),
        Err(Error::Tensor { source: Flaw::Sealed, .. })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    /// Official files with bytes changed, moved, cut and added, most of them in the front, where
    /// lengths and offsets are.
    #[test]
    fn no_file_makes_it_panic(
        which in 0..GOLDEN.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..6), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = golden(GOLDEN[which]);
        let places = meaningful(&bytes);
        for (index, byte, how) in changes {
            let at = places[index.index(places.len())].min(bytes.len() - 9);
            match how {
                0 => bytes[at] = byte,
                1 => bytes[at] ^= 1 << (byte % 8),
                2 => bytes[at..at + 8].fill(0xff),
                3 => bytes[at..at + 4].fill(0),
                4 => drop(bytes.remove(at)),
                _ => bytes.insert(at, byte),
            }
        }
        if let Some(cut) = cut {
            let len = cut.index(bytes.len());
            bytes.truncate(len);
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model");
        std::fs::write(&path, &bytes).unwrap();
        let _ = use_up(&path, GOLDEN[which]);
    }

    /// Headers whose text was changed.
    #[test]
    fn no_safetensors_file_makes_it_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model");
        let made = [(spec("a", "float32", &[7]), vec![1; 28]), (spec("b", "int8", &[5]), vec![2; 5])];
        write(&path, &borrowed(&made), Form::Safetensors).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let text = bytes.iter().position(|byte| *byte == b' ').unwrap();
        for (index, byte) in changes {
            bytes[index.index(text)] = byte;
        }
        std::fs::write(&path, &bytes).unwrap();
        let _ = use_up(&path, "");
    }
}
