//! Settings from a file, the environment and the call.
//!
//! Everything is read and checked when it is loaded, so that a value that cannot be used is refused
//! before anything is sent. Keys are the exception: they are read when they are needed, and live in
//! variables or files of their own.

use std::ffi::OsString;
use std::path::Path;

use lifesign_core::{
    Layer, Origin, SettingError, Settings, Target, Value, resolve, unknown_setting,
};

pub use self::entry::Entry;
use self::extension::Nothing;
pub use self::extension::{Element, Extension};
pub use self::opened::read_bounded;
pub use self::upstream::{KeySource, UpstreamConfig};

mod entry;
mod env;
mod extension;
mod file;
mod opened;
mod upstream;

/// What a file, the environment and the call have set.
///
/// # Example
///
/// This example shows where a value in force came from.
///
/// ```
/// use lifesign::config::{Config, UpstreamConfig};
/// use lifesign::{BaseUrl, Origin, Wire};
///
/// let env = [("LIFESIGN_BOUNDS__RAW_SILENCE".into(), "45s".into())];
/// let config = Config::load(None, env, &["bounds.flat=off".to_owned()])?;
/// let base_url = BaseUrl::parse("http://127.0.0.1:8080")?;
/// let upstream = UpstreamConfig::new(Wire::OPENAI_CHAT, base_url);
///
/// let settings = config.settings_for(&upstream, None)?;
///
/// assert_eq!(settings.bounds.raw_silence.origin, Origin::Env);
/// assert_eq!(settings.bounds.flat.origin, Origin::Call);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Config {
    file: Layer,
    env: Layer,
    call: Layer,
    upstreams: Vec<UpstreamConfig>,
}

impl Config {
    /// Reads a file if one is given, the variables that begin with `LIFESIGN_`, and `key=value`
    /// texts.
    ///
    /// A variable that has all of a setting's letters and is not its name is refused, and so is one
    /// of a setting whose value is not UTF-8.
    ///
    /// # Errors
    ///
    /// Returns the first thing that cannot be used, with its position.
    pub fn load(
        path: Option<&Path>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        assignments: &[String],
    ) -> Result<Self, SettingError> {
        Self::load_with(path, variables, assignments, &mut Nothing)
    }

    /// Does what [`load`](Self::load) does, and hands over to `extension` what is its.
    ///
    /// # Errors
    ///
    /// Returns the first thing that cannot be used, with its position.
    pub fn load_with(
        path: Option<&Path>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        assignments: &[String],
        extension: &mut dyn Extension,
    ) -> Result<Self, SettingError> {
        let file = match path {
            Some(path) => file::read(path, extension)?,
            None => file::Contents::default(),
        };
        let env = env::layer(variables, extension)?;
        let mut call = Layer::new();
        for assignment in assignments {
            let (key, value) = parse_assignment(assignment)?;
            match (env::find(key, extension)?, value) {
                (Some(others), Value::Text(text)) => {
                    let entry = Entry::of_flag(others.name, others.accepted, text);
                    extension.handle_setting(&entry)?;
                }
                (Some(_), _) => {}
                (None, value) => call.set(key, value, Origin::Call)?,
            }
        }
        Ok(Self {
            file: file.layer,
            env,
            call,
            upstreams: file.upstreams,
        })
    }

    /// Adds an upstream that stands in no file, after those that do.
    pub fn push_upstream(&mut self, upstream: UpstreamConfig) {
        self.upstreams.push(upstream);
    }

    /// Returns the upstreams of the file, in their order.
    pub fn upstreams(&self) -> &[UpstreamConfig] {
        &self.upstreams
    }

    /// Returns the upstream of this name.
    ///
    /// # Errors
    ///
    /// Returns an error if the file has none, with a suggestion.
    pub fn upstream(&self, name: &str) -> Result<&UpstreamConfig, SettingError> {
        let names = || self.upstreams.iter().map(|upstream| upstream.name.as_str());
        self.upstreams
            .iter()
            .find(|upstream| upstream.name == name)
            .ok_or_else(|| {
                let known: Vec<_> = names().map(|name| format!("`{name}`")).collect();
                let mut error = SettingError::new("--upstream", "is not in the file")
                    .with_value(&Value::Text(name))
                    .with_accepted(match known.as_slice() {
                        [] => "the name of an [[upstream]], and there is none".to_owned(),
                        known => known.join(", "),
                    });
                error.hint = unknown_setting(name, names()).hint;
                error
            })
    }

    /// Returns the settings in force for a call to `model` at `upstream`.
    ///
    /// The upstream's own settings stand between those of the file and those of the environment.
    ///
    /// # Errors
    ///
    /// Returns an error if the settings ask for one that is missing.
    pub fn settings_for(
        &self,
        upstream: &UpstreamConfig,
        model: Option<&str>,
    ) -> Result<Settings, SettingError> {
        self.settings_between(&Layer::new(), upstream, model, &Layer::new())
    }

    /// Does what [`settings_for`](Self::settings_for) does, with `defaults` below everything that
    /// is set and `strongest` above.
    ///
    /// # Errors
    ///
    /// Returns an error if the settings ask for one that is missing.
    pub fn settings_between(
        &self,
        defaults: &Layer,
        upstream: &UpstreamConfig,
        model: Option<&str>,
        strongest: &Layer,
    ) -> Result<Settings, SettingError> {
        let wire = upstream.wire.defaults();
        let target = Target {
            wire: &wire,
            host: Some(upstream.base_url.host()),
            model,
        };
        let layers = [
            defaults,
            &self.file,
            &upstream.layer,
            &self.env,
            &self.call,
            strongest,
        ];
        resolve(&layers, &target)
    }
}

