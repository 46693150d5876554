//! An object that changes while it is read is never mixed with what it was.

use std::sync::Arc;

use super::server::{Act, Object, Server};
use super::{hasty, load, open, striped, told};

fn version(bytes: &[u8], version: &'static str) -> Object {
    Object { bytes: Arc::new(bytes.to_vec()), version }
}

/// A load during which the object becomes another; what is told.
#[track_caller]
fn changed(old: &'static str, new: Object, minds: bool) -> String {
    let server = Server::start(version(&striped().file, old), move |asked| match asked.nth {
        7 => Act::Change(new.clone(), minds),
        _ => Act::Serve,
    });
    let model = open(&server.url(), &hasty()).unwrap();
    let said = told(&load(&model).err().expect("it changed"));
    assert!(said.starts_with(&format!("cannot read {}: ", server.url())), "{said}");
    said
}

#[test]
fn a_change_is_one_clear_error() {
    let file = &striped().file;
    let other: Vec<u8> = file.iter().map(|byte| byte ^ 1).collect();
    let longer = [file.as_slice(), b"more"].concat();
    let modified = "last-modified: Sun, 06 Nov 1994 08:49:37 GMT";
    for (old, new, minds) in [
        ("etag: \"v1\"", version(&other, "etag: \"v2\""), true),
        ("etag: \"v1\"", version(&other, "etag: \"v2\""), false),
        (modified, version(&other, "last-modified: Mon, 07 Nov 1994 08:49:37 GMT"), false),
        ("", version(&longer, ""), false),
        ("etag: W/\"weak\"", version(&longer, "etag: W/\"weak\""), false),
    ] {
        let said = changed(old, new, minds);
        assert!(said.ends_with("it was changed while it was read: open it again"), "{said}");
    }
}

#[test]
fn an_object_that_became_shorter_has_changed() {
    let said = changed("", version(&striped().file[..3_000_000], ""), false);
    assert!(said.ends_with("it was changed while it was read: open it again"), "{said}");
}

#[test]
fn what_verify_and_convert_read_is_held_to_it_too() {
    let other: Vec<u8> = striped().file.iter().map(|byte| byte ^ 1).collect();
    let serve = |at: usize, other: Object| {
        Server::start(version(&striped().file, "etag: \"v1\""), move |asked| {
            if asked.nth == at { Act::Change(other.clone(), true) } else { Act::Serve }
        })
    };
    let server = serve(4, version(&other, "etag: \"v2\""));
    let model = open(&server.url(), &hasty()).unwrap();
    let said = told(&model.verify(None, &|_| {}).unwrap_err());
    assert!(said.contains("it was changed"), "{said}");
    let server = serve(6, version(&other, "etag: \"v2\""));
    let place = tempfile::tempdir().unwrap();
    let form = crate::support::plain(stream::Layout::Aligned);
    let how = stream::Convert { secret: None, form, drop_meta: false, progress: &|_| {} };
    let model = open(&server.url(), &hasty()).unwrap();
    let said = told(&model.convert(&place.path().join("out"), &how).unwrap_err());
    assert!(said.contains("it was changed"), "{said}");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}
