//! How long clocks stood still, against the bounds.

use std::fmt::Write as _;

use lifesign_core::Phase;

use super::html::{Attribute, Html};
use super::part::{self, cell, row, table};
use crate::live::{Silence, Snapshot, limit_of_ms, of_ms};

/// Writes the view.
pub(super) fn draw(html: &mut Html, snapshot: &Snapshot) {
    html.leaf(
        "p",
        "lead",
        "How often each clock stood still for how long, since the gateway started. A bound that stands \
         among the bars cuts calls that are well; one far to the right of the last bar lets dead ones wait.",
    );
    if snapshot.silence.is_empty() {
        html.leaf(
            "p",
            "quiet",
            "No attempt with a gap of 100 ms or more has ended yet.",
        );
        return;
    }
    let limits = &snapshot.silence_limits_ms;
    for upstream in &snapshot.upstreams {
        let silences = snapshot.silence.iter();
        let silences: Vec<_> = silences
            .filter(|silence| silence.upstream == upstream.name)
            .collect();
        if silences.is_empty() {
            continue;
        }
        html.tag(
            "section",
            &[("class", &"block"), ("data-key", &upstream.name)],
            |html| {
                html.leaf("h2", "", &upstream.name);
                html.group("div", "charts", |html| {
                    for silence in &silences {
                        chart(html, silence, limits);
                    }
                });
                as_table(html, &upstream.name, &silences);
            },
        );
    }
}

fn chart(html: &mut Html, silence: &Silence, limits: &[u64]) {
    let title = format!("{} clock, {}", silence.clock.name(), words(silence.phase));
    let key = format!("{}-{}", silence.phase.name(), silence.clock.name());
    let total: u64 = silence.counts.iter().sum();
    html.tag(
        "figure",
        &[("class", &"chart"), ("data-key", &key)],
        |html| {
            html.group("figcaption", "", |html| {
                html.leaf("strong", "", &title);
                let longest = of_ms(silence.longest_ms);
                html.leaf(
                    "span",
                    "sub",
                    format_args!("{total} gaps, longest {longest}"),
                );
            });
            let label = told(silence, &title, total);
            let attributes: [Attribute<'_>; 4] = [
                ("class", &"histogram"),
                ("role", &"img"),
                ("aria-label", &label),
                ("height", &HEIGHT),
            ];
            html.tag("svg", &attributes, |html| {
                bars(html, &silence.counts);
                axis(html, limits);
                for bound in &silence.bounds {
                    let at = format!("{:.2}%", place(bound.limit_ms, limits));
                    let line: [Attribute<'_>; 5] = [
                        ("class", &"bound"),
                        ("x1", &at),
                        ("x2", &at),
                        ("y1", &0),
                        ("y2", &(HEIGHT - FOOT)),
                    ];
                    html.tag("line", &line, |_| {});
                }
            });
            html.group("ul", "bounds", |html| {
                for bound in &silence.bounds {
                    let limit = limit_of_ms(bound.limit_ms);
                    html.group("li", "", |html| {
                        html.leaf("code", "", bound.bound.name());
                        html.text(format_args!(" {limit}, {}", bound.origin));
                        let near = part::percent(silence.longest_ms, bound.limit_ms);
                        html.group("span", "sub", |html| {
                            html.text(format_args!("longest gap is {near} % of it "));
                            if near >= TIGHT {
                                part::badge(html, "tight", "tight");
                            }
                        });
                    });
                }
                if silence.bounds.is_empty() {
                    html.leaf("li", "quiet", "no bound");
                }
            });
        },
    );
}

fn bars(html: &mut Html, counts: &[u64]) {
    let most = counts.iter().copied().max().unwrap_or_default().max(1);
    let width = 100.0 / count(counts.len());
    for (at, gaps) in counts.iter().enumerate() {
        if *gaps == 0 {
            continue;
        }
        // A few among thousands are what matters, so that they must be seen.
        let part = (count_of(*gaps) + 1.0).ln() / (count_of(most) + 1.0).ln();
        let height = (part * f64::from(HEIGHT - FOOT - 4)).max(2.0);
        let (x, width) = (
            format!("{:.2}%", count(at) * width),
            format!("{:.2}%", width * 0.86),
        );
        let (y, height) = (
            format!("{:.1}", f64::from(HEIGHT - FOOT) - height),
            format!("{height:.1}"),
        );
        let bar: [Attribute<'_>; 5] = [
            ("class", &"gaps"),
            ("x", &x),
            ("y", &y),
            ("width", &width),
            ("height", &height),
        ];
        html.tag("rect", &bar, |_| {});
    }
}

