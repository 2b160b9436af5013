//! Tool calls that arrive in pieces.

use serde::{Deserialize, Serialize};

use crate::event::ToolPiece;

/// A tool call of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolCall {
    /// The provider's id; empty if it sent none.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as they arrived: JSON text, or free text for a custom tool.
    pub arguments: String,
    /// Whether the arguments are whole in an answer that finished. Only such a call may be run.
    pub complete: bool,
    /// The provider's word for a call that is not a plain function: a custom tool, or one that the
    /// provider runs itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

impl ToolCall {
    /// Returns whether the arguments are free text, not JSON.
    pub fn is_custom(&self) -> bool {
        self.kind
            .as_deref()
            .is_some_and(|kind| kind.starts_with("custom"))
    }

    /// Adds a piece. Empty id and name are absence: they never overwrite.
    pub(crate) fn add(&mut self, piece: &ToolPiece<'_>) {
        if let Some(id) = piece.id.filter(|id| !id.is_empty()) {
            id.clone_into(&mut self.id);
        }
        if let Some(name) = piece.name.filter(|name| !name.is_empty()) {
            name.clone_into(&mut self.name);
        }
        if let (None, Some(kind)) = (&self.kind, piece.kind) {
            self.kind = Some(kind.to_owned());
        }
        self.arguments.push_str(piece.arguments);
    }

    /// Settles whether the call may be run, at the end of its answer.
    pub(crate) fn settle(&mut self, ending: Ending, empty: EmptyArguments) {
        let has_arguments = !self.arguments.trim().is_empty();
        self.complete = !self.name.is_empty()
            && match ending {
                Ending::Unfinished => false,
                // What was cut at a limit is whole only if it says itself where it ends.
                Ending::Cut => has_arguments && !self.is_custom() && self.closes_itself(),
                Ending::Finished => {
                    !has_arguments
                        || self.is_custom()
                        || serde_json::from_str::<serde::de::IgnoredAny>(&self.arguments).is_ok()
                }
            };
        if self.complete && !has_arguments && empty == EmptyArguments::Object && !self.is_custom() {
            "{}".clone_into(&mut self.arguments);
        }
    }

    fn closes_itself(&self) -> bool {
        self.arguments.trim_start().starts_with(['{', '[', '"'])
            && serde_json::from_str::<serde::de::IgnoredAny>(&self.arguments).is_ok()
    }
}

/// How the answer that holds a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It has no finish.
    Unfinished,
    /// It was cut at a length limit or by a filter.
    Cut,
    /// The model finished it.
    Finished,
}

impl Ending {
    /// Returns what a finish reason says.
    pub(crate) fn of(finish_reason: &str) -> Self {
        let cut = [
            "length",
            "max_tokens",
            "model_length",
            "model_context_window_exceeded",
            "content_filter",
        ];
        let reason = finish_reason.to_ascii_lowercase();
        if cut.contains(&reason.as_str()) || reason.starts_with("incomplete") {
            Self::Cut
        } else {
            Self::Finished
        }
    }
}

/// What a wire means by empty arguments in an answer that finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EmptyArguments {
    /// The call takes none; they stay empty.
    Kept,
    /// They are `{}`.
    Object,
}

/// What a fragment says of the call it belongs to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Identity<'a> {
    pub(crate) index: Option<u64>,
    pub(crate) id: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    pub(crate) has_arguments: bool,
    /// Whether another fragment of the same chunk came before it: without index and id the two are
    /// two calls, if both are named.
    pub(crate) follows_in_chunk: bool,
}

/// Finds out which call a fragment belongs to.
///
/// Fragments join by index; without one by id; with neither to the call last opened. Empty id and
/// name are absence. A new call begins where a different id arrives on an index, or, without an id,
/// a name follows arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identities {
    known: Vec<Known>,
    last: Option<usize>,
}

#[derive(Clone, Debug)]
struct Known {
    index: Option<u64>,
    id: Option<Box<str>>,
    is_named: bool,
    has_arguments: bool,
}

/// The call that a fragment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// Its place in the order of first appearance.
    pub(crate) call: usize,
    /// Whether the fragment opens it.
    pub(crate) is_new: bool,
}

impl Identities {
    /// Returns the call that the fragment belongs to, or `None` if it says nothing at all.
    pub(crate) fn resolve(&mut self, identity: Identity<'_>) -> Option<Resolved> {
        let identity = Identity {
            id: identity.id.filter(|id| !id.is_empty()),
            name: identity.name.filter(|name| !name.is_empty()),
            ..identity
        };
        let joined = self.joined(&identity);
        let call = match joined {
            Some(call) => call,
            None if identity.id.is_some() || identity.name.is_some() || identity.has_arguments => {
                self.known.push(Known {
                    index: identity.index,
                    id: None,
                    is_named: false,
                    has_arguments: false,
                });
                self.known.len() - 1
            }
            None => return None,
        };
        let known = &mut self.known[call];
        if let (None, Some(id)) = (&known.id, identity.id) {
            known.id = Some(id.into());
        }
        known.is_named |= identity.name.is_some();
        known.has_arguments |= identity.has_arguments;
        self.last = Some(call);
        Some(Resolved {
            call,
            is_new: joined.is_none(),
        })
    }

