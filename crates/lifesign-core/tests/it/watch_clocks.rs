//! Which clock each thing renews, and which phase it leads to.

use std::time::Duration;

use lifesign_core::{Ages, Bounds, Clock, Finding, Phase, Progress, Sign, Stage, Verdict, Watch};

use crate::watch_sim::{
    CHAT, LIFECYCLE, OUTPUT, REASONING, Sim, limit, off, secs, stream, streamed,
};

#[test]
fn each_class_renews_its_clock_and_those_below() {
    let expected = [
        (Progress::Byte, [0, 10, 10, 10]),
        (Progress::Heartbeat, [0, 10, 10, 10]),
        (Progress::Lifecycle, [0, 0, 10, 10]),
        (Progress::Reasoning, [0, 0, 0, 10]),
        (Progress::Output, [0, 0, 0, 0]),
    ];

    for (progress, ages) in expected {
        let mut sim = stream(&off(), None);
        sim.watch.handle_frame(Sign::of(progress), secs(10));
        let read = sim.watch.readings(secs(10)).ages;
        assert_eq!(
            Clock::ALL.map(|clock| read.clock(clock).as_secs()),
            ages,
            "{progress:?}"
        );
    }
}

#[test]
fn clocks_count_from_the_first_request_byte() {
    let mut sim = Sim::queued(&off(), streamed(CHAT, None));
    sim.watch.handle_connecting(Stage::Dns, secs(5));

    let connecting = sim.watch.readings(secs(8));
    sim.watch.handle_sending(secs(10));
    let sending = sim.watch.readings(secs(13));

    assert_eq!(
        (connecting.phase, connecting.stage),
        (Phase::Connecting, Some(Stage::Dns))
    );
    assert_eq!(connecting.ages, Ages::default());
    assert_eq!((sending.phase, sending.stage), (Phase::Sending, None));
    assert_eq!(sending.ages, Ages::of(|_| secs(3)));
}

#[test]
fn accepted_request_bytes_and_headers_renew_raw_alone() {
    let mut sim = Sim::queued(&off(), streamed(CHAT, None));
    let ages = |raw, others| Ages {
        raw: secs(raw),
        ..Ages::of(|_| secs(others))
    };
    sim.watch.handle_sending(secs(0));

    sim.watch.handle_write(secs(10));
    assert_eq!(sim.watch.readings(secs(11)).ages, ages(1, 11));
    sim.watch.handle_sent(secs(20));
    assert_eq!(sim.watch.readings(secs(22)).ages, ages(2, 22));
    sim.watch.handle_headers(secs(30));
    assert_eq!(sim.watch.readings(secs(33)).ages, ages(3, 33));
}

#[test]
fn phases_follow_one_another_and_never_turn_back() {
    use Phase::{AfterContent, BeforeContent, Ended, Queued, Sending, WaitingForHeaders};

    let mut sim = Sim::queued(&off(), streamed(CHAT, None));
    let mut phases = vec![sim.watch.readings(secs(0)).phase];

    for step in [
        Watch::handle_sending as fn(&mut Watch, Duration),
        Watch::handle_sent,
        Watch::handle_headers,
        |watch, at| watch.handle_frame(LIFECYCLE, at),
        |watch, at| watch.handle_frame(REASONING, at),
        Watch::handle_headers,
        Watch::handle_sent,
        Watch::handle_sending,
        |watch, at| watch.handle_connecting(Stage::Tcp, at),
        Watch::handle_ended,
        |watch, at| watch.handle_frame(OUTPUT, at),
    ] {
        step(&mut sim.watch, secs(1));
        phases.push(sim.watch.readings(secs(1)).phase);
    }

    let mut expected = vec![
        Queued,
        Sending,
        WaitingForHeaders,
        BeforeContent,
        BeforeContent,
    ];
    expected.extend([AfterContent; 5]);
    expected.extend([Ended; 2]);
    assert_eq!(phases, expected);
}

