//! One line on the terminal that says what a call is doing.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use lifesign::{Clock, Doing, HeartbeatOrigin, Phase, Readings, Snapshot};

/// A line on standard error that is written over itself.
///
/// It is there only where standard error is a terminal that can wipe a row; elsewhere every method does nothing.
#[derive(Debug)]
pub(crate) struct StatusLine {
    shown: bool,
    live: bool,
}

impl StatusLine {
    pub(crate) fn new() -> Self {
        Self {
            shown: false,
            live: can_be_written_over(),
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    pub(crate) fn show(&mut self, status: Status) -> io::Result<()> {
        if !self.live {
            return Ok(());
        }
        self.shown = true;
        write!(io::stderr().lock(), "{WIPE}{}", status.fitting(columns()))?;
        io::stderr().flush()
    }

    /// Wipes the line, so that something else can be written.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        if !self.shown {
            return Ok(());
        }
        self.shown = false;
        write!(io::stderr().lock(), "{WIPE}")?;
        io::stderr().flush()
    }
}

/// Returns whether standard error is a terminal that can wipe a row.
pub(crate) fn can_be_written_over() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Returns how many columns a line may have on this terminal without a second row, which could not
/// be written over: the last ones stay free for the `^C` that a terminal echoes.
pub(crate) fn columns() -> usize {
    let columns = terminal_size::terminal_size_of(io::stderr())
        .map_or(COMMON_COLUMNS, |(width, _)| usize::from(width.0));
    columns.saturating_sub(ECHO_COLUMNS)
}

/// What a call is doing, in parts that can be left out one by one.
pub(crate) struct Status(Vec<Part>);

struct Part {
    text: String,
    /// Parts of a lower rank are left out first.
    rank: u8,
}

impl Status {
    /// Says what a call is doing, with every time made `speed` times as long.
    pub(crate) fn of(snapshot: &Snapshot, speed: u32) -> Self {
        let mut status = Self::since(snapshot.elapsed.saturating_mul(speed));
        status.add_call(snapshot, speed, "answering");
        status
    }

    /// Begins with how long it has taken so far.
    pub(crate) fn since(elapsed: Duration) -> Self {
        Self(vec![Part {
            text: format!("{:>6}", short(elapsed)),
            rank: MUST,
        }])
    }

    /// Says what a call is doing, and `content` where content has come of it.
    pub(crate) fn add_call(&mut self, snapshot: &Snapshot, speed: u32, content: &str) {
        let life = |time: Duration| short(time.saturating_mul(speed));
        let left = |until: Duration| life(until.saturating_sub(snapshot.elapsed));
        match snapshot.doing {
            Doing::Starting => self.say("starting"),
            Doing::Queued => self.say("waiting in line"),
            Doing::Holding { until } => self.say(format!("on hold, {} more", left(until))),
            Doing::RetryWait { until } => {
                let next = snapshot.attempt + 1;
                self.say(format!("attempt {next} in {}", left(until)));
            }
            Doing::Attempting => {
                self.add(8, format!("attempt {}", snapshot.attempt));
                if let Some(readings) = &snapshot.readings {
                    self.add_readings(readings, snapshot.elapsed, content, life);
                }
            }
            Doing::Ended => self.say("ended"),
        }
    }

    /// Adds what is left out last.
    pub(crate) fn say(&mut self, text: impl Into<String>) {
        self.add(MUST, text.into());
    }

    /// Returns as many of the parts as fit, the most telling ones.
    pub(crate) fn fitting(mut self, columns: usize) -> String {
        loop {
            let texts: Vec<_> = self.0.iter().map(|part| part.text.as_str()).collect();
            let line = texts.join("  ");
            let least = self.0.iter().map(|part| part.rank).min();
            if width(&line) <= columns || self.0.len() <= 1 {
                return cut(&line, columns);
            }
            let last = self.0.iter().rposition(|part| Some(part.rank) == least);
            self.0.remove(last.unwrap_or_default());
        }
    }

    /// Adds what is left out before everything of a higher rank.
    pub(crate) fn add(&mut self, rank: u8, text: String) {
        self.0.push(Part { text, rank });
    }

