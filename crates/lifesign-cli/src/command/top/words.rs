//! Names, times and bars as a row of a terminal has them.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use lifesign_gateway::live::{CallNow, Snapshot};

use crate::output::plain;
use crate::status_line::short;

/// Returns all of it in a sentence.
///
/// Calls that their callers ended are no failures of an upstream, but where they are many somebody
/// has a limit that is too tight.
pub(super) fn summary(snapshot: &Snapshot) -> String {
    let sentence = plain(&snapshot.summary.sentence);
    match snapshot.summary.hour.cancelled {
        0 => sentence,
        count => format!("{sentence}; {count} cancelled"),
    }
}

/// Returns a time as short as a glance needs it.
pub(super) fn time(ms: u64) -> String {
    let time = Duration::from_millis(ms);
    match time.as_secs() / 3_600 {
        0 => short(time),
        hours @ 1..48 => format!("{hours}h{:02}m", time.as_secs() / 60 % 60),
        hours => format!("{}d{:02}h", hours / 24, hours % 24),
    }
}

/// Returns which attempt is under way, of how many; nothing before the first.
pub(super) fn attempt(call: &CallNow) -> String {
    match call.attempt {
        0 => "-".to_owned(),
        n => format!("{n}/{}", call.of),
    }
}

/// Returns when something was, UTC: the time of day, and the day where that was another.
pub(super) fn moment(at: Option<Timestamp>, now: Timestamp) -> String {
    let Some(at) = at else {
        return "-".to_owned();
    };
    let form = if at.duration_until(now) < SignedDuration::from_hours(24) {
        "%H:%M:%S"
    } else {
        "%Y-%m-%d %H:%M:%S"
    };
    at.strftime(form).to_string()
}

/// Returns what comes next if nothing else does.
pub(super) fn next(call: &CallNow) -> String {
    if let Some(position) = call.position {
        return format!("place {position} in line");
    }
    if let Some(ms) = call.goes_on_in_ms {
        return format!("goes on in {}", time(ms));
    }
    match &call.next_bound {
        Some(next) => format!("{} in {}", next.bound.name(), time(next.in_ms)),
        None => "-".to_owned(),
    }
}

/// Returns where the attempt under way stands.
pub(super) fn phase(call: &CallNow) -> String {
    call.phase
        .map_or_else(|| "-".to_owned(), |phase| phase.name().replace('_', " "))
}

/// Returns the end of an id: its beginning is the time, which calls of one moment share.
pub(super) fn short_id(id: &str) -> String {
    let id = plain(id);
    let skipped = id.chars().count().saturating_sub(ID_LEN);
    id.chars().skip(skipped).collect()
}

/// Returns a bar that is full where a clock has come to its limit.
pub(super) fn bar(age_ms: u64, limit_ms: u64, width: u16) -> String {
    let cells = u64::from(width);
    let filled = match limit_ms {
        0 => cells,
        limit => (age_ms.saturating_mul(cells) / limit).min(cells),
    };
    let cell = |at| if at < filled { FULL } else { EMPTY };
    (0..cells).map(cell).collect()
}

/// A full block, and a light shade.
const FULL: char = '\u{2588}';
const EMPTY: char = '\u{2591}';

/// The characters of an id that are shown.
const ID_LEN: usize = 8;

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_bar_is_full_at_its_limit_and_no_longer_than_that() {
        let bars = [0, 50, 99, 100, 700].map(|age| bar(age, 100, 4));

        let (full, empty) = (FULL.to_string(), EMPTY.to_string());
        assert_eq!(bars[0], empty.repeat(4));
        assert_eq!(bars[1], full.repeat(2) + &empty.repeat(2));
        assert_eq!(bars[2], full.repeat(3) + &empty);
        assert_eq!(bars[3], full.repeat(4));
        assert_eq!(bars[4], full.repeat(4));
    }

    #[test]
    fn a_moment_of_another_day_says_which() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = at("2026-11-30T03:00:00Z");

        let told = |text| moment(Some(at(text)), now);

        assert_eq!(told("2026-11-29T23:10:01Z"), "23:10:01");
        assert_eq!(told("2026-11-28T23:10:01Z"), "2026-11-28 23:10:01");
        assert_eq!(moment(None, now), "-");
    }

    #[test]
    fn times_grow_into_hours_and_days() {
        let hour = 3_600_000;
        for (ms, text) in [
            (1_200, "1.2s"),
            (150_000, "2m30s"),
            (hour + 60_000, "1h01m"),
            (50 * hour, "2d02h"),
        ] {
            assert_eq!(time(ms), text);
        }
    }
}
