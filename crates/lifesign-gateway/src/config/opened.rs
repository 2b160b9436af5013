//! The files and variables that the settings name.

use std::ffi::OsString;
use std::path::Path;

use lifesign::config::read_bounded;
use lifesign_core::{Setting, SettingError, Value};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::SecretString;

use super::GatewayConfig;

/// Who the gateway is where it speaks TLS.
#[derive(Debug)]
pub struct TlsIdentity {
    /// Its certificate, and those between it and its root.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The private key.
    pub key: PrivateKeyDer<'static>,
}

impl GatewayConfig {
    /// Opens everything that the settings name, so that nothing of it is first missed by a call.
    ///
    /// # Errors
    ///
    /// Returns an error that names the setting, its place and the file or variable.
    pub fn open(&self, variable: impl Fn(&str) -> Option<OsString>) -> Result<(), SettingError> {
        for upstream in &self.upstreams {
            upstream.read_key(&variable)?;
            upstream.client.read_extra_roots()?;
        }
        self.read_admin_key(&variable)?;
        self.read_tls()?;
        self.check_journal()
    }

    /// Reads the key of the admin interface, if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error that names the variable or the file, never what is in it.
    pub fn read_admin_key(
        &self,
        variable: impl FnOnce(&str) -> Option<OsString>,
    ) -> Result<Option<SecretString>, SettingError> {
        let Some(source) = &self.serve.admin_key.value else {
            return Ok(None);
        };
        source.read(variable).map(Some).map_err(|error| {
            let field = "serve.admin_key";
            self.placed(
                SettingError {
                    field: field.into(),
                    ..error
                },
                field,
            )
        })
    }

    /// Reads the certificate and its key, if the gateway speaks TLS.
    ///
    /// # Errors
    ///
    /// Returns an error that names the setting, its place and the file if one cannot be read.
    pub fn read_tls(&self) -> Result<Option<TlsIdentity>, SettingError> {
        let (Some(certificates), Some(key)) = (
            self.read_pem("serve.tls_cert", &self.serve.tls_cert, |pem| {
                let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
                read.ok().filter(|read| !read.is_empty())
            })?,
            self.read_pem("serve.tls_key", &self.serve.tls_key, |pem| {
                PrivateKeyDer::from_pem_slice(pem).ok()
            })?,
        ) else {
            return Ok(None);
        };
        Ok(Some(TlsIdentity { certificates, key }))
    }

    fn read_pem<T>(
        &self,
        field: &str,
        path: &Setting<Option<std::path::PathBuf>>,
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, SettingError> {
        let Some(path) = &path.value else {
            return Ok(None);
        };
        let refuse = |path: &Path, problem: String| {
            let error = SettingError::new(field, problem)
                .with_value(&Value::Text(&path.display().to_string()))
                .with_accepted("the path of a PEM file");
            self.placed(error, field)
        };
        let pem =
            read_bounded(path).map_err(|error| refuse(path, format!("cannot be read: {error}")))?;
        match read(&pem) {
            Some(read) => Ok(Some(read)),
            None if field == "serve.tls_key" => {
                Err(refuse(path, "holds no private key in PEM form".to_owned()))
            }
            None => Err(refuse(path, "holds no certificate in PEM form".to_owned())),
        }
    }
}
