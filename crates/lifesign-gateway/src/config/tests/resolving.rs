//! What is in force for one call: settings, beats, and whom it asks.

use pretty_assertions::assert_eq;

use super::*;

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
