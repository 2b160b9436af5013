//! What each bound counts, and when it runs.

use std::time::Duration;

use lifesign_core::{
    Block, BlockKind, BoundName, Bounds, FailureCode, Finding, Joined, Limit, Notices, Origin,
    Phase, Rate, Stage, Verdict, Watch,
};

use crate::watch_sim::{
    ANTHROPIC, CHAT, COMMENT, LIFECYCLE, OUTPUT, PING, REASONING, Sim, block, by_call,
    from_catalog, limit, off, opens, report, secs, stream, streamed, whole,
};

#[test]
fn nothing_is_armed_where_every_bound_is_off() {
    let sim = stream(&off(), None);

    assert_eq!(sim.watch.poll_deadline(), None);
    assert_eq!(sim.watch.readings(secs(1)).next, None);
}

#[test]
fn connect_covers_every_stage_and_names_the_last() {
    let mut sim = Sim::queued(&Bounds::default(), streamed(CHAT, None));
    sim.watch.handle_connecting(Stage::Dns, secs(2));
    sim.watch.handle_connecting(Stage::Tls, secs(9));

    let (second, cut) = sim.hold();

    assert_eq!(second, 12);
    assert_eq!(
        (cut.bound, cut.stage),
        (BoundName::Connect, Some(Stage::Tls))
    );
    assert_eq!(
        (cut.phase, cut.code()),
        (Phase::Connecting, FailureCode::Connect)
    );
    assert_eq!((cut.limit, cut.origin), (secs(10), Origin::Default));
}

#[test]
fn while_queued_only_the_wall_clock_runs() {
    let bounds = Bounds {
        wall_clock: limit(1_000),
        lifetime: limit(5),
        ..Bounds::default()
    };
    let mut sim = Sim::queued(&bounds, streamed(ANTHROPIC, None));

    assert_eq!(sim.hold_name(), ("wall_clock", 1_000));
}

#[test]
fn headers_counts_from_the_last_request_byte() {
    let mut sim = Sim::queued(&Bounds::default(), streamed(ANTHROPIC, None));
    let bounds = Bounds {
        before_content: by_call(Limit::Off),
        ..Bounds::default()
    };
    sim.watch = Watch::new(&bounds, &streamed(CHAT, None), secs(0), secs(0));
    sim.watch.handle_sending(secs(3));
    sim.watch.handle_sent(secs(7));

    let (second, cut) = sim.hold();

    assert_eq!((cut.bound.name(), second), ("headers", 127));
    assert_eq!(cut.phase, Phase::WaitingForHeaders);
    assert_eq!(cut.code(), FailureCode::RawSilent);
}

#[test]
fn raw_silence_runs_while_sending_and_each_accepted_write_renews_it() {
    let mut sim = Sim::queued(&Bounds::default(), streamed(ANTHROPIC, None));
    sim.watch.handle_sending(secs(1));
    sim.watch.handle_write(secs(100));

    let (second, cut) = sim.hold();

    assert_eq!((cut.bound.name(), second), ("raw_silence", 280));
    assert_eq!((cut.phase, cut.finding), (Phase::Sending, Finding::Nothing));
}

#[test]
fn raw_silence_by_default_is_the_wires() {
    let raw = |wire| {
        let bounds = Bounds {
            shows_work: false,
            phase_defaults: false,
            ..Bounds::default()
        };
        Sim::open(&bounds, streamed(wire, None)).hold_name()
    };

    assert_eq!(raw(ANTHROPIC), ("raw_silence", 180));
    assert_eq!(raw(CHAT), ("raw_silence", 240));
}

#[test]
fn before_content_counts_from_sent_whatever_comes_but_content() {
    let bounds = Bounds {
        before_content: limit(60),
        ..off()
    };
    let mut sim = stream(&bounds, None);
    sim.repeat(50, secs(1), PING).frame(secs(5), LIFECYCLE);

    assert_eq!(sim.hold_name(), ("before_content", 60));
}

#[test]
fn before_content_runs_while_waiting_for_headers() {
    let bounds = Bounds {
        before_content: limit(60),
        ..off()
    };
    let mut sim = Sim::sent(&bounds, streamed(ANTHROPIC, None));

    let (second, cut) = sim.hold();

    assert_eq!((second, cut.phase), (60, Phase::WaitingForHeaders));
}

