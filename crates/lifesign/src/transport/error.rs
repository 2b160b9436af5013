//! What went wrong below HTTP's meaning, told apart by what can be done about it.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use lifesign_core::Stage;

use super::certificate::CertificateFault;
use super::endpoint::Endpoint;

/// A cause, shared so that several waiters for one connection can all be told.
pub type Cause = Arc<dyn Error + Send + Sync>;

/// A connection that could not be opened, with the stage it failed in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectError {
    /// The stage that failed.
    pub stage: Stage,
    /// What happened.
    pub kind: ConnectErrorKind,
    /// Who was being talked to: `host`, `host:port`, or the proxy; never with credentials.
    pub peer: String,
    /// The cause below, if there is one.
    pub cause: Option<Cause>,
}

/// What happened to a connection that could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectErrorKind {
    /// The certificate was refused.
    Certificate(CertificateFault),
    /// The server speaks none of the protocols that were offered.
    Protocol {
        /// Whether HTTP/2 was among them.
        http2: bool,
    },
    /// The proxy did not open a tunnel; the status is what it answered.
    ProxyAnswered {
        /// The status of the proxy's answer, or a SOCKS proxy's reply code.
        status: u16,
    },
    /// The proxy did not accept our credentials, or wants some.
    ProxyLogin,
    /// The proxy's answer was not understood.
    ProxyUnreadable,
    /// The environment variable names a proxy of a kind that is not supported.
    ProxyUnsupported {
        /// The environment variable.
        variable: &'static str,
    },
    /// The peer refused the connection.
    Refused,
    /// The connection was closed or reset before it was usable.
    Reset,
    /// The operating system gave up.
    TimedOut,
    /// The TLS handshake failed for another reason than the certificate.
    Tls,
    /// TLS cannot be set up on this machine.
    TlsSetup,
    /// No route, or another error of the operating system.
    Unreachable,
    /// The name has no address.
    Unresolved,
}

impl ConnectError {
    pub(super) fn new(stage: Stage, kind: ConnectErrorKind, peer: impl Into<String>) -> Self {
        Self {
            stage,
            kind,
            peer: peer.into(),
            cause: None,
        }
    }

    pub(super) fn with(mut self, cause: impl Error + Send + Sync + 'static) -> Self {
        self.cause = Some(Arc::new(cause));
        self
    }

    /// Classifies an error of the operating system in `stage`.
    pub(super) fn of_io(stage: Stage, peer: impl Into<String>, error: io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::ConnectionRefused => ConnectErrorKind::Refused,
            io::ErrorKind::TimedOut => ConnectErrorKind::TimedOut,
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => ConnectErrorKind::Reset,
            _ if stage == Stage::Tls => ConnectErrorKind::Tls,
            _ => ConnectErrorKind::Unreachable,
        };
        Self::new(stage, kind, peer).with(error)
    }

    /// Says that HTTP could not be begun on an open connection.
    pub(super) fn of_http(endpoint: &Endpoint, error: TransportError) -> Self {
        let stage = if endpoint.tls { Stage::Tls } else { Stage::Tcp };
        Self::new(stage, ConnectErrorKind::Reset, endpoint.to_string()).with(error)
    }

    /// Returns what to do about it, where something is known to help.
    pub fn hint(&self) -> Option<&'static str> {
        match &self.kind {
            ConnectErrorKind::Certificate(fault) => fault.hint(),
            ConnectErrorKind::Protocol { http2: false } => {
                Some("set `http2 = true` for the upstream if it speaks nothing but HTTP/2")
            }
            ConnectErrorKind::Protocol { http2: true } => Some(
                "check the base URL: neither HTTP/1.1 nor, as `http2` asks for, HTTP/2 is spoken there",
            ),
            ConnectErrorKind::TlsSetup => {
                Some("install the system's CA certificates or give them in `tls_extra_roots`")
            }
            ConnectErrorKind::ProxyAnswered { status: 407 } | ConnectErrorKind::ProxyLogin => {
                Some("put the proxy's user name and password into the proxy variable's URL")
            }
            ConnectErrorKind::Refused => {
                Some("check the base URL and that something listens there")
            }
            ConnectErrorKind::Unresolved => Some("check the host name in the base URL"),
            _ => None,
        }
    }

    /// Whether another try is known to end the same way.
    pub const fn is_futile(&self) -> bool {
        matches!(
            self.kind,
            ConnectErrorKind::Certificate(_) | ConnectErrorKind::Protocol { .. }
        )
    }

    /// Returns the deepest cause as one line, for an operator, unless the error itself says it.
    pub fn detail(&self) -> Option<String> {
        match &self.kind {
            ConnectErrorKind::Certificate(fault) if fault.is_whole() => None,
            ConnectErrorKind::Protocol { .. } => None,
            _ => self.cause.as_ref().map(|cause| deepest(&**cause)),
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = &self.peer;
        match &self.kind {
            ConnectErrorKind::Certificate(fault) => write!(f, "the certificate of {peer} {fault}"),
            ConnectErrorKind::Protocol { http2: false } => {
                write!(f, "{peer} does not speak HTTP/1.1 over TLS")
            }
            ConnectErrorKind::Protocol { http2: true } => {
                write!(f, "{peer} speaks neither HTTP/2 nor HTTP/1.1 over TLS")
            }
            ConnectErrorKind::ProxyAnswered { status } => {
                write!(
                    f,
                    "the proxy {peer} answered {status} instead of opening a tunnel"
                )
            }
            ConnectErrorKind::ProxyLogin => {
                write!(f, "the proxy {peer} did not accept the credentials")
            }
            ConnectErrorKind::ProxyUnreadable => {
                write!(f, "the proxy {peer} gave no answer that is understood")
            }
            ConnectErrorKind::ProxyUnsupported { variable } => {
                write!(
                    f,
                    "`{variable}` names a proxy of an unknown kind ({peer}); http, https, socks5 and socks5h \
                     are supported"
                )
            }
            ConnectErrorKind::Refused => write!(f, "{peer} refused the connection"),
            ConnectErrorKind::Reset => {
                write!(
                    f,
                    "{peer} closed the connection during the {} stage",
                    self.stage.name()
                )
            }
            ConnectErrorKind::TimedOut => {
                write!(f, "the operating system gave up connecting to {peer}")
            }
            ConnectErrorKind::Tls => write!(f, "the TLS handshake with {peer} failed"),
            ConnectErrorKind::TlsSetup => {
                write!(f, "TLS to {peer} cannot be set up on this machine")
            }
            ConnectErrorKind::Unreachable => write!(f, "{peer} cannot be reached"),
            ConnectErrorKind::Unresolved => write!(f, "the name {peer} has no address"),
        }
    }
}

