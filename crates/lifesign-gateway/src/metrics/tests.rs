//! What is exported, and that dashboard, alerts and reference go by it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use lifesign_core::{Ages, BoundName, Failure, FailureReport, Heartbeats, Phase, Tally};
use pretty_assertions::assert_eq;

use self::exposition::{Exported, Exposition};
use super::*;
use crate::hub::{Beside, Hub};
use crate::journal::{Journal, JournalSettings};
use crate::records::{Answered, Asked, BeatForms, CallStarted};
use crate::server::Stage;
use crate::traces::{CollectorUrl, OtlpProtocol, TraceSettings, Traces};

mod deploy;
mod exposition;
mod page;
mod promql;

/// A gateway that serves nobody.
struct Still {
    hub: Hub,
    _directory: tempfile::TempDir,
}

#[derive(Default)]
struct Nobody(Mutex<usize>);

impl Records for Nobody {
    fn record(&self, _: &Record) {
        *self.0.lock().unwrap() += 1;
    }
}

impl Still {
    fn new() -> Self {
        let text = "[[upstream]]\nname = \"first\"\nwire = \"openai-chat\"\nbase_url = \"https://api.openai.com\"\n\
                    [[upstream]]\nname = \"second\"\nwire = \"openai-chat\"\nbase_url = \"https://b.openai.azure.com/v1\"\n\
                    [[key]]\nname = \"team\"\nmodels = [\"gpt-*\", \"named\"]\n\
                    sha256 = \"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\"\n";
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gateway.toml");
        std::fs::write(&path, text).unwrap();
        let config = GatewayConfig::load(Some(&path), [], &[], &[]).unwrap();
        let records = Arc::new(Nobody::default());
        let journal = JournalSettings::new(directory.path().join("journal.db"));
        let journal = Arc::new(Journal::open(journal).unwrap());
        let collector = CollectorUrl::parse("http://127.0.0.1:9").unwrap();
        let traces = TraceSettings::new(collector, OtlpProtocol::Grpc);
        let beside = Beside {
            journal: Some(journal),
            traces: Some(Arc::new(Traces::start(&traces).unwrap())),
        };
        let hub = Hub::new(config, records, beside, 1, |_| None).unwrap();
        Self {
            hub,
            _directory: directory,
        }
    }

    fn read(&self) -> Exposition {
        let plan = self.hub.plan();
        let text = crate::scrape::text(&self.hub, &plan, Stage::Serving);
        exposition::read(&text.unwrap())
    }

    fn record(&self, record: &Record) {
        self.hub.records.record(record);
    }
}

impl Exported {
    /// Returns the value of the only line with these labels.
    fn value(&self, labels: &str) -> u64 {
        self.value_of("", labels).parse().unwrap()
    }

    fn value_of(&self, suffix: &str, labels: &str) -> &str {
        let samples = self.samples.iter();
        let found: Vec<_> = samples
            .filter(|(name, found, _)| name.ends_with(suffix) && found == labels)
            .collect();
        let [(_, _, value)] = found[..] else {
            panic!("{suffix} {labels} in {:#?}", self.samples);
        };
        value
    }
}

fn started(model: &str) -> CallStarted {
    CallStarted {
        id: "01890000-0000-7000-8000-000000000001".to_owned(),
        at: Timestamp::UNIX_EPOCH,
        key: Some("team".to_owned()),
        method: "POST".to_owned(),
        route: "/v1/chat/completions".to_owned(),
        wire: "openai-chat".to_owned(),
        model: Some(model.to_owned()),
        max_tokens: None,
        streamed: true,
        trace: None,
    }
}

/// An attempt that began at 1 s, was sent at 1.1 s, brought content at 3.1 s and ended at 5 s.
fn attempt(upstream: &str, n: u32) -> AttemptRecord {
    let ms = Duration::from_millis;
    let tally = Tally {
        bytes: 1_000,
        frames: 40,
        heartbeats: Heartbeats {
            provider: 1,
            comment: 2,
            proxy: 3,
        },
        notices: 1,
        sent: Some(ms(1_100)),
        headers: Some(ms(1_200)),
        first_byte: Some(ms(1_500)),
        first_content: Some(ms(3_100)),
        ended: Some(ms(5_000)),
        longest_gap: Ages::of(|_| ms(1_600)),
        ..Tally::default()
    };
    AttemptRecord {
        status: Some(200),
        usage: Some(Usage {
            input_tokens: Some(10),
            output_tokens: Some(20),
            ..Usage::default()
        }),
        ..AttemptRecord::new(n, upstream, Phase::Ended, &tally, Duration::ZERO)
    }
}

