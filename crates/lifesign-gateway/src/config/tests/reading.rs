//! What is read from the file, the environment and the flags.

use pretty_assertions::assert_eq;

use lifesign::config::KeySource;

use super::*;
use crate::traces::OtlpProtocol;

#[test]
fn where_traces_go_is_said_by_our_variables_and_taken_back_by_a_flag() {
    let file = format!(
        "[telemetry]\notlp_endpoint = \"http://file\"\n{}",
        upstream("a", "openai-chat", "")
    );
    let ours = ("LIFESIGN_TELEMETRY__OTLP_ENDPOINT", "http://env:4318");
    let others = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://other");
    let endpoint = |variables: &[(&str, &str)], sets: &[&str]| {
        let config = load(&file, variables, sets).unwrap();
        let endpoint = config.traces.endpoint.value.as_ref();
        endpoint.map(ToString::to_string)
    };

    assert_eq!(endpoint(&[others], &[]).as_deref(), Some("http://file"));
    assert_eq!(
        endpoint(&[ours, others], &[]).as_deref(),
        Some("http://env:4318")
    );
    assert_eq!(endpoint(&[ours], &["telemetry.otlp_endpoint=off"]), None);
}

#[test]
fn a_file_is_read_whole() {
    let config = load(
        &format!(
            r#"
[serve]
listen = ["127.0.0.1:0", "localhost:7", "[::1]:8", "unix:/run/a.sock"]
tls_cert = "cert.pem"
tls_key = "/etc/key.pem"
drain = "5s"
admin_key = {{ env = "ADMIN" }}
hosts = ["Gateway.example"]
allow_cleartext = true

[beats]
every = "15s"
form = "comment"
open_early = false

[breaker]
failures = 4
slow_after = "20s"
open_for = "1 min"

[limits]
replay_total = "1 MiB"
buffered_total = "2 MiB"
connections = 5
reader_stall = "off"
line = "3 MiB"

[journal]
path = "calls.db"
keep = "7 days"
max_size = "64 MiB"
text = false

[telemetry]
log = "json"
otlp_endpoint = "https://collector/otlp"
otlp_protocol = "http/protobuf"
otlp_headers = {{ env = "HEADERS" }}

[[upstream]]
name = "a"
wire = "openai-chat"
base_url = "http://a"
api_key = {{ env = "A" }}
auth = "own"
rename = {{ "gpt-5*" = "five", "gpt-*" = "any" }}
concurrency = 1
queue = 0
queue_wait = "3s"
assemble = "off"
usage = "inject"
beats = {{ every = "off" }}

[[route]]
model = "gpt-*"
upstreams = ["a"]
beats = {{ form = "event" }}

[[key]]
name = "me"
sha256 = "{HASH}"
models = ["gpt-*"]
concurrency = 2
per_minute = 60
profiles = ["patient"]
may_set = ["bounds.*", "beats.form"]
beats = {{ form = "space" }}
"#
        ),
        &[],
        &[],
    )
    .unwrap();

    let listen: Vec<_> = config
        .serve
        .listen
        .value
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        listen,
        ["127.0.0.1:0", "127.0.0.1:7", "[::1]:8", "unix:/run/a.sock"]
    );
    let cert = config.serve.tls_cert.value.as_ref().unwrap();
    assert!(cert.is_absolute() && cert.ends_with("cert.pem"));
    assert_eq!(
        config.serve.tls_key.value.as_deref(),
        Some(Path::new("/etc/key.pem"))
    );
    assert_eq!(config.serve.drain.value, Duration::from_secs(5));
    assert!(config.serve.admin_key.value.is_some() && config.serve.allow_cleartext.value);
    assert_eq!(config.serve.hosts.value, ["gateway.example"]);
    let Breaker {
        failures,
        slow_after,
        open_for,
    } = &config.breaker;
    assert_eq!(
        (failures.value, slow_after.value, open_for.value),
        (4, secs(20), Duration::from_mins(1))
    );
    let limits = &config.limits;
    assert_eq!(
        (limits.replay_total.value, limits.buffered_total.value),
        (1 << 20, 2 << 20)
    );
    assert_eq!(
        (limits.connections.value, limits.reader_stall.value),
        (Some(5), Limit::Off)
    );
    assert_eq!(config.log.value, LogForm::Json);
    let traces = &config.traces;
    assert_eq!(
        traces.endpoint.value.as_ref().unwrap().to_string(),
        "https://collector/otlp"
    );
    assert_eq!(traces.protocol.value, OtlpProtocol::HttpProtobuf);
    assert_eq!(
        traces.headers.value,
        Some(KeySource::Env("HEADERS".to_owned()))
    );
    let journal = config.journal.settings().unwrap();
    assert!(journal.path.is_absolute() && journal.path.ends_with("calls.db"));
    assert_eq!(journal.keep, Some(Duration::from_hours(24 * 7)));
    assert_eq!(journal.max_size, 64 << 20);

    let upstream = &config.upstreams[0];
    assert_eq!((upstream.name(), upstream.lane.as_str()), ("a", "a"));
    assert_eq!(upstream.auth, Auth::Own);
    assert_eq!(
        (
            upstream.concurrency.value,
            upstream.queue.value,
            upstream.queue_wait.value
        ),
        (1, 0, secs(3))
    );
    assert_eq!(
        (upstream.assemble.value, upstream.usage.value),
        (Assemble::Off, UsageMode::Inject)
    );
    assert_eq!(
        ["gpt-5-mini", "gpt-4", "claude"].map(|model| upstream.model(model)),
        ["five", "any", "claude"]
    );

    let key = &config.keys[0];
    assert_eq!((key.sha256[0], key.sha256[31]), (0x2c, 0xae));
    assert_eq!((key.concurrency, key.per_minute), (Some(2), Some(60)));
    assert_eq!(key.profiles, [Profile::Patient]);
    assert!(key.may_ask_for("gpt-5") && !key.may_ask_for("claude"));
    assert!(key.may_set("bounds.flat") && !key.may_set("retry.attempts"));

    let settings = config.settings(upstream, None, None).unwrap();
    assert_eq!(settings.limits.line.value, 3 << 20);
}

