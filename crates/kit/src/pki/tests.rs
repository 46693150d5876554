use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use x509_parser::prelude::{FromDer, X509Certificate};

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn at(days: i64) -> Clock {
    Clock::simulated(start() + DAY * i32::try_from(days).unwrap())
}

fn pki(directory: &tempfile::TempDir, days: i64) -> Pki {
    Pki::open(directory.path().join("pki"), at(days)).unwrap()
}

fn hosts(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

fn roots(authority: &CertificateAuthority) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(der(authority.certificate_pem())).unwrap();
    Arc::new(roots)
}

fn unix(days: u64) -> UnixTime {
    let since = u64::try_from(start().as_second()).unwrap() + days * 86_400;
    UnixTime::since_unix_epoch(std::time::Duration::from_secs(since))
}

fn client_is_valid(authority: &CertificateAuthority, pem: &str, days: u64) -> bool {
    WebPkiClientVerifier::builder_with_provider(roots(authority), default_provider().into())
        .build()
        .unwrap()
        .verify_client_cert(&der(pem), &[], unix(days))
        .is_ok()
}

fn server_is_valid(authority: &CertificateAuthority, pem: &str, host: &str, days: u64) -> bool {
    let name = ServerName::try_from(host.to_owned()).unwrap();
    WebPkiServerVerifier::builder_with_provider(roots(authority), default_provider().into())
        .build()
        .unwrap()
        .verify_server_cert(&der(pem), &[], &name, &[], unix(days))
        .is_ok()
}

#[test]
fn servers_are_valid_for_their_hosts_only() {
    let directory = tempfile::tempdir().unwrap();
    let pki = pki(&directory, 0);
    let authority = pki.authority("ca", "seatrial").unwrap();
    let names = hosts(&["kubernetes.default.svc", "127.0.0.1", "::1"]);
    let server = pki.server("apiserver", &authority, "kube-apiserver", &names).unwrap();
    let check = |host: &str, days: u64, expect: bool| {
        assert_eq!(server_is_valid(&authority, &server.certificate_pem, host, days), expect);
    };
    check("kubernetes.default.svc", 0, true);
    check("127.0.0.1", 0, true);
    check("::1", 364, true);
    check("127.0.0.1", 366, false);
    check("127.0.0.2", 0, false);
    check("example.com", 0, false);
    assert!(!client_is_valid(&authority, &server.certificate_pem, 0));
}

#[test]
fn clients_carry_their_user_and_every_group() {
    let directory = tempfile::tempdir().unwrap();
    let authority = pki(&directory, 0).authority("ca", "seatrial").unwrap();
    let check = |user: &str, groups: &[&str]| {
        let client = authority.issue_client(user, &hosts(groups), start()).unwrap();
        assert!(client_is_valid(&authority, &client.certificate_pem, 0), "{user}");
        assert!(!client_is_valid(&authority, &client.certificate_pem, 366), "{user}");
        let der = der(&client.certificate_pem);
        let (rest, parsed) = X509Certificate::from_der(&der).unwrap();
        assert!(rest.is_empty());
        let subject = parsed.subject();
        let organizations: Vec<_> =
            subject.iter_organization().map(|name| name.as_str().unwrap()).collect();
        assert_eq!(organizations, groups);
        assert_eq!(subject.iter_common_name().next().unwrap().as_str().unwrap(), user);
    };
    check("alice", &[]);
    check("kubernetes-admin", &["system:masters"]);
    check("system:node:Zürich-1", &["system:nodes", "b", "c"]);
    check("many", &["a group with a rather long name, to make lengths take two bytes"; 9]);
    check("more", &["x".repeat(300).as_str(), "y"]);
}

#[test]
fn other_authorities_are_not_trusted() {
    let directory = tempfile::tempdir().unwrap();
    let pki = pki(&directory, 0);
    let authority = pki.authority("ca", "seatrial").unwrap();
    let other = pki.authority("other", "seatrial").unwrap();
    let client = other.issue_client("alice", &[], start()).unwrap();
    assert!(client_is_valid(&other, &client.certificate_pem, 0));
    assert!(!client_is_valid(&authority, &client.certificate_pem, 0));
}

