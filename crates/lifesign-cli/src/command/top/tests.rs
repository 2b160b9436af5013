//! What keys do, and what is drawn of a given moment.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use insta::assert_snapshot;
use lifesign_gateway::live::{Snapshot, Timeline};
use pretty_assertions::assert_eq;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use serde_json::{Value, json};

use super::app::{App, Question, Tab, Wish};
use super::plain;
use super::view::{Theme, draw};

fn call(id: &str, more: &Value) -> Value {
    let mut call = json!({
        "id": id, "at": "2026-11-30T02:58:00Z", "key": null, "route": "/v1/messages",
        "wire": "anthropic", "model": "claude-sonnet", "streamed": true, "upstream": "claude",
        "state": "thinking", "sentence": "The model thinks.", "doing": "attempting",
        "phase": "before_content", "stage": null, "attempt": 1, "of": 3, "elapsed_ms": 42_000,
        "clocks_ms": {"raw": 1_000, "event": 30_000, "content": 41_000, "output": 41_000},
        "bounds": [
            {"bound": "raw_silence", "clock": "raw", "age_ms": 1_000, "limit_ms": 180_000,
             "in_ms": 179_000, "setting": "bounds.raw_silence", "origin": "default"},
            {"bound": "before_content", "clock": "content", "age_ms": 41_000, "limit_ms": 60_000,
             "in_ms": 19_000, "setting": "bounds.before_content", "origin": "gateway.toml:7"},
        ],
        "next_bound": {"bound": "before_content", "in_ms": 19_000},
        "position": null, "goes_on_in_ms": null, "why": null, "unread_ms": null,
        "reasoning": false, "heartbeats": {"provider": 3, "comment": 0, "proxy": 0},
        "last_heartbeat": {"origin": "provider", "age_ms": 1_000}, "beats": 4,
    });
    for (name, value) in more.as_object().unwrap() {
        call[name] = value.clone();
    }
    call
}

fn snapshot() -> Snapshot {
    let silent = json!({
        "state": "silent", "sentence": "Nothing has come for 55 s.", "attempt": 2,
        "model": "m\u{1b}[2Jodel", "elapsed_ms": 130_000,
        "clocks_ms": {"raw": 55_000, "event": 55_000, "content": 55_000, "output": 55_000},
        "bounds": [{"bound": "raw_silence", "clock": "raw", "age_ms": 55_000, "limit_ms": 60_000,
            "in_ms": 5_000, "setting": "bounds.raw_silence", "origin": "call"}],
        "next_bound": {"bound": "raw_silence", "in_ms": 5_000},
    });
    let queued = json!({
        "state": "queued", "sentence": "It waits in line.", "attempt": 0, "position": 2,
        "phase": null, "clocks_ms": null, "bounds": [], "next_bound": null, "key": "shop",
    });
    let told = json!({
        "v": 1, "seq": 7, "at": "2026-11-30T03:00:00Z", "started": "2026-11-29T23:30:00Z",
        "version": "0.1.0", "draining": false,
        "summary": {
            "sentence": "3 calls: 1 thinking, 1 silent, 1 queued; last hour: 20 ended, 1 failed",
            "calls": 3, "states": {"thinking": 1, "silent": 1, "queued": 1},
            "hour": {"ended": 20, "failed": 1, "cancelled": 4, "failures": []},
        },
        "calls": [
            call("0199-thinking", &json!({})),
            call("0199-waiting1", &queued),
            call("0199-silent01", &silent),
        ],
        "more_calls": 0,
        "upstreams": [
            {"name": "claude", "health": "held", "sentence": "A hold is on it.",
             "in_flight": 2, "concurrency": 64, "waiting": 1, "queue": 256,
             "breakers": {"failures": "open", "slowness": "closed"},
             "holds": [{"id": "h1", "model": "claude-sonnet", "credential": null,
                "why": "rate_limited", "remaining_ms": 12_000, "until": null,
                "probe": "0199-silent01"}],
             "first_content": {"p50_ms": 900, "p95_ms": 4_200, "count": 20},
             "last_completed": "2026-11-30T02:41:07Z",
             "attempts": 30, "failed": 12,
             "failures": [{"code": "rate_limited", "upstream": null, "count": 12}]},
            {"name": "llama", "health": "idle", "sentence": "Nobody has asked it.",
             "in_flight": 0, "concurrency": 2, "waiting": 0, "queue": 32,
             "breakers": {"failures": "closed", "slowness": "closed"}, "holds": [],
             "first_content": null, "attempts": 0, "failed": 0, "failures": []},
        ],
        "recent": [
            ended("0199-failed01", &json!({})),
            ended("0199-whole001", &json!({"outcome": "completed", "code": null, "cut": null})),
        ],
        "silence_limits_ms": [], "silence": [],
    });
    serde_json::from_value(told).unwrap()
}