fn cut(upstream: &str, n: u32) -> AttemptRecord {
    let mut failure = Failure::new(FailureCode::RawSilent, Phase::BeforeContent);
    failure.bound = Some(BoundName::RawSilence);
    failure.status = Some(200);
    AttemptRecord {
        late_ms: 3,
        ..attempt(upstream, n).failed(&failure)
    }
}

fn ended_attempt(attempt: AttemptRecord, model: &str) -> Record {
    Record::Attempt(Box::new(AttemptEnded {
        call: "01890000-0000-7000-8000-000000000001".to_owned(),
        call_at: Timestamp::UNIX_EPOCH,
        at: Timestamp::UNIX_EPOCH,
        attempt,
        route: "/v1/chat/completions".to_owned(),
        began_ms: 1_000,
        model: Some(model.to_owned()),
        profile: "standard".to_owned(),
        failure: None,
        cut_point: None,
        gaps: lifesign_core::Gaps::default(),
        asked: Asked {
            provider: "openai",
            host: "127.0.0.1".to_owned(),
            port: 443,
            method: "POST".to_owned(),
            streamed: true,
            max_tokens: None,
        },
        answered: Answered::default(),
        quiet: Vec::new(),
        trace: None,
    }))
}

fn ended(model: &str, attempts: Vec<AttemptRecord>) -> CallEnded {
    let last = attempts.last().cloned();
    CallEnded {
        started: started(model),
        outcome: Outcome::Completed,
        failure: None,
        upstream: last.as_ref().map(|last| last.upstream.clone()),
        provider: Some("openai"),
        upstream_model: Some(model.to_owned()),
        profile: None,
        answered_by: Some("gpt-x-2026".to_owned()),
        answer_id: None,
        finish_reason: Some("stop".to_owned()),
        usage: last.and_then(|last| last.usage),
        attempts,
        status: Some(200),
        elapsed_ms: 5_000,
        queued_ms: 100,
        held_ms: 200,
        retry_wait_ms: 700,
        waits: Vec::new(),
        beats: 6,
        beat_forms: BeatForms {
            comment: 1,
            event: 2,
            space: 3,
        },
        bytes_out: 900,
    }
}

fn failed(model: &str, code: FailureCode) -> CallEnded {
    let failure = Failure::new(code, Phase::Queued);
    CallEnded {
        outcome: code.into(),
        failure: Some(FailureReport::from(&failure)),
        ..ended(model, vec![cut("second", 1)])
    }
}

/// Everything that there can be has happened.
fn filled() -> Exposition {
    let still = Still::new();
    still.record(&Record::Started(started("named")));
    still.record(&ended_attempt(cut("first", 1), "named"));
    still.record(&ended_attempt(attempt("second", 2), "named"));
    let attempts = vec![cut("first", 1), attempt("second", 2)];
    still.record(&Record::Ended(Box::new(ended("named", attempts))));
    let failure = failed("named", FailureCode::RawSilent);
    still.record(&Record::Ended(Box::new(failure)));
    let key = still.hub.holds.key("first", Some("m"), None);
    let minute = Duration::from_mins(1);
    let why = FailureCode::RateLimited;
    still.hub.holds.raise(&key, minute, why, "a call");
    for code in ["key_limit", "missing_key", "unknown_key"] {
        still.hub.metrics.handle_refusal(code);
    }
    still.hub.set_pulse(crate::server::Pulse::new());
    still.read()
}

