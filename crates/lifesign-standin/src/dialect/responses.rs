//! OpenAI Responses.

use super::{CREATED, Call, Name, Piece, Said, Usage, error_type, event, message, null, quoted};
use crate::script::{Saying, Word};

/// Writes response events and keeps the books of output items.
#[derive(Debug)]
pub(super) struct Responses {
    name: Name,
    sequence: u64,
    is_created: bool,
    items: Vec<Item>,
    calls: Vec<Call>,
    /// The item of each call that generic words built.
    call_items: Vec<usize>,
    finish: Option<String>,
    usage: Option<Usage>,
}

#[derive(Debug)]
struct Item {
    id: String,
    kind: Kind,
    text: String,
    is_open: bool,
    /// For a call: whether the event that ends its arguments was written.
    has_arguments: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Call { id: String, name: String },
    Message,
    Reasoning,
}

impl Responses {
    pub(super) fn new(name: Name) -> Self {
        Self {
            name,
            sequence: 0,
            is_created: false,
            items: Vec::new(),
            calls: Vec::new(),
            call_items: Vec::new(),
            finish: None,
            usage: None,
        }
    }

    /// Writes one of the wire's own words.
    pub(super) fn say(&mut self, saying: &Saying, frames: &mut String) {
        match saying.word {
            Word::ResponsesArguments => {
                let index = self.call_named(saying.text(0), frames);
                self.arguments(index, saying.text(1), frames);
            }
            Word::ResponsesArgumentsDone => {
                if let Some(index) = self.item(saying.given(0)) {
                    self.arguments_done(index, frames);
                }
            }
            Word::ResponsesCompleted => {
                self.close_all(frames);
                self.terminal("completed", None, "null", frames);
            }
            Word::ResponsesCreated => self.created(frames),
            Word::ResponsesFailed => self.failed(saying, frames),
            Word::ResponsesInProgress => self.lifecycle("response.in_progress", frames),
            Word::ResponsesIncomplete => {
                self.close_all(frames);
                self.terminal("incomplete", Some(saying.text(0)), "null", frames);
            }
            Word::ResponsesItem => {
                self.open_call(saying.text(0), saying.text(0), saying.text(1), frames);
            }
            Word::ResponsesItemDone => {
                if let Some(index) = self.item(saying.given(0)) {
                    self.item_done(index, frames);
                }
            }
            Word::ResponsesText => self.text(saying.text(0), frames),
            _ => {}
        }
    }

