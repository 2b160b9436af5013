//! The settings of a gateway, read from text.

use std::time::Duration;

use lifesign_core::written::{limit_text, size_text};
use lifesign_core::{BoundName, Profile};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

/// Reads a file with this text; a place in it is told without its directory.
fn load(
    text: &str,
    variables: &[(&str, &str)],
    sets: &[&str],
) -> Result<GatewayConfig, SettingError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.toml");
    std::fs::write(&path, text).unwrap();
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()));
    let sets: Vec<_> = sets.iter().map(|set| (*set).to_owned()).collect();
    GatewayConfig::load(Some(&path), variables, &sets, &[])
}

fn refusal(text: &str) -> String {
    refusal_with(text, &[], &[])
}

fn refusal_with(text: &str, variables: &[(&str, &str)], sets: &[&str]) -> String {
    let told = load(text, variables, sets).unwrap_err().to_string();
    match told.split_once("/a.toml:") {
        Some((_, told)) => told.to_owned(),
        None => told,
    }
}

fn upstream(name: &str, wire: &str, more: &str) -> String {
    format!(
        "[[upstream]]\nname = \"{name}\"\nwire = \"{wire}\"\nbase_url = \"http://{name}\"\n{more}\n"
    )
}

fn secs(seconds: u64) -> Limit {
    Limit::After(Duration::from_secs(seconds))
}

const HASH: &str = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

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
        Some(lifesign::config::KeySource::File("/etc/admin".into()))
    );
}

