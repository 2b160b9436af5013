//! The table.

use super::{Field, FileKey, Key, Shape, Slot};

/// Names a place in the settings, for reading and for writing.
macro_rules! at {
    ($slot:ident, $($field:ident).+) => {
        Slot::$slot(Field {
            get: |settings| &settings.$($field).+,
            get_mut: |settings| &mut settings.$($field).+,
        })
    };
}

/// Everything that can be set for a call, in the order of the reference.
pub const KEYS: &[Key] = &[
    Key {
        name: "profile",
        default: "progress",
        doc: "a named set of bounds, stronger than the catalog and weaker than anything else set",
        slot: at!(Profile, profile),
    },
    Key {
        name: "bounds",
        default: "",
        doc: "every bound below at once",
        slot: Slot::AllBounds,
    },
    Key {
        name: "bounds.connect",
        default: "10 s",
        doc: "DNS, TCP and TLS together",
        slot: at!(Limit, bounds.connect),
    },
    Key {
        name: "bounds.headers",
        default: "120 s, streamed",
        doc: "from the last request byte to the response headers",
        slot: at!(Limit, bounds.headers),
    },
    Key {
        name: "bounds.raw_silence",
        default: "180 s on anthropic, else 240 s, streamed; 6 times the longest heartbeat gap, at \
                  least 45 s, while only heartbeats come",
        doc: "time without a byte, from the first request byte on",
        slot: at!(Limit, bounds.raw_silence),
    },
    Key {
        name: "bounds.before_content",
        default: "60 s, where the upstream shows work before content; while thinking at least the \
                  allowance",
        doc: "from the last request byte to the first content",
        slot: at!(Limit, bounds.before_content),
    },
    Key {
        name: "bounds.between_events",
        default: "150 s, streamed, on every wire but openai-responses; in a block that fills in the \
                  dark at least the allowance",
        doc: "time between two events after the first content",
        slot: at!(Limit, bounds.between_events),
    },
    Key {
        name: "bounds.flat",
        default: "setup + allowance, at least 1,862 s, streamed",
        doc: "time between two events, from the first request byte on",
        slot: at!(Limit, bounds.flat),
    },
    Key {
        name: "bounds.reasoning_only",
        default: "off",
        doc: "time without output while reasoning flows",
        slot: at!(Limit, bounds.reasoning_only),
    },
    Key {
        name: "bounds.whole_call",
        default: "setup + allowance, or without max_tokens at least 1,862 s; not shorter than \
                  headers; where the answer is not streamed",
        doc: "from the last request byte to the end of an answer that is not streamed",
        slot: at!(Limit, bounds.whole_call),
    },
    Key {
        name: "bounds.upstream_quiet",
        default: "off",
        doc: "silence of the upstream that a proxy's beats report",
        slot: at!(Limit, bounds.upstream_quiet),
    },
    Key {
        name: "bounds.lifetime",
        default: "off",
        doc: "time spent waiting for the upstream, over all attempts",
        slot: at!(Limit, bounds.lifetime),
    },
    Key {
        name: "bounds.wall_clock",
        default: "off",
        doc: "the call, all attempts and waits",
        slot: at!(Limit, bounds.wall_clock),
    },
    Key {
        name: "bounds.think_tokens_per_second",
        default: "87",
        doc: "the slowest a model thinks: max_tokens divided by it is the allowance",
        slot: at!(Rate, bounds.think_tokens_per_second),
    },
    Key {
        name: "bounds.notice_after",
        default: "30 s, then doubling up to 5 min",
        doc: "time without content after which a notice is given, again and again; never cuts",
        slot: at!(Notices, bounds.notice_after),
    },
    Key {
        name: "retry.attempts",
        default: "4",
        doc: "requests sent for a call, all tiers together",
        slot: at!(Count, retry.attempts),
    },
    Key {
        name: "retry.max_wait",
        default: "120 s",
        doc: "the longest wait that an upstream may ask for and get; 0 sleeps for none",
        slot: at!(Wait, retry.max_wait),
    },
    Key {
        name: "retry.max_total_wait",
        default: "off",
        doc: "all waits between attempts together; 0 is off",
        slot: at!(Limit, retry.max_total_wait),
    },
    Key {
        name: "retry.after_reasoning",
        default: "false",
        doc: "whether an attempt that brought only reasoning, not handed out, may be replaced",
        slot: at!(Flag, retry.after_reasoning),
    },
    Key {
        name: "retry.transport.tries",
        default: "3",
        doc: "requests, where the connection failed or the answer never came",
        slot: at!(Tries, retry.transport.tries),
    },
    Key {
        name: "retry.transport.first_delay",
        default: "750 ms",
        doc: "the first pause, doubled each time",
        slot: at!(Delay, retry.transport.first_delay),
    },
    Key {
        name: "retry.transport.max_delay",
        default: "8 s",
        doc: "the longest pause",
        slot: at!(Delay, retry.transport.max_delay),
    },
    Key {
        name: "retry.cut.tries",
        default: "2",
        doc: "requests, where the line was alive and a bound ran out",
        slot: at!(Tries, retry.cut.tries),
    },
    Key {
        name: "retry.cut.first_delay",
        default: "1 s",
        doc: "the first pause, doubled each time",
        slot: at!(Delay, retry.cut.first_delay),
    },
    Key {
        name: "retry.cut.max_delay",
        default: "1 s",
        doc: "the longest pause",
        slot: at!(Delay, retry.cut.max_delay),
    },
    Key {
        name: "retry.rate.tries",
        default: "as attempts",
        doc: "requests, where the upstream limits the rate",
        slot: at!(Tries, retry.rate.tries),
    },
    Key {
        name: "retry.rate.first_delay",
        default: "1 s",
        doc: "the first pause where the upstream asks for none, doubled each time",
        slot: at!(Delay, retry.rate.first_delay),
    },
    Key {
        name: "retry.rate.max_delay",
        default: "30 s",
        doc: "the longest pause that nobody asked for",
        slot: at!(Delay, retry.rate.max_delay),
    },
    Key {
        name: "retry.overload.tries",
        default: "as attempts",
        doc: "requests, where the upstream is overloaded",
        slot: at!(Tries, retry.overload.tries),
    },
    Key {
        name: "retry.overload.first_delay",
        default: "10 s",
        doc: "the first pause where the upstream asks for none, doubled each time",
        slot: at!(Delay, retry.overload.first_delay),
    },
    Key {
        name: "retry.overload.max_delay",
        default: "5 min",
        doc: "the longest pause that nobody asked for",
        slot: at!(Delay, retry.overload.max_delay),
    },
    Key {
        name: "grace.usage",
        default: "1 s",
        doc: "how long to wait for usage once every choice has finished; 0 is not at all",
        slot: at!(Wait, grace_usage),
    },
    Key {
        name: "limits.line",
        default: "16 MiB",
        doc: "the longest line of a stream",
        slot: at!(Size, limits.line),
    },
    Key {
        name: "limits.frame",
        default: "16 MiB",
        doc: "the longest frame of a stream",
        slot: at!(Size, limits.frame),
    },
    Key {
        name: "limits.answer",
        default: "64 MiB",
        doc: "the longest answer",
        slot: at!(Size, limits.answer),
    },
    Key {
        name: "limits.request",
        default: "32 MiB",
        doc: "the longest request",
        slot: at!(Size, limits.request),
    },
];

