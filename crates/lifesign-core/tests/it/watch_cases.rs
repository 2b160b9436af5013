//! What providers were seen to do, in virtual time: the cases and what must come of them.
//!
//! A driver that reads no socket stands in for the client, so these tests cover what the bounds
//! say; requests, retries and what is kept are the client's.

use std::time::Duration;

use lifesign_core::{
    Block, BlockKind, BoundName, Bounds, FailureCode, Limit, Notices, Origin, Phase, Setting,
    Verdict,
};

use crate::watch_sim::{
    ANTHROPIC, CHAT, COMMENT, LIFECYCLE, OUTPUT, PING, REASONING, RESPONSES, Sim, block, by_call,
    limit, opens, secs, streamed,
};

/// The defaults with the raw silence of a case and nothing before content.
fn raw(seconds: u64) -> Bounds {
    Bounds {
        raw_silence: limit(seconds),
        before_content: by_call(Limit::Off),
        ..Bounds::default()
    }
}

/// What the profile `patient` makes of the defaults.
fn patient() -> Bounds {
    let off = || Setting {
        value: Limit::Off,
        origin: Origin::Profile,
    };
    Bounds {
        headers: off(),
        before_content: off(),
        between_events: off(),
        flat: off(),
        whole_call: off(),
        ..Bounds::default()
    }
}

#[test]
fn s01_a_200_and_then_nothing_is_silent() {
    let mut sim = Sim::sent(&raw(30), streamed(CHAT, None));
    sim.until(secs(2));
    sim.watch.handle_headers(secs(2));

    let (second, cut) = sim.hold();

    assert_eq!((second, cut.bound), (32, BoundName::RawSilence));
    assert_eq!(
        (cut.code(), cut.phase),
        (FailureCode::RawSilent, Phase::BeforeContent)
    );
}

#[test]
fn s02_heartbeats_and_never_content_are_cut_by_the_bound_before_content() {
    let bounds = Bounds {
        raw_silence: limit(45),
        before_content: limit(60),
        ..Bounds::default()
    };
    let mut pings = Sim::open(&bounds, streamed(ANTHROPIC, None));
    pings.frame(secs(0), LIFECYCLE).repeat(10, secs(15), PING);
    let mut comments = Sim::open(&bounds, streamed(CHAT, None));
    comments.repeat(10, secs(20), COMMENT);

    for (mut sim, code) in [
        (pings, FailureCode::NoContent),
        (comments, FailureCode::HeartbeatsOnly),
    ] {
        let (second, cut) = sim.hold();
        assert_eq!(
            (second, cut.bound, cut.code()),
            (60, BoundName::BeforeContent, code)
        );
        assert_eq!(cut.bound.setting(), "bounds.before_content");
    }
}

#[test]
fn s02_heartbeats_alone_run_on_where_nothing_bounds_content() {
    let bounds = Bounds {
        raw_silence: limit(45),
        notice_after: by_call(Notices::Every(secs(30))),
        ..patient()
    };
    let mut sim = Sim::open(&bounds, streamed(CHAT, None));
    sim.repeat(30, secs(20), COMMENT).until(secs(601));

    assert_eq!(sim.cut, None);
    let given: Vec<_> = sim.notices.iter().map(|(at, _)| *at).collect();
    assert_eq!(given, (1..=20).map(|n| n * 30).collect::<Vec<_>>());
    assert!(
        sim.notices
            .iter()
            .all(|(_, notice)| notice.ages.raw <= secs(20))
    );
}

fn slow_thinking(max_tokens: u64) -> Sim {
    let bounds = Bounds {
        raw_silence: limit(45),
        before_content: limit(60),
        between_events: limit(150),
        ..Bounds::default()
    };
    let mut sim = Sim::open(&bounds, streamed(ANTHROPIC, Some(max_tokens)));
    sim.frame(secs(0), LIFECYCLE)
        .frame(secs(1), opens(BlockKind::Thinking))
        .repeat(8, secs(30), PING)
        .frame(secs(0), block(REASONING, Block::Fills))
        .frame(secs(0), block(LIFECYCLE, Block::Closes))
        .frame(secs(0), opens(BlockKind::Text))
        .frame(secs(0), block(OUTPUT, Block::Fills))
        .frame(secs(0), OUTPUT);
    sim
}