fn ended(id: &str, more: &Value) -> Value {
    let mut call = json!({
        "id": id, "at": "2026-11-30T02:57:00Z", "ended_at": "2026-11-30T02:58:30Z", "key": null,
        "route": "/v1/messages", "model": "claude-sonnet", "upstream": "claude",
        "outcome": "failed", "sentence": "Nothing came for 45 s, which is as long as is borne.",
        "told": "The model's server went quiet for 45 s; trying again may help.",
        "hint": null,
        "code": "raw_silent",
        "cut": {"bound": "raw_silence", "limit_ms": 45_000, "setting": "bounds.raw_silence",
            "origin": "gateway.toml:9", "remedy": "Raise bounds.raw_silence, at gateway.toml:9."},
        "status": 504, "attempts": 2, "elapsed_ms": 90_500, "first_content_ms": null,
        "queued_ms": 0, "held_ms": 0, "retry_wait_ms": 1_000, "beats": 8,
    });
    for (name, value) in more.as_object().unwrap() {
        call[name] = value.clone();
    }
    call
}

fn timeline() -> Timeline {
    let attempt = json!({
        "n": 1, "upstream": "claude", "outcome": "raw_silent", "bound": "raw_silence",
        "phase": "before_content", "status": 200, "request_id": null, "waited_ms": 0, "sent_ms": 3,
        "headers_ms": 120, "first_byte_ms": 130, "first_content_ms": null, "ended_ms": 45_130,
        "longest_gap_ms": {"raw": 45_000, "event": 45_000, "content": 45_130, "output": 45_130},
        "bytes": 200, "frames": 5, "heartbeats": {"provider": 3, "comment": 0, "proxy": 0},
        "notices": 1, "late_ms": 0, "retry_after_ms": null, "usage": null, "live": false,
        "began_ms": 1, "model": "claude-sonnet", "profile": "progress", "cut": null,
        "reason": "no byte for 45 s", "ticks": [], "silences": [],
    });
    let told = json!({
        "v": 1, "id": "0199-failed01", "at": "2026-11-30T02:57:00Z", "elapsed_ms": 90_500,
        "now": null, "ended": ended("0199-failed01", &json!({})), "attempts": [attempt],
        "events": [
            {"at_ms": 1, "what": "attempt", "n": 1, "upstream": "claude"},
            {"at_ms": 30_000, "what": "notice", "n": 1, "number": 1, "phase": "before_content",
             "clocks_ms": {"raw": 29_900, "event": 29_900, "content": 30_000, "output": 30_000}},
            {"at_ms": 45_130, "what": "attempt_ended", "n": 1, "outcome": "raw_silent"},
            {"at_ms": 45_131, "what": "retry_wait", "why": "raw_silent", "wait_ms": 1_000},
        ],
        "lost_events": 2, "bounds": [],
    });
    serde_json::from_value(told).unwrap()
}

fn app() -> App {
    App::new("http://127.0.0.1:4631".to_owned(), snapshot())
}

fn press(app: &mut App, code: KeyCode) -> Option<Wish> {
    app.handle_key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn type_in(app: &mut App, keys: &str) -> Option<Wish> {
    let mut wish = None;
    for key in keys.chars() {
        wish = press(app, KeyCode::Char(key));
    }
    wish
}

fn drawn(app: &App, columns: u16, rows: u16) -> String {
    terminal(app, columns, rows, true).backend().to_string()
}

fn terminal(app: &App, columns: u16, rows: u16, has_colours: bool) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal
        .draw(|frame| draw(frame, app, Theme { has_colours }))
        .unwrap();
    terminal
}

#[test]
fn calls_are_drawn_with_their_clocks_against_the_bounds_the_next_cut_first() {
    assert_snapshot!(drawn(&app(), 160, 16));
}

#[test]
fn a_narrow_terminal_gets_the_most_telling_columns() {
    let app = app();

    assert_snapshot!("narrow_110", drawn(&app, 110, 10));
    assert_snapshot!("narrow_80", drawn(&app, 80, 10));
    assert_snapshot!("narrow_40", drawn(&app, 40, 10));
}

#[test]
fn no_size_of_a_terminal_is_too_small_to_be_drawn_on() {
    let mut app = app();
    app.handle_loss("it is gone".to_owned());
    for tab in ['1', '2', '3'] {
        type_in(&mut app, &tab.to_string());
        // Columns and lines come and go at some of these.
        for columns in [
            1, 2, 5, 13, 29, 30, 39, 49, 63, 69, 83, 95, 99, 111, 130, 150, 170, 300,
        ] {
            for rows in [1, 2, 3, 4, 5, 9, 10, 11, 60] {
                drawn(&app, columns, rows);
            }
        }
    }
}

