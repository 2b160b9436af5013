//! The retry schedule: how often, how long after, and when not.

use std::time::Duration;

use lifesign_core::{
    BoundName, Budget, Commit, Decision, Failure, FailureCode, GiveUp, Hints, Limit, Past, Phase,
    RetryPolicy, Tier, decide,
};
use proptest::prelude::*;

fn failure(code: FailureCode) -> Failure {
    Failure::new(code, Phase::BeforeContent)
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn asked(seconds: u64) -> Hints {
    Hints {
        wait: Some(secs(seconds)),
        ..Hints::default()
    }
}

/// A call under way, whose failures are decided one after the other.
struct Call {
    policy: RetryPolicy,
    history: Vec<Past>,
    budget: Budget,
    hints: Hints,
    random: f64,
}

impl Call {
    fn new() -> Self {
        Self {
            policy: RetryPolicy::default(),
            history: Vec::new(),
            budget: Budget {
                now: secs(10),
                wall_clock: Limit::Off,
                commit: Commit::Nothing,
            },
            hints: Hints::default(),
            random: 0.0,
        }
    }

    fn attempts(mut self, attempts: u32) -> Self {
        self.policy.attempts.value = attempts;
        self
    }

    fn decide(&self, failure: &Failure) -> Decision {
        decide(
            &self.policy,
            &self.history,
            failure,
            &self.hints,
            &self.budget,
            self.random,
        )
    }

    /// Returns the waits in milliseconds after each of `codes`, and why it ended, if it did.
    fn run(&mut self, codes: &[FailureCode]) -> (Vec<u128>, Option<GiveUp>) {
        let mut waits = Vec::new();
        for code in codes {
            match self.decide(&failure(*code)) {
                Decision::Retry { after, tier } => {
                    assert_eq!(Some(tier), code.tier());
                    waits.push(after.as_millis());
                    self.history.push(Past {
                        code: *code,
                        waited: after,
                    });
                }
                Decision::GiveUp { reason } => return (waits, Some(reason)),
            }
        }
        (waits, None)
    }

    fn reason(&self, failure: &Failure) -> Option<GiveUp> {
        match self.decide(failure) {
            Decision::Retry { .. } => None,
            Decision::GiveUp { reason } => Some(reason),
        }
    }

    fn after(&self, failure: &Failure) -> Option<Duration> {
        match self.decide(failure) {
            Decision::Retry { after, .. } => Some(after),
            Decision::GiveUp { .. } => None,
        }
    }
}

#[test]
fn silence_is_attempted_three_times() {
    let waits = Call::new().run(&[FailureCode::RawSilent; 5]);

    assert_eq!(
        waits,
        (vec![750, 1_500], Some(GiveUp::TierSpent(Tier::Transport)))
    );
}

#[test]
fn the_cap_on_attempts_is_over_all_tiers() {
    let mixed = [
        FailureCode::RawSilent,
        FailureCode::RateLimited,
        FailureCode::HeartbeatsOnly,
        FailureCode::Overloaded,
    ];

    let waits = Call::new().run(&mixed);

    assert_eq!(
        waits,
        (vec![750, 1_000, 1_000], Some(GiveUp::AttemptsSpent))
    );
    let silence = Call::new().attempts(2).run(&[FailureCode::RawSilent; 5]);
    assert_eq!(silence, (vec![750], Some(GiveUp::AttemptsSpent)));
    let single = Call::new().attempts(1).run(&[FailureCode::Overloaded]);
    assert_eq!(single, (vec![], Some(GiveUp::AttemptsSpent)));
}

#[test]
fn overload_and_rate_limits_have_every_attempt_and_growing_waits() {
    let overload = Call::new().attempts(7).run(&[FailureCode::Overloaded; 9]);
    let rate = Call::new().attempts(7).run(&[FailureCode::RateLimited; 9]);

    let expected = vec![10_000, 20_000, 40_000, 80_000, 160_000, 300_000];
    assert_eq!(overload, (expected, Some(GiveUp::AttemptsSpent)));
    let expected = vec![1_000, 2_000, 4_000, 8_000, 16_000, 30_000];
    assert_eq!(rate, (expected, Some(GiveUp::AttemptsSpent)));
}

#[test]
fn cuts_are_counted_in_a_row() {
    let cut = FailureCode::NoContent;
    let other = FailureCode::RateLimited;

    let in_a_row = Call::new().attempts(9).run(&[cut, FailureCode::BytesOnly]);
    let apart = Call::new()
        .attempts(9)
        .run(&[cut, other, cut, other, cut, cut]);

    assert_eq!(in_a_row, (vec![1_000], Some(GiveUp::TierSpent(Tier::Cut))));
    let waits = vec![1_000, 1_000, 1_000, 2_000, 1_000];
    assert_eq!(apart, (waits, Some(GiveUp::TierSpent(Tier::Cut))));
}

#[test]
fn other_tiers_count_the_whole_call() {
    let lost = FailureCode::ConnectionLost;
    let waits = Call::new()
        .attempts(9)
        .run(&[lost, FailureCode::Overloaded, lost, lost]);

    let expected = vec![750, 10_000, 1_500];
    assert_eq!(waits, (expected, Some(GiveUp::TierSpent(Tier::Transport))));
}

#[test]
fn some_failures_are_never_repeated() {
    for code in FailureCode::ALL {
        let reason = Call::new().reason(&failure(code));
        let expected = code.tier().is_none().then_some(GiveUp::NotRetryable);
        assert_eq!(reason, expected, "{}", code.name());
    }
}

#[test]
fn nothing_is_repeated_after_content() {
    let mut call = Call::new();
    call.budget.commit = Commit::Content;
    for code in FailureCode::ALL
        .into_iter()
        .filter(|code| code.tier().is_some())
    {
        assert_eq!(call.reason(&failure(code)), Some(GiveUp::Committed));
    }

    call.policy.after_reasoning.value = true;
    assert_eq!(
        call.reason(&failure(FailureCode::RawSilent)),
        Some(GiveUp::Committed)
    );
}

#[test]
fn held_reasoning_is_thrown_away_only_where_that_is_set() {
    let mut call = Call::new();
    call.budget.commit = Commit::HeldReasoning;
    let silence = failure(FailureCode::RawSilent);
    assert_eq!(call.reason(&silence), Some(GiveUp::Committed));

    call.policy.after_reasoning.value = true;

    assert_eq!(call.reason(&silence), None);
}

#[test]
fn a_provider_that_says_no_is_obeyed() {
    let mut call = Call::new();
    call.hints.should_retry = Some(false);
    assert_eq!(
        call.reason(&failure(FailureCode::ProviderError)),
        Some(GiveUp::ProviderSaysNo)
    );

    call.hints.should_retry = Some(true);
    assert_eq!(call.reason(&failure(FailureCode::ProviderError)), None);
    assert_eq!(
        call.reason(&failure(FailureCode::Rejected)),
        Some(GiveUp::NotRetryable)
    );
}

#[test]
fn a_wait_asked_for_takes_the_place_of_our_own() {
    let mut call = Call::new();
    call.hints = asked(7);
    assert_eq!(
        call.after(&failure(FailureCode::RateLimited)),
        Some(secs(7))
    );
    assert_eq!(call.after(&failure(FailureCode::Overloaded)), Some(secs(7)));

    call.random = 1.0;
    assert_eq!(
        call.after(&failure(FailureCode::RateLimited)),
        Some(Duration::from_millis(7_350))
    );
    call.hints = asked(100);
    assert_eq!(
        call.after(&failure(FailureCode::RateLimited)),
        Some(secs(101))
    );
}

#[test]
fn a_wait_of_zero_is_our_own_first_delay() {
    let mut call = Call::new();
    call.hints = asked(0);

    let waits = call.run(&[FailureCode::RateLimited; 5]);

    assert_eq!(
        waits,
        (vec![1_000, 1_000, 1_000], Some(GiveUp::AttemptsSpent))
    );
}

#[test]
fn a_wait_beyond_the_longest_is_not_slept() {
    let mut call = Call::new();
    let limited = failure(FailureCode::RateLimited);
    let beyond = |asked, max| {
        Some(GiveUp::BeyondMaxWait {
            asked: secs(asked),
            max: secs(max),
        })
    };
    call.hints = asked(120);
    assert_eq!(call.reason(&limited), None);

    call.hints = asked(121);
    assert_eq!(call.reason(&limited), beyond(121, 120));

    call.policy.max_wait.value = Duration::ZERO;
    call.hints = asked(1);
    assert_eq!(call.reason(&limited), beyond(1, 0));
    call.hints = asked(0);
    assert_eq!(call.reason(&limited), None);
}

#[test]
fn a_quota_is_a_quota_whether_or_not_an_attempt_is_left() {
    let mut call = Call::new().attempts(1);
    call.hints.quota = true;

    assert_eq!(
        call.reason(&failure(FailureCode::RateLimited)),
        Some(GiveUp::Quota)
    );
}

#[test]
fn the_wall_clock_must_outlast_the_bound_that_ended_the_last_attempt() {
    let mut silence = failure(FailureCode::RawSilent);
    silence.bound = Some(BoundName::RawSilence);
    silence.limit = Some(secs(45));
    let mut call = Call::new();
    call.budget.now = secs(45);

    call.budget.wall_clock = Limit::After(Duration::from_millis(90_750));
    assert_eq!(call.reason(&silence), Some(GiveUp::WallClock));
    call.budget.wall_clock = Limit::After(Duration::from_millis(90_751));
    assert_eq!(call.after(&silence), Some(Duration::from_millis(750)));

    let lost = failure(FailureCode::ConnectionLost);
    call.budget.wall_clock = Limit::After(Duration::from_millis(45_750));
    assert_eq!(call.reason(&lost), Some(GiveUp::WallClock));
    call.budget.wall_clock = Limit::After(secs(46));
    assert_eq!(call.reason(&lost), None);
}

#[test]
fn the_sum_of_waits_is_capped_where_that_is_set() {
    let mut call = Call::new().attempts(9);
    call.policy.max_total_wait.value = Limit::After(secs(30));

    let waits = call.run(&[FailureCode::Overloaded; 9]);

    let reason = GiveUp::TotalWait { max: secs(30) };
    assert_eq!(waits, (vec![10_000, 20_000], Some(reason)));
}

#[test]
fn a_random_number_that_is_none_does_no_harm() {
    for random in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 2.0] {
        let mut call = Call::new();
        call.random = random;
        let after = call.after(&failure(FailureCode::Overloaded)).unwrap();
        assert!(
            (secs(10)..=Duration::from_millis(12_500)).contains(&after),
            "{random}"
        );
    }
}

