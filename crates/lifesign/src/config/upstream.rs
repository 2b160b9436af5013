//! An upstream as a file or the command line names it.

use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;

use lifesign_core::{Layer, Origin, SettingError, UPSTREAM_KEYS, Value, glob, unknown_setting};
use lifesign_wire::Wire;
use secrecy::SecretString;
use toml::de::DeTable;

use super::entry::Entry;
use super::extension::{Extension, Nothing};
use super::file::{Source, in_order};
use super::opened::{Positions, read_bounded};
use crate::transport::{EndpointError, POOL_IDLE};
use crate::{BaseUrl, BaseUrlError, Upstream};

/// A provider's endpoint.
#[derive(Clone, Debug)]
pub struct UpstreamConfig {
    /// The name by which `--upstream` and reports know it.
    pub name: String,
    /// The dialect it speaks.
    pub wire: Wire,
    /// Where it is.
    pub base_url: BaseUrl,
    /// Where its key is; `None` means the wire's usual variable.
    pub api_key: Option<KeySource>,
    /// The models it has, as patterns; empty means every model.
    pub models: Vec<String>,
    /// Whether to speak HTTP/2 with it.
    pub http2: bool,
    /// How many idle connections are kept.
    pub pool_idle: usize,
    /// A PEM file of certificates to trust besides those of the system.
    pub tls_extra_roots: Option<PathBuf>,
    /// Where it was named.
    pub origin: Origin,
    /// Its own bounds and retries.
    pub(super) layer: Layer,
    pub(super) positions: Positions,
}

impl UpstreamConfig {
    /// Returns an upstream that is named after its host and sets nothing of its own.
    pub fn new(wire: Wire, base_url: BaseUrl) -> Self {
        Self {
            name: base_url.host().to_owned(),
            wire,
            base_url,
            api_key: None,
            models: Vec::new(),
            http2: false,
            pool_idle: POOL_IDLE,
            tls_extra_roots: None,
            origin: Origin::Call,
            layer: Layer::new(),
            positions: Positions::default(),
        }
    }

    /// Returns the upstream as calls know it, authorised by `key`.
    pub fn to_upstream(&self, key: Option<SecretString>) -> Upstream {
        let upstream = Upstream::of(self.wire, self.base_url.clone()).with_name(self.name.as_str());
        let upstream = match key {
            Some(key) => upstream.with_key(key),
            None => upstream,
        };
        if self.http2 {
            upstream.with_http2()
        } else {
            upstream
        }
    }

    /// Returns whether the upstream has this model.
    pub fn has_model(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|pattern| glob(pattern, model))
    }

    /// Reads an element of `[[upstream]]`, the `at`th; keys of others go to `extension`.
    pub(super) fn read(
        source: &Source<'_>,
        table: &DeTable<'_>,
        span: Range<usize>,
        at: usize,
        extension: &mut dyn Extension,
    ) -> Result<Self, SettingError> {
        let (mut name, mut wire, mut base_url) = (None, None, None);
        let (mut api_key, mut models, mut http2) = (None, Vec::new(), false);
        let (mut pool_idle, mut tls_extra_roots) = (POOL_IDLE, None);
        let mut layer = Layer::new();
        let mut positions = Positions::default();
        for (key, value) in in_order(table) {
            let keys = UPSTREAM_KEYS.iter().chain(extension.upstream_keys());
            let known = keys.clone().find(|known| known.name == key.get_ref());
            let Some(known) = known else {
                return Err(source.unknown("upstream", key.get_ref(), keys, &key.span()));
            };
            let field = format!("upstream.{}", known.name);
            let entry = Entry::of_file(field, known.accepted, source, value);
            match known.name {
                "name" => name = Some(entry.text()?.to_owned()),
                "wire" => wire = Some(read_wire(&entry)?),
                "base_url" => base_url = Some(read_base_url(&entry)?),
                "api_key" => {
                    api_key = Some(entry.key_source()?);
                    positions.api_key = entry.position();
                }
                "models" => models = entry.texts()?,
                "http2" => http2 = entry.flag()?,
                "pool_idle" => pool_idle = entry.count_or_zero()?.value,
                "tls_extra_roots" => {
                    tls_extra_roots = Some(entry.path()?);
                    positions.tls_extra_roots = entry.position();
                }
                own @ ("bounds" | "retry") => {
                    source.set(&mut layer, &mut Nothing, own, key.span(), value)?;
                }
                _ => extension.handle_upstream(at, &entry)?,
            }
        }
        let missing = |key: &str| {
            let accepted = accepted(key);
            SettingError::new(format!("upstream.{key}"), "is missing")
                .with_accepted(accepted)
                .with_position(source.position(&span))
        };
        Ok(Self {
            name: name.ok_or_else(|| missing("name"))?,
            wire: wire.ok_or_else(|| missing("wire"))?,
            base_url: base_url.ok_or_else(|| missing("base_url"))?,
            api_key,
            models,
            http2,
            pool_idle,
            tls_extra_roots,
            origin: source.origin(&span),
            layer,
            positions,
        })
    }
}