#[test]
fn what_cannot_be_used_is_refused_with_its_place() {
    for (text, told) in [
        (
            "[serve]\nlisten = \"4631\"",
            "2:10: serve.listen: \"4631\" is not an address with a port; accepted: an address such as \
             \"127.0.0.1:4631\" or \"unix:/run/lifesign.sock\", or an array of them",
        ),
        (
            "[serve]\nlisten = [\"unix:a.sock\"]",
            "2:10: serve.listen: \"unix:a.sock\" names no absolute path; accepted: an address such as \
             \"127.0.0.1:4631\" or \"unix:/run/lifesign.sock\", or an array of them",
        ),
        (
            "[serve]\ndrain = 5",
            "2:9: serve.drain: 5 has no unit; accepted: a duration such as \"2 min\", or 0 for none",
        ),
        (
            "[serve]\nhosts = [\"http://h\"]",
            "2:9: serve.hosts: \"http://h\" is no host name; accepted: an array of host names such as \
             [\"gateway.example\"]",
        ),
        (
            "[serve]\nlissten = \"a\"",
            "2:1: serve.lissten: unknown setting; did you mean `serve.listen`?",
        ),
        (
            "[beats]\nform = \"coment\"",
            "2:8: beats.form: \"coment\" is not known; accepted: \"auto\", \"comment\", \"event\" or \
             \"space\"; did you mean `comment`?",
        ),
        (
            "[breaker]\nfailures = 0",
            "2:12: breaker.failures: 0 is less than 1; accepted: a whole number, at least 1 (4.0 is one)",
        ),
        (
            "[limits]\nreplay_total = 5",
            "2:16: limits.replay_total: 5 has no unit; accepted: a size such as \"16 MiB\" or \"512 KiB\"",
        ),
        (
            "[telemetry]\nlog = \"xml\"",
            "2:7: telemetry.log: \"xml\" is not known; accepted: \"human\" or \"json\"",
        ),
        (
            "[telemetry]\notlp_endpoint = \"http://h\"",
            "2:1: telemetry.otlp_endpoint: cannot be set yet: this version exports no traces",
        ),
        (
            "[journal]\ntext = true",
            "2:8: journal.text: cannot be true: the gateway passes answers on without keeping their text; \
             accepted: false",
        ),
        (
            "[journal]\nkeep = \"0 days\"",
            "2:8: journal.keep: \"0 days\" is no time; accepted: a duration such as \"30 days\", or \"off\" \
             for as long as there is room",
        ),
        (
            "[journal]\nmax_size = \"1 KiB\"",
            "2:12: journal.max_size: \"1 KiB\" is too little to keep anything; accepted: a size such as \"2 GiB\", at least 1 MiB",
        ),
        (
            "[[upstream]]\nname = \"a\"\nqueue = -1",
            "3:9: upstream.queue: -1 is negative; accepted: a whole number, 0 for none",
        ),
        (
            "[[upstream]]\nauth = \"passs\"",
            "2:8: upstream.auth: \"passs\" is not known; accepted: \"pass\" or \"own\"; did you mean \
             `pass`?",
        ),
        (
            "[[upstream]]\nbeats = { evry = \"1s\" }",
            "2:11: beats.evry: unknown setting; did you mean `beats.every`?",
        ),
        (
            "[[upstream]]\nrename = { a = 1 }",
            "2:10: upstream.rename: holds something that is no name; accepted: a table such as { \
             \"gpt-5*\" = \"my-model\" }",
        ),
        (
            "[[route]]\nmodel = \"a\"",
            "1:1: route.upstreams: is missing; accepted: an array of names of [[upstream]]",
        ),
        (
            "[[route]]\nupstreams = []",
            "2:13: route.upstreams: names nobody; accepted: an array of names of [[upstream]]",
        ),
        (
            "[[key]]\nname = \"a\"\nsha256 = \"sk-secret\"",
            "3:10: key.sha256: is not a SHA-256 in hexadecimal digits; accepted: 64 hexadecimal digits, \
             such as `printf %s KEY | sha256sum` prints",
        ),
        (
            "[[key]]\nprofiles = [\"patiant\"]",
            "2:12: key.profiles: \"patiant\" is not a profile; accepted: an array of \"progress\", \
             \"patient\" and \"harness\"; did you mean `patient`?",
        ),
        (
            "[[key]]\nmay_set = [\"serve.listen\"]",
            "2:11: key.may_set: \"serve.listen\" matches no setting of a call; accepted: an array of \
             settings and patterns such as [\"bounds.*\", \"beats.form\"]",
        ),
        (
            "[[key]]\nmay_set = [\"bounds.flatt\"]",
            "2:11: key.may_set: \"bounds.flatt\" matches no setting of a call; accepted: an array of \
             settings and patterns such as [\"bounds.*\", \"beats.form\"]; did you mean `bounds.flat`?",
        ),
    ] {
        assert_eq!(refusal(text), told, "{text}");
    }
    assert_eq!(
        refusal_with("", &[("LIFESIGN_SERVE__ADMIN_KEY", "sk-secret")], &[]),
        "LIFESIGN_SERVE__ADMIN_KEY: serve.admin_key: must not hold the key itself; accepted: { env = \
         \"NAME\" } or { file = \"PATH\" }; env:NAME or file:PATH outside of a file"
    );
}

