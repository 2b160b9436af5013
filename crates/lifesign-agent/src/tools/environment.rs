//! The environment of processes that tools start.
//!
//! It is made of names that are known to hold no secret, not of everything but those that look like
//! one: a key may have any name.

use std::ffi::OsString;

/// Returns what a process started by a tool may know of this one's environment: what a program
/// needs to find others and to speak the user's language, and the variables in `also`.
pub(super) fn scrubbed(also: &[String]) -> Vec<(OsString, OsString)> {
    std::env::vars_os()
        .filter(|(name, _)| {
            name.to_str()
                .is_some_and(|name| is_harmless(name) || also.iter().any(|also| also == name))
        })
        .collect()
}

fn is_harmless(name: &str) -> bool {
    HARMLESS.contains(&name) || name.starts_with("LC_")
}

const HARMLESS: [&str; 19] = [
    "APPDATA",
    "COMSPEC",
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOCALAPPDATA",
    "LOGNAME",
    "PATH",
    "PATHEXT",
    "SHELL",
    "SYSTEMROOT",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "USERNAME",
    "USERPROFILE",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_names_are_passed_on() {
        for name in ["PATH", "HOME", "LC_ALL"] {
            assert!(is_harmless(name), "{name}");
        }
        for name in [
            "OPENAI_API_KEY",
            "LIFESIGN_API_KEY",
            "DATABASE_URL",
            "PATHS",
            "LC",
        ] {
            assert!(!is_harmless(name), "{name}");
        }
    }

    #[test]
    fn what_is_asked_for_by_name_is_passed_on_too() {
        // Cargo sets it for its tests.
        let name = "CARGO_MANIFEST_DIR".to_owned();
        let has = |environment: &[(OsString, OsString)]| {
            environment.iter().any(|(known, _)| *known == *name)
        };

        assert!(!has(&scrubbed(&[])));
        assert!(has(&scrubbed(std::slice::from_ref(&name))));
    }
}
