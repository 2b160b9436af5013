//! The calls that did not complete, the latest first, each with its sentence.

use lifesign_gateway::live::EndedCall;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row};

use super::super::app::App;
use super::super::words::time;
use super::{List, draw_list};
use crate::output::plain;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let failures = app.failures();
    let columns: Vec<_> = COLUMNS
        .iter()
        .filter(|column| area.width >= column.least)
        .collect();
    let cells: Vec<Vec<_>> = failures
        .iter()
        .map(|call| columns.iter().map(|column| (column.cell)(call)).collect())
        .collect();
    let widths = columns.iter().enumerate().map(|(at, column)| {
        let needed = cells.iter().filter_map(|row| row.get(at)).map(Line::width);
        column.width(needed.max().unwrap_or(0))
    });
    let widths = widths.collect();
    let rows = cells
        .into_iter()
        .map(|row| Row::new(row.into_iter().map(Cell::from)));
    let chosen = app.position().and_then(|at| failures.get(at));
    let list = List {
        heads: columns.iter().map(|column| column.head).collect(),
        widths,
        rows: rows.collect(),
        empty: "No call failed lately.",
        below: chosen.map_or_else(Vec::new, |call| below(call)),
    };
    draw_list(frame, area, list, app);
}

fn below<'a>(call: &EndedCall) -> Vec<Line<'a>> {
    let mut lines = vec![Line::raw(plain(&call.sentence))];
    let remedy = call.cut.as_ref().map(|cut| cut.remedy.as_str());
    if let Some(help) = remedy.or(call.hint.as_deref()) {
        lines.push(Line::raw(plain(help)));
    }
    lines
}

struct Column {
    head: &'static str,
    /// The most that it takes; none for all that is left.
    most: Option<u16>,
    /// The width of the terminal from which on it is shown.
    least: u16,
    cell: fn(&EndedCall) -> Line<'static>,
}

impl Column {
    /// Returns how wide it is for cells of which the widest needs so much.
    fn width(&self, needed: usize) -> Constraint {
        let needed = u16::try_from(needed.max(self.head.len())).unwrap_or(u16::MAX);
        match self.most {
            Some(most) => Constraint::Length(needed.min(most)),
            None => Constraint::Fill(1),
        }
    }
}

const COLUMNS: [Column; 7] = [
    Column {
        head: "ended",
        most: Some(8),
        least: 0,
        cell: |it| Line::raw(it.ended_at.strftime("%H:%M:%S").to_string()),
    },
    Column {
        head: "code",
        most: Some(16),
        least: 0,
        cell: |it| Line::raw(it.code.map_or("-", |code| code.name())),
    },
    Column {
        head: "upstream",
        most: Some(16),
        least: 50,
        cell: |it| or_dash(it.upstream.as_deref()),
    },
    Column {
        head: "model",
        most: Some(24),
        least: 80,
        cell: |it| or_dash(it.model.as_deref()),
    },
    Column {
        head: "key",
        most: Some(12),
        least: 100,
        cell: |it| or_dash(it.key.as_deref()),
    },
    Column {
        head: "took",
        most: Some(7),
        least: 40,
        cell: |it| Line::raw(time(it.elapsed_ms)),
    },
    Column {
        head: "what happened",
        most: None,
        least: 64,
        cell: |it| Line::raw(plain(&it.sentence)),
    },
];

fn or_dash(text: Option<&str>) -> Line<'static> {
    Line::raw(text.map_or_else(|| "-".to_owned(), plain))
}
