//! The page around its views: what a browser is sent first, and what it is sent again and again.

use super::html::{Attribute, Html};
use super::view::View;
use super::{calls, silence, story, upstreams};
use crate::live::{Snapshot, State, Timeline};

/// What the page shows.
pub(super) enum Shown<'a> {
    /// What is true now.
    Now {
        snapshot: &'a Snapshot,
        view: &'a View,
        timeline: Option<&'a Timeline>,
    },
    /// That its reader has to say who they are.
    Locked {
        /// Whether there is a key that opens it.
        has_key: bool,
    },
}

/// Returns the whole page.
pub(super) fn page(shown: &Shown<'_>) -> String {
    let mut html = Html::default();
    html.doctype();
    html.tag("html", &[("lang", &"en")], |html| {
        head(html, shown);
        html.tag("body", &[], |html| {
            html.tag("a", &[("class", &"skip"), ("href", &"#main")], |html| {
                html.text("Skip to the content");
            });
            banner(html);
            html.tag("div", &[("id", &"live")], |html| live(html, shown));
            html.tag(
                "p",
                &[("id", &"said"), ("role", &"status"), ("class", &"unseen")],
                |_| {},
            );
            dialog(html);
        });
    });
    html.into_string()
}

/// Returns what changes of the page: its navigation and its view.
pub(super) fn fragment(shown: &Shown<'_>) -> String {
    let mut html = Html::default();
    live(&mut html, shown);
    html.into_string()
}

fn head(html: &mut Html, shown: &Shown<'_>) {
    html.tag("head", &[], |html| {
        html.void("meta", &[("charset", &"utf-8")]);
        let viewport = "width=device-width, initial-scale=1";
        html.void("meta", &[("name", &"viewport"), ("content", &viewport)]);
        html.void(
            "meta",
            &[("name", &"color-scheme"), ("content", &"light dark")],
        );
        let title = match shown {
            Shown::Now { view, .. } => format!("{} - lifesign", view.title()),
            Shown::Locked { .. } => "lifesign".to_owned(),
        };
        html.leaf("title", "", title);
        let icon: [Attribute<'_>; 3] = [
            ("rel", &"icon"),
            ("type", &"image/svg+xml"),
            ("href", &"/lifesign/page/icon.svg"),
        ];
        html.void("link", &icon);
        for sheet in ["page.css", "views.css", "narrow.css"] {
            let href = format!("/lifesign/page/{sheet}");
            html.void("link", &[("rel", &"stylesheet"), ("href", &href)]);
        }
        html.tag(
            "script",
            &[("type", &"module"), ("src", &"/lifesign/page/page.js")],
            |_| {},
        );
    });
}

fn banner(html: &mut Html) {
    html.group("header", "banner", |html| {
        html.group("p", "brand", |html| {
            html.void(
                "img",
                &[
                    ("src", &"/lifesign/page/icon.svg"),
                    ("alt", &""),
                    ("width", &20),
                    ("height", &20),
                ],
            );
            html.text("lifesign");
        });
        html.group("p", "link", |html| {
            html.tag(
                "span",
                &[("id", &"link"), ("class", &"badge is-still")],
                |html| {
                    html.text("as of loading");
                },
            );
            html.tag(
                "button",
                &[
                    ("type", &"button"),
                    ("id", &"forget"),
                    ("class", &"button"),
                    ("hidden", &""),
                ],
                |html| html.text("Forget the key"),
            );
        });
    });
}

fn live(html: &mut Html, shown: &Shown<'_>) {
    match shown {
        Shown::Now {
            snapshot,
            view,
            timeline,
        } => {
            nav(html, snapshot, view);
            main(html, |html| {
                html.tag("p", &[("id", &"summary"), ("class", &"summary")], |html| {
                    html.text(&snapshot.summary.sentence);
                });
                if snapshot.draining {
                    html.leaf(
                        "p",
                        "warning",
                        "The gateway is stopping: it takes no further calls.",
                    );
                }
                html.tag("h1", &[("id", &"title"), ("tabindex", &"-1")], |html| {
                    html.text(view.title());
                });
                match view {
                    View::Calls => calls::draw(html, snapshot),
                    View::Timeline(chosen) => {
                        story::draw(html, snapshot, chosen.as_deref(), *timeline);
                    }
                    View::Upstreams => upstreams::draw(html, snapshot),
                    View::Silence => silence::draw(html, snapshot),
                }
            });
        }
        Shown::Locked { has_key } => main(html, |html| locked(html, *has_key)),
    }
}

fn main(html: &mut Html, inside: impl FnOnce(&mut Html)) {
    html.tag("main", &[("id", &"main"), ("tabindex", &"-1")], inside);
}

fn nav(html: &mut Html, snapshot: &Snapshot, current: &View) {
    html.tag(
        "nav",
        &[("class", &"views"), ("aria-label", &"Views")],
        |html| {
            for (view, count) in counts(snapshot) {
                let mut attributes: Vec<Attribute<'_>> = vec![("href", &view)];
                if view.name() == current.name() {
                    attributes.push(("aria-current", &"page"));
                }
                html.tag("a", &attributes, |html| {
                    html.text(view.title());
                    if let Some(count) = count.filter(|count| count.all > 0) {
                        count.draw(html);
                    }
                });
            }
        },
    );
}

