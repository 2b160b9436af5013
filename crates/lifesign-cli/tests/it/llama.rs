//! Real calls to a real llama.cpp server, which streams the noise of a tiny model.
//!
//! `LIFESIGN_LLAMA_PYTHON` and `LIFESIGN_LLAMA_MODEL` name the server's Python and the model;
//! `eval "$(cargo xtask llama)"` sets both up. Without them these tests are skipped, or fail where
//! `LIFESIGN_REQUIRE_LLAMA` is set.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use lifesign::clock::now;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Program, signal, wait_until};

#[test]
fn each_wire_gives_the_answer_and_the_usage_of_the_server() {
    let Some(server) = Server::start() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("request.json");

    for wire in WIRES {
        let told = server.ask(wire.path, &wire.body(TOKENS));
        let expected = wire.read(&told);
        assert_eq!(expected["usage"]["output_tokens"], TOKENS, "{told}");

        let mut body = wire.body(TOKENS);
        body["stream"] = true.into();
        if wire.name == "openai-chat" {
            body["stream_options"] = json!({"include_usage": true});
        }
        fs::write(&file, body.to_string()).unwrap();
        for flags in [&[][..], &["--no-stream"]] {
            let call = Program::call_without_prompt(&server.url, wire.name);
            let ran = call
                .args(&["--json", "--request"])
                .args(&[&file])
                .args(flags)
                .run();

            ran.assert_code(0);
            let report = ran.report();
            assert_eq!(seen(&report), expected, "{}", wire.name);
            let frames = report["attempts"][0]["frames"].as_u64().unwrap();
            assert_eq!(frames > TOKENS, flags.is_empty(), "{report}");
        }
    }
}

#[test]
fn each_wire_streams_a_prompts_answer_as_plain_text() {
    let Some(server) = Server::start() else {
        return;
    };

    for wire in WIRES {
        for flags in [&[][..], &["--no-stream"]] {
            let call = Program::call_without_prompt(&server.url, wire.name);
            let limit = TOKENS.to_string();
            let ran = call
                .args(&["--prompt", PROMPT, "--max-tokens", &limit])
                .args(flags)
                .run();

            ran.assert_code(0);
            let words = ran.stdout.split_whitespace().count() as u64;
            assert_eq!(words, TOKENS, "{ran:?}");
            let told = wire.read(&server.ask(wire.path, &wire.body(TOKENS)));
            let usage = &told["usage"];
            ran.assert_said(&format!(
                "({}; {} tokens in, {} out)",
                told["finish_reason"].as_str().unwrap(),
                usage["input_tokens"],
                usage["output_tokens"]
            ));
        }
    }
}

#[test]
fn what_came_before_the_server_was_killed_is_kept() {
    for wire in WIRES {
        let Some(server) = Server::start() else {
            return;
        };
        let running = wire.endless(&server).start();
        // The model has few words, and each of them has a letter.
        running.wait_for_output(" ");

        server.signal("KILL");
        let ran = running.wait();

        ran.assert_code(8)
            .assert_said("truncated: The connection broke in the middle of the answer")
            .assert_said("is not whole");
        assert!(ran.stdout.split_whitespace().count() > 0, "{ran:?}");
        assert!(!ran.stderr.contains("timed out"), "{ran:?}");
    }
}

#[test]
fn the_object_of_a_killed_servers_call_holds_what_came() {
    let Some(server) = Server::start() else {
        return;
    };
    let wire = &WIRES[0];
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("call.rec");
    let running = wire
        .endless(&server)
        .json()
        .args(&["--record"])
        .args(&[&file])
        .start();
    server.wait_until_it_answers();

    server.signal("KILL");
    let ran = running.wait();

    ran.assert_code(8);
    let report = ran.report();
    assert_eq!(
        (
            &report["outcome"],
            &report["failure"]["code"],
            &report["failure"]["partial"]
        ),
        (&json!("truncated"), &json!("connection_lost"), &json!(true))
    );
    assert!(report["text"].as_str().unwrap().len() > 10, "{report}");
    assert_eq!(report["attempts"].as_array().unwrap().len(), 1);
    assert!(
        fs::read_to_string(&file)
            .unwrap()
            .ends_with("\"end\":\"lost\"}\n")
    );
}

#[test]
fn a_server_that_stops_is_cut_by_the_bound_of_silence() {
    let Some(server) = Server::start() else {
        return;
    };

    for wire in WIRES {
        let running = wire.endless(&server).set("bounds.raw_silence=2s").start();
        running.wait_for_output(" ");

        server.signal("STOP");
        let stopped = now();
        let ran = running.wait();
        let took = stopped.elapsed().as_secs_f64();
        server.signal("CONT");

        assert!((1.9..3.0).contains(&took), "{}: {took} s", wire.name);
        ran.assert_code(5)
            .assert_said("The model's server went quiet for 2 s")
            .assert_said("bounds.raw_silence = 2 s, call");
        assert!(ran.stdout.split_whitespace().count() > 0, "{ran:?}");
    }
}

