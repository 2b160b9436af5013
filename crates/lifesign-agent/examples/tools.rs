//! A toolbox of one's own in a toolset, and a conversation that is kept in a file.
//!
//! `cargo run -p lifesign-agent --example tools` needs no key and no network.
#![expect(clippy::print_stdout, reason = "an example says what happens")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use lifesign::{Client, Upstream, Wire};
use lifesign_agent::tools::{
    ProgressSink, ToolCall, ToolFuture, ToolLimits, ToolResult, ToolSpec, Toolbox, Toolset,
};
use lifesign_agent::{Agent, AgentEvent, Transcript};
use lifesign_standin::Standin;
use serde_json::json;

const SCRIPT: &str = r#"
attempt 1:
  tool {"index":0,"id":"c1","type":"function","function":{"name":"add","arguments":"{\"a\":40,\"b\":2}"}}
  finish tool_calls
  done
  eof
attempt 2:
  answer "It is 42."
"#;

/// Adds two numbers.
struct Adder;

impl Toolbox for Adder {
    fn tools(&self) -> Vec<ToolSpec> {
        vec![ToolSpec {
            name: "add".to_owned(),
            description: Some("Adds two numbers.".to_owned()),
            parameters: json!({
                "type": "object",
                "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                "required": ["a", "b"],
            }),
            timeout: None,
            is_parallel: true,
        }]
    }

    fn call(&self, call: ToolCall, _progress: ProgressSink) -> ToolFuture<'_> {
        Box::pin(async move {
            // What does not fit the schema does not get here, where a toolset stands before.
            let number = |name: &str| call.arguments[name].as_f64();
            match (number("a"), number("b")) {
                (Some(a), Some(b)) if (a + b).is_finite() => ToolResult::ok((a + b).to_string()),
                // The model reads this and may do better; the turn goes on.
                _ => ToolResult::error("the sum is too large"),
            }
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let standin = Standin::script(SCRIPT)?.start().await?;
    let upstream = Upstream::new(Wire::OPENAI_CHAT, &standin.url())?;
    // It checks arguments against the schema, and bounds how long a tool takes and how much it says.
    let tools = Toolset::new()
        .limits(ToolLimits {
            timeout: Some(Duration::from_secs(10)),
            ..ToolLimits::default()
        })
        .with("the adder", Arc::new(Adder))?;
    let path = std::env::temp_dir().join(format!("lifesign-{}.jsonl", std::process::id()));
    let mut agent = Agent::builder(Client::new()?, upstream, "any")
        .tools(Arc::new(tools))
        .transcript(Transcript::create(&path)?)
        .build()?;

    let mut turn = agent.turn("What is 40 + 2?");
    while let Some(event) = turn.next().await {
        match event? {
            AgentEvent::ToolBegan { call } => println!("{}({})", call.name, call.arguments),
            AgentEvent::ToolEnded { result, .. } => println!("  = {}", result.text),
            AgentEvent::Ended(report) => println!("{}", report.text),
            _ => {}
        }
    }
    drop(turn);
    drop(agent);

    // Another program would go on from here.
    let (transcript, _) = Transcript::open(&path)?;
    println!(
        "{} entries in {}",
        transcript.entries().len(),
        path.display()
    );
    std::fs::remove_file(&path)?;
    Ok(())
}
