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
        html.void(
            "link",
            &[("rel", &"stylesheet"), ("href", &"/lifesign/page/page.css")],
        );
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
    let states = &snapshot.summary.states;
    let bad: usize = [State::Silent, State::Alive]
        .iter()
        .filter_map(|state| states.get(state))
        .sum();
    let ill = snapshot
        .upstreams
        .iter()
        .filter(|upstream| upstream.health.is_ill())
        .count();
    let failed = snapshot.summary.hour.failed;
    let views = [
        (
            View::Calls,
            Some((snapshot.summary.calls as u64, "under way", bad > 0)),
        ),
        (
            View::Timeline(None),
            Some((failed, "failed in the last hour", failed > 0)),
        ),
        (View::Upstreams, Some((ill as u64, "in trouble", ill > 0))),
        (View::Silence, None),
    ];
    html.tag(
        "nav",
        &[("class", &"views"), ("aria-label", &"Views")],
        |html| {
            for (view, count) in views {
                let mut attributes: Vec<Attribute<'_>> = vec![("href", &view), ("data-view", &"")];
                if view.name() == current.name() {
                    attributes.push(("aria-current", &"page"));
                }
                html.tag("a", &attributes, |html| {
                    html.text(view.title());
                    if let Some((count, of, is_bad)) = count.filter(|(count, ..)| *count > 0) {
                        let class = if is_bad { "count is-bad" } else { "count" };
                        html.text(" ");
                        html.tag("span", &[("class", &class)], |html| {
                            html.text(count);
                            html.leaf("span", "unseen", format_args!(" {of}"));
                        });
                    }
                });
            }
        },
    );
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