#[test]
fn s03_slow_thinking_within_its_allowance_completes() {
    let sim = slow_thinking(32_000);

    assert_eq!((sim.cut, sim.now), (None, secs(241)));
}

#[test]
fn s03_an_allowance_extends_the_phase_and_never_shortens_it() {
    let mut sim = slow_thinking(4_096);

    let (second, cut) = sim.hold();

    assert_eq!((cut.bound, second), (BoundName::BeforeContent, 60));
    assert_eq!(cut.code(), FailureCode::NoContent);
}

#[test]
fn s04_a_healthy_stream_outlives_every_bound_but_the_wall_clock() {
    let healthy = |wall_clock| {
        let bounds = Bounds {
            wall_clock,
            headers: limit(60),
            connect: limit(60),
            ..raw(45)
        };
        let mut sim = Sim::open(&bounds, streamed(CHAT, None));
        sim.repeat(200, secs(2), OUTPUT);
        sim
    };

    let free = healthy(by_call(Limit::Off));
    assert_eq!((free.cut, free.now), (None, secs(400)));

    let bounded = healthy(limit(120));
    let cut = bounded.cut.unwrap();
    assert_eq!(
        (bounded.now, cut.code()),
        (secs(120), FailureCode::WallClock)
    );
    assert_eq!(bounded.watch.tally().frames, 60);
}

#[test]
fn s10_s19_s25_silence_after_content_is_silent() {
    for (seconds, texts) in [(20, 1), (45, 3), (45, 1)] {
        let mut sim = Sim::open(&raw(seconds), streamed(CHAT, None));
        sim.repeat(texts, secs(0), OUTPUT);

        let (second, cut) = sim.hold();

        assert_eq!((second, cut.code()), (seconds, FailureCode::RawSilent));
        assert_eq!(
            (cut.bound, cut.phase),
            (BoundName::RawSilence, Phase::AfterContent)
        );
    }
}

#[test]
fn s23_no_bound_that_is_off_or_left_out_fails_a_request_at_once() {
    let off = || by_call(Limit::Off);
    let each: [fn(&mut Bounds, Setting<Limit>); 11] = [
        |bounds, off| bounds.connect = off,
        |bounds, off| bounds.headers = off,
        |bounds, off| bounds.raw_silence = off,
        |bounds, off| bounds.before_content = off,
        |bounds, off| bounds.between_events = off,
        |bounds, off| bounds.flat = off,
        |bounds, off| bounds.reasoning_only = off,
        |bounds, off| bounds.whole_call = off,
        |bounds, off| bounds.upstream_quiet = off,
        |bounds, off| bounds.lifetime = off,
        |bounds, off| bounds.wall_clock = off,
    ];

    for turn_off in each {
        let mut bounds = Bounds::default();
        turn_off(&mut bounds, off());
        for bounds in [Bounds::default(), bounds] {
            let mut sim = Sim::open(&bounds, streamed(CHAT, None));
            sim.frame(secs(5), OUTPUT).frame(secs(0), OUTPUT);
            assert_eq!(sim.cut, None);
        }
    }
}

#[test]
fn s24_a_jump_of_the_drivers_time_cuts_nothing_at_once() {
    let hour = secs(3_600);
    let mut sim = Sim::open(&Bounds::default(), streamed(CHAT, None));
    sim.frame(secs(0), OUTPUT);

    // The driver wakes an hour on, and the second text is there already.
    assert_eq!(sim.watch.handle_time(hour), Verdict::Wait);
    sim.watch.handle_frame(OUTPUT, hour);
    assert_eq!(sim.watch.handle_time(hour), Verdict::Wait);
    // And back an hour.
    sim.watch.handle_frame(OUTPUT, secs(2));
    assert_eq!(sim.watch.handle_time(secs(2)), Verdict::Wait);

    assert_eq!(sim.watch.readings(secs(2)).ages.raw, Duration::ZERO);
}

#[test]
fn s26_waiting_in_line_runs_no_bound_of_the_attempt() {
    let bounds = Bounds {
        before_content: limit(30),
        raw_silence: limit(45),
        ..Bounds::default()
    };
    let mut sim = Sim::queued(&bounds, streamed(CHAT, None));
    sim.until(secs(60));
    assert_eq!(sim.watch.poll_deadline(), None);
    sim.watch.handle_sending(secs(60));
    sim.watch.handle_sent(secs(60));

    assert_eq!(sim.hold_name(), ("before_content", 90));
}

