//! What somebody else keeps in the same file, the same environment and the same flags.

use lifesign_core::{FileKey, Origin, SettingError};

use super::entry::Entry;
use super::file::Source;

/// What somebody else keeps in the same file, the same environment and the same flags.
///
/// The client knows the names and hands over the values; whatever is refused is refused in its
/// words. Values come from the weakest source to the strongest, so that a later one wins.
pub trait Extension {
    /// Returns its single settings; each name has its table before it.
    fn settings(&self) -> &'static [FileKey];

    /// Returns its keys of an `[[upstream]]`.
    fn upstream_keys(&self) -> &'static [FileKey];

    /// Returns its arrays of tables, such as `[[route]]`, with their keys.
    fn arrays(&self) -> &'static [(&'static str, &'static [FileKey])];

    /// Returns why a table or setting cannot be used that has a name and does not exist yet; of
    /// itself there is none.
    fn reserved(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// Takes the value of a setting.
    ///
    /// # Errors
    ///
    /// Returns why it cannot be used.
    fn handle_setting(&mut self, entry: &Entry<'_>) -> Result<(), SettingError>;

    /// Takes the value of a key of the `at`th upstream, counted from 0.
    ///
    /// # Errors
    ///
    /// Returns why it cannot be used.
    fn handle_upstream(&mut self, at: usize, entry: &Entry<'_>) -> Result<(), SettingError>;

    /// Takes an element of an array of tables.
    ///
    /// # Errors
    ///
    /// Returns why it cannot be used.
    fn handle_element(&mut self, element: &Element<'_>) -> Result<(), SettingError>;
}

/// An element of an array of tables.
#[derive(Debug)]
pub struct Element<'a> {
    /// The array's name.
    pub array: &'static str,
    /// The element's entries, in the order of the file.
    pub entries: Vec<Entry<'a>>,
    pub(super) keys: &'static [FileKey],
    pub(super) source: &'a Source<'a>,
    pub(super) span: std::ops::Range<usize>,
}

impl Element<'_> {
    /// Returns where the element begins.
    pub fn origin(&self) -> Origin {
        self.source.origin(&self.span)
    }

    /// Returns `file:line:column` of where the element begins.
    pub fn position(&self) -> String {
        self.source.position(&self.span)
    }

    /// Returns the refusal of an element that lacks `key`.
    pub fn missing(&self, key: &str) -> SettingError {
        let error = SettingError::new(format!("{}.{key}", self.array), "is missing")
            .with_position(self.position());
        match self.keys.iter().find(|known| known.name == key) {
            Some(known) => error.with_accepted(known.accepted),
            None => error,
        }
    }
}

/// Nobody else's settings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Nothing;

impl Extension for Nothing {
    fn settings(&self) -> &'static [FileKey] {
        &[]
    }

    fn upstream_keys(&self) -> &'static [FileKey] {
        &[]
    }

    fn arrays(&self) -> &'static [(&'static str, &'static [FileKey])] {
        &[]
    }

    fn handle_setting(&mut self, entry: &Entry<'_>) -> Result<(), SettingError> {
        Err(entry.refuse("is nobody's"))
    }

    fn handle_upstream(&mut self, _at: usize, entry: &Entry<'_>) -> Result<(), SettingError> {
        Err(entry.refuse("is nobody's"))
    }

    fn handle_element(&mut self, element: &Element<'_>) -> Result<(), SettingError> {
        Err(SettingError::new(element.array, "is nobody's"))
    }
}

#[cfg(test)]
mod tests {
    use lifesign_core::{Shape, written};
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::config::Config;

    /// Writes down what it is handed.
    #[derive(Default)]
    struct House {
        told: Vec<String>,
    }

    const fn key(name: &'static str) -> FileKey {
        FileKey {
            name,
            shape: Shape::Text,
            accepted: "a colour",
            default: "none",
            doc: "what it is painted in",
        }
    }

    impl Extension for House {
        fn settings(&self) -> &'static [FileKey] {
            const {
                &[
                    key("house.door"),
                    key("house.roof.tiles"),
                    key("limits.rooms"),
                ]
            }
        }