#[test]
fn content_ends_before_content() {
    let bounds = Bounds {
        before_content: limit(60),
        ..off()
    };

    for sign in [REASONING, OUTPUT] {
        let mut sim = stream(&bounds, None);
        sim.frame(secs(60), sign);
        assert_eq!(sim.watch.poll_deadline(), None);
    }
}

#[test]
fn a_thinking_block_extends_before_content_and_never_shortens_it() {
    let bounds = Bounds {
        before_content: limit(60),
        ..off()
    };
    let cut = |opened, allowance: u64| {
        let mut sim = stream(&bounds, Some(87 * allowance));
        sim.frame(secs(opened), opens(BlockKind::Thinking));
        sim.hold_name().1
    };

    assert_eq!(cut(1, 368), 369);
    assert_eq!(cut(1, 47), 60);
    assert_eq!(cut(20, 47), 67);
}

#[test]
fn a_cut_that_a_block_put_off_says_how_long_it_really_took() {
    let bounds = Bounds {
        before_content: limit(60),
        between_events: limit(50),
        ..off()
    };
    let joined = |limit| {
        Some(Joined {
            limit: secs(limit),
            allowance: secs(69),
        })
    };

    let mut sim = stream(&bounds, Some(87 * 69));
    sim.frame(secs(1), opens(BlockKind::Thinking));
    let cut = sim.hold().1;
    assert_eq!((cut.limit, cut.joined), (secs(70), joined(60)));

    // The block opened a second before the clock last moved.
    let mut sim = stream(&bounds, Some(87 * 69));
    sim.frame(secs(1), OUTPUT)
        .frame(secs(1), opens(BlockKind::Tool))
        .frame(secs(1), LIFECYCLE);
    let (second, cut) = sim.hold();
    assert_eq!((second, cut.limit), (71, secs(68)));
    assert_eq!(cut.joined, joined(50));

    // An allowance that is over first moves nothing.
    let mut sim = stream(&bounds, Some(87 * 10));
    sim.frame(secs(1), opens(BlockKind::Thinking));
    let cut = sim.hold().1;
    assert_eq!((cut.limit, cut.joined), (secs(60), None));
}

#[test]
fn only_thinking_extends_before_content() {
    let bounds = Bounds {
        before_content: limit(60),
        ..off()
    };

    for kind in [BlockKind::Text, BlockKind::Tool, BlockKind::ServerTool] {
        let mut sim = stream(&bounds, Some(87 * 368));
        sim.frame(secs(1), opens(kind));
        assert_eq!(sim.hold_name(), ("before_content", 60), "{kind:?}");
    }
}

#[test]
fn the_extension_outlives_a_thinking_block_that_closes_empty() {
    let bounds = Bounds {
        before_content: limit(60),
        ..off()
    };
    let mut sim = stream(&bounds, Some(87 * 100));
    sim.frame(secs(10), opens(BlockKind::Thinking))
        .frame(secs(1), block(LIFECYCLE, Block::Closes));

    assert_eq!(sim.hold_name(), ("before_content", 110));
}

#[test]
fn a_thinking_block_of_unknown_size_lifts_before_content() {
    let bounds = Bounds {
        before_content: limit(60),
        flat: limit(1_000),
        ..off()
    };
    let mut sim = stream(&bounds, None);
    sim.frame(secs(1), opens(BlockKind::Thinking));

    assert_eq!(sim.hold_name(), ("flat", 1_001));
}

#[test]
fn without_a_think_rate_an_open_block_moves_nothing() {
    let bounds = Bounds {
        before_content: limit(60),
        between_events: limit(50),
        flat: limit(2_000),
        think_tokens_per_second: by_call(Rate::Off),
        ..off()
    };

    for max_tokens in [None, Some(128_000)] {
        let mut sim = stream(&bounds, max_tokens);
        sim.frame(secs(1), opens(BlockKind::Thinking));
        assert_eq!(sim.hold_name(), ("before_content", 60));

        let mut sim = stream(&bounds, max_tokens);
        sim.frame(secs(1), OUTPUT)
            .frame(secs(1), opens(BlockKind::Tool));
        assert_eq!(sim.hold_name(), ("between_events", 52));
    }
}

