//! What a call asks: a prompt, or a whole body.

use anyhow::Context as _;
use lifesign::{RawRequest, Request};

use crate::args::CallArgs;
use crate::command::{prompt, target};

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
            (None, Some(path)) => prompt::of_file("--prompt-file", path)?,
            (None, None) => prompt::of_standard_input()?,
        };
        prompt::check(&prompt)?;
        let model = target::model(&args.target);
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
