//! A call drawn along its time: attempts and their phases, waits between them, heartbeats, silences,
//! notices, the cut.
//!
//! Everything stands at a percentage of the width, so that the drawing needs neither a script nor a
//! style. What it shows stands in words beside it.

use lifesign_core::{AttemptOutcome, Clock};

use super::html::{Attribute, Html};
use super::part::renewed_by;
use crate::live::{Happening, Timeline, TimelineAttempt, of_ms};

/// Writes the drawing and what its marks mean.
pub(super) fn draw(html: &mut Html, timeline: &Timeline) {
    let scale = Scale::of(timeline);
    html.group("figure", "timeline", |html| {
        let label = told(timeline);
        html.tag(
            "div",
            &[
                ("class", &"tracks"),
                ("role", &"img"),
                ("aria-label", &label),
            ],
            |html| {
                axis(html, &scale);
                waits(html, timeline, &scale);
                for attempt in &timeline.attempts {
                    track(html, timeline, attempt, &scale);
                }
            },
        );
        legend(html);
    });
}

/// What a time is on the drawing.
struct Scale {
    whole_ms: u64,
}

impl Scale {
    fn of(timeline: &Timeline) -> Self {
        let ends = timeline
            .attempts
            .iter()
            .map(|attempt| attempt.record.ended_ms);
        let last = ends.max().unwrap_or_default();
        Self {
            whole_ms: timeline.elapsed_ms.max(last).max(1),
        }
    }

    /// Returns where a time stands, in percent.
    fn at(&self, ms: u64) -> String {
        format!("{:.2}%", self.part(ms))
    }

    /// Returns how much of the width a time takes, in percent.
    fn wide(&self, from_ms: u64, to_ms: u64) -> String {
        format!("{:.2}%", self.part(to_ms.saturating_sub(from_ms)))
    }

    #[expect(clippy::cast_precision_loss, reason = "it is drawn, to the pixel")]
    fn part(&self, ms: u64) -> f64 {
        ms.min(self.whole_ms) as f64 * 100.0 / self.whole_ms as f64
    }

    /// Returns the marks of the axis: at least two, at times that people count in.
    fn marks(&self) -> Vec<u64> {
        let step = STEPS_MS
            .into_iter()
            .find(|step| self.whole_ms / step <= MOST_MARKS);
        let step = step.unwrap_or(self.whole_ms);
        (0..=self.whole_ms / step).map(|mark| mark * step).collect()
    }
}

