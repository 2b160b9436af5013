//! What `deploy/` asks Prometheus for is exported: a name that changes here breaks an alert there,
//! and nobody would notice before the night it is needed.

use std::path::Path;

use serde_json::Value;

use super::promql::{self, Selector};
use super::{Exposition, filled};

/// Labels that Prometheus gives to what it scrapes.
const OF_TARGETS: [&str; 2] = ["instance", "job"];

fn committed(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// Checks that everything an expression uses is there, and returns the metrics.
fn check(expression: &str, exposition: &Exposition) -> Vec<String> {
    let used = promql::read(expression);
    let mut metrics = Vec::new();
    for selector in &used.selectors {
        check_selector(selector, expression, exposition);
        for label in &used.grouped {
            assert!(
                has_label(&selector.metric, label, exposition),
                "{} has no label {label}: {expression}",
                selector.metric
            );
        }
        metrics.push(selector.metric.clone());
    }
    metrics
}

fn check_selector(selector: &Selector, expression: &str, exposition: &Exposition) {
    let Selector { metric, matchers } = selector;
    for (label, operator, value) in matchers {
        assert!(
            has_label(metric, label, exposition),
            "{metric} has no label {label}: {expression}"
        );
        // Names of upstreams and models are the operator's own.
        if value.contains('$') || OF_TARGETS.contains(&label.as_str()) {
            continue;
        }
        let known = &family(metric, exposition).unwrap().1.labels[label];
        let values = match operator.as_str() {
            "=~" | "!~" => value.split('|').collect::<Vec<_>>(),
            _ => vec![value.as_str()],
        };
        for value in values {
            let is_known = known.contains(value);
            assert!(
                is_known,
                "{metric} never has {label}={value:?}: {expression}"
            );
        }
    }
}

fn has_label(metric: &str, label: &str, exposition: &Exposition) -> bool {
    if OF_TARGETS.contains(&label) {
        return true;
    }
    match family(metric, exposition) {
        // Of whether a target can be scraped.
        None => {
            assert_eq!(metric, "up", "{metric} is not exported");
            false
        }
        Some((suffix, exported)) => {
            label == "le" && suffix == "_bucket" || exported.labels.contains_key(label)
        }
    }
}

fn family<'e>(
    metric: &str,
    exposition: &'e Exposition,
) -> Option<(&'static str, &'e super::Exported)> {
    if let Some(exported) = exposition.get(metric) {
        assert_ne!(
            exported.kind, "histogram",
            "{metric} has no line of that name"
        );
        return Some(("", exported));
    }
    ["_bucket", "_sum", "_count"]
        .into_iter()
        .find_map(|suffix| {
            let exported = exposition.get(metric.strip_suffix(suffix)?)?;
            (exported.kind == "histogram").then_some((suffix, exported))
        })
}

/// Returns every object below `value` that `is`.
fn objects<'v>(value: &'v Value, is: &dyn Fn(&Value) -> bool) -> Vec<&'v Value> {
    let mut found = Vec::new();
    if is(value) {
        found.push(value);
    }
    match value {
        Value::Array(values) => found.extend(values.iter().flat_map(|value| objects(value, is))),
        Value::Object(fields) => found.extend(fields.values().flat_map(|value| objects(value, is))),
        _ => {}
    }
    found
}

#[test]
fn every_panel_of_the_dashboard_asks_for_what_is_exported() {
    let exposition = filled();
    let dashboard: Value = serde_json::from_str(&committed("grafana/lifesign.json")).unwrap();
    let targets = objects(&dashboard["panels"], &|value| value["expr"].is_string());

    let mut asked = Vec::new();
    for target in &targets {
        let expression = target["expr"].as_str().unwrap();
        let metrics = check(expression, &exposition);
        assert!(!metrics.is_empty(), "{expression}");
        for label in placeholders(target["legendFormat"].as_str().unwrap()) {
            let shows = metrics
                .iter()
                .any(|metric| has_label(metric, &label, &exposition));
            assert!(shows, "{label} in the legend of {expression}");
        }
        asked.extend(metrics);
    }

    assert!(targets.len() > 25, "only {} expressions", targets.len());
    // Nothing is exported for nobody.
    for name in exposition.keys() {
        let is_asked = asked.iter().any(|metric| {
            let suffix = metric.strip_prefix(name.as_str());
            suffix.is_some_and(|suffix| ["", "_bucket", "_sum", "_count"].contains(&suffix))
        });
        assert!(is_asked, "no panel shows {name}");
    }
}

