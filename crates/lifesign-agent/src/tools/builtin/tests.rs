//! Tools for a directory: what they do, and that they do not leave it.

use std::fs;

use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;
use crate::tools::Toolset;

struct Place {
    inside: PathBuf,
    outside: PathBuf,
    _home: TempDir,
}

impl Place {
    fn new() -> Self {
        let home = TempDir::new().unwrap();
        let (inside, outside) = (home.path().join("in"), home.path().join("out"));
        fs::create_dir_all(inside.join("deep")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(inside.join("a.txt"), "one\ntwo\nthree\n").unwrap();
        fs::write(outside.join("secret.txt"), "secret").unwrap();
        Self {
            inside,
            outside,
            _home: home,
        }
    }

    fn tools(&self) -> DirectoryTools {
        DirectoryTools::open(&self.inside).unwrap()
    }

    fn all(&self) -> DirectoryTools {
        self.tools()
            .allow_list()
            .allow_read()
            .allow_write()
            .allow_run(RunRules::default())
    }
}

/// Calls a tool the way an agent does.
async fn ask(tools: DirectoryTools, name: &str, arguments: Value) -> ToolResult {
    let set = Toolset::new().with("directory", Arc::new(tools)).unwrap();
    let call = ToolCall {
        id: "c1".to_owned(),
        name: name.to_owned(),
        arguments,
    };
    set.call(call, Arc::new(|_| {})).await
}

#[tokio::test]
async fn nothing_is_offered_or_done_that_was_not_asked_for() {
    let place = Place::new();

    assert_eq!(place.tools().tools(), []);
    for (name, arguments) in [
        ("list", json!({})),
        ("read", json!({"path": "a.txt"})),
        ("write", json!({"path": "b", "content": ""})),
        ("run", json!({"command": ["true"]})),
    ] {
        let call = ToolCall {
            id: "c1".to_owned(),
            name: name.to_owned(),
            arguments,
        };
        let result = place.tools().dispatch(call).await;

        assert_eq!(
            result,
            ToolResult::error(format!("there is no tool {name:?}"))
        );
    }
    assert!(!place.inside.join("b").exists());
}

#[tokio::test]
async fn a_file_is_read_whole_or_by_lines() {
    let place = Place::new();
    let read = |arguments| ask(place.all(), "read", arguments);

    let whole = read(json!({"path": "a.txt"})).await;
    let line = read(json!({"path": "./deep/../a.txt", "from_line": 2, "lines": 1})).await;
    let beyond = read(json!({"path": "a.txt", "from_line": 5})).await;

    assert_eq!(whole, ToolResult::ok("one\ntwo\nthree\n"));
    assert_eq!(line, ToolResult::ok("two\n"));
    assert_eq!(
        beyond,
        ToolResult::error("cannot read a.txt: it has fewer than 5 lines")
    );
}

#[tokio::test]
async fn a_large_file_is_read_in_parts_that_end_with_whole_characters() {
    let place = Place::new();
    let tools = place.all();
    let line = format!("{}\n", "\u{20ac}".repeat(341));
    fs::write(place.inside.join("large"), line.repeat(1_100)).unwrap();

    let call = ToolCall {
        id: "c1".to_owned(),
        name: "read".to_owned(),
        arguments: json!({"path": "large"}),
    };
    let result = tools.dispatch(call).await;

    let next = (1024 * 1024 / line.len()) + 1;
    let note = format!("\n[the file goes on: read from line {next}]");
    let text = result.text.strip_suffix(&note).unwrap();
    assert!(line.repeat(1_100).starts_with(text));
    assert!(text.len() > 1024 * 1024 - 4, "{}", text.len());
}

/// Who read on as the result said began at the same line again, without end.
#[tokio::test]
async fn a_line_longer_than_what_is_read_at_once_is_read_in_parts() {
    let place = Place::new();
    let long = "\u{20ac}".repeat(800_000);
    fs::write(place.inside.join("long"), format!("first\n{long}\nlast\n")).unwrap();
    let tools = place.all();
    let read = async |arguments: Value| {
        let call = ToolCall {
            id: "c1".to_owned(),
            name: "read".to_owned(),
            arguments,
        };
        tools.dispatch(call).await
    };

    let mut whole = String::new();
    let mut from_byte = 0;
    loop {
        let arguments = json!({"path": "long", "from_line": 2, "from_byte": from_byte});
        let text = read(arguments).await.text;
        let Some((part, note)) = text.split_once("\n[the line goes on: read from line 2 and byte ")
        else {
            whole += &text;
            break;
        };
        whole += part;
        from_byte = note.strip_suffix(" of it]").unwrap().parse().unwrap();
    }
    let short = read(json!({"path": "long", "from_line": 2, "from_byte": 1, "bytes": 1})).await;
    let beyond = read(json!({"path": "long", "from_byte": 7})).await;

    assert_eq!(whole.len(), long.len() + "\nlast\n".len());
    assert!(whole == format!("{long}\nlast\n"));
    assert_eq!(
        short.text,
        "\n[the line goes on: read from line 2 and byte 3 of it]"
    );
    assert_eq!(
        beyond,
        ToolResult::error("cannot read long: line 1 has no more than 7 bytes")
    );
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_is_replaced_as_a_whole_and_stays_what_it_was_otherwise() {
    use std::io::Read as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let place = Place::new();
    let path = place.inside.join("a.txt");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    symlink("../a.txt", place.inside.join("deep/link")).unwrap();
    let mut reader = fs::File::open(&path).unwrap();

    let written = json!({"path": "deep/link", "content": "new"});
    let written = ask(place.all(), "write", written).await;

    assert_eq!(written, ToolResult::ok("wrote 3 bytes to deep/link"));
    let mut before = String::new();
    reader.read_to_string(&mut before).unwrap();
    assert_eq!(before, "one\ntwo\nthree\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
    let link = fs::symlink_metadata(place.inside.join("deep/link")).unwrap();
    assert!(link.is_symlink());
    let left = fs::read_dir(&place.inside).unwrap();
    assert_eq!(left.count(), 2);
}

#[tokio::test]
async fn what_cannot_be_put_in_place_leaves_nothing_behind() {
    let place = Place::new();
    let name = "x".repeat(250);
    let too_long = format!("deep/{}", "y".repeat(300));

    let long = json!({"path": name, "content": "x"});
    let long = ask(place.all(), "write", long).await;
    let refused = json!({"path": too_long, "content": "x"});
    let refused = ask(place.all(), "write", refused).await;

    assert!(!long.is_error, "{}", long.text);
    assert!(refused.is_error, "{}", refused.text);
    let left = fs::read_dir(place.inside.join("deep")).unwrap();
    assert_eq!(left.count(), 0);
}

#[tokio::test]
async fn what_is_no_text_or_no_file_is_not_read() {
    let place = Place::new();
    fs::write(place.inside.join("blob"), [0xff, 0xfe]).unwrap();

    for (path, why) in [
        ("blob", "it is no text in UTF-8"),
        ("deep", "it is no file"),
        ("none", "No such file or directory (os error 2)"),
    ] {
        let result = ask(place.all(), "read", json!({"path": path})).await;

        assert_eq!(
            result,
            ToolResult::error(format!("cannot read {path}: {why}"))
        );
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_pipe_is_not_waited_for() {
    let place = Place::new();
    let pipe = place.inside.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());

    let read = ask(place.all(), "read", json!({"path": "pipe"})).await;
    let written = ask(
        place.all(),
        "write",
        json!({"path": "pipe", "content": "x"}),
    )
    .await;

    assert_eq!(read.text, "cannot read pipe: it is no file");
    assert!(written.is_error, "{}", written.text);
}

#[tokio::test]
async fn a_file_is_written_anew_with_the_directories_on_its_way() {
    let place = Place::new();

    let new = ask(
        place.all(),
        "write",
        json!({"path": "x/y/z", "content": "long text"}),
    )
    .await;
    ask(
        place.all(),
        "write",
        json!({"path": "x/y/z", "content": "short"}),
    )
    .await;

    assert_eq!(new, ToolResult::ok("wrote 9 bytes to x/y/z"));
    assert_eq!(
        fs::read_to_string(place.inside.join("x/y/z")).unwrap(),
        "short"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn a_directory_is_listed_with_what_its_entries_are() {
    let place = Place::new();
    std::os::unix::fs::symlink("/etc", place.inside.join("etc")).unwrap();

    let listed = ask(place.all(), "list", json!({})).await;
    let empty = ask(place.all(), "list", json!({"path": "deep"})).await;

    assert_eq!(
        listed,
        ToolResult::ok("a.txt (14 bytes)\ndeep/\netc -> /etc")
    );
    assert_eq!(empty, ToolResult::ok("[nothing is in it]"));
}

#[tokio::test]
async fn a_long_list_has_an_end_and_says_so() {
    let place = Place::new();
    for number in 0..1_003 {
        fs::write(place.inside.join(format!("deep/{number:04}")), "").unwrap();
    }

    let listed = ask(place.all(), "list", json!({"path": "deep"})).await;

    assert!(
        listed
            .text
            .ends_with("\n0999 (0 bytes)\n[3 of 1003 entries left out]")
    );
}

#[cfg(unix)]
#[tokio::test]
async fn no_path_leads_out_of_the_directory() {
    use std::os::unix::fs::symlink;

    let place = Place::new();
    symlink(&place.outside, place.inside.join("link")).unwrap();
    symlink("../out/secret.txt", place.inside.join("file")).unwrap();
    symlink("../../out", place.inside.join("deep/up")).unwrap();
    symlink("../out/new.txt", place.inside.join("dangling")).unwrap();
    let absolute = place.outside.join("secret.txt");

    for path in [
        "../out/secret.txt",
        "deep/../../out/secret.txt",
        absolute.to_str().unwrap(),
        "link/secret.txt",
        "file",
        "deep/up/secret.txt",
        "/proc/self/root/etc/passwd",
    ] {
        let read = ask(place.all(), "read", json!({"path": path})).await;
        assert!(
            read.is_error && !read.text.contains("secret\n"),
            "{path}: {}",
            read.text
        );
        assert!(
            read.text.starts_with("cannot read"),
            "{path}: {}",
            read.text
        );

        let written = ask(place.all(), "write", json!({"path": path, "content": "x"})).await;
        assert!(
            written.text.starts_with("cannot write"),
            "{path}: {}",
            written.text
        );
    }
    for path in ["..", "link", "deep/up", "/", "dangling/../.."] {
        let listed = ask(place.all(), "list", json!({"path": path})).await;
        assert!(
            listed.text.starts_with("cannot list"),
            "{path}: {}",
            listed.text
        );
    }
    for path in ["dangling", "../new.txt", "link/new.txt", "link/sub/new.txt"] {
        let written = ask(place.all(), "write", json!({"path": path, "content": "x"})).await;
        assert!(written.is_error, "{path}: {}", written.text);
    }
    let entries = fs::read_dir(&place.outside).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["secret.txt"]);
    assert_eq!(fs::read_to_string(absolute).unwrap(), "secret");
}

#[cfg(unix)]
mod programs {
    use std::time::Instant;

    use pretty_assertions::assert_eq;

    use super::*;

    async fn shell(place: &Place, line: &str, rules: RunRules) -> ToolResult {
        let rules = RunRules {
            shell: true,
            ..rules
        };
        ask(
            place.tools().allow_run(rules),
            "run",
            json!({"command": line}),
        )
        .await
    }

    #[tokio::test]
    async fn a_program_runs_in_the_directory_and_tells_how_it_ended() {
        let place = Place::new();

        let listed = ask(place.all(), "run", json!({"command": ["ls", "a.txt"]})).await;
        let failed = shell(
            &place,
            "echo out; echo err >&2; exit 3",
            RunRules::default(),
        )
        .await;
        let killed = shell(&place, "kill -9 $$", RunRules::default()).await;

        assert_eq!(listed, ToolResult::ok("exit code 0\n[stdout]\na.txt\n"));
        assert_eq!(
            failed,
            ToolResult::error("exit code 3\n[stdout]\nout\n\n[stderr]\nerr\n")
        );
        assert_eq!(killed, ToolResult::error("ended by signal: 9 (SIGKILL)"));
    }

    #[tokio::test]
    async fn without_a_shell_its_words_mean_nothing() {
        let place = Place::new();

        let command = json!({"command": ["echo", "$HOME", ";", "echo"]});
        let result = ask(place.all(), "run", command).await;
        let line = ask(place.all(), "run", json!({"command": "echo"})).await;
        let unknown = ask(place.all(), "run", json!({"command": ["no-such-program"]})).await;

        assert_eq!(
            result,
            ToolResult::ok("exit code 0\n[stdout]\n$HOME ; echo\n")
        );
        assert!(
            line.text.contains("is not of type \"array\""),
            "{}",
            line.text
        );
        assert_eq!(
            unknown,
            ToolResult::error("cannot run no-such-program: No such file or directory (os error 2)")
        );
    }

    #[tokio::test]
    async fn a_program_that_takes_too_long_ends_with_all_it_started_and_keeps_what_it_wrote() {
        let place = Place::new();
        let rules = RunRules {
            timeout: Duration::from_millis(300),
            ..RunRules::default()
        };

        let result = shell(&place, "sleep 600 & echo $!; sleep 600", rules).await;

        let (said, id) = result.text.split_once("\n[stdout]\n").unwrap();
        assert!(result.is_error);
        assert_eq!(
            said,
            "stopped after 300 ms (tools.run_timeout), with all it started"
        );
        let stat = format!("/proc/{}/stat", id.trim());
        let runs = || fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        for _ in 0..1_000 {
            if !runs() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{id} is still there");
    }

    #[tokio::test]
    async fn somebody_who_left_with_the_pipes_is_not_waited_for() {
        let place = Place::new();
        #[expect(clippy::disallowed_methods, reason = "how long it really takes")]
        let began = Instant::now();

        let result = shell(
            &place,
            "setsid sleep 3 & sleep 0.2; echo done",
            RunRules::default(),
        )
        .await;

        assert_eq!(result, ToolResult::ok("exit code 0\n[stdout]\ndone\n"));
        assert!(began.elapsed() < Duration::from_secs(2));
    }

    #[tokio::test]
    async fn output_without_an_end_fills_no_memory() {
        let place = Place::new();
        let rules = RunRules {
            max_output: 1_000,
            timeout: Duration::from_millis(300),
            ..RunRules::default()
        };

        let result = shell(&place, "yes", rules).await;

        assert!(
            result.text.contains(" bytes left out here]\n"),
            "{}",
            result.text
        );
        assert!(result.text.len() < 1_300, "{}", result.text.len());
    }

    #[tokio::test]
    async fn a_program_sees_no_variable_that_may_hold_a_secret() {
        let place = Place::new();
        let rules = RunRules {
            environment: vec!["CARGO_PKG_NAME".to_owned()],
            ..RunRules::default()
        };

        let line = "echo ${CARGO_PKG_NAME-none} ${CARGO_MANIFEST_DIR-none} ${PATH:+path}";
        let result = shell(&place, line, rules).await;

        assert_eq!(
            result,
            ToolResult::ok("exit code 0\n[stdout]\nlifesign-agent none path\n")
        );
    }
}