fn axis(html: &mut Html, limits: &[u64]) {
    let y = HEIGHT - FOOT;
    let line: [Attribute<'_>; 5] = [
        ("class", &"axis"),
        ("x1", &"0"),
        ("x2", &"100%"),
        ("y1", &y),
        ("y2", &y),
    ];
    html.tag("line", &line, |_| {});
    for (ms, text) in [
        (1_000, "1 s"),
        (10_000, "10 s"),
        (60_000, "1 min"),
        (600_000, "10 min"),
    ] {
        let x = format!("{:.2}%", place(ms, limits));
        let label: [Attribute<'_>; 4] = [
            ("class", &"tick"),
            ("x", &x),
            ("y", &(HEIGHT - 3)),
            ("text-anchor", &"middle"),
        ];
        html.tag("text", &label, |html| html.text(text));
    }
}

/// Returns where a time stands on the axis, in percent: each count has the same room.
fn place(ms: u64, limits: &[u64]) -> f64 {
    let counts = count(limits.len() + 1);
    let at = limits.partition_point(|limit| *limit <= ms);
    let lower = at.checked_sub(1).map_or(FIRST_MS, |before| limits[before]);
    let within = match limits.get(at) {
        Some(upper) => {
            let (ms, lower, upper) = (
                count_of(ms.max(FIRST_MS)),
                count_of(lower),
                count_of(*upper),
            );
            (ms / lower).ln() / (upper / lower).ln()
        }
        None => 0.5,
    };
    (count(at) + within) / counts * 100.0
}

fn told(silence: &Silence, title: &str, total: u64) -> String {
    let longest = of_ms(silence.longest_ms);
    let mut told = format!("{title}: {total} gaps, the longest {longest}");
    for bound in &silence.bounds {
        let limit = limit_of_ms(bound.limit_ms);
        // A string takes everything.
        let _infallible = write!(told, "; {} at {limit}", bound.bound.name());
    }
    told
}

fn as_table(html: &mut Html, upstream: &str, silences: &[&Silence]) {
    html.group("details", "", |html| {
        html.leaf("summary", "", "The same as a table");
        let heads = ["Phase", "Clock", "Gaps", "Longest", "Bounds"];
        let caption = format!("Gaps of the clocks at {upstream}");
        table(html, "gaps", &caption, &heads, |html| {
            for silence in silences {
                let key = format!("row-{}-{}", silence.phase.name(), silence.clock.name());
                let total: u64 = silence.counts.iter().sum();
                let bounds = silence.bounds.iter().map(|bound| {
                    let limit = limit_of_ms(bound.limit_ms);
                    format!("{} {limit} ({})", bound.bound.name(), bound.origin)
                });
                let bounds: Vec<_> = bounds.collect();
                row(html, &key, "", |html| {
                    cell(html, "", |html| html.text(words(silence.phase)));
                    cell(html, "", |html| html.text(silence.clock.name()));
                    cell(html, "num", |html| html.text(total));
                    cell(html, "num", |html| html.text(of_ms(silence.longest_ms)));
                    cell(html, "", |html| html.text(bounds.join(", ")));
                });
            }
        });
    });
}

/// Returns a phase in words.
pub(super) const fn words(phase: Phase) -> &'static str {
    match phase {
        Phase::Queued => "queued",
        Phase::Connecting => "connecting",
        Phase::Sending => "while sending",
        Phase::WaitingForHeaders => "waiting for headers",
        Phase::BeforeContent => "before content",
        Phase::AfterContent => "after content",
        Phase::Ended => "ended",
    }
}

#[expect(clippy::cast_precision_loss, reason = "it is drawn, to the pixel")]
const fn count_of(count: u64) -> f64 {
    count as f64
}

const fn count(count: usize) -> f64 {
    count_of(count as u64)
}

/// In percent of a bound: gaps that come nearer than this may run into it.
const TIGHT: u64 = 80;
const HEIGHT: u32 = 96;
/// Below the axis.
const FOOT: u32 = 16;
/// The shortest gap that is counted.
const FIRST_MS: u64 = 100;

#[cfg(test)]
mod tests {
    use lifesign_core::Gaps;

    use super::*;

    #[test]
    fn a_longer_time_stands_further_to_the_right_and_a_limit_at_the_edge_of_its_bar() {
        let limits = Gaps::LIMITS_MS;
        let times = [
            1, 100, 240, 250, 999, 1_000, 45_000, 59_999, 60_000, 1_861_999,
        ];

        let places: Vec<_> = times.map(|ms| place(ms, &limits)).into();

        assert!(places.is_sorted(), "{places:?}");
        assert!(places.iter().all(|place| (0.0..=100.0).contains(place)));
        // The fourth of twenty bars begins at 1 s.
        assert!((place(1_000, &limits) - 15.0).abs() < 1e-9);
        assert!((place(9_999_999, &limits) - 97.5).abs() < 1e-9);
    }
}
