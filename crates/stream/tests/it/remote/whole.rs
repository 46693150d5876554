//! What can be done with a file can be done with an object: the real package's files over HTTP.

use stream::{Convert, Layout, Load, Model};

use super::server::{Act, Server, object};
use super::{hasty, open, striped};
use crate::support::{GOLDEN, expected, golden, plain, secret};

#[test]
fn golden_files_are_read_verified_and_converted() {
    for name in GOLDEN {
        let server = Server::start(object(golden(name)), |_| Act::Serve);
        let model = open(&server.url(), &hasty()).unwrap();
        let secret = secret(name);
        let load = Load { secret: secret.as_ref(), verify: true, ..Load::default() };
        for (tensor, bytes) in model.load(&load).unwrap().iter() {
            let (name, dtype) = (tensor.name().to_string(), tensor.dtype().to_string());
            assert_eq!(bytes, expected(&name, &dtype, bytes.len()));
        }
        for verdict in model.verify(secret.as_ref(), &|_| {}).unwrap() {
            verdict.outcome.unwrap();
        }
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("here.tensors");
        let form = plain(Layout::Aligned);
        let how = Convert { secret: secret.as_ref(), form, drop_meta: false, progress: &|_| {} };
        model.convert(&path, &how).unwrap();
        assert_eq!(Model::open(&path).unwrap().tensors().len(), model.tensors().len());
        assert_eq!(server.seen().len(), 1, "a small model comes with the first answer");
    }
}

/// A server that knows no ranges serves a small model all the same.
#[test]
fn a_small_model_needs_no_ranges() {
    let server = Server::start(object(golden("v1-module")), |_| Act::Whole);
    let model = open(&server.url(), &hasty()).unwrap();
    assert_eq!(model.load(&Load::default()).unwrap().iter().count(), 3);
}

#[test]
fn records_are_not_asked_for_one_after_the_other() {
    let server = Server::start(object(striped().file.clone()), |_| Act::Serve);
    let model = open(&server.url(), &hasty()).unwrap();
    let all = model.all_hashes().unwrap();
    assert!(all.len() == 48 && all.iter().all(|hashes| hashes.len() == 2));
    let small = server.seen().len();
    assert!(small <= 48, "{small}");
    assert!(server.connections() > 1);
    for verdict in model.verify(None, &|_| {}).unwrap() {
        verdict.outcome.unwrap();
    }
    // Each tensor is one request, however many pieces it is hashed in.
    assert!(server.seen().len() <= small + 48 + 48, "{}", server.seen().len());
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("model");
    let form = plain(Layout::Aligned);
    let how = Convert { secret: None, form, drop_meta: false, progress: &|_| {} };
    model.convert(&path, &how).unwrap();
    assert!(std::fs::read(&path).unwrap() == striped().file);
}