#[test]
fn between_events_runs_after_content_and_every_event_renews_it() {
    let bounds = Bounds {
        between_events: limit(150),
        ..off()
    };
    let mut sim = stream(&bounds, None);
    sim.frame(secs(200), LIFECYCLE)
        .frame(secs(200), OUTPUT)
        .frame(secs(150), LIFECYCLE)
        .frame(secs(100), COMMENT);

    let (second, cut) = sim.hold();

    assert_eq!((cut.bound.name(), second), ("between_events", 700));
    assert_eq!(
        (cut.phase, cut.code()),
        (Phase::AfterContent, FailureCode::HeartbeatsOnly)
    );
}

#[test]
fn an_empty_dark_block_extends_between_events() {
    let bounds = Bounds {
        between_events: limit(50),
        ..off()
    };
    let cut = |kind, allowance: u64| {
        let mut sim = stream(&bounds, Some(87 * allowance));
        sim.frame(secs(0), OUTPUT)
            .frame(secs(10), opens(kind))
            // An empty delta is an event, but fills nothing.
            .frame(secs(10), LIFECYCLE);
        sim.hold_name().1
    };

    for kind in [BlockKind::Thinking, BlockKind::Tool, BlockKind::ServerTool] {
        assert_eq!(cut(kind, 100), 110, "{kind:?}");
        assert_eq!(cut(kind, 30), 70, "{kind:?}");
    }
    assert_eq!(cut(BlockKind::Text, 100), 70);
}

#[test]
fn a_dark_block_that_filled_or_closed_extends_nothing() {
    let bounds = Bounds {
        between_events: limit(50),
        ..off()
    };
    let cut = |last| {
        let mut sim = stream(&bounds, Some(87 * 300));
        sim.frame(secs(0), OUTPUT)
            .frame(secs(10), block(OUTPUT, Block::Opens(BlockKind::Tool)))
            .frame(secs(10), last);
        sim.hold_name().1
    };

    assert_eq!(cut(block(OUTPUT, Block::Fills)), 70);
    assert_eq!(cut(block(LIFECYCLE, Block::Closes)), 70);
    assert_eq!(cut(opens(BlockKind::Text)), 70);
    // The name that came with the block says nothing of the arguments.
    assert_eq!(cut(PING), 310);
}

#[test]
fn a_thinking_block_that_opens_with_reasoning_has_brought_something() {
    let bounds = Bounds {
        between_events: limit(50),
        ..off()
    };
    let mut sim = stream(&bounds, Some(87 * 300));
    sim.frame(secs(5), block(REASONING, Block::Opens(BlockKind::Thinking)));

    assert_eq!(sim.hold_name(), ("between_events", 55));
}

#[test]
fn an_empty_dark_block_of_unknown_size_lifts_between_events_while_it_is_so() {
    let bounds = Bounds {
        between_events: limit(50),
        flat: limit(1_000),
        ..off()
    };
    let mut sim = stream(&bounds, None);
    sim.frame(secs(0), OUTPUT)
        .frame(secs(10), opens(BlockKind::Tool));
    let mut filled = Sim {
        watch: sim.watch.clone(),
        notices: Vec::new(),
        cut: None,
        ..sim
    };
    filled.frame(secs(500), block(OUTPUT, Block::Fills));

    assert_eq!(sim.hold_name(), ("flat", 1_010));
    assert_eq!(filled.hold_name(), ("between_events", 560));
}

#[test]
fn flat_runs_in_every_phase_after_connecting() {
    let bounds = Bounds {
        flat: limit(100),
        ..off()
    };
    let mut sending = Sim::queued(&bounds, streamed(CHAT, None));
    sending.watch.handle_connecting(Stage::Tcp, secs(3));
    assert_eq!(sending.watch.poll_deadline(), None);
    sending.watch.handle_sending(secs(5));
    let mut waiting = Sim::sent(&bounds, streamed(CHAT, None));
    let mut before = stream(&bounds, None);
    before.frame(secs(10), LIFECYCLE).frame(secs(10), PING);
    let mut after = stream(&bounds, None);
    after.frame(secs(20), OUTPUT);

    assert_eq!(sending.hold_name(), ("flat", 105));
    assert_eq!(waiting.hold_name(), ("flat", 100));
    assert_eq!(before.hold_name(), ("flat", 110));
    assert_eq!(after.hold_name(), ("flat", 120));
}

