//! A certificate for loopback, for both ends and for the proxies in between.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::Result;

/// A certificate that is its own authority, as files.
pub(crate) struct Certificate {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    /// Both in one file, as `HAProxy` wants them.
    pub(crate) both: PathBuf,
}

impl Certificate {
    pub(crate) fn make(directory: &Path) -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])?;
        let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let files = Self {
            cert: directory.join("cert.pem"),
            key: directory.join("key.pem"),
            both: directory.join("both.pem"),
        };
        std::fs::write(&files.cert, &cert)?;
        std::fs::write(&files.key, &key)?;
        std::fs::write(&files.both, cert + &key)?;
        Ok(files)
    }

    pub(crate) fn acceptor(&self) -> Result<TlsAcceptor> {
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_file(&self.cert)?],
                PrivateKeyDer::from_pem_file(&self.key)?,
            )?;
        Ok(Arc::new(config).into())
    }

    pub(crate) fn connector(&self) -> Result<TlsConnector> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.cert)?)?;
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Arc::new(config).into())
    }
}

/// The name that the certificate is for.
pub(crate) fn name() -> ServerName<'static> {
    ServerName::DnsName(
        rustls::pki_types::DnsName::try_from_str(NAME)
            .unwrap_or_else(|_| unreachable!("a name in the source is one"))
            .to_owned(),
    )
}

pub(crate) const NAME: &str = "localhost";
