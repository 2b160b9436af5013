//! The benchmarks with short settings, and their figures as a table.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::step::{say, shown, succeed};
use crate::tool::cargo;
use crate::workspace;

pub(crate) fn run(filter: &[&str]) -> Result<()> {
    let mut figures = Vec::new();
    let (own_tables, benches): (Vec<_>, Vec<_>) = benches()?
        .into_iter()
        .partition(|(_, bench)| OWN_TABLES.contains(&bench.as_str()));
    for (package, bench) in benches {
        let mut command = cargo(&["bench", "--package", &package, "--bench", &bench, "--"]);
        command.args(SHORT).args(filter).stdout(Stdio::piped());
        let shown = shown(&command);
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start `{shown}`"))?;
        let mut reader = Reader::default();
        for line in child
            .stdout
            .take()
            .into_iter()
            .flat_map(|out| BufReader::new(out).lines())
        {
            let line = line.with_context(|| format!("cannot read from `{shown}`"))?;
            if !line.starts_with("Benchmarking ") {
                say(&line);
            }
            reader.read(&line);
        }
        let status = child
            .wait()
            .with_context(|| format!("cannot wait for `{shown}`"))?;
        if !status.success() {
            bail!("`{shown}` failed: {status}");
        }
        figures.append(&mut reader.figures);
    }
    print(&figures);
    for (package, bench) in own_tables {
        if filter.is_empty() || filter.iter().any(|part| bench.contains(part)) {
            succeed(&mut cargo(&[
                "bench",
                "--package",
                &package,
                "--bench",
                &bench,
            ]))?;
        }
    }
    Ok(())
}

/// Measures the gateway next to other proxies.
pub(crate) fn gateway(arguments: &[&str]) -> Result<()> {
    succeed(gateway_bench(&[]).args(arguments))
}

/// Lets the gateway serve many streams at once for so many minutes, with faults.
pub(crate) fn soak(minutes: &str) -> Result<()> {
    let minutes: u64 = minutes
        .parse()
        .with_context(|| format!("`{minutes}` is no number of minutes"))?;
    succeed(gateway_bench(&[]).args(["soak", &(minutes * 60).to_string()]))
}

/// Runs the gateway's benchmark and its soak for a moment, as they are built for tests.
pub(crate) fn smoke() -> Result<()> {
    let built = ["--profile", "dev", "--workspace", "--all-features"];
    succeed(gateway_bench(&built).arg("--quick"))?;
    succeed(gateway_bench(&built).args(["soak", "20"]))
}

fn gateway_bench(built: &[&str]) -> Command {
    let mut command = cargo(&["bench", "--bench", "gateway"]);
    if built.is_empty() {
        command.args(["--package", "lifesign-cli"]);
    }
    command.args(built).arg("--");
    command
}

/// Returns (package, benchmark) for every benchmark of the workspace.
fn benches() -> Result<Vec<(String, String)>> {
    let crates = workspace::root().join("crates");
    let mut packages: Vec<_> = std::fs::read_dir(&crates)
        .with_context(|| format!("cannot list {}", crates.display()))?
        .flatten()
        .collect();
    packages.sort_unstable_by_key(std::fs::DirEntry::file_name);
    let mut found = Vec::new();
    for package in packages {
        let name = package.file_name().to_string_lossy().into_owned();
        for bench in workspace::rust_files(&package.path().join("benches")) {
            found.push((name.clone(), bench));
        }
    }
    Ok(found)
}

/// One benchmark's result, in the words of criterion.
#[derive(Debug, Default, PartialEq, Eq)]
struct Figure {
    name: String,
    time: String,
    throughput: String,
}

/// Picks the figures out of what criterion prints.
#[derive(Debug, Default)]
struct Reader {
    /// A name too long to share its line with a figure stands on the line before.
    name: String,
    figures: Vec<Figure>,
}

impl Reader {
    fn read(&mut self, line: &str) {
        if let Some((name, estimates)) = line.split_once(" time:") {
            let name = if name.trim().is_empty() {
                &self.name
            } else {
                name.trim()
            };
            self.figures.push(Figure {
                name: name.to_owned(),
                time: middle(estimates),
                throughput: String::new(),
            });
        } else if let Some((_, estimates)) = line.split_once("thrpt:") {
            // A comparison with an earlier run follows in the same words, but in percent.
            if let Some(figure) = self
                .figures
                .last_mut()
                .filter(|figure| figure.throughput.is_empty())
            {
                figure.throughput = middle(estimates);
            }
        } else if !line.is_empty() && !line.starts_with(' ') {
            line.trim().clone_into(&mut self.name);
        }
    }
}

/// Returns the middle one of `[low unit middle unit high unit]`.
fn middle(estimates: &str) -> String {
    let words: Vec<&str> = estimates
        .split(['[', ']', ' '])
        .filter(|word| !word.is_empty())
        .collect();
    match words.as_slice() {
        [_, _, value, unit, ..] => format!("{value} {unit}"),
        _ => estimates.trim().to_owned(),
    }
}

#[expect(clippy::print_stdout, reason = "the table is what was asked for")]
fn print(figures: &[Figure]) {
    let width = figures
        .iter()
        .map(|figure| figure.name.len())
        .max()
        .unwrap_or_default();
    for Figure {
        name,
        time,
        throughput,
    } in figures
    {
        println!("{name:width$}  {time:>12}  {throughput}");
    }
}

/// Benchmarks that are not criterion's: they take none of its settings and print tables of their own.
const OWN_TABLES: [&str; 1] = ["idle_streams"];

/// Enough to see a change of a tenth, in a few seconds for each benchmark.
const SHORT: [&str; 6] = [
    "--warm-up-time",
    "0.5",
    "--measurement-time",
    "2",
    "--sample-size",
    "20",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_what_criterion_prints() {
        let mut reader = Reader::default();
        let printed = "\
Benchmarking watch/observe: Collecting 20 samples
watch/observe           time:   [9.8102 ns 9.9 ns 10.021 ns]
                        change: [-1.2% +0.1% +1.3%] (p = 0.9 > 0.05)
framing a long name of a stream/16384
                        time:   [1.0 ms 1.1 ms 1.2 ms]
                        thrpt:  [1.0 GiB/s 1.5 GiB/s 2.0 GiB/s]
                 change:
                        thrpt:  [-0.5% +0.1% +0.7%]
";

        for line in printed.lines() {
            reader.read(line);
        }

        let figure = |name: &str, time: &str, throughput: &str| Figure {
            name: name.to_owned(),
            time: time.to_owned(),
            throughput: throughput.to_owned(),
        };
        assert_eq!(
            reader.figures,
            [
                figure("watch/observe", "9.9 ns", ""),
                figure(
                    "framing a long name of a stream/16384",
                    "1.1 ms",
                    "1.5 GiB/s"
                ),
            ]
        );
    }
}
