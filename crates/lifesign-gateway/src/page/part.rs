//! Pieces that several views show: states, bars, tables, codes.

use std::fmt::Display;

use lifesign_core::Clock;

use super::html::{Attribute, Html};
use crate::live::State;

/// Writes a word with a mark that tells it apart without colour.
pub(super) fn badge(html: &mut Html, kind: &str, word: &str) {
    let class = format!("badge is-{kind}");
    html.tag("span", &[("class", &class)], |html| html.text(word));
}

/// Writes the state of a call.
pub(super) fn state(html: &mut Html, state: State) {
    badge(html, state.name(), state.label());
}

/// Writes a plain sentence. Numbers stay with their units.
pub(super) fn sentence(html: &mut Html, sentence: &str) {
    html.leaf("p", "sentence", with_units(sentence));
}

/// Returns a text whose numbers stay on one line with their units.
fn with_units(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut words = text.split(' ').peekable();
    while let Some(word) = words.next() {
        joined.push_str(word);
        if let Some(next) = words.peek() {
            let is_number = word.ends_with(|last: char| last.is_ascii_digit());
            let unit = next.trim_end_matches(|last: char| !last.is_ascii_alphanumeric());
            let is_joint = is_number && UNITS.contains(&unit);
            joined.push(if is_joint { '\u{a0}' } else { ' ' });
        }
    }
    joined
}

/// Writes something that a program would read: an id, a setting, a code.
pub(super) fn code(html: &mut Html, text: impl Display) {
    html.leaf("code", "", text);
}

/// How far something has come to its limit.
pub(super) struct Bar<'a> {
    /// What it measures, for those who do not see it.
    pub(super) label: &'a str,
    pub(super) value: u64,
    /// None where there is no limit.
    pub(super) limit: Option<u64>,
    /// The same in words.
    pub(super) text: &'a str,
    /// Whether time moves it on, the values being milliseconds.
    pub(super) runs: bool,
}

impl Bar<'_> {
    /// Writes it.
    pub(super) fn draw(&self, html: &mut Html) {
        let Some(limit) = self.limit else {
            html.tag(
                "svg",
                &[("class", &"bar is-free"), ("aria-hidden", &"true")],
                |_| {},
            );
            return;
        };
        let part = percent(self.value, limit);
        let near = match part {
            90.. => "bar is-due",
            75.. => "bar is-near",
            _ => "bar",
        };
        let (value, runs) = (self.value.min(limit), self.value);
        let mut attributes: Vec<Attribute<'_>> = vec![
            ("class", &near),
            ("role", &"meter"),
            ("aria-label", &self.label),
            ("aria-valuemin", &0),
            ("aria-valuemax", &limit),
            ("aria-valuenow", &value),
            ("aria-valuetext", &self.text),
        ];
        if self.runs {
            attributes.extend([("data-age", &runs as &dyn Display), ("data-limit", &limit)]);
        }
        let width = format!("{part}%");
        html.tag("svg", &attributes, |html| {
            html.tag("rect", &[("width", &width), ("height", &"100%")], |_| {});
        });
    }
}

/// Returns how much of `limit` `value` is, at most all of it.
pub(super) fn percent(value: u64, limit: u64) -> u64 {
    let part = value.saturating_mul(100).checked_div(limit);
    part.unwrap_or(100).min(100)
}

/// A table whose rows become blocks on a narrow screen; the roles keep it a table there.
pub(super) fn table(
    html: &mut Html,
    class: &'static str,
    caption: &str,
    heads: &[&str],
    rows: impl FnOnce(&mut Html),
) {
    let class = format!("table {class}");
    html.tag("table", &[("role", &"table"), ("class", &class)], |html| {
        html.leaf("caption", "", caption);
        html.tag("thead", &[("role", &"rowgroup")], |html| {
            html.tag("tr", &[("role", &"row")], |html| {
                for head in heads {
                    let attributes: [Attribute<'_>; 2] =
                        [("role", &"columnheader"), ("scope", &"col")];
                    html.tag("th", &attributes, |html| html.text(head));
                }
            });
        });
        html.tag("tbody", &[("role", &"rowgroup")], rows);
    });
}

/// Writes a row that is the same one as long as `key` is.
pub(super) fn row(html: &mut Html, key: &str, class: &str, cells: impl FnOnce(&mut Html)) {
    let attributes: [Attribute<'_>; 3] = [("role", &"row"), ("data-key", &key), ("class", &class)];
    html.tag("tr", &attributes, cells);
}

/// Writes a cell.
pub(super) fn cell(html: &mut Html, class: &'static str, inside: impl FnOnce(&mut Html)) {
    html.tag("td", &[("role", &"cell"), ("class", &class)], inside);
}

/// Writes a term and what it is.
pub(super) fn fact(html: &mut Html, term: &str, inside: impl FnOnce(&mut Html)) {
    html.group("div", "fact", |html| {
        html.leaf("dt", "", term);
        html.tag("dd", &[], inside);
    });
}

/// Returns what sets a clock back to zero, for people.
pub(super) const fn renewed_by(clock: Clock) -> &'static str {
    match clock {
        Clock::Raw => "any byte, heartbeats included",
        Clock::Event => "a sign of work",
        Clock::Content => "reasoning or output",
        Clock::Output => "output",
    }
}

const UNITS: [&str; 4] = ["ms", "s", "min", "h"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_with_their_units_and_nothing_else_does() {
        let text = with_units("silent for 31 min 2 s; 1 attempt, (limit 45 s) 3 s.");

        assert_eq!(
            text,
            "silent for 31\u{a0}min 2\u{a0}s; 1 attempt, (limit 45\u{a0}s) 3\u{a0}s."
        );
    }

    #[test]
    fn a_bar_is_never_wider_than_its_limit_and_says_how_far_it_is() {
        let drawn = |value, limit| {
            let mut html = Html::default();
            let bar = Bar {
                label: "raw",
                value,
                limit,
                text: "so far",
                runs: true,
            };
            bar.draw(&mut html);
            html.into_string()
        };

        assert!(drawn(30, Some(40)).contains("class=\"bar is-near\""));
        assert!(drawn(30, Some(40)).contains("width=\"75%\""));
        let over = drawn(99, Some(40));
        assert!(
            over.contains("is-due") && over.contains("width=\"100%\""),
            "{over}"
        );
        assert!(over.contains("aria-valuenow=\"40\""), "{over}");
        assert!(drawn(0, Some(0)).contains("width=\"100%\""));
        assert!(!drawn(30, None).contains("role=\"meter\""));
    }
}
