//! Files of MCP servers: what can be said in them, and how what cannot be used is refused.

use pretty_assertions::assert_eq;

use super::*;

fn parse(text: &str) -> Result<McpConfig, McpConfigError> {
    McpConfig::parse(text, |name| match name {
        "TOKEN" => Some("s3cret".to_owned()),
        "DIR" => Some("/srv".to_owned()),
        _ => None,
    })
}

fn refused(server: &str) -> String {
    let text = format!(r#"{{"mcpServers": {{"a": {server}}}}}"#);
    parse(&text).unwrap_err().to_string()
}

#[test]
fn both_kinds_of_servers_are_read_with_all_that_they_may_have() {
    let config = parse(
        r#"{"mcpServers": {
            "web": {"type": "http", "url": "https://mcp.example:8443/mcp?x=1",
                    "headers": {"Authorization": "Bearer ${TOKEN}"}, "timeout": "5m"},
            "files": {"command": "npx", "args": ["-y", "pkg", "${DIR}/in"], "env": {"A": "${NONE:-b}"},
                      "cwd": "${DIR}", "tools": ["read_file"], "prefix": "fs_", "start_timeout": "90s"},
            "old": {"command": "${NONE}", "disabled": true, "since": "2024"}
        }}"#,
    )
    .unwrap();

    let files = McpServerConfig {
        name: "files".to_owned(),
        way: McpWay::Stdio {
            command: "npx".to_owned(),
            args: ["-y", "pkg", "/srv/in"].map(str::to_owned).to_vec(),
            env: vec![("A".to_owned(), "b".to_owned())],
            cwd: Some("/srv".into()),
        },
        timeout: None,
        start_timeout: Duration::from_secs(90),
        tools: Some(vec!["read_file".to_owned()]),
        prefix: "fs_".to_owned(),
    };
    let web = McpServerConfig {
        name: "web".to_owned(),
        way: McpWay::Http {
            url: "https://mcp.example:8443/mcp?x=1".parse().unwrap(),
            headers: vec![(
                http::header::AUTHORIZATION,
                "Bearer s3cret".parse().unwrap(),
            )],
        },
        timeout: Some(Duration::from_mins(5)),
        start_timeout: Duration::from_mins(1),
        tools: None,
        prefix: String::new(),
    };
    assert_eq!(config.servers, [files, web]);
}