/// What stands beside the name of a view.
struct Count {
    all: u64,
    of: &'static str,
    bad: u64,
    /// What one of them is called, and several are.
    of_bad: [&'static str; 2],
}

impl Count {
    /// Writes it. What is bad of it the script reads out when it grows.
    fn draw(&self, html: &mut Html) {
        html.text(" ");
        let is_bad = self.bad > 0;
        let [one, several] = self.of_bad;
        let of_bad = if self.bad == 1 { one } else { several };
        let mut attributes: Vec<Attribute<'_>> = vec![("class", &"count")];
        if is_bad {
            attributes = vec![
                ("class", &"count is-bad"),
                ("data-bad", &self.bad),
                ("data-of", &of_bad),
                ("data-kind", &several),
            ];
        }
        html.tag("span", &attributes, |html| {
            html.text(self.all);
            html.leaf("span", "unseen", format_args!(" {}", self.of));
            if is_bad {
                let bad = self.bad;
                html.leaf("span", "unseen", format_args!(", {bad} {of_bad}"));
            }
        });
    }
}

fn counts(snapshot: &Snapshot) -> [(View, Option<Count>); 4] {
    let states = &snapshot.summary.states;
    let of_states = |wanted: &[State]| {
        let counts = wanted.iter().filter_map(|state| states.get(state));
        counts.sum::<usize>() as u64
    };
    let upstreams = snapshot.upstreams.iter();
    let ill = upstreams
        .filter(|upstream| upstream.health.is_ill())
        .count() as u64;
    let failed = snapshot.summary.hour.failed;
    [
        (
            View::Calls,
            Some(Count {
                all: snapshot.summary.calls as u64,
                of: "under way",
                bad: of_states(&[State::Silent, State::Alive]),
                of_bad: ["call shows no work", "calls show no work"],
            }),
        ),
        (
            View::Timeline(None),
            Some(Count {
                all: failed,
                of: "to look at",
                bad: failed,
                of_bad: [
                    "call failed in the last hour",
                    "calls failed in the last hour",
                ],
            }),
        ),
        (
            View::Upstreams,
            Some(Count {
                all: ill,
                of: "to look at",
                bad: ill,
                of_bad: ["upstream in trouble", "upstreams in trouble"],
            }),
        ),
        (View::Silence, None),
    ]
}

fn locked(html: &mut Html, has_key: bool) {
    html.group("section", "block locked", |html| {
        html.tag("h1", &[("id", &"title"), ("tabindex", &"-1")], |html| {
            html.text("This page needs the admin key");
        });
        if !has_key {
            html.leaf(
                "p",
                "",
                "The gateway has none: set serve.admin_key in its file. Without one the page is for this \
                 machine alone, and only where no [[key]] is configured.",
            );
            return;
        }
        html.leaf(
            "p",
            "",
            "It is the one that serve.admin_key names. It stays in this tab, is sent as a header with \
             each request, and is gone when the tab is closed.",
        );
        html.tag("form", &[("id", &"unlock"), ("class", &"script-only")], |html| {
            html.tag("label", &[("for", &"key")], |html| html.text("Admin key"));
            html.void("input", &[
                ("id", &"key"),
                ("type", &"password"),
                ("autocomplete", &"off"),
                ("spellcheck", &"false"),
                ("required", &""),
                ("aria-describedby", &"refused"),
            ]);
            html.tag("button", &[("type", &"submit"), ("class", &"button is-first")], |html| {
                html.text("Open");
            });
            html.tag("p", &[("id", &"refused"), ("class", &"refused"), ("role", &"alert")], |_| {});
        });
        html.tag("noscript", &[], |html| {
            html.leaf("p", "", "To send the key as a header the page needs its script.");
        });
    });
}

fn dialog(html: &mut Html) {
    html.tag(
        "dialog",
        &[("id", &"confirm"), ("aria-labelledby", &"confirm-title")],
        |html| {
            html.tag("form", &[("method", &"dialog")], |html| {
                html.tag("h2", &[("id", &"confirm-title")], |html| {
                    html.text("Cancel this call?");
                });
                html.tag("p", &[("id", &"confirm-text")], |html| {
                    html.text(
                        "Its caller is told that an operator ended it. What came until then stays.",
                    );
                });
                html.group("p", "buttons", |html| {
                    html.tag(
                        "button",
                        &[("class", &"button"), ("value", &"keep"), ("autofocus", &"")],
                        |html| {
                            html.text("Keep it");
                        },
                    );
                    html.tag(
                        "button",
                        &[("class", &"button is-danger"), ("value", &"cancel")],
                        |html| {
                            html.text("Cancel the call");
                        },
                    );
                });
            });
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_bad_is_told_in_the_number_that_it_has() {
        let drawn = |bad| {
            let count = Count {
                all: bad,
                of: "to look at",
                bad,
                of_bad: ["upstream in trouble", "upstreams in trouble"],
            };
            let mut html = Html::default();
            count.draw(&mut html);
            html.into_string()
        };

        assert!(
            drawn(1).contains(", 1 upstream in trouble<"),
            "{}",
            drawn(1)
        );
        assert!(
            drawn(2).contains(", 2 upstreams in trouble<"),
            "{}",
            drawn(2)
        );
        // The script compares them by their kind.
        let kind = "data-kind=\"upstreams in trouble\"";
        assert!(drawn(1).contains(kind) && drawn(2).contains(kind));
    }
}
