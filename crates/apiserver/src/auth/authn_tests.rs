use std::sync::Arc;

use kit::clock::Clock;
use kit::pki::{CertificateAuthority, Credential, Pki};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::*;
use crate::auth::token_file::StaticTokens;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

const NOW: &str = "2026-01-01T00:00:00Z";

struct Fixture {
    _directory: tempfile::TempDir,
    authority: CertificateAuthority,
    other: CertificateAuthority,
}

fn fixture() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let pki = Pki::open(directory.path(), Clock::simulated(at(NOW))).unwrap();
    let authority = |name: &str| pki.authority(name, name).unwrap();
    Fixture { authority: authority("ca"), other: authority("other"), _directory: directory }
}

fn peer(credential: &Credential) -> PeerCertificates {
    let pem = credential.certificate_pem.as_bytes();
    PeerCertificates::new(vec![CertificateDer::from_pem_slice(pem).unwrap()])
}

fn trusting(authority: &CertificateAuthority, anonymous: bool) -> Authenticator {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.certificate_pem().as_bytes()).unwrap())
        .unwrap();
    let tokens =
        StaticTokens::parse("t1,alice,7,\"dev,ops\"\nt2,eve,8,system:unauthenticated").unwrap();
    Authenticator {
        client_certificates: Some(ClientCertificates::new(Arc::new(roots)).unwrap()),
        tokens: vec![Box::new(StaticTokens::default()), Box::new(tokens)],
        anonymous,
        audiences: vec!["us".to_owned()],
    }
}

fn groups(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// `name groups`, or why not.
fn outcome(result: Result<Authenticated, Unauthenticated>) -> String {
    match result {
        Ok(Authenticated { user, .. }) => format!("{} {}", user.name, user.groups.join(",")),
        Err(error) => {
            let reasons: Vec<String> = error.rejected.iter().map(ToString::to_string).collect();
            format!("401 {}", reasons.join(", "))
        }
    }
}

#[test]
fn headers_name_a_user_nobody_or_an_impostor() {
    let fixture = fixture();
    let check = |header: Option<&str>, anonymous: &str, otherwise: &str| {
        for (welcome, expect) in [(true, anonymous), (false, otherwise)] {
            let authorization = header.map(str::as_bytes);
            let credentials = Credentials { authorization, ..Credentials::default() };
            let result = trusting(&fixture.authority, welcome).authenticate(&credentials, at(NOW));
            assert_eq!(outcome(result), expect, "{header:?}");
        }
    };
    let nobody = "system:anonymous system:unauthenticated";
    let alice = "alice dev,ops,system:authenticated";
    let impostor = "401 find the bearer token's user";
    check(None, nobody, "401 ");
    check(Some(""), nobody, "401 ");
    check(Some("Basic eDp5"), nobody, "401 ");
    check(Some("Bearer"), nobody, "401 ");
    check(Some("Bearer  t1"), nobody, "401 ");
    check(Some("Bearer t1"), alice, alice);
    check(Some(" bEARER t1 trailing "), alice, alice);
    check(Some("Bearer t3"), impostor, impostor);
    check(Some("Bearer t1x"), impostor, impostor);
    check(Some("Bearer t2"), "eve system:unauthenticated", "eve system:unauthenticated");
}

#[test]
fn certificates_name_user_groups_and_themselves() {
    let fixture = fixture();
    let authenticator = trusting(&fixture.authority, true);
    let client = fixture.authority.issue_client("bob", &groups(&["dev", "ops"]), at(NOW)).unwrap();
    let peer = peer(&client);
    let credentials = Credentials { certificates: Some(&peer), ..Credentials::default() };
    let user = authenticator.authenticate(&credentials, at(NOW)).unwrap().user;
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("bob", ""));
    assert_eq!(user.groups, ["dev", "ops", "system:authenticated"]);
    let id = &user.extra["authentication.kubernetes.io/credential-id"];
    assert_eq!(id.len(), 1);
    assert_eq!(id[0].len(), "X509SHA256=".len() + 64, "{id:?}");
    assert!(id[0].starts_with("X509SHA256="), "{id:?}");
}

