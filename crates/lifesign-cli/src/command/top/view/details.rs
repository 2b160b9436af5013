//! One call from its beginning on: what runs now, and what happened when.

use lifesign::{AttemptOutcome, Clock};
use lifesign_core::duration::whole_millis;
use lifesign_gateway::live::{BoundNow, Happening, Timeline, TimelineAttempt};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::super::app::Details;
use super::super::words::{bar, time};
use super::Theme;
use crate::output::plain;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, details: &Details, theme: Theme) {
    let lines = match &details.timeline {
        Some(timeline) => lines(timeline, theme),
        None => vec![Line::styled("Asking the gateway ...", Theme::FAINT)],
    };
    let most = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let scroll = details.scroll.min(most.saturating_sub(1));
    let text = Paragraph::new(lines)
        .wrap(Wrap { trim: false })
        .scroll((scroll, 0));
    frame.render_widget(text, area);
}

fn lines(timeline: &Timeline, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled(
        format!(
            "Call {}, {}",
            plain(&timeline.id),
            time(timeline.elapsed_ms)
        ),
        Theme::HEAD,
    )];
    if let Some(now) = &timeline.now {
        lines.push(asked(&now.route, now.model.as_deref(), now.key.as_deref()));
        lines.push(Line::raw(plain(&now.sentence)));
    }
    if let Some(ended) = &timeline.ended {
        lines.push(asked(
            &ended.route,
            ended.model.as_deref(),
            ended.key.as_deref(),
        ));
        lines.push(Line::raw(plain(&ended.sentence)));
        if let Some(told) = &ended.told {
            lines.push(Line::raw(format!("Its caller was told: {}", plain(told))));
        }
        let remedy = ended.cut.as_ref().map(|cut| cut.remedy.as_str());
        if let Some(help) = remedy.or(ended.hint.as_deref()) {
            lines.push(Line::raw(plain(help)));
        }
    }
    if !timeline.bounds.is_empty() {
        lines.push(Line::default());
        lines.push(Line::styled("Bounds in force", Theme::HEAD));
        lines.extend(timeline.bounds.iter().map(|bound| bound_line(bound, theme)));
    }
    lines.push(Line::default());
    lines.push(Line::styled("What happened", Theme::HEAD));
    lines.extend(happenings(timeline, theme));
    lines
}

fn asked(route: &str, model: Option<&str>, key: Option<&str>) -> Line<'static> {
    let model = model.map_or_else(|| "no model".to_owned(), plain);
    let key = key.map_or_else(String::new, |key| format!(", key {}", plain(key)));
    Line::raw(format!("{} for {model}{key}", plain(route)))
}

fn bound_line(bound: &BoundNow, theme: Theme) -> Line<'static> {
    let (age_ms, limit_ms) = (bound.age_ms, bound.limit_ms);
    let due = match bound.in_ms {
        Some(ms) => format!("cuts in {}", time(ms)),
        None => "does not run now".to_owned(),
    };
    let style = match bound.in_ms {
        Some(_) => theme.spent(age_ms, limit_ms),
        None => Theme::FAINT,
    };
    Line::from(vec![
        Span::raw(format!("  {:<16}", bound.bound.name())),
        Span::styled(bar(age_ms, limit_ms, BAR), style),
        Span::raw(format!(
            " {:>6} of {:<6} {due}; {} from {}",
            time(age_ms),
            time(limit_ms),
            plain(&bound.setting),
            plain(&bound.origin)
        )),
    ])
}

