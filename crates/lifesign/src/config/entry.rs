//! A key and its value, as somebody wrote them.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use lifesign_core::{
    FileKey, Origin, Setting, SettingError, Value, unknown_setting, written::count_or_zero,
};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::KeySource;
use super::file::{Source, in_order};

/// A key and its value, and where somebody wrote them.
///
/// Its readers refuse what they cannot use in one sentence that says where it stands and what is
/// accepted.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The name with its table before it, such as `serve.listen`.
    field: Cow<'a, str>,
    accepted: &'a str,
    written: Written<'a>,
}

/// Where a value stands.
#[derive(Clone, Copy, Debug)]
enum Written<'a> {
    /// In a file.
    File(&'a Source<'a>, &'a Spanned<DeValue<'a>>),
    /// In a variable of this name.
    Variable(&'a str, &'a str),
    /// On the command line, or in a header.
    Flag(&'a str),
}

impl<'a> Entry<'a> {
    /// Returns what a flag or a header says about the setting `field`.
    pub fn of_flag(field: &'a str, accepted: &'a str, text: &'a str) -> Self {
        Self {
            field: field.into(),
            accepted,
            written: Written::Flag(text),
        }
    }

    pub(super) fn of_variable(
        field: &'a str,
        accepted: &'a str,
        variable: &'a str,
        text: &'a str,
    ) -> Self {
        Self {
            field: field.into(),
            accepted,
            written: Written::Variable(variable, text),
        }
    }

    pub(super) fn of_file(
        field: impl Into<Cow<'a, str>>,
        accepted: &'a str,
        source: &'a Source<'a>,
        value: &'a Spanned<DeValue<'a>>,
    ) -> Self {
        Self {
            field: field.into(),
            accepted,
            written: Written::File(source, value),
        }
    }

    /// Returns the name with its table before it, such as `serve.listen`.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Returns the name without its table.
    pub fn key(&self) -> &str {
        self.field
            .rsplit_once('.')
            .map_or(&*self.field, |(_, key)| key)
    }

    /// Returns where the value came from.
    pub fn origin(&self) -> Origin {
        match self.written {
            Written::File(source, value) => source.origin(&value.span()),
            Written::Variable(..) => Origin::Env,
            Written::Flag(_) => Origin::Call,
        }
    }

    /// Returns `file:line:column`, or the variable; `None` for a flag.
    pub fn position(&self) -> Option<String> {
        match self.written {
            Written::File(source, value) => Some(source.position(&value.span())),
            Written::Variable(variable, _) => Some(variable.to_owned()),
            Written::Flag(_) => None,
        }
    }

    /// Returns a refusal with this problem, which does not tell the value.
    pub fn refuse(&self, problem: impl Into<Box<str>>) -> SettingError {
        let error = SettingError::new(&*self.field, problem);
        let error = match self.accepted {
            "" => error,
            accepted => error.with_accepted(accepted),
        };
        match self.position() {
            Some(position) => error.with_position(position),
            None => error,
        }
    }

