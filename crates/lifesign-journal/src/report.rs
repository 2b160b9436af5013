//! What a journal tells: who failed of what, who was slow, and what was paid for nothing.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use lifesign_core::duration::whole_millis;
use serde::Serialize;

use self::query::{choose, int, time};
use super::store::{now, open_to_read};
use super::{JournalError, schema};

mod query;

/// Which calls a report is about: those for which all of these hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReportFilter {
    /// Those that began in this time until now.
    #[serde(skip)]
    pub since: Option<Duration>,
    /// Those that asked this upstream.
    pub upstream: Option<String>,
    /// Those for this model, as the caller or as the upstream calls it.
    pub model: Option<String>,
    /// Those that failed with this code, or one of whose attempts did.
    pub code: Option<String>,
    /// Those made with the caller's key of this name.
    pub key: Option<String>,
}

/// What a journal tells, version 1. The fields are described in `docs/reference/journal.md`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The version of this object's shape: 1.
    pub v: u32,
    /// The earliest beginning of a call that it is about; none for all that there are.
    pub since: Option<Timestamp>,
    /// When it was made.
    pub until: Timestamp,
    /// What it is about.
    pub filter: ReportFilter,
    /// The calls by their ends.
    pub calls: Calls,
    /// Failures of calls and attempts by code and upstream, most frequent first.
    pub by_code: Vec<FailureCount>,
    /// Attempts by upstream, most failures first.
    pub by_upstream: Vec<Place>,
    /// Attempts by the model that the upstream was asked for, most failures first.
    pub by_model: Vec<Place>,
    /// What ran out, most frequent first.
    pub by_bound: Vec<Bound>,
    /// The complete calls that took longest, and then the others that did.
    pub slowest: Vec<Slow>,
    /// The longest gaps of the raw clock, and then those of the content clock.
    pub silences: Vec<Silence>,
    /// How long calls waited before they were asked, or asked again, by upstream.
    pub waits: Vec<Waits>,
    /// Calls whose callers left, by key and upstream.
    pub left: Vec<Left>,
    /// How many calls took how many attempts.
    pub attempts: Vec<AttemptCount>,
    /// Tokens that were paid for.
    pub tokens: TokenSum,
    /// Those of attempts that failed.
    pub discarded: Vec<Discarded>,
    /// What the journal could not take in.
    pub lost: Lost,
}

/// Calls by their ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Calls {
    /// All of them.
    pub total: u64,
    /// Those whose answer is whole.
    pub completed: u64,
    /// Those whose answer broke off.
    pub truncated: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those whose caller left.
    pub cancelled: u64,
    /// Those under way.
    pub in_flight: u64,
    /// Those whose end nobody wrote down, since the gateway ended before.
    pub unknown: u64,
    /// Those of the last two that may be at another upstream than that of the filter: whom an
    /// attempt asks is written when it ends, and none has ended there. They are in no other table.
    pub unplaced: u64,
}

/// A failure, and how often it happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailureCount {
    /// The code.
    pub code: String,
    /// At which upstream; none where none was asked.
    pub upstream: Option<String>,
    /// Calls that ended so.
    pub calls: u64,
    /// Those of them that were never sent.
    pub unsent: u64,
    /// Attempts that ended so, of whatever became of their calls.
    pub attempts: u64,
    /// When it first happened.
    pub first: Timestamp,
    /// When it last happened.
    pub last: Timestamp,
    /// What was known of it then.
    pub message: Option<String>,
    /// The longest wait that the provider asked for; none where it asked for none.
    pub longest_retry_after_ms: Option<u64>,
}

/// What was asked, and how it went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The upstream or model; none where the caller named no model.
    pub name: Option<String>,
    /// Attempts.
    pub attempts: u64,
    /// Attempts that failed; those that the caller ended are not counted.
    pub failed: u64,
    /// Attempts that the caller ended, or an operator.
    pub left: u64,
    /// The code of most of those that failed.
    pub mostly: Option<String>,
    /// When an attempt was last complete; none where none was.
    pub last_completed: Option<Timestamp>,
    /// The median time from the beginning of an attempt to its first content.
    pub first_content_ms: Option<u64>,
    /// The median time that a complete attempt took.
    pub median_ms: Option<u64>,
    /// The longest.
    pub longest_ms: Option<u64>,
}

/// What ran out, and where its limit stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// The bound, or the failure code where it was a limit of size.
    pub bound: String,
    /// How often.
    pub cuts: u64,
    /// At which upstream; none where none was asked.
    pub upstream: Option<String>,
    /// The limit that was in force then; none where it was no time.
    pub limit_ms: Option<u64>,
    /// The setting that raises it.
    pub setting: Option<String>,
    /// Where its value came from.
    pub origin: Option<String>,
    /// The most that a complete attempt at that upstream needed of the same; none where none is
    /// complete. Near to the limit, the limit is tight; without one, the upstream is at fault.
    pub longest_completed_ms: Option<u64>,
    /// What was known of the last of them.
    pub message: Option<String>,
}

