//! TLS: a private authority is believed when it is named, and nobody else's word is taken.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use stream::Remote;

use super::server::{Act, Server, object};
use super::{hasty, load, open, right, striped, told};

/// A server for a name, and the certificate of the authority that signed its own.
fn secure(name: &str) -> (Server, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let file = object(striped().file.clone());
    let cut = |nth| if nth == 5 { Act::Cut(100_000) } else { Act::Serve };
    (Server::with(file, Some(Arc::new(config)), move |asked| cut(asked.nth)), authority)
}

/// Trust in these certificates.
fn trusting(pem: &str) -> (tempfile::TempDir, Remote) {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("ca.pem");
    std::fs::write(&file, pem).unwrap();
    (place, Remote { ca_file: Some(file), ..hasty() })
}

#[test]
fn a_private_authority_is_believed_when_it_is_named() {
    let (server, authority) = secure("localhost");
    let (_place, how) = trusting(&authority);
    let model = open(&server.url(), &how).unwrap();
    right(&load(&model).unwrap());
    assert!(model.traffic().unwrap().retries >= 1, "and what breaks is asked for again");
}

#[test]
fn nobody_else_is_believed_and_it_is_told_at_once() {
    let (server, _) = secure("localhost");
    let (_, other) = secure("localhost");
    let (_place, how) = trusting(&other);
    let said = told(&open(&server.url(), &how).unwrap_err());
    let want = format!("TLS with localhost:{} failed; the certificates of a private", server.port);
    assert!(said.contains(&want) && said.contains("--ca-file"), "{said}");
    assert_eq!(server.connections(), 1);
    let (server, authority) = secure("elsewhere");
    let (_place, how) = trusting(&authority);
    let said = told(&open(&server.url(), &how).unwrap_err());
    assert!(said.contains("TLS with localhost:"), "another's name: {said}");
}

#[test]
fn certificates_that_are_none_are_told() {
    for text in ["", "no certificate"] {
        let (place, how) = trusting(text);
        let said = told(&open("https://localhost:1/model", &how).unwrap_err());
        let file = place.path().join("ca.pem");
        assert!(said.contains(&file.display().to_string()), "{said}");
    }
    let how = Remote { ca_file: Some("/nowhere/ca.pem".into()), ..hasty() };
    let said = told(&open("https://localhost:1/model", &how).unwrap_err());
    assert!(said.contains("/nowhere/ca.pem"), "{said}");
}

#[test]
fn plain_http_on_a_secure_port_and_the_other_way_round_are_told() {
    let server = Server::start(object(striped().file.clone()), |_| Act::Serve);
    let (_place, how) = trusting(&secure("localhost").1);
    // The server waits for the end of a line that TLS may never send.
    let mut how = Remote { ..how };
    how.patience.stall = std::time::Duration::from_millis(200);
    how.patience.tries = std::num::NonZero::new(2).unwrap();
    let url = server.url().replace("http://", "https://");
    assert!(open(&url, &how).is_err());
    let (secure, _) = secure("localhost");
    let url = secure.url().replace("https://", "http://");
    assert!(open(&url, &how).is_err());
}
