//! Settings from a TOML file, each with its line.

use std::io::Read;
use std::ops::Range;
use std::path::Path;

use lifesign_core::{FileKey, KEYS, Key, Layer, Origin, SettingError, Value, unknown_setting};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::UpstreamConfig;
use super::entry::Entry;
use super::extension::{Element, Extension};

/// What a file sets.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) layer: Layer,
    pub(super) upstreams: Vec<UpstreamConfig>,
}

/// Reads a file, and hands over to `extension` what is its.
pub(super) fn read(path: &Path, extension: &mut dyn Extension) -> Result<Contents, SettingError> {
    let name = path.display().to_string();
    let unreadable = |problem: String| SettingError::new(name.as_str(), problem);
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes))
        .map_err(|error| unreadable(format!("cannot be read: {error}")))?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > LONGEST) {
        return Err(unreadable("is longer than 1 MiB".to_owned()));
    }
    let text = String::from_utf8(bytes).map_err(|_| unreadable("is not UTF-8 text".to_owned()))?;
    let source = Source {
        name,
        directory: path.parent().unwrap_or_else(|| Path::new("")),
        text: &text,
    };
    source.contents(extension)
}

/// A file's text, and how to say where something stands in it.
#[derive(Debug)]
pub(super) struct Source<'a> {
    name: String,
    /// Where relative paths start.
    pub(super) directory: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    fn contents(&self, extension: &mut dyn Extension) -> Result<Contents, SettingError> {
        let table = DeTable::parse(self.text).map_err(|error| {
            let problem = error.message().trim().replace('\n', ", ");
            let span = error.span().unwrap_or_default();
            let refused = match self.text.get(span.clone()) {
                // The message leaves out which.
                Some(key) if problem == DUPLICATE => {
                    let key: String = key.chars().take(100).collect();
                    SettingError::new(key.as_str(), "is given twice")
                }
                _ => SettingError::new("", problem),
            };
            refused.with_position(self.position(&span))
        })?;
        let mut contents = Contents::default();
        for (key, value) in in_order(table.get_ref()) {
            let name = key.get_ref().as_ref();
            let array = extension.arrays().iter().find(|(array, _)| *array == name);
            if name == UPSTREAM {
                contents.upstreams = self.upstreams(value, extension)?;
            } else if let Some((array, keys)) = array {
                self.hand_over(array, keys, value, extension)?;
            } else {
                self.set(&mut contents.layer, extension, name, key.span(), value)?;
            }
        }
        Ok(contents)
    }

    fn upstreams(
        &self,
        value: &Spanned<DeValue<'_>>,
        extension: &mut dyn Extension,
    ) -> Result<Vec<UpstreamConfig>, SettingError> {
        let mut upstreams: Vec<UpstreamConfig> = Vec::new();
        for (table, span) in self.tables_of(UPSTREAM, value)? {
            let at = upstreams.len();
            let upstream = UpstreamConfig::read(self, table, span, at, extension)?;
            if let Some(first) = upstreams.iter().find(|first| first.name == upstream.name) {
                return Err(SettingError::new(
                    "upstream.name",
                    format!("is taken: {}", first.origin),
                )
                .with_value(&Value::Text(&upstream.name))
                .with_position(upstream.origin.to_string()));
            }
            upstreams.push(upstream);
        }
        Ok(upstreams)
    }

    /// Hands over an array of tables that is the extension's.
    fn hand_over(
        &self,
        array: &'static str,
        keys: &'static [FileKey],
        value: &Spanned<DeValue<'_>>,
        extension: &mut dyn Extension,
    ) -> Result<(), SettingError> {
        for (table, span) in self.tables_of(array, value)? {
            extension.handle_element(&Element {
                array,
                entries: self.entries(table, array, keys)?,
                keys,
                source: self,
                span,
            })?;
        }
        Ok(())
    }

    /// Returns the elements of an array of tables, and where they stand.
    fn tables_of<'v, 'i>(
        &self,
        name: &str,
        value: &'v Spanned<DeValue<'i>>,
    ) -> Result<Vec<(&'v DeTable<'i>, Range<usize>)>, SettingError> {
        let not_tables = |span| {
            SettingError::new(name, "is not an array of tables")
                .with_accepted(format!("[[{name}]]"))
                .with_position(self.position(&span))
        };
        let array = value.get_ref().as_array();
        let elements = array.ok_or_else(|| not_tables(value.span()))?.iter();
        elements
            .map(|element| match element.get_ref().as_table() {
                Some(table) => Ok((table, element.span())),
                None => Err(not_tables(element.span())),
            })
            .collect()
    }

    /// Returns the entries of a table that has no other keys than these.
    pub(super) fn entries<'a>(
        &'a self,
        table: &'a DeTable<'a>,
        prefix: &str,
        keys: &'static [FileKey],
    ) -> Result<Vec<Entry<'a>>, SettingError> {
        in_order(table)
            .into_iter()
            .map(|(key, value)| {
                let name = key.get_ref().as_ref();
                match keys.iter().find(|known| known.name == name) {
                    Some(known) => Ok(Entry::of_file(
                        format!("{prefix}.{name}"),
                        known.accepted,
                        self,
                        value,
                    )),
                    None => Err(self.unknown(prefix, name, keys, &key.span())),
                }
            })
            .collect()
    }

    /// Returns the refusal of a key that a table does not have.
    pub(super) fn unknown<'k>(
        &self,
        prefix: &str,
        name: &str,
        keys: impl IntoIterator<Item = &'k FileKey>,
        span: &Range<usize>,
    ) -> SettingError {
        let names: Vec<_> = keys
            .into_iter()
            .map(|key| format!("{prefix}.{}", key.name))
            .collect();
        unknown_setting(
            &format!("{prefix}.{name}"),
            names.iter().map(String::as_str),
        )
        .with_position(self.position(span))
    }

    /// Sets everything below `path` in `layer`, or hands it over.
    pub(super) fn set(
        &self,
        layer: &mut Layer,
        extension: &mut dyn Extension,
        path: &str,
        path_span: Range<usize>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), SettingError> {
        if let Some(problem) = extension.reserved(path) {
            return Err(SettingError::new(path, problem).with_position(self.position(&path_span)));
        }
        let is_table = tables(extension.settings()).any(|table| table == path);
        let key = Key::find(path).ok();
        let others = extension.settings().iter().find(|key| key.name == path);
        if !is_table && key.is_none() && others.is_none() {
            let names = names(extension).chain(tables(extension.settings()));
            let arrays = extension.arrays().iter().map(|(array, _)| *array);
            let names = names.chain(arrays).chain([UPSTREAM]);
            return Err(unknown_setting(path, names).with_position(self.position(&path_span)));
        }
        if let (Some(table), true) = (value.get_ref().as_table(), is_table) {
            for (key, value) in in_order(table) {
                let path = format!("{path}.{}", key.get_ref());
                self.set(layer, extension, &path, key.span(), value)?;
            }
            return Ok(());
        }
        if let Some(others) = others {
            let entry = Entry::of_file(path, others.accepted, self, value);
            return extension.handle_setting(&entry);
        }
        let Some(key) = key else {
            return Err(SettingError::new(path, "is not a table")
                .with_accepted(format!("[{path}]"))
                .with_position(self.position(&value.span())));
        };
        let scalar = Entry::of_file(path, key.accepted(), self, value).value()?;
        layer
            .set(path, scalar, self.origin(&value.span()))
            .map_err(|error| error.with_position(self.position(&value.span())))
    }

    /// Returns `file:line:column` of where a span begins.
    pub(super) fn position(&self, span: &Range<usize>) -> String {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
        format!("{}:{}:{column}", self.name, self.line(span))
    }

    /// Returns where a value that a span covers came from.
    pub(super) fn origin(&self, span: &Range<usize>) -> Origin {
        Origin::File {
            path: self.name.clone(),
            line: self.line(span),
        }
    }

    fn line(&self, span: &Range<usize>) -> u32 {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        u32::try_from(before.matches('\n').count() + 1).unwrap_or(u32::MAX)
    }
}