#[test]
fn a_refusal_names_the_field_the_value_and_what_is_accepted() {
    let cases = [
        (r#""npx""#, "mcpServers.a: is a text; an object is accepted"),
        (
            "{}",
            "mcpServers.a: has neither `command` nor `url`; one of them is wanted",
        ),
        (
            r#"{"command": "x", "url": "http://h/"}"#,
            "mcpServers.a: has both `command` and `url`; one of them is accepted",
        ),
        (
            r#"{"command": 5}"#,
            "mcpServers.a.command: is 5; a text is accepted",
        ),
        (r#"{"command": ""}"#, "mcpServers.a.command: is empty"),
        (
            r#"{"command": "x", "args": "-y"}"#,
            "mcpServers.a.args: is \"-y\"; a list of texts is accepted",
        ),
        (
            r#"{"command": "x", "args": ["-y", 5]}"#,
            "mcpServers.a.args[1]: is 5; a text is accepted",
        ),
        (
            r#"{"command": "x", "env": {"KEY": 12345}}"#,
            "mcpServers.a.env.KEY: is a number; a text is accepted",
        ),
        (
            r#"{"command": "x", "env": {"A=B": ""}}"#,
            "mcpServers.a.env.A=B: is no name of a variable",
        ),
        (
            r#"{"command": "x", "headers": {}}"#,
            "mcpServers.a.headers: is accepted only beside `url`",
        ),
        (
            r#"{"url": "http://h/", "args": []}"#,
            "mcpServers.a.args: is accepted only beside `command`",
        ),
        (
            r#"{"url": "h/mcp"}"#,
            "mcpServers.a.url: cannot be read as a URL: invalid format",
        ),
        (
            r#"{"url": "ftp://h/"}"#,
            "mcpServers.a.url: the URL must begin with http:// or https://",
        ),
        (
            r#"{"url": "http://me:pw@h/"}"#,
            "mcpServers.a.url: the URL must not carry a user name or password",
        ),
        (
            r#"{"url": "http://h/", "headers": {"a b": ""}}"#,
            "mcpServers.a.headers.a b: is no name of a header",
        ),
        (
            r#"{"url": "http://h/", "headers": {"Host": "x"}}"#,
            "mcpServers.a.headers.Host: is a header that the protocol sets",
        ),
        (
            r#"{"url": "http://h/", "headers": {"x": "s3cret\n"}}"#,
            "mcpServers.a.headers.x: has a character that no header may have",
        ),
        (
            r#"{"command": "x", "type": "sse"}"#,
            "mcpServers.a.type: is \"sse\"; one of stdio is accepted",
        ),
        (
            r#"{"url": "http://h/", "type": "sse"}"#,
            "mcpServers.a.type: is \"sse\"; one of http, streamable-http, streamableHttp is accepted",
        ),
        (
            r#"{"command": "x", "timeout": 30}"#,
            "mcpServers.a.timeout: is 30; a time with its unit, such as \"30s\" or \"2m\" is accepted",
        ),
        (
            r#"{"command": "x", "timeout": "0s"}"#,
            "mcpServers.a.timeout: is \"0s\"; a time with its unit, such as \"30s\" or \"2m\" is accepted",
        ),
        (
            r#"{"command": "x", "prefix": "a.b"}"#,
            "mcpServers.a.prefix: is \"a.b\"; at most 32 letters, digits, `_` and `-` is accepted",
        ),
        (
            r#"{"command": "x", "disabled": "yes"}"#,
            "mcpServers.a.disabled: is \"yes\"; true or false is accepted",
        ),
        (
            r#"{"command": "${NONE}"}"#,
            "mcpServers.a.command: names the variable \"NONE\", which is not set",
        ),
        (
            r#"{"command": "${TOKEN"}"#,
            "mcpServers.a.command: has a `${` without its `}`",
        ),
        (
            r#"{"command": "x", "alwaysAllow": []}"#,
            "mcpServers.a: has the unknown field \"alwaysAllow\"; accepted: command, args, env, cwd, \
             url, headers, type, disabled, timeout, start_timeout, tools, prefix",
        ),
    ];
    for (server, said) in cases {
        assert_eq!(refused(server), said, "{server}");
    }
}

#[test]
fn a_file_that_is_none_is_refused() {
    let said = |text| parse(text).unwrap_err().to_string();

    assert!(said("{").starts_with("the file: is no JSON: EOF while parsing"));
    assert_eq!(said("[]"), "the file: is a list; an object is accepted");
    assert_eq!(said("{}"), "mcpServers: is missing");
    assert_eq!(
        said("{\"mcpServers\": {\"a\": {\"command\": \"x\"},\n \"a\": {\"command\": \"y\"}}}"),
        "the file: \"a\" stands twice in an object at line 2 column 4"
    );
    assert_eq!(
        said(r#"{"servers": {}}"#),
        "the file: has the unknown field \"servers\"; accepted: mcpServers, $schema"
    );
    assert_eq!(
        said(r#"{"mcpServers": {"": {"command": "x"}}}"#),
        "mcpServers: has a server without a name"
    );
}

#[test]
fn no_value_that_may_be_a_secret_is_shown() {
    let config = parse(
        r#"{"mcpServers": {
            "a": {"command": "x", "args": ["${TOKEN}"], "env": {"KEY": "${TOKEN}"}},
            "b": {"url": "http://h/mcp?key=${TOKEN}", "headers": {"key": "${TOKEN}"}}
        }}"#,
    )
    .unwrap();

    let shown = format!("{config:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(
        shown.contains("KEY") && shown.contains("\"key\""),
        "{shown}"
    );
}

#[test]
fn the_reference_has_every_field() {
    let page = include_str!("../../../../../../docs/reference/tools.md");

    for field in server::FIELDS {
        assert!(page.contains(&format!("`{field}`")), "{field}");
    }
}