#[test]
fn a_flat_that_was_set_is_exact_but_joins_an_empty_dark_block() {
    let cut = |flat, max_tokens| {
        let bounds = Bounds { flat, ..off() };
        let mut sim = stream(&bounds, max_tokens);
        sim.frame(secs(10), opens(BlockKind::Thinking));
        sim.hold_name().1
    };

    assert_eq!(cut(limit(100), Some(87 * 500)), 510);
    assert_eq!(cut(from_catalog(100), Some(87 * 500)), 510);
    assert_eq!(cut(limit(100), Some(87)), 110);
    assert_eq!(cut(limit(100), None), 110);
}

#[test]
fn reasoning_only_runs_while_reasoning_is_the_latest_content() {
    let bounds = Bounds {
        reasoning_only: limit(60),
        ..off()
    };
    let mut sim = stream(&bounds, None);
    sim.frame(secs(1), OUTPUT);
    assert_eq!(sim.watch.poll_deadline(), None);
    sim.frame(secs(1), REASONING);
    assert_eq!(sim.watch.poll_deadline(), Some(secs(61)));
    sim.frame(secs(1), OUTPUT);
    assert_eq!(sim.watch.poll_deadline(), None);
    sim.repeat(100, secs(1), REASONING);

    let cut = sim.cut.unwrap();

    assert_eq!(cut.bound, BoundName::ReasoningOnly);
    assert_eq!(cut.ages.output, secs(60));
    assert_eq!(cut.code(), FailureCode::ReasoningOnly);
}

#[test]
fn reasoning_that_comes_too_late_runs_out_as_it_comes() {
    let bounds = Bounds {
        reasoning_only: limit(60),
        ..off()
    };
    let mut sim = stream(&bounds, None);
    sim.frame(secs(100), REASONING);

    let (second, cut) = sim.hold();

    assert_eq!((second, cut.late), (100, secs(0)));
    assert_eq!(cut.code(), FailureCode::ReasoningOnly);
}

#[test]
fn whole_call_counts_from_sent_and_nothing_renews_it() {
    let mut sim = Sim::queued(&Bounds::default(), whole(CHAT, Some(87 * 10)));
    sim.watch.handle_sending(secs(1));
    sim.watch.handle_sent(secs(5));
    sim.watch.handle_headers(secs(6));
    sim.watch.handle_bytes(10, secs(100));

    let (second, cut) = sim.hold();

    assert_eq!((cut.bound.name(), second), ("whole_call", 165));
    assert_eq!(cut.code(), FailureCode::BytesOnly);
}

#[test]
fn a_request_that_nobody_takes_is_bounded_by_whole_call_too() {
    let mut sim = Sim::queued(&Bounds::default(), whole(CHAT, Some(87 * 10)));
    sim.watch.handle_sending(secs(1));
    sim.watch.handle_write(secs(100));

    assert_eq!(sim.hold_name(), ("whole_call", 161));
}

/// The bounds that are in force for a stream where nobody set any.
const OF_A_STREAM: [&str; 6] = [
    "connect",
    "headers",
    "before_content",
    "between_events",
    "flat",
    "raw_silence",
];

#[test]
fn a_watch_keeps_the_bounds_that_may_cut_and_no_others() {
    let sim = Sim::open(&Bounds::default(), streamed(CHAT, None));

    let names: Vec<_> = sim.watch.rows().iter().map(|row| row.name.name()).collect();

    assert_eq!(names, [&["whole_call"][..], &OF_A_STREAM].concat());
}

#[test]
fn a_whole_body_changes_the_table_of_bounds() {
    let mut sim = Sim::open(&Bounds::default(), streamed(ANTHROPIC, None));
    let in_force = |watch: &Watch| -> Vec<_> {
        let rows = watch.rows().iter().filter(|row| row.in_force().is_some());
        rows.map(|row| row.name.name()).collect()
    };

    assert_eq!(in_force(&sim.watch), OF_A_STREAM);
    sim.watch.handle_whole_body(secs(1));
    assert_eq!(in_force(&sim.watch), ["whole_call", "connect"]);
}