/// Where a key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// In this environment variable.
    Env(String),
    /// In this file, alone, white space around it apart.
    File(PathBuf),
}

impl KeySource {
    /// Reads the key; `variable` looks up an environment variable.
    ///
    /// # Errors
    ///
    /// Returns an error that names the variable or the file, never what is in it.
    pub fn read(
        &self,
        variable: impl FnOnce(&str) -> Option<OsString>,
    ) -> Result<SecretString, SettingError> {
        let place = match self {
            Self::Env(name) => format!("the variable {name}"),
            Self::File(path) => format!("the file {}", path.display()),
        };
        let refuse = |problem: String| SettingError::new("api_key", problem);
        let text = match self {
            Self::Env(name) => variable(name)
                .ok_or_else(|| refuse(format!("{place} is not set")))?
                .into_string()
                .map_err(|_| refuse(format!("{place} is not UTF-8")))?,
            Self::File(path) => {
                let bytes = read_bounded(path)
                    .map_err(|error| refuse(format!("{place} cannot be read: {error}")))?;
                String::from_utf8(bytes).map_err(|_| refuse(format!("{place} is not UTF-8")))?
            }
        };
        let key = text.trim();
        if key.is_empty() {
            return Err(refuse(format!("{place} is empty")));
        }
        if !key.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return Err(refuse(format!("{place} holds characters that no key has")));
        }
        Ok(SecretString::from(key))
    }
}

fn read_wire(entry: &Entry<'_>) -> Result<Wire, SettingError> {
    let text = entry.text()?;
    Wire::parse(text).map_err(|_| {
        let error = entry.refuse("is not a wire").with_value(&Value::Text(text));
        let hint = unknown_setting(text, Wire::ALL.iter().map(|wire| wire.name())).hint;
        SettingError { hint, ..error }
    })
}

fn read_base_url(entry: &Entry<'_>) -> Result<BaseUrl, SettingError> {
    let text = entry.text()?;
    BaseUrl::parse(text).map_err(|error| {
        let told = error.to_string();
        let refused = entry.refuse(told.strip_prefix("the URL ").unwrap_or(&told));
        match error {
            // Both may hold a password.
            BaseUrlError::Endpoint(EndpointError::Credentials) | BaseUrlError::Query => refused,
            _ => refused.with_value(&Value::Text(text)),
        }
    })
}

