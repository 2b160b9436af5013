//! The reference page, written from the table.

use std::fmt::{self, Write};

use super::written::limit_text;
use super::{FileKey, KEYS, UPSTREAM_KEYS};
use crate::{BoundName, CatalogRow, Hosts, Profile, ROWS};

/// Keys of somebody else's that stand in the same file.
#[derive(Clone, Copy, Debug)]
pub struct KeyTable {
    /// The heading, such as `The gateway`.
    pub heading: &'static str,
    /// What stands below the heading.
    pub text: &'static str,
    /// The keys; none where the text says everything.
    pub keys: &'static [FileKey],
}

/// Returns `docs/reference/settings.md`, in which `others` follow what belongs to a call.
pub fn reference_markdown(others: &[KeyTable]) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _infallible = write_page(&mut page, others);
    page
}

fn write_page(page: &mut String, others: &[KeyTable]) -> fmt::Result {
    page.write_str(HEAD)?;
    writeln!(page, "\n## What can be set\n")?;
    writeln!(page, "| key | default | what it sets | accepted |")?;
    writeln!(page, "| --- | --- | --- | --- |")?;
    for key in KEYS {
        let default = if key.default.is_empty() {
            "-"
        } else {
            key.default
        };
        let (name, doc, accepted) = (key.name, key.doc, key.accepted());
        writeln!(page, "| `{name}` | {default} | {doc} | {accepted} |")?;
    }
    page.write_str(WORDS)?;

    writeln!(
        page,
        "\n## What a cut says, and the setting that raises that bound\n"
    )?;
    writeln!(
        page,
        "| a cut names | setting | default | where the default comes from |"
    )?;
    writeln!(page, "| --- | --- | --- | --- |")?;
    for key in KEYS.iter().filter(|key| key.is_limit()) {
        if let Some(name) = BoundName::ALL
            .iter()
            .find(|name| name.setting() == key.name)
        {
            writeln!(
                page,
                "| `{}` | `{}` | {} | {} |",
                name.name(),
                key.name,
                key.default,
                default_source(*name)
            )?;
        }
    }

    writeln!(page, "\n## Profiles\n")?;
    writeln!(page, "| profile | what it does |")?;
    writeln!(page, "| --- | --- |")?;
    for profile in Profile::ALL {
        writeln!(page, "| `{}` | {} |", profile.name(), profile.summary())?;
    }

    page.write_str(CATALOG)?;
    writeln!(page, "| row | hosts | sets | source |")?;
    writeln!(page, "| --- | --- | --- | --- |")?;
    for row in ROWS {
        writeln!(
            page,
            "| {} | {} | {} | {} |",
            row.name,
            hosts(row),
            sets(row),
            row.source
        )?;
    }
    writeln!(page, "\nWhere the numbers are from:\n")?;
    for row in ROWS {
        for bound in row.bounds {
            let limit = limit_text(bound.limit);
            writeln!(
                page,
                "- {}, `{}` {limit}: {}.",
                row.name,
                bound.name.setting(),
                bound.source
            )?;
        }
    }

    writeln!(page, "\n## Upstreams\n")?;
    writeln!(
        page,
        "Each `[[upstream]]` of a file names a provider's endpoint.\n"
    )?;
    write_keys(page, UPSTREAM_KEYS)?;
    page.write_str(EXAMPLE)?;
    for table in others {
        writeln!(page, "\n## {}\n", table.heading)?;
        page.write_str(table.text)?;
        if !table.keys.is_empty() {
            page.write_str("\n")?;
            write_keys(page, table.keys)?;
        }
    }
    Ok(())
}

fn write_keys(page: &mut String, keys: &[FileKey]) -> fmt::Result {
    writeln!(page, "| key | default | what it sets | accepted |")?;
    writeln!(page, "| --- | --- | --- | --- |")?;
    for key in keys {
        let FileKey {
            name,
            accepted,
            default,
            doc,
            ..
        } = key;
        writeln!(page, "| `{name}` | {default} | {doc} | {accepted} |")?;
    }
    Ok(())
}

fn hosts(row: &CatalogRow) -> String {
    match row.hosts {
        Hosts::Named(names) => {
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        }
        Hosts::Private => {
            "loopback, private and link-local addresses, `localhost`, `*.localhost`, \
                           `*.local`, `host.docker.internal`"
                .to_owned()
        }
    }
}

fn sets(row: &CatalogRow) -> String {
    let mut sets: Vec<_> = row
        .bounds
        .iter()
        .map(|bound| format!("`{}` {}", bound.name.name(), limit_text(bound.limit)))
        .collect();
    match row.shows_work {
        Some(true) => sets.push("shows work before content".to_owned()),
        Some(false) => sets.push("may think without a sign".to_owned()),
        None => {}
    }
    if !row.phase_defaults {
        sets.push("`before_content` and `between_events` only where set".to_owned());
    }
    if !row.wires.is_empty() {
        sets.push(format!("on {} only", row.wires.join(", ")));
    }
    sets.join("; ")
}

