//! `telemetry.otlp_...`: where traces go.

use std::ffi::OsString;

use lifesign::config::{Entry, KeySource};
use lifesign::transport::EndpointError;
use lifesign_core::{Setting, SettingError, Value};
use secrecy::ExposeSecret as _;

use super::{GatewayConfig, GatewayTables};
use crate::traces::{
    CollectorUrl, CollectorUrlError, OtlpProtocol, PairsError, TraceSettings, Traces, TracesError,
};

/// Where traces go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracesConfig {
    /// The collector. Default none: calls leave no trace.
    pub endpoint: Setting<Option<CollectorUrl>>,
    /// How it is spoken to. Default HTTP.
    pub protocol: Setting<OtlpProtocol>,
    /// Where the headers are that it wants. Default none.
    pub headers: Setting<Option<KeySource>>,
}

impl Default for TracesConfig {
    fn default() -> Self {
        Self {
            endpoint: Setting::default_value(None),
            protocol: Setting::default_value(OtlpProtocol::default()),
            headers: Setting::default_value(None),
        }
    }
}

impl TracesConfig {
    pub(super) fn handle(&mut self, entry: &Entry<'_>) -> Result<(), SettingError> {
        match entry.key() {
            "otlp_endpoint" => self.endpoint = entry.setting(read_endpoint(entry)?),
            "otlp_protocol" => {
                let at = entry.one_of(&OtlpProtocol::WORDS)?;
                self.protocol = entry.setting(OtlpProtocol::ALL[at]);
            }
            "otlp_headers" => self.headers = entry.setting(Some(entry.key_source()?)),
            _ => return Err(entry.refuse("is no setting of telemetry")),
        }
        Ok(())
    }

    pub(super) fn refuse(&self, tables: &GatewayTables) -> Result<(), SettingError> {
        let is_grpc = self.protocol.value == OtlpProtocol::Grpc;
        let endpoint = self.endpoint.value.as_ref();
        let Some(endpoint) = endpoint.filter(|endpoint| is_grpc && endpoint.has_path()) else {
            return Ok(());
        };
        let error = SettingError::new(ENDPOINT, "has a path, of which gRPC knows nothing")
            .with_value(&Value::Text(&endpoint.to_string()))
            .with_accepted("a URL without a path, or telemetry.otlp_protocol = \"http/protobuf\"");
        Err(tables.placed(error, ENDPOINT))
    }
}

/// Reads a URL, or the word that turns traces off.
fn read_endpoint(entry: &Entry<'_>) -> Result<Option<CollectorUrl>, SettingError> {
    let text = entry.text()?;
    if text.trim() == "off" {
        return Ok(None);
    }
    CollectorUrl::parse(text).map(Some).map_err(|error| {
        let told = error.to_string();
        let refused = entry.refuse(told.strip_prefix("the URL ").unwrap_or(&told));
        match error {
            // Both may hold a password.
            CollectorUrlError::Endpoint(EndpointError::Credentials) | CollectorUrlError::Query => {
                refused
            }
            _ => refused.with_value(&Value::Text(text)),
        }
    })
}

impl GatewayConfig {
    /// Returns how traces are to be sent, if they are.
    ///
    /// # Errors
    ///
    /// Returns an error that names the setting or the variable where one cannot be used, never what
    /// is secret of it.
    pub fn trace_settings(
        &self,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<TraceSettings>, SettingError> {
        let Some(endpoint) = &self.traces.endpoint.value else {
            return Ok(None);
        };
        let mut settings = TraceSettings::new(endpoint.clone(), self.traces.protocol.value);
        if let Some(source) = &self.traces.headers.value {
            let read = source.read(&variable).map_err(|error| SettingError {
                field: HEADERS.into(),
                ..error
            });
            let headers = read.map_err(|error| self.placed(error, HEADERS))?;
            let with = settings.with_headers(headers.expose_secret());
            settings = with.map_err(|error| self.placed(refused(HEADERS, error), HEADERS))?;
        }
        if let Some(text) = text_of(RESOURCE, &variable)? {
            let with = settings.with_resource(&text);
            settings = with.map_err(|error| refused(RESOURCE, error))?;
        }
        if let Some(name) = text_of(SERVICE, &variable)? {
            settings = settings.with_service(name);
        }
        Ok(Some(settings))
    }

    /// Starts the sending of traces, if they are to be sent.
    pub(crate) fn open_traces(
        &self,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Traces>, SettingError> {
        let settings = self.trace_settings(variable)?;
        let traces = settings.as_ref().map(Traces::start).transpose();
        traces.map_err(|error: TracesError| {
            let error = SettingError::new(ENDPOINT, format!("cannot be used: {error}"));
            self.placed(error, ENDPOINT)
        })
    }
}

/// Returns a variable of OpenTelemetry's. An empty one is as good as none.
fn text_of(
    name: &'static str,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<String>, SettingError> {
    let Some(text) = variable(name) else {
        return Ok(None);
    };
    let text = text
        .into_string()
        .map_err(|_| SettingError::new(name, "is not UTF-8"))?;
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

fn refused(field: &'static str, error: PairsError) -> SettingError {
    SettingError::new(field, error.to_string())
        .with_accepted("name=value, commas between, values percent-encoded")
}

const ENDPOINT: &str = "telemetry.otlp_endpoint";
const HEADERS: &str = "telemetry.otlp_headers";
const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";
const SERVICE: &str = "OTEL_SERVICE_NAME";