    /// Writes what a generic word means here.
    pub(super) fn mean(&mut self, saying: &Saying, frames: &mut String) {
        if !matches!(saying.word, Word::Error | Word::Ping | Word::Usage) && !self.is_created {
            self.created(frames);
        }
        match saying.word {
            Word::Done => {
                self.close_all(frames);
                let reason = match self.finish.as_deref() {
                    Some("length") => Some("max_output_tokens"),
                    Some("content_filter") => Some("content_filter"),
                    _ => None,
                };
                let status = if reason.is_some() {
                    "incomplete"
                } else {
                    "completed"
                };
                self.terminal(status, reason, "null", frames);
            }
            Word::Error => {
                let error = error(saying.text(0), &message(saying));
                self.event("error", &format!(r#""error":{error}"#), frames);
            }
            // The reason is part of the terminal event.
            Word::Finish => self.finish = Some(saying.text(0).to_owned()),
            Word::Ping => self.event("keepalive", "", frames),
            Word::Text => self.text(saying.text(0), frames),
            Word::Think => self.think(saying.text(0), frames),
            Word::Tool => {
                for index in 0..saying.arguments.len() {
                    self.tool(&Piece::parse(saying.text(index)), frames);
                }
            }
            Word::Usage => self.usage = Some(Usage::parse(saying.text(0))),
            _ => {}
        }
    }

    /// Returns the body of an answer that is not streamed.
    pub(super) fn whole(&self, said: &Said, finish: Option<&str>) -> String {
        if let Some((kind, message)) = &said.error {
            return format!(r#"{{"error":{}}}"#, error(kind, message));
        }
        let serial = self.name.serial;
        let mut output = Vec::new();
        let mut item = |id: String, kind: Kind, text: &str| {
            let text = text.to_owned();
            output.push(Item {
                id,
                kind,
                text,
                is_open: false,
                has_arguments: true,
            });
        };
        if let Some(think) = &said.think {
            item(format!("rs_{serial}"), Kind::Reasoning, think);
        }
        if !said.text.is_empty() || said.tools.is_empty() {
            item(format!("msg_{serial}"), Kind::Message, &said.text);
        }
        for call in &said.tools {
            let kind = Kind::Call {
                id: call.id.clone(),
                name: call.name.clone(),
            };
            item(format!("fc_{}", call.id), kind, &call.arguments);
        }
        let (status, reason) = match finish {
            Some("length") => ("incomplete", Some("max_output_tokens")),
            Some("content_filter") => ("incomplete", Some("content_filter")),
            Some(_) => ("completed", None),
            None => ("in_progress", None),
        };
        let usage = Some(said.usage.unwrap_or_default());
        self.response(status, reason, "null", &output, usage)
    }

    fn created(&mut self, frames: &mut String) {
        self.is_created = true;
        self.lifecycle("response.created", frames);
    }

    fn lifecycle(&mut self, kind: &str, frames: &mut String) {
        let response = self.response("in_progress", None, "null", &[], None);
        self.event(kind, &format!(r#""response":{response}"#), frames);
    }

    fn text(&mut self, text: &str, frames: &mut String) {
        let index = match self.items.iter().position(|item| item.is(&Kind::Message)) {
            Some(index) => index,
            None => self.open(format!("msg_{}", self.name.serial), Kind::Message, frames),
        };
        self.items[index].text.push_str(text);
        let place = self.place(index);
        let fields = format!(
            r#"{place},"content_index":0,"delta":{},"logprobs":[]"#,
            quoted(text)
        );
        self.event("response.output_text.delta", &fields, frames);
    }

    fn think(&mut self, text: &str, frames: &mut String) {
        let index = match self.items.iter().position(|item| item.is(&Kind::Reasoning)) {
            Some(index) => index,
            None => self.open(format!("rs_{}", self.name.serial), Kind::Reasoning, frames),
        };
        self.items[index].text.push_str(text);
        let place = self.place(index);
        let fields = format!(r#"{place},"summary_index":0,"delta":{}"#, quoted(text));
        self.event("response.reasoning_summary_text.delta", &fields, frames);
    }

    fn tool(&mut self, piece: &Piece, frames: &mut String) {
        let (place, is_new) = Call::hear(&mut self.calls, piece);
        if is_new {
            let Call { id, name, .. } = self.calls[place].clone();
            let index = self.open_call(&format!("fc_{id}"), &id, &name, frames);
            self.call_items.push(index);
        }
        if let Some(&index) = self.call_items.get(place)
            && !piece.arguments.is_empty()
        {
            self.arguments(index, &piece.arguments, frames);
        }
    }

    fn open_call(&mut self, item: &str, id: &str, name: &str, frames: &mut String) -> usize {
        let kind = Kind::Call {
            id: id.to_owned(),
            name: name.to_owned(),
        };
        self.open(item.to_owned(), kind, frames)
    }

    /// The call whose item has this id, opened if there is none.
    fn call_named(&mut self, id: &str, frames: &mut String) -> usize {
        match self.items.iter().position(|item| item.id == id) {
            Some(index) => index,
            None => self.open_call(id, id, "tool", frames),
        }
    }

    fn item(&self, id: Option<&str>) -> Option<usize> {
        match id {
            Some(id) => self.items.iter().position(|item| item.id == id),
            None => self.items.len().checked_sub(1),
        }
    }

    fn open(&mut self, id: String, kind: Kind, frames: &mut String) -> usize {
        // An item follows when the one before it is whole.
        self.close_all(frames);
        let index = self.items.len();
        let part = match kind {
            Kind::Call { .. } => None,
            Kind::Message => {
                let part = r#""content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}"#;
                Some(("response.content_part.added", part))
            }
            Kind::Reasoning => {
                let part = r#""summary_index":0,"part":{"type":"summary_text","text":""}"#;
                Some(("response.reasoning_summary_part.added", part))
            }
        };
        let item = Item {
            id,
            kind,
            text: String::new(),
            is_open: true,
            has_arguments: false,
        };
        let json = item.json("in_progress");
        self.items.push(item);
        let fields = format!(r#""output_index":{index},"item":{json}"#);
        self.event("response.output_item.added", &fields, frames);
        if let Some((kind, part)) = part {
            let place = self.place(index);
            self.event(kind, &format!("{place},{part}"), frames);
        }
        index
    }

    fn arguments(&mut self, index: usize, piece: &str, frames: &mut String) {
        self.items[index].text.push_str(piece);
        let place = self.place(index);
        let fields = format!(r#"{place},"delta":{}"#, quoted(piece));
        self.event("response.function_call_arguments.delta", &fields, frames);
    }

    fn arguments_done(&mut self, index: usize, frames: &mut String) {
        let item = &mut self.items[index];
        item.has_arguments = true;
        let Kind::Call { name, .. } = &item.kind else {
            return;
        };
        let (name, arguments) = (quoted(name), quoted(&item.text));
        let place = self.place(index);
        let fields = format!(r#"{place},"arguments":{arguments},"name":{name}"#);
        self.event("response.function_call_arguments.done", &fields, frames);
    }

    fn item_done(&mut self, index: usize, frames: &mut String) {
        self.items[index].is_open = false;
        let json = self.items[index].json("completed");
        let fields = format!(r#""output_index":{index},"item":{json}"#);
        self.event("response.output_item.done", &fields, frames);
    }

    fn close_all(&mut self, frames: &mut String) {
        for index in 0..self.items.len() {
            if !self.items[index].is_open {
                continue;
            }
            let place = self.place(index);
            let text = quoted(&self.items[index].text);
            match self.items[index].kind {
                Kind::Call { .. } if self.items[index].has_arguments => {}
                Kind::Call { .. } => self.arguments_done(index, frames),
                Kind::Message => {
                    let fields =
                        format!(r#"{place},"content_index":0,"text":{text},"logprobs":[]"#);
                    self.event("response.output_text.done", &fields, frames);
                    let part = format!(
                        r#"{{"type":"output_text","text":{text},"annotations":[],"logprobs":[]}}"#
                    );
                    let fields = format!(r#"{place},"content_index":0,"part":{part}"#);
                    self.event("response.content_part.done", &fields, frames);
                }
                Kind::Reasoning => {
                    let fields = format!(r#"{place},"summary_index":0,"text":{text}"#);
                    self.event("response.reasoning_summary_text.done", &fields, frames);
                    let part = format!(r#"{{"type":"summary_text","text":{text}}}"#);
                    let fields = format!(r#"{place},"summary_index":0,"part":{part}"#);
                    self.event("response.reasoning_summary_part.done", &fields, frames);
                }
            }
            self.item_done(index, frames);
        }
    }

    fn failed(&mut self, saying: &Saying, frames: &mut String) {
        let (code, message) = (quoted(saying.text(0)), quoted(&message(saying)));
        let error = format!(r#"{{"code":{code},"message":{message}}}"#);
        self.terminal("failed", None, &error, frames);
    }

    fn terminal(&mut self, status: &str, reason: Option<&str>, error: &str, frames: &mut String) {
        let usage = (status != "failed").then(|| self.usage.unwrap_or_default());
        let response = self.response(status, reason, error, &self.items, usage);
        self.event(
            &format!("response.{status}"),
            &format!(r#""response":{response}"#),
            frames,
        );
    }

    fn response(
        &self,
        status: &str,
        reason: Option<&str>,
        error: &str,
        items: &[Item],
        usage: Option<Usage>,
    ) -> String {
        let Name { model, serial } = &self.name;
        let details =
            reason.map_or_else(null, |reason| format!(r#"{{"reason":{}}}"#, quoted(reason)));
        let output: Vec<String> = items
            .iter()
            .map(|item| {
                item.json(if item.is_open {
                    "incomplete"
                } else {
                    "completed"
                })
            })
            .collect();
        let output = output.join(",");
        let usage = usage.map_or_else(null, |Usage { input, output }| {
            let total = input.saturating_add(output);
            format!(
                r#"{{"input_tokens":{input},"input_tokens_details":{{"cached_tokens":0}},"output_tokens":{output},"output_tokens_details":{{"reasoning_tokens":0}},"total_tokens":{total}}}"#
            )
        });
        format!(
            r#"{{"id":"resp_{serial}","object":"response","created_at":{CREATED},"status":"{status}","error":{error},"incomplete_details":{details},"instructions":null,"metadata":{{}},"model":{model},"output":[{output}],"parallel_tool_calls":true,"temperature":1.0,"tool_choice":"auto","tools":[],"top_p":1.0,"usage":{usage}}}"#
        )
    }

    /// The fields that say which item an event is about.
    fn place(&self, index: usize) -> String {
        format!(
            r#""item_id":{},"output_index":{index}"#,
            quoted(&self.items[index].id)
        )
    }

    fn event(&mut self, kind: &str, fields: &str, frames: &mut String) {
        let comma = if fields.is_empty() { "" } else { "," };
        let sequence = self.sequence;
        self.sequence += 1;
        let json = format!(r#"{{"type":"{kind}","sequence_number":{sequence}{comma}{fields}}}"#);
        event(frames, kind, &json);
    }
}

impl Item {
    fn is(&self, kind: &Kind) -> bool {
        self.is_open && self.kind == *kind
    }

    fn json(&self, status: &str) -> String {
        let (id, text) = (quoted(&self.id), quoted(&self.text));
        let is_begun = status != "in_progress";
        match &self.kind {
            Kind::Call { id: call, name } => {
                let (call, name) = (quoted(call), quoted(name));
                let arguments = if is_begun { text.as_str() } else { r#""""# };
                format!(
                    r#"{{"id":{id},"type":"function_call","status":"{status}","arguments":{arguments},"call_id":{call},"name":{name}}}"#
                )
            }
            Kind::Message => {
                let part = if is_begun {
                    format!(
                        r#"{{"type":"output_text","annotations":[],"logprobs":[],"text":{text}}}"#
                    )
                } else {
                    String::new()
                };
                format!(
                    r#"{{"id":{id},"type":"message","status":"{status}","content":[{part}],"role":"assistant"}}"#
                )
            }
            Kind::Reasoning => {
                let part = if is_begun {
                    format!(r#"{{"type":"summary_text","text":{text}}}"#)
                } else {
                    String::new()
                };
                format!(r#"{{"id":{id},"type":"reasoning","summary":[{part}]}}"#)
            }
        }
    }
}

fn error(kind: &str, message: &str) -> String {
    let (code, message) = (quoted(kind), quoted(message));
    let kind = quoted(error_type(kind));
    format!(r#"{{"type":{kind},"code":{code},"message":{message},"param":null}}"#)
}