#[test]
fn where_nobody_says_anything_the_defaults_are_those_of_the_reference() {
    let config = load(&upstream("a", "openai-chat", ""), &[], &[]).unwrap();

    let shown = [
        ("serve.listen", config.serve.listen.value[0].to_string()),
        (
            "serve.drain",
            format!("{} s", config.serve.drain.value.as_secs()),
        ),
        (
            "beats.every",
            limit_text(config.beats(None, None, None, None).every.value),
        ),
        (
            "breaker.failures",
            config.breaker.failures.value.to_string(),
        ),
        (
            "breaker.slow_after",
            limit_text(config.breaker.slow_after.value),
        ),
        (
            "breaker.open_for",
            format!("{} s", config.breaker.open_for.value.as_secs()),
        ),
        (
            "limits.replay_total",
            size_text(config.limits.replay_total.value),
        ),
        (
            "limits.buffered_total",
            size_text(config.limits.buffered_total.value),
        ),
        (
            "limits.reader_stall",
            limit_text(config.limits.reader_stall.value),
        ),
    ];
    for (name, value) in shown {
        let key = table::SETTINGS.iter().find(|key| key.name == name).unwrap();
        assert_eq!(key.default, value, "{name}");
    }
    let upstream = &config.upstreams[0];
    let shown = [
        ("concurrency", upstream.concurrency.value.to_string()),
        ("queue", upstream.queue.value.to_string()),
        ("queue_wait", limit_text(upstream.queue_wait.value)),
    ];
    for (name, value) in shown {
        let key = table::UPSTREAM.iter().find(|key| key.name == name).unwrap();
        assert_eq!(key.default, value, "{name}");
    }
    assert_eq!(config.beats(None, None, None, None), Beats::default());
    assert_eq!(upstream.auth, Auth::Pass);
    assert_eq!(
        (upstream.assemble.value, upstream.usage.value),
        (Assemble::Auto, UsageMode::AsAsked)
    );
}

#[test]
fn environment_and_flags_set_what_the_file_sets_and_the_stronger_wins() {
    let file = format!(
        "[serve]\ndrain = \"1s\"\nlisten = \"127.0.0.1:1\"\n[breaker]\nfailures = 1\n{}",
        upstream("a", "openai-chat", "")
    );

    let config = load(
        &file,
        &[
            ("LIFESIGN_SERVE__DRAIN", "2s"),
            ("LIFESIGN_SERVE__LISTEN", "127.0.0.1:2, unix:/a"),
            ("LIFESIGN_SERVE__ADMIN_KEY", "file:/etc/admin"),
        ],
        &["serve.drain=3s", "breaker.failures=null"],
    )
    .unwrap();

    assert_eq!(config.serve.drain.value, Duration::from_secs(3));
    assert_eq!(config.serve.drain.origin, Origin::Call);
    assert_eq!(config.serve.listen.value.len(), 2);
    assert_eq!(config.serve.listen.origin, Origin::Env);
    assert!(matches!(
        config.breaker.failures,
        Setting {
            value: 1,
            origin: Origin::File { line: 5, .. }
        }
    ));
    assert_eq!(
        config.serve.admin_key.value,
        Some(KeySource::File("/etc/admin".into()))
    );
}

#[test]
fn one_name_for_two_wires_shares_a_lane() {
    let flags = [
        "openai=http://a".to_owned(),
        "anthropic=http://b".to_owned(),
    ];

    let config = GatewayConfig::from_flags(&flags, [], &[]).unwrap();

    let lanes: Vec<_> = config.upstreams.iter().map(|it| it.lane.as_str()).collect();
    assert_eq!(lanes, ["openai", "openai", "anthropic"]);
}

#[test]
fn the_key_of_an_upstream_is_the_wires_usual_one_where_the_gateway_has_its_own() {
    let text = |more: &str| {
        format!(
            "{}{more}",
            upstream("a", "anthropic", "").replace("\n\n", "\n")
        )
    };
    let key = format!("[[key]]\nname = \"k\"\nsha256 = \"{HASH}\"\n");
    let variable = |name: &str| (name == "ANTHROPIC_API_KEY").then(|| "sk".into());
    let pass = load(&text(""), &[], &[]).unwrap();
    let own = load(&text(&key), &[], &[]).unwrap();

    assert!(pass.upstreams[0].read_key(variable).unwrap().is_none());
    assert!(own.upstreams[0].read_key(variable).unwrap().is_some());
    assert!(own.upstreams[0].read_key(|_| None).unwrap().is_none());
}

#[test]
fn every_key_of_the_tables_is_taken() {
    let takes = |text: &str| {
        let error = load(text, &[], &[]).unwrap_err().to_string();
        assert!(!error.contains("is no "), "{error}");
        assert!(!error.contains("unknown"), "{error}");
    };
    for key in table::SETTINGS {
        let (table, name) = key.name.split_once('.').unwrap();
        takes(&format!("[{table}]\n{name} = []\n"));
    }
    for key in table::UPSTREAM {
        takes(&format!("[[upstream]]\n{} = -1\n", key.name));
    }
    for (array, keys) in table::ARRAYS {
        for key in *keys {
            takes(&format!("[[{array}]]\n{} = -1\n", key.name));
        }
    }
}