#[test]
fn a_sum_that_cannot_start_is_refused_with_its_place() {
    let a = upstream("a", "openai-chat", "");
    let b = upstream("b", "anthropic", "");
    let c = upstream("c", "openai-chat", "");
    let key = |name: &str, hash: &str| format!("[[key]]\nname = \"{name}\"\nsha256 = \"{hash}\"\n");
    let other = HASH.replace("2c", "2d");
    let route = |names: &str| format!("[[route]]\nmodel = \"*\"\nupstreams = [{names}]\n");
    for (text, told) in [
        (
            String::new(),
            "upstream: is missing: there is nobody to ask; accepted: [[upstream]] in the file, or \
             --upstream NAME=URL",
        ),
        (
            format!("{}{a}", route("\"aa\"")),
            "3:13: route.upstreams: \"aa\" is the name of no upstream; accepted: `a`",
        ),
        (
            format!("{}{a}", route("\"a\", \"a\"")),
            "3:13: route.upstreams: names `a` twice",
        ),
        (
            format!("{}{a}{b}", route("\"a\", \"b\"")),
            "3:13: route.upstreams: mixes wires: `a` speaks openai-chat and `b` anthropic; accepted: \
             upstreams of one wire",
        ),
        (
            format!("{}{a}{c}", route("\"a\", \"c\"")),
            "3:13: route.upstreams: would hand the caller's key for `a` to `c`, which is another \
             host; accepted: api_key for each, or auth = \"pass\" where that is meant",
        ),
        (
            // The first that it would go to decides, wherever that stands.
            format!(
                "{}{a}{c}{}",
                route("\"own\", \"a\", \"c\""),
                upstream("own", "openai-chat", "api_key = { env = \"A\" }")
            ),
            "3:13: route.upstreams: would hand the caller's key for `a` to `c`, which is another \
             host; accepted: api_key for each, or auth = \"pass\" where that is meant",
        ),
        (
            format!("{}{}{a}", key("k", HASH), key("k", &other)),
            "5:8: key.name: \"k\" is taken: DIR/a.toml:1",
        ),
        (
            format!("{}{}{a}", key("k", HASH), key("l", &HASH.to_uppercase())),
            "6:10: key.sha256: is that of the key `k` too: DIR/a.toml:1",
        ),
        (
            format!(
                "{}{}",
                key("k", HASH),
                upstream("a", "openai-chat", "auth = \"pass\"")
            ),
            "8:8: upstream.auth: \"pass\" would hand the callers' keys of this gateway to the \
             upstream; accepted: \"own\"",
        ),
        (
            upstream(
                "a",
                "openai-chat",
                "auth = \"pass\"\napi_key = { env = \"A\" }",
            ),
            "5:8: upstream.auth: \"pass\" leaves upstream.api_key without use; accepted: \"own\"",
        ),
        (
            format!("[serve]\ntls_key = \"a\"\n{a}"),
            "2:11: serve.tls_key: is of no use without serve.tls_cert",
        ),
        (
            format!("profile = \"harness\"\n{a}"),
            "bounds.wall_clock: is not set, and the profile `harness` needs it; accepted: a duration \
             such as \"10 min\"; set it, or take the profile `patient`",
        ),
    ] {
        let refused = refusal(&text);
        // A place inside of the sentence has its directory before it.
        let refused = match refused.rsplit_once(": /") {
            Some((start, place)) => {
                format!("{start}: DIR/{}", place.rsplit_once('/').unwrap().1)
            }
            None => refused,
        };
        assert_eq!(refused, told, "{text}");
    }
}

#[test]
fn beyond_this_machine_keys_an_admin_key_and_tls_are_needed() {
    let file = |serve: &str, key: &str| {
        format!(
            "[serve]\nlisten = [\"127.0.0.1:1\", \"0.0.0.0:1\"]\n{serve}\n{}{key}",
            upstream("a", "openai-chat", "")
        )
    };
    let key = format!("[[key]]\nname = \"k\"\nsha256 = \"{HASH}\"\n");
    let admin = "admin_key = { env = \"A\" }";

    assert_eq!(
        refusal(&file("", "")),
        "2:10: serve.listen: \"0.0.0.0:1\" is beyond this machine, and there is no [[key]]; accepted: \
         a loopback address or a unix socket, or a [[key]] for each caller"
    );
    assert_eq!(
        refusal(&file("", &key)),
        "2:10: serve.listen: \"0.0.0.0:1\" is beyond this machine, and there is no serve.admin_key; \
         accepted: a loopback address or a unix socket, or serve.admin_key"
    );
    assert_eq!(
        refusal(&file(admin, &key)),
        "2:10: serve.listen: \"0.0.0.0:1\" is beyond this machine, and keys would cross the network in \
         the clear; accepted: a loopback address or a unix socket, serve.tls_cert and serve.tls_key, \
         or serve.allow_cleartext = true"
    );
    for more in [
        "allow_cleartext = true",
        "tls_cert = \"c\"\ntls_key = \"k\"",
    ] {
        load(&file(&format!("{admin}\n{more}"), &key), &[], &[]).unwrap();
    }

    let here = load(
        &upstream("a", "openai-chat", ""),
        &[],
        &["serve.listen=[::1]:1"],
    )
    .unwrap();
    assert!(
        here.check_address("[::ffff:127.0.0.1]:1".parse().unwrap())
            .is_ok()
    );
    assert!(here.check_address("192.0.2.1:1".parse().unwrap()).is_err());
    assert_eq!(
        refusal_with(
            &upstream("a", "openai-chat", ""),
            &[],
            &["serve.listen=[::]:1"]
        ),
        "serve.listen: \"[::]:1\" is beyond this machine, and there is no [[key]]; accepted: a loopback \
         address or a unix socket, or a [[key]] for each caller"
    );
}

