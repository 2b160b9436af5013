//! A call from its beginning on: which ones there are, and one of them drawn.

use lifesign::Outcome;
use lifesign_core::duration::whole_millis;

use super::calls;
use super::chart;
use super::html::{Attribute, Html};
use super::part::{self, cell, code, fact, row, table};
use super::view::View;
use crate::live::{
    CutBy, EndedCall, Happening, Snapshot, Timeline, TimelineAttempt, limit_of_ms, of_ms,
};

/// Returns the id of the call that is shown where none was chosen: the latest that failed, else the
/// oldest that runs, else the latest that ended.
pub(super) fn default_call(snapshot: &Snapshot) -> Option<String> {
    let mut recent = snapshot.recent.iter();
    let failed = recent.find(|call| is_failed(call)).map(|call| &call.id);
    let running = || snapshot.calls.first().map(|call| &call.id);
    let latest = || snapshot.recent.first().map(|call| &call.id);
    failed.or_else(running).or_else(latest).cloned()
}

fn is_failed(call: &EndedCall) -> bool {
    matches!(call.outcome, Outcome::Failed | Outcome::Truncated)
}

/// Writes the view: the calls to choose from, and the chosen one.
pub(super) fn draw(
    html: &mut Html,
    snapshot: &Snapshot,
    chosen: Option<&str>,
    timeline: Option<&Timeline>,
) {
    if snapshot.calls.is_empty() && snapshot.recent.is_empty() {
        html.leaf(
            "p",
            "quiet",
            "No call has come yet. Those under way and those that ended lately are here.",
        );
        return;
    }
    html.group("div", "story", |html| {
        list(html, snapshot, chosen);
        html.tag(
            "section",
            &[("class", &"told"), ("aria-label", &"The chosen call")],
            |html| match (timeline, chosen) {
                (Some(timeline), _) => one(html, timeline),
                (None, Some(_)) => html.leaf(
                    "p",
                    "quiet",
                    "This call is not kept any more. The log has it under its id, and so has the \
                     journal where there is one: lifesign report.",
                ),
                (None, None) => {}
            },
        );
    });
}

fn list(html: &mut Html, snapshot: &Snapshot, chosen: Option<&str>) {
    html.tag(
        "nav",
        &[("class", &"list"), ("aria-label", &"Calls to choose from")],
        |html| {
            if !snapshot.calls.is_empty() {
                html.leaf("h2", "", "Under way");
                html.group("ul", "", |html| {
                    for call in snapshot.calls.iter().take(MOST_LISTED) {
                        let upstream = call.upstream.as_deref();
                        let about = (upstream, call.model.as_deref());
                        choice(html, &call.id, chosen, about, call.elapsed_ms, |html| {
                            part::state(html, call.state);
                        });
                    }
                });
            }
            if !snapshot.recent.is_empty() {
                html.leaf("h2", "", "Ended lately");
                html.group("ul", "", |html| {
                    for call in &snapshot.recent {
                        let about = (call.upstream.as_deref(), call.model.as_deref());
                        choice(html, &call.id, chosen, about, call.elapsed_ms, |html| {
                            calls::outcome(html, call);
                        });
                    }
                });
            }
        },
    );
}

fn choice(
    html: &mut Html,
    id: &str,
    chosen: Option<&str>,
    (upstream, model): (Option<&str>, Option<&str>),
    elapsed_ms: u64,
    badge: impl FnOnce(&mut Html),
) {
    let href = View::Timeline(Some(id.to_owned()));
    let is_chosen = chosen == Some(id);
    html.tag("li", &[("data-key", &id)], |html| {
        let mut attributes: Vec<Attribute<'_>> = vec![("href", &href)];
        if is_chosen {
            attributes.push(("aria-current", &"true"));
        }
        html.tag("a", &attributes, |html| {
            badge(html);
            html.leaf("span", "took", of_ms(elapsed_ms));
            html.group("span", "sub", |html| {
                html.leaf("bdi", "", model.unwrap_or("no model"));
                if let Some(upstream) = upstream {
                    html.leaf("span", "", format_args!("at {upstream}"));
                }
            });
        });
    });
}

