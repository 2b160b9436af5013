//! Reads the text that Prometheus reads.

use std::collections::{BTreeMap, BTreeSet};

/// A metric as it is exported.
#[derive(Debug, Default)]
pub(super) struct Exported {
    pub(super) help: String,
    pub(super) kind: String,
    /// The values of each label, `le` of buckets left out.
    pub(super) labels: BTreeMap<String, BTreeSet<String>>,
    /// Each line: name, labels as they stand there, value.
    pub(super) samples: Vec<(String, String, String)>,
}

/// Everything that is exported, by the name that `HELP` and `TYPE` give.
pub(super) type Exposition = BTreeMap<String, Exported>;

/// Reads a whole text; panics where it is not in the format.
pub(super) fn read(text: &str) -> Exposition {
    let mut exposition = Exposition::new();
    let mut current = String::new();
    assert!(text.ends_with('\n'), "the last line has no end");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            name.clone_into(&mut current);
            let is_new = !exposition.contains_key(name);
            assert!(is_new, "{name} is there twice");
            let exported = exposition.entry(current.clone()).or_default();
            help.clone_into(&mut exported.help);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, current, "TYPE behind the HELP of another");
            kind.clone_into(&mut exposition.get_mut(name).unwrap().kind);
        } else {
            let exported = exposition.get_mut(&current).unwrap();
            let (name, labels, value) = sample(line);
            let is_histogram = exported.kind == "histogram";
            let suffix = name.strip_prefix(&current);
            let suffix = suffix.unwrap_or_else(|| panic!("{name} below {current}"));
            let known: &[&str] = if is_histogram {
                &["_bucket", "_sum", "_count"]
            } else {
                &[""]
            };
            assert!(known.contains(&suffix), "{name}");
            for (label, value) in pairs(&labels) {
                if label != "le" {
                    exported.labels.entry(label).or_default().insert(value);
                }
            }
            exported.samples.push((name, labels, value));
        }
    }
    exposition
}

fn sample(line: &str) -> (String, String, String) {
    let (series, value) = line.rsplit_once(' ').unwrap();
    assert!(value.parse::<f64>().is_ok(), "{line}");
    let value = value.to_owned();
    match series.split_once('{') {
        Some((name, labels)) => {
            let labels = labels.strip_suffix('}').unwrap();
            (name.to_owned(), labels.to_owned(), value)
        }
        None => (series.to_owned(), String::new(), value),
    }
}

/// Returns labels and values of `a="b",c="d"`.
pub(super) fn pairs(mut labels: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    while !labels.is_empty() {
        let (name, rest) = labels.split_once("=\"").unwrap();
        let mut value = String::new();
        let mut chars = rest.char_indices();
        let end = loop {
            match chars.next().unwrap() {
                (_, '\\') => match chars.next().unwrap().1 {
                    'n' => value.push('\n'),
                    escaped => value.push(escaped),
                },
                (at, '"') => break at,
                (_, char) => value.push(char),
            }
        };
        pairs.push((name.to_owned(), value));
        labels = rest.get(end + 1..).unwrap();
        labels = labels.strip_prefix(',').unwrap_or(labels);
    }
    pairs
}
