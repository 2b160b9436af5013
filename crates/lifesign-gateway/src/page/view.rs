//! The views of the page, and where each is found.

use std::fmt;

/// A view of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// The calls under way, and what failed lately.
    Calls,
    /// One call from its beginning on; none chosen is the latest that failed.
    Timeline(Option<String>),
    /// The upstreams.
    Upstreams,
    /// How long clocks stood still.
    Silence,
}

impl View {
    /// Returns the view that a query asks for; the calls if it asks for none that there is.
    pub(super) fn of(query: Option<&str>) -> Self {
        let pairs = query.unwrap_or_default().split('&');
        let value = |name: &str| {
            let mut pairs = pairs.clone().filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        match value("view") {
            Some("timeline") => Self::Timeline(value("call").map(str::to_owned)),
            Some("upstreams") => Self::Upstreams,
            Some("silence") => Self::Silence,
            _ => Self::Calls,
        }
    }

    /// Returns its name in a query.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Timeline(_) => "timeline",
            Self::Upstreams => "upstreams",
            Self::Silence => "silence",
        }
    }

    /// Returns its name for people.
    pub(super) const fn title(&self) -> &'static str {
        match self {
            Self::Calls => "Calls",
            Self::Timeline(_) => "Timeline",
            Self::Upstreams => "Upstreams",
            Self::Silence => "Silence",
        }
    }
}

/// Writes the address of the view.
impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calls => f.write_str("/"),
            Self::Timeline(Some(call)) => write!(f, "/?view=timeline&call={call}"),
            view => write!(f, "/?view={}", view.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_to_the_view_that_it_was_written_for() {
        for view in [
            View::Calls,
            View::Timeline(None),
            View::Timeline(Some("0199-a".to_owned())),
            View::Upstreams,
            View::Silence,
        ] {
            let address = view.to_string();
            let query = address.split_once('?').map(|(_, query)| query);
            assert_eq!(View::of(query), view, "{address}");
        }
        assert_eq!(View::of(Some("view=nothing")), View::Calls);
    }
}
