//! The calls under way, and what failed lately.

use lifesign::Outcome;
use lifesign_core::Clock;

use super::html::Html;
use super::part::{self, Bar, cell, code, row, table};
use super::view::View;
use crate::live::{BoundNow, CallNow, EndedCall, Snapshot, limit_of_ms, of_ms};

/// Writes the view.
pub(super) fn draw(html: &mut Html, snapshot: &Snapshot) {
    if snapshot.calls.is_empty() {
        empty(html, snapshot);
    } else {
        under_way(html, snapshot);
    }
    let failed = snapshot.recent.iter();
    let failed: Vec<_> = failed
        .filter(|call| call.outcome != Outcome::Completed)
        .take(MOST_FAILED)
        .collect();
    html.group("section", "block", |html| {
        html.leaf("h2", "", "Not completed lately");
        if failed.is_empty() {
            html.leaf(
                "p",
                "quiet",
                "None of the latest calls failed, broke off or was cancelled.",
            );
        } else {
            ended(
                html,
                "Calls that were not completed, the latest first",
                &failed,
            );
        }
    });
}

fn under_way(html: &mut Html, snapshot: &Snapshot) {
    let heads = [
        "State",
        "What it is doing",
        "Clocks against their bounds",
        "Cut next",
        "Action",
    ];
    table(
        html,
        "calls",
        "Calls under way, oldest first",
        &heads,
        |html| {
            for call in &snapshot.calls {
                row(html, &call.id, "", |html| {
                    cell(html, "state", |html| {
                        part::state(html, call.state);
                        html.leaf(
                            "span",
                            "sub",
                            format_args!("for {}", of_ms(call.elapsed_ms)),
                        );
                    });
                    cell(html, "what", |html| what(html, call));
                    cell(html, "clocks", |html| clocks(html, call));
                    cell(html, "next", |html| next(html, call));
                    cell(html, "act", |html| cancel(html, &call.id));
                });
            }
        },
    );
    html.group("p", "note", |html| {
        let clocks =
            Clock::ALL.map(|clock| format!("{}: {}", clock.name(), part::renewed_by(clock)));
        html.text(format_args!(
            "What sets a clock back to zero: {}.",
            clocks.join("; ")
        ));
    });
    if snapshot.more_calls > 0 {
        let more = snapshot.more_calls;
        html.leaf(
            "p",
            "quiet",
            format_args!("{more} more calls are under way; listed are those nearest to a cut."),
        );
    }
}

fn what(html: &mut Html, call: &CallNow) {
    part::sentence(html, &call.sentence);
    html.group("p", "sub", |html| {
        if let Some(model) = &call.model {
            html.tag("bdi", &[("class", &"model"), ("title", model)], |html| {
                html.text(model);
            });
        }
        if let Some(key) = &call.key {
            html.tag("bdi", &[("title", &"caller key")], |html| html.text(key));
        }
        if call.attempt > 0 {
            html.leaf(
                "span",
                "",
                format_args!("attempt {} of {}", call.attempt, call.of),
            );
        }
        beats(html, call);
        timeline_link(html, &call.id);
    });
}

fn beats(html: &mut Html, call: &CallNow) {
    let heard = call.heartbeats.total();
    if heard > 0 {
        html.leaf(
            "span",
            "",
            format_args!("{heard} {} in", plural(heard, "heartbeat")),
        );
    }
    if call.beats > 0 {
        html.leaf(
            "span",
            "",
            format_args!("{} {} out", call.beats, plural(call.beats, "beat")),
        );
    }
}

/// Returns a word for so many.
fn plural(count: u64, one: &str) -> String {
    if count == 1 {
        one.to_owned()
    } else {
        format!("{one}s")
    }
}

/// Writes the way to a call's timeline.
pub(super) fn timeline_link(html: &mut Html, id: &str) {
    let href = View::Timeline(Some(id.to_owned()));
    let label = format!("Timeline of call {id}");
    html.tag(
        "a",
        &[("class", &"id"), ("href", &href), ("aria-label", &label)],
        |html| {
            html.text(id);
        },
    );
}

/// Writes each clock against the bound that will run out on it first, and what else counts down.
fn clocks(html: &mut Html, call: &CallNow) {
    if call.clocks_ms.is_none() && call.bounds.is_empty() {
        html.leaf("span", "quiet", "no clock runs while it waits");
        return;
    }
    let runs = call.unread_ms.is_none();
    let mut bounds: Vec<_> = call
        .bounds
        .iter()
        .filter(|bound| bound.clock.is_none())
        .collect();
    html.group("div", "bars", |html| {
        if let Some(ages) = &call.clocks_ms {
            for clock in Clock::ALL {
                let mut of_clock = call.bounds.iter();
                let bound = of_clock.find(|bound| bound.clock == Some(clock));
                let age = lifesign_core::duration::whole_millis(ages.clock(clock));
                bar(html, clock.name(), age, bound, runs);
            }
        }
        bounds.truncate(MOST_OTHER_BOUNDS);
        for bound in bounds {
            bar(html, bound.bound.name(), bound.age_ms, Some(bound), runs);
        }
    });
}