/// Returns what happened, each with its time, in order.
fn happenings(timeline: &Timeline, theme: Theme) -> Vec<Line<'static>> {
    let events = timeline.events.iter();
    let mut told: Vec<(u64, String, Style)> = events
        .filter_map(|event| Some((event.at_ms, happening(&event.what)?, Style::new())))
        .collect();
    for attempt in &timeline.attempts {
        told.extend(attempt_told(attempt, theme));
    }
    // What happened at one moment stays in the order in which it was told.
    told.sort_by_key(|(at, ..)| *at);
    let mut lines: Vec<_> = told
        .into_iter()
        .map(|(at, text, style)| {
            let at = Span::styled(format!("{:>8}  ", time(at)), Theme::FAINT);
            Line::from(vec![at, Span::styled(text, style)])
        })
        .collect();
    if timeline.lost_events > 0 {
        let lost = format!("  {} more events are not kept", timeline.lost_events);
        lines.push(Line::styled(lost, Theme::FAINT));
    }
    lines
}

fn happening(what: &Happening) -> Option<String> {
    let name = |upstream: &Option<String>| upstream.as_deref().map_or_else(String::new, plain);
    Some(match what {
        // The attempts themselves tell more.
        Happening::Attempt { .. } | Happening::AttemptEnded { .. } => return None,
        Happening::Queued { upstream, position } => {
            format!("in line for {}, place {position}", plain(upstream))
        }
        Happening::Held {
            upstream,
            why,
            wait_ms,
        } => format!(
            "waits for a hold on {} to end: {}, {} more",
            name(upstream),
            why.name(),
            time(*wait_ms)
        ),
        Happening::Behind { upstream } => {
            format!(
                "waits behind others for {}, whose hold has ended",
                name(upstream)
            )
        }
        Happening::Notice {
            n,
            number,
            phase,
            clocks_ms,
        } => format!(
            "attempt {n}: content is quiet for {} ({}, notice {number})",
            time(whole_millis(clocks_ms.content)),
            phase.name()
        ),
        Happening::RetryWait { why, wait_ms } => {
            format!(
                "waits {} before it is sent again: {}",
                time(*wait_ms),
                why.name()
            )
        }
        Happening::MovedOn { upstream, why } => {
            format!("moves on from {}: {}", plain(upstream), why.name())
        }
        Happening::Opened {
            early: true,
            status,
        } => {
            format!("its response begins with {status}, for a beat")
        }
        Happening::Opened { status, .. } => format!("its response begins with {status}"),
    })
}

/// Returns what an attempt has to tell: its beginning, its first signs, its end.
fn attempt_told(attempt: &TimelineAttempt, theme: Theme) -> Vec<(u64, String, Style)> {
    let TimelineAttempt {
        record,
        live,
        began_ms,
        model,
        profile,
        reason,
        ..
    } = attempt;
    let n = record.n;
    let mut whom = plain(&record.upstream);
    for more in [model, profile].into_iter().flatten() {
        whom = format!("{whom}, {}", plain(more));
    }
    let mut told = vec![(*began_ms, format!("attempt {n} at {whom}"), Theme::HEAD)];
    for (at, what) in [
        (record.headers_ms, "response headers"),
        (record.first_byte_ms, "first byte"),
        (record.first_content_ms, "first content"),
    ] {
        if let Some(at) = at {
            told.push((at, format!("attempt {n}: {what}"), Style::new()));
        }
    }
    let heartbeats = record.heartbeats.total();
    let came = format!(
        "{} frames, {heartbeats} of them heartbeats; longest without a byte {}, without content {}",
        record.frames,
        time(whole_millis(record.longest_gap_ms.clock(Clock::Raw))),
        time(whole_millis(record.longest_gap_ms.clock(Clock::Content)))
    );
    let (how, style) = match record.outcome {
        _ if *live => ("is under way".to_owned(), Style::new()),
        AttemptOutcome::Completed => ("is complete".to_owned(), theme.good()),
        AttemptOutcome::Failed(code) => (format!("failed: {}", code.name()), theme.bad()),
    };
    told.push((
        record.ended_ms,
        format!("attempt {n} {how} ({came})"),
        style,
    ));
    if let Some(reason) = reason {
        told.push((
            record.ended_ms,
            format!("  {}", plain(reason)),
            Style::new(),
        ));
    }
    told
}

/// The cells of a bar.
const BAR: u16 = 12;