/// Every key of an `[[upstream]]`.
pub const UPSTREAM_KEYS: &[FileKey] = &[
    FileKey {
        name: "name",
        shape: Shape::Text,
        accepted: "text, once in the file",
        default: "must be given",
        doc: "the name by which `--upstream` and reports know it",
    },
    FileKey {
        name: "wire",
        shape: Shape::OneOf(&["openai-chat", "openai-responses", "anthropic"]),
        accepted: "\"openai-chat\", \"openai-responses\" or \"anthropic\"",
        default: "must be given",
        doc: "the dialect it speaks",
    },
    FileKey {
        name: "base_url",
        shape: Shape::Text,
        accepted: "an http or https URL such as \"https://api.openai.com/v1\"",
        default: "must be given",
        doc: "where it is; without a path `/v1` is added, any other path is kept",
    },
    FileKey {
        name: "api_key",
        shape: Shape::KeySource,
        accepted: "{ env = \"NAME\" } or { file = \"PATH\" }",
        default: "the wire's usual variable",
        doc: "where its key is; never the key itself; a relative path starts at the directory of the \
              configuration file",
    },
    FileKey {
        name: "models",
        shape: Shape::Texts,
        accepted: "an array of patterns such as [\"gpt-*\"]",
        default: "every model",
        doc: "the models it has",
    },
    FileKey {
        name: "http2",
        shape: Shape::Flag,
        accepted: "true or false",
        default: "false",
        doc: "whether to speak HTTP/2 with it",
    },
    FileKey {
        name: "pool_idle",
        shape: Shape::CountOrZero,
        accepted: "a whole number, 0 for none",
        default: "32",
        doc: "how many idle connections are kept, for 90 s",
    },
    FileKey {
        name: "tls_extra_roots",
        shape: Shape::Text,
        accepted: "the path of a PEM file",
        default: "none",
        doc: "certificates to trust besides those of the system; a relative path starts at the \
              directory of the configuration file",
    },
    FileKey {
        name: "bounds",
        shape: Shape::Settings("bounds"),
        accepted: "a table, or \"off\"",
        default: "none",
        doc: "its own `[bounds]`, stronger than those of the file",
    },
    FileKey {
        name: "retry",
        shape: Shape::Settings("retry"),
        accepted: "a table",
        default: "none",
        doc: "its own `[retry]`, stronger than that of the file",
    },
];
