//! `lifesign report`: what a journal tells, in tables.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use jiff::{SignedDuration, Timestamp};
use lifesign::config::{Config, process_variables};
use lifesign_core::duration::human_measured;
use lifesign_core::{BoundName, FailureCode};
use lifesign_gateway::config::GatewayTables;
use lifesign_journal::{Bound, FailureCount, Place, Report, ReportFilter, report};

use crate::args::ReportArgs;
use crate::output::{harmless, print_line};
use crate::table::Table;

pub(crate) fn run(args: ReportArgs) -> anyhow::Result<ExitCode> {
    let path = match args.journal {
        Some(path) => path,
        None => configured(args.config.as_deref())?,
    };
    if let Some(code) = &args.code
        && !FailureCode::ALL.iter().any(|known| known.name() == code)
    {
        let codes: Vec<_> = FailureCode::ALL.iter().map(|code| code.name()).collect();
        bail!(
            "no failure has the code {code:?}; accepted: {}",
            codes.join(", ")
        );
    }
    let filter = ReportFilter {
        since: args.since,
        upstream: args.upstream,
        model: args.model,
        code: args.code,
        key: args.key,
    };
    let report =
        report(&path, &filter).with_context(|| format!("{} cannot be read", path.display()))?;
    if args.json {
        let text = serde_json::to_string(&report).context("the report cannot be written")?;
        print_line(&text)?;
    } else {
        for line in lines(&report) {
            print_line(&harmless(&line))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the journal that a file or the environment names.
fn configured(file: Option<&Path>) -> anyhow::Result<PathBuf> {
    let mut tables = GatewayTables::default();
    Config::load_with(file, process_variables(), &[], &mut tables)?;
    tables.journal().path.value.clone().ok_or_else(|| {
        anyhow!(
            "no journal is named; give --journal FILE, or --config FILE of a gateway with journal.path"
        )
    })
}

/// Returns the report for people, a line each.
fn lines(report: &Report) -> Vec<String> {
    let mut lines = vec![summary(report)];
    if report.lost.records > 0 {
        lines.push(format!(
            "{} records were lost: the journal could not be written, or not fast enough",
            report.lost.records
        ));
    }
    for table in tables(report) {
        if !table.rows.is_empty() {
            lines.push(String::new());
            lines.push(table.title.to_owned());
            lines.extend(table.lines());
        }
    }
    lines
}

fn summary(report: &Report) -> String {
    let calls = &report.calls;
    let counts = [
        (calls.completed, "completed"),
        (calls.truncated, "truncated"),
        (calls.failed, "failed"),
        (calls.cancelled, "cancelled"),
        (calls.in_flight, "in flight"),
        (calls.unknown, "unknown (crash)"),
    ];
    let counts: Vec<_> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let since = match report.since {
        Some(since) => format!("since {since:.0}"),
        None => "in all".to_owned(),
    };
    let total = calls.total;
    let noun = if total == 1 { "call" } else { "calls" };
    if counts.is_empty() {
        return format!("no call {since}");
    }
    let doubt = match (calls.unplaced, &report.filter.upstream) {
        (unplaced @ 1.., Some(_)) => {
            format!(
                "; {unplaced} without an end may be elsewhere: where is written when an attempt ends"
            )
        }
        _ => String::new(),
    };
    format!("{total} {noun} {since}: {}{doubt}", counts.join(", "))
}

fn tables(report: &Report) -> Vec<Table> {
    let places = |title, head, places: &[Place]| Table {
        title,
        heads: vec![
            head,
            "attempts",
            "failed",
            "left",
            "mostly",
            "last completed",
            "first content",
            "median",
            "longest",
        ],
        rows: places
            .iter()
            .map(|it| {
                vec![
                    or_dash(it.name.as_deref()),
                    it.attempts.to_string(),
                    it.failed.to_string(),
                    it.left.to_string(),
                    or_dash(mostly(it)),
                    it.last_completed.map_or_else(dash, |at| moment(at, report)),
                    it.first_content_ms.map_or_else(dash, time),
                    it.median_ms.map_or_else(dash, time),
                    it.longest_ms.map_or_else(dash, time),
                ]
            })
            .collect(),
    };
    let slowest = |title, is_completed: bool| Table {
        title,
        heads: vec![
            "took", "waited", "attempts", "ended", "upstream", "model", "key", "call",
        ],
        rows: report
            .slowest
            .iter()
            .filter(|it| (it.ended == "completed") == is_completed)
            .map(|it| {
                vec![
                    time(it.elapsed_ms),
                    time(it.waited_ms),
                    it.attempts.to_string(),
                    it.ended.clone(),
                    or_dash(it.upstream.as_deref()),
                    or_dash(it.model.as_deref()),
                    or_dash(it.key.as_deref()),
                    it.call.clone(),
                ]
            })
            .collect(),
    };
    let waited = report.waits.iter().flat_map(|it| {
        let kinds = [
            ("in line", it.queued, it.longest_queued_ms),
            ("behind a hold", it.held, it.longest_held_ms),
            ("before another attempt", it.retried, it.longest_retry_ms),
        ];
        kinds.map(|(place, calls, longest)| (it.upstream.as_deref(), place, calls, longest))
    });
    vec![
        Table {
            title: "What failed, where and since when (UTC)",
            heads: vec![
                "code",
                "calls",
                "not sent",
                "attempts",
                "upstream",
                "first",
                "last",
                "what was seen last",
            ],
            rows: report
                .by_code
                .iter()
                .map(|it| {
                    vec![
                        it.code.clone(),
                        it.calls.to_string(),
                        it.unsent.to_string(),
                        it.attempts.to_string(),
                        or_dash(it.upstream.as_deref()),
                        moment(it.first, report),
                        moment(it.last, report),
                        seen(it),
                    ]
                })
                .collect(),
        },
        Table {
            title: "What ran out, and the setting behind it (completed: the most that a call there needed of it)",
            heads: vec![
                "bound",
                "cuts",
                "upstream",
                "limit then",
                "completed",
                "setting",
                "from",
            ],
            rows: report
                .by_bound
                .iter()
                .map(|it| {
                    vec![
                        it.bound.clone(),
                        it.cuts.to_string(),
                        or_dash(it.upstream.as_deref()),
                        limit(it),
                        it.longest_completed_ms.map_or_else(dash, time),
                        setting(it, report),
                        or_dash(it.origin.as_deref()),
                    ]
                })
                .collect(),
        },
        places(
            "Upstreams (left: callers ended it; median, longest: of complete attempts)",
            "upstream",
            &report.by_upstream,
        ),
        places("Models, as upstreams call them", "model", &report.by_model),
        Table {
            title: "Callers that left (all after the same time: a limit of their own)",
            heads: vec![
                "key",
                "upstream",
                "calls",
                "without content",
                "shortest",
                "median",
                "longest",
            ],
            rows: report
                .left
                .iter()
                .map(|it| {
                    vec![
                        or_dash(it.key.as_deref()),
                        or_dash(it.upstream.as_deref()),
                        it.calls.to_string(),
                        it.before_content.to_string(),
                        time(it.shortest_ms),
                        time(it.median_ms),
                        time(it.longest_ms),
                    ]
                })
                .collect(),
        },
        slowest("Slowest calls that completed", true),
        slowest("Slowest calls that did not", false),
        Table {
            title: "Longest silences (raw: nothing came; content: the model said nothing)",
            heads: vec![
                "clock", "silent", "phase", "outcome", "upstream", "model", "call", "n",
            ],
            rows: report
                .silences
                .iter()
                .map(|it| {
                    vec![
                        it.clock.clone(),
                        time(it.longest_ms),
                        or_dash(it.phase.as_deref()),
                        it.outcome.clone(),
                        it.upstream.clone(),
                        or_dash(it.model.as_deref()),
                        it.call.clone(),
                        it.n.to_string(),
                    ]
                })
                .collect(),
        },
        Table {
            title: "Waits",
            heads: vec!["where", "upstream", "calls", "longest"],
            rows: waited
                .filter(|(.., calls, _)| *calls > 0)
                .map(|(upstream, place, calls, longest)| {
                    vec![
                        place.to_owned(),
                        or_dash(upstream),
                        calls.to_string(),
                        time(longest),
                    ]
                })
                .collect(),
        },
        Table {
            title: "Attempts per call",
            heads: vec!["attempts", "calls"],
            rows: report
                .attempts
                .iter()
                .map(|it| vec![it.attempts.to_string(), it.calls.to_string()])
                .collect(),
        },
        Table {
            title: "Paid for nothing (tokens of attempts that failed; unknown: nobody told)",
            heads: vec![
                "upstream", "attempts", "partial", "unknown", "input", "output",
            ],
            rows: report
                .discarded
                .iter()
                .map(|it| {
                    vec![
                        it.upstream.clone(),
                        it.attempts.to_string(),
                        it.partial.to_string(),
                        it.unknown.to_string(),
                        it.input_tokens.to_string(),
                        it.output_tokens.to_string(),
                    ]
                })
                .collect(),
        },
    ]
}

fn time(ms: u64) -> String {
    human_measured(Duration::from_millis(ms))
}

/// Returns what most failures were, unless so few attempts failed that it says nothing of the place.
fn mostly(place: &Place) -> Option<&str> {
    let is_common = place.failed.saturating_mul(MOSTLY_OF) >= place.attempts;
    place.mostly.as_deref().filter(|_| is_common)
}

/// Returns the limit that was in force, of a line how full it was.
fn limit(bound: &Bound) -> String {
    if let Some(ms) = bound.limit_ms {
        return time(ms);
    }
    match bound.message.as_deref().and_then(|it| it.rsplit_once(": ")) {
        Some((_, line)) if bound.bound == FailureCode::QueueFull.name() => line.to_owned(),
        _ => dash(),
    }
}

/// Returns the setting to look at, unless more time would help nobody.
fn setting(bound: &Bound, report: &Report) -> String {
    let is_answered = report
        .by_upstream
        .iter()
        .any(|place| place.name == bound.upstream && place.last_completed.is_some());
    let is_own = bound.bound == BoundName::WallClock.name();
    if is_answered || is_own || bound.upstream.is_none() || bound.limit_ms.is_none() {
        or_dash(bound.setting.as_deref())
    } else {
        "none: nothing completed here; see the upstream".to_owned()
    }
}

/// Returns when something was: the time of day, and the day where that was another.
fn moment(at: Timestamp, report: &Report) -> String {
    let form = if at.duration_until(report.until) < SignedDuration::from_hours(24) {
        "%H:%M:%S"
    } else {
        "%Y-%m-%d %H:%M:%S"
    };
    at.strftime(form).to_string()
}

/// Returns what was known of the last failure of a kind, as long as a row may be.
fn seen(failure: &FailureCount) -> String {
    let message = failure.message.as_deref().unwrap_or_default();
    let mut seen: String = message.chars().take(MOST_SEEN).collect();
    if seen.len() < message.len() {
        seen.push_str("...");
    }
    match failure.longest_retry_after_ms {
        Some(ms) => format!("{seen} (asks to wait {})", time(ms)),
        None => seen,
    }
}

fn or_dash(text: Option<&str>) -> String {
    text.unwrap_or("-").to_owned()
}

fn dash() -> String {
    or_dash(None)
}

/// One attempt in so many has to have failed for its failures to be characteristic.
const MOSTLY_OF: u64 = 5;
/// The characters that are shown of what was seen: the setting and its place still fit.
const MOST_SEEN: usize = 140;

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_few_failures_of_many_are_not_called_what_mostly_happens() {
        for (attempts, failed, told) in [
            (39, 2, None),
            (10, 2, Some("connect")),
            (2, 2, Some("connect")),
        ] {
            let place = Place {
                name: Some("up".to_owned()),
                attempts,
                failed,
                left: 0,
                mostly: Some("connect".to_owned()),
                last_completed: None,
                first_content_ms: None,
                median_ms: None,
                longest_ms: None,
            };

            assert_eq!(mostly(&place), told, "{failed} of {attempts}");
        }
    }
}
