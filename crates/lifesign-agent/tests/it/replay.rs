//! What a transcript becomes on each wire.

mod whatever;

use lifesign::{ToolCall, Wire};
use lifesign_agent::{CutPoint, Ended, Entry, Partial, Ran, Said, Transcript, TurnOutcome};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::wire_rules::assert_accepted;

fn transcript(entries: impl IntoIterator<Item = Entry>) -> Transcript {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut transcript = Transcript::in_memory();
        for entry in entries {
            transcript.append(entry).await.unwrap();
        }
        transcript
    })
}

fn user(text: &str) -> Entry {
    Entry::User {
        turn: 1,
        text: text.to_owned(),
    }
}

fn call(id: &str, complete: bool) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: "look".to_owned(),
        arguments: if complete { "{\"at\":1}" } else { "{\"at\"" }.to_owned(),
        complete,
        kind: None,
    }
}

/// Something said on `wire`, with the parts that its decoder would have kept.
fn said(wire: Wire, text: &str, thought: bool, calls: &[ToolCall]) -> Said {
    let whole = calls.iter().filter(|call| call.complete);
    let mut parts = Vec::new();
    match wire.name() {
        "openai-chat" => {
            let mut message = json!({"role": "assistant", "content": null});
            if !text.is_empty() {
                message["content"] = text.into();
            }
            if thought {
                message["reasoning_content"] = "hm".into();
            }
            let calls: Vec<Value> = whole
                .map(|call| {
                    let function = json!({"name": call.name, "arguments": call.arguments});
                    json!({"id": call.id, "type": "function", "function": function})
                })
                .collect();
            if !calls.is_empty() {
                message["tool_calls"] = calls.into();
            }
            if !text.is_empty() || thought || message.get("tool_calls").is_some() {
                parts.push(message);
            }
        }
        "anthropic" => {
            if thought {
                parts.push(json!({"type": "thinking", "thinking": "hm", "signature": "s"}));
            }
            if !text.is_empty() {
                parts.push(json!({"type": "text", "text": text}));
            }
            parts.extend(whole.map(|call| {
                let input: Value = serde_json::from_str(&call.arguments).unwrap();
                json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
            }));
        }
        _ => {
            if thought {
                parts.push(json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"}));
            }
            if !text.is_empty() {
                let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
                parts.push(json!({
                    "type": "message", "id": "msg", "role": "assistant", "status": "completed",
                    "content": content,
                }));
            }
            parts.extend(whole.map(|call| {
                json!({
                    "type": "function_call", "id": format!("fc_{}", call.id), "call_id": call.id,
                    "name": call.name, "arguments": call.arguments,
                })
            }));
        }
    }
    Said {
        wire: wire.name().to_owned(),
        text: text.to_owned(),
        reasoning: thought.then(|| "hm".to_owned()),
        tool_calls: calls.to_vec(),
        parts: parts.iter().map(Value::to_string).collect(),
        ..Said::default()
    }
}

fn partial(said: Said) -> Entry {
    let cut = CutPoint {
        text_bytes: said.text.len(),
        reasoning_bytes: 0,
        tool_call: None,
    };
    Entry::Partial(Partial { said, cut })
}

fn result(id: &str) -> Entry {
    Entry::ToolEnded(Ran {
        id: id.to_owned(),
        text: format!("result of {id}"),
        is_error: false,
    })
}

fn began(id: &str) -> Entry {
    Entry::ToolBegan {
        id: id.to_owned(),
        name: "look".to_owned(),
    }
}

#[test]
fn what_came_by_a_wire_goes_back_to_it_byte_for_byte() {
    for wire in Wire::ALL {
        let mut answer = said(wire, "so", true, &[call("c1", true)]);
        for part in &mut answer.parts {
            part.insert(1, ' ');
        }
        let parts = answer.parts.clone();
        let talk = transcript([user("go"), Entry::Answer(answer), began("c1"), result("c1")]);

        let mut request = lifesign::Request::new("m");
        request.messages = talk.messages(wire);
        let body = String::from_utf8(wire.encode(&request).unwrap()).unwrap();

        for part in parts {
            assert!(body.contains(&part), "{wire}: {part} is not in {body}");
        }
        assert_accepted(&talk, wire);
    }
}

#[test]
fn results_come_in_the_order_asked_whatever_order_they_came_in() {
    let calls = [call("c1", true), call("c2", true), call("c3", true)];
    let answer = Entry::Answer(said(Wire::OPENAI_CHAT, "", false, &calls));
    let talk = transcript([
        user("go"),
        answer,
        began("c1"),
        began("c2"),
        result("c2"),
        result("c1"),
    ]);

    let body = assert_accepted(&talk, Wire::OPENAI_CHAT);

    let results: Vec<_> = body["messages"].as_array().unwrap()[2..]
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(
        results,
        ["result of c1", "result of c2", "This call was not run."]
    );
}

#[test]
fn a_call_that_had_begun_and_has_no_result_is_told_as_unknown() {
    let answer = Entry::Answer(said(Wire::ANTHROPIC, "", false, &[call("c1", true)]));
    let talk = transcript([user("go"), answer, began("c1")]);

    let body = assert_accepted(&talk, Wire::ANTHROPIC);

    let result = &body["messages"][2]["content"][0];
    assert!(result["content"].as_str().unwrap().contains("is unknown"));
    assert_eq!(result["is_error"], true);
}

#[test]
fn a_call_that_is_not_whole_is_told_in_words_where_the_provider_does_not_know_it() {
    let calls = [call("c1", false)];
    let answer = Entry::Answer(said(Wire::ANTHROPIC, "I look", false, &calls));
    let talk = transcript([user("go"), answer, result("c1")]);

    let body = assert_accepted(&talk, Wire::ANTHROPIC);

    assert_eq!(
        body["messages"][2],
        json!({"role": "user", "content": "The call of the tool `look`: result of c1"})
    );
}

#[test]
fn unsigned_thinking_of_a_partial_stays_here_and_signed_goes_with_its_text() {
    let mut unsigned = said(Wire::ANTHROPIC, "so", true, &[]);
    unsigned.parts = vec![json!({"type": "thinking", "thinking": "hm"}).to_string()];
    let signed = said(Wire::ANTHROPIC, "so", true, &[]);
    let only_thought = said(Wire::ANTHROPIC, "", true, &[]);
    let blocks = |said: Said| {
        let talk = transcript([user("go"), partial(said), user("and?")]);
        let body = assert_accepted(&talk, Wire::ANTHROPIC);
        body["messages"][1].clone()
    };

    assert_eq!(
        blocks(unsigned),
        json!({"role": "assistant", "content": "so"})
    );
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    assert_eq!(
        blocks(signed),
        json!({"role": "assistant", "content": [thinking, {"type": "text", "text": "so"}]})
    );
    assert_eq!(blocks(only_thought), Value::Null);
}

#[test]
fn a_partial_of_chat_takes_its_thinking_along_since_nobody_verifies_it() {
    let talk = transcript([
        user("go"),
        partial(said(Wire::OPENAI_CHAT, "so", true, &[])),
    ]);

    let body = assert_accepted(&talk, Wire::OPENAI_CHAT);

    assert_eq!(body["messages"][1]["reasoning_content"], "hm");
}

#[test]
fn an_answer_and_what_it_goes_on_from_are_one_message_without_the_seam() {
    for wire in Wire::ALL {
        let before = said(wire, "The tide turns", false, &[]);
        let mut rest = said(wire, "tide turns twice", true, &[call("c1", true)]);
        rest.continues = true;
        rest.overlap = 10;
        let talk = transcript([
            user("go"),
            partial(before),
            Entry::Answer(rest),
            began("c1"),
            result("c1"),
        ]);

        let body = assert_accepted(&talk, wire);

        // Responses has the two as messages of their own, one behind the other.
        let items = body["input"].as_array().into_iter().flatten();
        let said = items
            .filter(|item| item["role"] == "assistant")
            .map(|item| {
                let part = &item["content"][0]["text"];
                let text = item["content"].as_str().or(part.as_str());
                text.unwrap()
            });
        let said: String = said.collect();
        let body = body.to_string();
        assert!(
            said == "The tide turns twice" || body.contains("\"The tide turns twice\""),
            "{body}"
        );
        assert!(body.contains("result of c1"), "{body}");
    }
}

#[test]
fn the_note_on_a_failed_turn_begins_the_next_one_and_a_resumed_one_has_none() {
    let ended = Entry::Ended(Ended {
        turn: 1,
        outcome: TurnOutcome::ProviderFailed,
        note: Some("[It failed.]".to_owned()),
        wake_at: None,
    });

    let next = transcript([user("go"), ended.clone(), user("again")]);
    let resumed = transcript([user("go"), ended, Entry::Resumed]);

    let body = assert_accepted(&next, Wire::ANTHROPIC);
    assert_eq!(
        body["messages"][0]["content"],
        "go\n\n[It failed.]\n\nagain"
    );
    assert_eq!(
        assert_accepted(&resumed, Wire::ANTHROPIC)["messages"][0]["content"],
        "go"
    );
}

#[test]
fn a_summary_stands_for_what_came_before_and_the_question_stays_word_for_word() {
    let wire = Wire::OPENAI_CHAT;
    let talk = transcript([
        user("old"),
        Entry::Answer(said(wire, "old answer", false, &[])),
        user("the question"),
        Entry::Answer(said(wire, "", false, &[call("c1", true)])),
        began("c1"),
        result("c1"),
        Entry::Answer(said(wire, "", false, &[call("c2", true)])),
        began("c2"),
        result("c2"),
        Entry::Compacted {
            summary: "sum".to_owned(),
            keep_from: 7,
        },
    ]);

    let body = assert_accepted(&talk, wire);

    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3);
    let first = messages[0]["content"].as_str().unwrap();
    assert!(first.contains("sum\n\n"), "{first}");
    assert!(first.ends_with("the question"), "{first}");
    assert!(!body.to_string().contains("old"), "{body}");
}