fn one(html: &mut Html, timeline: &Timeline) {
    html.group("header", "", |html| {
        html.group("h2", "", |html| {
            html.text("Call ");
            code(html, &timeline.id);
        });
        if timeline.now.is_some() {
            calls::cancel(html, &timeline.id);
        }
    });
    match (&timeline.now, &timeline.ended) {
        (Some(now), _) => part::sentence(html, &now.sentence),
        (None, Some(ended)) => part::sentence(html, &ended.sentence),
        (None, None) => {}
    }
    if let Some(ended) = &timeline.ended {
        why(html, ended);
    }
    chart::draw(html, timeline);
    facts(html, timeline);
    events(html, timeline);
}

/// Writes what the caller saw, what cut the call, and how that is raised.
fn why(html: &mut Html, ended: &EndedCall) {
    let Some(told) = &ended.told else {
        return;
    };
    html.group("dl", "why", |html| {
        fact(html, "What the caller was told", |html| {
            html.leaf("q", "", told);
            if let Some(status) = ended.status {
                html.leaf("span", "sub", format_args!("with status {status}"));
            }
        });
        if let Some(cut) = &ended.cut {
            fact(html, "What cut it", |html| cut_by(html, cut));
            fact(html, "Whose setting that is", |html| html.text(&cut.remedy));
        }
        if let Some(hint) = &ended.hint {
            fact(html, "What may help", |html| html.text(hint));
        }
    });
}

fn cut_by(html: &mut Html, cut: &CutBy) {
    code(html, &cut.setting);
    if let Some(limit) = cut.limit_ms {
        html.text(format_args!(" = {}", limit_of_ms(limit)));
    }
    html.text(format_args!(" ({})", cut.origin));
}

fn facts(html: &mut Html, timeline: &Timeline) {
    let now = timeline.now.as_ref();
    let ended = timeline.ended.as_ref();
    let model = now
        .map(|now| &now.model)
        .or_else(|| ended.map(|ended| &ended.model));
    let key = now
        .map(|now| &now.key)
        .or_else(|| ended.map(|ended| &ended.key));
    let route = now
        .map(|now| &now.route)
        .or_else(|| ended.map(|ended| &ended.route));
    let beats = now
        .map(|now| now.beats)
        .or_else(|| ended.map(|ended| ended.beats));
    html.group("dl", "facts", |html| {
        fact(html, "Model", |html| {
            match model.and_then(Option::as_deref) {
                Some(model) => html.leaf("bdi", "", model),
                None => html.leaf("span", "quiet", "none"),
            }
        });
        if let Some(Some(key)) = key {
            fact(html, "Caller key", |html| html.leaf("bdi", "", key));
        }
        if let Some(route) = route {
            fact(html, "Path", |html| code(html, route));
        }
        fact(html, "Began", |html| {
            let at = timeline.at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            let shown = timeline.at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
            html.tag("time", &[("datetime", &at), ("data-full", &"")], |html| {
                html.text(&shown);
            });
        });
        let took = if timeline.now.is_some() {
            "Runs for"
        } else {
            "Took"
        };
        fact(html, took, |html| html.text(of_ms(timeline.elapsed_ms)));
        if let Some(ended) = ended {
            for (term, ms) in [
                ("In line", ended.queued_ms),
                ("On hold", ended.held_ms),
                ("Between attempts", ended.retry_wait_ms),
            ] {
                if ms > 0 {
                    fact(html, term, |html| html.text(of_ms(ms)));
                }
            }
        }
        if let Some(beats) = beats {
            fact(html, "Beats sent", |html| html.text(beats));
        }
    });
    if !timeline.bounds.is_empty() {
        bounds(html, timeline);
    }
}

fn bounds(html: &mut Html, timeline: &Timeline) {
    let heads = ["Bound", "Limit", "Set by", "Runs out"];
    html.group("details", "", |html| {
        html.leaf("summary", "", "Every bound in force");
        table(
            html,
            "bounds",
            "Bounds in force for this attempt",
            &heads,
            |html| {
                for bound in &timeline.bounds {
                    row(html, bound.bound.name(), "", |html| {
                        cell(html, "", |html| code(html, &bound.setting));
                        cell(html, "num", |html| html.text(limit_of_ms(bound.limit_ms)));
                        cell(html, "", |html| html.text(&bound.origin));
                        cell(html, "num", |html| match bound.in_ms {
                            Some(ms) => html.text(format_args!("in {}", of_ms(ms))),
                            None => html.leaf("span", "quiet", "does not run now"),
                        });
                    });
                }
            },
        );
    });
}

