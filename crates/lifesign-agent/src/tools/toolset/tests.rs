//! What a set of tools checks and limits, whoever owns them.

use std::future::pending;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::tools::ToolProgress;

/// A toolbox of tools that repeat their arguments, or never end, and knows what it was asked.
#[derive(Default)]
struct Echo {
    specs: Vec<ToolSpec>,
    hangs: bool,
    seen: Mutex<Vec<ToolCall>>,
    dropped: Arc<AtomicBool>,
}

impl Echo {
    fn of(names: &[&str]) -> Self {
        Self {
            specs: names.iter().map(|name| spec(name)).collect(),
            ..Self::default()
        }
    }
}

impl Toolbox for Echo {
    fn tools(&self) -> Vec<ToolSpec> {
        self.specs.clone()
    }

    fn call(&self, call: ToolCall, progress: ProgressSink) -> ToolFuture<'_> {
        let text = call.arguments.to_string();
        self.seen.lock().unwrap().push(call);
        let guard = Dropped(Arc::clone(&self.dropped));
        let hangs = self.hangs;
        Box::pin(async move {
            let _guard = guard;
            progress(ToolProgress {
                message: Some("on it".to_owned()),
                ..ToolProgress::default()
            });
            if hangs {
                pending::<()>().await;
            }
            ToolResult::ok(text)
        })
    }

    fn timeout_setting(&self, tool: &str) -> String {
        format!("echo.{tool}.timeout")
    }
}

struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn spec(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: None,
        parameters: json!({"type": "object", "properties": {"text": {"type": "string"}}}),
        timeout: None,
        is_parallel: false,
    }
}

fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall {
        id: "c1".to_owned(),
        name: name.to_owned(),
        arguments,
    }
}

fn silent() -> ProgressSink {
    Arc::new(|_| {})
}

fn set_of(echo: Echo) -> (Toolset, Arc<Echo>) {
    let echo = Arc::new(echo);
    let toolbox = Arc::clone(&echo) as Arc<dyn Toolbox>;
    (Toolset::new().with("echo", toolbox).unwrap(), echo)
}

