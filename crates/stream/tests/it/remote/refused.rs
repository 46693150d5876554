//! What does not pass ends it at once, with one error that says what to do.

use stream::Error;

use super::server::{Act, Object, Server, object};
use super::{hasty, load, open, striped, told};

/// What is told when a server does this to the first request of a load (or, first, of all).
#[track_caller]
fn refused(at: usize, act: impl Fn() -> Act + Send + Sync + 'static) -> String {
    let file = striped().file.clone();
    let server =
        Server::start(object(file), move |asked| if asked.nth == at { act() } else { Act::Serve });
    let url = format!("{}?X-Amz-Signature=5ec7e7", server.url());
    let failed = open(&url, &hasty()).and_then(|model| load(&model));
    let failed = failed.err().expect("it is refused");
    assert!(matches!(failed, Error::Fetch { .. }), "{failed:?}");
    let said = told(&failed);
    let place = format!("cannot read http://localhost:{}/model?...: ", server.port);
    assert!(!said.contains("5ec7e7") && !format!("{failed:?}").contains("5ec7e7"), "{said}");
    said.strip_prefix(&place).unwrap_or_else(|| panic!("{said}")).to_owned()
}

fn say(status: &'static str, fields: &str, body: &str) -> Act {
    Act::Say(status, fields.to_owned(), body.into())
}

#[test]
fn a_refusal_says_what_it_may_be() {
    let xml = "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>";
    for at in [0, 1] {
        let said = refused(at, move || say("403 Forbidden", "", xml));
        assert!(
            said.starts_with("the server refuses it (403 AccessDenied): are the cred"),
            "{said}"
        );
        assert!(refused(at, || say("401 Who", "", "")).contains("refuses it (401)"));
        let missing = refused(at, || say("404 No", "", "<Error><Code>NoSuchKey</Code></Error>"));
        assert_eq!(missing, "nothing is there (404 NoSuchKey)");
        assert_eq!(refused(at, || say("418 Teapot", "", "")), "the server answers 418");
    }
    // In chunks, as S3 likes to explain itself.
    let fields = "transfer-encoding: chunked\r\n";
    let chunks = "2c\r\n<Error><Code>ExpiredToken</Code><Message>x</M\r\n0\r\n\r\n";
    let said = refused(1, move || say("400 Bad Request", fields, chunks));
    assert!(said.contains("refuses it (400 ExpiredToken)"), "{said}");
    // What is said there is not trusted to be a word.
    let forged = "<Code>a\x1b[31m b</Code>";
    assert!(refused(1, move || say("403 No", "", forged)).contains("(403)"));
}

#[test]
fn a_server_that_wants_hours_is_not_waited_for() {
    let said = refused(1, || say("503 Busy", "retry-after: 3600\r\n", ""));
    assert_eq!(said, "the server answers 503 and is to be asked again in 3600 s at the earliest");
}

#[test]
fn a_server_without_ranges_is_told_by_its_remedy() {
    let said = refused(0, || Act::Whole);
    assert!(said.contains("does not answer to ranges") && said.contains("nginx"), "{said}");
    assert_eq!(refused(1, || Act::Whole), said);
}

#[test]
fn an_answer_to_something_else_is_refused() {
    let head = |fields: &str| format!("HTTP/1.1 206 OK\r\netag: \"v1\"\r\n{fields}\r\n\r\n");
    for (fields, why) in [
        ("content-range: bytes 0-9/9700000\r\ncontent-length: 10", "bytes 0 to 9 where"),
        ("content-length: 10", "a range and no Content-Range"),
        ("content-range: bytes 9-0/10", "a Content-Range that is none"),
        ("content-range: lines 0-9/10", "a Content-Range that is none"),
        ("content-length: ten", "a Content-Length that is no number"),
        ("content-length: 1\r\ncontent-length: 2", "two Content-Lengths"),
        ("transfer-encoding: chunked\r\ncontent-range: bytes 0-9/10", "a range in chunks"),
        ("content-encoding: gzip\r\ncontent-range: bytes 0-9/10", "the encoding \"gzip\""),
        ("no colon", "what is no HTTP"),
    ] {
        let raw = head(fields).into_bytes();
        let said = refused(1, move || Act::Raw(raw.clone()));
        assert!(said.contains(&format!("the server answered with {why}")), "{fields}: {said}");
    }
    let garbage: Vec<u8> = (0..=255).cycle().take(5000).collect();
    assert!(refused(1, move || Act::Raw(garbage.clone())).contains("what is no HTTP"));
    let endless = [b"HTTP/1.1 206 OK\r\n".to_vec(), b"x: y\r\n".repeat(100_000)].concat();
    let said = refused(1, move || Act::Raw(endless.clone()));
    assert!(said.contains("the server answered with"), "{said}");
    let long = [b"HTTP/1.1 206 OK\r\nx: ".to_vec(), vec![b'y'; 1 << 20]].concat();
    let said = refused(1, move || Act::Raw(long.clone()));
    assert!(said.contains("a head of more than 32768 bytes"), "{said}");
}

/// The length of the body and that of its range must be one.
#[test]
fn a_body_that_is_announced_shorter_is_refused() {
    let file = striped().file.clone();
    let len = file.len();
    let server = Server::start(object(file), move |asked| match asked.nth {
        0 => Act::Serve,
        _ => {
            let (first, last) = (asked.range.0, asked.range.1.min(len - 1));
            let fields = format!("content-range: bytes {first}-{last}/{len}\r\n");
            Act::Say("206 OK", fields, vec![0; 10])
        }
    });
    let model = open(&server.url(), &hasty()).unwrap();
    let said = told(&load(&model).err().unwrap());
    assert!(said.contains("another length than that of its range"), "{said}");
}

#[test]
fn what_is_no_model_is_told_as_of_a_file() {
    for (bytes, want) in [(vec![], "no model"), (vec![b'x'; 9], "no model")] {
        let server = Server::start(object(bytes), |_| Act::Serve);
        let said = told(&open(&server.url(), &hasty()).unwrap_err());
        assert!(said.contains(&server.url()) && said.contains(want), "{said}");
    }
    let cut = striped().file[..3_000_000].to_vec();
    let server = Server::start(Object { version: "", ..object(cut) }, |_| Act::Serve);
    let said = told(&open(&server.url(), &hasty()).unwrap_err());
    assert!(said.contains("is no whole model"), "{said}");
}

/// Damage is the tensor's, not the network's.
#[test]
fn a_damaged_tensor_is_named() {
    let mut bytes = striped().file.clone();
    let end = bytes.len();
    bytes[end - 300_000] ^= 1;
    let server = Server::start(object(bytes), |_| Act::Serve);
    let model = open(&server.url(), &hasty()).unwrap();
    let failed = load(&model).err();
    let bad: Vec<_> = model.verify(None, &|_| {}).unwrap();
    let bad: Vec<_> = bad.into_iter().filter_map(|verdict| verdict.outcome.err()).collect();
    assert_eq!(bad.len(), 1);
    assert!(matches!(&bad[0], Error::Tensor { .. }));
    assert!(failed.is_none_or(|failed| failed.to_string() == bad[0].to_string()));
}
