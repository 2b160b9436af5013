//! What is in force for the gateway and one of its upstreams, in words.

use lifesign::config::KeySource;
use lifesign_core::duration::human;
use lifesign_core::written::{limit_text, size_text};
use lifesign_core::{Explained, FileKey, Limit, Setting};

use super::GatewayConfig;
use super::beats::BeatForm;
use super::serve::LogForm;
use super::table::{GATEWAY, UPSTREAM};
use super::upstream::{Assemble, Auth, GatewayUpstream, UsageMode};
use crate::journal::age_text;
use crate::traces::OtlpProtocol;

impl GatewayConfig {
    /// Returns every setting of the gateway's and of `upstream` that does not belong to a call.
    ///
    /// Beats are those of the upstream, before a route or a key has its say.
    pub fn explain(&self, upstream: &GatewayUpstream) -> Vec<Explained> {
        let settings = GATEWAY.iter().map(|key| self.shown(key, upstream));
        let upstreams = UPSTREAM.iter().map(|key| shown(key, upstream));
        settings
            .chain(upstreams)
            .flatten()
            .map(|(key, doc, (value, origin))| Explained {
                key,
                value,
                origin,
                applies: true,
                means: doc.to_owned(),
            })
            .collect()
    }

    fn shown(&self, key: &FileKey, upstream: &GatewayUpstream) -> Option<Row> {
        let Self {
            serve,
            breaker,
            limits,
            journal,
            log,
            traces,
            ..
        } = self;
        let beats = self.beats(Some(upstream), None, None, None);
        let path = |path: &Option<std::path::PathBuf>| match path {
            Some(path) => path.display().to_string(),
            None => NONE.to_owned(),
        };
        let source = |source: &Option<KeySource>| match source {
            Some(KeySource::Env(name)) => format!("env:{name}"),
            Some(KeySource::File(path)) => format!("file:{}", path.display()),
            None => NONE.to_owned(),
        };
        let shown = match key.name {
            "serve.listen" => text(&serve.listen, |listen| {
                let places: Vec<_> = listen.iter().map(ToString::to_string).collect();
                places.join(", ")
            }),
            "serve.tls_cert" => text(&serve.tls_cert, path),
            "serve.tls_key" => text(&serve.tls_key, path),
            "serve.drain" => text(&serve.drain, |drain| human(*drain)),
            "serve.admin_key" => text(&serve.admin_key, source),
            "serve.hosts" => text(&serve.hosts, |hosts| match hosts.as_slice() {
                [] => NONE.to_owned(),
                hosts => hosts.join(", "),
            }),
            "serve.allow_cleartext" => text(&serve.allow_cleartext, ToString::to_string),
            "beats.every" => text(&beats.every, |every| limit_text(*every)),
            "beats.form" => text(&beats.form, |form| {
                word(&BeatForm::ALL, &BeatForm::WORDS, form)
            }),
            "beats.open_early" => text(&beats.open_early, ToString::to_string),
            "breaker.failures" => text(&breaker.failures, ToString::to_string),
            "breaker.slow_after" => text(&breaker.slow_after, |after| limit_text(*after)),
            "breaker.open_for" => text(&breaker.open_for, |open_for| human(*open_for)),
            "limits.replay_total" => text(&limits.replay_total, |bytes| size_text(*bytes)),
            "limits.buffered_total" => text(&limits.buffered_total, |bytes| size_text(*bytes)),
            "limits.connections" => text(&limits.connections, |count| match count {
                Some(count) => count.to_string(),
                None => key.default.to_owned(),
            }),
            "limits.reader_stall" => text(&limits.reader_stall, |stall| limit_text(*stall)),
            "journal.path" => text(&journal.path, path),
            "journal.keep" => text(&journal.keep, |keep| match keep {
                Limit::After(keep) => age_text(*keep),
                Limit::Off => limit_text(*keep),
            }),
            "journal.max_size" => text(&journal.max_size, |bytes| size_text(*bytes)),
            "journal.text" => text(&journal.text, ToString::to_string),
            "telemetry.log" => text(log, |form| word(&LogForm::ALL, &LogForm::WORDS, form)),
            "telemetry.otlp_endpoint" => text(&traces.endpoint, |url| match url {
                Some(url) => url.to_string(),
                None => OFF.to_owned(),
            }),
            "telemetry.otlp_protocol" => text(&traces.protocol, |protocol| {
                word(&OtlpProtocol::ALL, &OtlpProtocol::WORDS, protocol)
            }),
            "telemetry.otlp_headers" => text(&traces.headers, source),
            _ => return None,
        };
        Some((key.name, key.doc, shown))
    }
}

/// A name, what it sets, and the value with its origin.
type Row = (&'static str, &'static str, (String, String));

fn shown(key: &FileKey, upstream: &GatewayUpstream) -> Option<Row> {
    let (name, shown) = match key.name {
        "auth" => (
            "upstream.auth",
            (
                word(&Auth::ALL, &Auth::WORDS, &upstream.auth),
                upstream.auth_origin.to_string(),
            ),
        ),
        "concurrency" => (
            "upstream.concurrency",
            text(&upstream.concurrency, ToString::to_string),
        ),
        "queue" => ("upstream.queue", text(&upstream.queue, ToString::to_string)),
        "queue_wait" => (
            "upstream.queue_wait",
            text(&upstream.queue_wait, |wait| limit_text(*wait)),
        ),
        "assemble" => (
            "upstream.assemble",
            text(&upstream.assemble, |assemble| {
                word(&Assemble::ALL, &Assemble::WORDS, assemble)
            }),
        ),
        "usage" => (
            "upstream.usage",
            text(&upstream.usage, |usage| {
                word(&UsageMode::ALL, &UsageMode::WORDS, usage)
            }),
        ),
        _ => return None,
    };
    Some((name, key.doc, shown))
}

fn text<T>(setting: &Setting<T>, text: impl FnOnce(&T) -> String) -> (String, String) {
    (text(&setting.value), setting.origin.to_string())
}

/// Returns the word for `value`.
fn word<T: PartialEq>(all: &[T], words: &[&str], value: &T) -> String {
    let at = all.iter().position(|one| one == value);
    at.and_then(|at| words.get(at))
        .map(|word| (*word).to_owned())
        .unwrap_or_default()
}

const NONE: &str = "none";
const OFF: &str = "off";

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn every_setting_of_the_gateway_is_explained_with_value_and_origin() {
        let sets = [
            "serve.listen=127.0.0.1:1,unix:/a",
            "serve.admin_key=env:ADMIN",
            "beats.form=event",
        ]
        .map(str::to_owned);
        let upstreams = ["anthropic=http://h".to_owned()];
        let config = GatewayConfig::from_flags(&upstreams, [], &sets).unwrap();

        let rows = config.explain(&config.upstreams[0]);

        let row = |key: &str| {
            let row = rows.iter().find(|row| row.key == key).unwrap();
            format!("{} {}", row.value, row.origin)
        };
        assert_eq!(row("serve.listen"), "127.0.0.1:1, unix:/a call");
        assert_eq!(row("serve.admin_key"), "env:ADMIN call");
        assert_eq!(row("beats.form"), "event call");
        assert_eq!(row("upstream.auth"), "pass default");
        for key in GATEWAY {
            let untouched = row(key.name);
            let set = ["serve.listen", "serve.admin_key", "beats.form"];
            if !set.contains(&key.name) {
                assert_eq!(
                    untouched,
                    format!("{} default", key.default),
                    "{}",
                    key.name
                );
            }
        }
        assert_eq!(rows.len(), GATEWAY.len() + 6);
    }
}
