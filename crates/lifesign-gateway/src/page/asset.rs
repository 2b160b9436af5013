//! The files of the page, which are part of the program.

use std::sync::OnceLock;

use aws_lc_rs::digest;

/// A file of the page.
#[derive(Debug)]
pub(super) struct Asset {
    name: &'static str,
    /// Its content type.
    pub(super) kind: &'static str,
    pub(super) content: &'static str,
    tag: OnceLock<String>,
}

impl Asset {
    const fn new(name: &'static str, kind: &'static str, content: &'static str) -> Self {
        Self {
            name,
            kind,
            content,
            tag: OnceLock::new(),
        }
    }

    /// Returns the file of this name.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        ASSETS.iter().find(|asset| asset.name == name)
    }

    /// Returns what tells this content from another, as HTTP writes it.
    pub(super) fn tag(&self) -> &str {
        self.tag.get_or_init(|| {
            let digest = digest::digest(&digest::SHA256, self.content.as_bytes());
            let mut start = [0; 8];
            start.copy_from_slice(&digest.as_ref()[..8]);
            format!("\"{:016x}\"", u64::from_be_bytes(start))
        })
    }
}

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

static ASSETS: [Asset; 10] = [
    Asset::new("page.css", CSS, include_str!("../../assets/page.css")),
    Asset::new("views.css", CSS, include_str!("../../assets/views.css")),
    Asset::new("narrow.css", CSS, include_str!("../../assets/narrow.css")),
    Asset::new("icon.svg", SVG, include_str!("../../assets/icon.svg")),
    Asset::new("page.js", JS, include_str!("../../assets/page.js")),
    Asset::new("bars.js", JS, include_str!("../../assets/bars.js")),
    Asset::new("gateway.js", JS, include_str!("../../assets/gateway.js")),
    Asset::new("morph.js", JS, include_str!("../../assets/morph.js")),
    Asset::new("said.js", JS, include_str!("../../assets/said.js")),
    Asset::new("stream.js", JS, include_str!("../../assets/stream.js")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_found_by_its_name_and_has_a_tag_of_its_own() {
        let tags: std::collections::BTreeSet<_> = ASSETS.iter().map(Asset::tag).collect();

        assert_eq!(tags.len(), ASSETS.len());
        assert_eq!(Asset::find("page.css").unwrap().kind, CSS);
        assert!(Asset::find("../page.css").is_none());
    }

    #[test]
    fn no_file_names_another_host() {
        for asset in &ASSETS {
            let mut named = asset.content.split("://").skip(1);
            // A namespace is a name that nobody fetches, and an example is this machine.
            let known = ["www.w3.org/2000/svg", "127.0.0.1:4631"];
            assert!(
                named.all(|rest| known.iter().any(|known| rest.starts_with(known))),
                "{}",
                asset.name
            );
        }
    }
}
