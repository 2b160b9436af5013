//! Every key that is the gateway's, for reading, suggestions, the reference and the schema.

use lifesign_core::{FileKey, Shape};

use super::beats::BeatForm;
use super::serve::LogForm;
use super::upstream::{Assemble, Auth, UsageMode};
use crate::traces::OtlpProtocol;

const fn key(
    name: &'static str,
    shape: Shape,
    accepted: &'static str,
    default: &'static str,
    doc: &'static str,
) -> FileKey {
    FileKey {
        name,
        shape,
        accepted,
        default,
        doc,
    }
}

/// The single settings, those of agents' tools behind the gateway's.
pub(super) const SETTINGS: &[FileKey] = &{
    let mut all = [GATEWAY[0]; GATEWAY.len() + TOOLS.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < GATEWAY.len() {
            GATEWAY[at]
        } else {
            TOOLS[at - GATEWAY.len()]
        };
        at += 1;
    }
    all
};

/// The gateway's single settings, in the order of the reference.
pub(super) const GATEWAY: &[FileKey] = &[
    key(
        "serve.listen",
        Shape::TextOrTexts,
        "an address such as \"127.0.0.1:4631\" or \"unix:/run/lifesign.sock\", or an array of them",
        "127.0.0.1:4631",
        "where to listen",
    ),
    key(
        "serve.tls_cert",
        Shape::Text,
        "the path of a PEM file",
        "none",
        "the certificate, and those between it and its root; a relative path starts at the \
         directory of the configuration file",
    ),
    key(
        "serve.tls_key",
        Shape::Text,
        "the path of a PEM file",
        "none",
        "the certificate's private key",
    ),
    key(
        "serve.drain",
        Shape::Wait,
        WAIT,
        "30 s",
        "how long streams may go on after a stop is asked for",
    ),
    key(
        "serve.admin_key",
        Shape::KeySource,
        "{ env = \"NAME\" } or { file = \"PATH\" }; env:NAME or file:PATH outside of a file",
        "none",
        "where the key of the admin interface is; never the key itself; must be given where the \
         gateway listens beyond this machine",
    ),
    key(
        "serve.hosts",
        Shape::Texts,
        "an array of host names such as [\"gateway.example\"]",
        "none",
        "names besides those of loopback under which the gateway may be asked",
    ),
    key(
        "serve.allow_cleartext",
        Shape::Flag,
        FLAG,
        "false",
        "whether keys may come in the clear from beyond this machine",
    ),
    key(
        "beats.every",
        Shape::Limit,
        LIMIT,
        "10 s",
        "how long nothing is sent to the caller before a beat is; `0` and `off` send none",
    ),
    key(
        "beats.form",
        Shape::OneOf(&BeatForm::WORDS),
        "\"auto\", \"comment\", \"event\" or \"space\"",
        "auto",
        "what a beat looks like; `auto` goes by the caller's program",
    ),
    key(
        "beats.open_early",
        Shape::Flag,
        FLAG,
        "true",
        "whether the first beat may open the answer before it is known how the call ends",
    ),
    key(
        "breaker.failures",
        Shape::Count,
        COUNT,
        "10",
        "failed attempts in a row after which an upstream is asked last",
    ),
    key(
        "breaker.slow_after",
        Shape::Limit,
        LIMIT,
        "off",
        "time without content after which an attempt counts as slow",
    ),
    key(
        "breaker.open_for",
        Shape::Duration,
        DURATION,
        "30 s",
        "how long an upstream is asked last before one attempt probes it",
    ),
    key(
        "limits.replay_total",
        Shape::Size,
        SIZE,
        "1 GiB",
        "all requests together that are kept to be sent again; beyond it a call has one attempt",
    ),
    key(
        "limits.buffered_total",
        Shape::Size,
        SIZE,
        "512 MiB",
        "everything together that readers have not taken yet",
    ),
    key(
        "limits.connections",
        Shape::Count,
        COUNT,
        "10,000, or what the descriptors allow",
        "callers' connections at once",
    ),
    key(
        "limits.reader_stall",
        Shape::Limit,
        LIMIT,
        "60 s",
        "how long a reader may take nothing before its call is ended",
    ),
    key(
        "journal.path",
        Shape::Text,
        "the path of a file in a directory that exists",
        "none",
        "where every call and attempt is written down; a relative path starts at the directory of \
         the configuration file",
    ),
    key(
        "journal.keep",
        Shape::Limit,
        "a duration such as \"30 days\", or \"off\" for as long as there is room",
        "30 days",
        "how long calls are kept",
    ),
    key(
        "journal.max_size",
        Shape::Size,
        "a size such as \"2 GiB\", at least 1 MiB",
        "2 GiB",
        "the most that the file takes; the oldest calls make room for new ones",
    ),
    key(
        "journal.text",
        Shape::Flag,
        "false",
        "false",
        "whether prompts and answers are kept too; `true` is refused, since the gateway passes \
         answers on without keeping them",
    ),
    key(
        "telemetry.log",
        Shape::OneOf(&LogForm::WORDS),
        "\"human\" or \"json\"",
        "human",
        "what the log looks like",
    ),
    key(
        "telemetry.otlp_endpoint",
        Shape::Text,
        "a URL such as \"http://127.0.0.1:4318\", or \"off\"",
        "off",
        "the collector that a trace of every call is sent to",
    ),
    key(
        "telemetry.otlp_protocol",
        Shape::OneOf(&OtlpProtocol::WORDS),
        "\"grpc\" or \"http/protobuf\"",
        "http/protobuf",
        "how the collector is spoken to; with `http/protobuf`, `/v1/traces` is put behind the URL",
    ),
    key(
        "telemetry.otlp_headers",
        Shape::KeySource,
        "{ env = \"NAME\" } or { file = \"PATH\" }; env:NAME or file:PATH outside of a file",
        "none",
        "where the headers are that the collector wants, such as a key: `name=value`, commas between, \
         values percent-encoded",
    ),
];

