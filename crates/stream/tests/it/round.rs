//! Models written here and read again: layouts, formats, secrets, parts.

use std::num::NonZero;

use stream::{Access, Convert, Error, Form, Format, Layout, Load, Model, Secret, write};

use crate::support::{borrowed, key, model, plain, spec};

#[test]
fn what_is_written_is_read_however_it_is_written() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("model.tensors");
    let made = model();
    for layout in [Layout::Aligned, Layout::Legacy] {
        for secret in [None, Some(key()), Some(Secret::passphrase("pass"))] {
            let form = Form::Tensorizer { layout, secret: secret.as_ref() };
            let written = write(&path, &borrowed(&made), form).unwrap();
            let opened = Model::open(&path).unwrap();
            assert_eq!(written.file_len, opened.file_len());
            for access in [Access::Auto, Access::Buffered, Access::Direct] {
                let threads = NonZero::new(3);
                let secret = secret.as_ref();
                let how = Load { secret, verify: true, threads, access, ..Load::default() };
                let loaded = opened.load(&how).unwrap();
                assert!(loaded.iter().map(|(_, bytes)| bytes).eq(made.iter().map(|(_, b)| &**b)));
                assert!(loaded.iter().zip(&made).all(|((t, _), (spec, _))| {
                    t.shape() == spec.shape && t.dtype() == &spec.dtype && *t.name() == spec.name
                }));
            }
        }
    }
}

#[test]
fn both_formats_become_each_other() {
    let place = tempfile::tempdir().unwrap();
    let [tensors, flat, back] =
        ["a.tensors", "b.safetensors", "c.tensors"].map(|name| place.path().join(name));
    let made = model();
    write(&tensors, &borrowed(&made), plain(Layout::Aligned)).unwrap();
    let convert = |from, to, form, drop_meta| {
        let how = Convert { secret: None, form, drop_meta, progress: &|_| {} };
        Model::open(from)?.convert(to, &how)
    };
    let refused = convert(&tensors, &flat, Form::Safetensors, false).unwrap_err();
    assert!(refused.to_string().contains("marker"), "{refused}");
    assert!(!flat.exists());
    convert(&tensors, &flat, Form::Safetensors, true).unwrap();
    let opened = Model::open(&flat).unwrap();
    assert_eq!(opened.format(), Format::Safetensors);
    assert_eq!(opened.metadata()["format"], "pt");
    convert(&flat, &back, plain(Layout::Aligned), false).unwrap();
    // Onto itself too: what is read stays readable until it is replaced.
    convert(&back, &back, plain(Layout::Legacy), false).unwrap();
    for path in [&flat, &back] {
        let loaded = Model::open(path).unwrap();
        let loaded = loaded.load(&Load { verify: true, ..Load::default() }).unwrap();
        for (spec, bytes) in made.iter().filter(|(spec, _)| !spec.meta) {
            assert!(loaded.get(&spec.name.to_string()).unwrap().1 == bytes, "{}", spec.name);
        }
    }
}

#[test]
fn a_part_reads_only_its_bytes() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("model");
    let made = model();
    for form in [plain(Layout::Aligned), plain(Layout::Legacy)] {
        write(&path, &borrowed(&made), form).unwrap();
        let opened = Model::open(&path).unwrap();
        let filter = |tensor: &stream::Tensor| tensor.name().to_string() == "norm";
        let how = Load { filter: Some(&filter), verify: true, ..Load::default() };
        let loaded = opened.load(&how).unwrap();
        assert_eq!(loaded.iter().count(), 1);
        assert_eq!(loaded.get("norm").unwrap().1, made[0].1);
        assert!(loaded.get("odd").is_none());
        assert!(loaded.bytes_read() < 4096 + 28, "{}", loaded.bytes_read());
        assert!(matches!(opened.find("nothing"), Err(Error::NoTensor { .. })));
    }
}

#[test]
fn data_of_another_length_is_refused_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("model");
    for len in [0, 11, 13, 5_000_000] {
        let bytes = vec![0; len];
        for form in [plain(Layout::Aligned), Form::Safetensors] {
            let tensors = [(spec("a", "float32", &[3]), bytes.as_slice())];
            let refused = write(&path, &tensors, form).unwrap_err();
            assert!(matches!(refused, Error::Tensor { .. }), "{refused}");
            assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        }
    }
}

#[test]
fn an_encrypted_file_is_not_encrypted_twice() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("model");
    let key = key();
    let form = Form::Tensorizer { layout: Layout::Aligned, secret: Some(&key) };
    write(&path, &borrowed(&model()), form).unwrap();
    let how = Convert { secret: Some(&key), form, drop_meta: false, progress: &|_| {} };
    let refused = Model::open(&path).unwrap().convert(&path, &how).unwrap_err();
    assert!(matches!(refused, Error::Twice { .. }));
}
