//! What a call asks: a prompt, or a whole body.

use std::io::{self, IsTerminal, Read};

use anyhow::Context as _;
use lifesign::{RawRequest, Request};
use lifesign_core::{SettingError, Value};

use crate::args::CallArgs;
use crate::output::note;

/// What to ask.
pub(super) enum Asked {
    /// A prompt, to be put into the wire's words.
    Prompt(Box<Request>),
    /// A whole body in the wire's words.
    Body(RawRequest),
}

impl Asked {
    /// Reads it from wherever the arguments say.
    pub(super) fn read(args: &CallArgs) -> anyhow::Result<Self> {
        if let Some(path) = &args.request {
            let text = std::fs::read(path)
                .with_context(|| format!("--request: {} cannot be read", path.display()))?;
            let body = RawRequest::parse(text)
                .with_context(|| format!("--request: {} cannot be sent", path.display()))?;
            // `--no-stream` asks for a whole answer; otherwise the body says what it wants.
            return Ok(Self::Body(if args.no_stream {
                body.with_stream(false)
            } else {
                body
            }));
        }
        let prompt = match (&args.prompt, &args.prompt_file) {
            (Some(prompt), _) => prompt.clone(),
            (None, Some(path)) => std::fs::read_to_string(path)
                .with_context(|| format!("--prompt-file: {} cannot be read", path.display()))?,
            (None, None) => read_standard_input()?,
        };
        if prompt.trim().is_empty() {
            return Err(SettingError::new("prompt", "is empty")
                .with_value(&Value::Text(&prompt))
                .with_accepted("some text")
                .into());
        }
        let model = args
            .target
            .model
            .clone()
            .unwrap_or_else(|| UNNAMED_MODEL.to_owned());
        let mut request = Request::prompt(model, prompt).stream(!args.no_stream);
        request.max_tokens = args.target.max_tokens;
        Ok(Self::Prompt(Box::new(request)))
    }

    /// Returns the model that is asked, if it is known.
    pub(super) fn model(&self) -> Option<&str> {
        match self {
            Self::Prompt(request) => Some(&request.model),
            Self::Body(body) => body.model(),
        }
    }
}

fn read_standard_input() -> anyhow::Result<String> {
    if io::stdin().is_terminal() {
        note("reading the prompt from standard input; end it with Ctrl-D");
    }
    let mut prompt = String::new();
    io::stdin()
        .read_to_string(&mut prompt)
        .context("standard input cannot be read")?;
    Ok(prompt)
}

/// Servers of one model take any name.
const UNNAMED_MODEL: &str = "default";
