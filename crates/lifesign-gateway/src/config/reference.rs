//! The gateway's part of the reference page.

use lifesign_core::{KeyTable, reference_markdown};

use super::table::{GATEWAY, KEY, ROUTE, TOOLS, UPSTREAM};

/// Returns `docs/reference/settings.md`.
pub fn settings_markdown() -> String {
    reference_markdown(&[
        KeyTable {
            heading: "The gateway",
            text: OF_GATEWAY,
            keys: GATEWAY,
        },
        KeyTable {
            heading: "The gateway's upstreams",
            text: UPSTREAMS,
            keys: UPSTREAM,
        },
        KeyTable {
            heading: "Routes",
            text: ROUTES,
            keys: ROUTE,
        },
        KeyTable {
            heading: "Callers' keys",
            text: KEYS,
            keys: KEY,
        },
        KeyTable {
            heading: "Tools of agents",
            text: OF_TOOLS,
            keys: TOOLS,
        },
        KeyTable {
            heading: "What is refused before the gateway starts",
            text: REFUSED,
            keys: &[],
        },
    ])
}

const OF_GATEWAY: &str = "\
`lifesign serve` reads the same file as `lifesign call` and `lifesign run`, which check what is the gateway's and do not go by it.
The same names work in the environment and with `--set`; a list is written with commas there, and the place of a key
as `env:NAME` or `file:PATH`.

The gateway retries less than a single call does, since somebody waits at its other end: `retry.attempts` is 3,
`retry.max_total_wait` 30 s and `retry.overload.first_delay` 2 s where nobody sets them.

`beats.open_early` chooses which loss to bear. Once the first beat is out the status is 200 and cannot be taken back: a
failure after it is an error event inside of the stream, and whoever repeats or reroutes by status no longer can. With
`false` nothing is sent before content or failure, so each failure keeps its status and its hints; but nothing tells
the caller, or a proxy before it, that anybody is alive until then. A failure within `beats.every` of the call's
beginning is a real status either way.

After a change of the file, or SIGHUP, everything is in force for calls to come but `serve.listen`, `serve.drain`,
`limits.connections`, `limits.reader_stall`, `[journal]`, `[telemetry]` and whether TLS is spoken, which take a restart.

Traces are off unless `telemetry.otlp_endpoint` says where they go; [traces.md](traces.md) tells what they say. Where they are on,
OpenTelemetry's `OTEL_SERVICE_NAME` (default `lifesign`) and `OTEL_RESOURCE_ATTRIBUTES` describe the process in them. Its other
variables are not read: those of the whole machine are not to turn anything on here. `telemetry.otlp_headers = { env =
\"OTEL_EXPORTER_OTLP_HEADERS\" }` takes its headers, and `LIFESIGN_TELEMETRY__OTLP_ENDPOINT` stands for its endpoint.
";

const UPSTREAMS: &str = "\
An `[[upstream]]` may have these keys too. `lifesign serve --upstream NAME=URL` does without a file: the wire comes
from a NAME that is a wire or a provider (`openai`, `azure`, `anthropic`, `deepseek`, `openrouter`, `xai`), else from
`NAME:WIRE=URL`. A provider that speaks both of OpenAI's wires becomes two upstreams, `openai` and
`openai (responses)`, that share places, breakers and holds.
";

const ROUTES: &str = "\
Without a `[[route]]` that matches, a call goes to the upstreams of its wire that have its model, in the order of the
file. The strongest `[beats]` wins: default < file < upstream < route < key < environment < command line < call.

```toml
[[route]]
model = \"claude-*\"
upstreams = [\"claude\", \"claude-elsewhere\"]
```
";

const KEYS: &str = "\
Where there is a `[[key]]`, every call needs one. Only its hash stands in the file:

```sh
printf %s \"$KEY\" | sha256sum
```

A call may choose a profile and set settings in the headers `x-lifesign-profile`, `x-lifesign-wall-clock` and
`x-lifesign-set` (`key=value`, commas between), as far as its key allows. Without keys every call may.
";

const OF_TOOLS: &str = "\
`lifesign run` goes by these; they may stand in the file that a gateway reads, which does not go by them. What
a server's own file says of its tools wins: [tools.md](tools.md).
";

const REFUSED: &str = "\
- no upstream at all;
- a route with an upstream that there is not, or with upstreams of different wires;
- a route that would hand the caller's own key to another host, unless each upstream says `auth = \"pass\"`;
- two keys of one name or one hash; `auth = \"pass\"` beside a `[[key]]`, which would hand the gateway's keys on;
- an address beyond this machine without a `[[key]]` and `serve.admin_key`, and without TLS unless
  `serve.allow_cleartext` is true;
- `serve.tls_cert` without `serve.tls_key`, and the other way round;
- a `telemetry.otlp_endpoint` with a path where `telemetry.otlp_protocol` is `grpc`; headers for it that cannot be read or sent;
- a `journal.path` whose directory does not exist, or that leads to a file that is no journal of this version. A full
  or broken disk keeps no gateway from starting: [journal.md](journal.md) tells what happens then.

`lifesign config check` also reports what can never act as things stand, and a `beats.every` above a third of the
silence that a lifesign client allows by default (60 s on anthropic, else 80 s).
";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn committed(name: &str, generated: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs/reference")
            .join(name);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, generated).unwrap();
        }

        let committed = std::fs::read_to_string(&path).unwrap_or_default();

        assert!(
            committed == generated,
            "docs/reference/{name} is stale: run this test with UPDATE_DOCS=1"
        );
    }

    #[test]
    fn the_committed_page_is_the_generated_one() {
        committed("settings.md", &settings_markdown());
    }

    #[test]
    fn the_committed_schema_is_the_generated_one() {
        let schema = serde_json::to_string_pretty(&super::super::config_schema()).unwrap();
        committed("config.schema.json", &format!("{schema}\n"));
    }

    #[test]
    fn every_key_of_the_gateway_is_on_the_page() {
        let page = settings_markdown();

        for key in GATEWAY
            .iter()
            .chain(TOOLS)
            .chain(UPSTREAM)
            .chain(ROUTE)
            .chain(KEY)
        {
            assert!(
                page.contains(&format!("\n| `{}` | ", key.name)),
                "{}",
                key.name
            );
        }
    }
}
