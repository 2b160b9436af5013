//! TLS: one provider, named; the platform's verifier, and the roots that somebody added.
//!
//! The configuration is built by the first connection that needs it, so a machine without CA
//! certificates can still talk plain HTTP to a server of its own.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use lifesign_core::Stage;
use rustls::crypto::aws_lc_rs;
use rustls::{AlertDescription, ClientConfig};
use rustls_pki_types::{CertificateDer, ServerName};
use rustls_platform_verifier::Verifier;
use tokio_rustls::TlsConnector;

use super::certificate::CertificateFault;
use super::error::{ConnectError, ConnectErrorKind};
use super::meter::Layer;
use super::roots::{self, RootsError};

/// The TLS side of a transport.
pub(super) struct Tls {
    extra_roots: Vec<CertificateDer<'static>>,
    configs: OnceLock<Result<Configs, rustls::Error>>,
}

/// A configuration per set of protocols that ALPN offers.
struct Configs {
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
}

impl Tls {
    /// Reads the certificates of each PEM file in `extra_roots`.
    pub(super) fn new(extra_roots: &[Vec<u8>]) -> Result<Self, RootsError> {
        Ok(Self {
            extra_roots: roots::read_all(extra_roots)?,
            configs: OnceLock::new(),
        })
    }

    /// Shakes hands over `layer`; returns whether HTTP/2 was agreed on.
    pub(super) async fn wrap(
        &self,
        layer: Layer,
        host: &str,
        offer_http2: bool,
    ) -> Result<(Layer, bool), ConnectError> {
        let failed = |kind| ConnectError::new(Stage::Tls, kind, host);
        let configs = self
            .configs
            .get_or_init(|| Configs::build(&self.extra_roots))
            .as_ref()
            .map_err(|error| failed(ConnectErrorKind::TlsSetup).with(error.clone()))?;
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| failed(ConnectErrorKind::Unresolved).with(error))?;
        let config = if offer_http2 {
            &configs.http2
        } else {
            &configs.http1
        };
        let stream = TlsConnector::from(Arc::clone(config))
            .connect(name, layer)
            .await
            .map_err(|error| classify(host, error, offer_http2))?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok((Layer::Tls(Box::new(stream)), http2))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("extra_roots", &self.extra_roots.len())
            .finish_non_exhaustive()
    }
}

impl Configs {
    fn build(extra_roots: &[CertificateDer<'static>]) -> Result<Self, rustls::Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier =
            Verifier::new_with_extra_roots(extra_roots.iter().cloned(), Arc::clone(&provider))?;
        let mut http1 = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        let mut http2 = http1.clone();
        http1.alpn_protocols = vec![b"http/1.1".to_vec()];
        http2.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            http1: Arc::new(http1),
            http2: Arc::new(http2),
        })
    }
}

fn classify(host: &str, error: io::Error, offer_http2: bool) -> ConnectError {
    let tls = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let kind = match tls {
        Some(rustls::Error::InvalidCertificate(refused)) => {
            ConnectErrorKind::Certificate(CertificateFault::of(refused))
        }
        Some(
            rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)
            | rustls::Error::NoApplicationProtocol,
        ) => ConnectErrorKind::Protocol { http2: offer_http2 },
        Some(_) => ConnectErrorKind::Tls,
        None => return ConnectError::of_io(Stage::Tls, host, error),
    };
    ConnectError::new(Stage::Tls, kind, host).with(error)
}