#[test]
fn the_gateway_retries_less_by_default_and_every_layer_wins_over_that() {
    let text = upstream("a", "openai-chat", "retry = { attempts = 6 }");
    let plain = load(&upstream("a", "openai-chat", ""), &[], &[]).unwrap();
    let own = load(&text, &[], &[]).unwrap();
    let flags = load(
        &text,
        &[("LIFESIGN_RETRY__ATTEMPTS", "7")],
        &["retry.attempts=8"],
    )
    .unwrap();
    let asked = Asked {
        sets: vec!["retry.attempts=9"],
        ..Asked::default()
    };
    let call = CallLayer::read(&asked, None).unwrap();

    let retry = |config: &GatewayConfig, call: Option<&CallLayer>| {
        config
            .settings(&config.upstreams[0], Some("m"), call)
            .unwrap()
            .retry
            .clone()
    };
    let default = retry(&plain, None);
    assert_eq!(default.attempts, Setting::default_value(3));
    assert_eq!(default.max_total_wait, Setting::default_value(secs(30)));
    assert_eq!(
        default.overload.first_delay,
        Setting::default_value(Duration::from_secs(2))
    );
    assert_eq!(retry(&own, None).attempts.value, 6);
    assert_eq!(retry(&flags, None).attempts.value, 8);
    assert_eq!(retry(&flags, Some(&call)).attempts.value, 9);
}

#[test]
fn beats_go_from_the_file_over_upstream_route_and_key_to_flags_and_call() {
    let text = format!(
        "[beats]\nform = \"comment\"\nopen_early = false\n{}[[route]]\nmodel = \"*\"\nupstreams = \
         [\"a\"]\nbeats = {{ every = \"3s\" }}\n[[key]]\nname = \"k\"\nsha256 = \"{HASH}\"\nbeats = {{ \
         every = \"4s\" }}\n",
        upstream(
            "a",
            "anthropic",
            "beats = { every = \"2s\", form = \"event\" }"
        )
    );
    let config = load(&text, &[], &[]).unwrap();
    let flags = load(&text, &[("LIFESIGN_BEATS__EVERY", "5s")], &[]).unwrap();
    let asked = Asked {
        sets: vec!["beats.every=6s, beats.form=space"],
        ..Asked::default()
    };
    let call = CallLayer::read(&asked, None).unwrap();

    let (upstream, route, key) = (&config.upstreams[0], &config.routes[0], &config.keys[0]);
    let every = |beats: Beats| beats.every.value;
    assert_eq!(every(config.beats(None, None, None, None)), secs(10));
    assert_eq!(
        every(config.beats(Some(upstream), None, None, None)),
        secs(2)
    );
    assert_eq!(
        every(config.beats(Some(upstream), Some(route), None, None)),
        secs(3)
    );
    let keyed = config.beats(Some(upstream), Some(route), Some(key), None);
    assert_eq!(
        (keyed.every.value, keyed.form.value, keyed.open_early.value),
        (secs(4), BeatForm::Event, false)
    );
    assert_eq!(
        every(flags.beats(Some(upstream), Some(route), Some(key), None)),
        secs(5)
    );
    let called = flags.beats(Some(upstream), Some(route), Some(key), Some(&call));
    assert_eq!(
        (called.every.value, called.form.value),
        (secs(6), BeatForm::Space)
    );
}

