//! The consumer's pauses are not the upstream's silence.

use std::time::Duration;

use lifesign_core::{BoundName, Bounds, Verdict};

use crate::watch_sim::{OUTPUT, PING, limit, off, secs, stream};

#[test]
fn a_consumers_pause_is_not_the_upstreams_silence() {
    let bounds = Bounds {
        raw_silence: limit(30),
        ..off()
    };
    let mut sim = stream(&bounds, None);
    sim.frame(secs(10), OUTPUT);
    sim.watch.handle_pause(secs(20));
    assert_eq!(sim.watch.poll_deadline(), None);
    assert_eq!(sim.watch.handle_time(secs(500)), Verdict::Wait);
    assert_eq!(sim.watch.readings(secs(520)).ages.raw, secs(10));
    assert_eq!(sim.watch.readings(secs(520)).paused, secs(500));
    sim.watch.handle_resume(secs(1_020));

    let (second, cut) = sim.hold();

    assert_eq!((second, cut.ages.raw), (1_040, secs(30)));
    let tally = sim.watch.tally();
    assert_eq!(
        (tally.paused, tally.longest_gap.raw),
        (secs(1_000), secs(30))
    );
}

#[test]
fn pauses_add_up_and_a_second_pause_in_one_is_the_same() {
    let bounds = Bounds {
        flat: limit(100),
        ..off()
    };
    let mut sim = stream(&bounds, None);
    for start in [10, 30] {
        sim.watch.handle_pause(secs(start));
        sim.watch.handle_pause(secs(start + 3));
        sim.watch.handle_resume(secs(start + 10));
        sim.watch.handle_resume(secs(start + 12));
    }

    assert_eq!(sim.hold_name(), ("flat", 120));
}

#[test]
fn the_wall_clock_runs_through_pauses() {
    let bounds = Bounds {
        wall_clock: limit(100),
        ..Bounds::default()
    };
    let mut sim = stream(&bounds, None);
    sim.frame(secs(10), OUTPUT);
    sim.watch.handle_pause(secs(10));

    assert_eq!(
        sim.watch.readings(secs(10)).next,
        Some((BoundName::WallClock, secs(100)))
    );
    assert_eq!(sim.hold_name(), ("wall_clock", 100));
}

#[test]
fn what_comes_during_a_pause_comes_when_it_began() {
    let mut sim = stream(&off(), None);
    sim.watch.handle_pause(secs(10));
    sim.watch.handle_frame(OUTPUT, secs(50));
    sim.watch.handle_resume(secs(110));

    assert_eq!(sim.watch.readings(secs(115)).ages.output, secs(5));
    assert_eq!(sim.watch.tally().longest_gap.output, secs(10));
    assert_eq!(sim.watch.tally().first_content, Some(secs(50)));
}

#[test]
fn an_attempt_that_ends_in_a_pause_counts_it() {
    let mut sim = stream(&off(), None);
    sim.watch.handle_pause(secs(10));
    sim.watch.handle_ended(secs(50));

    let tally = sim.watch.tally();
    let readings = sim.watch.readings(secs(70));

    assert_eq!((tally.paused, tally.longest_gap.raw), (secs(40), secs(10)));
    assert_eq!((readings.paused, readings.ages.raw), (secs(40), secs(10)));
}

#[test]
fn a_flood_that_is_handed_over_frame_by_frame_stretches_no_bound() {
    let bounds = Bounds {
        flat: limit(3),
        ..off()
    };
    let mut sim = stream(&bounds, None);
    let handing_over = Duration::from_micros(900);
    let mut now = secs(0);
    while sim.watch.handle_time(now) == Verdict::Wait {
        sim.watch.handle_bytes(3, now);
        sim.watch.handle_frame(PING, now);
        sim.watch.handle_pause(now);
        now += handing_over;
        sim.watch.handle_resume(now);
    }

    assert_eq!(now.as_secs(), 3);
}

#[test]
fn a_millisecond_away_is_a_pause() {
    let pause = Duration::from_millis(1);
    let mut sim = stream(&off(), None);
    for (start, length) in [(10, pause), (20, Duration::from_nanos(999_999))] {
        sim.watch.handle_pause(secs(start));
        sim.watch.handle_resume(secs(start) + length);
    }

    assert_eq!(sim.watch.tally().paused, pause);
}
