//! Who reads, and what such a reader takes for a sign of life.

use lifesign_wire::Wire;

use crate::config::BeatForm;

/// What a beat looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A comment of the stream.
    Comment,
    /// An event that means nothing, where one may stand; a comment elsewhere.
    Event,
    /// An event that means nothing, also ahead of the answer's first event.
    EarlyEvent,
    /// White space before a body that is not streamed.
    Space,
}

impl Form {
    /// Returns the form that is set, or the one that this reader takes for life. White space says
    /// nothing in a stream, and would spoil its lines.
    pub(crate) fn of(set: BeatForm, wire: Wire, is_stream: bool, user_agent: Option<&str>) -> Self {
        match set {
            BeatForm::Comment => Self::Comment,
            BeatForm::Event => Self::Event,
            BeatForm::Space if !is_stream => Self::Space,
            BeatForm::Auto | BeatForm::Space => {
                let agent = user_agent.unwrap_or_default();
                let reader = READERS
                    .iter()
                    .find(|(reads, name, _)| *reads == wire.name() && agent.contains(name));
                reader.map_or(Self::Comment, |(_, _, form)| *form)
            }
        }
    }
}

/// Readers to which a comment is no sign of life: wire, a part of the user agent, and the form that
/// is one.
///
/// Tried with a scripted server, a sign a second; docs/coding-agents.md says how.
///
/// - Codex 0.171.0 (`codex_exec/`, `codex-tui/`) starts `stream_idle_timeout_ms` anew at every event
///   that has data, whatever it says, and at any place, `response.created` not yet there included.
///   Comments and events without data count for nothing.
/// - Claude Code 2.1.332 and 2.1.197 (`claude-cli/`) see no `ping`, only that bytes came: a comment
///   does the same, up to 300 s more in the newer, nothing in the older. An event of the answer
///   starts its timer anew in both, and `message_start` is the one that can be had early.
/// - qwen-code 0.24.4 (`QwenCode/`) starts `streamIdleTimeoutMs`, 240 s, anew at every chunk, and a
///   chunk without choices is one, also ahead of the first. Comments count for nothing.
const READERS: [(&str, &str, Form); 3] = [
    ("openai-responses", "codex", Form::EarlyEvent),
    ("anthropic", "claude-cli", Form::Event),
    ("openai-chat", "QwenCode", Form::Event),
];

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// As they came in a request.
    const CODEX: [&str; 2] = [
        "codex_exec/0.171.0 (Debian 12.0.0; x86_64) xterm (codex_exec; 0.171.0)",
        "codex-tui/0.171.0 (Debian 12.0.0; x86_64) tmux-256color (codex-tui; 0.171.0)",
    ];
    const QWEN_CODE: &str = "QwenCode/0.24.4 (linux; x64)";
    const CLAUDE_CODE: &str = "claude-cli/2.1.332 (external, sdk-cli)";

    fn auto(wire: Wire, agent: &str) -> Form {
        Form::of(BeatForm::Auto, wire, true, Some(agent))
    }

    #[test]
    fn codex_is_sent_events_from_the_start_and_others_those_of_their_wire() {
        for agent in CODEX {
            assert_eq!(auto(Wire::OPENAI_RESPONSES, agent), Form::EarlyEvent);
            assert_eq!(auto(Wire::OPENAI_CHAT, agent), Form::Comment);
        }
        assert_eq!(auto(Wire::ANTHROPIC, CLAUDE_CODE), Form::Event);
        assert_eq!(auto(Wire::OPENAI_CHAT, QWEN_CODE), Form::Event);
    }

    #[test]
    fn everybody_else_is_sent_comments() {
        for wire in Wire::ALL {
            assert_eq!(auto(wire, "OpenAI/Python 2.9.0"), Form::Comment);
            assert_eq!(Form::of(BeatForm::Auto, wire, true, None), Form::Comment);
        }
    }

    #[test]
    fn what_is_set_wins_over_who_asks() {
        let set = |form| Form::of(form, Wire::OPENAI_RESPONSES, true, Some(CODEX[0]));

        assert_eq!(set(BeatForm::Comment), Form::Comment);
        assert_eq!(set(BeatForm::Event), Form::Event);
    }

    #[test]
    fn white_space_is_for_whole_bodies_alone() {
        let space = |is_stream| Form::of(BeatForm::Space, Wire::OPENAI_CHAT, is_stream, None);

        assert_eq!(space(false), Form::Space);
        assert_eq!(space(true), Form::Comment);
    }
}