#[test]
fn a_call_sets_what_its_key_allows() {
    let text = format!(
        "{}[[key]]\nname = \"k\"\nsha256 = \"{HASH}\"\nprofiles = [\"patient\"]\nmay_set = \
         [\"bounds.*\"]\n",
        upstream("a", "anthropic", "")
    );
    let config = load(&text, &[], &[]).unwrap();
    let key = Some(&config.keys[0]);
    let read = |asked: Asked<'_>| CallLayer::read(&asked, key);
    let set = |text| Asked {
        sets: vec![text],
        ..Asked::default()
    };
    let profile = |name| Asked {
        profile: Some(name),
        ..Asked::default()
    };

    let call = read(set("bounds.flat=1 min, 5 s,bounds.headers=off")).unwrap();
    let settings = config
        .settings(&config.upstreams[0], None, Some(&call))
        .unwrap();
    assert_eq!(settings.bounds.limit(BoundName::Flat).value, secs(65));
    assert_eq!(settings.bounds.limit(BoundName::Headers).value, Limit::Off);
    assert!(read(profile("patient")).is_ok() && read(set("profile=patient")).is_ok());
    assert!(read(Asked::default()).unwrap().is_empty());

    for (asked, told) in [
        (
            set("retry.attempts=1"),
            "x-lifesign-set: retry.attempts: may not be set with this key",
        ),
        (
            set("beats.form=event"),
            "x-lifesign-set: beats.form: may not be set with this key",
        ),
        (
            set("serve.listen=a"),
            "x-lifesign-set: serve.listen: unknown setting",
        ),
        (
            set("bounds.flatt=1s"),
            "x-lifesign-set: bounds.flatt: unknown setting; did you mean `bounds.flat`?",
        ),
        (
            set("bounds.flat=5"),
            "x-lifesign-set: bounds.flat: \"5\" has no unit; accepted: a duration such as \"45s\" or \
             \"2 min\", or \"off\"",
        ),
        (
            set("bounds.flat"),
            "x-lifesign-set: bounds.flat: has no `=`; accepted: a setting and its value, such as \
             bounds.raw_silence=45s",
        ),
        (
            profile("progress"),
            "x-lifesign-profile: profile: \"progress\" is not allowed to this key; accepted: patient",
        ),
        (
            profile("patiant"),
            "x-lifesign-profile: profile: \"patiant\" is not a profile; accepted: \"progress\", \
             \"patient\" or \"harness\"; did you mean `patient`?",
        ),
        (
            Asked {
                wall_clock: Some("-1s"),
                ..Asked::default()
            },
            "x-lifesign-wall-clock: bounds.wall_clock: \"-1s\" is negative; accepted: a duration such \
             as \"45s\" or \"2 min\", or \"off\"",
        ),
    ] {
        assert_eq!(read(asked).unwrap_err().to_string(), told);
    }
}

#[test]
fn a_call_shortens_its_wall_clock_and_never_lengthens_it() {
    let text = format!(
        "[bounds]\nwall_clock = \"10 min\"\n{}",
        upstream("a", "anthropic", "")
    );
    let config = load(&text, &[], &[]).unwrap();
    let free = load(&upstream("a", "anthropic", ""), &[], &[]).unwrap();
    let wall_clock = |config: &GatewayConfig, asked: Asked<'_>| {
        let call = CallLayer::read(&asked, None).unwrap();
        let settings = config
            .settings(&config.upstreams[0], None, Some(&call))
            .unwrap();
        settings.bounds.wall_clock.value
    };
    let header = |text| Asked {
        wall_clock: Some(text),
        ..Asked::default()
    };
    let set = |text| Asked {
        sets: vec![text],
        ..Asked::default()
    };

    assert_eq!(wall_clock(&config, header("1 min")), secs(60));
    for longer in [
        header("1 h"),
        header("off"),
        set("bounds.wall_clock=1 h"),
        set("bounds=off"),
    ] {
        assert_eq!(wall_clock(&config, longer), secs(600));
    }
    assert_eq!(wall_clock(&free, header("1 h")), secs(3_600));
}