/// Returns what a key of an upstream accepts, for people.
pub(super) fn accepted(name: &str) -> &'static str {
    UPSTREAM_KEYS
        .iter()
        .find(|key| key.name == name)
        .map_or("", |key| key.accepted)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use secrecy::ExposeSecret;

    use super::*;
    use crate::config::Config;

    fn load(text: &str) -> Result<Config, SettingError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.toml");
        std::fs::write(&path, text).unwrap();
        Config::load(Some(&path), [], &[])
    }

    fn refusal(extra: &str) -> String {
        let text = format!("[[upstream]]\n{extra}\n");
        let error = load(&text).unwrap_err().to_string();
        error.rsplit_once("/a.toml:").unwrap().1.to_owned()
    }

    #[test]
    fn an_upstream_is_read_whole() {
        let config = load(
            r#"
[[upstream]]
name = "claude"
wire = "anthropic"
base_url = "https://api.anthropic.com/"
api_key = { file = "keys/claude" }
models = ["claude-*", "fable"]
http2 = true
pool_idle = 0
tls_extra_roots = "/etc/roots.pem"

[upstream.bounds]
raw_silence = "90s"

[upstream.retry.cut]
tries = 1
"#,
        )
        .unwrap();

        let [upstream] = config.upstreams() else {
            panic!("one upstream")
        };

        assert_eq!(upstream.name, "claude");
        assert_eq!(upstream.wire.name(), "anthropic");
        assert_eq!(
            upstream.base_url.to_string(),
            "https://api.anthropic.com/v1"
        );
        assert!(matches!(
            &upstream.api_key,
            Some(KeySource::File(path)) if path.ends_with("keys/claude") && path.is_absolute()
        ));
        assert!(upstream.has_model("claude-opus") && upstream.has_model("fable"));
        assert!(!upstream.has_model("gpt"));
        assert!(upstream.http2);
        assert_eq!(upstream.pool_idle, 0);
        assert_eq!(
            upstream.tls_extra_roots.as_deref(),
            Some(Path::new("/etc/roots.pem"))
        );
        let settings = config.settings_for(upstream, None).unwrap();
        assert!(matches!(
            settings.bounds.raw_silence.origin,
            Origin::File { line: 13, .. }
        ));
        assert!(matches!(
            settings.retry.cut.tries.origin,
            Origin::File { line: 16, .. }
        ));
    }

    #[test]
    fn what_an_upstream_cannot_be_is_refused() {
        let whole = "name = \"a\"\nwire = \"anthropic\"\nbase_url = \"http://h\"\n";
        for (extra, told) in [
            (
                "name = \"a\"\nwire = \"anthropic\"",
                "1:1: upstream.base_url: is missing; accepted: an http or https URL such as \
                 \"https://api.openai.com/v1\""
                    .to_owned(),
            ),
            (
                "wire = \"antropic\"",
                "2:8: upstream.wire: \"antropic\" is not a wire; accepted: \"openai-chat\", \
                 \"openai-responses\" or \"anthropic\"; did you mean `anthropic`?"
                    .to_owned(),
            ),
            (
                "base_ur = \"http://h\"",
                "2:1: upstream.base_ur: unknown setting; did you mean `upstream.base_url`?".to_owned(),
            ),
            (
                &format!("{whole}bounds = {{ flat = 45 }}"),
                "5:19: bounds.flat: 45 has no unit; accepted: a duration such as \"45s\" or \"2 min\", \
                 or \"off\""
                    .to_owned(),
            ),
            (
                &format!("{whole}pool_idle = -1"),
                "5:13: upstream.pool_idle: -1 is negative; accepted: a whole number, 0 for \
                 none"
                .to_owned(),
            ),
            (
                &format!("{whole}http2 = \"yes\""),
                "5:9: upstream.http2: is neither true nor false; accepted: true or false".to_owned(),
            ),
        ] {
            assert_eq!(refusal(extra), told, "{extra}");
        }
    }

    #[test]
    fn a_key_in_the_file_is_refused_and_never_told() {
        for value in [
            "\"sk-secret\"",
            "{ env = \"A\", file = \"sk-secret\" }",
            "{ key = \"sk-secret\" }",
            "{ env = [\"sk-secret\"] }",
        ] {
            let told = refusal(&format!("api_key = {value}"));

            assert!(told.starts_with("2:11: upstream.api_key: "), "{told}");
            assert!(!told.contains("secret"), "{told}");
        }
    }

    #[test]
    fn a_misspelt_place_of_a_key_is_answered_with_the_right_word() {
        for (written, meant) in [
            ("enviroment", "env"),
            ("environment", "env"),
            ("Env", "env"),
            ("evn", "env"),
            ("variable", "env"),
            ("path", "file"),
            ("flie", "file"),
        ] {
            let told = refusal(&format!("api_key = {{ {written} = \"sk-secret\" }}"));

            assert!(
                told.ends_with(&format!("; did you mean `{meant}`?")) && !told.contains("secret"),
                "{told}"
            );
        }
        for nothing_near in ["{ token = \"X\" }", "{ env = [] }", "{}"] {
            let told = refusal(&format!("api_key = {nothing_near}"));

            assert!(!told.contains("did you mean"), "{told}");
        }
    }

    #[test]
    fn a_url_that_cannot_be_a_base_is_refused_and_its_secrets_are_not_told() {
        for (text, told) in [
            ("", "upstream.base_url: is empty"),
            (
                "ftp://a",
                "upstream.base_url: \"ftp://a\" must begin with http:// or https://",
            ),
            (
                "https://me:pass@a",
                "upstream.base_url: must not carry a user name or password",
            ),
            (
                "https://a/v1?key=pass",
                "upstream.base_url: must not carry a query",
            ),
            (
                "https://a b",
                "upstream.base_url: \"https://a b\" cannot be read: ",
            ),
        ] {
            let refused = refusal(&format!("base_url = \"{text}\""));

            assert!(refused.starts_with(&format!("2:12: {told}")), "{refused}");
            assert!(
                !refused.contains("pass@") && !refused.contains("=pass"),
                "{refused}"
            );
        }
    }

    #[test]
    fn an_upstream_is_handed_to_calls_as_it_was_named() {
        let config = load(
            "[[upstream]]\nname = \"a\"\nwire = \"anthropic\"\nbase_url = \"https://h\"\nhttp2 = true\n",
        )
        .unwrap();

        let upstream = config.upstreams()[0].to_upstream(Some(SecretString::from("sk")));

        assert_eq!(upstream.name(), "a");
        assert_eq!(upstream.base_url().to_string(), "https://h/v1");
        let shown = format!("{upstream:?}");
        assert!(
            shown.contains("has_key: true") && shown.contains("http2: true"),
            "{shown}"
        );
    }

    #[test]
    fn a_key_is_read_where_it_is_and_never_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let env = KeySource::Env("KEY".to_owned());
        let file = KeySource::File(path.clone());
        let none = |_: &str| None;
        let refused = |source: &KeySource, value: &str| {
            let error = source.read(|_| Some(value.into())).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("sk-"));
            error.to_string()
        };

        assert_eq!(
            env.read(none).unwrap_err().to_string(),
            "api_key: the variable KEY is not set"
        );
        assert_eq!(refused(&env, " \n"), "api_key: the variable KEY is empty");
        assert_eq!(
            refused(&env, "sk-a\nsk-b"),
            "api_key: the variable KEY holds characters that no key has"
        );
        let missing = file.read(none).unwrap_err().to_string();
        assert!(missing.contains("cannot be read"), "{missing}");
        std::fs::write(&path, "sk-file\n").unwrap();
        assert_eq!(file.read(none).unwrap().expose_secret(), "sk-file");
        assert_eq!(
            env.read(|_| Some("sk-env".into())).unwrap().expose_secret(),
            "sk-env"
        );
    }
    #[cfg(unix)]
    #[test]
    fn a_key_that_is_not_text_is_refused_as_such() {
        use std::os::unix::ffi::OsStringExt;

        let key = OsString::from_vec(b"sk-\xff".to_vec());

        let error = KeySource::Env("KEY".to_owned())
            .read(|_| Some(key))
            .unwrap_err();

        assert_eq!(error.to_string(), "api_key: the variable KEY is not UTF-8");
    }
}
