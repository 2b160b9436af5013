//! The upstreams: how they do, and their holds.

use jiff::Timestamp;
use lifesign_gateway::live::{Health, HoldNow, UpstreamNow};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row};

use super::super::app::{App, UpstreamRow};
use super::super::words::{moment, time};
use super::{List, Theme, draw_list};
use crate::output::plain;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let rows = app.upstream_rows();
    let columns: Vec<_> = COLUMNS
        .iter()
        .filter(|column| area.width >= column.least)
        .collect();
    let drawn = rows.iter().map(|row| {
        let cells = columns.iter().map(|column| match row {
            UpstreamRow::Upstream(upstream) => (column.upstream)(upstream, theme, app.snapshot.at),
            UpstreamRow::Hold(hold) => (column.hold)(hold),
        });
        Row::new(cells.map(Cell::from))
    });
    let chosen = app.position().and_then(|at| rows.get(at));
    let list = List {
        heads: columns.iter().map(|column| column.head).collect(),
        widths: columns.iter().map(|column| column.width).collect(),
        rows: drawn.collect(),
        empty: "No upstream is configured.",
        below: chosen.map_or_else(Vec::new, |row| below(row)),
    };
    draw_list(frame, area, list, app);
}

fn below<'a>(row: &UpstreamRow<'_>) -> Vec<Line<'a>> {
    match row {
        UpstreamRow::Upstream(upstream) => {
            let mut lines = vec![Line::raw(plain(&upstream.sentence))];
            let failures = upstream.failures.iter();
            let failures: Vec<_> = failures
                .map(|failure| format!("{} {}", failure.count, failure.code.name()))
                .collect();
            if !failures.is_empty() {
                lines.push(Line::raw(format!("last hour: {}", failures.join(", "))));
            }
            lines
        }
        UpstreamRow::Hold(hold) => {
            let whose = match &hold.credential {
                Some(_) => "one caller's own credential",
                None => "every caller",
            };
            let why = hold.why.name();
            vec![Line::raw(format!(
                "raised by {why}; it holds back {whose}; call {} finds out whether it is over",
                plain(&hold.probe)
            ))]
        }
    }
}

struct Column {
    head: &'static str,
    width: Constraint,
    /// The width of the terminal from which on it is shown.
    least: u16,
    upstream: fn(&UpstreamNow, Theme, Timestamp) -> Line<'static>,
    hold: fn(&HoldNow) -> Line<'static>,
}

const COLUMNS: [Column; 8] = [
    Column {
        head: "upstream",
        width: Constraint::Fill(1),
        least: 0,
        upstream: |it, _, _| Line::raw(plain(&it.name)),
        hold: |it| match &it.model {
            Some(model) => Line::raw(format!("  hold on {}", plain(model))),
            None => Line::raw("  hold"),
        },
    },
    Column {
        head: "health",
        width: Constraint::Length(13),
        least: 0,
        upstream: |it, theme, _| Line::styled(it.health.name(), health_style(it.health, theme)),
        hold: |it| Line::raw(it.why.name()),
    },
    Column {
        head: "calls",
        width: Constraint::Length(9),
        least: 40,
        upstream: |it, _, _| Line::raw(format!("{}/{}", it.in_flight, it.concurrency)),
        hold: |it| Line::raw(format!("{} left", time(it.remaining_ms))),
    },
    Column {
        head: "line",
        width: Constraint::Length(9),
        least: 50,
        upstream: |it, theme, _| {
            let style = if it.waiting > 0 {
                theme.warning()
            } else {
                Style::new()
            };
            Line::styled(format!("{}/{}", it.waiting, it.queue), style)
        },
        hold: |_| Line::default(),
    },
    Column {
        head: "failed/hour",
        width: Constraint::Length(12),
        least: 64,
        upstream: |it, theme, _| {
            let style = if it.failed > 0 {
                theme.bad()
            } else {
                Style::new()
            };
            Line::styled(format!("{} of {}", it.failed, it.attempts), style)
        },
        hold: |_| Line::default(),
    },
    Column {
        head: "last completed (UTC)",
        width: Constraint::Length(20),
        least: 76,
        upstream: |it, _, now| Line::raw(moment(it.last_completed, now)),
        hold: |_| Line::default(),
    },
    Column {
        head: "first content p50/p95",
        width: Constraint::Length(21),
        least: 112,
        upstream: |it, _, _| match &it.first_content {
            Some(first) => Line::raw(format!("{} / {}", time(first.p50_ms), time(first.p95_ms))),
            None => Line::raw("-"),
        },
        hold: |_| Line::default(),
    },
    Column {
        head: "breakers",
        width: Constraint::Length(24),
        least: 136,
        upstream: |it, theme, _| {
            let states = [
                ("failures", &it.breakers.failures),
                ("slowness", &it.breakers.slowness),
            ];
            let open = states.iter().filter(|(_, state)| *state != "closed");
            let open: Vec<_> = open
                .map(|(name, state)| format!("{name} {}", plain(state).replace('_', " ")))
                .collect();
            match open.as_slice() {
                [] => Line::raw("closed"),
                open => Line::styled(open.join(", "), theme.bad()),
            }
        },
        hold: |_| Line::default(),
    },
];

fn health_style(health: Health, theme: Theme) -> Style {
    match health {
        Health::Good => theme.good(),
        Health::Idle => Theme::FAINT,
        Health::Busy => theme.warning(),
        Health::Failing | Health::Broken | Health::Held => theme.bad(),
    }
}
