//! What an attempt amounts to.

use lifesign_core::{Ages, Clock, Phase, Progress, Sign, Stage, Watch};

use crate::watch_sim::{CHAT, COMMENT, OUTPUT, PING, Sim, off, report, secs, stream, streamed};

#[test]
fn the_tally_has_every_count_and_time() {
    let mut sim = Sim::queued(&off(), streamed(CHAT, None));
    let watch = &mut sim.watch;
    watch.handle_connecting(Stage::Dns, secs(1));
    watch.handle_sending(secs(2));
    watch.handle_sent(secs(3));
    watch.handle_headers(secs(5));
    watch.handle_bytes(0, secs(6));
    watch.handle_bytes(10, secs(7));
    watch.handle_frame(COMMENT, secs(7));
    watch.handle_bytes(20, secs(9));
    watch.handle_frame(Sign::of(Progress::Heartbeat), secs(9));
    watch.handle_frame(report(1), secs(9));
    watch.handle_frame(OUTPUT, secs(13));
    watch.handle_frame(PING, secs(14));
    watch.handle_ended(secs(20));

    let tally = watch.tally();

    assert_eq!((tally.bytes, tally.frames), (30, 5));
    let beats = tally.heartbeats;
    assert_eq!(
        (beats.provider, beats.comment, beats.proxy, beats.total()),
        (2, 1, 1, 4)
    );
    let times = [
        tally.sending,
        tally.sent,
        tally.headers,
        tally.first_byte,
        tally.first_content,
    ];
    assert_eq!(times, [2, 3, 5, 7, 13].map(|at| Some(secs(at))));
    assert_eq!(
        (tally.ended, tally.notices, tally.late),
        (Some(secs(20)), 0, secs(0))
    );
    let gaps = Ages {
        raw: secs(6),
        event: secs(11),
        content: secs(11),
        output: secs(11),
    };
    assert_eq!(tally.longest_gap, gaps);
}

#[test]
fn the_open_gap_counts_before_the_end_too() {
    let mut sim = stream(&off(), None);
    sim.frame(secs(1), OUTPUT);
    sim.watch.handle_time(secs(50));

    assert_eq!(sim.watch.tally().longest_gap, Ages::of(|_| secs(49)));
}

#[test]
fn an_attempt_ends_once() {
    let mut sim = stream(&off(), None);
    sim.watch.handle_ended(secs(5));
    sim.watch.handle_ended(secs(9));

    let tally = sim.watch.tally();

    assert_eq!(
        (tally.ended, tally.longest_gap),
        (Some(secs(5)), Ages::of(|_| secs(5)))
    );
}

#[test]
fn lifetime_is_what_all_attempts_waited_without_the_consumers_pauses() {
    let mut watch = Watch::new(&off(), &streamed(CHAT, None), secs(10), secs(100));
    assert_eq!(watch.lifetime(), secs(100));
    watch.handle_connecting(Stage::Dns, secs(20));
    watch.handle_pause(secs(25));
    watch.handle_resume(secs(55));
    watch.handle_sending(secs(60));
    assert_eq!(watch.lifetime(), secs(110));
    watch.handle_ended(secs(70));
    watch.handle_time(secs(500));

    assert_eq!(watch.lifetime(), secs(120));
}

#[test]
fn gaps_are_told_by_the_phase_in_which_they_end_and_the_open_one_with_the_attempt() {
    let mut sim = Sim::sent(&off(), streamed(CHAT, None));
    sim.watch.handle_headers(secs(3));
    sim.frame(secs(5), PING);
    sim.frame(secs(7), OUTPUT);
    sim.frame(secs(2), OUTPUT);
    let longest = |sim: &Sim, phase, clock| sim.watch.gaps().longest(phase, clock).as_secs();

    assert_eq!(longest(&sim, Phase::WaitingForHeaders, Clock::Raw), 3);
    assert_eq!(longest(&sim, Phase::BeforeContent, Clock::Raw), 7);
    assert_eq!(longest(&sim, Phase::BeforeContent, Clock::Content), 12);
    assert_eq!(longest(&sim, Phase::AfterContent, Clock::Output), 2);
    sim.watch.handle_ended(secs(40));
    assert_eq!(longest(&sim, Phase::AfterContent, Clock::Output), 26);
}
