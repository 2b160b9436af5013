//! `[journal]`: where calls are written down, and how much of it is kept.

use std::path::PathBuf;
use std::time::Duration;

use lifesign::config::Entry;
use lifesign_core::{Limit, Setting, SettingError, Value, written};

use super::GatewayConfig;
use crate::journal::{Journal, JournalError, JournalSettings, parse_age};

/// Where calls are written down, and how much of it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// The file. Default none: no journal is kept.
    pub path: Setting<Option<PathBuf>>,
    /// How long calls are kept. Default 30 days.
    pub keep: Setting<Limit>,
    /// The most bytes of the file. Default 2 GiB.
    pub max_size: Setting<usize>,
    /// Whether prompts and answers are kept too, which no version can yet: false.
    pub text: Setting<bool>,
}

impl Default for JournalConfig {
    fn default() -> Self {
        Self {
            path: Setting::default_value(None),
            keep: Setting::default_value(Limit::After(JournalSettings::KEEP)),
            max_size: Setting::default_value(
                usize::try_from(JournalSettings::MAX_SIZE).unwrap_or(usize::MAX),
            ),
            text: Setting::default_value(false),
        }
    }
}

impl JournalConfig {
    pub(super) fn handle(&mut self, entry: &Entry<'_>) -> Result<(), SettingError> {
        match entry.key() {
            "path" => self.path = entry.setting(Some(entry.path()?)),
            "keep" => self.keep = entry.read(read_keep)?,
            "max_size" => self.max_size = entry.read(read_size)?,
            "text" => {
                if entry.flag()? {
                    return Err(entry.refuse(
                        "cannot be true: the gateway passes answers on without keeping their text",
                    ));
                }
                self.text = entry.setting(false);
            }
            _ => return Err(entry.refuse("is no setting of journal")),
        }
        Ok(())
    }

    /// Returns how the journal is to be opened, if one is kept.
    pub fn settings(&self) -> Option<JournalSettings> {
        let path = self.path.value.clone()?;
        Some(JournalSettings {
            path,
            keep: self.kept_for(),
            max_size: self.max_size.value as u64,
        })
    }

    fn kept_for(&self) -> Option<Duration> {
        match self.keep.value {
            Limit::After(keep) => Some(keep),
            Limit::Off => None,
        }
    }
}

impl GatewayConfig {
    /// Says whether the journal can be kept where the settings want it.
    pub(super) fn check_journal(&self) -> Result<(), SettingError> {
        match &self.journal.path.value {
            Some(path) => Journal::check(path).map_err(|error| self.refused_journal(&error)),
            None => Ok(()),
        }
    }

    /// Opens the journal, if one is to be kept.
    pub(crate) fn open_journal(&self) -> Result<Option<Journal>, SettingError> {
        let opened = self.journal.settings().map(Journal::open).transpose();
        opened.map_err(|error| self.refused_journal(&error))
    }

    fn refused_journal(&self, error: &JournalError) -> SettingError {
        let error = SettingError::new(PATH, format!("cannot be used: {error}"))
            .with_accepted("the path of a file in a directory that exists");
        self.placed(error, PATH)
    }
}

fn read_keep(value: Value<'_>) -> Result<Limit, String> {
    match value {
        Value::Text(text) if text.trim() != "off" => parse_age(text).map(Limit::After),
        other => written::limit(other),
    }
}

fn read_size(value: Value<'_>) -> Result<usize, String> {
    match written::size(value)? {
        size if size < LEAST_SIZE => Err("is too little to keep anything".to_owned()),
        size => Ok(size),
    }
}

const PATH: &str = "journal.path";

/// Below it there is hardly room for the tables.
const LEAST_SIZE: usize = 1 << 20;
