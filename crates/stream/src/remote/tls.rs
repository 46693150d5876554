//! Whom to believe: a private authority's certificates where they are given, else the system's.
//!
//! A file of certificates takes the place of the system's, as curl and the AWS tools have it. There is
//! no way to believe nobody.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use super::fault::Fault;

/// How TLS is spoken: by ring, versions 1.2 and 1.3, HTTP/1.1 inside.
pub(crate) fn config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, Fault> {
    let from = ca_file.map_or_else(|| "the system".to_owned(), |path| path.display().to_string());
    let wrong = |why: String| Fault::Roots { from: from.clone(), why };
    let certificates: Vec<CertificateDer<'static>> = match ca_file {
        Some(path) => CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect)
            .map_err(|error| wrong(error.to_string()))?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates);
    if roots.is_empty() {
        let remedy = "install ca-certificates, or give a file of certificates with --ca-file";
        let none = if ca_file.is_some() { "it holds no certificate" } else { remedy };
        return Err(wrong(none.to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
