//! Lines of the log as programs read them.

use std::io;
use std::sync::{Arc, Mutex};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

/// Keeps what is written.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lines(log: impl FnOnce()) -> Vec<Value> {
    let kept = Kept::default();
    let writer = kept.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .event_format(JsonLines)
        .finish();
    tracing::subscriber::with_default(subscriber, log);
    let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

#[test]
fn an_event_is_one_object_with_its_fields_as_they_are() {
    let none: Option<&str> = None;
    let lines = lines(|| {
        tracing::warn!(
            text = "a \"b\" \\ \n\t\u{1}\u{e9}",
            shown = %"c\"d",
            count = 7_u64, less = -7, is = true, none, some = Some(3_u64), r#type = "x",
            "what {}", "happened"
        );
        tracing::info!("next");
    });

    let mut first = lines[0].clone();
    let time = first.as_object_mut().unwrap().remove("timestamp").unwrap();
    assert_eq!(
        first,
        json!({
            "level": "WARN", "message": "what happened", "text": "a \"b\" \\ \n\t\u{1}\u{e9}",
            "shown": "c\"d", "count": 7, "less": -7, "is": true, "some": 3, "type": "x",
        })
    );
    let time = time.as_str().unwrap();
    assert_eq!(time.len(), "2026-11-30T13:24:00.000000Z".len(), "{time}");
    let age = clock::timestamp().duration_since(time.parse().unwrap());
    assert!(age.as_secs().abs() < 60, "{time}");
    assert_eq!(lines[1]["message"], "next");
}

#[test]
fn a_time_is_written_in_full_whatever_second_came_before() {
    let mut time = Time {
        second: i64::MIN,
        text: String::new(),
    };
    let mut write = |at: &str| {
        let mut line = String::new();
        time.write(at.parse().unwrap(), &mut line).unwrap();
        line
    };
    for at in [
        "2026-11-30T13:24:00.000000Z",
        "2026-11-30T13:24:00.000042Z",
        "2026-12-01T00:00:01.999999Z",
        "2026-11-30T13:24:00.500000Z",
    ] {
        assert_eq!(write(at), at);
    }
}
