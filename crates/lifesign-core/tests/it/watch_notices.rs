//! When a quiet content clock is reported.

use lifesign_core::{Bounds, HeartbeatOrigin, LastHeartbeat, Notices, Phase, Stage, Verdict};

use crate::watch_sim::{
    CHAT, COMMENT, LIFECYCLE, OUTPUT, PING, REASONING, Sim, by_call, limit, off, secs, stream,
    streamed,
};

#[test]
fn notices_come_at_doubling_intervals_until_content() {
    let bounds = Bounds {
        notice_after: Bounds::default().notice_after,
        ..off()
    };
    let mut sim = stream(&bounds, None);
    sim.frame(secs(100), PING)
        .until(secs(1_500))
        .frame(secs(0), OUTPUT)
        .until(secs(1_600));

    let given: Vec<_> = sim
        .notices
        .iter()
        .map(|(at, notice)| (*at, notice.number))
        .collect();

    let expected = [
        (30, 1),
        (90, 2),
        (210, 3),
        (450, 4),
        (750, 5),
        (1_050, 6),
        (1_350, 7),
        (1_530, 1),
        (1_590, 2),
    ];
    assert_eq!(given, expected);
    assert_eq!(sim.watch.tally().notices, 9);
}

#[test]
fn an_interval_set_by_hand_is_fixed() {
    let bounds = Bounds {
        notice_after: by_call(Notices::Every(secs(20))),
        ..off()
    };
    let mut sim = stream(&bounds, None);
    sim.frame(secs(5), REASONING).until(secs(90));

    let given: Vec<_> = sim
        .notices
        .iter()
        .map(|(at, notice)| (*at, notice.number))
        .collect();

    assert_eq!(given, [(25, 1), (45, 2), (65, 3), (85, 4)]);
}

#[test]
fn a_notice_carries_every_clocks_age_and_the_last_heartbeat() {
    let bounds = Bounds {
        notice_after: Bounds::default().notice_after,
        ..off()
    };
    let mut sim = stream(&bounds, None);
    sim.frame(secs(10), LIFECYCLE)
        .frame(secs(13), PING)
        .frame(secs(2), COMMENT)
        .until(secs(31));

    let (at, notice) = sim.notices[0];

    assert_eq!(
        (at, notice.number, notice.phase),
        (30, 1, Phase::BeforeContent)
    );
    assert_eq!(notice.ages.raw, secs(5));
    assert_eq!(notice.ages.event, secs(20));
    assert_eq!(
        (notice.ages.content, notice.ages.output),
        (secs(30), secs(30))
    );
    let heartbeat = LastHeartbeat {
        origin: HeartbeatOrigin::Comment,
        age: secs(5),
    };
    assert_eq!(notice.heartbeat, Some(heartbeat));
    assert_eq!(sim.watch.readings(secs(31)).heartbeat.unwrap().age, secs(6));
}

#[test]
fn notices_that_were_missed_are_one() {
    let bounds = Bounds {
        notice_after: by_call(Notices::Every(secs(20))),
        ..off()
    };
    let mut sim = stream(&bounds, None);

    let late = sim.watch.handle_time(secs(75));
    let again = sim.watch.handle_time(secs(75));

    assert!(matches!(late, Verdict::Notice(notice) if notice.number == 1));
    assert_eq!(again, Verdict::Wait);
    assert_eq!(sim.watch.poll_deadline(), Some(secs(95)));
}

#[test]
fn a_cut_goes_before_a_notice() {
    let bounds = Bounds {
        raw_silence: limit(30),
        notice_after: Bounds::default().notice_after,
        ..off()
    };
    let mut sim = stream(&bounds, None);

    assert_eq!(sim.hold_name(), ("raw_silence", 30));
    assert_eq!(sim.notices, []);
}

#[test]
fn there_is_no_notice_before_the_request_or_where_they_are_off() {
    let bounds = Bounds {
        notice_after: Bounds::default().notice_after,
        ..off()
    };
    let mut connecting = Sim::queued(&bounds, streamed(CHAT, None));
    connecting.watch.handle_connecting(Stage::Tcp, secs(0));

    assert_eq!(connecting.watch.poll_deadline(), None);
    for notices in [Notices::Off, Notices::Every(secs(0))] {
        let bounds = Bounds {
            notice_after: by_call(notices),
            ..off()
        };
        assert_eq!(stream(&bounds, None).watch.poll_deadline(), None);
    }
}

#[test]
fn a_notice_that_comes_late_does_not_put_off_the_next() {
    let bounds = Bounds {
        notice_after: by_call(Notices::Every(secs(20))),
        ..off()
    };
    let next_after = |at| {
        let mut sim = stream(&bounds, None);
        assert!(matches!(
            sim.watch.handle_time(secs(at)),
            Verdict::Notice(_)
        ));
        sim.watch.poll_deadline()
    };

    assert_eq!(next_after(25), Some(secs(40)));
    assert_eq!(next_after(40), Some(secs(60)));
}
