//! What a cut says of the wire.

use lifesign_core::{
    Ages, BoundName, Bounds, Cut, FailureCode, Finding, Origin, Phase, Progress, Sign,
};

use crate::watch_sim::{
    CHAT, COMMENT, LIFECYCLE, OUTPUT, PING, REASONING, Sim, limit, off, secs, stream, streamed,
};

#[test]
fn the_code_tells_what_came_while_the_bound_ran() {
    use FailureCode::{BytesOnly, HeartbeatsOnly, NoContent, RawSilent, ReasoningOnly, WholeCall};

    let flat = Bounds {
        flat: limit(100),
        ..off()
    };
    let before = Bounds {
        before_content: limit(100),
        ..off()
    };
    let whole_call = Bounds {
        whole_call: limit(100),
        ..off()
    };
    let code = |bounds: &Bounds, sign: Option<Sign>| {
        let mut sim = stream(bounds, None);
        if let Some(sign) = sign {
            sim.frame(secs(10), sign);
        }
        sim.hold().1.code()
    };

    for bounds in [&flat, &before, &whole_call] {
        assert_eq!(code(bounds, None), RawSilent);
        assert_eq!(code(bounds, Some(Sign::of(Progress::Byte))), BytesOnly);
        assert_eq!(code(bounds, Some(PING)), HeartbeatsOnly);
    }
    assert_eq!(code(&before, Some(LIFECYCLE)), NoContent);
    assert_eq!(code(&whole_call, Some(LIFECYCLE)), NoContent);
    assert_eq!(code(&whole_call, Some(REASONING)), ReasoningOnly);
    assert_eq!(code(&whole_call, Some(OUTPUT)), WholeCall);
    // What renewed the clock is not in the window.
    assert_eq!(code(&flat, Some(LIFECYCLE)), RawSilent);
    assert_eq!(code(&flat, Some(OUTPUT)), RawSilent);
}

#[test]
fn the_best_that_came_counts_not_the_last() {
    let bounds = Bounds {
        before_content: limit(60),
        ..off()
    };
    let mut sim = stream(&bounds, None);
    sim.frame(secs(1), LIFECYCLE)
        .frame(secs(1), PING)
        .frame(secs(1), Sign::of(Progress::Byte));

    assert_eq!(sim.hold().1.finding, Finding::Events);
}

#[test]
fn headers_and_accepted_request_bytes_are_no_finding() {
    let bounds = Bounds {
        flat: limit(100),
        ..off()
    };
    let mut sim = Sim::queued(&bounds, streamed(CHAT, None));
    sim.watch.handle_sending(secs(0));
    sim.watch.handle_write(secs(10));
    sim.watch.handle_sent(secs(20));
    sim.watch.handle_headers(secs(30));

    assert_eq!(sim.hold().1.code(), FailureCode::RawSilent);
}

#[test]
fn half_a_frame_after_an_event_is_bytes_only() {
    let bounds = Bounds {
        between_events: limit(50),
        ..off()
    };
    let mut sim = stream(&bounds, None);
    sim.frame(secs(1), OUTPUT).until(secs(10));
    sim.watch.handle_bytes(7, secs(10));

    assert_eq!(sim.hold().1.code(), FailureCode::BytesOnly);
}

#[test]
fn what_came_with_the_event_that_renewed_the_clock_is_no_finding() {
    let bounds = Bounds {
        flat: limit(50),
        ..off()
    };
    let mut sim = stream(&bounds, None);
    sim.frame(secs(1), OUTPUT).frame(secs(0), COMMENT);

    assert_eq!(sim.hold().1.code(), FailureCode::RawSilent);
}

#[test]
fn a_first_byte_at_the_very_start_counts_for_a_clock_that_never_moved() {
    let bounds = Bounds {
        flat: limit(50),
        ..off()
    };
    let mut sim = stream(&bounds, None);
    sim.frame(secs(0), COMMENT);

    assert_eq!(sim.hold().1.code(), FailureCode::HeartbeatsOnly);
}

#[test]
fn a_cut_carries_every_clocks_age() {
    let bounds = Bounds {
        raw_silence: limit(10),
        ..off()
    };
    let mut sim = stream(&bounds, None);
    sim.frame(secs(1), OUTPUT)
        .frame(secs(1), REASONING)
        .frame(secs(1), LIFECYCLE)
        .frame(secs(1), PING);

    let (_, cut) = sim.hold();

    let expected = Cut {
        bound: BoundName::RawSilence,
        limit: secs(10),
        joined: None,
        origin: Origin::Call,
        phase: Phase::AfterContent,
        stage: None,
        ages: Ages {
            raw: secs(10),
            event: secs(11),
            content: secs(12),
            output: secs(13),
        },
        finding: Finding::Nothing,
        late: secs(0),
    };
    assert_eq!(cut, expected);
}