    fn add_readings(
        &mut self,
        readings: &Readings,
        now: Duration,
        content: &str,
        life: impl Fn(Duration) -> String,
    ) {
        self.add(7, doing(readings, content));
        if let Some((bound, due)) = readings.next {
            let left = life(due.saturating_sub(now));
            self.add(6, format!("cut in {left} by {}", bound.name()));
        }
        if readings.phase > Phase::Connecting {
            for (clock, name, rank) in [
                (Clock::Raw, "bytes", 5),
                (Clock::Event, "events", 3),
                (Clock::Content, "content", 4),
                (Clock::Output, "output", 1),
            ] {
                self.add(rank, format!("{name} {}", life(readings.ages.clock(clock))));
            }
        }
        if let Some(heartbeat) = &readings.heartbeat {
            let whose = match heartbeat.origin {
                HeartbeatOrigin::Provider => "provider",
                HeartbeatOrigin::Comment => "line",
                HeartbeatOrigin::Proxy => "proxy",
            };
            self.add(2, format!("{whose} alive {} ago", life(heartbeat.age)));
        }
    }
}

fn doing(readings: &Readings, content: &str) -> String {
    let doing = match (readings.phase, readings.stage) {
        (Phase::Queued, _) => "queued",
        (Phase::Connecting, Some(stage)) => return format!("connecting ({})", stage.name()),
        (Phase::Connecting, None) => "connecting",
        (Phase::Sending, _) => "sending",
        (Phase::WaitingForHeaders, _) => "no response yet",
        (Phase::BeforeContent, _) => "no content yet",
        (Phase::AfterContent, _) => content,
        (Phase::Ended, _) => "ended",
    };
    doing.to_owned()
}

/// Returns the most columns that `text` may take: somebody else's letters may be two wide.
fn width(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

fn cut(text: &str, columns: usize) -> String {
    let mut left = columns;
    let fits = |c: &char| {
        let takes = columns_of(*c);
        let fits = takes <= left;
        left = left.saturating_sub(takes);
        fits
    };
    text.chars().take_while(fits).collect()
}

const fn columns_of(c: char) -> usize {
    if c.is_ascii() { 1 } else { 2 }
}

/// A duration as short as a glance needs it: `3.2s`, `45s`, `12m05s`.
pub(crate) fn short(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 10 {
        format!("{:.1}s", duration.as_secs_f64())
    } else if seconds < 120 {
        format!("{seconds}s")
    } else {
        format!("{}m{:02}s", seconds / 60, seconds % 60)
    }
}

/// What wipes the row on which the line stands, and goes to its beginning.
pub(crate) const WIPE: &str = "\r\x1b[2K";

/// The rank of what is left out last.
const MUST: u8 = 9;

/// The columns of a terminal that does not say how many it has.
const COMMON_COLUMNS: usize = 80;

/// `^C`, and the column behind it: some terminals go on to the next row as soon as the last one is
/// written.
const ECHO_COLUMNS: usize = 3;

#[cfg(test)]
mod tests {
    use lifesign::{Ages, BoundName};
    use lifesign_core::LastHeartbeat;

    use super::*;

    fn silent_for_a_while() -> Snapshot {
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
        Snapshot {
            attempt: 2,
            of: 4,
            elapsed: Duration::from_secs(42),
            doing: Doing::Attempting,
            readings: Some(readings),
        }
    }

    #[test]
    fn a_line_names_the_attempt_the_next_verdict_and_every_clock() {
        assert_eq!(
            Status::of(&silent_for_a_while(), 1).fitting(200),
            "   42s  attempt 2  no content yet  cut in 18s by before_content  bytes 10s  \
             events 20s  content 30s  output 40s  provider alive 3.0s ago"
        );
    }

    #[test]
    fn a_narrow_line_leaves_out_whole_parts_and_the_least_telling_first() {
        let line = |columns| Status::of(&silent_for_a_while(), 1).fitting(columns);

        assert_eq!(
            line(90),
            "   42s  attempt 2  no content yet  cut in 18s by before_content  bytes 10s  content 30s"
        );
        assert_eq!(
            line(70),
            "   42s  attempt 2  no content yet  cut in 18s by before_content"
        );
        assert_eq!(line(20), "   42s  attempt 2");
        assert_eq!(line(4), "   4");
    }

    #[test]
    fn letters_that_may_be_wide_do_not_begin_a_second_row() {
        let mut status = Status(Vec::new());
        status.say("\u{4e00}".repeat(10));

        assert_eq!(status.fitting(7), "\u{4e00}".repeat(3));
    }

    #[test]
    fn a_wait_says_how_long_it_still_is_at_whatever_speed() {
        let snapshot = Snapshot {
            attempt: 1,
            of: 4,
            elapsed: Duration::from_secs(5),
            doing: Doing::RetryWait {
                until: Duration::from_secs(130),
            },
            readings: None,
        };

        assert_eq!(
            Status::of(&snapshot, 1).fitting(80),
            "  5.0s  attempt 2 in 2m05s"
        );
        assert_eq!(
            Status::of(&snapshot, 10).fitting(80),
            "   50s  attempt 2 in 20m50s"
        );
    }
}