impl Error for ConnectError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

/// An exchange that ended before its response did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransportError {
    /// What happened.
    pub kind: TransportErrorKind,
    /// The cause below, if there is one.
    pub cause: Option<Cause>,
}

/// What ended an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportErrorKind {
    /// The connection was closed before the response headers were whole.
    Closed,
    /// The connection was closed inside the response body.
    ClosedInBody,
    /// The peer takes no more streams on this HTTP/2 connection.
    GoAway {
        /// The HTTP/2 error code.
        reason: u32,
    },
    /// An HTTP/2 PING was not answered in time.
    KeepAlive,
    /// What answered our HTTP/2 is something else.
    NotHttp2 {
        /// Whether it is HTTP/1.
        http1: bool,
    },
    /// Another error of the operating system.
    Os,
    /// The connection was reset.
    Reset,
    /// The peer reset this HTTP/2 stream.
    StreamReset {
        /// The HTTP/2 error code.
        reason: u32,
    },
    /// The peer refused this HTTP/2 stream before doing anything with it.
    StreamRefused,
    /// The connection was lost before the peer had said anything in HTTP/2.
    Ungreeted,
    /// What arrived is not HTTP.
    Unreadable,
    /// The request cannot be sent over HTTP.
    Unsendable,
}

impl TransportError {
    /// Classifies what hyper reports, `in_body` or before the response headers were whole.
    pub(super) fn of_hyper(error: hyper::Error, in_body: bool) -> Self {
        let kind = classify(&error, in_body);
        Self {
            kind,
            cause: Some(Arc::new(error)),
        }
    }

    /// Whether the whole connection is lost, not only one HTTP/2 stream.
    pub(super) fn is_of_connection(&self) -> bool {
        !matches!(
            self.kind,
            TransportErrorKind::StreamRefused
                | TransportErrorKind::StreamReset { .. }
                | TransportErrorKind::Unsendable
        )
    }

    /// Whether the error names a cause that the connection itself may know better.
    pub(super) fn is_vague(&self) -> bool {
        matches!(
            self.kind,
            TransportErrorKind::Closed | TransportErrorKind::ClosedInBody
        ) && self.cause.as_ref().is_none_or(|cause| {
            cause
                .source()
                .is_none_or(|source| !source.is::<io::Error>())
        })
    }