fn events(html: &mut Html, timeline: &Timeline) {
    html.group("details", "", |html| {
        html.leaf("summary", "", "The same as a list of what happened");
        let heads = ["After", "What"];
        table(
            html,
            "events",
            "What happened to this call",
            &heads,
            |html| {
                for (at, event) in timeline.events.iter().enumerate() {
                    row(html, &format!("event-{at}"), "", |html| {
                        cell(html, "num", |html| html.text(of_ms(event.at_ms)));
                        cell(html, "", |html| {
                            html.text(words(&event.what));
                            if let Happening::AttemptEnded { n, .. } = event.what
                                && let Some(attempt) = attempt(timeline, n)
                            {
                                html.leaf("span", "sub", told(attempt));
                            }
                        });
                    });
                }
            },
        );
        if timeline.lost_events > 0 {
            let lost = timeline.lost_events;
            html.leaf(
                "p",
                "quiet",
                format_args!("{lost} more events are not kept."),
            );
        }
    });
}

fn attempt(timeline: &Timeline, n: u32) -> Option<&TimelineAttempt> {
    timeline
        .attempts
        .iter()
        .find(|attempt| attempt.record.n == n)
}

/// Returns what is known of an attempt that has ended, in words.
fn told(attempt: &TimelineAttempt) -> String {
    let record = &attempt.record;
    let status = record.status.map(|status| format!("status {status}, "));
    let gap = of_ms(whole_millis(record.longest_gap_ms.raw));
    let mut told = format!(
        "{}{} frames, {} heartbeats, longest silence {gap}",
        status.unwrap_or_default(),
        record.frames,
        record.heartbeats.total()
    );
    let since = |at: Option<u64>| at.map(|at| of_ms(at.saturating_sub(attempt.began_ms)));
    for (what, at) in [
        ("sent", record.sent_ms),
        ("headers", record.headers_ms),
        ("first content", record.first_content_ms),
    ] {
        if let Some(after) = since(at) {
            told = format!("{told}, {what} after {after}");
        }
    }
    match &attempt.reason {
        Some(reason) => format!("{reason}; {told}"),
        None => told,
    }
}

/// Returns what happened, in words.
pub(super) fn words(what: &Happening) -> String {
    match what {
        Happening::Queued { upstream, position } => {
            format!("waits in line for {upstream}, place {position}")
        }
        Happening::Held {
            upstream,
            why,
            wait_ms,
        } => format!(
            "held at {} for {}, after {}",
            upstream.as_deref().unwrap_or("its upstream"),
            of_ms(*wait_ms),
            why.name()
        ),
        Happening::Behind { upstream } => format!(
            "waits behind a hold on {} that has ended",
            upstream.as_deref().unwrap_or("its upstream")
        ),
        Happening::Attempt { n, upstream } => format!("attempt {n} begins at {upstream}"),
        Happening::Notice {
            n,
            number,
            clocks_ms,
            ..
        } => format!(
            "notice {number} in attempt {n}: no content for {}",
            of_ms(whole_millis(clocks_ms.content))
        ),
        Happening::AttemptEnded { n, outcome } => match outcome {
            lifesign_core::AttemptOutcome::Completed => format!("attempt {n} is complete"),
            lifesign_core::AttemptOutcome::Failed(code) => {
                format!("attempt {n} ends: {}", code.name())
            }
        },
        Happening::RetryWait { why, wait_ms } => {
            format!(
                "waits {} to be sent again, after {}",
                of_ms(*wait_ms),
                why.name()
            )
        }
        Happening::MovedOn { upstream, why } => {
            format!("moves on from {upstream}, after {}", why.name())
        }
        Happening::Opened {
            early: true,
            status,
        } => {
            format!("the response begins with {status}, for a beat")
        }
        Happening::Opened {
            early: false,
            status,
        } => {
            format!("the response begins with {status}")
        }
    }
}

/// More are in the view of the calls.
const MOST_LISTED: usize = 60;
