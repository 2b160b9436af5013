//! The reference page has every line of the log.

use std::fs;
use std::path::Path;

use lifesign_gateway::config::GatewayConfig;

/// A line of the log as the source writes it.
#[derive(Debug)]
struct Line {
    level: String,
    message: String,
    /// Between the parentheses of the macro.
    text: String,
    file: String,
}

#[test]
fn each_line_that_can_be_written_is_on_the_page_with_its_level_and_fields() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/reference/logs.md")).unwrap();
    let mut lines = Vec::new();
    for package in [
        "lifesign-gateway",
        "lifesign-journal",
        "lifesign-cli",
        "lifesign-agent",
        "lifesign",
    ] {
        collect(&root.join("crates").join(package).join("src"), &mut lines);
    }
    assert!(lines.len() > 30, "{lines:#?}");

    for line in &lines {
        // Its message is another's.
        if line.message == "{}" {
            continue;
        }
        let message = line.message.replace("{setting}", "...");
        let quoted = format!("`{message}`");
        let row = page
            .lines()
            .find(|row| row.starts_with('|') && row.contains(&quoted));
        let row = row.unwrap_or_else(|| panic!("the page has no row for {line:#?}"));
        assert!(row.contains(&line.level), "{row}: {line:#?}");
        let is_shared = row.contains("those, and") || row.contains("the same");
        for field in fields(&line.text).into_iter().filter(|_| !is_shared) {
            assert!(
                row.contains(&format!("`{field}`")),
                "{field} of {line:#?} in {row}"
            );
        }
    }
}

#[test]
fn each_change_of_a_call_or_of_an_upstream_has_the_id_of_a_call() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut lines = Vec::new();
    collect(&root, &mut lines);

    let is_of_calls = |line: &&Line| {
        let files = [
            "call.rs",
            "choose.rs",
            "follow.rs",
            "ending.rs",
            "records.rs",
            "holds.rs",
            "lane.rs",
        ];
        files.contains(&line.file.as_str())
    };
    let of_calls: Vec<_> = lines.iter().filter(is_of_calls).collect();
    assert!(of_calls.len() >= 12, "{of_calls:#?}");
    for line in of_calls {
        assert!(fields(&line.text).contains(&"call".to_owned()), "{line:#?}");
    }
}

#[test]
fn the_page_tells_the_forms_that_can_be_set() {
    for form in ["human", "json"] {
        let set = format!("telemetry.log={form}");
        GatewayConfig::from_flags(&["openai=http://127.0.0.1:1".to_owned()], [], &[set]).unwrap();
    }
}

fn collect(directory: &Path, lines: &mut Vec<Line>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, lines);
        } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with("tests.rs") {
            let source = fs::read_to_string(&path).unwrap();
            let file = path.file_name().unwrap().to_str().unwrap();
            for level in ["info", "warn", "error"] {
                let name = format!("tracing::{level}!(");
                let macros = source.split(&name).skip(1);
                lines.extend(macros.map(|rest| line(level, file, rest)));
            }
        }
    }
}

fn line(level: &str, file: &str, rest: &str) -> Line {
    let mut depth = 1;
    let is_end = |char: char| {
        depth += i32::from(char == '(') - i32::from(char == ')');
        depth == 0
    };
    let text = rest.split(is_end).next().unwrap().to_owned();
    let quoted = text.split('"').skip(1).step_by(2);
    // Texts in code stand before the message; arguments behind it have none.
    let message = quoted.last().unwrap_or_default().to_owned();
    Line {
        level: level.to_owned(),
        message,
        text,
        file: file.to_owned(),
    }
}

/// Returns the names of the fields, which stand before the message.
fn fields(text: &str) -> Vec<String> {
    let (fields, _) = text.rsplit_once('"').unwrap();
    let (fields, _) = fields.rsplit_once('"').unwrap();
    let mut depth = 0_i32;
    let mut parts = vec![String::new()];
    for char in fields.chars() {
        match char {
            '(' | '{' => depth += 1,
            ')' | '}' => depth -= 1,
            ',' if depth == 0 => parts.push(String::new()),
            _ => {}
        }
        if char != ',' || depth > 0 {
            parts.last_mut().unwrap().push(char);
        }
    }
    let name = |part: &String| {
        let name = part.split('=').next().unwrap().trim();
        name.trim_start_matches(['%', '?']).to_owned()
    };
    let names = parts.iter().map(name);
    names.filter(|name| !name.is_empty()).collect()
}