#[test]
fn a_whole_body_that_answers_a_stream_request_is_bounded_like_one() {
    let mut sim = Sim::open(&Bounds::default(), streamed(ANTHROPIC, None));
    sim.until(secs(5));
    sim.watch.handle_bytes(10, secs(5));
    sim.watch.handle_whole_body(secs(5));

    let (second, cut) = sim.hold();

    assert_eq!((cut.bound.name(), second), ("whole_call", 1_862));
    assert_eq!(cut.code(), FailureCode::BytesOnly);
}

#[test]
fn whole_call_that_is_over_when_the_body_is_recognised_runs_out_then() {
    let mut sim = Sim::open(&Bounds::default(), streamed(CHAT, Some(1)));
    sim.watch = Watch::new(
        &Bounds {
            shows_work: false,
            ..Bounds::default()
        },
        &streamed(CHAT, Some(1)),
        secs(0),
        secs(0),
    );
    sim.watch.handle_sending(secs(0));
    sim.until(secs(200));
    sim.watch.handle_bytes(10, secs(200));
    sim.watch.handle_sent(secs(200));
    sim.watch.handle_whole_body(secs(300));
    sim.now = secs(300);

    assert_eq!(sim.hold_name(), ("whole_call", 350));
}

#[test]
fn upstream_quiet_believes_the_report_of_a_beat_until_the_next_event() {
    let bounds = Bounds {
        upstream_quiet: limit(60),
        ..off()
    };
    let mut sim = stream(&bounds, None);
    sim.frame(secs(100), PING);
    assert_eq!(sim.watch.poll_deadline(), None);
    sim.frame(secs(0), report(25));
    assert_eq!(sim.watch.poll_deadline(), Some(secs(135)));
    // A beat without a report leaves the last one standing, a newer report replaces it.
    sim.frame(secs(1), COMMENT);
    assert_eq!(sim.watch.poll_deadline(), Some(secs(135)));
    sim.frame(secs(1), report(10));
    assert_eq!(sim.watch.poll_deadline(), Some(secs(152)));
    sim.frame(secs(1), LIFECYCLE);
    assert_eq!(sim.watch.poll_deadline(), None);
    sim.frame(secs(1), report(70));

    let (second, cut) = sim.hold();

    assert_eq!((cut.bound.name(), second), ("upstream_quiet", 104));
    assert_eq!(cut.code(), FailureCode::HeartbeatsOnly);
}

#[test]
fn lifetime_adds_what_earlier_attempts_spent_and_starts_with_connecting() {
    let bounds = Bounds {
        lifetime: limit(100),
        ..off()
    };
    let shape = streamed(CHAT, None);
    let lifetime = |spent| {
        let mut sim = Sim::queued(&bounds, shape);
        sim.watch = Watch::new(&bounds, &shape, secs(40), secs(spent));
        assert_eq!(sim.watch.poll_deadline(), None);
        sim.watch.handle_connecting(Stage::Dns, secs(50));
        sim.watch.handle_frame(OUTPUT, secs(50));
        let (second, cut) = sim.hold();
        assert_eq!(cut.code(), FailureCode::Lifetime);
        second
    };

    assert_eq!(lifetime(0), 150);
    assert_eq!(lifetime(70), 80);
    assert_eq!(lifetime(200), 50);
}

#[test]
fn wall_clock_counts_from_the_beginning_of_the_call() {
    let bounds = Bounds {
        wall_clock: limit(100),
        ..off()
    };
    let mut sim = Sim::queued(&bounds, streamed(CHAT, None));
    sim.watch = Watch::new(&bounds, &streamed(CHAT, None), secs(40), secs(0));
    sim.now = secs(40);
    sim.repeat(100, secs(1), OUTPUT);

    let cut = sim.cut.unwrap();

    assert_eq!(
        (cut.bound, cut.code()),
        (BoundName::WallClock, FailureCode::WallClock)
    );
    assert_eq!(sim.now, secs(100));
}