fn axis(html: &mut Html, scale: &Scale) {
    html.leaf("span", "gutter", "");
    let svg: [Attribute<'_>; 2] = [("class", &"axis"), ("height", &18)];
    html.tag("svg", &svg, |html| {
        for mark in scale.marks() {
            let x = scale.at(mark);
            line(html, "grid", &x, 12, 18);
            let part = scale.part(mark);
            let anchor = match part {
                ..4.0 => "start",
                96.0.. => "end",
                _ => "middle",
            };
            let attributes: [Attribute<'_>; 3] = [("x", &x), ("y", &10), ("text-anchor", &anchor)];
            html.tag("text", &attributes, |html| html.text(of_ms(mark)));
        }
    });
}

/// Writes the times in which nobody was asked.
fn waits(html: &mut Html, timeline: &Timeline, scale: &Scale) {
    let waits: Vec<_> = timeline
        .events
        .iter()
        .filter(|event| is_wait(&event.what))
        .collect();
    if waits.is_empty() {
        return;
    }
    html.leaf("span", "gutter", "waits");
    let svg: [Attribute<'_>; 2] = [("class", &"track waits"), ("height", &16)];
    html.tag("svg", &svg, |html| {
        for wait in waits {
            let mut later = timeline
                .events
                .iter()
                .filter(|event| event.at_ms >= wait.at_ms);
            let end = later.find(|event| matches!(event.what, Happening::Attempt { .. }));
            let end = end.map_or(timeline.elapsed_ms, |event| event.at_ms);
            let kind = match wait.what {
                Happening::Queued { .. } => "wait queued",
                Happening::RetryWait { .. } => "wait retry",
                _ => "wait held",
            };
            block(
                html,
                kind,
                scale,
                (wait.at_ms, end),
                (2, 12),
                super::story::words(&wait.what),
            );
        }
    });
}

const fn is_wait(what: &Happening) -> bool {
    matches!(
        what,
        Happening::Queued { .. }
            | Happening::Held { .. }
            | Happening::Behind { .. }
            | Happening::RetryWait { .. }
    )
}

fn track(html: &mut Html, timeline: &Timeline, attempt: &TimelineAttempt, scale: &Scale) {
    let record = &attempt.record;
    html.group("p", "name", |html| {
        html.leaf("strong", "", format_args!("attempt {}", record.n));
        html.text(format_args!(" {}", record.upstream));
        if !attempt.live {
            html.leaf("span", "sub", ending(attempt));
        }
    });
    html.group("span", "gutter", |html| {
        html.leaf("span", "of-phases", "phase");
        html.leaf("span", "of-beats", "beats");
        for clock in Clock::ALL {
            html.leaf("span", "", clock.name());
        }
    });
    let svg: [Attribute<'_>; 2] = [("class", &"track"), ("height", &TRACK)];
    html.tag("svg", &svg, |html| {
        let end = record.ended_ms;
        let sent = record.sent_ms.unwrap_or(end);
        let headers = record.headers_ms.unwrap_or(end).max(sent);
        let content = record.first_content_ms.unwrap_or(end).max(headers);
        // Each is higher than the one before, which tells them apart without colour.
        for (kind, from, to, height, name) in [
            (
                "phase connect",
                attempt.began_ms,
                sent,
                6,
                "connecting and sending",
            ),
            ("phase headers", sent, headers, 10, "waiting for headers"),
            ("phase before", headers, content, 14, "before content"),
            ("phase after", content, end, PHASES, "content"),
        ] {
            if to > from {
                let took = of_ms(to - from);
                block(
                    html,
                    kind,
                    scale,
                    (from, to),
                    (PHASES - height, height),
                    format!("{name}, {took}"),
                );
            }
        }
        for tick in &attempt.ticks {
            line(html, "beat", &scale.at(tick.at_ms), PHASES + 3, PHASES + 13);
        }
        for event in &timeline.events {
            if matches!(event.what, Happening::Notice { n, .. } if n == record.n) {
                let (x, y) = (scale.at(event.at_ms), PHASES / 2);
                let dot: [Attribute<'_>; 4] =
                    [("class", &"notice"), ("cx", &x), ("cy", &y), ("r", &4)];
                html.tag("circle", &dot, |_| {});
            }
        }
        for silence in &attempt.silences {
            let top = LANES + silence.clock as u32 * LANE;
            let (from, to) = (silence.from_ms, silence.to_ms);
            let name = silence.clock.name();
            let words = format!("{name} clock stood for {}", of_ms(to.saturating_sub(from)));
            block(html, "stood", scale, (from, to), (top + 5, LANE - 9), words);
        }
        if attempt.cut.is_some() {
            line(html, "cut", &scale.at(end), 0, TRACK);
        }
    });
}

fn ending(attempt: &TimelineAttempt) -> String {
    let outcome = match attempt.record.outcome {
        AttemptOutcome::Completed => "completed",
        AttemptOutcome::Failed(code) => code.name(),
    };
    match &attempt.cut {
        Some(cut) => format!("{outcome}, cut by {}", cut.bound.name()),
        None => outcome.to_owned(),
    }
}

fn block(
    html: &mut Html,
    class: &'static str,
    scale: &Scale,
    (from, to): (u64, u64),
    (y, height): (u32, u32),
    title: String,
) {
    let (x, width) = (scale.at(from), scale.wide(from, to));
    let attributes: [Attribute<'_>; 5] = [
        ("class", &class),
        ("x", &x),
        ("y", &y),
        ("width", &width),
        ("height", &height),
    ];
    html.tag("rect", &attributes, |html| html.leaf("title", "", title));
}

fn line(html: &mut Html, class: &'static str, x: &str, from: u32, to: u32) {
    let attributes: [Attribute<'_>; 5] = [
        ("class", &class),
        ("x1", &x),
        ("x2", &x),
        ("y1", &from),
        ("y2", &to),
    ];
    html.tag("line", &attributes, |_| {});
}

fn legend(html: &mut Html) {
    html.group("figcaption", "legend", |html| {
        for (class, name) in [
            ("connect", "connecting, sending"),
            ("headers", "waiting for headers"),
            ("before", "before content"),
            ("after", "content"),
            ("wait", "waiting: line, hold, retry"),
            ("beat", "heartbeats"),
            ("notice", "notice"),
            ("cut", "cut by a bound"),
        ] {
            html.group("span", "", |html| {
                let class = format!("key {class}");
                html.tag("i", &[("class", &class), ("aria-hidden", &"true")], |_| {});
                html.text(name);
            });
        }
        let clocks = Clock::ALL.map(|clock| format!("{}: {}", clock.name(), renewed_by(clock)));
        html.leaf(
            "span",
            "sub",
            format_args!(
                "Grey below an attempt: the clock stood for 1 s or more ({}).",
                clocks.join(", ")
            ),
        );
    });
}

/// Returns the drawing in a sentence, for those who do not see it.
fn told(timeline: &Timeline) -> String {
    let attempts = timeline.attempts.iter().map(|attempt| {
        let record = &attempt.record;
        let took = of_ms(record.ended_ms.saturating_sub(attempt.began_ms));
        let beats = record.heartbeats.total();
        let end = if attempt.live {
            "under way".to_owned()
        } else {
            ending(attempt)
        };
        format!(
            "attempt {} at {}: {took}, {beats} heartbeats, {end}",
            record.n, record.upstream
        )
    });
    let attempts: Vec<_> = attempts.collect();
    let whole = of_ms(timeline.elapsed_ms);
    if attempts.is_empty() {
        format!("Timeline of {whole}, without an attempt")
    } else {
        format!("Timeline of {whole}; {}", attempts.join("; "))
    }
}

/// The height of an attempt.
const TRACK: u32 = LANES + 4 * LANE;
/// The height of its phases.
const PHASES: u32 = 18;
/// Where the lanes of its clocks begin.
const LANES: u32 = PHASES + 16;
/// The height of a lane.
const LANE: u32 = 15;
const MOST_MARKS: u64 = 8;
const STEPS_MS: [u64; 18] = [
    10, 20, 50, 100, 250, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000,
    300_000, 600_000, 1_800_000, 3_600_000,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_has_few_marks_at_round_times() {
        let marks = |whole_ms| Scale { whole_ms }.marks();

        assert_eq!(
            marks(8_300),
            (0..=8).map(|at| at * 1_000).collect::<Vec<_>>()
        );
        assert_eq!(marks(95_000), [0, 20_000, 40_000, 60_000, 80_000]);
        assert_eq!(marks(5), [0]);
        for whole_ms in [1, 77, 999, 12_345, 600_000, 3_600_000, 86_400_000] {
            assert!((1..=9).contains(&marks(whole_ms).len()), "{whole_ms}");
        }
    }

    #[test]
    fn what_is_later_than_the_end_stands_at_the_end() {
        let scale = Scale { whole_ms: 1_000 };

        assert_eq!(scale.at(250), "25.00%");
        assert_eq!(scale.at(5_000), "100.00%");
        assert_eq!(scale.wide(900, 1_000), "10.00%");
        assert_eq!(scale.wide(900, 100), "0.00%");
    }
}
