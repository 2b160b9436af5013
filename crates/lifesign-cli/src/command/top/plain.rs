//! What `lifesign top --once` prints: the same as lines of plain text.

use lifesign_core::duration::whole_millis;
use lifesign_gateway::live::{CallNow, Snapshot};

use super::app::{App, UpstreamRow};
use super::words::{attempt, moment, next, phase, short_id, summary, time};
use crate::output::plain;
use crate::table::Table;

/// Returns how a gateway stands, a line each.
pub(super) fn lines(snapshot: &Snapshot) -> Vec<String> {
    let app = App::new(String::new(), snapshot.clone());
    let mut lines = vec![summary(snapshot)];
    for table in [calls(&app), upstreams(&app), failures(&app)] {
        if !table.rows.is_empty() {
            lines.push(String::new());
            lines.push(table.title.to_owned());
            lines.extend(table.lines());
        }
    }
    if snapshot.more_calls > 0 {
        lines.push(String::new());
        lines.push(format!("{} more calls are not listed", snapshot.more_calls));
    }
    lines
}

fn calls(app: &App) -> Table {
    Table {
        title: "Calls, the one that is cut next first",
        heads: vec![
            "state",
            "phase",
            "age",
            "try",
            "no byte",
            "no event",
            "no content",
            "next",
            "upstream",
            "model",
            "key",
            "call",
        ],
        rows: app.calls().into_iter().map(call_row).collect(),
    }
}

fn call_row(call: &CallNow) -> Vec<String> {
    let clock = |age: fn(&lifesign::Ages) -> std::time::Duration| {
        let ages = call.clocks_ms.as_ref();
        ages.map_or_else(|| "-".to_owned(), |ages| time(whole_millis(age(ages))))
    };
    vec![
        call.state.label().to_owned(),
        phase(call),
        time(call.elapsed_ms),
        attempt(call),
        clock(|ages| ages.raw),
        clock(|ages| ages.event),
        clock(|ages| ages.content),
        next(call),
        or_dash(call.upstream.as_deref()),
        or_dash(call.model.as_deref()),
        or_dash(call.key.as_deref()),
        short_id(&call.id),
    ]
}

fn upstreams(app: &App) -> Table {
    let rows = app.upstream_rows().into_iter().map(|row| match row {
        UpstreamRow::Upstream(it) => vec![
            plain(&it.name),
            it.health.name().to_owned(),
            format!("{}/{}", it.in_flight, it.concurrency),
            format!("{}/{}", it.waiting, it.queue),
            format!("{} of {}", it.failed, it.attempts),
            moment(it.last_completed, app.snapshot.at),
            plain(&it.sentence),
        ],
        UpstreamRow::Hold(hold) => vec![
            format!("  hold {}", plain(&hold.id)),
            hold.why.name().to_owned(),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            format!(
                "{} left{}",
                time(hold.remaining_ms),
                hold.model
                    .as_deref()
                    .map_or_else(String::new, |model| format!(", for {}", plain(model)))
            ),
        ],
    });
    Table {
        title: "Upstreams (UTC)",
        heads: vec![
            "upstream",
            "health",
            "calls",
            "line",
            "failed/hour",
            "last completed",
            "how it does",
        ],
        rows: rows.collect(),
    }
}

fn failures(app: &App) -> Table {
    let failures = app.failures().into_iter().take(MOST_FAILURES);
    let rows = failures.map(|it| {
        vec![
            it.ended_at.strftime("%H:%M:%S").to_string(),
            it.code.map_or("-", |code| code.name()).to_owned(),
            time(it.elapsed_ms),
            or_dash(it.upstream.as_deref()),
            or_dash(it.model.as_deref()),
            or_dash(it.key.as_deref()),
            plain(&it.sentence),
        ]
    });
    Table {
        title: "What failed lately, the latest first (UTC)",
        heads: vec![
            "ended",
            "code",
            "took",
            "upstream",
            "model",
            "key",
            "what happened",
        ],
        rows: rows.collect(),
    }
}

fn or_dash(text: Option<&str>) -> String {
    text.map_or_else(|| "-".to_owned(), plain)
}

/// A glance needs no more.
const MOST_FAILURES: usize = 10;
