//! A line of the log as a JSON object.
//!
//! There is a line for each call, so what it costs is what every call costs: it is written in one pass,
//! and of its time only what has changed since the line before.

use std::cell::RefCell;
use std::fmt::{self, Write};

use jiff::Timestamp;
use lifesign::clock;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes `timestamp`, `level` and the event's own fields.
pub(super) struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        DESK.with_borrow_mut(|Desk { line, time }| {
            line.clear();
            line.push_str("{\"timestamp\":\"");
            time.write(clock::timestamp(), line)?;
            line.push_str("\",\"level\":\"");
            line.push_str(event.metadata().level().as_str());
            line.push('"');
            let mut fields = Fields {
                line,
                written: Ok(()),
            };
            event.record(&mut fields);
            fields.written?;
            line.push_str("}\n");
            writer.write_str(line)
        })
    }
}

thread_local! {
    static DESK: RefCell<Desk> = const { RefCell::new(Desk {
        line: String::new(),
        time: Time { second: i64::MIN, text: String::new() },
    }) };
}

/// What one thread writes lines with.
struct Desk {
    line: String,
    time: Time,
}

/// The time, in which most lines differ from the one before by microseconds alone.
struct Time {
    second: i64,
    text: String,
}

impl Time {
    fn write(&mut self, now: Timestamp, line: &mut String) -> fmt::Result {
        let second = now.as_second();
        if second != self.second {
            self.text.clear();
            write!(self.text, "{}", now.strftime("%Y-%m-%dT%H:%M:%S."))?;
            self.second = second;
        }
        line.push_str(&self.text);
        write!(line, "{:06}Z", now.subsec_microsecond())
    }
}

/// Writes the fields of an event behind those that are there.
struct Fields<'a> {
    line: &'a mut String,
    written: fmt::Result,
}

impl Fields<'_> {
    fn name(&mut self, field: &Field) {
        self.line.push_str(",\"");
        // A name of ours that Rust keeps for itself is written with a mark.
        let name = field.name();
        self.line.push_str(name.strip_prefix("r#").unwrap_or(name));
        self.line.push_str("\":");
    }

    fn write(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        self.name(field);
        self.written = self.written.and_then(|()| self.line.write_fmt(value));
    }
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.name(field);
        self.line.push('"');
        push_escaped(self.line, value);
        self.line.push('"');
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.write(field, format_args!("{value}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.write(field, format_args!("{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.write(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.name(field);
        self.line.push('"');
        let written = write!(Escaping(self.line), "{value:?}");
        self.written = self.written.and(written);
        self.line.push('"');
    }
}

/// Writes text into a JSON string.
struct Escaping<'a>(&'a mut String);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        push_escaped(self.0, text);
        Ok(())
    }
}

fn push_escaped(line: &mut String, text: &str) {
    let is_plain = |byte: &u8| *byte >= 0x20 && *byte != b'"' && *byte != b'\\';
    if text.as_bytes().iter().all(is_plain) {
        line.push_str(text);
        return;
    }
    for char in text.chars() {
        match char {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            // To a text nothing fails to be written.
            '\0'..' ' => write!(line, "\\u{:04x}", u32::from(char)).unwrap_or_default(),
            _ => line.push(char),
        }
    }
}

#[cfg(test)]
mod tests;
