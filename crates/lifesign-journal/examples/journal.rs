//! Writes the calls of a program into a journal, and tells from it how they went.
//!
//! `cargo run -p lifesign-journal --example journal [FILE]` needs no key and no network: a stand-in
//! for a provider plays its faults on loopback. Without FILE the journal is a temporary one.
#![expect(clippy::print_stdout, reason = "an example says what happens")]

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use lifesign::{CallRequest, Client, Request, Upstream, Wire};
use lifesign_journal::{Journal, JournalSettings, ReportFilter, report};
use lifesign_standin::Standin;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let path = match env::args_os().nth(1) {
        Some(path) => PathBuf::from(path),
        None => directory.path().join("calls.db"),
    };
    let journal = Arc::new(Journal::open(JournalSettings::new(&path))?);
    // Every call of this client, and of its clones, is written down.
    let client = Client::new()?.with_records(Arc::clone(&journal) as _);

    for scenario in ["happy", "silence-then-recovery", "silence-mid-answer"] {
        let standin = Standin::scenario(scenario)?.speed(20.0).start().await?;
        let upstream = Upstream::new(Wire::OPENAI_CHAT, &standin.url())?.with_name(scenario);
        let request = CallRequest::new(upstream, Request::prompt("m", "Say hello"));
        match client
            .answer(request.set("bounds.raw_silence", "2s")?)
            .await
        {
            Ok(answered) => println!("{scenario}: {:?}", answered.answer.text),
            Err(failed) => println!("{scenario}: {failed}"),
        }
    }

    // What is on its way is written; other tasks of a runtime would wait for it meanwhile.
    if !tokio::task::spawn_blocking(move || journal.close()).await? {
        println!("the last calls are not in the journal");
    }
    let told = report(&path, &ReportFilter::default())?;
    println!(
        "{} of {} calls completed",
        told.calls.completed, told.calls.total
    );
    for cut in told.by_bound {
        let (bound, cuts, setting) = (cut.bound, cut.cuts, cut.setting.unwrap_or_default());
        println!("{bound} ran out {cuts} times; {setting} raises it");
    }
    Ok(())
}
