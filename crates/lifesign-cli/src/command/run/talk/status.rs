//! What `/status` says of a turn: how it ended, what it did and where its time went.

use std::time::Duration;

use lifesign_agent::TurnReport;
use lifesign_core::duration::human_measured;

use crate::output::plain;

/// Returns it in a few lines. What was not done at all is left out.
pub(super) fn of(report: &TurnReport) -> String {
    let counts = &report.counts;
    let done = [
        (u64::from(counts.calls), "call", "calls"),
        (u64::from(counts.attempts), "attempt", "attempts"),
        (counts.heartbeats, "heartbeat", "heartbeats"),
        (u64::from(counts.notices), "notice", "notices"),
        (u64::from(counts.tool_calls), "tool call", "tool calls"),
        (
            u64::from(counts.tool_failures),
            "tool failure",
            "tool failures",
        ),
        (u64::from(counts.nudges), "reminder", "reminders"),
        (u64::from(counts.recoveries), "recovery", "recoveries"),
        (
            u64::from(counts.resends),
            "time sent again",
            "times sent again",
        ),
        (u64::from(counts.compactions), "summary", "summaries"),
        (
            u64::from(counts.elisions),
            "result left out",
            "results left out",
        ),
    ];
    let done = done.iter().filter_map(|(count, one, several)| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {several}")),
    });
    let done: Vec<_> = done.collect();
    let times = &report.times_ms;
    let spent = [
        (times.working, "working"),
        (times.provider, "waiting for the provider"),
        (times.waiting, "waiting in line, on hold or to try again"),
        (times.tools, "in tools"),
    ];
    let spent = spent.iter().filter(|(ms, _)| *ms > 0);
    let spent: Vec<_> = spent
        .map(|(ms, what)| format!("{} {what}", time(*ms)))
        .collect();
    let mut lines = vec![format!(
        "turn {} {} after {}",
        report.turn,
        report.outcome.name(),
        time(times.elapsed)
    )];
    if let Some(failure) = &report.failure {
        lines.push(plain(&failure.message));
    }
    lines.extend(
        [done, spent]
            .iter()
            .filter(|it| !it.is_empty())
            .map(|it| it.join(", ")),
    );
    if let Some((input, output)) = report
        .usage
        .and_then(|usage| usage.input_tokens.zip(usage.output_tokens))
    {
        lines.push(format!("{input} tokens in, {output} out"));
    }
    lines.join("\n")
}

fn time(ms: u64) -> String {
    human_measured(Duration::from_millis(ms))
}