#[tokio::test]
async fn a_call_goes_to_whose_tool_it_is() {
    let (first, second) = (Arc::new(Echo::of(&["a"])), Arc::new(Echo::of(&["b", "c"])));
    let set = Toolset::new()
        .with("first", Arc::clone(&first) as Arc<dyn Toolbox>)
        .and_then(|set| set.with("second", Arc::clone(&second) as Arc<dyn Toolbox>))
        .unwrap();

    let result = set.call(call("c", json!({"text": "x"})), silent()).await;

    assert_eq!(result, ToolResult::ok(r#"{"text":"x"}"#));
    assert!(first.seen.lock().unwrap().is_empty());
    assert_eq!(second.seen.lock().unwrap()[0].name, "c");
    let names: Vec<_> = set.tools().into_iter().map(|spec| spec.name).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[test]
fn a_name_that_is_taken_is_refused_and_both_owners_are_named() {
    let set = Toolset::new()
        .with("server files", Arc::new(Echo::of(&["read"])))
        .unwrap();

    let refused = set
        .with("server docs", Arc::new(Echo::of(&["list", "read"])))
        .unwrap_err();

    assert_eq!(
        refused.to_string(),
        "tool \"read\" is offered by server files and by server docs: a name may be there once"
    );
}

#[test]
fn a_toolbox_that_has_a_name_twice_is_refused() {
    let refused = Toolset::new()
        .with("docs", Arc::new(Echo::of(&["a", "a"])))
        .unwrap_err();

    assert_eq!(
        (refused.first, refused.second),
        ("docs".into(), "docs".into())
    );
}

#[tokio::test]
async fn arguments_that_do_not_fit_never_reach_the_tool() {
    let (set, echo) = set_of(Echo::of(&["say"]));

    let result = set.call(call("say", json!({"text": 5})), silent()).await;

    assert_eq!(
        result,
        ToolResult::error(
            "arguments of say do not fit its schema, so it was not run: \
             /text: 5 is not of type \"string\""
        )
    );
    assert!(echo.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn no_arguments_are_empty_ones() {
    let (set, _) = set_of(Echo::of(&["say"]));

    let result = set.call(call("say", Value::Null), silent()).await;

    assert_eq!(result, ToolResult::ok("{}"));
}

#[tokio::test]
async fn a_tool_that_is_not_there_is_told_with_those_that_are() {
    let (set, _) = set_of(Echo::of(&["a", "b"]));

    let result = set.call(call("c", json!({})), silent()).await;

    assert_eq!(
        result,
        ToolResult::error("there is no tool \"c\"; there are a, b")
    );
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_takes_too_long_is_dropped_and_the_result_names_tool_limit_and_setting() {
    let echo = Echo {
        hangs: true,
        ..Echo::of(&["wait"])
    };
    let (set, echo) = set_of(echo);

    let result = set.call(call("wait", json!({})), silent()).await;

    assert_eq!(
        result,
        ToolResult::error(
            "wait was stopped after 2 min (tools.timeout); what it had begun may be half done"
        )
    );
    assert!(echo.dropped.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn a_tool_has_its_own_limit_before_that_of_all() {
    let mut echo = Echo {
        hangs: true,
        ..Echo::of(&["wait"])
    };
    echo.specs[0].timeout = Some(Duration::from_secs(5));
    let (set, _) = set_of(echo);
    let began = lifesign::clock::now();

    let result = set.call(call("wait", json!({})), silent()).await;

    assert_eq!(
        result.text,
        "wait was stopped after 5 s (echo.wait.timeout); what it had begun may be half done"
    );
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    assert_eq!(set.timeout_setting("wait"), "echo.wait.timeout");
}

#[tokio::test]
async fn dropping_a_call_drops_that_of_the_tool() {
    let echo = Echo {
        hangs: true,
        ..Echo::of(&["wait"])
    };
    let (set, echo) = set_of(echo);

    let mut under_way = set.call(call("wait", json!({})), silent());
    assert!(futures_util::poll!(&mut under_way).is_pending());
    assert!(!echo.dropped.load(Ordering::Relaxed));
    drop(under_way);

    assert!(echo.dropped.load(Ordering::Relaxed));
}

#[tokio::test]
async fn a_long_result_is_cut_and_says_so() {
    let (set, _) = set_of(Echo::of(&["say"]));
    let set = set.limits(ToolLimits {
        max_output: 100,
        ..ToolLimits::default()
    });
    let long = "x".repeat(1_000);

    let result = set
        .call(call("say", json!({ "text": long })), silent())
        .await;

    assert!(
        result.text.contains(
            "\n[911 of 1011 bytes left out here: the limit is 100 bytes (tools.max_output)]\n"
        ),
        "{}",
        result.text
    );
}

#[tokio::test]
async fn progress_reaches_whoever_asked() {
    let (set, _) = set_of(Echo::of(&["say"]));
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let told = Arc::clone(&told);
        Arc::new(move |progress: ToolProgress| told.lock().unwrap().push(progress.to_string()))
    };

    set.call(call("say", json!({})), sink).await;

    assert_eq!(*told.lock().unwrap(), ["on it"]);
}

#[test]
fn a_name_that_comes_to_be_taken_stays_whose_it_was_first() {
    struct Late(Mutex<Vec<ToolSpec>>);
    impl Toolbox for Late {
        fn tools(&self) -> Vec<ToolSpec> {
            self.0.lock().unwrap().clone()
        }
        fn call(&self, _: ToolCall, _: ProgressSink) -> ToolFuture<'_> {
            Box::pin(async { ToolResult::ok("late") })
        }
    }
    let late = Arc::new(Late(Mutex::default()));
    let set = Toolset::new()
        .with("first", Arc::new(Echo::of(&["a"])))
        .and_then(|set| set.with("late", Arc::clone(&late) as Arc<dyn Toolbox>))
        .unwrap();

    late.0.lock().unwrap().extend([spec("a"), spec("b")]);

    let names: Vec<_> = set.tools().into_iter().map(|spec| spec.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(set.owner_of("a").unwrap().0.name, "first");
}
