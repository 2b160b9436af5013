//! The upstreams: how they do, what holds them, how full they are.

use jiff::{SignedDuration, Timestamp};

use super::html::Html;
use super::part::{self, Bar, cell, fact, row, table};
use crate::live::{Health, HoldNow, Snapshot, UpstreamNow, of_ms};

/// Writes the view.
pub(super) fn draw(html: &mut Html, snapshot: &Snapshot) {
    if snapshot.upstreams.is_empty() {
        html.leaf("p", "quiet", "No upstream is configured.");
        return;
    }
    html.group("div", "cards", |html| {
        // Who is woken at night looks for those in trouble.
        let (ill, well): (Vec<_>, Vec<_>) = snapshot
            .upstreams
            .iter()
            .partition(|upstream| upstream.health.is_ill());
        for upstream in ill.into_iter().chain(well) {
            html.tag(
                "article",
                &[("class", &"card"), ("data-key", &upstream.name)],
                |html| card(html, upstream, snapshot.at),
            );
        }
    });
}

fn card(html: &mut Html, upstream: &UpstreamNow, now: Timestamp) {
    html.group("header", "", |html| {
        html.leaf("h2", "", &upstream.name);
        health(html, upstream.health);
    });
    part::sentence(html, &upstream.sentence);
    html.group("dl", "facts", |html| {
        fact(html, "First token", |html| match &upstream.first_content {
            Some(first) => {
                html.leaf("strong", "", of_ms(first.p50_ms));
                html.leaf("span", "sub", " p50");
                html.text(" ");
                html.leaf("strong", "", of_ms(first.p95_ms));
                html.leaf("span", "sub", " p95");
                html.leaf(
                    "span",
                    "sub of",
                    format_args!("of {} attempts", first.count),
                );
            }
            None => html.leaf("span", "quiet", "none yet"),
        });
        fact(html, "Last completed", |html| {
            last_completed(html, upstream.last_completed, now);
        });
        fact(html, "Failed in the last hour", |html| {
            failed(html, upstream);
        });
        fact(html, "In flight", |html| {
            load(html, "In flight", upstream.in_flight, upstream.concurrency);
        });
        fact(html, "In line", |html| {
            load(html, "In line", upstream.waiting, upstream.queue);
        });
        fact(html, "Breaker for failures", |html| {
            breaker(html, &upstream.breakers.failures);
        });
        fact(html, "Breaker for slowness", |html| {
            breaker(html, &upstream.breakers.slowness);
        });
    });
    if !upstream.holds.is_empty() {
        holds(html, upstream);
    }
}

fn health(html: &mut Html, health: Health) {
    part::badge(html, health.name(), health.name());
}

fn last_completed(html: &mut Html, at: Option<Timestamp>, now: Timestamp) {
    let Some(at) = at else {
        html.leaf("span", "quiet", "nothing yet");
        return;
    };
    let form = if at.duration_until(now) < SignedDuration::from_hours(24) {
        "%H:%M:%S UTC"
    } else {
        "%Y-%m-%d %H:%M:%S UTC"
    };
    let machine = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    html.tag("time", &[("datetime", &machine)], |html| {
        html.text(at.strftime(form));
    });
}

fn failed(html: &mut Html, upstream: &UpstreamNow) {
    let &UpstreamNow {
        attempts, failed, ..
    } = upstream;
    if attempts == 0 {
        html.leaf("span", "quiet", "no attempts");
        return;
    }
    let rate = part::percent(failed, attempts);
    html.leaf("strong", "", format_args!("{rate} %"));
    html.leaf("span", "sub", format_args!(" {failed} of {attempts}"));
    if !upstream.failures.is_empty() {
        html.group("ul", "codes", |html| {
            for failure in upstream.failures.iter().take(MOST_CODES) {
                html.group("li", "", |html| {
                    part::code(html, failure.code.name());
                    html.text(format_args!(" {}", failure.count));
                });
            }
        });
    }
}

fn load(html: &mut Html, label: &str, value: usize, limit: usize) {
    let text = format!("{value} of {limit}");
    html.leaf("strong", "", value);
    html.leaf("span", "sub", format_args!(" of {limit}"));
    let bar = Bar {
        label,
        value: value as u64,
        limit: Some(limit as u64),
        text: &text,
        runs: false,
    };
    bar.draw(html);
}

fn breaker(html: &mut Html, state: &str) {
    part::badge(html, state, &state.replace('_', "-"));
}

fn holds(html: &mut Html, upstream: &UpstreamNow) {
    let caption = format!("Holds on {}", upstream.name);
    let heads = ["Model", "Why", "For another", "Action"];
    table(html, "holds", &caption, &heads, |html| {
        for hold in &upstream.holds {
            row(html, &hold.id, "", |html| {
                cell(html, "", |html| on(html, hold));
                cell(html, "", |html| part::code(html, hold.why.name()));
                cell(html, "num", |html| html.text(of_ms(hold.remaining_ms)));
                cell(html, "act", |html| release(html, hold, &upstream.name));
            });
        }
    });
}

fn on(html: &mut Html, hold: &HoldNow) {
    match &hold.model {
        Some(model) => html.tag("bdi", &[("class", &"model"), ("title", model)], |html| {
            html.text(model);
        }),
        None => html.text("every model"),
    }
    if let Some(credential) = &hold.credential {
        html.leaf(
            "span",
            "sub",
            format_args!("one caller's key, {credential}"),
        );
    }
}

fn release(html: &mut Html, hold: &HoldNow, upstream: &str) {
    let model = hold.model.as_deref().unwrap_or("every model");
    let label = format!("Release the hold on {model} at {upstream}");
    html.tag(
        "button",
        &[
            ("type", &"button"),
            ("class", &"button script-only"),
            ("data-release", &hold.id),
            ("aria-label", &label),
        ],
        |html| html.text("Release"),
    );
}

const MOST_CODES: usize = 4;
