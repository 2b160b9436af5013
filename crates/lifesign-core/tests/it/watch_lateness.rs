//! Late wake-ups are ours, not the upstream's.

use std::time::Duration;

use lifesign_core::{BoundName, Bounds, Limit, Verdict, Watch};

use crate::watch_sim::{CHAT, PING, Sim, by_call, limit, off, secs, stream, streamed};

/// Judges at `now` as a punctual driver would that finds nothing on the socket.
fn judge(watch: &mut Watch, now: Duration) -> Verdict {
    match watch.handle_time(now) {
        Verdict::Look { until } => watch.handle_time(until),
        verdict => verdict,
    }
}

fn silent_30s() -> Watch {
    let bounds = Bounds {
        raw_silence: limit(30),
        ..off()
    };
    stream(&bounds, None).watch
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn on_time_the_socket_is_read_once_before_the_verdict() {
    let mut watch = silent_30s();

    assert_eq!(watch.handle_time(millis(29_999)), Verdict::Wait);
    let now = millis(30_050);
    assert_eq!(watch.handle_time(now), Verdict::Look { until: now });
    assert_eq!(watch.poll_deadline(), Some(now));
    let Verdict::Cut(cut) = watch.handle_time(millis(30_051)) else {
        panic!("the second look must cut");
    };

    assert_eq!((cut.late, cut.ages.raw), (millis(51), millis(30_051)));
    assert_eq!(watch.tally().late, millis(51));
}

#[test]
fn an_event_in_hand_beats_a_timer() {
    let mut watch = silent_30s();

    assert!(matches!(watch.handle_time(secs(30)), Verdict::Look { .. }));
    watch.handle_bytes(5, secs(30));

    assert_eq!(watch.handle_time(secs(30)), Verdict::Wait);
    assert_eq!(watch.poll_deadline(), Some(secs(60)));
    // The next time is looked at anew.
    assert!(matches!(watch.handle_time(secs(60)), Verdict::Look { .. }));
    assert!(matches!(watch.handle_time(secs(60)), Verdict::Cut(_)));
}

#[test]
fn a_little_late_the_socket_gets_a_probe_of_50_ms() {
    let mut watch = silent_30s();
    let until = millis(30_101);

    assert_eq!(watch.handle_time(millis(30_051)), Verdict::Look { until });
    assert_eq!(watch.poll_deadline(), Some(until));
    assert_eq!(watch.handle_time(millis(30_100)), Verdict::Look { until });

    let Verdict::Cut(cut) = watch.handle_time(until) else {
        panic!("the probe is over");
    };
    assert_eq!(cut.late, millis(101));
}

#[test]
fn a_probe_puts_off_no_other_bound() {
    let bounds = Bounds {
        raw_silence: limit(30),
        before_content: by_call(Limit::After(millis(30_080))),
        ..off()
    };
    let mut watch = stream(&bounds, None).watch;

    assert!(matches!(
        watch.handle_time(millis(30_051)),
        Verdict::Look { .. }
    ));
    watch.handle_bytes(1, millis(30_060));

    assert_eq!(watch.poll_deadline(), Some(millis(30_080)));
}

#[test]
fn a_flood_of_heartbeats_does_not_put_off_the_verdict() {
    let bounds = Bounds {
        before_content: limit(60),
        ..off()
    };
    let mut watch = stream(&bounds, None).watch;

    assert!(matches!(watch.handle_time(secs(60)), Verdict::Look { .. }));
    watch.handle_frame(PING, millis(60_001));

    assert!(matches!(watch.handle_time(millis(60_001)), Verdict::Cut(_)));
}

#[test]
fn five_seconds_late_is_late_and_more_is_sleep() {
    let mut late = silent_30s();
    let mut slept = silent_30s();

    assert!(matches!(late.handle_time(secs(35)), Verdict::Look { .. }));
    assert_eq!(slept.handle_time(millis(35_001)), Verdict::Wait);
    assert_eq!(slept.poll_deadline(), Some(millis(65_001)));
}

#[test]
fn after_sleep_a_bound_runs_anew_for_its_limit_or_30_s_once() {
    let restart = |seconds| {
        let bounds = Bounds {
            flat: limit(seconds),
            ..off()
        };
        let mut watch = stream(&bounds, None).watch;
        assert_eq!(watch.handle_time(secs(3_600)), Verdict::Wait);
        (watch.poll_deadline().unwrap().as_secs() - 3_600, watch)
    };

    assert_eq!(restart(20).0, 20);
    let (seconds, mut watch) = restart(200);
    assert_eq!(seconds, 30);

    // Asleep again, and not a byte since: no second restart.
    let until = millis(7_200_050);
    assert_eq!(watch.handle_time(secs(7_200)), Verdict::Look { until });
    let Verdict::Cut(cut) = watch.handle_time(until) else {
        panic!("it is over");
    };
    assert_eq!(cut.ages.event, until);
    assert_eq!(cut.late, millis(3_570_050));
}

#[test]
fn a_byte_allows_the_next_sleep_to_be_excused() {
    for step in [
        (|watch, at| watch.handle_bytes(1, at)) as fn(&mut Watch, Duration),
        |watch, at| watch.handle_frame(PING, at),
        Watch::handle_headers,
    ] {
        let bounds = Bounds {
            before_content: limit(60),
            ..off()
        };
        let mut watch = Sim::sent(&bounds, streamed(CHAT, None)).watch;
        assert_eq!(watch.handle_time(secs(1_000)), Verdict::Wait);
        step(&mut watch, secs(1_010));

        assert_eq!(watch.poll_deadline(), Some(secs(1_030)));
        assert_eq!(watch.handle_time(secs(2_000)), Verdict::Wait);
        assert_eq!(watch.poll_deadline(), Some(secs(2_030)));
    }
}

#[test]
fn a_sleep_during_the_probe_is_a_sleep() {
    let mut watch = silent_30s();

    assert!(matches!(watch.handle_time(secs(30)), Verdict::Look { .. }));

    assert_eq!(watch.handle_time(secs(900)), Verdict::Wait);
    assert_eq!(watch.poll_deadline(), Some(secs(930)));
}

#[test]
fn sleep_excuses_neither_wall_clock_nor_lifetime() {
    let wall = Bounds {
        wall_clock: limit(60),
        ..off()
    };
    let lifetime = Bounds {
        lifetime: limit(60),
        ..off()
    };

    for bounds in [wall, lifetime] {
        let mut watch = stream(&bounds, None).watch;
        let until = millis(900_050);
        assert_eq!(watch.handle_time(secs(900)), Verdict::Look { until });
        assert!(matches!(watch.handle_time(until), Verdict::Cut(_)));
    }
}

#[test]
fn a_wall_clock_that_ran_out_in_a_sleep_cuts_after_the_excuse_of_another_bound() {
    let bounds = Bounds {
        wall_clock: limit(60),
        raw_silence: limit(30),
        ..off()
    };
    let mut watch = stream(&bounds, None).watch;

    assert_eq!(watch.handle_time(secs(900)), Verdict::Wait);
    assert_eq!(watch.poll_deadline(), Some(secs(60)));
    let verdict = judge(&mut watch, secs(900));

    assert!(matches!(verdict, Verdict::Cut(cut) if cut.bound == BoundName::WallClock));
}

#[test]
fn a_deadline_that_a_pause_moved_is_looked_at_anew() {
    let mut watch = silent_30s();

    assert!(matches!(watch.handle_time(secs(30)), Verdict::Look { .. }));
    watch.handle_pause(secs(30));
    watch.handle_resume(secs(40));

    assert!(matches!(watch.handle_time(secs(40)), Verdict::Look { .. }));
    assert!(matches!(watch.handle_time(secs(40)), Verdict::Cut(_)));
}