#[test]
fn a_call_goes_by_the_first_route_of_its_wire_else_to_whoever_has_its_model() {
    let text = [
        upstream(
            "a",
            "openai-chat",
            "api_key = { env = \"A\" }\nmodels = [\"gpt-*\"]",
        ),
        upstream(
            "b",
            "openai-chat",
            "api_key = { env = \"A\" }\nrename = { \"gpt-*\" = \"x\" }",
        ),
        upstream("c", "anthropic", ""),
        upstream("d", "anthropic", ""),
        "[[route]]\nmodel = \"gpt-5*\"\nupstreams = [\"b\", \"a\"]\n".to_owned(),
        "[[route]]\nmodel = \"*\"\nupstreams = [\"d\"]\n".to_owned(),
    ]
    .concat();
    let config = load(&text, &[], &[]).unwrap();
    let names = |wire, model| -> Vec<_> {
        let choice = config.choose(wire, model);
        choice.upstreams.iter().map(|it| it.name()).collect()
    };

    assert_eq!(names(Wire::OPENAI_CHAT, Some("gpt-5")), ["b", "a"]);
    assert_eq!(names(Wire::OPENAI_CHAT, Some("gpt-4")), ["a", "b"]);
    assert_eq!(names(Wire::OPENAI_CHAT, Some("llama")), ["b"]);
    assert_eq!(names(Wire::ANTHROPIC, Some("gpt-5")), ["d"]);
    assert_eq!(names(Wire::ANTHROPIC, None), ["d"]);
    assert!(names(Wire::OPENAI_RESPONSES, None).is_empty());
}

