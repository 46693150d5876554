//! Models that are written tensor by tensor.

use std::path::Path;

use stream::{Layout, Load, Model, Secret, Spec, Writer};

use crate::support::{key, model, spec};

/// Whether the file holds exactly these, every hash compared.
fn holds(path: &Path, tensors: &[(Spec, Vec<u8>)], secret: Option<&Secret>) {
    let model = Model::open(path).unwrap();
    let loaded = model.load(&Load { secret, verify: true, ..Load::default() }).unwrap();
    assert_eq!(model.tensors().len(), tensors.len());
    for (nth, ((tensor, bytes), (spec, want))) in loaded.iter().zip(tensors).enumerate() {
        assert_eq!(model.matches(nth, want).unwrap(), Some(true), "{}", spec.name);
        assert_eq!(model.matches(nth, b"others").unwrap(), Some(false), "{}", spec.name);
        assert_eq!((tensor.name(), tensor.dtype()), (&spec.name, &spec.dtype));
        assert!(bytes == want, "{}", spec.name);
        assert!(bytes.is_empty() || tensor.data_offset() % 4096 == 0, "{}", spec.name);
    }
}

#[test]
fn tensors_come_one_after_the_other() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("model.tensors");
    for secret in [None, Some(key())] {
        let mut writer = Writer::create(&path, Layout::Aligned, secret.as_ref()).unwrap();
        for (spec, bytes) in &model() {
            writer.add(&[(spec.clone(), bytes)]).unwrap();
        }
        let written = writer.finish().unwrap();
        assert_eq!(written.file_len, path.metadata().unwrap().len());
        holds(&path, &model(), secret.as_ref());
    }
}

/// Upstream's index cannot grow: "Metadata overflow" after some thousands of tensors.
#[test]
fn an_index_that_outgrows_its_room_moves_the_data() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("model.tensors");
    let mut all = model();
    let experts = (0..7_000).map(|nth| format!("model.layers.{nth}.block_sparse_moe.experts.gate"));
    all.extend(experts.map(|name| (spec(&name, "uint8", &[1]), vec![name.len() as u8])));
    let mut writer = Writer::create(&path, Layout::Aligned, None).unwrap();
    for batch in all.chunks(500) {
        let batch: Vec<(Spec, &[u8])> = batch.iter().map(|(s, b)| (s.clone(), &**b)).collect();
        writer.add(&batch).unwrap();
    }
    writer.finish().unwrap();
    holds(&path, &all, None);
}

#[test]
fn an_open_file_is_written_and_a_name_is_only_given_to_what_is_whole() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("open.tensors");
    std::fs::write(&path, vec![1; 20 << 20]).unwrap();
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let all = model();
    let batch: Vec<(Spec, &[u8])> = all.iter().map(|(s, b)| (s.clone(), &**b)).collect();
    let mut writer = Writer::over(file, &path, Layout::Aligned, None).unwrap();
    writer.add(&batch).unwrap();
    writer.finish().unwrap();
    holds(&path, &all, None);

    let never = place.path().join("never.tensors");
    let mut writer = Writer::create(&never, Layout::Aligned, None).unwrap();
    writer.add(&batch).unwrap();
    let twice = writer.add(&batch[..1]).unwrap_err().to_string();
    assert!(twice.contains("norm") && twice.contains("there twice"), "{twice}");
    drop(writer);
    let names: Vec<_> =
        std::fs::read_dir(place.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["open.tensors"]);
}
