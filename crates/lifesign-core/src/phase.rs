//! Where an attempt stands.

use serde::{Deserialize, Serialize};

/// Where an attempt stands, in the order in which it gets there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Waiting for a turn, a hold or a stream; only `wall_clock` runs.
    Queued,
    /// DNS, TCP, TLS, or a proxy's tunnel.
    Connecting,
    /// From the first request byte to the last.
    Sending,
    /// From the last request byte to the response headers.
    WaitingForHeaders,
    /// From the response headers to the first content.
    BeforeContent,
    /// From the first content on.
    AfterContent,
    /// Over.
    Ended,
}

impl Phase {
    /// Returns the name used in JSON and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Connecting => "connecting",
            Self::Sending => "sending",
            Self::WaitingForHeaders => "waiting_for_headers",
            Self::BeforeContent => "before_content",
            Self::AfterContent => "after_content",
            Self::Ended => "ended",
        }
    }
}

/// The part of connecting that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Looking the name up.
    Dns,
    /// Opening the TCP connection.
    Tcp,
    /// Asking a proxy for a tunnel.
    Proxy,
    /// The TLS handshake.
    Tls,
}

impl Stage {
    /// Returns the name used in JSON and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Tcp => "tcp",
            Self::Proxy => "proxy",
            Self::Tls => "tls",
        }
    }
}
