//! The files and variables that the settings name.

use std::ffi::OsString;
use std::sync::Arc;

use lifesign_core::{SettingError, Value};
use rustls::ServerConfig;
use secrecy::SecretString;

use super::GatewayConfig;
use crate::server::tls;

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
        self.trace_settings(&variable)?;
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

    /// Reads the certificate and its key, if the gateway speaks TLS, and makes TLS of them.
    ///
    /// # Errors
    ///
    /// Returns an error that names the setting, its place and the file if one cannot be used.
    pub(crate) fn read_tls(&self) -> Result<Option<Arc<ServerConfig>>, SettingError> {
        let (cert, key) = (&self.serve.tls_cert.value, &self.serve.tls_key.value);
        let (Some(cert), Some(key)) = (cert, key) else {
            return Ok(None);
        };
        tls::load(cert, key).map(Some).map_err(|error| {
            let (field, path) = if error.is_of_certificate() {
                ("serve.tls_cert", cert)
            } else {
                ("serve.tls_key", key)
            };
            let refused = SettingError::new(field, error.to_string())
                .with_value(&Value::Text(&path.display().to_string()))
                .with_accepted("the path of a PEM file");
            self.placed(refused, field)
        })
    }
}