/// A turn that ended to wait for a limit and went on was taken for one that was over, so that the
/// model went on with no question.
#[test]
fn the_question_of_a_turn_that_went_on_stays_behind_a_summary() {
    let wire = Wire::OPENAI_CHAT;
    let ended = |note: Option<&str>| {
        Entry::Ended(Ended {
            turn: 1,
            outcome: TurnOutcome::ProviderFailed,
            note: note.map(str::to_owned),
            wake_at: None,
        })
    };
    let round = |id| {
        let answer = Entry::Answer(said(wire, "", false, &[call(id, true)]));
        [answer, began(id), result(id)]
    };
    let summary = |keep_from| Entry::Compacted {
        summary: "sum".to_owned(),
        keep_from,
    };
    let first = |entries: Vec<Entry>| {
        let body = assert_accepted(&transcript(entries), wire);
        body["messages"][0]["content"].as_str().unwrap().to_owned()
    };

    let mut gone_on = vec![user("the question")];
    gone_on.extend(round("c1"));
    gone_on.extend([ended(Some("[It failed.]")), Entry::Resumed]);
    gone_on.extend(round("c2"));
    gone_on.push(summary(7));
    let mut next = vec![user("the question")];
    next.extend(round("c1"));
    next.extend([ended(Some("[It failed.]")), user("the next")]);
    next.extend(round("c2"));
    next.push(summary(6));

    let gone_on = first(gone_on);
    assert!(
        gone_on.ends_with("word for word:\n\nthe question"),
        "{gone_on}"
    );
    // What the next turn begins with is not summed up with the one before.
    let next = first(next);
    assert!(next.ends_with("sum\n\n[It failed.]\n\nthe next"), "{next}");
}

