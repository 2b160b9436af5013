//! The drawing: a line of the whole, the list at hand, and what can be done.

mod calls;
mod details;
mod failures;
mod upstreams;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Table, TableState, Wrap};

use super::app::{App, Question, Tab};
use super::words::{short_id, summary, time};
use crate::output::plain;

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme) {
    let [title, summary, tabs, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(summary_rows(app, frame.area())),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(title_line(app, theme), title);
    let sentence = Paragraph::new(summary_line(app, theme)).wrap(Wrap { trim: true });
    frame.render_widget(sentence, summary);
    frame.render_widget(tabs_line(app), tabs);
    if let Some(details) = &app.details {
        details::draw(frame, body, details, theme);
    } else {
        match app.tab {
            Tab::Calls => calls::draw(frame, body, app, theme),
            Tab::Upstreams => upstreams::draw(frame, body, app, theme),
            Tab::Failures => failures::draw(frame, body, app),
        }
    }
    frame.render_widget(foot_line(app), foot);
}

/// What is told by colours, and by other means where there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Theme {
    pub(super) has_colours: bool,
}

impl Theme {
    const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
    const FAINT: Style = Style::new().add_modifier(Modifier::DIM);
    const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);

    /// Returns the one that the user asked for: `NO_COLOR` turns colours off.
    pub(super) fn of_environment() -> Self {
        let is_off = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            has_colours: !is_off,
        }
    }

    fn good(self) -> Style {
        self.colour(Color::Green)
    }

    fn warning(self) -> Style {
        self.colour(Color::Yellow)
    }

    fn bad(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Returns how a clock looks that has so much of its limit behind it.
    fn spent(self, age_ms: u64, limit_ms: u64) -> Style {
        match age_ms.saturating_mul(100) / limit_ms.max(1) {
            0..50 => self.good(),
            50..80 => self.warning(),
            _ => self.bad(),
        }
    }

    fn colour(self, colour: Color) -> Style {
        if self.has_colours {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }
}

fn title_line(app: &App, theme: Theme) -> Line<'static> {
    let snapshot = &app.snapshot;
    let up = snapshot.at.duration_since(snapshot.started).as_millis();
    let mut spans = vec![
        Span::styled("lifesign top  ", Theme::HEAD),
        Span::raw(app.url.clone()),
        Span::styled(
            format!(
                "  {}, up {}",
                plain(&snapshot.version),
                time(u64::try_from(up).unwrap_or(0))
            ),
            Theme::FAINT,
        ),
    ];
    if snapshot.draining {
        spans.push(Span::styled("  stopping", theme.warning()));
    }
    Line::from(spans)
}

fn summary_line(app: &App, theme: Theme) -> Line<'static> {
    match &app.lost {
        Some(lost) => Line::styled(
            format!(
                "No answer: {}. Try {} is under way; what stands here is from {:.0}.",
                plain(&lost.why),
                lost.tries + 1,
                app.snapshot.at
            ),
            theme.bad(),
        ),
        None => Line::raw(summary(&app.snapshot)),
    }
}

fn summary_rows(app: &App, area: Rect) -> u16 {
    let width = summary_line(app, Theme { has_colours: false }).width();
    let rows = width.div_ceil(usize::from(area.width.max(1)));
    u16::try_from(rows)
        .unwrap_or(u16::MAX)
        .clamp(1, MOST_SUMMARY_ROWS)
}

fn tabs_line(app: &App) -> Line<'static> {
    let snapshot = &app.snapshot;
    let counts = [
        snapshot.calls.len() + snapshot.more_calls,
        snapshot.upstreams.len(),
        app.failures().len(),
    ];
    let titles = ["Calls", "Upstreams", "Failures"];
    let spans = Tab::ALL.iter().zip(titles).zip(counts);
    let spans = spans.flat_map(|((tab, title), count)| {
        let style = if *tab == app.tab {
            Theme::CHOSEN
        } else {
            Theme::FAINT
        };
        let number = *tab as usize + 1;
        [
            Span::styled(format!(" {number} {title} {count} "), style),
            Span::raw(" "),
        ]
    });
    spans.collect()
}

fn foot_line(app: &App) -> Line<'static> {
    if let Some(question) = &app.question {
        let text = match question {
            Question::Cancel { call } => format!("Cancel call {}? y/n", short_id(call)),
            Question::Release { what, .. } => format!("Release the hold on {what}? y/n"),
        };
        return Line::styled(text, Theme::CHOSEN);
    }
    if let Some(note) = &app.note {
        return Line::styled(plain(note), Theme::HEAD);
    }
    let keys = match (&app.details, app.tab) {
        (Some(_), _) => "Esc back  Up/Down scroll  c cancel  q quit",
        (None, Tab::Calls) => "Up/Down choose  Enter details  c cancel  Tab next list  q quit",
        (None, Tab::Upstreams) => "Up/Down choose  r release hold  Tab next list  q quit",
        (None, Tab::Failures) => "Up/Down choose  Enter details  Tab next list  q quit",
    };
    Line::styled(keys, Theme::FAINT)
}

/// Draws rows under heads, with the chosen one marked, and leaves `below` to say more of it.
fn draw_list(frame: &mut Frame<'_>, area: Rect, list: List<'_>, app: &App) {
    let rows = if area.height >= LEAST_HEIGHT_FOR_BELOW {
        BELOW_ROWS
    } else {
        0
    };
    let [table, below] =
        Layout::vertical([Constraint::Min(1), Constraint::Length(rows)]).areas(area);
    if list.rows.is_empty() {
        frame.render_widget(Line::styled(list.empty, Theme::FAINT), table);
        return;
    }
    let heads = Row::new(list.heads).style(Theme::HEAD);
    let widget = Table::new(list.rows, list.widths)
        .header(heads)
        .row_highlight_style(Theme::CHOSEN);
    let mut state = TableState::default().with_selected(app.position());
    frame.render_stateful_widget(widget, table, &mut state);
    let more = Paragraph::new(list.below).wrap(Wrap { trim: true });
    frame.render_widget(more, below);
}

/// A list as it is drawn.
struct List<'a> {
    heads: Vec<&'static str>,
    widths: Vec<Constraint>,
    rows: Vec<Row<'a>>,
    /// What is said in place of no rows.
    empty: &'static str,
    /// What is said of the chosen row.
    below: Vec<Line<'a>>,
}

/// The most rows that the line of the whole may take.
const MOST_SUMMARY_ROWS: u16 = 3;

/// What is said of the chosen row, and the height from which on there is room for that.
const BELOW_ROWS: u16 = 4;
const LEAST_HEIGHT_FOR_BELOW: u16 = 10;
