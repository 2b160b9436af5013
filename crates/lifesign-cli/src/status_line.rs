//! One line on the terminal that says what a call is doing.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use lifesign::{Doing, Snapshot};
use lifesign_core::{Clock, HeartbeatOrigin, Phase, Readings};

/// A line on standard error that is written over itself.
///
/// It is there only where standard error is a terminal; elsewhere every method does nothing.
#[derive(Debug)]
pub(crate) struct StatusLine {
    shown: bool,
    live: bool,
}

impl StatusLine {
    pub(crate) fn new() -> Self {
        Self {
            shown: false,
            live: io::stderr().is_terminal(),
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    pub(crate) fn show(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        if !self.live {
            return Ok(());
        }
        self.shown = true;
        write!(
            io::stderr().lock(),
            "\r\x1b[2K{}",
            fitting(&text_of(snapshot))
        )?;
        io::stderr().flush()
    }

    /// Wipes the line, so that something else can be written.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        if !self.shown {
            return Ok(());
        }
        self.shown = false;
        write!(io::stderr().lock(), "\r\x1b[2K")?;
        io::stderr().flush()
    }
}

/// Returns as much of `line` as the terminal shows without a second row, which could not be
/// written over.
pub(crate) fn fitting(line: &str) -> String {
    let width = terminal_size::terminal_size_of(io::stderr())
        .map_or(COMMON_WIDTH, |(width, _)| usize::from(width.0));
    // Some terminals go to the next row as soon as the last column is written.
    line.chars().take(width.saturating_sub(1)).collect()
}

/// Says what a call is doing, in one line; what matters most comes first.
pub(crate) fn text_of(snapshot: &Snapshot) -> String {
    let mut text = format!("{:>6}  ", short(snapshot.elapsed));
    match snapshot.doing {
        Doing::Starting => text.push_str("starting"),
        Doing::Holding { until } => {
            let left = until.saturating_sub(snapshot.elapsed);
            push(
                &mut text,
                format_args!("on hold after a rate limit, {} more", short(left)),
            );
        }
        Doing::RetryWait { until } => {
            let left = until.saturating_sub(snapshot.elapsed);
            let next = snapshot.attempt + 1;
            push(
                &mut text,
                format_args!("attempt {next} of {} in {}", snapshot.of, short(left)),
            );
        }
        Doing::Attempting => {
            push(
                &mut text,
                format_args!("attempt {} of {}  ", snapshot.attempt, snapshot.of),
            );
            if let Some(readings) = &snapshot.readings {
                push_readings(&mut text, readings, snapshot.elapsed);
            }
        }
        Doing::Ended => text.push_str("ended"),
    }
    text
}

fn push_readings(text: &mut String, readings: &Readings, now: Duration) {
    let doing = match (readings.phase, readings.stage) {
        (Phase::Queued, _) => "queued".to_owned(),
        (Phase::Connecting, Some(stage)) => format!("connecting ({})", stage.name()),
        (Phase::Connecting, None) => "connecting".to_owned(),
        (Phase::Sending, _) => "sending".to_owned(),
        (Phase::WaitingForHeaders, _) => "waiting for the response".to_owned(),
        (Phase::BeforeContent, _) => "no content yet".to_owned(),
        (Phase::AfterContent, _) => "answering".to_owned(),
        (Phase::Ended, _) => "ended".to_owned(),
    };
    text.push_str(&doing);
    if let Some((bound, due)) = readings.next {
        let left = short(due.saturating_sub(now));
        push(text, format_args!("  next: {} in {left}", bound.name()));
    }
    if readings.phase > Phase::Connecting {
        text.push_str("  quiet:");
        for clock in Clock::ALL {
            let name = match clock {
                Clock::Raw => "bytes",
                Clock::Event => "events",
                Clock::Content => "content",
                Clock::Output => "output",
            };
            push(
                text,
                format_args!(" {name} {}", short(readings.ages.clock(clock))),
            );
        }
    }
    if let Some(heartbeat) = &readings.heartbeat {
        let whose = match heartbeat.origin {
            HeartbeatOrigin::Provider => "provider",
            HeartbeatOrigin::Comment => "line",
            HeartbeatOrigin::Proxy => "proxy",
        };
        push(
            text,
            format_args!("  {whose} alive {} ago", short(heartbeat.age)),
        );
    }
}

fn push(text: &mut String, part: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _never = text.write_fmt(part);
}

/// A duration as short as a glance needs it: `3.2s`, `45s`, `12m05s`.
fn short(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 10 {
        format!("{:.1}s", duration.as_secs_f64())
    } else if seconds < 120 {
        format!("{seconds}s")
    } else {
        format!("{}m{:02}s", seconds / 60, seconds % 60)
    }
}

/// The columns of a terminal that does not say how many it has.
const COMMON_WIDTH: usize = 80;

#[cfg(test)]
mod tests {
    use lifesign_core::{Ages, BoundName, LastHeartbeat};

    use super::*;

    #[test]
    fn a_line_names_the_attempt_every_clock_and_the_next_verdict() {
        let readings = Readings {
            phase: Phase::BeforeContent,
            stage: None,
            ages: Ages::of(|clock| Duration::from_secs(10 * (clock as u64 + 1))),
            next: Some((BoundName::BeforeContent, Duration::from_mins(1))),
            heartbeat: Some(LastHeartbeat {
                origin: HeartbeatOrigin::Provider,
                age: Duration::from_secs(3),
            }),
            paused: Duration::ZERO,
        };
        let snapshot = Snapshot {
            attempt: 2,
            of: 4,
            elapsed: Duration::from_secs(42),
            doing: Doing::Attempting,
            readings: Some(readings),
        };

        assert_eq!(
            text_of(&snapshot),
            "   42s  attempt 2 of 4  no content yet  next: before_content in 18s  quiet: bytes 10s \
             events 20s content 30s output 40s  provider alive 3.0s ago"
        );
    }

    #[test]
    fn a_wait_says_how_long_it_still_is() {
        let snapshot = Snapshot {
            attempt: 1,
            of: 4,
            elapsed: Duration::from_secs(5),
            doing: Doing::RetryWait {
                until: Duration::from_secs(130),
            },
            readings: None,
        };

        assert_eq!(text_of(&snapshot), "  5.0s  attempt 2 of 4 in 2m05s");
    }
}