/// The settings of agents' tools.
pub(super) const TOOLS: &[FileKey] = &[
    key(
        "tools.timeout",
        Shape::Limit,
        LIMIT,
        "2 min",
        "the longest that a tool call may take where nothing else says so",
    ),
    key(
        "tools.max_output",
        Shape::Size,
        "a size such as \"64 KiB\", at least 256 B",
        "64 KiB",
        "the most of a tool's result that the model is told: its head and its tail",
    ),
    key(
        "tools.run_timeout",
        Shape::Duration,
        DURATION,
        "2 min",
        "the longest that a program may take which the model runs",
    ),
    key(
        "tools.sampling",
        Shape::CountOrZero,
        "a whole number, 0 for none",
        "2",
        "model calls of tool servers at once, all servers together; further ones wait in line",
    ),
];

/// The keys of `[[upstream]]` that are the gateway's.
pub(super) const UPSTREAM: &[FileKey] = &[
    key(
        "auth",
        Shape::OneOf(&Auth::WORDS),
        "\"pass\" or \"own\"",
        "pass where neither the upstream has a key nor the gateway callers' keys, else own",
        "whose key goes to the upstream: the caller's, or ours in place of it",
    ),
    key(
        "rename",
        Shape::Names,
        "a table such as { \"gpt-5*\" = \"my-model\" }",
        "none",
        "models, by pattern, and what the upstream calls them; the first that matches counts",
    ),
    key("concurrency", Shape::Count, COUNT, "64", "calls at once"),
    key(
        "queue",
        Shape::CountOrZero,
        "a whole number, 0 for none",
        "256",
        "calls that wait for their turn",
    ),
    key(
        "queue_wait",
        Shape::Limit,
        LIMIT,
        "off",
        "how long a call waits for its turn",
    ),
    key(
        "assemble",
        Shape::OneOf(&Assemble::WORDS),
        "\"auto\" or \"off\"",
        "auto",
        "whether an answer that is not wanted as a stream is streamed from the upstream and put together",
    ),
    key(
        "usage",
        Shape::OneOf(&UsageMode::WORDS),
        "\"as_asked\" or \"inject\"",
        "as_asked",
        "whether usage is asked for where the caller did not",
    ),
    key(
        "beats",
        Shape::Settings("beats"),
        "a table",
        "none",
        "its own `[beats]`, stronger than those of the file",
    ),
];

/// The keys of `[[route]]`.
pub(super) const ROUTE: &[FileKey] = &[
    key(
        "model",
        Shape::Text,
        "a pattern such as \"gpt-*\"",
        MUST,
        "the models it is for; the first route that matches is taken",
    ),
    key(
        "upstreams",
        Shape::Texts,
        "an array of names of [[upstream]]",
        MUST,
        "whom to ask, in this order; all of one wire",
    ),
    key(
        "beats",
        Shape::Settings("beats"),
        "a table",
        "none",
        "its own `[beats]`, stronger than those of an upstream",
    ),
];

/// The keys of `[[key]]`.
pub(super) const KEY: &[FileKey] = &[
    key(
        "name",
        Shape::Text,
        "text, once in the file",
        MUST,
        "the name by which the log and the admin interface know it",
    ),
    key(
        "sha256",
        Shape::Text,
        "64 hexadecimal digits, such as `printf %s KEY | sha256sum` prints",
        MUST,
        "the hash of the key; never the key itself",
    ),
    key(
        "models",
        Shape::Texts,
        "an array of patterns such as [\"gpt-*\"]",
        "every model",
        "the models that it may ask for",
    ),
    key(
        "concurrency",
        Shape::Count,
        COUNT,
        "no limit",
        "calls at once",
    ),
    key(
        "per_minute",
        Shape::Count,
        COUNT,
        "no limit",
        "calls a minute",
    ),
    key(
        "profiles",
        Shape::Texts,
        "an array of \"progress\", \"patient\" and \"harness\"",
        "none",
        "profiles that a call may choose",
    ),
    key(
        "may_set",
        Shape::Texts,
        "an array of settings and patterns such as [\"bounds.*\", \"beats.form\"]",
        "none",
        "settings that a call may set; its wall clock it may always shorten, and never lengthen",
    ),
    key(
        "beats",
        Shape::Settings("beats"),
        "a table",
        "none",
        "its own `[beats]`, stronger than those of a route",
    ),
];

/// The keys of a `beats` table inside of another.
pub(super) const BEATS: &[FileKey] = &[
    key("every", Shape::Limit, LIMIT, "", ""),
    key(
        "form",
        Shape::OneOf(&BeatForm::WORDS),
        "\"auto\", \"comment\", \"event\" or \"space\"",
        "",
        "",
    ),
    key("open_early", Shape::Flag, FLAG, "", ""),
];

/// The arrays of tables that are the gateway's.
pub(super) const ARRAYS: &[(&str, &[FileKey])] = &[("route", ROUTE), ("key", KEY)];

const COUNT: &str = "a whole number, at least 1 (4.0 is one)";
const DURATION: &str = "a duration such as \"750ms\" or \"10s\"";
const FLAG: &str = "true or false";
const LIMIT: &str = "a duration such as \"45s\" or \"2 min\", or \"off\"";
const MUST: &str = "must be given";
const SIZE: &str = "a size such as \"16 MiB\" or \"512 KiB\"";
const WAIT: &str = "a duration such as \"2 min\", or 0 for none";
