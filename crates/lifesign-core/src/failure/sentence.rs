//! One sentence for the person who waits, and one piece of advice.
//!
//! The person does not know what a bound, a frame or an upstream is. The advice may name a setting;
//! the sentence never does.

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};

use super::{Failure, FailureCode};
use crate::duration::human_measured;
use crate::{Phase, Stage};

impl Failure {
    /// Returns one plain sentence for the person who waits. No two codes share one.
    pub fn sentence(&self) -> String {
        let (what, then) = self.what_and_then();
        match then {
            "" => format!("{what}."),
            then => format!("{what}; {then}."),
        }
    }

    /// Returns what happened, and what comes of it or may help.
    fn what_and_then(&self) -> (String, &'static str) {
        let time = self
            .limit
            .map(|limit| format!(" for {}", human_measured(limit)))
            .unwrap_or_default();
        let (what, then) = match self.code {
            FailureCode::BytesOnly if self.partial => {
                let what = format!("Only scraps of the rest of the answer came{time}");
                return (what, KEPT);
            }
            FailureCode::BytesOnly => {
                return (format!("Only scraps of an answer came{time}"), TRY_AGAIN);
            }
            FailureCode::Cancelled if self.detail.is_some() => (
                "Somebody else stopped the answer before it was complete",
                "",
            ),
            FailureCode::Cancelled => ("You stopped the answer before it was complete", ""),
            FailureCode::Connect => match self.stage {
                Some(Stage::Dns) => (
                    "The address of the model's server could not be looked up",
                    "check it and the network",
                ),
                Some(Stage::Proxy) => (
                    "The proxy on the way to the model's server let nothing through",
                    "check its settings",
                ),
                Some(Stage::Tls) => (
                    "No secure connection to the model's server could be made",
                    "check its address",
                ),
                Some(Stage::Tcp) | None => (
                    "The model's server could not be reached",
                    "check its address and the network",
                ),
            },
            FailureCode::ConnectionLost if self.partial => {
                ("The connection broke in the middle of the answer", KEPT)
            }
            FailureCode::ConnectionLost => {
                ("The connection broke before the answer began", TRY_AGAIN)
            }
            FailureCode::ConsumerStalled => {
                ("The answer was given up because nobody was reading it", "")
            }
            FailureCode::Empty => ("The model's server sent an empty answer", TRY_AGAIN),
            FailureCode::Exhausted if self.is_long_rate_limit() => {
                let what = "Requests came faster than the provider allows";
                let until = match (self.resets_at, self.retry_after) {
                    (Some(at), _) => format!("until {}", whole_second(at)),
                    (None, Some(wait)) => format!("for another {}", human_measured(wait)),
                    (None, None) => "for a long while".to_owned(),
                };
                return (format!("{what}, and it takes no more {until}"), "");
            }
            FailureCode::Exhausted => match self.resets_at {
                Some(at) => {
                    return (
                        format!(
                            "The account has used up what it may use until {}",
                            whole_second(at)
                        ),
                        "",
                    );
                }
                None => (
                    "The account has used up what it may use",
                    "add to it or use another",
                ),
            },
            FailureCode::HeartbeatsOnly if self.partial => {
                let what = "The line to the model's server was alive";
                return (
                    format!("{what}{time}, but no more of the answer came over it"),
                    KEPT,
                );
            }
            FailureCode::HeartbeatsOnly => {
                let what = "The line to the model's server was alive";
                return (
                    format!("{what}{time}, but no answer came over it"),
                    TRY_AGAIN,
                );
            }
            FailureCode::Lifetime => {
                let time = self.limit_or_time();
                let what = format!("The {time} set aside for the model's server ran out");
                return (what, "try again later or allow more");
            }
            FailureCode::NoContent if self.partial => {
                let what = "The model's server gave signs of work";
                return (
                    format!("{what}{time} without another word of the answer"),
                    KEPT,
                );
            }
            FailureCode::NoContent => {
                let what = "The model's server gave signs of work";
                return (
                    format!("{what}{time} without a word of an answer"),
                    TRY_AGAIN,
                );
            }
            FailureCode::Overloaded => (
                "The model's server has more to do than it can",
                "try again in a while",
            ),
            FailureCode::ProviderError if self.own_words().is_some() => {
                ("The answer was given up before it was complete", TRY_AGAIN)
            }
            FailureCode::ProviderError => ("The model's server had a fault of its own", TRY_AGAIN),
            FailureCode::QueueFull => (
                "Too many requests are waiting in line already",
                "try again in a moment",
            ),
            FailureCode::RateLimited => {
                let what = "Requests came faster than the provider allows";
                match self.retry_after.filter(|wait| !wait.is_zero()) {
                    Some(wait) => {
                        let wait = human_measured(wait);
                        return (format!("{what}; try again in {wait}"), "");
                    }
                    None => (what, "try again in a little while"),
                }
            }
            FailureCode::RawSilent if self.partial => {
                let what =
                    format!("The model's server went quiet{time} in the middle of the answer");
                return (what, KEPT);
            }
            FailureCode::RawSilent => {
                return (format!("The model's server went quiet{time}"), TRY_AGAIN);
            }
            FailureCode::ReasoningOnly => {
                let what = format!("The model only thought{time} and said nothing");
                return (what, "allow more or ask for less thinking");
            }
            FailureCode::RefusedSetting => (
                "A setting cannot be used as it stands",
                "correct it and start again",
            ),
            FailureCode::Rejected if self.own_words().is_some() => (
                "The request was refused before it was sent on",
                "sending the same again will not help",
            ),
            FailureCode::Rejected => (
                "The provider refused the request",
                "sending the same again will not help",
            ),
            FailureCode::TooLarge if self.phase <= Phase::Sending => {
                ("The request is larger than is allowed", "")
            }
            FailureCode::TooLarge => ("The answer grew larger than is allowed", ""),
            FailureCode::Truncated if self.partial => ("The answer stopped before its end", KEPT),
            FailureCode::Truncated => ("The answer stopped before it had begun", TRY_AGAIN),
            FailureCode::Unreadable => (
                "What came back is not an answer of a model",
                "check the server's address",
            ),
            FailureCode::WallClock => {
                let time = self.limit_or_time();
                let state = if self.partial || self.phase == Phase::AfterContent {
                    "while the answer was still coming"
                } else {
                    "before the answer began"
                };
                let what = format!("The {time} you allowed ran out {state}");
                return (what, "ask for less or allow more");
            }
            FailureCode::WholeCall => {
                let time = self.limit_or_time();
                let what =
                    format!("The answer was not complete within the {time} that it may take");
                return (what, "ask for less or allow it more");
            }
        };
        (what.to_owned(), then)
    }

