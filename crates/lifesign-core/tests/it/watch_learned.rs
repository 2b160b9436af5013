//! How the rhythm of heartbeats replaces the default of `raw_silence`.

use lifesign_core::{BoundName, Bounds, FailureCode, Origin};

use crate::watch_sim::{
    CHAT, COMMENT, LIFECYCLE, PING, Sim, from_catalog, limit, off, secs, stream, streamed,
};

#[test]
fn three_heartbeat_gaps_teach_what_silence_is() {
    let mut sim = Sim::open(&patient(), streamed(CHAT, None));
    sim.frame(secs(100), COMMENT).repeat(2, secs(10), COMMENT);
    assert_eq!(sim.watch.poll_deadline(), Some(secs(360)));
    sim.frame(secs(9), COMMENT);

    let (second, cut) = sim.hold();

    assert_eq!(second, 129 + 60);
    assert_eq!((cut.bound, cut.limit), (BoundName::RawSilence, secs(60)));
    assert_eq!(
        (&cut.origin, cut.code()),
        (&Origin::Learned, FailureCode::RawSilent)
    );
}

#[test]
fn nothing_under_45_seconds_is_learned_and_longer_than_the_default_may_be() {
    let learned = |every| {
        let mut sim = Sim::open(&patient(), streamed(CHAT, None));
        sim.repeat(4, secs(every), PING);
        let (second, cut) = sim.hold();
        (second - 4 * every, cut.limit.as_secs())
    };

    assert_eq!(learned(1), (45, 45));
    assert_eq!(learned(8), (48, 48));
    assert_eq!(learned(50), (300, 300));
}

#[test]
fn an_event_restores_the_default_and_the_lesson_starts_anew() {
    let mut sim = Sim::open(&patient(), streamed(CHAT, None));
    sim.repeat(4, secs(10), PING);
    assert_eq!(sim.watch.poll_deadline(), Some(secs(40 + 60)));
    sim.frame(secs(5), LIFECYCLE);
    assert_eq!(sim.watch.poll_deadline(), Some(secs(45 + 240)));
    sim.repeat(3, secs(5), PING);
    assert_eq!(sim.watch.poll_deadline(), Some(secs(60 + 240)));
    sim.frame(secs(5), PING);
    assert_eq!(sim.watch.poll_deadline(), Some(secs(65 + 45)));

    assert_eq!(sim.hold().1.origin, Origin::Learned);
}

#[test]
fn heartbeats_of_one_instant_teach_nothing() {
    let mut sim = Sim::open(&patient(), streamed(CHAT, None));
    sim.frame(secs(10), PING).repeat(9, secs(0), PING);

    assert_eq!(sim.hold_name(), ("raw_silence", 250));
}

#[test]
fn a_raw_silence_that_somebody_set_is_never_replaced() {
    for setting in [limit(200), from_catalog(200)] {
        let bounds = Bounds {
            raw_silence: setting.clone(),
            ..off()
        };
        let mut sim = stream(&bounds, None);
        sim.repeat(9, secs(10), PING);

        let (second, cut) = sim.hold();

        assert_eq!((second, cut.origin), (290, setting.origin));
    }
}

/// Only `raw_silence`, as the wire has it.
fn patient() -> Bounds {
    Bounds {
        raw_silence: Bounds::default().raw_silence,
        ..off()
    }
}