/// Returns the entries of a table as they stand in the file, so that the first mistake is told
/// first.
pub(super) fn in_order<'t, 'i>(
    table: &'t DeTable<'i>,
) -> Vec<(
    &'t Spanned<std::borrow::Cow<'i, str>>,
    &'t Spanned<DeValue<'i>>,
)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// Returns the names of every setting, the extension's among them.
pub(super) fn names(extension: &dyn Extension) -> impl Iterator<Item = &'static str> + use<> {
    let others = extension.settings().iter().map(|key| key.name);
    KEYS.iter().map(|key| key.name).chain(others)
}

/// Returns the names of the tables that settings stand in.
fn tables(others: &'static [FileKey]) -> impl Iterator<Item = &'static str> {
    let names = KEYS.iter().map(|key| key.name);
    names
        .chain(others.iter().map(|key| key.name))
        .filter_map(|name| name.rsplit_once('.'))
        .flat_map(|(table, _)| [Some(table), table.rsplit_once('.').map(|(outer, _)| outer)])
        .flatten()
}

const UPSTREAM: &str = "upstream";
/// What the parser says of a key that stands in its table already.
const DUPLICATE: &str = "duplicate key";
/// No file of settings is longer, in bytes.
const LONGEST: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::extension::Nothing;

    fn parse(text: &str) -> Result<Contents, SettingError> {
        Source {
            name: "a.toml".to_owned(),
            directory: Path::new("/etc/lifesign"),
            text,
        }
        .contents(&mut Nothing)
    }

    fn refusal(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_mistake_is_told_with_its_place() {
        for (text, told) in [
            (
                "profile = \"patient\"\nbounds.flat = 45\n",
                "a.toml:2:15: bounds.flat: 45 has no unit; accepted: a duration such as \"45s\" or \
                 \"2 min\", or \"off\"",
            ),
            (
                "[limits]\n\"\u{e4}\" = 1\n",
                "a.toml:2:1: limits.\u{e4}: unknown setting; accepted: line, frame, answer, request",
            ),
            (
                "[bounds]\nflat = nan\n",
                "a.toml:2:8: bounds.flat: NaN is not a number; accepted: a duration such as \"45s\" or \
                 \"2 min\", or \"off\"",
            ),
            (
                "[bounds]\nflat = 99999999999999999999\n",
                "a.toml:2:8: bounds.flat: 99999999999999999999 is too large; accepted: a duration such \
                 as \"45s\" or \"2 min\", or \"off\"",
            ),
            (
                "[bounds]\nflat = [\"1s\"]\n",
                "a.toml:2:8: bounds.flat: is a value of type array; accepted: a duration such as \
                 \"45s\" or \"2 min\", or \"off\"",
            ),
            (
                "retry = 3\n",
                "a.toml:1:9: retry: is not a table; accepted: [retry]",
            ),
            (
                "[bound]\nflat = \"1s\"\n",
                "a.toml:1:2: bound: unknown setting; did you mean `bounds`?",
            ),
            (
                "[retry.transprot]\ntries = 2\n",
                "a.toml:1:8: retry.transprot: unknown setting; did you mean `retry.transport`?",
            ),
            (
                "upstreams = 1\n",
                "a.toml:1:1: upstreams: unknown setting; did you mean `upstream`?",
            ),
            (
                "[upstream]\nname = \"a\"\n",
                "a.toml:1:1: upstream: is not an array of tables; accepted: [[upstream]]",
            ),
        ] {
            assert_eq!(refusal(text), told);
        }
    }

    #[test]
    fn what_is_no_toml_is_told_with_its_place() {
        let told = refusal("[bounds]\nflat = \n");

        assert!(told.starts_with("a.toml:2:"), "{told}");
        assert!(!told.contains('\n'), "{told}");
    }

    #[test]
    fn a_key_that_is_given_twice_is_named() {
        for (text, told) in [
            (
                "[bounds]\nflat = \"1s\"\nconnect = \"1s\"\nflat = \"2s\"\n",
                "a.toml:4:1: flat: is given twice",
            ),
            (
                "[bounds]\nflat = \"1s\"\n[bounds]\nconnect = \"1s\"\n",
                "a.toml:3:2: bounds: is given twice",
            ),
            (
                "bounds = { flat = \"1s\", flat = \"2s\" }\n",
                "a.toml:1:25: flat: is given twice",
            ),
        ] {
            assert_eq!(refusal(text), told);
        }
    }

    #[test]
    fn the_first_mistake_of_the_file_is_told() {
        let told = refusal("[retry]\nattempts = 0\n[bounds]\nflat = 1\n");

        assert!(
            told.starts_with("a.toml:2:12: retry.attempts: 0 is less than 1"),
            "{told}"
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_told() {
        let error = read(Path::new("/nowhere/lifesign.toml"), &mut Nothing).unwrap_err();

        assert!(
            error
                .to_string()
                .starts_with("/nowhere/lifesign.toml: cannot be read: "),
            "{error}"
        );
    }

    #[test]
    fn two_upstreams_of_one_name_are_refused() {
        let one = "[[upstream]]\nname = \"a\"\nwire = \"anthropic\"\nbase_url = \"http://h\"\n";

        assert_eq!(
            refusal(&format!("{one}{one}")),
            "a.toml:5: upstream.name: \"a\" is taken: a.toml:1"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC*", near in "[\\[\\]a-z_.=\"'{},0-9\n -]{0,60}") {
            let _either = (parse(&text), parse(&near), parse(&format!("[bounds]\n{near}")));
        }
    }
}