    fn joined(&self, identity: &Identity<'_>) -> Option<usize> {
        let newest = |is: &dyn Fn(&Known) -> bool| self.known.iter().rposition(is);
        let Some(id) = identity.id else {
            let call = match identity.index {
                Some(index) => newest(&|known| known.index == Some(index)),
                None => self.last,
            }?;
            let known = &self.known[call];
            let is_another = identity.name.is_some()
                && (known.has_arguments
                    || (known.is_named && identity.index.is_none() && identity.follows_in_chunk));
            return (!is_another).then_some(call);
        };
        match identity.index {
            Some(index) => {
                newest(&|known| known.index == Some(index) && known.id.as_deref() == Some(id))
                    .or_else(|| {
                        // The call that is open on the index may not have said its id yet.
                        newest(&|known| known.index == Some(index)).filter(|call| {
                            let known = &self.known[*call];
                            known.id.is_none() && !(known.has_arguments && identity.name.is_some())
                        })
                    })
            }
            None => newest(&|known| known.id.as_deref() == Some(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resolves fragments of (index, id, name, arguments) and returns the calls they went to.
    fn calls(fragments: &[(Option<u64>, &str, &str, &str)]) -> Vec<Option<usize>> {
        let mut identities = Identities::default();
        fragments
            .iter()
            .map(|(index, id, name, arguments)| {
                identities
                    .resolve(Identity {
                        index: *index,
                        id: Some(id),
                        name: Some(name),
                        has_arguments: !arguments.is_empty(),
                        follows_in_chunk: false,
                    })
                    .map(|resolved| resolved.call)
            })
            .collect()
    }

    #[test]
    fn fragments_join_by_index() {
        let seen = calls(&[
            (Some(0), "a", "f", ""),
            (Some(1), "b", "g", ""),
            (Some(0), "", "", "{"),
            (Some(1), "", "", "{}"),
            (Some(0), "a", "", "}"),
        ]);

        assert_eq!(seen, [Some(0), Some(1), Some(0), Some(1), Some(0)]);
    }

    #[test]
    fn without_an_index_they_join_by_id_and_with_neither_to_the_last() {
        let seen = calls(&[
            (None, "a", "f", ""),
            (None, "b", "g", ""),
            (None, "a", "", "{"),
            (None, "", "", "}"),
        ]);

        assert_eq!(seen, [Some(0), Some(1), Some(0), Some(0)]);
    }

    #[test]
    fn a_different_id_on_an_index_opens_a_call() {
        let seen = calls(&[
            (Some(0), "a", "f", "{}"),
            (Some(0), "b", "f", "{}"),
            (Some(0), "", "", " "),
        ]);

        assert_eq!(seen, [Some(0), Some(1), Some(1)]);
    }

    #[test]
    fn without_an_id_a_name_after_arguments_opens_a_call() {
        let seen = calls(&[
            (None, "", "f", ""),
            (None, "", "", "{}"),
            (None, "", "g", "{}"),
            (Some(7), "", "h", "{}"),
            (Some(7), "", "h", "{}"),
        ]);

        assert_eq!(seen, [Some(0), Some(0), Some(1), Some(2), Some(3)]);
    }

    #[test]
    fn an_id_that_comes_late_belongs_to_the_open_call() {
        let seen = calls(&[(Some(0), "", "f", ""), (Some(0), "a", "", "{}")]);

        assert_eq!(seen, [Some(0), Some(0)]);
    }

    #[test]
    fn a_fragment_that_says_nothing_opens_nothing() {
        assert_eq!(
            calls(&[(Some(3), "", "", ""), (None, "", "", "")]),
            [None, None]
        );
    }

    #[test]
    fn two_named_calls_in_one_chunk_are_two_even_without_arguments() {
        let mut identities = Identities::default();
        let named = |name, follows_in_chunk| Identity {
            name: Some(name),
            follows_in_chunk,
            ..Identity::default()
        };

        let first = identities.resolve(named("f", false));
        let second = identities.resolve(named("g", true));

        assert_eq!((first.unwrap().call, second.unwrap().call), (0, 1));
    }

    #[test]
    fn a_call_is_complete_only_if_whole_in_an_answer_that_finished() {
        let settled = |name: &str, arguments: &str, ending, empty| {
            let mut call = ToolCall {
                name: name.to_owned(),
                arguments: arguments.to_owned(),
                ..ToolCall::default()
            };
            call.settle(ending, empty);
            (call.complete, call.arguments)
        };
        let (kept, object) = (EmptyArguments::Kept, EmptyArguments::Object);

        for (name, arguments, ending, empty, complete, left) in [
            ("f", "{\"a\":1}", Ending::Finished, kept, true, "{\"a\":1}"),
            ("f", "{\"a\":1", Ending::Finished, kept, false, "{\"a\":1"),
            (
                "f",
                "{\"a\":1}",
                Ending::Unfinished,
                kept,
                false,
                "{\"a\":1}",
            ),
            ("f", "{\"a\":1}", Ending::Cut, kept, true, "{\"a\":1}"),
            ("f", "12", Ending::Cut, kept, false, "12"),
            ("f", "", Ending::Finished, kept, true, ""),
            ("f", "", Ending::Finished, object, true, "{}"),
            ("f", "", Ending::Cut, object, false, ""),
            ("f", "", Ending::Unfinished, object, false, ""),
            ("", "{}", Ending::Finished, kept, false, "{}"),
        ] {
            assert_eq!(
                settled(name, arguments, ending, empty),
                (complete, left.to_owned()),
                "{name} {arguments} {ending:?}"
            );
        }
    }
}
