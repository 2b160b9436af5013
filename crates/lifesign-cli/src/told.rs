//! What a person is told of a call in sentences of their own: what happens in it, and why it failed.

use lifesign::CallEvent;
use lifesign_core::duration::human_measured;

/// Returns what is told of `event`, where it is more than a piece of the answer.
pub(crate) fn sentence(event: &CallEvent) -> Option<String> {
    match event {
        CallEvent::Holding { wait } => Some(format!(
            "waiting {} for a hold on the upstream to end",
            human_measured(*wait)
        )),
        CallEvent::Notice(notice) if notice.ages.raw >= notice.ages.content => Some(format!(
            "nothing has arrived for {}",
            human_measured(notice.ages.raw)
        )),
        CallEvent::Notice(notice) => Some(format!(
            "no content for {}; the last byte came {} ago",
            human_measured(notice.ages.content),
            human_measured(notice.ages.raw)
        )),
        CallEvent::Retrying {
            failure,
            attempt,
            of,
            wait,
        } => Some(format!(
            "{}; attempt {attempt} of {of} in {}",
            failure.message(),
            human_measured(*wait)
        )),
        _ => None,
    }
}

/// Returns why something ended as it did: in one word how, the sentence for the person who waits, and
/// for whoever can do something about it what was seen and what may help.
pub(crate) fn explanation(
    outcome: &str,
    sentence: &str,
    seen: &str,
    hint: Option<&str>,
) -> Vec<String> {
    let mut lines = vec![
        format!("{outcome}: {sentence}"),
        format!("  what was seen: {seen}"),
    ];
    lines.extend(hint.map(|hint| format!("  hint: {hint}")));
    lines
}
