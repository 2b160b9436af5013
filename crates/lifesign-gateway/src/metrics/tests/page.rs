//! The reference page is what is exported.

use std::fmt::Write as _;
use std::path::Path;

use super::{Exposition, filled};

const HEAD: &str = "\
# Metrics

`GET /metrics` gives these in the text format of Prometheus, to whoever may use the [admin API](gateway.md#admin-api).

Names that begin with `gen_ai_` are those of OpenTelemetry's conventions for generative AI as of 2026-11-30, with `_` for `.`: to its callers
the gateway is a server (`gen_ai_server_...`, once for each call), to its upstreams a client (`gen_ai_client_...`, once for each attempt).
Everything else is the gateway's own. A histogram `x` has the lines `x_bucket`, `x_sum` and `x_count`.

| label | values |
| --- | --- |
| `upstream` | the names of configured upstreams; `none` where no upstream was asked, `other` for one that the settings did not name. Slots, lines, breakers and holds are told by the first of several entries that share them |
| `key` | the names of configured keys; `none` where there are no keys |
| `gen_ai_request_model` | models that the settings name; further ones as they are asked for and taken by an upstream, 50 in all; beyond them the pattern of the settings that fits, else `other`; `none` where none was named. For a client the model as the upstream calls it |
| `gen_ai_provider_name` | by the conventions, from the upstream's host, else from its wire |
| `gen_ai_operation_name` | `chat`, `text_completion`, `embeddings`; other paths have no line in `gen_ai_...` |
| `error_type`, `code`, `outcome` | a code of [failures.md](failures.md), empty in `error_type` where there was none; of refusals a code of [gateway.md](gateway.md); of spans `exported`, `dropped` or `refused` |
| `bound` | a bound of [settings.md](settings.md), without `bounds.` |
| `clock` | `raw`, `event`, `content`, `output` |

Counters of a configured upstream or key are there from the start, at 0, so that the first of a kind is seen as an increase. No label holds
the id of a call: the log and the records have those.

| metric | type | labels | says |
| --- | --- | --- | --- |
";

#[test]
fn the_page_lists_exactly_what_is_exported() {
    let page = page(&filled());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("docs/reference/metrics.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }

    let committed = std::fs::read_to_string(&path).unwrap_or_default();

    assert!(
        committed == page,
        "docs/reference/metrics.md is stale: run this test with UPDATE_DOCS=1"
    );
}

fn page(exposition: &Exposition) -> String {
    let mut page = HEAD.to_owned();
    for (name, exported) in exposition {
        let labels = exported.labels.iter().map(|(label, values)| {
            let is_ours = SHOWN.contains(&label.as_str());
            let values: Vec<_> = values.iter().map(String::as_str).collect();
            if is_ours {
                format!("`{label}`: {}", values.join(", "))
            } else {
                format!("`{label}`")
            }
        });
        let labels = labels.collect::<Vec<_>>().join("; ");
        writeln!(
            page,
            "| `{name}` | {} | {labels} | {} |",
            exported.kind, exported.help
        )
        .unwrap();
    }
    page
}

/// Labels whose values stand in the table: few, and the same everywhere.
const SHOWN: [&str; 7] = [
    "breaker",
    "form",
    "gen_ai_token_type",
    "kind",
    "origin",
    "reason",
    "state",
];
