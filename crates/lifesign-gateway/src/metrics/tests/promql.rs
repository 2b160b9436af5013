//! Reads as much of Prometheus' expressions as it takes to say which metrics and labels an expression uses.

use std::collections::BTreeSet;

/// What an expression uses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) selectors: Vec<Selector>,
    /// Labels of `by`, `without`, `on` and the like.
    pub(super) grouped: BTreeSet<String>,
}

/// `metric{label="value"}`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Selector {
    pub(super) metric: String,
    /// Label, operator, value.
    pub(super) matchers: Vec<(String, String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Name(String),
    Text(String),
    /// A number, a duration, or a variable of Grafana's.
    Value,
    Sign(String),
}

/// Reads an expression; panics where it cannot be one.
pub(super) fn read(expression: &str) -> Used {
    let tokens = tokens(expression);
    let mut used = Used::default();
    let mut depth = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_sign = |at: usize, sign: &str| matches!(tokens.get(at), Some(Token::Sign(found)) if found == sign);
        match &tokens[at] {
            Token::Name(name) if GROUPING.contains(&name.as_str()) => {
                if is_sign(at + 1, "(") {
                    at += 2;
                    while !is_sign(at, ")") {
                        match &tokens[at] {
                            Token::Name(label) => drop(used.grouped.insert(label.clone())),
                            Token::Sign(sign) if sign == "," => {}
                            other => panic!("{other:?} among labels in {expression}"),
                        }
                        at += 1;
                    }
                } else {
                    let may_stand_alone = name.starts_with("group_");
                    assert!(may_stand_alone, "{name} without labels in {expression}");
                }
            }
            Token::Name(name) if WORDS.contains(&name.as_str()) => {}
            Token::Name(name) if is_sign(at + 1, "(") => {
                assert!(FUNCTIONS.contains(&name.as_str()), "{name} in {expression}");
            }
            // `sum by (a) (b)`.
            Token::Name(name) if matches!(tokens.get(at + 1), Some(Token::Name(next)) if GROUPING.contains(&next.as_str())) =>
            {
                // What stands there may also be a metric with `on` behind it, but not before a sign.
                assert!(FUNCTIONS.contains(&name.as_str()), "{name} in {expression}");
            }
            Token::Name(name) => {
                let mut selector = Selector {
                    metric: name.clone(),
                    ..Selector::default()
                };
                if is_sign(at + 1, "{") {
                    at += 2;
                    while !is_sign(at, "}") {
                        let [
                            Token::Name(label),
                            Token::Sign(operator),
                            Token::Text(value),
                        ] = &tokens[at..at + 3]
                        else {
                            panic!("no matcher at {:?} in {expression}", &tokens[at..]);
                        };
                        let matcher = (label.clone(), operator.clone(), value.clone());
                        selector.matchers.push(matcher);
                        at += 3;
                        if is_sign(at, ",") {
                            at += 1;
                        }
                    }
                }
                used.selectors.push(selector);
            }
            Token::Sign(sign) => match sign.as_str() {
                "(" | "[" => depth.push(sign.clone()),
                ")" => assert_eq!(depth.pop().as_deref(), Some("("), "{expression}"),
                "]" => assert_eq!(depth.pop().as_deref(), Some("["), "{expression}"),
                _ => {}
            },
            Token::Text(_) | Token::Value => {}
        }
        at += 1;
    }
    assert!(depth.is_empty(), "something is open in {expression}");
    used
}

fn tokens(expression: &str) -> Vec<Token> {
    let chars: Vec<_> = expression.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&first) = chars.get(at) {
        let run = |is: fn(char) -> bool| {
            let run: String = chars[at..].iter().take_while(|char| is(**char)).collect();
            run
        };
        if first.is_whitespace() {
            at += 1;
        } else if first == '"' {
            let text: String = chars[at + 1..]
                .iter()
                .take_while(|it| **it != '"')
                .collect();
            at += text.chars().count() + 2;
            assert!(at <= chars.len(), "a text has no end in {expression}");
            tokens.push(Token::Text(text));
        } else if first.is_ascii_alphabetic() || first == '_' {
            let name = run(|char| char.is_ascii_alphanumeric() || char == '_' || char == ':');
            at += name.len();
            tokens.push(Token::Name(name));
        } else if first.is_ascii_digit() || first == '$' {
            let value = run(|char| char.is_ascii_alphanumeric() || "._$".contains(char));
            at += value.len();
            tokens.push(Token::Value);
        } else {
            let sign = run(|char| "=!<>~".contains(char));
            let sign = if sign.is_empty() {
                assert!("+-*/%^(){}[],:".contains(first), "{first} in {expression}");
                first.to_string()
            } else {
                sign
            };
            at += sign.len();
            tokens.push(Token::Sign(sign));
        }
    }
    tokens
}

const GROUPING: [&str; 6] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];
const WORDS: [&str; 5] = ["and", "or", "unless", "bool", "offset"];
const FUNCTIONS: [&str; 13] = [
    "clamp_min",
    "count",
    "histogram_quantile",
    "increase",
    "label_values",
    "max",
    "max_over_time",
    "min",
    "rate",
    "sum",
    "time",
    "vector",
    "changes",
];

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn metrics_matchers_and_groups_are_found() {
        let expression = r#"histogram_quantile(0.95, sum by (le, model) (rate(a_bucket{x="1", y=~"b|c"}[5m])))
            / on (z) group_left b > bool 1.5e3 and time() - c"#;

        let used = read(expression);

        let metrics: Vec<_> = used.selectors.iter().map(|it| it.metric.as_str()).collect();
        assert_eq!(metrics, ["a_bucket", "b", "c"]);
        let owned = |[label, operator, value]: [&str; 3]| {
            (label.to_owned(), operator.to_owned(), value.to_owned())
        };
        assert_eq!(
            used.selectors[0].matchers,
            [["x", "=", "1"], ["y", "=~", "b|c"]].map(owned)
        );
        let grouped: Vec<_> = used.grouped.iter().map(String::as_str).collect();
        assert_eq!(grouped, ["le", "model", "z"]);
    }

    #[test]
    #[should_panic(expected = "histogram_quantil")]
    fn an_unknown_function_is_no_expression() {
        read("histogram_quantil(0.5, a)");
    }

    #[test]
    #[should_panic(expected = "something is open")]
    fn an_open_parenthesis_is_no_expression() {
        read("sum(rate(a[5m])");
    }
}