#[test]
fn a_result_that_was_left_out_says_so() {
    let wire = Wire::OPENAI_CHAT;
    let talk = transcript([
        user("go"),
        Entry::Answer(said(wire, "", false, &[call("c1", true)])),
        began("c1"),
        result("c1"),
        Entry::Elided { results: vec![4] },
    ]);

    let body = assert_accepted(&talk, wire);

    assert_eq!(
        body["messages"][2]["content"],
        "[left out to save room: 12 characters of this result]"
    );
}

#[test]
fn arguments_that_are_no_object_still_reach_a_wire_that_takes_nothing_else() {
    let mut odd = call("c1", true);
    odd.arguments = "[1]".to_owned();
    let answer = Entry::Answer(said(Wire::OPENAI_CHAT, "", false, &[odd]));
    let talk = transcript([user("go"), answer, result("c1")]);

    let body = assert_accepted(&talk, Wire::ANTHROPIC);

    let input = &body["messages"][1]["content"][0]["input"];
    assert_eq!(*input, json!({"arguments": "[1]"}));
}

/// What the model wrote came back to it as it was, and each later call of the conversation was refused.
#[test]
fn arguments_that_are_no_object_go_back_to_messages_as_one() {
    for (written, sent) in [
        ("[1]", json!({"arguments": "[1]"})),
        ("null", json!({"arguments": "null"})),
        ("\"at 1\"", json!({"arguments": "\"at 1\""})),
        ("{\"at\":1}", json!({"at": 1})),
    ] {
        let mut odd = call("c1", true);
        odd.arguments = written.to_owned();
        let answer = Entry::Answer(said(Wire::ANTHROPIC, "", false, &[odd]));
        let talk = transcript([user("go"), answer, result("c1")]);

        let body = assert_accepted(&talk, Wire::ANTHROPIC);

        assert_eq!(body["messages"][1]["content"][0]["input"], sent);
    }
}