/// Failover between upstreams that nobody put into one route must not carry a key for one host to
/// another.
#[test]
fn a_callers_own_key_stays_with_the_host_it_is_for() {
    let text = [
        upstream("a", "anthropic", ""),
        upstream("b", "anthropic", ""),
        upstream("c", "anthropic", "api_key = { env = \"C\" }"),
    ]
    .concat();
    let config = load(&text, &[], &[]).unwrap();

    let choice = config.choose(Wire::ANTHROPIC, None);

    let names: Vec<_> = choice.upstreams.iter().map(|it| it.name()).collect();
    assert_eq!(names, ["a", "c"]);

    // Which is the first that it would go to, not the first there is.
    let text = [
        upstream("c", "anthropic", "api_key = { env = \"C\" }"),
        upstream("a", "anthropic", ""),
        upstream("b", "anthropic", ""),
    ]
    .concat();
    let config = load(&text, &[], &[]).unwrap();

    let choice = config.choose(Wire::ANTHROPIC, None);

    let names: Vec<_> = choice.upstreams.iter().map(|it| it.name()).collect();
    assert_eq!(names, ["c", "a"]);
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
fn what_can_never_act_and_beats_too_far_apart_are_found_once() {
    let text = format!(
        "[bounds]\nwall_clock = \"5s\"\nraw_silence = \"45s\"\n[beats]\nevery = \"70s\"\n{}{}",
        upstream("a", "anthropic", "api_key = { env = \"A\" }"),
        upstream("b", "openai-chat", "beats = { every = \"81s\" }"),
    );

    let found = load(&text, &[], &[]).unwrap().findings();

    let messages: Vec<_> = found.iter().map(|it| it.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "bounds.raw_silence = 45 s can never cut: bounds.wall_clock = 5 s always runs out first",
            "beats.every = 70 s is above 60 s, a third of the silence that a client allows on \
             anthropic by default",
            "beats.every = 81 s is above 80 s, a third of the silence that a client allows on \
             openai-chat by default",
        ]
    );
    let fine = load(&upstream("a", "anthropic", ""), &[], &["beats.every=60s"]).unwrap();
    assert_eq!(fine.findings(), []);
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
fn files_that_cannot_be_used_are_named_with_setting_and_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.toml");
    let place = directory.path().display();
    let certified = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    std::fs::write(directory.path().join("cert.pem"), certified.cert.pem()).unwrap();
    let key = certified.signing_key.serialize_pem();
    std::fs::write(directory.path().join("key.pem"), key).unwrap();
    let other = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    let other = other.signing_key.serialize_pem();
    std::fs::write(directory.path().join("other.pem"), other).unwrap();
    let open = |serve: &str| {
        let text = format!("[serve]\n{serve}\n{}", upstream("a", "openai-chat", ""));
        std::fs::write(&path, text).unwrap();
        let config = GatewayConfig::load(Some(&path), [], &[], &[]).unwrap();
        config.open(|_| None).map(|()| config)
    };

    let config = open("tls_cert = \"cert.pem\"\ntls_key = \"key.pem\"").unwrap();
    assert_eq!(
        config.read_tls().unwrap().unwrap().alpn_protocols,
        [b"http/1.1"]
    );
    for (serve, told) in [
        (
            "tls_cert = \"key.pem\"\ntls_key = \"key.pem\"",
            format!(
                "{place}/a.toml:2:12: serve.tls_cert: \"{place}/key.pem\" holds no certificate in PEM \
                     form; accepted: the path of a PEM file"
            ),
        ),
        (
            "tls_cert = \"cert.pem\"\ntls_key = \"cert.pem\"",
            format!(
                "{place}/a.toml:3:11: serve.tls_key: \"{place}/cert.pem\" holds no private key in PEM \
                     form; accepted: the path of a PEM file"
            ),
        ),
        (
            "tls_cert = \"cert.pem\"\ntls_key = \"none\"",
            format!(
                "{place}/a.toml:3:11: serve.tls_key: \"{place}/none\" cannot be read: No such file or \
                     directory (os error 2); accepted: the path of a PEM file"
            ),
        ),
        (
            "tls_cert = \"cert.pem\"\ntls_key = \"other.pem\"",
            format!(
                "{place}/a.toml:3:11: serve.tls_key: \"{place}/other.pem\" cannot be used with \
                     serve.tls_cert: keys may not be consistent: KeyMismatch; accepted: the path of a \
                     PEM file"
            ),
        ),
        (
            "admin_key = { env = \"ADMIN\" }",
            format!("{place}/a.toml:2:13: serve.admin_key: the variable ADMIN is not set"),
        ),
    ] {
        assert_eq!(open(serve).unwrap_err().to_string(), told);
    }
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_text_makes_the_reader_panic(
        head in "\\[(serve|beats|limits|breaker)\\]|\\[\\[(upstream|route|key)\\]\\]",
        key in "listen|hosts|admin_key|every|form|auth|rename|queue|upstreams|sha256|may_set|beats",
        value in "[-\\[\\]{}a-z0-9:=,.\" ]{0,24}|\"\\PC{0,70}\"",
        text in "\\PC*",
    ) {
        let _either = (load(&format!("{head}\n{key} = {value}\n"), &[], &[]), Listen::parse(&text));
        let _headers = CallLayer::read(
            &Asked { profile: Some(&text), wall_clock: Some(&value), sets: vec![&text, &value] },
            None,
        );
    }

    #[test]
    fn a_place_to_listen_is_shown_as_it_is_read(port: u16, path in "/[a-z/]{0,9}[a-z]") {
        for text in [format!("127.0.0.1:{port}"), format!("[::1]:{port}"), format!("unix:{path}")] {
            prop_assert_eq!(Listen::parse(&text).unwrap().to_string(), text);
        }
    }
}

#[test]
fn what_looks_like_a_slip_is_refused() {
    let chat = upstream("a", "openai-chat", "");
    let hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let other = "a".repeat(64);
    for (text, told) in [
        (
            format!("{chat}[[key]]\nname = \"k\"\nsha256 = \"{hash}\"\n"),
            "is the SHA-256 of an empty key",
        ),
        (
            format!("{chat}[[key]]\nname = \"k\"\nsha256 = \"{other}\"\nmodels = []\n"),
            "names no model",
        ),
        (
            format!("{chat}[beats]\nevery = \"999us\"\n"),
            "is shorter than 1 ms",
        ),
    ] {
        let refused = refusal(&text);
        assert!(refused.contains(told), "{refused}");
    }
    assert!(load(&format!("{chat}[beats]\nevery = \"1ms\"\n"), &[], &[]).is_ok());
}