    /// Returns the value, which is neither a table nor an array.
    ///
    /// # Errors
    ///
    /// Returns an error if it is one, or a number that cannot be held.
    pub fn value(&self) -> Result<Value<'a>, SettingError> {
        let value = match self.written {
            Written::File(_, value) => value.get_ref(),
            Written::Variable(_, text) | Written::Flag(text) => return Ok(Value::of_text(text)),
        };
        let refuse = |problem: String, written: Option<String>| SettingError {
            value: written.map(Into::into),
            ..self.refuse(problem)
        };
        match value {
            DeValue::String(text) => Ok(Value::Text(text)),
            DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
                .map(Value::Integer)
                .map_err(|_| refuse("is too large".to_owned(), Some(integer.to_string()))),
            DeValue::Float(float) => float
                .as_str()
                .parse()
                .map(Value::Float)
                .map_err(|_| refuse("is not a number".to_owned(), Some(float.to_string()))),
            DeValue::Boolean(flag) => Ok(Value::Bool(*flag)),
            other @ (DeValue::Array(_) | DeValue::Datetime(_) | DeValue::Table(_)) => Err(refuse(
                format!("is a value of type {}", other.type_str()),
                None,
            )),
        }
    }

    /// Reads the value with `reader`, which says what is wrong with one that it refuses.
    ///
    /// # Errors
    ///
    /// Returns an error that tells the value, its place and what is accepted.
    pub fn read<T>(
        &self,
        reader: impl FnOnce(Value<'_>) -> Result<T, String>,
    ) -> Result<Setting<T>, SettingError> {
        let value = self.value()?;
        match reader(value) {
            Ok(read) => Ok(self.setting(read)),
            Err(problem) => Err(self.refuse(problem).with_value(&value)),
        }
    }

    /// Returns `value` as a setting that came from here.
    pub fn setting<T>(&self, value: T) -> Setting<T> {
        Setting {
            value,
            origin: self.origin(),
        }
    }

    /// Reads text that is not blank.
    ///
    /// # Errors
    ///
    /// Returns an error, which does not tell the value.
    pub fn text(&self) -> Result<&'a str, SettingError> {
        match self.text_or_none() {
            Some(text) if text.trim().is_empty() => Err(self.refuse("is empty")),
            Some(text) => Ok(text),
            None => Err(self.refuse("is not text")),
        }
    }

    fn text_or_none(&self) -> Option<&'a str> {
        match self.written {
            Written::File(_, value) => value.get_ref().as_str(),
            Written::Variable(_, text) | Written::Flag(text) => Some(text),
        }
    }

    /// Reads a list of texts, none of them blank; in a variable or a flag, commas stand between.
    ///
    /// # Errors
    ///
    /// Returns an error if it is none, or an element is no text.
    pub fn texts(&self) -> Result<Vec<String>, SettingError> {
        let value = match self.written {
            Written::File(_, value) => value,
            Written::Variable(_, text) | Written::Flag(text) => {
                let texts: Vec<_> = text.split(',').map(|part| part.trim().to_owned()).collect();
                if texts.iter().any(String::is_empty) {
                    return Err(self.refuse("holds an empty element"));
                }
                return Ok(texts);
            }
        };
        let Some(array) = value.get_ref().as_array() else {
            return Err(self.refuse("is not an array"));
        };
        array
            .iter()
            .map(|element| match element.get_ref().as_str() {
                Some(text) if !text.trim().is_empty() => Ok(text.to_owned()),
                Some(_) => Err(self.refuse("holds an empty element")),
                None => Err(self.refuse("holds something that is no text")),
            })
            .collect()
    }

    /// Reads a list of texts, or one text alone.
    ///
    /// # Errors
    ///
    /// Returns an error if it is neither.
    pub fn text_or_texts(&self) -> Result<Vec<String>, SettingError> {
        match self.written {
            Written::File(_, value) if value.get_ref().is_str() => {
                Ok(vec![self.text()?.to_owned()])
            }
            Written::File(..) | Written::Variable(..) | Written::Flag(_) => self.texts(),
        }
    }

    /// Reads a path; a relative one in a file starts at the file's directory.
    ///
    /// # Errors
    ///
    /// Returns an error if it is no text, or blank.
    pub fn path(&self) -> Result<PathBuf, SettingError> {
        let text = self.text()?;
        Ok(match self.written {
            Written::File(source, _) => source.directory.join(text),
            Written::Variable(..) | Written::Flag(_) => Path::new(text).to_owned(),
        })
    }

    /// Reads true or false.
    ///
    /// # Errors
    ///
    /// Returns an error if it is neither; the words stand for them in a variable or a flag.
    pub fn flag(&self) -> Result<bool, SettingError> {
        let flag = match self.written {
            Written::File(_, value) => value.get_ref().as_bool(),
            Written::Variable(_, text) | Written::Flag(text) => text.parse().ok(),
        };
        flag.ok_or_else(|| self.refuse("is neither true nor false"))
    }

    /// Reads a whole number, which may be 0.
    ///
    /// # Errors
    ///
    /// Returns an error if it is none, or a negative one.
    pub fn count_or_zero(&self) -> Result<Setting<usize>, SettingError> {
        self.read(count_or_zero)
    }

    /// Reads one of `words`; returns its place among them.
    ///
    /// # Errors
    ///
    /// Returns an error with the nearest of them.
    pub fn one_of(&self, words: &[&str]) -> Result<usize, SettingError> {
        let text = self.text()?;
        words
            .iter()
            .position(|word| *word == text.trim())
            .ok_or_else(|| {
                let hint = unknown_setting(text, words.iter().copied()).hint;
                let error = self.refuse("is not known").with_value(&Value::Text(text));
                SettingError { hint, ..error }
            })
    }

    /// Reads where a key is: a table with `env` or `file`; in a variable or a flag `env:NAME` or
    /// `file:PATH`.
    ///
    /// # Errors
    ///
    /// Returns an error that tells nothing of the value: somebody may have written the key itself.
    pub fn key_source(&self) -> Result<KeySource, SettingError> {
        let (source, table) = match self.written {
            Written::File(source, value) => match value.get_ref() {
                DeValue::Table(table) => (source, table),
                DeValue::String(_) => return Err(self.refuse("must not hold the key itself")),
                _ => return Err(self.refuse("is not a table")),
            },
            Written::Variable(_, text) | Written::Flag(text) => {
                return match text.split_once(':') {
                    Some(("env", name)) if !name.is_empty() => Ok(KeySource::Env(name.to_owned())),
                    Some(("file", path)) if !path.is_empty() => Ok(KeySource::File(path.into())),
                    _ => Err(self.refuse("must not hold the key itself")),
                };
            }
        };
        let entries: Vec<_> = table
            .iter()
            .map(|(key, value)| (key.get_ref().as_ref(), value.get_ref().as_str()))
            .collect();
        match entries.as_slice() {
            [("env", Some(name))] if !name.is_empty() => Ok(KeySource::Env((*name).to_owned())),
            [("file", Some(path))] if !path.is_empty() => {
                Ok(KeySource::File(source.directory.join(path)))
            }
            _ => {
                let error = self.refuse("names neither a variable nor a file, or more than one");
                let hint = entries.iter().find_map(|(key, _)| meant(key));
                Err(match hint {
                    Some(near) => error.with_hint(format!("did you mean `{near}`?")),
                    None => error,
                })
            }
        }
    }

    /// Reads a table of names to texts, in the order of the file.
    ///
    /// # Errors
    ///
    /// Returns an error if it is no table, or holds something else than text.
    pub fn names(&self) -> Result<Vec<(String, String)>, SettingError> {
        let (_, table) = self.table()?;
        in_order(table)
            .into_iter()
            .map(|(key, value)| match value.get_ref().as_str() {
                Some(text) if !text.trim().is_empty() => {
                    Ok((key.get_ref().to_string(), text.to_owned()))
                }
                _ => Err(self.refuse("holds something that is no name")),
            })
            .collect()
    }

    /// Reads a table whose keys are those of `keys`; their entries are named `prefix.key`.
    ///
    /// # Errors
    ///
    /// Returns an error if it is no table, or has a key that is none of them, with a suggestion.
    pub fn entries(
        &self,
        prefix: &str,
        keys: &'static [FileKey],
    ) -> Result<Vec<Self>, SettingError> {
        let (source, table) = self.table()?;
        source.entries(table, prefix, keys)
    }

    fn table(&self) -> Result<(&'a Source<'a>, &'a DeTable<'a>), SettingError> {
        match self.written {
            Written::File(source, value) => match value.get_ref().as_table() {
                Some(table) => Ok((source, table)),
                None => Err(self.refuse("is not a table")),
            },
            Written::Variable(..) | Written::Flag(_) => Err(self.refuse("is not a table")),
        }
    }
}

/// Returns what somebody meant who wrote `key` where a key's place is named.
fn meant(key: &str) -> Option<&'static str> {
    if matches!(key, "env" | "file") {
        return None;
    }
    match key.to_ascii_lowercase().as_str() {
        // Whoever writes the word out, rightly or not, begins it rightly.
        word if word.starts_with("env") || word.starts_with("var") => Some("env"),
        word if word.starts_with("file") || word == "path" => Some("file"),
        word => ["env", "file"]
            .into_iter()
            .find(|name| unknown_setting(word, [*name].into_iter()).hint.is_some()),
    }
}
