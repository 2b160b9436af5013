//! States, from what can be seen of an attempt.

use lifesign_core::{Bounds, CallShape, HeartbeatOrigin, Progress, Sign};
use lifesign_wire::Wire;

use super::*;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn watch(streamed: bool) -> Watch {
    let shape = CallShape {
        streamed,
        max_tokens: None,
        wire: Wire::OPENAI_CHAT.defaults(),
    };
    let mut watch = Watch::new(&Bounds::default(), &shape, Duration::ZERO, Duration::ZERO);
    watch.handle_sending(Duration::ZERO);
    watch.handle_sent(Duration::ZERO);
    watch
}

fn state_at(watch: &Watch, now: Duration) -> State {
    state_of_attempt(&watch.readings(now), &AttemptNow::of(watch, now))
}

fn frame(watch: &mut Watch, sign: Sign, at: Duration) {
    watch.handle_bytes(10, at);
    watch.handle_frame(sign, at);
}

#[test]
fn what_was_asked_just_now_thinks_and_is_silent_after_ten_seconds() {
    let mut watch = watch(true);

    assert_eq!(state_at(&watch, secs(9)), State::Thinking);
    assert_eq!(state_at(&watch, secs(10)), State::Silent);
    watch.handle_headers(secs(11));
    assert_eq!(state_at(&watch, secs(12)), State::Thinking);
    assert_eq!(state_at(&watch, secs(21)), State::Silent);
}

#[test]
fn heartbeats_alone_are_life_and_no_work() {
    let mut watch = watch(true);
    watch.handle_headers(secs(1));
    for at in [5, 20, 35] {
        frame(
            &mut watch,
            Sign::heartbeat(HeartbeatOrigin::Comment),
            secs(at),
        );
    }

    // Between two of them too, and no more once the next one is missing.
    assert_eq!(state_at(&watch, secs(36)), State::Alive);
    assert_eq!(state_at(&watch, secs(49)), State::Alive);
    assert_eq!(state_at(&watch, secs(65)), State::Silent);
}

#[test]
fn bytes_that_make_no_frame_are_life_and_no_work() {
    let mut watch = watch(true);
    watch.handle_headers(secs(1));
    watch.handle_bytes(1, secs(8));
    assert_eq!(state_at(&watch, secs(9)), State::Thinking);

    watch.handle_bytes(1, secs(14));

    assert_eq!(state_at(&watch, secs(15)), State::Alive);
}

#[test]
fn content_is_an_answer_and_reasoning_is_thinking() {
    let mut watch = watch(true);
    watch.handle_headers(secs(1));
    frame(&mut watch, Sign::of(Progress::Reasoning), secs(2));
    assert_eq!(state_at(&watch, secs(3)), State::Thinking);

    frame(&mut watch, Sign::of(Progress::Output), secs(4));
    assert_eq!(state_at(&watch, secs(5)), State::Answering);
    frame(&mut watch, Sign::of(Progress::Lifecycle), secs(13));
    assert_eq!(state_at(&watch, secs(15)), State::Thinking);
    assert_eq!(state_at(&watch, secs(25)), State::Silent);
}

#[test]
fn a_caller_that_does_not_read_is_no_silence_of_the_upstream() {
    let mut watch = watch(true);
    watch.handle_headers(secs(1));
    frame(&mut watch, Sign::of(Progress::Output), secs(2));
    watch.handle_pause(secs(2));

    assert_eq!(state_at(&watch, secs(4)), State::Answering);
    assert_eq!(state_at(&watch, secs(60)), State::Unread);
}

#[test]
fn of_a_whole_body_the_bytes_are_the_answer() {
    let mut watch = watch(false);
    watch.handle_headers(secs(1));
    assert_eq!(state_at(&watch, secs(2)), State::Thinking);

    watch.handle_bytes(100, secs(3));

    assert_eq!(state_at(&watch, secs(12)), State::Answering);
    assert_eq!(state_at(&watch, secs(13)), State::Silent);
}

#[test]
fn the_bounds_that_run_come_in_the_order_in_which_they_run_out() {
    let mut watch = watch(true);
    watch.handle_headers(secs(1));
    frame(&mut watch, Sign::of(Progress::Output), secs(2));
    frame(
        &mut watch,
        Sign::heartbeat(HeartbeatOrigin::Comment),
        secs(50),
    );

    let bounds = running(&watch.bound_readings(secs(60)), secs(60));

    let names: Vec<_> = bounds
        .iter()
        .map(|bound| (bound.bound, bound.clock))
        .collect();
    assert_eq!(
        names,
        [
            (BoundName::BetweenEvents, Some(Clock::Event)),
            (BoundName::RawSilence, Some(Clock::Raw)),
            (BoundName::Flat, Some(Clock::Event)),
        ]
    );
    assert_eq!(bounds[0].age_ms, 58_000);
    assert_eq!(bounds[0].in_ms, Some(92_000));
    assert_eq!(next(&bounds).unwrap().bound, BoundName::BetweenEvents);
}

#[test]
fn a_call_that_is_over_finishes_until_it_is_gone() {
    let monitor = lifesign::Monitor::new(lifesign::clock::CallClock::start(), 3);
    let state = || state(&monitor.snapshot(), None);

    assert_eq!(state(), State::Starting);
    monitor.begin_attempt(1, watch(true));
    monitor.set_doing(Doing::Ended);
    assert_eq!(state(), State::Finishing);
}