    fn limit_or_time(&self) -> String {
        self.limit.map_or_else(|| "time".to_owned(), human_measured)
    }

    /// Returns what may help, naming the setting where one would, or `None` if nothing is known to.
    pub fn hint(&self) -> Option<String> {
        if self.advice.is_some() {
            return self.advice.clone();
        }
        let raise = |otherwise: &str| match self.setting() {
            // Below the allowance a higher limit changes nothing.
            Some(setting) if self.joined.is_some() => format!(
                "raise max_tokens or lower bounds.think_tokens_per_second, whose allowance \
                 outlasted {setting}, {otherwise}"
            ),
            Some(setting) => format!("raise {setting}, {otherwise}"),
            None => otherwise.to_owned(),
        };
        Some(match self.code {
            FailureCode::Cancelled => return None,
            FailureCode::BytesOnly => "try again; suspect a proxy that buffers or drips".to_owned(),
            FailureCode::Connect => match self.stage {
                Some(Stage::Dns) => "check the host name in the base URL",
                Some(Stage::Proxy) => "check the proxy variables and the proxy's log",
                Some(Stage::Tls) => "check the certificate, or whether the base URL wants http",
                Some(Stage::Tcp) | None => "check the base URL and that something listens there",
            }
            .to_owned(),
            FailureCode::ConnectionLost => {
                "try again; if it recurs, suspect a proxy or load balancer on the way".to_owned()
            }
            FailureCode::ConsumerStalled => "read the answer as it comes".to_owned(),
            FailureCode::Empty => {
                "try again; if it recurs, check the model's name and the wire".to_owned()
            }
            FailureCode::Exhausted if self.is_long_rate_limit() => {
                let when = self
                    .resets_at
                    .map_or_else(|| "later".to_owned(), |at| format!("at {at}"));
                format!("come back {when}, send less at once, or raise retry.max_wait")
            }
            FailureCode::Exhausted => match self.resets_at {
                Some(at) => format!("come back at {at}, or use another key"),
                None => "add credit, raise the account's limit, or use another key".to_owned(),
            },
            FailureCode::HeartbeatsOnly => {
                raise("or try again: a hop on the way lives, the model may not")
            }
            FailureCode::Lifetime => raise("or turn it off"),
            FailureCode::NoContent if self.joined.is_some() => raise("or try again"),
            FailureCode::NoContent => raise("or give max_tokens if the model thinks out of sight"),
            FailureCode::Overloaded => "wait, then try again, or use another upstream".to_owned(),
            FailureCode::ProviderError if self.own_words().is_some() => "try again".to_owned(),
            FailureCode::ProviderError => "read the provider's message, then try again".to_owned(),
            FailureCode::QueueFull => {
                "try again later; a longer upstream.queue lets more wait, and a higher \
                 upstream.concurrency lets them wait less if the server can do it"
                    .to_owned()
            }
            FailureCode::RateLimited => {
                "wait as long as asked, send less at once, or raise retry.attempts".to_owned()
            }
            FailureCode::RawSilent => {
                raise("if the provider is slow rather than dead; else try again")
            }
            FailureCode::ReasoningOnly => raise("or ask for less thinking"),
            FailureCode::RefusedSetting => match self.setting() {
                Some(setting) => format!("correct {setting}"),
                None => "correct the field that the message names".to_owned(),
            },
            FailureCode::Rejected => self.rejected_hint().to_owned(),
            FailureCode::TooLarge => raise("or ask for less"),
            FailureCode::Truncated => {
                "keep or discard what came; it is not a whole answer".to_owned()
            }
            FailureCode::Unreadable => "check the base URL and the wire".to_owned(),
            FailureCode::WallClock => raise("or ask for a shorter answer"),
            FailureCode::WholeCall => raise("or ask for a stream"),
        })
    }

    const fn rejected_hint(&self) -> &'static str {
        let status = match (self.status, self.stated_status) {
            (Some(200..=299) | None, stated) => stated,
            (sent, _) => sent,
        };
        match status {
            Some(300..=399) => "redirects are not followed: give the final address as base_url",
            Some(401) => "check the API key",
            Some(403) => "check what the API key may use",
            Some(404) => "check the base URL and the model's name",
            Some(413) => "send a smaller request",
            _ => "change the request; sending it again gives the same",
        }
    }
}

/// Returns the first whole second from `at` on: nobody waits for less.
fn whole_second(at: Timestamp) -> Timestamp {
    let up = TimestampRound::new()
        .smallest(Unit::Second)
        .mode(RoundMode::Ceil);
    at.round(up).unwrap_or(at)
}

const TRY_AGAIN: &str = "trying again may help";

const KEPT: &str = "what had come is kept";
