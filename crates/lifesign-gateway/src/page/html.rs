//! HTML in which nothing that is shown can be taken for markup.
//!
//! Names of elements and attributes are written in the source; everything else goes through
//! [`Escaped`], and there is no way around it.

use std::fmt::{self, Display, Write as _};

/// A piece of HTML.
#[derive(Debug, Default)]
pub(super) struct Html(String);

/// An attribute: its name, and what it says.
pub(super) type Attribute<'a> = (&'static str, &'a dyn Display);

impl Html {
    pub(super) fn into_string(self) -> String {
        self.0
    }

    /// Writes what stands before the first element.
    pub(super) fn doctype(&mut self) {
        self.0.push_str("<!doctype html>");
    }

    /// Writes an element with what `inside` writes.
    pub(super) fn tag(
        &mut self,
        name: &'static str,
        attributes: &[Attribute<'_>],
        inside: impl FnOnce(&mut Self),
    ) {
        self.open(name, attributes);
        inside(self);
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push('>');
    }

    /// Writes an element that has no content.
    pub(super) fn void(&mut self, name: &'static str, attributes: &[Attribute<'_>]) {
        self.open(name, attributes);
    }

    /// Writes an element of a class that holds a text.
    pub(super) fn leaf(&mut self, name: &'static str, class: &'static str, text: impl Display) {
        let class: &[Attribute<'_>] = if class.is_empty() {
            &[]
        } else {
            &[("class", &class)]
        };
        self.tag(name, class, |html| html.text(text));
    }

    /// Writes an element of a class with what `inside` writes.
    pub(super) fn group(
        &mut self,
        name: &'static str,
        class: &'static str,
        inside: impl FnOnce(&mut Self),
    ) {
        self.tag(name, &[("class", &class)], inside);
    }

    /// Writes a text.
    pub(super) fn text(&mut self, text: impl Display) {
        // A string takes everything.
        let _infallible = write!(Escaped(&mut self.0), "{text}");
    }

    fn open(&mut self, name: &'static str, attributes: &[Attribute<'_>]) {
        self.0.push('<');
        self.0.push_str(name);
        for (attribute, value) in attributes {
            self.0.push(' ');
            self.0.push_str(attribute);
            self.0.push_str("=\"");
            self.text(value);
            self.0.push('"');
        }
        self.0.push('>');
    }
}

/// Writes what is written to it so that it is text, in an element and in an attribute.
struct Escaped<'a>(&'a mut String);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                other => self.0.push(other),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_text_in_elements_and_attributes() {
        let mut html = Html::default();
        let evil = "\"><script>alert('&')</script>";

        html.tag("a", &[("title", &evil)], |html| html.text(evil));

        let text = "&quot;&gt;&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;";
        assert_eq!(
            html.into_string(),
            format!("<a title=\"{text}\">{text}</a>")
        );
    }

    #[test]
    fn elements_stand_in_one_another() {
        let mut html = Html::default();

        html.group("p", "x", |html| {
            html.leaf("b", "", 1);
            html.void("br", &[]);
        });

        assert_eq!(html.into_string(), "<p class=\"x\"><b>1</b><br></p>");
    }
}
