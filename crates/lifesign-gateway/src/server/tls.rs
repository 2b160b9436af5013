//! TLS for listeners, from PEM files.

use std::{fmt, io, path::Path, sync::Arc};

use arc_swap::ArcSwap;
use lifesign::config::read_bounded;
use rustls::{ServerConfig, crypto::aws_lc_rs};
use rustls_pki_types::{
    CertificateDer, PrivateKeyDer,
    pem::{Error as PemError, PemObject as _},
};

/// Makes TLS of the files of a certificate, with its chain, and of its key.
pub(crate) fn load(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let pem = read_bounded(cert).map_err(TlsError::UnreadableCertificate)?;
    let chain = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<Vec<_>, _>>()
        .ok()
        .filter(|chain| !chain.is_empty())
        .ok_or(TlsError::NoCertificate)?;
    let pem = read_bounded(key).map_err(TlsError::UnreadableKey)?;
    // The error could quote the file.
    let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|_: PemError| TlsError::NoKey)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Refused)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(TlsError::Refused)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The TLS in force, for connections to come.
#[derive(Clone)]
pub(crate) struct TlsSlot {
    config: Arc<ArcSwap<ServerConfig>>,
}

impl TlsSlot {
    pub(crate) fn new(config: Arc<ServerConfig>) -> Self {
        Self {
            config: Arc::new(ArcSwap::new(config)),
        }
    }

    /// Puts another certificate in force.
    pub(crate) fn replace(&self, config: Arc<ServerConfig>) {
        self.config.store(config);
    }

    pub(super) fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }
}

impl fmt::Debug for TlsSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsSlot(..)")
    }
}

/// Files that make no TLS. Displayed behind the setting and the file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    /// The file of the certificate cannot be read.
    #[error("cannot be read: {0}")]
    UnreadableCertificate(io::Error),
    /// The file of the certificate holds none, or a broken one.
    #[error("holds no certificate in PEM form")]
    NoCertificate,
    /// The file of the key cannot be read.
    #[error("cannot be read: {0}")]
    UnreadableKey(io::Error),
    /// The file of the key holds none.
    #[error("holds no private key in PEM form")]
    NoKey,
    /// The certificate and the key do not make a pair.
    #[error("cannot be used with serve.tls_cert: {0}")]
    Refused(rustls::Error),
}

impl TlsError {
    /// Returns whether it is the certificate's file that cannot be used, rather than the key's.
    pub(crate) const fn is_of_certificate(&self) -> bool {
        matches!(self, Self::UnreadableCertificate(_) | Self::NoCertificate)
    }
}
