//! Reading the command line, and saying why it cannot be used.

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use lifesign::Failed;

use crate::args::Cli;
use crate::command::call::report;
use crate::command::run;
use crate::output::{REFUSED, complain, note};

/// Returns what the program was asked, or the exit code where it has said already what there is to
/// say.
pub(crate) fn read() -> Result<Cli, ExitCode> {
    let error = match Cli::try_parse() {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    // Help and the version were asked for, and are the answer.
    if !error.use_stderr() {
        error.exit();
    }
    if wants_json(env::args_os()) {
        let why = clause(&error.to_string());
        let is_run = env::args_os()
            .nth(1)
            .is_some_and(|command| command == "run");
        let printed = if is_run {
            run::print_refused(why)
        } else {
            report(&Err(Box::new(Failed::refused(why))))
        };
        if let Err(unwritten) = printed {
            return Err(complain(&unwritten));
        }
    }
    note(error.render().to_string().trim_end());
    Err(ExitCode::from(REFUSED))
}

/// Whether `--json` is among the flags. clap does not tell: it stops at what it refuses.
fn wants_json(mut words: impl Iterator<Item = OsString>) -> bool {
    words
        .by_ref()
        .take_while(|word| word != "--")
        .any(|word| word == "--json")
}

/// Makes one clause of what clap says in several lines: what is wrong, and what may have been meant.
fn clause(told: &str) -> String {
    let wrong: Vec<_> = told
        .lines()
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    let wrong = wrong.join(" ");
    let wrong = wrong.strip_prefix("error: ").unwrap_or(&wrong);
    told.lines()
        .filter_map(|line| line.trim().strip_prefix("tip: "))
        .fold(wrong.to_owned(), |clause, tip| format!("{clause}; {tip}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clap_says_in_lines_becomes_one_clause() {
        for (told, expected) in [
            (
                "error: unexpected argument '--promt' found\n\n  tip: a similar argument exists: \
                 '--prompt'\n\nUsage: lifesign call\n",
                "unexpected argument '--promt' found; a similar argument exists: '--prompt'",
            ),
            (
                "error: the following required arguments were not provided:\n  --wire <WIRE>\n  \
                 <SHELL>\n\nUsage: lifesign\n",
                "the following required arguments were not provided: --wire <WIRE> <SHELL>",
            ),
            ("", ""),
        ] {
            assert_eq!(clause(told), expected);
        }
    }

    #[test]
    fn json_is_wanted_where_the_flag_stands_before_two_dashes() {
        let wants = |words: &[&str]| wants_json(words.iter().map(OsString::from));

        assert!(wants(&["lifesign", "call", "--json", "--promt"]));
        assert!(!wants(&["lifesign", "call", "--", "--json"]));
        assert!(!wants(&["lifesign", "call", "--jsn"]));
    }
}
