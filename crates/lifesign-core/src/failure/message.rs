//! The line for the operator: what was observed, the limit and its setting, the count.

use std::fmt;

use super::{Failure, FailureCode, TEXT_CHARS, quote};
use crate::duration::human_limit;
use crate::{BoundName, GiveUp, Joined, Phase};

impl Failure {
    /// Returns the line for the operator: what was observed, the limit with its setting and origin,
    /// and, once it is given up, how many attempts there were and why no other followed.
    ///
    /// Text of the provider's in it is at most [`TEXT_CHARS`] long and on one line.
    pub fn message(&self) -> String {
        let mut line = self.observed();
        line.push_str(&self.limit_in_force());
        // While another attempt follows, there is no count yet.
        if self.attempt > 1 && self.give_up.is_some() {
            line = format!("{line}; {} attempts", self.attempt);
        }
        match self.give_up {
            // The count says it, or the code does.
            None
            | Some(
                GiveUp::AttemptsSpent | GiveUp::NotRetryable | GiveUp::Quota | GiveUp::TierSpent(_),
            ) => line,
            Some(reason) => format!("{line}; not repeated: {reason}"),
        }
    }

    fn observed(&self) -> String {
        let during = during(self.phase);
        let after = self.for_how_long();
        match self.code {
            FailureCode::BytesOnly => {
                format!("bytes but no whole frame arrived{after} {during}")
            }
            FailureCode::Cancelled if self.detail.is_some() => {
                self.with_detail("the call was ended".to_owned())
            }
            FailureCode::Cancelled => format!("the caller left {during}"),
            FailureCode::Connect => self.connecting(),
            FailureCode::ConnectionLost => {
                let lost = format!("the connection to the provider was lost {during}");
                self.with_detail(lost)
            }
            FailureCode::ConsumerStalled => format!("the reader took nothing{after}"),
            FailureCode::Empty if self.frames == 0 => {
                "the provider ended the stream without a single event".to_owned()
            }
            FailureCode::Empty => {
                "the provider ended the stream with neither content nor a finish".to_owned()
            }
            FailureCode::Exhausted if self.is_long_rate_limit() => self.answered(LIMITS_THE_RATE),
            FailureCode::Exhausted => self.answered("reports that the quota is used up"),
            FailureCode::HeartbeatsOnly => {
                format!("only heartbeats and no content arrived{after} {during}")
            }
            FailureCode::Lifetime => {
                format!("the attempts together waited{after} for the provider")
            }
            FailureCode::NoContent => {
                format!("only events without content arrived{after} {during}")
            }
            FailureCode::Overloaded => self.answered("is overloaded"),
            FailureCode::ProviderError => self.answered("reports an error of its own"),
            FailureCode::QueueFull => self.with_detail("there is no place in the queue".to_owned()),
            FailureCode::RateLimited => self.answered(LIMITS_THE_RATE),
            FailureCode::RawSilent => format!("nothing arrived{after} {during}"),
            FailureCode::ReasoningOnly => {
                format!("only reasoning and no output arrived{after} {during}")
            }
            FailureCode::RefusedSetting => self
                .detail
                .clone()
                .unwrap_or_else(|| "a setting was refused".to_owned()),
            FailureCode::Rejected => self.answered("refused the request"),
            FailureCode::TooLarge => self.with_detail("a size cap was passed".to_owned()),
            FailureCode::Truncated if self.partial => {
                "the provider ended the stream without a finish, in the middle of the answer"
                    .to_owned()
            }
            FailureCode::Truncated => "the provider ended the stream without a finish".to_owned(),
            FailureCode::Unreadable => {
                let what = "what arrived is not the wire that was promised";
                match self.status.filter(|status| (100..200).contains(status)) {
                    Some(status) => format!("{what}: a final status of {status}"),
                    None => self.with_detail(what.to_owned()),
                }
            }
            // Where another setting is named, the clock is not the call's own.
            FailureCode::WallClock => match (&self.named_setting, &self.detail) {
                (Some(_), Some(detail)) => detail.clone(),
                _ => format!("the call's own budget ran out {during}"),
            },
            FailureCode::WholeCall => {
                "the answer was still coming when its limit ran out".to_owned()
            }
        }
    }

    fn connecting(&self) -> String {
        let stage = self
            .stage
            .map(|stage| format!(" at the {} stage", stage.name()))
            .unwrap_or_default();
        let after = self.for_how_long();
        if self.bound == Some(BoundName::Connect) {
            return format!("connecting hung{after}{stage}");
        }
        self.with_detail(format!("connecting failed{stage}"))
    }

    /// Returns what the provider did and, in its own words, why.
    fn answered(&self, what: &str) -> String {
        if let Some(own) = self.own_words() {
            return quote(own, TEXT_CHARS);
        }
        let mut line = format!("the provider {what}");
        if let Some(status) = self.status.filter(|status| !(200..300).contains(status)) {
            line = format!("{line} ({status})");
        }
        let said = self
            .provider_message
            .as_deref()
            .map(|text| quote(text, TEXT_CHARS));
        match said.or_else(|| self.detail.clone()) {
            Some(said) if !said.is_empty() => format!("{line}: {said}"),
            _ => line,
        }
    }

    /// Returns our own words for what is usually the provider's answer, where it gave none.
    pub(super) fn own_words(&self) -> Option<&str> {
        let has_answered = self.provider_message.is_some()
            || self
                .status
                .is_some_and(|status| !(200..300).contains(&status));
        self.detail.as_deref().filter(|_| !has_answered)
    }

    fn with_detail(&self, line: String) -> String {
        match &self.detail {
            Some(detail) => format!("{line}: {}", quote(detail, TEXT_CHARS)),
            None => line,
        }
    }

    fn for_how_long(&self) -> String {
        self.limit
            .map(|limit| format!(" for {}", human_limit(limit)))
            .unwrap_or_default()
    }

    fn limit_in_force(&self) -> String {
        let (Some(_), Some(limit), Some(setting)) = (self.bound, self.limit, self.setting()) else {
            return String::new();
        };
        let origin = self
            .origin
            .as_ref()
            .map(|origin| format!(", {origin}"))
            .unwrap_or_default();
        let set = match self.joined {
            Some(Joined { limit, allowance }) => format!(
                "{}, joined with the thinking allowance of {}",
                human_limit(limit),
                human_limit(allowance)
            ),
            None => human_limit(limit),
        };
        format!(" ({setting} = {set}{origin})")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())
    }
}

const LIMITS_THE_RATE: &str = "limits the rate of requests";

const fn during(phase: Phase) -> &'static str {
    match phase {
        Phase::Queued => "while the call was waiting",
        Phase::Connecting => "while connecting",
        Phase::Sending => "while the request was sent",
        Phase::WaitingForHeaders => "before the response headers",
        Phase::BeforeContent => "before the first content",
        Phase::AfterContent => "in the middle of the answer",
        Phase::Ended => "after the answer",
    }
}
