//! Redirects are followed, remembered, asked for again, and never given what is not theirs.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

use stream::{Credentials, Remote, S3, Signer};

use super::server::{Act, Server, object};
use super::{hasty, load, open, right, striped, told};

fn to(location: &str) -> Act {
    Act::Say("307 There", format!("location: {location}\r\n"), b"moved".to_vec())
}

/// A store of S3 at this port, and somebody's credentials.
fn signed(port: u16) -> Remote {
    let credentials = Credentials::new("AKID", "hunter2", Some("session")).unwrap();
    let endpoint = Some(format!("http://127.0.0.1:{port}"));
    let s3 = S3 { signer: Signer::Given(credentials), endpoint, ..S3::default() };
    Remote { s3, ..hasty() }
}

#[test]
fn another_host_gets_the_question_and_no_credentials() {
    let far = Server::start(object(striped().file.clone()), |_| Act::Serve);
    let there = format!("{}?token=1", far.url());
    let near = Server::start(object(vec![]), move |_| to(&there));
    let model = open("s3://bucket/a key", &signed(near.port)).unwrap();
    right(&load(&model).unwrap());
    for asked in near.seen() {
        assert_eq!(asked.target, "/bucket/a%20key");
        assert!(asked.fields["authorization"].starts_with("AWS4-HMAC-SHA256 Credential=AKID/"));
        assert_eq!(asked.fields["x-amz-security-token"], "session");
        assert!(!format!("{asked:?}").contains("hunter2"));
    }
    for asked in far.seen() {
        assert_eq!(asked.target, "/model?token=1");
        let given = ["authorization", "x-amz-security-token", "x-amz-date"];
        assert!(given.iter().all(|name| !asked.fields.contains_key(*name)), "{asked:?}");
    }
    assert_eq!(near.seen().len(), 1, "the way is remembered");
}

#[test]
fn a_way_that_is_not_good_any_more_is_asked_for_again() {
    // Each token is good for ten requests.
    let uses = AtomicUsize::new(0);
    let far = Server::start(object(striped().file.clone()), move |asked| {
        let token: usize = asked.target.split_once('=').unwrap().1.parse().unwrap();
        if uses.fetch_add(1, Ordering::SeqCst) / 10 > token {
            return Act::Say("403 Expired", String::new(), Vec::new());
        }
        Act::Serve
    });
    let (there, tokens) = (far.url(), AtomicUsize::new(0));
    let near = Server::start(object(vec![]), move |_| {
        to(&format!("{there}?token={}", tokens.fetch_add(1, Ordering::SeqCst) * 100))
    });
    let model =
        open(&near.url(), &Remote { connections: NonZero::<usize>::MIN, ..hasty() }).unwrap();
    right(&load(&model).unwrap());
    assert_eq!(near.seen().len(), 2);
}

#[test]
fn a_redirect_that_leads_nowhere_is_told() {
    let told_of = |location: &'static str, status| {
        let server = Server::start(object(vec![]), move |_| {
            let field = match location {
                "" => String::new(),
                location => format!("location: {location}\r\n"),
            };
            Act::Say(status, field, Vec::new())
        });
        let failed = open(&server.url(), &hasty()).unwrap_err();
        (told(&failed), server.seen().len())
    };
    let (said, asked) = told_of("/model", "301 Round");
    assert!(said.contains("redirects more than 5 times") && asked == 6, "{said}");
    assert!(told_of("", "302 Where").0.contains("without saying where to"));
    assert!(told_of("ftp://x/", "302 There").0.contains("what cannot be used: ftp://"));
    assert!(told_of("http://user:hunter2@x/", "302 There").0.contains("holds credentials"));
}

#[test]
fn a_bucket_elsewhere_is_told_by_its_region() {
    let server = Server::start(object(vec![]), |_| {
        let fields = "x-amz-bucket-region: eu-central-1\r\n".to_owned();
        Act::Say("301 Moved", fields, b"<Error><Code>PermanentRedirect</Code></Error>".to_vec())
    });
    let said = told(&open("s3://bucket/key", &signed(server.port)).unwrap_err());
    let want = "cannot read s3://bucket/key: the bucket lies in the region eu-central-1: set AWS_REGION or --region to it";
    assert_eq!(said, want);
}
