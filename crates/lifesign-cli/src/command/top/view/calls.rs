//! The calls in flight, the one that is cut next on top.

use lifesign::Clock;
use lifesign_gateway::live::{BoundNow, CallNow, State};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row};

use super::super::app::App;
use super::super::words::{attempt, bar, next, phase, short_id, time};
use super::{List, Theme, draw_list};
use crate::output::plain;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let columns = columns(area.width);
    let calls = app.calls();
    let rows = calls.iter().map(|call| {
        let cells = columns.iter().map(|column| column.cell(call, theme));
        Row::new(cells.map(Cell::from))
    });
    let chosen = app.position().and_then(|at| calls.get(at));
    let list = List {
        heads: columns.iter().map(|column| column.head()).collect(),
        widths: columns.iter().map(|column| column.width()).collect(),
        rows: rows.collect(),
        empty: "No call is under way.",
        below: chosen.map_or_else(Vec::new, |call| below(call, app)),
    };
    draw_list(frame, area, list, app);
}

/// Returns the bound on a clock that runs out first.
pub(super) fn bound_on(call: &CallNow, clock: Clock) -> Option<&BoundNow> {
    let bounds = call
        .bounds
        .iter()
        .filter(|bound| bound.clock == Some(clock));
    bounds
        .filter(|bound| bound.in_ms.is_some())
        .min_by_key(|bound| bound.in_ms)
}

/// Returns how a state looks.
pub(super) fn state_style(state: State, theme: Theme) -> Style {
    match state {
        State::Answering | State::Thinking => theme.good(),
        State::Alive | State::Held | State::Queued | State::Retrying | State::Unread => {
            theme.warning()
        }
        State::Silent => theme.bad(),
        State::Connecting | State::Starting | State::Finishing => Style::new(),
    }
}

fn below<'a>(call: &CallNow, app: &App) -> Vec<Line<'a>> {
    let mut lines = vec![Line::raw(plain(&call.sentence))];
    let first = call.next_bound.and_then(|next| {
        let mut bounds = call.bounds.iter();
        bounds.find(|bound| bound.bound == next.bound)
    });
    if let Some(bound) = first {
        lines.push(Line::raw(format!(
            "{} is {}, from {}; {} changes it",
            bound.bound.name(),
            time(bound.limit_ms),
            plain(&bound.origin),
            plain(&bound.setting),
        )));
    }
    if app.snapshot.more_calls > 0 {
        let more = format!("{} more calls are not listed", app.snapshot.more_calls);
        lines.push(Line::styled(more, Theme::FAINT));
    }
    lines
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    State,
    Model,
    Upstream,
    Key,
    Phase,
    Attempt,
    Age,
    Clock(Clock),
    Next,
    Id,
}

/// Returns as many columns as fit, the most telling ones, in their order from left to right.
fn columns(width: u16) -> Vec<Column> {
    let mut columns = vec![
        Column::State,
        Column::Model,
        Column::Upstream,
        Column::Key,
        Column::Phase,
        Column::Attempt,
        Column::Age,
        Column::Clock(Clock::Raw),
        Column::Clock(Clock::Event),
        Column::Clock(Clock::Content),
        Column::Clock(Clock::Output),
        Column::Next,
        Column::Id,
    ];
    for left_out in LEAST_TELLING_FIRST {
        let needed: u16 = columns.iter().map(|column| column.least() + 1).sum();
        if needed <= width + 1 {
            break;
        }
        columns.retain(|column| *column != left_out);
    }
    columns
}

/// What is left out where there is no room; the state stays.
const LEAST_TELLING_FIRST: [Column; 12] = [
    Column::Clock(Clock::Output),
    Column::Key,
    Column::Clock(Clock::Event),
    Column::Phase,
    Column::Id,
    Column::Attempt,
    Column::Clock(Clock::Content),
    Column::Upstream,
    Column::Clock(Clock::Raw),
    Column::Model,
    Column::Age,
    Column::Next,
];

impl Column {
    const fn head(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Model => "model",
            Self::Upstream => "upstream",
            Self::Key => "key",
            Self::Phase => "phase",
            Self::Attempt => "try",
            Self::Age => "age",
            Self::Clock(Clock::Raw) => "no byte",
            Self::Clock(Clock::Event) => "no event",
            Self::Clock(Clock::Content) => "no content",
            Self::Clock(Clock::Output) => "no output",
            Self::Next => "next",
            Self::Id => "call",
        }
    }

    /// Returns how wide it is at least.
    const fn least(self) -> u16 {
        match self {
            Self::State => 15,
            Self::Model => 12,
            Self::Upstream | Self::Key => 10,
            Self::Phase | Self::Clock(_) => 19,
            Self::Attempt => 5,
            Self::Age => 6,
            Self::Next => 24,
            Self::Id => 8,
        }
    }

    const fn width(self) -> Constraint {
        match self {
            Self::Model | Self::Upstream => Constraint::Min(self.least()),
            _ => Constraint::Length(self.least()),
        }
    }

    fn cell(self, call: &CallNow, theme: Theme) -> Line<'static> {
        let or_dash = |text: Option<&str>| text.map_or_else(|| "-".to_owned(), plain);
        match self {
            Self::State => Line::styled(call.state.label(), state_style(call.state, theme)),
            Self::Model => Line::raw(or_dash(call.model.as_deref())),
            Self::Upstream => Line::raw(or_dash(call.upstream.as_deref())),
            Self::Key => Line::raw(or_dash(call.key.as_deref())),
            Self::Phase => Line::raw(phase(call)),
            Self::Attempt => Line::raw(attempt(call)),
            Self::Age => Line::raw(time(call.elapsed_ms)),
            Self::Clock(clock) => clock_cell(call, clock, theme),
            Self::Next => next_cell(call, theme),
            Self::Id => Line::raw(short_id(&call.id)),
        }
    }
}

fn clock_cell(call: &CallNow, clock: Clock, theme: Theme) -> Line<'static> {
    let Some(ages) = &call.clocks_ms else {
        return Line::raw("-");
    };
    let age_ms = lifesign_core::duration::whole_millis(ages.clock(clock));
    match bound_on(call, clock) {
        Some(bound) => Line::from(vec![
            Span::styled(
                bar(age_ms, bound.limit_ms, BAR),
                theme.spent(age_ms, bound.limit_ms),
            ),
            Span::raw(format!(" {}/{}", time(age_ms), time(bound.limit_ms))),
        ]),
        None => Line::raw(format!("{:BAR_GAP$}{}", "", time(age_ms))),
    }
}

fn next_cell(call: &CallNow, theme: Theme) -> Line<'static> {
    let is_soon = call.next_bound.is_some_and(|next| next.in_ms < SOON_MS);
    let style = if is_soon { theme.bad() } else { Style::new() };
    Line::styled(next(call), style)
}

/// The cells of a bar, and of the place where one would stand.
const BAR: u16 = 5;
const BAR_GAP: usize = 6;

/// A cut that is so near stands out.
const SOON_MS: u64 = 10_000;