/// Reads `key=value`, where the value `null` is the absent one.
///
/// # Errors
///
/// Returns an error if there is no `=`. Whether there is such a key is not looked at.
pub fn parse_assignment(text: &str) -> Result<(&str, Value<'_>), SettingError> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(SettingError::new("--set", "has no `=`")
            .with_value(&Value::Text(text))
            .with_accepted("a setting and its value, such as bounds.raw_silence=45s"));
    };
    Ok((key.trim(), Value::of_text(value)))
}

/// Returns the variables of this process, for [`Config::load`].
pub fn process_variables() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lifesign_core::{Limit, Setting};
    use lifesign_wire::Wire;

    use super::*;
    use crate::BaseUrl;

    fn load(text: &str, variables: &[(&str, &str)], sets: &[&str]) -> Result<Config, SettingError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lifesign.toml");
        std::fs::write(&path, text).unwrap();
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        let sets: Vec<_> = sets.iter().map(|set| (*set).to_owned()).collect();
        Config::load(Some(&path), variables, &sets)
    }

    fn refusal(text: &str, variables: &[(&str, &str)], sets: &[&str]) -> String {
        load(text, variables, sets).unwrap_err().to_string()
    }

    const FILE: &str = r#"
[bounds]
raw_silence = "10s"
headers = "11s"
connect = "12s"
flat = "13s"

[[upstream]]
name = "one"
wire = "openai-chat"
base_url = "https://api.openai.com"
bounds = { headers = "21s", connect = "22s", flat = "23s" }
"#;

    #[test]
    fn upstream_env_and_call_each_win_over_what_stands_before() {
        let config = load(
            FILE,
            &[
                ("LIFESIGN_BOUNDS__CONNECT", "32s"),
                ("LIFESIGN_BOUNDS__FLAT", "33s"),
            ],
            &["bounds.flat=43s"],
        )
        .unwrap();

        let bounds = config
            .settings_for(config.upstream("one").unwrap(), None)
            .unwrap()
            .bounds;

        let after = |seconds, origin| Setting {
            value: Limit::After(Duration::from_secs(seconds)),
            origin,
        };
        let line = |setting: &Setting<Limit>| match &setting.origin {
            Origin::File { line, .. } => Some(*line),
            _ => None,
        };
        assert_eq!(line(&bounds.raw_silence), Some(3));
        assert_eq!(line(&bounds.headers), Some(12));
        assert_eq!(bounds.headers.value, Limit::After(Duration::from_secs(21)));
        assert_eq!(bounds.connect, after(32, Origin::Env));
        assert_eq!(bounds.flat, after(43, Origin::Call));
    }

    #[test]
    fn every_source_refuses_what_cannot_be_used_and_says_where() {
        for (bad, problem) in [
            ("-5s", "is negative"),
            ("NaN", "is not a duration"),
            ("1e3s", "is written with an exponent"),
            ("45", "has no unit"),
            ("", "is empty"),
            ("99999999999999999999s", "is too long"),
        ] {
            let accepted = "accepted: a duration such as \"45s\" or \"2 min\", or \"off\"";
            let told = format!("bounds.raw_silence: \"{bad}\" {problem}; {accepted}");

            let file = refusal(&format!("[bounds]\nraw_silence = \"{bad}\"\n"), &[], &[]);
            let env = refusal("", &[("LIFESIGN_BOUNDS__RAW_SILENCE", bad)], &[]);
            let call = refusal("", &[], &[&format!("bounds.raw_silence={bad}")]);

            assert!(
                file.ends_with(&format!("lifesign.toml:2:15: {told}")),
                "{file}"
            );
            assert_eq!(env, format!("LIFESIGN_BOUNDS__RAW_SILENCE: {told}"));
            assert_eq!(call, told);
        }
    }

    #[test]
    fn every_source_refuses_unknown_names_with_a_suggestion() {
        let told = "bounds.raw_silense: unknown setting; did you mean `bounds.raw_silence`?";

        let file = refusal("[bounds]\nflat = \"1s\"\nraw_silense = \"45s\"\n", &[], &[]);
        let env = refusal("", &[("LIFESIGN_BOUNDS__RAW_SILENSE", "45s")], &[]);
        let call = refusal("", &[], &["bounds.raw_silense=45s"]);

        assert!(
            file.ends_with(&format!("lifesign.toml:3:1: {told}")),
            "{file}"
        );
        assert_eq!(env, format!("LIFESIGN_BOUNDS__RAW_SILENSE: {told}"));
        assert_eq!(call, told);
    }

    #[test]
    fn a_name_that_no_upstream_has_is_refused_with_those_that_there_are() {
        let config = load(FILE, &[], &[]).unwrap();

        assert_eq!(
            config.upstream("onne").unwrap_err().to_string(),
            "--upstream: \"onne\" is not in the file; accepted: `one`; did you mean `one`?"
        );
    }

    #[test]
    fn an_assignment_without_an_equals_sign_is_refused() {
        assert_eq!(
            refusal("", &[], &["bounds.flat"]),
            "--set: \"bounds.flat\" has no `=`; accepted: a setting and its value, such as \
             bounds.raw_silence=45s"
        );
    }

    #[test]
    fn a_profile_may_be_named_on_the_command_line() {
        let config = load(FILE, &[], &["profile=patient"]).unwrap();
        let base_url = BaseUrl::parse("http://localhost:1").unwrap();
        let upstream = UpstreamConfig::new(Wire::ANTHROPIC, base_url);

        let settings = config.settings_for(&upstream, None).unwrap();

        assert_eq!(settings.bounds.before_content.origin, Origin::Profile);
        assert_eq!(settings.profile.origin, Origin::Call);
    }
}
