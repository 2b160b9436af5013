//! The files and variables that an upstream names: opened when a call needs them, and by whoever
//! wants to know beforehand whether a call could.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use lifesign_core::{SettingError, Value};
use secrecy::SecretString;

use super::upstream::{UpstreamConfig, accepted};
use crate::transport::read_roots;

/// Where in a file the settings stand that name what is opened later.
#[derive(Clone, Debug, Default)]
pub(super) struct Positions {
    pub(super) api_key: Option<String>,
    pub(super) tls_extra_roots: Option<String>,
}

impl UpstreamConfig {
    /// Reads the key that the upstream names, if it names one; `variable` looks up an environment
    /// variable.
    ///
    /// # Errors
    ///
    /// Returns an error that names the setting, its place, and the variable or the file, never what
    /// is in it.
    pub fn read_key(
        &self,
        variable: impl FnOnce(&str) -> Option<OsString>,
    ) -> Result<Option<SecretString>, SettingError> {
        let Some(source) = &self.api_key else {
            return Ok(None);
        };
        source.read(variable).map(Some).map_err(|error| {
            let position = self.positions.api_key.as_deref();
            refused("api_key", error.problem, position)
        })
    }

    /// Reads the PEM file of further certificates to trust, if the upstream names one.
    ///
    /// # Errors
    ///
    /// Returns an error that names the setting, its place and the file if the file cannot be read or
    /// holds something else than certificates.
    pub fn read_extra_roots(&self) -> Result<Option<Vec<u8>>, SettingError> {
        let Some(path) = &self.tls_extra_roots else {
            return Ok(None);
        };
        let refuse = |problem: String| {
            let position = self.positions.tls_extra_roots.as_deref();
            refused("tls_extra_roots", problem, position)
                .with_value(&Value::Text(&path.display().to_string()))
        };
        let pem = read_bounded(path).map_err(|error| refuse(format!("cannot be read: {error}")))?;
        read_roots(&pem).map_err(|problem| refuse(problem.to_string()))?;
        Ok(Some(pem))
    }
}

fn refused(key: &str, problem: impl Into<Box<str>>, position: Option<&str>) -> SettingError {
    let error = SettingError::new(format!("upstream.{key}"), problem).with_accepted(accepted(key));
    match position {
        Some(position) => error.with_position(position),
        None => error,
    }
}

/// Reads a file of keys or certificates, but not without end: somebody may have named a device.
///
/// # Errors
///
/// Fails where the file cannot be read or is longer than 16 MiB.
pub fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(LONGEST + 1)
        .read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > LONGEST) {
        return Err(io::Error::other("it is longer than 16 MiB"));
    }
    Ok(bytes)
}

/// No file of keys or certificates is longer, in bytes.
const LONGEST: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::Config;

    /// Reads the first upstream of a file with these lines, in a directory with these files.
    fn upstream(lines: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, UpstreamConfig) {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(directory.path().join(name), text).unwrap();
        }
        let path = directory.path().join("a.toml");
        let text = format!(
            "[[upstream]]\nname = \"a\"\nwire = \"anthropic\"\nbase_url = \"http://h\"\n{lines}\n"
        );
        fs::write(&path, text).unwrap();
        let config = Config::load(Some(&path), [], &[]).unwrap();
        let upstream = config.upstreams()[0].clone();
        (directory, upstream)
    }

    #[test]
    fn roots_that_cannot_be_used_are_named_with_setting_place_and_path() {
        let broken = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
        for (name, problem) in [
            (
                "nowhere.pem",
                "cannot be read: No such file or directory (os error 2)",
            ),
            ("text.pem", "holds no certificate in PEM form"),
            ("broken.pem", "holds a broken certificate, number 1 in it"),
        ] {
            let (directory, upstream) = upstream(
                &format!("tls_extra_roots = \"{name}\""),
                &[("text.pem", "hello"), ("broken.pem", broken)],
            );

            let error = upstream.read_extra_roots().unwrap_err();

            let place = directory.path().display();
            assert_eq!(
                error.to_string(),
                format!(
                    "{place}/a.toml:5:19: upstream.tls_extra_roots: \"{place}/{name}\" {problem}; \
                     accepted: {}",
                    accepted("tls_extra_roots")
                )
            );
        }
    }

    #[test]
    fn a_key_that_cannot_be_read_is_named_with_setting_place_and_path() {
        let (directory, upstream) = upstream("api_key = { file = \"key.txt\" }", &[]);

        let error = upstream.read_key(|_| None).unwrap_err();

        let place = directory.path().display();
        assert_eq!(
            error.to_string(),
            format!(
                "{place}/a.toml:5:11: upstream.api_key: the file {place}/key.txt cannot be read: No \
                 such file or directory (os error 2); accepted: {{ env = \"NAME\" }} or {{ file = \
                 \"PATH\" }}"
            )
        );
    }

    #[test]
    fn an_upstream_that_names_neither_opens_nothing() {
        let (_directory, upstream) = upstream("", &[]);

        assert!(upstream.read_key(|_| None).unwrap().is_none());
        assert_eq!(upstream.read_extra_roots(), Ok(None));
    }
}