#[test]
fn the_dashboard_can_be_imported() {
    let dashboard: Value = serde_json::from_str(&committed("grafana/lifesign.json")).unwrap();

    assert!(dashboard["id"].is_null());
    assert_eq!(dashboard["uid"], "lifesign");
    let is_panel = |value: &Value| value["gridPos"].is_object();
    let panels = objects(&dashboard["panels"], &is_panel);
    let mut ids: Vec<_> = panels.iter().map(|it| it["id"].as_u64().unwrap()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "two panels share an id");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let title = &panel["title"];
        assert!(
            !panel["description"].as_str().unwrap().is_empty(),
            "{title}"
        );
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
    }
    let exposition = filled();
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if variable["type"] == "query" {
            let query = variable["query"]["query"].as_str().unwrap();
            let inside = query.strip_prefix("label_values(").unwrap();
            let (metric, label) = inside.strip_suffix(')').unwrap().split_once(", ").unwrap();
            assert!(has_label(metric, label, &exposition), "{query}");
        }
    }
}

#[test]
fn every_alert_asks_for_what_is_exported_and_says_what_to_do() {
    let exposition = filled();
    let rules = committed("prometheus/lifesign.rules.yml");
    let alerts = alerts(&rules);

    for alert in &alerts {
        let name = &alert.name;
        let metrics = check(&alert.expression, &exposition);
        assert!(!metrics.is_empty(), "{name} asks for nothing");
        for key in ["for:", "severity:", "summary:", "description:"] {
            assert!(alert.text.contains(key), "{name} has no {key}");
        }
        for label in labels_of_text(&alert.text) {
            let shows = metrics
                .iter()
                .any(|metric| has_label(metric, &label, &exposition));
            assert!(shows, "{name}: {label} is in no metric of it");
        }
    }

    assert!(alerts.len() >= 12, "only {} alerts", alerts.len());
}

struct Alert {
    name: String,
    expression: String,
    text: String,
}

/// Reads rules as they are written there: one alert after another, an expression on its line or in
/// the block below it.
fn alerts(rules: &str) -> Vec<Alert> {
    let mut parts = rules.split("      - alert: ");
    assert!(parts.next().unwrap().contains("groups:"));
    let alert = |text: &str| {
        let (name, rest) = text.split_once('\n').unwrap();
        let (_, behind) = rest.split_once("        expr: ").unwrap();
        let expression = match behind.strip_prefix("|\n") {
            Some(block) => {
                let lines = block.lines();
                let lines = lines.take_while(|line| line.starts_with("          "));
                lines.map(str::trim).collect::<Vec<_>>().join(" ")
            }
            None => behind.lines().next().unwrap().to_owned(),
        };
        Alert {
            name: name.to_owned(),
            expression,
            text: text.to_owned(),
        }
    };
    parts.map(alert).collect()
}

/// Returns the labels of `{{ $labels.x }}`.
fn labels_of_text(text: &str) -> Vec<String> {
    let parts = text.split("$labels.").skip(1);
    let label = |part: &str| part.split([' ', '}']).next().unwrap().to_owned();
    parts.map(label).collect()
}

/// Returns the labels of `{{x}}`.
fn placeholders(text: &str) -> Vec<String> {
    let parts = text.split("{{").skip(1);
    let label = |part: &str| part.split_once("}}").unwrap().0.trim().to_owned();
    parts.map(label).collect()
}
