//! The words by which providers name an error, and the HTTP status that each stands for.
//!
//! Anthropic's types stand for the statuses of its documentation, Gemini's for those of
//! `google.rpc.Code`, Bedrock's for those of its exceptions; the rest is as recorded or as the
//! providers' SDKs classify it.

/// Returns the HTTP status that a provider's word stands for, however it is spelt.
pub(super) fn status(word: &str) -> Option<u16> {
    let word = plain(word);
    let known = STATUSES
        .iter()
        .find(|(_, words)| words.contains(&word.as_str()));
    known.map(|(status, _)| *status).or_else(|| {
        ["invalid", "unsupported", "missing"]
            .iter()
            .any(|start| word.starts_with(start))
            .then_some(400)
    })
}

/// Returns whether a word says that a quota is used up, which no wait of a rate limit heals.
pub(super) fn is_quota(word: &str) -> bool {
    QUOTAS.contains(&plain(word).as_str())
}

/// Returns a word without case, separators and what Bedrock appends after a colon.
fn plain(word: &str) -> String {
    let word = word.split(':').next().unwrap_or_default();
    let word = word.rsplit('#').next().unwrap_or_default();
    word.chars()
        .take(LONGEST_WORD)
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

const LONGEST_WORD: usize = 100;

const QUOTAS: [&str; 7] = [
    "billingerror",
    "billinghardlimitreached",
    "billingnotactive",
    "enforcedspendlimitreached",
    "insufficientbalance",
    "insufficientcredits",
    "insufficientquota",
];

const STATUSES: [(u16, &[&str]); 14] = [
    (
        400,
        &[
            "badrequest",
            "badrequesterror",
            "contentfilter",
            "contentpolicyviolation",
            "contextlengthexceeded",
            "contextwindowexceedederror",
            "exceedcontextsizeerror",
            "failedprecondition",
            "outofrange",
            "previousresponsenotfound",
            "toolusefailed",
            "toomanyprompttokens",
            "validationerror",
            "validationexception",
        ],
    ),
    (
        401,
        &[
            "authenticationerror",
            "invalidapikey",
            "unauthenticated",
            "unauthorized",
            "unrecognizedclientexception",
        ],
    ),
    (402, &["billingerror", "paymentrequired"]),
    (
        403,
        &[
            "accessdeniedexception",
            "forbidden",
            "permissiondenied",
            "permissiondeniederror",
            "permissionerror",
        ],
    ),
    (
        404,
        &[
            "deploymentnotfound",
            "modelnotfound",
            "notfound",
            "notfounderror",
            "resourcenotfoundexception",
        ],
    ),
    (408, &["modeltimeoutexception", "requesttimeout"]),
    (409, &["aborted", "conflict", "conflicterror"]),
    (413, &["requestentitytoolarge", "requesttoolarge"]),
    (422, &["unprocessableentity", "unprocessableentityerror"]),
    (
        429,
        &[
            "modelnotreadyexception",
            "ratelimit",
            "ratelimiterror",
            "ratelimitexceeded",
            "ratelimitreached",
            "resourceexhausted",
            "throttlingexception",
            "toomanyrequests",
            "toomanyrequestsexception",
        ],
    ),
    (
        500,
        &[
            "apierror",
            "internal",
            "internalerror",
            "internalservererror",
            "internalserverexception",
            "modelerrorexception",
            "modelstreamerrorexception",
            "servererror",
            "unknown",
        ],
    ),
    (
        503,
        &[
            "engineoverloaded",
            "engineoverloadederror",
            "insufficientsystemresource",
            "serveroverloaded",
            "serviceunavailable",
            "serviceunavailableerror",
            "serviceunavailableexception",
            "slowdown",
            "unavailable",
            "unavailableerror",
        ],
    ),
    (
        504,
        &[
            "deadlineexceeded",
            "gatewaytimeout",
            "timeout",
            "timeouterror",
        ],
    ),
    (529, &["overloaded", "overloadederror"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_does_not_matter() {
        for word in [
            "rate_limit_exceeded",
            "RateLimitExceeded",
            "rate-limit-exceeded",
            "Rate Limit Exceeded",
        ] {
            assert_eq!(status(word), Some(429), "{word}");
        }
        assert_eq!(
            status("ValidationException:http://internal.amazon.com/coral/"),
            Some(400)
        );
        assert_eq!(status("com.amazon#ThrottlingException"), Some(429));
        assert!(is_quota("insufficient_quota") && is_quota("InsufficientQuota"));
    }

    #[test]
    fn unknown_words_stand_for_nothing() {
        assert_eq!(status("tokens"), None);
        assert_eq!(status(""), None);
        assert_eq!(status("invalid_something_new"), Some(400));
        assert!(!is_quota("rate_limit_exceeded"));
    }

    #[test]
    fn no_word_stands_for_two_statuses() {
        let mut words: Vec<_> = STATUSES
            .iter()
            .flat_map(|(_, words)| words.iter())
            .collect();
        let all = words.len();
        words.sort_unstable();
        words.dedup();

        assert_eq!(words.len(), all);
    }
}
