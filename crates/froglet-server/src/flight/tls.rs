//! TLS: a certificate and its key, by PEM files.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::error::ServerError;

/// What accepts clients with this certificate.
pub(super) fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, ServerError> {
    let error = |path: &Path, what: String| ServerError::Tls { path: path.to_owned(), what };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| error(certificate, e.to_string()))?;
    if chain.is_empty() {
        return Err(error(certificate, "it has no certificate".to_owned()));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|e| error(key, e.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret))
        .map_err(|e| error(certificate, e.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