const fn default_source(name: BoundName) -> &'static str {
    match name {
        BoundName::BeforeContent => "measured, and only where the catalog or the wire says so",
        BoundName::BetweenEvents => "measured",
        BoundName::Flat | BoundName::WholeCall => {
            "computed from max_tokens; 1,862 s is the longest silence measured in a completed call"
        }
        BoundName::RawSilence => "the wire, then the catalog, then the heartbeats seen",
        BoundName::Connect | BoundName::Headers => "built in, then the catalog",
        BoundName::Lifetime
        | BoundName::ReasoningOnly
        | BoundName::UpstreamQuiet
        | BoundName::WallClock => "off unless set",
    }
}

const HEAD: &str = "\
# Settings

Every setting: first those of a call, then those of the gateway. This page is generated from the tables that the
program itself reads; `lifesign config explain` prints what is in force for one upstream, model and answer length,
and where each value came from, with `--serve` as the gateway has it. `lifesign config schema` prints the JSON schema
of a file, [config.schema.json](config.schema.json).

A setting may stand in a TOML file (`--config FILE`), in the environment, or on the command line:

| where | how `bounds.raw_silence` is written |
| --- | --- |
| file | `[bounds]`, then `raw_silence = \"45s\"` |
| environment | `LIFESIGN_BOUNDS__RAW_SILENCE=45s` |
| command line | `--set bounds.raw_silence=45s` |

The strongest wins: default < catalog < profile < file < the file's `[[upstream]]` < environment < command
line. A profile named anywhere counts as a profile.
";

const WORDS: &str = "
- A duration is text with a unit: `45s`, `1m 30s`, `2 min`, `500ms`, `1.5 h`. A number alone, a sign, an infinite
  or overlong value, and units of the calendar (days and longer) are refused before anything is sent.
- `0`, `\"0\"`, `\"0s\"` and `\"off\"` turn a bound off; `bounds = \"off\"` turns all of them off. Absent means the
  default, and so does the word `null` in the environment and on the command line.
- `grace.usage = 0` waits for no usage, `retry.max_wait = 0` sleeps for no asked-for wait, `retry.max_total_wait = 0`
  is off like a bound of 0, and so are the gateway's limits of time; `pool_idle = 0` and `queue = 0` mean none. Any other
  count, rate or size of 0 is refused.
- A whole number may be written with a point and zeros (`4.0`), bare or as text, since programs that calculate one
  write it so; `4.5` is refused.
- A size is text with a unit: `B`, `KiB`, `MiB`, `GiB` in powers of 1,024, `kB`, `MB`, `GB` in powers of 1,000.
- The allowance is `max_tokens` divided by `bounds.think_tokens_per_second`: 4,096 tokens give 47.1 s, 32,000 give
  367.8 s. Setup is the longer of `before_content` and `between_events`, taking 60 s and 150 s for one that is off or
  does not apply.
- Unknown names are refused with the nearest known one. A variable with all of a setting's letters and other
  underscores (`LIFESIGN_BOUNDS_RAW_SILENCE`) is refused too, and so is a setting's variable that is not UTF-8; other
  names that begin with `LIFESIGN_` set nothing.
";

const CATALOG: &str = "
## The catalog

What ships about hosts. A row is stronger than a default and weaker than everything else.

";

const EXAMPLE: &str = "
```toml
profile = \"progress\"

[bounds]
wall_clock = \"10 min\"

[retry]
attempts = 3

[[upstream]]
name = \"claude\"
wire = \"anthropic\"
base_url = \"https://api.anthropic.com\"
api_key = { env = \"ANTHROPIC_API_KEY\" }
bounds = { raw_silence = \"90s\" }
```
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Settings};

    #[test]
    fn every_default_in_the_table_is_the_default_in_force() {
        let settings = Settings::default();
        for key in KEYS {
            let Some((value, _)) = key.show(&settings) else {
                continue;
            };
            // These depend on the wire or the call; the table says how.
            let computed = ["bounds.flat", "bounds.whole_call"].contains(&key.name);
            let value = if value == "2 min" { "120 s" } else { &value };
            let value = if value == "4 min" { "240 s" } else { value };
            let value = if value == "2 min 30 s" {
                "150 s"
            } else {
                value
            };
            assert!(
                computed || key.default.contains(value),
                "{}: {value}",
                key.name
            );
        }
    }

    #[test]
    fn every_bound_and_every_profile_is_on_the_page() {
        let page = reference_markdown(&[]);

        for name in BoundName::ALL {
            assert!(page.contains(&format!("| `{}` | `{}` |", name.name(), name.setting())));
        }
        for profile in Profile::ALL {
            let accepted = Key::find("profile").unwrap().accepted();
            assert!(accepted.contains(&format!("\"{}\"", profile.name())));
        }
    }
}