#[test]
fn untrusted_certificates_are_refused_unless_a_token_is_good() {
    let fixture = fixture();
    let authenticator = trusting(&fixture.authority, true);
    let group = groups(&["system:masters"]);
    let good = fixture.authority.issue_client("bob", &group, at(NOW)).unwrap();
    let foreign = fixture.other.issue_client("bob", &group, at(NOW)).unwrap();
    let nameless = fixture.authority.issue_client("", &group, at(NOW)).unwrap();
    let server = fixture.authority.issue_server("bob", &groups(&["localhost"]), at(NOW)).unwrap();
    let check = |credential: &Credential, header: Option<&str>, now: &str, expect: &str| {
        let peer = peer(credential);
        let authorization = header.map(str::as_bytes);
        let credentials = Credentials { certificates: Some(&peer), authorization, audiences: None };
        assert_eq!(outcome(authenticator.authenticate(&credentials, at(now))), expect);
    };
    let bob = "bob system:masters,system:authenticated";
    let alice = "alice dev,ops,system:authenticated";
    let refused = "401 verify the client certificate";
    check(&good, None, NOW, bob);
    check(&good, Some("Bearer t3"), NOW, bob);
    check(&good, None, "2025-12-31T00:00:00Z", refused);
    check(&good, None, "2027-01-02T00:00:00Z", refused);
    check(&foreign, None, NOW, refused);
    check(&foreign, Some("Bearer t1"), NOW, alice);
    check(&server, None, NOW, refused);
    check(&nameless, None, NOW, "system:anonymous system:unauthenticated");
    check(&nameless, Some("Bearer t1"), NOW, alice);
    let both = "401 verify the client certificate, find the bearer token's user";
    check(&foreign, Some("Bearer t3"), NOW, both);
}

#[test]
fn a_kept_verdict_ends_with_the_certificate() {
    let fixture = fixture();
    let authenticator = trusting(&fixture.authority, false);
    let client = fixture.authority.issue_client("bob", &[], at(NOW)).unwrap();
    let peer = peer(&client);
    let at_time = |now: &str| {
        let credentials = Credentials { certificates: Some(&peer), ..Credentials::default() };
        authenticator.authenticate(&credentials, at(now)).is_ok()
    };
    assert!(at_time("2026-12-31T23:59:50Z"));
    assert!(at_time("2026-12-31T23:59:59Z"));
    assert!(!at_time("2027-01-01T00:00:01Z"));
}

#[test]
fn without_an_authority_certificates_are_ignored() {
    let fixture = fixture();
    let authenticator =
        Authenticator { client_certificates: None, ..trusting(&fixture.authority, true) };
    let client = fixture.authority.issue_client("bob", &[], at(NOW)).unwrap();
    let peer = peer(&client);
    let credentials = Credentials { certificates: Some(&peer), ..Credentials::default() };
    let result = authenticator.authenticate(&credentials, at(NOW));
    assert_eq!(outcome(result), "system:anonymous system:unauthenticated");
}

#[test]
fn a_token_without_audiences_is_for_this_server_alone() {
    let fixture = fixture();
    let authenticator = trusting(&fixture.authority, false);
    let check = |wanted: &[&str], expect: Option<&[&str]>| {
        let wanted = groups(wanted);
        let authorization = Some(&b"Bearer t1"[..]);
        let credentials =
            Credentials { authorization, audiences: Some(&wanted), ..Credentials::default() };
        let found = authenticator.authenticate(&credentials, at(NOW)).ok().map(|a| a.audiences);
        assert_eq!(found, expect.map(groups), "{wanted:?}");
    };
    check(&["us"], Some(&["us"]));
    check(&["them", "us"], Some(&["us"]));
    check(&["them"], None);
    check(&[], Some(&[]));
}