        fn upstream_keys(&self) -> &'static [FileKey] {
            const { &[key("fence")] }
        }

        fn arrays(&self) -> &'static [(&'static str, &'static [FileKey])] {
            const { &[("garden", &[key("name"), key("hedge")])] }
        }

        fn reserved(&self, name: &str) -> Option<&'static str> {
            name.starts_with("cellar").then_some("is not dug yet")
        }

        fn handle_setting(&mut self, entry: &Entry<'_>) -> Result<(), SettingError> {
            let colour = entry.text()?;
            if colour == "grey" {
                return Err(entry.refuse("is dull"));
            }
            let told = format!("{} {colour} {}", entry.field(), entry.origin());
            self.told.push(told);
            Ok(())
        }

        fn handle_upstream(&mut self, at: usize, entry: &Entry<'_>) -> Result<(), SettingError> {
            self.told
                .push(format!("{at} {} {}", entry.field(), entry.text()?));
            Ok(())
        }

        fn handle_element(&mut self, element: &Element<'_>) -> Result<(), SettingError> {
            if !element.entries.iter().any(|entry| entry.key() == "hedge") {
                return Err(element.missing("hedge"));
            }
            for entry in &element.entries {
                self.told
                    .push(format!("{} {}", entry.field(), entry.text()?));
            }
            Ok(())
        }
    }

    fn load(
        text: &str,
        variables: &[(&str, &str)],
        sets: &[&str],
    ) -> Result<Vec<String>, SettingError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.toml");
        std::fs::write(&path, text).unwrap();
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        let sets: Vec<_> = sets.iter().map(|set| (*set).to_owned()).collect();
        let mut house = House::default();
        Config::load_with(Some(&path), variables, &sets, &mut house)?;
        let place = format!("{}/", directory.path().display());
        Ok(house
            .told
            .iter()
            .map(|told| told.replace(&place, ""))
            .collect())
    }

    fn refusal(text: &str, variables: &[(&str, &str)], sets: &[&str]) -> String {
        let told = load(text, variables, sets).unwrap_err().to_string();
        match told.split_once("/a.toml:") {
            Some((_, told)) => told.to_owned(),
            None => told,
        }
    }

    #[test]
    fn what_is_somebody_elses_is_handed_over_from_the_weakest_to_the_strongest() {
        let text = r#"
limits = { line = "1 MiB", rooms = "white" }
[house]
door = "red"
roof = { tiles = "blue" }
[[upstream]]
name = "a"
fence = "green"
wire = "anthropic"
base_url = "http://h"
[[garden]]
hedge = "yew"
"#;

        let told = load(
            text,
            &[
                ("LIFESIGN_HOUSE__DOOR", "black"),
                ("LIFESIGN_HOUSE__ROOF__TILES", "null"),
            ],
            &["house.door=pink", "bounds.flat=1s"],
        );

        assert_eq!(
            told.unwrap(),
            [
                "limits.rooms white a.toml:2",
                "house.door red a.toml:4",
                "house.roof.tiles blue a.toml:5",
                "0 upstream.fence green",
                "garden.hedge yew",
                "house.door black env",
                "house.door pink call",
            ]
        );
    }

    #[test]
    fn what_is_refused_is_refused_with_its_place_whoever_it_belongs_to() {
        for (text, told) in [
            (
                "[house]\ndoor = \"grey\"\n",
                "2:8: house.door: is dull; accepted: a colour",
            ),
            (
                "[house]\ndoor = 1\n",
                "2:8: house.door: is not text; accepted: a colour",
            ),
            (
                "house = 1\n",
                "1:9: house: is not a table; accepted: [house]",
            ),
            (
                "[house]\ndor = \"red\"\n",
                "2:1: house.dor: unknown setting; did you mean `house.door`?",
            ),
            (
                "[hause]\n",
                "1:2: hause: unknown setting; did you mean `house`?",
            ),
            (
                "[[gardn]]\n",
                "1:3: gardn: unknown setting; did you mean `garden`?",
            ),
            (
                "[[upstream]]\nfense = 1\n",
                "2:1: upstream.fense: unknown setting; did you mean `upstream.fence`?",
            ),
            (
                "\n[[garden]]\nname = \"a\"\n",
                "2:1: garden.hedge: is missing; accepted: a colour",
            ),
            (
                "[[garden]]\nhege = \"a\"\n",
                "2:1: garden.hege: unknown setting; did you mean `garden.hedge`?",
            ),
            (
                "[garden]\nhedge = \"a\"\n",
                "1:1: garden: is not an array of tables; accepted: [[garden]]",
            ),
            ("[cellar]\n", "1:2: cellar: is not dug yet"),
        ] {
            assert_eq!(refusal(text, &[], &[]), told);
        }
        for (name, value, told) in [
            (
                "LIFESIGN_HOUSE__DOOR",
                "grey",
                "LIFESIGN_HOUSE__DOOR: house.door: is dull; accepted: a colour",
            ),
            (
                "LIFESIGN_HOUSE__DOR",
                "red",
                "LIFESIGN_HOUSE__DOR: house.dor: unknown setting; did you mean `house.door`?",
            ),
            (
                "LIFESIGN_HOUSE_DOOR",
                "red",
                "LIFESIGN_HOUSE_DOOR: house.door: is written LIFESIGN_HOUSE__DOOR in the environment",
            ),
            (
                "LIFESIGN_CELLAR__WINE",
                "red",
                "LIFESIGN_CELLAR__WINE: cellar.wine: is not dug yet",
            ),
        ] {
            assert_eq!(refusal("", &[(name, value)], &[]), told);
        }
        for (set, told) in [
            ("house.door=grey", "house.door: is dull; accepted: a colour"),
            (
                "house.dor=red",
                "house.dor: unknown setting; did you mean `house.door`?",
            ),
            ("cellar.wine=red", "cellar.wine: is not dug yet"),
        ] {
            assert_eq!(refusal("", &[], &[set]), told);
        }
    }

    #[test]
    fn a_list_is_written_with_commas_where_there_are_no_arrays() {
        let entry = |text| Entry::of_flag("house.door", "colours", text);

        assert_eq!(entry("red, blue").texts().unwrap(), ["red", "blue"]);
        assert_eq!(entry("red").text_or_texts().unwrap(), ["red"]);
        assert_eq!(
            entry("red,,blue").texts().unwrap_err().to_string(),
            "house.door: holds an empty element; accepted: colours"
        );
    }

    #[test]
    fn a_value_is_read_by_any_reader_and_told_where_it_is_refused() {
        let entry = Entry::of_flag("house.door", "a duration", "45");

        assert_eq!(
            entry.read(written::limit).unwrap_err().to_string(),
            "house.door: \"45\" has no unit; accepted: a duration"
        );
        assert_eq!(entry.count_or_zero().unwrap().value, 45);
    }
}