#[test]
fn upstreams_are_drawn_with_their_holds() {
    let mut app = app();
    type_in(&mut app, "2j");

    assert_snapshot!(drawn(&app, 120, 16));
}

#[test]
fn failures_are_drawn_with_what_happened_and_what_changes_it() {
    let mut app = app();
    type_in(&mut app, "3");

    assert_snapshot!(drawn(&app, 120, 16));
}

#[test]
fn a_call_is_drawn_from_its_beginning_on() {
    let mut app = app();
    type_in(&mut app, "3");
    let wish = press(&mut app, KeyCode::Enter);
    app.handle_timeline(Box::new(timeline()));

    assert_eq!(
        wish,
        Some(Wish::Show {
            call: Some("0199-failed01".to_owned())
        })
    );
    assert_snapshot!(drawn(&app, 120, 24));
    assert_eq!(
        press(&mut app, KeyCode::Esc),
        Some(Wish::Show { call: None })
    );
    assert!(app.details.is_none());
}

#[test]
fn a_gateway_that_is_gone_is_told_and_what_it_said_last_stays() {
    let mut app = app();
    app.handle_loss("connection refused".to_owned());
    app.handle_loss("connection refused".to_owned());

    assert_snapshot!(drawn(&app, 100, 12));

    let mut again = snapshot();
    again.started = again.at;
    app.handle_snapshot(again);
    assert_eq!(app.note.as_deref(), Some("the gateway has started anew"));
}

#[test]
fn the_same_once_is_plain_text() {
    assert_snapshot!(plain::lines(&snapshot()).join("\n"));
}

#[test]
fn without_colours_nothing_is_coloured() {
    let app = app();
    let coloured = |has_colours| {
        let terminal = terminal(&app, 140, 14, has_colours);
        let cells = terminal.backend().buffer().content();
        cells.iter().filter(|cell| cell.fg != Color::Reset).count()
    };

    assert!(coloured(true) > 0);
    assert_eq!(coloured(false), 0);
}

#[test]
fn a_call_is_cancelled_after_a_yes_and_nothing_else() {
    let mut app = app();
    let call = "0199-thinking".to_owned();

    // The silent one, which is cut next, stands first.
    assert_eq!(type_in(&mut app, "jc"), None);
    assert_eq!(app.question, Some(Question::Cancel { call: call.clone() }));
    assert!(drawn(&app, 80, 12).contains("Cancel call thinking? y/n"));
    assert_eq!(type_in(&mut app, "n"), None);
    assert_eq!(app.question, None);
    assert_eq!(type_in(&mut app, "cq"), None, "a no, and not a wish to go");

    assert_eq!(type_in(&mut app, "cy"), Some(Wish::Cancel { call }));
}

#[test]
fn a_hold_is_released_from_its_row_or_from_its_upstream() {
    let release = Some(Wish::Release {
        hold: "h1".to_owned(),
    });

    assert_eq!(type_in(&mut app(), "2ry"), release);
    assert_eq!(type_in(&mut app(), "2jry"), release);
    assert_eq!(
        type_in(&mut app(), "2Gry"),
        None,
        "nothing holds the last upstream"
    );
    assert_eq!(type_in(&mut app(), "ry"), None, "calls are no holds");
}

#[test]
fn what_is_chosen_stays_chosen_where_the_list_moves() {
    let mut app = app();
    type_in(&mut app, "j");
    let mut later = snapshot();
    // What was cut next has ended.
    later.calls.retain(|call| call.id != "0199-silent01");

    app.handle_snapshot(later);

    assert_eq!(app.position(), Some(0));
    assert_eq!(app.calls()[0].id, "0199-thinking");
    let mut none = snapshot();
    none.calls.clear();
    app.handle_snapshot(none);
    assert_eq!((app.position(), type_in(&mut app, "cjy")), (None, None));
}

#[test]
fn keys_go_through_the_lists_and_out() {
    let mut app = app();

    let tabs = [KeyCode::Tab, KeyCode::Tab, KeyCode::Tab, KeyCode::BackTab].map(|key| {
        press(&mut app, key);
        app.tab
    });
    assert_eq!(
        tabs,
        [Tab::Upstreams, Tab::Failures, Tab::Calls, Tab::Failures]
    );
    type_in(&mut app, "1");
    press(&mut app, KeyCode::End);
    assert_eq!(app.position(), Some(2));
    press(&mut app, KeyCode::Down);
    assert_eq!(app.position(), Some(2));
    press(&mut app, KeyCode::PageUp);
    assert_eq!(app.position(), Some(0));
    assert_eq!(type_in(&mut app, "q"), Some(Wish::Quit));
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(app.handle_key(interrupt), Some(Wish::Quit));
}