fn repeatable() -> impl Strategy<Value = FailureCode> {
    let codes: Vec<_> = FailureCode::ALL
        .into_iter()
        .filter(|code| code.tier().is_some())
        .collect();
    proptest::sample::select(codes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_wait_is_never_shortened_and_no_call_goes_on_for_ever(
        codes in proptest::collection::vec(repeatable(), 0..12),
        attempts in 1_u32..9,
        wait in proptest::option::of(0_u64..200_000),
        random in 0.0_f64..=1.0,
        wall in proptest::option::of(0_u64..400_000),
    ) {
        let mut call = Call::new().attempts(attempts);
        call.random = random;
        call.hints.wait = wait.map(Duration::from_millis);
        if let Some(wall) = wall {
            call.budget.wall_clock = Limit::After(Duration::from_millis(wall));
        }

        let (waits, _) = call.run(&codes);

        prop_assert!(waits.len() < attempts as usize);
        for after in waits {
            let asked = wait.map(u128::from).filter(|asked| *asked > 0);
            if let Some(asked) = asked {
                prop_assert!(after >= asked && after <= asked + (asked / 20).min(1_000) + 1);
            } else {
                prop_assert!(after >= 750);
            }
            if let Some(wall) = wall {
                prop_assert!(10_000 + after < u128::from(wall) + 1);
            }
        }
    }
}

#[test]
fn a_failure_that_would_only_happen_again_is_not_repeated() {
    let mut failure = failure(FailureCode::Connect);
    assert!(matches!(
        Call::new().decide(&failure),
        Decision::Retry { .. }
    ));
    assert!(failure.is_retryable());

    failure.futile = true;

    assert_eq!(
        Call::new().decide(&failure),
        Decision::GiveUp {
            reason: GiveUp::NotRetryable
        }
    );
    assert!(!failure.is_retryable());
    assert_eq!(failure.tier(), None);
}
