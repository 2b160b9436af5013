//! What is refused before anything starts, with its place, and what is only told.

use pretty_assertions::assert_eq;

use super::*;

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
            "[telemetry]\notlp_endpoint = \"localhost:4317\"",
            "2:17: telemetry.otlp_endpoint: \"localhost:4317\" must begin with http:// or https://; accepted: \
             a URL such as \"http://127.0.0.1:4318\", or \"off\"",
        ),
        (
            "[telemetry]\notlp_endpoint = \"http://me:secret@h\"",
            "2:17: telemetry.otlp_endpoint: must not carry a user name or password; accepted: a URL such as \
             \"http://127.0.0.1:4318\", or \"off\"",
        ),
        (
            "[telemetry]\notlp_protocol = \"http\"",
            "2:17: telemetry.otlp_protocol: \"http\" is not known; accepted: \"grpc\" or \"http/protobuf\"",
        ),
        (
            "[telemetry]\notlp_headers = \"key=secret\"",
            "2:16: telemetry.otlp_headers: must not hold the key itself; accepted: { env = \"NAME\" } or \
             { file = \"PATH\" }; env:NAME or file:PATH outside of a file",
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
            format!("[telemetry]\notlp_endpoint = \"http://h/v1\"\notlp_protocol = \"grpc\"\n{a}"),
            "2:17: telemetry.otlp_endpoint: \"http://h/v1\" has a path, of which gRPC knows nothing; \
             accepted: a URL without a path, or telemetry.otlp_protocol = \"http/protobuf\"",
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
fn what_the_variables_say_of_traces_is_refused_without_its_values_and_only_where_traces_are_on() {
    let chat = upstream("a", "openai-chat", "");
    let with = |telemetry: &str| load(&format!("[telemetry]\n{telemetry}\n{chat}"), &[], &[]);
    let on = with("otlp_endpoint = \"http://h\"\notlp_headers = { env = \"HEADERS\" }").unwrap();
    let off = with("otlp_endpoint = \"off\"\notlp_headers = { env = \"HEADERS\" }").unwrap();
    let accepted = "accepted: name=value, commas between, values percent-encoded";

    for (set, value, told) in [
        (
            "HEADERS",
            "secret",
            format!("a.toml:3:16: telemetry.otlp_headers: has a part without `=`; {accepted}"),
        ),
        (
            "HEADERS",
            "a b=secret",
            format!("a.toml:3:16: telemetry.otlp_headers: names no header; {accepted}"),
        ),
        (
            "NOTHING",
            "",
            "a.toml:3:16: telemetry.otlp_headers: the variable HEADERS is not set".to_owned(),
        ),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "=secret",
            format!("OTEL_RESOURCE_ATTRIBUTES: has a part without a name; {accepted}"),
        ),
    ] {
        let variable = |name: &str| match name {
            _ if name == set => Some(value.into()),
            "HEADERS" if set != "NOTHING" => Some("key=secret".into()),
            _ => None,
        };

        let refused = on.open(variable).unwrap_err().to_string();

        assert!(refused.ends_with(&told), "{refused}");
        assert!(off.open(variable).is_ok(), "{set}");
    }
    assert!(
        on.open(|name| (name == "HEADERS").then(|| "key=secret".into()))
            .is_ok()
    );
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