/// An answer that is whole may still end at its length limit in the middle of a thought.
#[test]
fn thinking_that_the_length_limit_cut_stays_here() {
    let unsigned = json!({"type": "thinking", "thinking": "hm", "signature": ""}).to_string();
    let mut thought = said(Wire::ANTHROPIC, "", false, &[]);
    thought.parts = vec![unsigned.clone()];
    let mut rest = thought.clone();
    rest.continues = true;
    let mut more = said(Wire::ANTHROPIC, "so", false, &[]);
    more.parts.push(unsigned);
    let before = partial(said(Wire::ANTHROPIC, "The tide", false, &[]));

    for (entries, expected) in [
        (vec![Entry::Answer(thought)], Value::Null),
        (vec![before, Entry::Answer(rest)], json!("The tide")),
        (
            vec![Entry::Answer(more)],
            json!([{"type": "text", "text": "so"}]),
        ),
    ] {
        let talk = [user("go")].into_iter().chain(entries);
        let body = assert_accepted(&transcript(talk.chain([user("and?")])), Wire::ANTHROPIC);
        assert_eq!(body["messages"][1]["content"], expected);
    }
}

/// Some servers count their calls from the beginning in each answer; the wires want an id to name one
/// call of the conversation, and have patterns for it.
#[test]
fn every_call_has_an_id_that_the_wire_takes_and_its_own_result() {
    for came_by in Wire::ALL {
        let round = |said_of: &str| {
            let calls = [call("functions.look:0", true), call("call_0", true)];
            let answer = Entry::Answer(said(came_by, said_of, false, &calls));
            let result = |id: &str| {
                Entry::ToolEnded(Ran {
                    id: id.to_owned(),
                    text: format!("{said_of} {id}"),
                    is_error: false,
                })
            };
            let (first, second) = (result("functions.look:0"), result("call_0"));
            [
                answer,
                began("functions.look:0"),
                began("call_0"),
                second,
                first,
            ]
        };
        let entries = [user("go")]
            .into_iter()
            .chain(round("one"))
            .chain(round("two"));
        let talk = transcript(entries);

        for wire in Wire::ALL {
            let body = assert_accepted(&talk, wire);

            let is_its_own = came_by == wire && wire == Wire::OPENAI_CHAT;
            let odd = if is_its_own {
                "functions.look:0"
            } else {
                "functions_look_0"
            };
            let expected = [
                (odd.to_owned(), "one functions.look:0"),
                ("call_0".to_owned(), "one call_0"),
                (format!("{odd}_2"), "two functions.look:0"),
                ("call_0_2".to_owned(), "two call_0"),
            ];
            let expected = expected.map(|(id, text)| (id, text.to_owned()));
            assert_eq!(results(&body, wire), expected, "{came_by} to {wire}");
            assert_eq!(body, assert_accepted(&talk, wire));
        }
    }
}

/// Returns the id and the text of each result in a body.
fn results(body: &Value, wire: Wire) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let list = |name: &str| body[name].as_array().unwrap().clone();
    match wire.name() {
        "openai-chat" => list("messages")
            .iter()
            .filter(|message| message["role"] == "tool")
            .map(|message| (text(&message["tool_call_id"]), text(&message["content"])))
            .collect(),
        "anthropic" => list("messages")
            .iter()
            .filter_map(|message| message["content"].as_array())
            .flatten()
            .filter(|block| block["type"] == "tool_result")
            .map(|block| (text(&block["tool_use_id"]), text(&block["content"])))
            .collect(),
        _ => list("input")
            .iter()
            .filter(|item| item["type"] == "function_call_output")
            .map(|item| (text(&item["call_id"]), text(&item["output"])))
            .collect(),
    }
}

/// A number that no float holds is still what the model wrote.
#[test]
fn what_is_named_anew_is_else_as_it_came() {
    let mut large = call("call_0", true);
    large.arguments = "{\"at\":12345678901234567890123}".to_owned();
    let answer = Said {
        wire: "anthropic".to_owned(),
        tool_calls: vec![large],
        parts: vec![
            r#"{"type":"tool_use","id":"call_0","name":"look","input":{"at":12345678901234567890123}}"#
                .to_owned(),
        ],
        ..Said::default()
    };
    let round = || {
        [
            Entry::Answer(answer.clone()),
            began("call_0"),
            result("call_0"),
        ]
    };
    let entries = [user("go")].into_iter().chain(round()).chain(round());
    let talk = transcript(entries);

    let mut request = lifesign::Request::new("m");
    request.messages = talk.messages(Wire::ANTHROPIC);
    let body = String::from_utf8(Wire::ANTHROPIC.encode(&request).unwrap()).unwrap();

    assert_eq!(body.matches("12345678901234567890123").count(), 2, "{body}");
    assert!(body.contains("\"id\":\"call_0_2\""), "{body}");
}

#[test]
fn what_a_person_says_without_words_is_told_as_that() {
    for text in ["", " \n"] {
        let talk = transcript([user(text)]);
        for wire in Wire::ALL {
            let body = assert_accepted(&talk, wire).to_string();
            assert!(body.contains("[a message without text]"), "{body}");
        }
    }
}
