//! What passes while a model is sent costs time and never the model.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stream::{Addressing, Credentials, Destination, Layout, Model, Remote, S3, Signer, write};

use super::taker::{Act, Asked, Taker};
use super::{holds, large};
use crate::remote::{hasty, located, told};
use crate::support::{borrowed, plain};

fn asking(taker: &Taker) -> Remote {
    let signer = Signer::Given(Credentials::new("id", "secret", None).unwrap());
    let (region, endpoint) = (Some("here".to_owned()), Some(taker.origin()));
    let s3 = S3 { signer, region, endpoint, addressing: Addressing::Path, ..S3::default() };
    Remote { s3, ..hasty() }
}

#[test]
fn a_put_that_breaks_begins_again() {
    let (tensors, how) = (large(), hasty());
    let taker = Taker::start(|asked| match asked.nth {
        0 => Act::Cut(5_000_000),
        1 => Act::Refuse("503 Busy", String::new()),
        2 => Act::Cut(0),
        3 => Act::TakeAndSay("500 Lost", String::new()),
        _ => Act::Take,
    });
    let place = located(&taker.url());
    write(Destination::At(&place, &how), &borrowed(&tensors), plain(Layout::Aligned))
        .unwrap_or_else(|e| panic!("{}", told(&e)));
    let seen = taker.seen();
    assert_eq!(seen.len(), 5);
    let path = tempfile::tempdir().unwrap();
    let path = path.path().join("model");
    std::fs::write(&path, &seen[4].body).unwrap();
    holds(&Model::open(&path).unwrap(), &tensors);
}

/// A store of S3 whose every step fails twice before it is done.
#[test]
fn every_step_of_an_upload_is_taken_again() {
    let tensors = large();
    let failures = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&failures);
    let taker = Taker::start(move |asked: &Asked| {
        let same = asked.before;
        if same < 2 {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        match (asked.method.as_str(), same) {
            ("POST", 0) if asked.target.contains("uploadId=") => {
                // As AWS says late that it has failed.
                Act::TakeAndSay("200 OK", "<Error><Code>InternalError</Code></Error>".to_owned())
            }
            (_, 0) => Act::Refuse("503 SlowDown", String::new()),
            ("PUT", 1) => Act::Cut(100_000),
            (_, 1) => Act::TakeAndSay("500 Lost", String::new()),
            ("POST", _) if asked.target.ends_with("?uploads=") => {
                Act::TakeAndSay("200 OK", "<R><UploadId>an id/+</UploadId></R>".to_owned())
            }
            _ => Act::Take,
        }
    });
    let how = asking(&taker);
    let place = located("s3://b/k");
    write(Destination::At(&place, &how), &borrowed(&tensors), plain(Layout::Aligned))
        .unwrap_or_else(|e| panic!("{}", told(&e)));
    // Begin, four parts, the end.
    assert_eq!(failures.load(Ordering::SeqCst), 12);
    let mut last: Vec<Asked> = taker.seen().into_iter().filter(|asked| asked.before == 2).collect();
    last.sort_by(|a, b| a.target.cmp(&b.target));
    let targets: Vec<&str> = last.iter().map(|asked| asked.target.as_str()).collect();
    assert_eq!(
        targets,
        [
            "/b/k?partNumber=1&uploadId=an%20id%2F%2B",
            "/b/k?partNumber=2&uploadId=an%20id%2F%2B",
            "/b/k?partNumber=3&uploadId=an%20id%2F%2B",
            "/b/k?partNumber=4&uploadId=an%20id%2F%2B",
            "/b/k?uploadId=an%20id%2F%2B",
            "/b/k?uploads=",
        ]
    );
    let whole: Vec<u8> = last[..4].iter().flat_map(|part| part.body.clone()).collect();
    let path = tempfile::tempdir().unwrap();
    let path = path.path().join("model");
    std::fs::write(&path, whole).unwrap();
    holds(&Model::open(&path).unwrap(), &tensors);
    let list = String::from_utf8(last[4].body.clone()).unwrap();
    assert!(list.contains("<PartNumber>4</PartNumber><ETag>\"tag\"</ETag>"), "{list}");
    assert_eq!(list.matches("<Part>").count(), 4);
}

#[test]
fn an_upload_that_cannot_end_is_aborted() {
    let tensors = large();
    let taker = Taker::start(|asked| match asked.method.as_str() {
        "POST" if asked.target.ends_with("?uploads=") => {
            Act::TakeAndSay("200 OK", "<R><UploadId>u</UploadId></R>".to_owned())
        }
        "PUT" if asked.target.contains("partNumber=3") => {
            Act::TakeAndSay("403 No", "<Code>AccessDenied</Code>".to_owned())
        }
        _ => Act::Take,
    });
    let how = asking(&taker);
    let place = located("s3://b/k");
    let to = Destination::At(&place, &how);
    let said = told(&write(to, &borrowed(&tensors), plain(Layout::Aligned)).unwrap_err());
    assert!(
        said.starts_with("cannot write s3://b/k: the server refuses it (403 AccessDenied)"),
        "{said}"
    );
    let last = taker.seen().pop().unwrap();
    assert_eq!((last.method.as_str(), last.target.as_str()), ("DELETE", "/b/k?uploadId=u"));
}

/// The answer to the last step is lost; asked again, the store knows of no such upload.
#[test]
fn what_cannot_be_known_is_said() {
    let tensors = large();
    let taker = Taker::start(|asked| match (asked.method.as_str(), asked.before) {
        ("POST", _) if asked.target.ends_with("?uploads=") => {
            Act::TakeAndSay("200 OK", "<R><UploadId>u</UploadId></R>".to_owned())
        }
        ("POST", 0) => Act::Cut(usize::MAX),
        ("POST", _) => Act::TakeAndSay("404 No", "<Code>NoSuchUpload</Code>".to_owned()),
        _ => Act::Take,
    });
    let how = asking(&taker);
    let place = located("s3://b/k");
    let to = Destination::At(&place, &how);
    let said = told(&write(to, &borrowed(&tensors), plain(Layout::Aligned)).unwrap_err());
    assert!(said.contains("whether it is there is not known"), "{said}");
}