#[test]
fn a_frame_out_of_the_blue_implies_all_that_comes_before_it() {
    let mut sim = Sim::queued(&off(), streamed(CHAT, None));

    sim.watch.handle_frame(OUTPUT, secs(4));

    let tally = sim.watch.tally();
    let at = Some(secs(4));
    assert_eq!((tally.sending, tally.sent, tally.headers), (at, at, at));
    assert_eq!((tally.first_content, tally.first_byte), (at, None));
    assert_eq!(sim.watch.readings(secs(4)).phase, Phase::AfterContent);
}

#[test]
fn bytes_out_of_the_blue_imply_the_headers() {
    let mut sim = Sim::queued(&off(), streamed(CHAT, None));

    sim.watch.handle_bytes(1, secs(4));

    let tally = sim.watch.tally();
    let at = Some(secs(4));
    assert_eq!((tally.sent, tally.headers, tally.first_byte), (at, at, at));
    assert_eq!(sim.watch.readings(secs(4)).phase, Phase::BeforeContent);
}

#[test]
fn the_last_request_byte_is_written_once() {
    let mut sim = Sim::sent(&off(), streamed(CHAT, None));

    sim.watch.handle_sent(secs(5));

    assert_eq!(sim.watch.tally().sent, Some(secs(0)));
    assert_eq!(sim.watch.readings(secs(6)).ages.raw, secs(6));
}

#[test]
fn nothing_renews_a_clock_after_the_end() {
    for step in [
        Watch::handle_write as fn(&mut Watch, Duration),
        Watch::handle_sent,
        Watch::handle_headers,
        Watch::handle_raw,
        |watch, at| watch.handle_bytes(1, at),
        |watch, at| watch.handle_frame(OUTPUT, at),
    ] {
        let mut sim = Sim::open(&off(), streamed(CHAT, None));
        sim.watch.handle_ended(secs(5));
        step(&mut sim.watch, secs(6));
        assert_eq!(sim.watch.readings(secs(7)).ages, Ages::of(|_| secs(5)));
    }
}

#[test]
fn a_time_that_goes_backwards_is_the_latest_one_seen() {
    let mut sim = stream(&off(), None);

    sim.watch.handle_frame(OUTPUT, secs(100));
    sim.watch.handle_frame(OUTPUT, secs(40));
    sim.watch.handle_headers(secs(3));
    let readings = sim.watch.readings(secs(50));

    assert_eq!(readings.ages, Ages::default());
    assert_eq!(sim.watch.tally().longest_gap.output, secs(100));
    assert_eq!(sim.watch.handle_time(secs(1)), Verdict::Wait);
}

#[test]
fn bytes_of_the_head_are_life_and_those_of_the_body_a_finding() {
    let bounds = Bounds {
        flat: limit(100),
        ..off()
    };
    let mut head = Sim::sent(&bounds, streamed(CHAT, None));
    let mut body = Sim::open(&bounds, streamed(CHAT, None));

    for sim in [&mut head, &mut body] {
        sim.watch.handle_raw(secs(10));
        assert_eq!(sim.watch.readings(secs(13)).ages.raw, secs(3));
        assert_eq!(
            (sim.watch.tally().bytes, sim.watch.tally().first_byte),
            (0, None)
        );
    }

    assert_eq!(head.hold().1.finding, Finding::Nothing);
    assert_eq!(body.hold().1.finding, Finding::Bytes);
}

#[test]
fn bytes_before_the_request_and_after_the_end_are_nothing() {
    let mut sim = Sim::queued(&off(), streamed(CHAT, None));
    sim.watch.handle_raw(secs(1));
    assert_eq!(sim.watch.readings(secs(5)).ages, Ages::default());
    sim.watch.handle_sending(secs(5));
    sim.watch.handle_ended(secs(6));
    sim.watch.handle_raw(secs(9));

    assert_eq!(sim.watch.readings(secs(9)).ages, Ages::of(|_| secs(1)));
}