/// A wire, and where its parts of an answer are.
struct WireWords {
    name: &'static str,
    path: &'static str,
    limit: &'static str,
    messages: &'static str,
    /// Text, finish reason, tokens of the prompt and of the answer.
    pointers: [&'static str; 4],
}

const WIRES: [WireWords; 3] = [
    WireWords {
        name: "openai-chat",
        path: "/v1/chat/completions",
        limit: "max_tokens",
        messages: "messages",
        pointers: [
            "/choices/0/message/content",
            "/choices/0/finish_reason",
            "/usage/prompt_tokens",
            "/usage/completion_tokens",
        ],
    },
    WireWords {
        name: "openai-responses",
        path: "/v1/responses",
        limit: "max_output_tokens",
        messages: "input",
        pointers: [
            "/output/0/content/0/text",
            "/status",
            "/usage/input_tokens",
            "/usage/output_tokens",
        ],
    },
    WireWords {
        name: "anthropic",
        path: "/v1/messages",
        limit: "max_tokens",
        messages: "messages",
        pointers: [
            "/content/0/text",
            "/stop_reason",
            "/usage/input_tokens",
            "/usage/output_tokens",
        ],
    },
];

impl WireWords {
    /// A request whose answer is the same each time.
    fn body(&self, tokens: u64) -> Value {
        let mut body = json!({"model": "tiny", "temperature": 0});
        body[self.limit] = tokens.into();
        body[self.messages] = json!([{"role": "user", "content": PROMPT}]);
        body
    }

    /// Reads the server's own whole answer.
    fn read(&self, answer: &Value) -> Value {
        let [text, finish, input, output] = self
            .pointers
            .map(|pointer| answer.pointer(pointer).cloned().unwrap_or_default());
        json!({
            "text": text, "finish_reason": finish,
            "usage": {"input_tokens": input, "output_tokens": output},
        })
    }

    /// A call whose answer outlasts every test.
    fn endless(&self, server: &Server) -> Program {
        Program::call_without_prompt(&server.url, self.name).args(&[
            "--prompt",
            PROMPT,
            "--max-tokens",
            "100000",
        ])
    }
}

fn seen(report: &Value) -> Value {
    let usage = &report["usage"];
    json!({
        "text": report["text"], "finish_reason": report["finish_reason"],
        "usage": {"input_tokens": usage["input_tokens"], "output_tokens": usage["output_tokens"]},
    })
}

/// A llama.cpp server. It ends with this value, and with this process.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    /// Starts a server; says why and returns `None` where there is none to start.
    fn start() -> Option<Self> {
        let named = |name| std::env::var_os(name).map(PathBuf::from);
        let (Some(python), Some(model)) = (
            named("LIFESIGN_LLAMA_PYTHON"),
            named("LIFESIGN_LLAMA_MODEL"),
        ) else {
            assert!(
                std::env::var_os("LIFESIGN_REQUIRE_LLAMA").is_none(),
                "LIFESIGN_LLAMA_PYTHON and LIFESIGN_LLAMA_MODEL are not set"
            );
            println!("skipped: no llama.cpp server; see `cargo xtask llama`");
            return None;
        };
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tools/llama/serve.py");
        let process = Command::new(python)
            .args([script, model])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Self {
            process,
            url: String::new(),
        };
        let mut line = String::new();
        let stdout = server.process.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening ");
        server.url = url.expect("the server starts").to_owned();
        Some(server)
    }

    fn signal(&self, name: &str) {
        signal(self.process.id(), name);
    }

    /// Returns the server's answer to a request, without any of our own client.
    fn ask(&self, path: &str, body: &Value) -> Value {
        self.exchange(&format!("POST {path}"), &body.to_string())
    }

    /// Waits until the server has sent some dozens of tokens to whoever asked first.
    fn wait_until_it_answers(&self) {
        wait_until("the server answers", || {
            let slots = self.exchange("GET /slots", "");
            let written = |slot: &Value| slot.pointer("/next_token/0/n_decoded")?.as_u64();
            let mut slots = slots.as_array().unwrap().iter();
            slots.any(|slot| written(slot).is_some_and(|tokens| tokens > 50))
        });
    }

    fn exchange(&self, what: &str, body: &str) -> Value {
        let address = self.url.trim_start_matches("http://");
        let mut socket = TcpStream::connect(address).unwrap();
        write!(
            socket,
            "{what} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut response = String::new();
        socket.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{response}");
        serde_json::from_str(body).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A stopped process can be killed as well; it is gone already where a test killed it.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

const PROMPT: &str = "hello there";

/// Each token is a word.
const TOKENS: u64 = 24;