/// A call that took long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Slow {
    /// Its id.
    pub call: String,
    /// When it began.
    pub at: Timestamp,
    /// The name of the caller's key.
    pub key: Option<String>,
    /// Who was asked last.
    pub upstream: Option<String>,
    /// The model that was asked for.
    pub model: Option<String>,
    /// How it ended: the outcome, or the code of the failure.
    pub ended: String,
    /// How many attempts were made.
    pub attempts: u64,
    /// The whole time.
    pub elapsed_ms: u64,
    /// Of it, time in line, behind holds and before further attempts.
    pub waited_ms: u64,
}

/// A time in which a clock stood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Silence {
    /// The clock: `raw` or `content`.
    pub clock: String,
    /// How long.
    pub longest_ms: u64,
    /// In which phase; none where that is not known.
    pub phase: Option<String>,
    /// The call.
    pub call: String,
    /// The attempt.
    pub n: u64,
    /// The upstream.
    pub upstream: String,
    /// The model, as the upstream calls it.
    pub model: Option<String>,
    /// How the attempt ended.
    pub outcome: String,
}

/// How calls waited, of which kind so many and how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// Who was asked last, or waited for; none where that was nobody.
    pub upstream: Option<String>,
    /// Calls that waited in line.
    pub queued: u64,
    /// The longest of it.
    pub longest_queued_ms: u64,
    /// Calls that waited for a hold to end.
    pub held: u64,
    /// The longest of it.
    pub longest_held_ms: u64,
    /// Calls that waited before another attempt.
    pub retried: u64,
    /// The longest of it.
    pub longest_retry_ms: u64,
}

/// Calls whose callers left, or that an operator ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Left {
    /// The name of the callers' key.
    pub key: Option<String>,
    /// Who was asked last.
    pub upstream: Option<String>,
    /// How many.
    pub calls: u64,
    /// Those of them that had brought no content.
    pub before_content: u64,
    /// After how long the first left.
    pub shortest_ms: u64,
    /// The median. Where all leave after the same time, it is a limit of their own.
    pub median_ms: u64,
    /// After how long the last left.
    pub longest_ms: u64,
}

/// How many calls took so many attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AttemptCount {
    /// Attempts.
    pub attempts: u64,
    /// Calls.
    pub calls: u64,
}

/// Tokens of attempts, as far as providers told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TokenSum {
    /// Attempts that were whole.
    pub attempts: u64,
    /// Those of them whose usage nobody told: the sums are without them.
    pub unknown: u64,
    /// Tokens of prompts.
    pub input_tokens: u64,
    /// Tokens of answers.
    pub output_tokens: u64,
}

/// Tokens of attempts that failed after a provider had taken them on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Discarded {
    /// The upstream.
    pub upstream: String,
    /// Attempts whose answer nobody got.
    pub attempts: u64,
    /// Attempts whose answer broke off after the caller had got a part.
    pub partial: u64,
    /// Those of both whose usage nobody told: the sums are without them.
    pub unknown: u64,
    /// Tokens of prompts.
    pub input_tokens: u64,
    /// Tokens of answers.
    pub output_tokens: u64,
}

/// What the journal could not take in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Records of calls and attempts, of whatever filter.
    pub records: u64,
}

/// Reads a journal, also while a gateway writes it, and reports on the calls of a filter.
///
/// # Errors
///
/// Returns an error where the file cannot be read or is no journal that this version knows.
pub fn report(path: &Path, filter: &ReportFilter) -> Result<Report, JournalError> {
    if !path.exists() {
        return Err(JournalError::path(path, "there is no such file"));
    }
    let mut connection = open_to_read(path)?;
    let found = schema::check(&connection)?;
    let known = schema::version();
    if found < known {
        return Err(JournalError::TooOld { found, known });
    }
    let until = now();
    let since = filter
        .since
        .map(|since| until.saturating_sub(int(whole_millis(since))));
    // All that is read is of one moment.
    let transaction = connection.transaction()?;
    choose(&transaction, filter, since)?;
    let report = Report {
        v: 1,
        since: since.map(time),
        until: time(until),
        filter: filter.clone(),
        calls: query::calls(&transaction, until)?,
        by_code: query::by_code(&transaction)?,
        by_upstream: query::places(&transaction, "upstream")?,
        by_model: query::places(&transaction, "model")?,
        by_bound: query::by_bound(&transaction)?,
        slowest: query::slowest(&transaction)?,
        silences: query::silences(&transaction)?,
        waits: query::waits(&transaction)?,
        left: query::left(&transaction)?,
        attempts: query::attempts(&transaction)?,
        tokens: query::tokens(&transaction)?,
        discarded: query::discarded(&transaction)?,
        lost: query::lost(&transaction, since)?,
    };
    Ok(report)
}