#[test]
fn a_pinging_model_may_think_for_45_minutes_where_patience_is_asked_for() {
    for wire in [ANTHROPIC, CHAT, RESPONSES] {
        let mut sim = Sim::open(&patient(), streamed(wire, Some(128_000)));
        sim.frame(secs(1), LIFECYCLE).repeat(45 * 4, secs(15), PING);
        assert_eq!(sim.cut, None);
        sim.frame(secs(1), OUTPUT);

        let (second, cut) = sim.hold();

        let raw = wire.raw_silence.as_secs();
        assert_eq!(
            (second, cut.bound),
            (45 * 60 + 2 + raw, BoundName::RawSilence)
        );
        assert_eq!(cut.limit, wire.raw_silence);
        assert_eq!(cut.code(), FailureCode::RawSilent);
    }
}

#[test]
fn a_dead_line_is_cut_soon_after_45_minutes_of_pings() {
    let mut sim = Sim::open(&patient(), streamed(CHAT, None));
    sim.repeat(45 * 4, secs(15), PING);

    let (second, cut) = sim.hold();

    assert_eq!((second, cut.origin), (45 * 60 + 90, Origin::Learned));
}

#[test]
fn pings_without_an_event_end_at_1862_seconds_where_nothing_else_bounds_them() {
    let dark = Bounds {
        shows_work: false,
        ..Bounds::default()
    };
    for (wire, max_tokens) in [
        (CHAT, None),
        (CHAT, Some(4_096)),
        (RESPONSES, Some(128_000)),
    ] {
        let mut sim = Sim::open(&dark, streamed(wire, max_tokens));
        sim.repeat(45 * 6, secs(10), COMMENT);

        let (second, cut) = sim.hold();

        assert_eq!((second, cut.bound), (1_862, BoundName::Flat));
        assert_eq!(cut.code(), FailureCode::HeartbeatsOnly);
    }
}

#[test]
fn progress_that_moves_keeps_a_call_alive_for_45_minutes_and_more() {
    let dark = Bounds {
        shows_work: false,
        ..Bounds::default()
    };
    let mut sim = Sim::open(&dark, streamed(CHAT, None));
    sim.repeat(60, secs(60), LIFECYCLE)
        .repeat(60, secs(60), REASONING)
        .repeat(60, secs(60), OUTPUT);

    assert_eq!((sim.cut, sim.now), (None, secs(3 * 3_600)));
}

#[test]
fn a_tool_call_of_unknown_size_may_fill_in_the_dark_for_45_minutes_only_where_flat_allows() {
    let pings = |flat| {
        let bounds = Bounds {
            flat,
            ..Bounds::default()
        };
        let mut sim = Sim::open(&bounds, streamed(ANTHROPIC, None));
        sim.frame(secs(1), OUTPUT)
            .frame(secs(1), block(OUTPUT, Block::Opens(BlockKind::Tool)))
            .repeat(45 * 4, secs(15), PING);
        sim
    };

    assert_eq!(pings(limit(2_701)).cut, None);
    let cut = pings(Bounds::default().flat).cut.unwrap();
    assert_eq!(
        (cut.bound, cut.code()),
        (BoundName::Flat, FailureCode::HeartbeatsOnly)
    );
    assert_eq!(cut.ages.event, secs(1_862));
}

#[test]
fn a_drip_of_half_frames_is_bytes_only() {
    let mut sim = Sim::open(&Bounds::default(), streamed(CHAT, None));
    sim.frame(secs(0), OUTPUT);
    for _ in 0..200 {
        sim.until(sim.now + secs(1));
        if sim.cut.is_none() {
            sim.watch.handle_bytes(1, sim.now);
        }
    }

    let (second, cut) = sim.hold();

    assert_eq!((second, cut.bound.name()), (150, "between_events"));
    assert_eq!(cut.code(), FailureCode::BytesOnly);
}

#[test]
fn a_refusal_to_read_the_request_is_silence() {
    let mut sim = Sim::queued(&Bounds::default(), streamed(CHAT, None));
    sim.watch.handle_sending(secs(0));
    sim.watch.handle_write(secs(1));

    let (second, cut) = sim.hold();

    assert_eq!((second, cut.phase), (241, Phase::Sending));
    assert_eq!(cut.code(), FailureCode::RawSilent);
}