#[test]
fn a_credential_stays_until_it_runs_out_or_no_longer_fits() {
    let directory = tempfile::tempdir().unwrap();
    let server = |days: i64, authority: &str, names: &[&str]| {
        let pki = pki(&directory, days);
        let authority = pki.authority(authority, "seatrial").unwrap();
        pki.server("apiserver", &authority, "kube-apiserver", &hosts(names))
            .unwrap()
            .certificate_pem
    };
    let first = server(0, "ca", &["a.example", "::1"]);
    assert_eq!(first, server(334, "ca", &["0::1", "a.example"]));
    let renewed = server(336, "ca", &["a.example", "::1"]);
    assert_ne!(first, renewed);
    assert_eq!(renewed, server(400, "ca", &["a.example", "::1"]));
    let extended = server(400, "ca", &["a.example", "b.example", "::1"]);
    assert_ne!(renewed, extended);
    assert_ne!(extended, server(400, "other", &["a.example", "b.example", "::1"]));
}

#[test]
fn a_torn_pair_is_issued_anew() {
    let directory = tempfile::tempdir().unwrap();
    let pki = pki(&directory, 0);
    let authority = pki.authority("ca", "seatrial").unwrap();
    let first = pki.client("admin", &authority, "admin", &[]).unwrap();
    let path = |name: &str| directory.path().join("pki").join(name);
    fs::copy(path("ca.key"), path("admin.key")).unwrap();
    fs::write(path("admin.crt.new"), "left over").unwrap();
    let second = pki.client("admin", &authority, "admin", &[]).unwrap();
    assert_ne!(first.certificate_pem, second.certificate_pem);
    assert_ne!(fs::read(path("ca.key")).unwrap(), fs::read(path("admin.key")).unwrap());
}

#[test]
fn a_renewed_authority_keeps_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let old = pki(&directory, 0).authority("ca", "seatrial").unwrap();
    let client = old.issue_client("alice", &[], start() + DAY * 3_600).unwrap();
    let new = pki(&directory, 3_621).authority("ca", "seatrial").unwrap();
    assert_ne!(old.certificate_pem(), new.certificate_pem());
    assert!(client_is_valid(&new, &client.certificate_pem, 3_625));
    // A leaf never outlives the authority that signed it.
    assert!(!client_is_valid(&new, &client.certificate_pem, 3_651));
}

#[test]
fn an_authority_is_never_replaced_behind_anyones_back() {
    let directory = tempfile::tempdir().unwrap();
    let pki = pki(&directory, 0);
    pki.authority("ca", "seatrial").unwrap();
    pki.authority("other", "seatrial").unwrap();
    let path = |name: &str| directory.path().join("pki").join(name);
    let message = || pki.authority("ca", "seatrial").unwrap_err().to_string();

    fs::copy(path("other.key"), path("ca.key")).unwrap();
    assert!(message().starts_with("match the authority's certificate"), "{}", message());
    fs::remove_file(path("ca.key")).unwrap();
    assert!(message().starts_with("find the private key"), "{}", message());
    fs::write(path("ca.key"), "nonsense").unwrap();
    assert!(message().starts_with("parse the private key in"), "{}", message());
    fs::remove_file(path("ca.crt")).unwrap();
    fs::write(path("ca.crt"), "nonsense").unwrap();
    assert!(message().starts_with("parse the certificate in"), "{}", message());
}

#[test]
fn files_are_for_their_owner_only() {
    let directory = tempfile::tempdir().unwrap();
    let pki = pki(&directory, 0);
    let authority = pki.authority("ca", "seatrial").unwrap();
    pki.client("admin", &authority, "admin", &[]).unwrap();
    let first = pki.signing_key("sa").unwrap();
    assert_eq!(first.private_key_pem, pki.signing_key("sa").unwrap().private_key_pem);
    assert!(first.public_key_pem.starts_with("-----BEGIN PUBLIC KEY-----"));
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let root = directory.path().join("pki");
    assert_eq!(mode(&root), 0o700);
    let mut names = Vec::new();
    for entry in fs::read_dir(&root).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(mode(&entry.path()), 0o600, "{:?}", entry.path());
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(names, ["admin.crt", "admin.key", "ca.crt", "ca.key", "sa.key", "sa.pub"]);
}

#[test]
fn debug_output_holds_no_keys() {
    let directory = tempfile::tempdir().unwrap();
    let pki = pki(&directory, 0);
    let authority = pki.authority("ca", "seatrial").unwrap();
    let client = pki.client("admin", &authority, "admin", &[]).unwrap();
    let text = format!("{pki:?} {authority:?} {client:?} {:?}", pki.signing_key("sa").unwrap());
    assert!(!text.contains("PRIVATE KEY"), "{text}");
}
