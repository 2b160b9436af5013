//! Links between documents.

use crate::document::Document;

#[test]
fn every_link_to_a_file_leads_somewhere() {
    let mut broken = Vec::new();
    for document in Document::all() {
        let directory = document.path.parent().unwrap();
        for link in links(&document.text).filter(|link| !link.contains("://")) {
            let file = link.split('#').next().unwrap();
            if !file.is_empty() && !directory.join(file).exists() {
                broken.push(format!("{}: {link}", document.path.display()));
            }
        }
    }

    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn documents_are_plain_ascii() {
    for document in Document::all() {
        let foreign = document.text.lines().find(|line| !line.is_ascii());
        assert_eq!(foreign, None, "{}", document.path.display());
    }
}

fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
}
