//! What a benchmark sees that runs many tasks unattended against a provider that fails in every way.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use lifesign::{Client, Upstream, Wire};
use lifesign_agent::{Agent, TurnOutcome};
use lifesign_standin::Standin;
use pretty_assertions::assert_eq;

/// A way in which a task goes, and its true outcome.
const TASKS: [(&str, TurnOutcome); 17] = [
    ("answer \"42\"", TurnOutcome::Completed),
    ("text \"4\"; +0.05 answer \"2\"", TurnOutcome::Completed),
    (
        "attempt 1: hold\nattempt 2: answer \"42\"",
        TurnOutcome::Completed,
    ),
    (
        "attempt 1: status 200 sse; text \"4\"; rst\nattempt 2: answer \"2\"",
        TurnOutcome::Completed,
    ),
    (
        "attempt 1-2: status 529 json; error overloaded_error; eof\nattempt 3: answer \"42\"",
        TurnOutcome::Completed,
    ),
    (
        "attempt 1: answer \"\"\nattempt 2: answer \"42\"",
        TurnOutcome::Completed,
    ),
    ("answer \"\"", TurnOutcome::NoReply),
    ("think \"hm\"; answer \"\"", TurnOutcome::NoReply),
    (
        "text \"4\"; finish \"length\"; done; eof",
        TurnOutcome::Truncated,
    ),
    ("status 200 sse; text \"4\"; rst", TurnOutcome::Truncated),
    ("status 200 sse; text \"4\"; eof", TurnOutcome::Truncated),
    ("hold", TurnOutcome::ProviderFailed),
    ("status 200 sse; eof", TurnOutcome::ProviderFailed),
    (
        "status 500 json; error server_error; eof",
        TurnOutcome::ProviderFailed,
    ),
    (
        "role; finish \"content_filter\"; done; eof",
        TurnOutcome::ProviderFailed,
    ),
    (
        "status 401 json; error authentication_error; eof",
        TurnOutcome::ProviderFailed,
    ),
    (
        "status 200 sse; repeat 0.02 { text \"4\" } forever",
        TurnOutcome::WallTimeout,
    ),
];

#[tokio::test]
async fn the_table_of_outcomes_is_the_truth_and_no_fault_of_a_provider_is_a_missing_reply() {
    let client = Client::new().unwrap();
    let tasks = (0..204).map(|number| {
        let (script, truth) = TASKS[number % TASKS.len()];
        let client = client.clone();
        let wire = Wire::ALL[number / TASKS.len() % 3];
        async move { (truth, outcome(client, wire, script).await, script) }
    });

    let mut table: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    let mut played = futures_util::stream::iter(tasks).buffer_unordered(16);
    while let Some((truth, outcome, script)) = played.next().await {
        assert_eq!(outcome, truth, "{script}");
        *table.entry((truth.name(), outcome.name())).or_default() += 1;
    }

    let expected = [
        ("completed", 72),
        ("no_reply", 24),
        ("provider_failed", 60),
        ("truncated", 36),
        ("wall_timeout", 12),
    ];
    let expected = expected.map(|(name, count)| ((name, name), count));
    assert_eq!(table, BTreeMap::from(expected));
}

async fn outcome(client: Client, wire: Wire, script: &str) -> TurnOutcome {
    let standin = Standin::script(script).unwrap().start().await.unwrap();
    let upstream = Upstream::new(wire, &standin.url()).unwrap();
    let mut builder = Agent::builder(client, upstream, "m").wall_clock(Duration::from_secs(3));
    for (key, value) in [
        ("bounds.raw_silence", "300ms"),
        ("retry.transport.first_delay", "5ms"),
        ("retry.overload.first_delay", "5ms"),
    ] {
        builder = builder.set(key, value).unwrap();
    }
    let mut agent = builder.build().unwrap();
    let report = agent.turn("6 * 7?").report().await.unwrap();
    assert!(report.failure.is_none() || report.note.is_some());
    report.outcome
}
