//! What is done about each kind of failure, and which count of cuts a policy is given.

use lifesign::{Budget, Commit, FailureCode, Hints, Limit, Past, Phase, RetryPolicy};
use pretty_assertions::assert_eq;

use super::*;

const CUT: FailureCode = FailureCode::HeartbeatsOnly;

fn failure(code: FailureCode) -> Failure {
    Failure::new(code, Phase::BeforeContent)
}

/// The calls of one turn, as the client tells a policy of them.
struct Turn {
    below: Below,
    past: Vec<Past>,
}

impl Turn {
    fn new(policy: impl ErrorPolicy + 'static) -> Self {
        Self {
            below: Below::new(Arc::new(policy)),
            past: Vec::new(),
        }
    }

    /// Fails an attempt, and returns whether it is made again.
    fn fail(&mut self, code: FailureCode) -> bool {
        let failed = failure(code);
        let (hints, policy) = (Hints::default(), RetryPolicy::default());
        let budget = Budget {
            now: Duration::ZERO,
            wall_clock: Limit::Off,
            commit: Commit::Nothing,
        };
        let mut attempt = FailedAttempt::new(&failed, &hints, &budget, &policy);
        attempt.past = &self.past;
        let decision = self.below.decide(&attempt);
        self.past.push(Past {
            code,
            waited: Duration::ZERO,
        });
        matches!(decision, Decision::Retry { .. })
    }

    fn next_call(&mut self) {
        self.past.clear();
    }
}

#[test]
fn a_turn_is_sent_again_after_2_8_and_32_minutes_and_then_no_more() {
    let policy = Resend::default();
    let waits = [0, 1, 2, 3].map(|resends| {
        let wait = policy.resend(&failure(FailureCode::Overloaded), resends);
        wait.map(|wait| wait.as_secs() / 60)
    });

    assert_eq!(waits, [Some(2), Some(8), Some(32), None]);
    assert_eq!(Tiers.resend(&failure(FailureCode::Overloaded), 0), None);
}

#[test]
fn cuts_and_what_cannot_pass_are_never_sent_again() {
    let sent_again = |code| {
        let below = Below::new(Arc::new(Resend::default()));
        below.resend(&failure(code), 0).is_some()
    };
    let codes: Vec<_> = FailureCode::ALL
        .into_iter()
        .filter(|code| sent_again(*code))
        .map(FailureCode::name)
        .collect();

    assert_eq!(
        codes,
        [
            "connect",
            "connection_lost",
            "empty",
            "overloaded",
            "provider_error",
            "rate_limited",
            "raw_silent",
            "truncated",
        ]
    );
}

#[test]
fn a_provider_that_said_no_or_when_is_not_asked_again_before() {
    let sent_again = |reason| {
        let mut failure = failure(FailureCode::Overloaded);
        failure.give_up = Some(reason);
        Below::new(Arc::new(Resend::default()))
            .resend(&failure, 0)
            .is_some()
    };
    let (asked, max) = (Duration::from_mins(10), Duration::from_mins(2));

    assert!(sent_again(GiveUp::TierSpent(Tier::Overload)));
    assert!(sent_again(GiveUp::AttemptsSpent));
    assert!(!sent_again(GiveUp::BeyondMaxWait { asked, max }));
    assert!(!sent_again(GiveUp::ProviderSaysNo));
    assert!(!sent_again(GiveUp::WallClock));
}

#[test]
fn two_cuts_in_a_row_are_the_end_also_where_they_are_of_two_calls() {
    let mut turn = Turn::new(Tiers);

    assert!(turn.fail(CUT));
    turn.next_call();

    assert!(!turn.fail(CUT));
}

#[test]
fn another_kind_of_failure_begins_the_count_anew_and_a_refusal_does_not() {
    for (between, made_again) in [
        (FailureCode::ConnectionLost, true),
        (FailureCode::ProviderError, true),
        (FailureCode::RateLimited, false),
        (FailureCode::Overloaded, false),
    ] {
        let mut turn = Turn::new(Tiers);

        assert!(turn.fail(CUT));
        assert!(turn.fail(between), "{between:?}");

        assert_eq!(turn.fail(CUT), made_again, "{between:?}");
    }
}

#[test]
fn a_completed_call_begins_the_count_anew() {
    let mut turn = Turn::new(Tiers);

    assert!(turn.fail(CUT));
    turn.below.handle_complete();
    turn.next_call();

    assert!(turn.fail(CUT));
    assert!(!turn.fail(CUT));
}

#[test]
fn a_cut_after_content_counts_as_one() {
    let mut turn = Turn::new(Tiers);

    turn.below.handle_partial(&failure(CUT), false);

    assert!(!turn.fail(CUT));
}

#[test]
fn a_turn_that_was_sent_again_gets_no_fresh_call_for_a_cut_until_it_got_through() {
    let sent_again = || {
        let turn = Turn::new(Resend::default());
        assert!(
            turn.below
                .resend(&failure(FailureCode::Connect), 0)
                .is_some()
        );
        turn
    };

    assert!(!sent_again().fail(CUT));
    let mut other = sent_again();
    assert!(other.fail(FailureCode::ConnectionLost));
    assert!(!other.fail(CUT));
    let mut ran = sent_again();
    ran.below.handle_complete();
    assert!(ran.fail(CUT));
    let mut calling = sent_again();
    calling
        .below
        .handle_partial(&failure(FailureCode::ConnectionLost), true);
    assert!(calling.fail(CUT));
    let mut talking = sent_again();
    talking
        .below
        .handle_partial(&failure(FailureCode::ConnectionLost), false);
    assert!(!talking.fail(CUT));
}

#[test]
fn a_policy_of_the_hosts_is_given_the_count() {
    struct Asked(Arc<Mutex<Vec<u32>>>);
    impl ErrorPolicy for Asked {
        fn attempt(&self, fault: &Fault<'_>) -> Decision {
            self.0.lock().unwrap().push(fault.attempt);
            Decision::Retry {
                after: Duration::ZERO,
                tier: Tier::Cut,
            }
        }
    }
    let asked = Arc::new(Mutex::new(Vec::new()));
    let mut turn = Turn::new(Asked(Arc::clone(&asked)));

    for code in [CUT, FailureCode::RateLimited, CUT, FailureCode::RateLimited] {
        assert!(turn.fail(code));
    }
    turn.next_call();
    turn.fail(CUT);
    turn.fail(FailureCode::Connect);
    turn.fail(CUT);

    assert_eq!(*asked.lock().unwrap(), [1, 1, 2, 2, 3, 1, 1]);
}