#[test]
fn an_attempt_that_ended_is_judged_no_more() {
    let bounds = Bounds {
        wall_clock: limit(10),
        lifetime: limit(10),
        whole_call: limit(10),
        upstream_quiet: limit(10),
        ..Bounds::default()
    };
    let mut sim = stream(&bounds, None);
    sim.frame(secs(1), report(0));
    sim.watch.handle_ended(secs(2));
    sim.watch.handle_bytes(5, secs(3));
    sim.watch.handle_frame(OUTPUT, secs(3));
    sim.watch.handle_pause(secs(3));
    sim.watch.handle_resume(secs(9));

    assert_eq!(sim.watch.poll_deadline(), None);
    assert_eq!(sim.watch.handle_time(secs(10_000)), Verdict::Wait);
    let readings = sim.watch.readings(secs(10_000));
    assert_eq!((readings.phase, readings.paused), (Phase::Ended, secs(0)));
    assert_eq!((readings.ages.raw, readings.ages.event), (secs(1), secs(2)));
    let tally = sim.watch.tally();
    assert_eq!(
        (tally.bytes, tally.frames, tally.ended),
        (100, 1, Some(secs(2)))
    );
}

#[test]
fn of_bounds_that_run_out_together_the_first_in_order_cuts() {
    let mut bounds = Bounds {
        wall_clock: limit(60),
        lifetime: limit(60),
        whole_call: limit(60),
        headers: limit(60),
        before_content: limit(60),
        flat: limit(60),
        raw_silence: limit(60),
        ..off()
    };
    let shape = streamed(CHAT, None);
    let mut cuts = Vec::new();
    for turn_off in [
        (|bounds| bounds.wall_clock = by_call(Limit::Off)) as fn(&mut Bounds),
        |bounds: &mut Bounds| bounds.lifetime = by_call(Limit::Off),
        |bounds: &mut Bounds| bounds.whole_call = by_call(Limit::Off),
        |bounds: &mut Bounds| bounds.headers = by_call(Limit::Off),
        |bounds: &mut Bounds| bounds.before_content = by_call(Limit::Off),
        |bounds: &mut Bounds| bounds.flat = by_call(Limit::Off),
        |bounds: &mut Bounds| bounds.raw_silence = by_call(Limit::Off),
    ] {
        let mut sim = Sim::queued(&bounds, shape);
        sim.watch.handle_sending(secs(0));
        sim.watch.handle_sent(secs(0));
        cuts.push(sim.hold_name());
        turn_off(&mut bounds);
    }

    let names = [
        "wall_clock",
        "lifetime",
        "whole_call",
        "headers",
        "before_content",
        "flat",
    ];
    let mut expected = names.map(|name| (name, 60)).to_vec();
    expected.push(("raw_silence", 60));
    assert_eq!(cuts, expected);
}

#[test]
fn limits_beyond_all_time_never_run_out() {
    let forever = || by_call(Limit::After(Duration::MAX));
    let bounds = Bounds {
        raw_silence: forever(),
        before_content: forever(),
        between_events: forever(),
        flat: forever(),
        lifetime: forever(),
        whole_call: forever(),
        notice_after: by_call(Notices::Every(Duration::MAX)),
        ..off()
    };
    let mut sim = Sim::queued(&bounds, streamed(ANTHROPIC, Some(u64::MAX)));
    sim.frame(secs(1), opens(BlockKind::Thinking));
    assert_eq!(sim.watch.poll_deadline(), None);
    sim.frame(secs(1), OUTPUT)
        .frame(secs(1), opens(BlockKind::Tool));

    assert_eq!(sim.watch.poll_deadline(), None);
    assert_eq!(sim.watch.handle_time(Duration::MAX), Verdict::Wait);
}

#[test]
fn a_block_that_puts_a_cut_off_by_nothing_is_not_named() {
    let bounds = Bounds {
        before_content: limit(60),
        ..off()
    };
    let mut sim = stream(&bounds, Some(87 * 59));
    sim.frame(secs(1), opens(BlockKind::Thinking));

    let cut = sim.hold().1;

    assert_eq!((cut.limit, cut.joined), (secs(60), None));
}