#[test]
fn a_call_that_another_upstream_completes_is_counted_where_each_part_belongs() {
    let exported = filled();

    let value = |metric: &str, labels: &str| exported[metric].value(labels);
    for (metric, labels, expected) in [
        (
            "lifesign_attempts_total",
            r#"upstream="first",outcome="raw_silent""#,
            1,
        ),
        (
            "lifesign_attempts_total",
            r#"upstream="second",outcome="completed""#,
            1,
        ),
        (
            "lifesign_attempts_total",
            r#"upstream="first",outcome="completed""#,
            0,
        ),
        (
            "lifesign_cuts_total",
            r#"upstream="first",bound="raw_silence""#,
            1,
        ),
        (
            "lifesign_retries_total",
            r#"upstream="second",kind="failover""#,
            1,
        ),
        (
            "lifesign_calls_total",
            r#"upstream="second",outcome="completed""#,
            1,
        ),
        (
            "lifesign_calls_total",
            r#"upstream="second",outcome="failed""#,
            1,
        ),
        (
            "lifesign_key_calls_total",
            r#"key="team",outcome="completed""#,
            1,
        ),
        (
            "lifesign_call_failures_total",
            r#"upstream="second",code="raw_silent""#,
            1,
        ),
        (
            "lifesign_heartbeats_received_total",
            r#"upstream="first",origin="proxy""#,
            3,
        ),
        ("lifesign_beats_sent_total", r#"form="event""#, 4),
        (
            "lifesign_received_bytes_total",
            r#"upstream="second""#,
            1_000,
        ),
        ("lifesign_sent_bytes_total", "", 1_800),
        ("lifesign_notices_total", r#"upstream="first""#, 1),
        (
            "lifesign_discarded_tokens_total",
            r#"upstream="first",gen_ai_token_type="output""#,
            20,
        ),
        (
            "lifesign_discarded_tokens_total",
            r#"upstream="second",gen_ai_token_type="output""#,
            0,
        ),
        (
            "lifesign_holds_raised_total",
            r#"upstream="first",code="rate_limited""#,
            1,
        ),
        ("lifesign_holds", r#"upstream="first""#, 1),
        ("lifesign_holds", r#"upstream="second""#, 0),
        ("lifesign_refusals_total", r#"code="key_limit""#, 1),
        (
            "lifesign_breaker_state",
            r#"upstream="first",breaker="failures",state="closed""#,
            1,
        ),
        ("lifesign_config_last_reload_successful", "", 1),
        ("lifesign_journal_state", r#"state="writing""#, 1),
        ("lifesign_journal_state", r#"state="failing""#, 0),
        ("lifesign_journal_lost_records_total", "", 0),
    ] {
        assert_eq!(value(metric, labels), expected, "{metric}{{{labels}}}");
    }
}

#[test]
fn times_are_told_by_the_conventions_from_where_each_is_seen() {
    let exported = filled();

    let of_call = r#"gen_ai_operation_name="chat",gen_ai_provider_name="azure.ai.openai",gen_ai_request_model="named""#;
    let of_attempt = format!(r#"{of_call},upstream="second""#);
    let request = format!(r#"{of_call},error_type="""#);
    let operation = format!(r#"{of_attempt},error_type="""#);
    let tokens = of_attempt.replace(",upstream", r#",gen_ai_token_type="input",upstream"#);
    let first = of_attempt
        .replace("azure.ai.openai", "openai")
        .replace("second", "first");
    for (metric, labels, sum) in [
        ("gen_ai_server_request_duration_seconds", &*request, 5.0),
        ("gen_ai_server_time_to_first_token_seconds", of_call, 3.1),
        ("gen_ai_server_time_per_output_token_seconds", of_call, 0.1),
        ("gen_ai_client_operation_duration_seconds", &operation, 4.0),
        (
            "gen_ai_client_operation_time_to_first_chunk_seconds",
            &of_attempt,
            0.5,
        ),
        (
            "gen_ai_client_operation_time_to_first_chunk_seconds",
            &first,
            0.5,
        ),
        ("gen_ai_client_token_usage", &tokens, 10.0),
        (
            "lifesign_attempt_first_content_seconds",
            r#"upstream="second""#,
            2.0,
        ),
        (
            "lifesign_attempt_longest_gap_seconds",
            r#"upstream="second",clock="raw""#,
            1.6,
        ),
        (
            "lifesign_cut_lateness_seconds",
            r#"upstream="first""#,
            0.003,
        ),
    ] {
        let told: f64 = exported[metric].value_of("_sum", labels).parse().unwrap();

        assert!((told - sum).abs() < 1e-9, "{metric}{{{labels}}}: {told}");
        assert_eq!(exported[metric].value_of("_count", labels), "1", "{metric}");
    }
    let waits = &exported["lifesign_call_wait_seconds"];
    let labels = r#"upstream="second",reason="retry""#;
    assert_eq!(waits.value_of("_count", labels), "2");
}

#[test]
fn whatever_is_exported_has_help_a_kind_and_a_unit_in_its_name() {
    for (name, exported) in filled() {
        let prefixes = ["gen_ai_", "lifesign_", "process_"];
        assert!(prefixes.iter().any(|it| name.starts_with(it)), "{name}");
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        assert!(name.bytes().all(is_name), "{name}");
        assert!(
            exported.help.len() > 10 && exported.help.ends_with('.'),
            "{name}: {}",
            exported.help
        );
        assert!(!exported.samples.is_empty(), "{name} has no line");
        let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        match exported.kind.as_str() {
            "counter" => assert!(ends(&["_total"]), "{name}"),
            "gauge" => assert!(!ends(&["_total", "_bucket", "_sum", "_count"]), "{name}"),
            // The conventions give tokens no unit in the name.
            "histogram" => assert!(ends(&["_seconds", "_bytes", "_token_usage"]), "{name}"),
            other => panic!("{name} is a {other}"),
        }
        let is_time = ["Time ", "Duration ", "Age ", "How late ", "When "];
        if is_time.iter().any(|word| exported.help.starts_with(word)) {
            assert!(ends(&["_seconds"]), "{name}: {}", exported.help);
        }
        if exported.help.starts_with("Bytes ") {
            assert!(ends(&["_bytes_total"]), "{name}: {}", exported.help);
        }
        for label in exported.labels.keys() {
            let is_id = ["call", "id", "request_id", "attempt"].contains(&label.as_str());
            assert!(!is_id, "{name} has the label {label}");
        }
    }
}

#[test]
fn no_number_of_models_keys_or_upstreams_makes_more_series_than_there_is_room_for() {
    let still = Still::new();
    let feed = |from: usize, to: usize| {
        for number in from..to {
            let model = format!("model-{number}");
            let attempt = || attempt(if number % 2 == 0 { "first" } else { "gone" }, 1);
            still.record(&ended_attempt(attempt(), &model));
            let mut ended = ended(&model, vec![attempt()]);
            ended.started.key = Some(format!("key-{number}"));
            still.record(&Record::Ended(Box::new(ended)));
        }
    };
    let count = || {
        still
            .read()
            .values()
            .map(|it| it.samples.len())
            .sum::<usize>()
    };
    feed(0, 200);
    let before = count();

    feed(200, 2_000);

    assert_eq!(count(), before);
    let models = &still.read()["gen_ai_server_request_duration_seconds"].labels;
    assert_eq!(models["gen_ai_request_model"].len(), names::MOST_MODELS + 1);
    assert!(models["gen_ai_request_model"].contains("other"));
}

#[test]
fn a_name_from_outside_cannot_leave_its_label() {
    let still = Still::new();
    let name = "a\"} 1\nlifesign_up{x=\"\\";
    let attempts = vec![attempt("first", 1)];

    still.record(&Record::Ended(Box::new(ended(name, attempts))));

    let exported = still.read();
    let models = &exported["gen_ai_server_request_duration_seconds"].labels;
    let expected: BTreeSet<_> = [name.to_owned()].into();
    assert_eq!(models["gen_ai_request_model"], expected);
}

#[test]
fn settings_that_cannot_be_used_are_told_until_some_can() {
    let still = Still::new();
    let is_successful = || still.read()["lifesign_config_last_reload_successful"].value("");

    still.hub.metrics.handle_refused_reload();
    assert_eq!(is_successful(), 0);

    let config = still.hub.plan().config.clone();
    still.hub.reload(config, |_| None).unwrap();
    assert_eq!(is_successful(), 1);
}
