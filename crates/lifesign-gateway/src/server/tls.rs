//! TLS for listeners, from PEM files.

use std::{fmt, fs, io, path::PathBuf, sync::Arc};

use arc_swap::ArcSwap;
use rustls::{ServerConfig, crypto::aws_lc_rs};
use rustls_pki_types::{
    CertificateDer, PrivateKeyDer,
    pem::{Error as PemError, PemObject as _},
};

/// A certificate with its chain, and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl TlsFiles {
    /// Reads the files.
    pub(crate) fn load(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let read = |path: &PathBuf| {
            fs::read(path).map_err(|source| TlsError::Read {
                path: path.clone(),
                source,
            })
        };
        let chain = CertificateDer::pem_slice_iter(&read(&self.cert)?)
            .collect::<Result<Vec<_>, _>>()
            .ok()
            .filter(|chain| !chain.is_empty())
            .ok_or_else(|| TlsError::NoCertificate {
                path: self.cert.clone(),
            })?;
        // The error could quote the file.
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?).map_err(|_: PemError| {
            TlsError::NoKey {
                path: self.key.clone(),
            }
        })?;
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

/// Files that make no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum TlsError {
    /// The file of the certificate holds none, or a broken one.
    #[error("`serve.tls_cert` {path:?} holds no certificate in PEM form")]
    NoCertificate { path: PathBuf },
    /// The file of the key holds none.
    #[error("`serve.tls_key` {path:?} holds no private key in PEM form")]
    NoKey { path: PathBuf },
    /// A file cannot be read.
    #[error("cannot read {path:?}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The certificate and the key do not make a pair.
    #[error("`serve.tls_cert` and `serve.tls_key` cannot be used together")]
    Refused(#[source] rustls::Error),
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn files_that_make_no_tls_are_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let one = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let two = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let cert = write("cert", &one.cert.pem());
        let key = write("key", &one.signing_key.serialize_pem());
        let other = write("other", &two.signing_key.serialize_pem());
        let load = |cert: &PathBuf, key: &PathBuf| {
            let (cert, key) = (cert.clone(), key.clone());
            TlsFiles { cert, key }.load()
        };

        assert_eq!(load(&cert, &key).unwrap().alpn_protocols, [b"http/1.1"]);
        assert!(matches!(
            load(&key, &key),
            Err(TlsError::NoCertificate { .. })
        ));
        assert!(matches!(load(&cert, &cert), Err(TlsError::NoKey { .. })));
        assert!(matches!(load(&cert, &other), Err(TlsError::Refused(_))));
        let missing = directory.path().join("missing");
        assert!(matches!(load(&missing, &key), Err(TlsError::Read { .. })));
    }
}