fn bar(html: &mut Html, name: &str, age_ms: u64, bound: Option<&BoundNow>, runs: bool) {
    html.group("div", "clock", |html| {
        html.leaf("span", "name", name);
        let age = of_ms(age_ms);
        let limit = bound.map(|bound| limit_of_ms(bound.limit_ms));
        let text = match (bound, &limit) {
            (Some(bound), Some(limit)) => {
                format!("{age} of {limit}, {}, {}", bound.bound.name(), bound.origin)
            }
            _ => format!("{age}, no bound"),
        };
        let bar = Bar {
            label: name,
            value: age_ms,
            limit: bound.map(|bound| bound.limit_ms),
            text: &text,
            runs,
        };
        bar.draw(html);
        html.tag("span", &[("class", &"value"), ("title", &text)], |html| {
            html.text(&age);
            if let Some(limit) = &limit {
                html.leaf("span", "of", format_args!(" / {limit}"));
            }
        });
    });
}

fn next(html: &mut Html, call: &CallNow) {
    let Some(next) = &call.next_bound else {
        html.leaf("span", "quiet", "nothing");
        return;
    };
    html.group("span", "left", |html| {
        code(html, next.bound.name());
        html.text(format_args!(" in {}", of_ms(next.in_ms)));
    });
    let mut bounds = call.bounds.iter();
    if let Some(bound) = bounds.find(|bound| bound.bound == next.bound) {
        let limit = limit_of_ms(bound.limit_ms);
        html.leaf("span", "sub", format_args!("{limit}, {}", bound.origin));
    }
}

/// Writes what cancels a call. It does nothing without the script, and is hidden there.
pub(super) fn cancel(html: &mut Html, id: &str) {
    let label = format!("Cancel call {id}");
    html.tag(
        "button",
        &[
            ("type", &"button"),
            ("class", &"button script-only"),
            ("data-cancel", &id),
            ("aria-label", &label),
        ],
        |html| html.text("Cancel"),
    );
}

/// Writes a table of calls that have ended.
pub(super) fn ended(html: &mut Html, caption: &str, calls: &[&EndedCall]) {
    let heads = ["Ended", "How it went", "Cut by"];
    table(html, "ended", caption, &heads, |html| {
        for call in calls {
            row(html, &format!("ended-{}", call.id), "", |html| {
                cell(html, "state", |html| {
                    outcome(html, call);
                    time(html, call);
                });
                cell(html, "what", |html| {
                    part::sentence(html, &call.sentence);
                    html.group("p", "sub", |html| {
                        if let Some(model) = &call.model {
                            html.tag("bdi", &[("class", &"model"), ("title", model)], |html| {
                                html.text(model);
                            });
                        }
                        if let Some(key) = &call.key {
                            html.leaf("bdi", "", key);
                        }
                        timeline_link(html, &call.id);
                    });
                });
                cell(html, "next", |html| match &call.cut {
                    Some(cut) => {
                        code(html, &cut.setting);
                        let limit = cut.limit_ms.map(limit_of_ms).unwrap_or_default();
                        html.leaf("span", "sub", format_args!("{limit}, {}", cut.origin));
                    }
                    None => html.leaf("span", "quiet", "no bound"),
                });
            });
        }
    });
}

/// Writes how a call ended, in a word.
pub(super) fn outcome(html: &mut Html, call: &EndedCall) {
    let word = match (call.outcome, call.code) {
        (Outcome::Completed | Outcome::Cancelled, _) | (_, None) => call.outcome.name(),
        (_, Some(code)) => code.name(),
    };
    part::badge(html, call.outcome.name(), word);
}

/// Writes when a call ended. The script tells it in the reader's own time zone.
fn time(html: &mut Html, call: &EndedCall) {
    let at = call.ended_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let shown = call.ended_at.strftime("%H:%M:%S UTC").to_string();
    html.tag("time", &[("class", &"sub"), ("datetime", &at)], |html| {
        html.text(&shown);
    });
}

/// Writes what a person sees who has just started a gateway.
fn empty(html: &mut Html, snapshot: &Snapshot) {
    html.group("section", "block empty", |html| {
        html.leaf("h2", "", "No calls under way");
        if snapshot.summary.hour.ended > 0 {
            html.leaf(
                "p",
                "quiet",
                "A call shows here from its admission to its last byte.",
            );
            return;
        }
        html.leaf(
            "p",
            "",
            "Nothing has come through this gateway in the last hour. Send a first call, or change \
             the base URL of a program that calls a model:",
        );
        html.tag(
            "pre",
            &[("tabindex", &"0"), ("aria-label", &"A first call")],
            |html| {
                html.tag("code", &[("data-origin", &"")], |html| {
                    html.text(FIRST_CALL);
                });
            },
        );
        html.group("p", "quiet", |html| {
            html.text(
                "The model must be one that an upstream has. Programs keep all else as it is: ",
            );
            code(html, "OPENAI_BASE_URL");
            html.text(" ends in ");
            code(html, "/v1");
            html.text(", ");
            code(html, "ANTHROPIC_BASE_URL");
            html.text(" does not.");
        });
    });
}

const FIRST_CALL: &str = "curl -N http://127.0.0.1:4631/v1/chat/completions \\
  -H 'content-type: application/json' \\
  -d '{\"model\": \"MODEL\", \"stream\": true, \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'";

/// More are on the timeline's list.
const MOST_FAILED: usize = 8;
/// Beside those of the clocks.
const MOST_OTHER_BOUNDS: usize = 2;
