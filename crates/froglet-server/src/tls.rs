//! TLS of both ports: a certificate and its key, by PEM files.

use std::sync::Arc;

use ring::digest;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config::TlsFiles;
use crate::error::ServerError;

/// What accepts clients with a certificate.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// The certificate's hash as tls-server-end-point has it (RFC 5929), if that is defined for it.
    pub(crate) end_point: Option<Arc<[u8]>>,
}

impl Tls {
    /// Reads the files; `protocol` is the one that is spoken within, where clients ask.
    pub(crate) fn open(files: &TlsFiles, protocol: &'static [u8]) -> Result<Tls, ServerError> {
        let TlsFiles { certificate, key } = files;
        let error =
            |path: &std::path::Path, what: String| ServerError::Tls { path: path.to_owned(), what };
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|e| error(certificate, e.to_string()))?;
        let Some(own) = chain.first() else {
            return Err(error(certificate, "it has no certificate".to_owned()));
        };
        let end_point = end_point(own);
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|e| error(key, e.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret))
            .map_err(|e| error(certificate, e.to_string()))?;
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), end_point })
    }
}

/// The hash of a certificate by the hash function of its signature; SHA-256 where that is MD5 or SHA-1. `None` where
/// the signature has none of its own (Ed25519), or one that depends on parameters (PSS).
fn end_point(certificate: &[u8]) -> Option<Arc<[u8]>> {
    /// 1.2.840.113549.1.1, PKCS #1; the last number says which.
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
    /// 1.2.840.10045.4.3, ECDSA with SHA-2.
    const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
    let (whole, _) = element(certificate, 0x30)?;
    let (_signed, rest) = element(whole, 0x30)?;
    let (signature, _) = element(rest, 0x30)?;
    let (algorithm, _) = element(signature, 0x06)?;
    let (last, family) = algorithm.split_last()?;
    let hash = match (family, last) {
        (RSA, 4 | 5 | 11) | (ECDSA, 2) => &digest::SHA256,
        (RSA, 12) | (ECDSA, 3) => &digest::SHA384,
        (RSA, 13) | (ECDSA, 4) => &digest::SHA512,
        _ => return None,
    };
    Some(Arc::from(digest::digest(hash, certificate).as_ref()))
}

/// The contents of the DER element of this tag at the front, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, length], rest) = der.split_first_chunk()?;
    if found != tag {
        return None;
    }
    if length < 0x80 {
        return rest.split_at_checked(usize::from(length));
    }
    let (bytes, rest) =
        rest.split_at_checked(usize::from(length & 0x7f)).filter(|(l, _)| l.len() <= 4)?;
    let length = bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte));
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_certificate_is_that_of_its_signature() {
        let certificate = |algorithm: &[u8]| {
            let mut oid = vec![0x30, algorithm.len() as u8 + 2, 6, algorithm.len() as u8];
            oid.extend_from_slice(algorithm);
            let signed = [0x30, 0x81, 3, 1, 2, 3];
            let mut der = vec![0x30, (signed.len() + oid.len()) as u8];
            der.extend(signed.into_iter().chain(oid));
            der
        };
        let rsa = |last| [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, last];
        for (last, bytes) in
            [(5, Some(32)), (11, Some(32)), (12, Some(48)), (13, Some(64)), (10, None)]
        {
            let found = end_point(&certificate(&rsa(last)));
            assert_eq!(found.map(|hash| hash.len()), bytes, "{last}");
        }
        assert_eq!(end_point(&certificate(&[0x2b, 0x65, 0x70])), None, "Ed25519 has none");
        let whole = certificate(&rsa(11));
        for cut in 0..whole.len() {
            assert_eq!(end_point(&whole[..cut]), None, "cut at {cut}");
        }
    }
}