    /// Returns what to do about it, where something is known to help.
    pub const fn hint(&self) -> Option<&'static str> {
        match self.kind {
            TransportErrorKind::NotHttp2 { .. } => {
                Some("take `http2 = true` from the upstream: the server there does not speak it")
            }
            TransportErrorKind::Ungreeted => Some(
                "try again; if it recurs, the server may not speak HTTP/2: take `http2 = true` from \
                 the upstream",
            ),
            _ => None,
        }
    }

    /// Returns the deepest cause as one line, for an operator, unless the error itself says it or
    /// says it better.
    pub fn detail(&self) -> Option<String> {
        match self.kind {
            TransportErrorKind::NotHttp2 { .. } | TransportErrorKind::Ungreeted => None,
            _ => self.cause.as_ref().map(|cause| deepest(&**cause)),
        }
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            TransportErrorKind::Closed => {
                f.write_str("the connection was closed before the response headers")
            }
            TransportErrorKind::ClosedInBody => {
                f.write_str("the connection was closed inside the response body")
            }
            TransportErrorKind::GoAway { reason } => {
                write!(
                    f,
                    "the server ended the HTTP/2 connection ({})",
                    reason_name(reason)
                )
            }
            TransportErrorKind::KeepAlive => f.write_str("an HTTP/2 keep-alive was not answered"),
            TransportErrorKind::NotHttp2 { http1: true } => {
                f.write_str("the server answered HTTP/2 in HTTP/1")
            }
            TransportErrorKind::NotHttp2 { http1: false } => {
                f.write_str("the server answered HTTP/2 with something else")
            }
            TransportErrorKind::Os => f.write_str("the operating system reported an error"),
            TransportErrorKind::Reset => f.write_str("the connection was reset"),
            TransportErrorKind::StreamReset { reason } => {
                write!(
                    f,
                    "the server reset the HTTP/2 stream ({})",
                    reason_name(reason)
                )
            }
            TransportErrorKind::StreamRefused => {
                f.write_str("the server refused the HTTP/2 stream before starting on it")
            }
            TransportErrorKind::Ungreeted => {
                f.write_str("the connection was closed before a word of HTTP/2 came")
            }
            TransportErrorKind::Unreadable => f.write_str("what arrived is not valid HTTP"),
            TransportErrorKind::Unsendable => f.write_str("the request is not valid HTTP"),
        }
    }
}

impl Error for TransportError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

fn classify(error: &hyper::Error, in_body: bool) -> TransportErrorKind {
    let closed = if in_body {
        TransportErrorKind::ClosedInBody
    } else {
        TransportErrorKind::Closed
    };
    if error.is_parse() {
        return TransportErrorKind::Unreadable;
    }
    if error.is_incomplete_message() {
        return closed;
    }
    if error.is_timeout() {
        return TransportErrorKind::KeepAlive;
    }
    let mut cause = error.source();
    while let Some(source) = cause {
        if let Some(error) = source.downcast_ref::<h2::Error>() {
            return classify_h2(error, closed);
        }
        if let Some(error) = source.downcast_ref::<io::Error>() {
            return classify_io(error, closed);
        }
        cause = source.source();
    }
    if error.is_user() && !error.is_body_write_aborted() {
        return TransportErrorKind::Unsendable;
    }
    closed
}

fn classify_h2(error: &h2::Error, closed: TransportErrorKind) -> TransportErrorKind {
    if let Some(error) = error.get_io() {
        return classify_io(error, closed);
    }
    match error.reason() {
        Some(h2::Reason::REFUSED_STREAM) => TransportErrorKind::StreamRefused,
        Some(reason) if error.is_go_away() && error.is_remote() => TransportErrorKind::GoAway {
            reason: reason.into(),
        },
        Some(reason) if error.is_reset() && error.is_remote() => TransportErrorKind::StreamReset {
            reason: reason.into(),
        },
        Some(_) => TransportErrorKind::Unreadable,
        None => closed,
    }
}

fn classify_io(error: &io::Error, closed: TransportErrorKind) -> TransportErrorKind {
    match error.kind() {
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::NotConnected => TransportErrorKind::Reset,
        // A broken pipe is also what h2 makes of a connection that ends with streams on it.
        io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => closed,
        // hyper reports a malformed chunk size this way, rustls a corrupt record.
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => TransportErrorKind::Unreadable,
        _ => TransportErrorKind::Os,
    }
}

fn deepest(error: &(dyn Error + 'static)) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

/// Returns the name that RFC 9113, section 7, gives an error code.
fn reason_name(reason: u32) -> &'static str {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    usize::try_from(reason)
        .ok()
        .and_then(|code| NAMES.get(code).copied())
        .unwrap_or("an unknown code")
}
