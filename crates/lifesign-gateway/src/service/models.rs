//! The models of several upstreams, as one list.

use std::collections::HashSet;
use std::task::Poll;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Method, Response, StatusCode};
use lifesign_wire::Wire;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::call::{Call, Fault, Item, Order};
use crate::config::{Asked, CallLayer};
use crate::relay::Manner;
use crate::reply;
use crate::server::{Peer, Stage};

impl Order {
    /// Returns whether the models are asked for that there are.
    pub(super) fn asks_for_models(&self) -> bool {
        let path = self.outbound.path.split('?').next();
        self.outbound.method == Method::GET && path == Some("/models")
    }
}

/// Asks every upstream, and puts their lists behind one another.
///
/// An upstream that fails is left out, and so is one that takes long or whose list is longer than an
/// answer may be; where all are, the first failure is the answer. `start` makes the call to one of them, which is
/// written down like any other.
pub(super) async fn of_all(
    order: Order,
    peer: &Peer,
    start: impl Fn(Order) -> Call,
) -> Response<Bytes> {
    let wire = order.wire;
    let mut order = order;
    if order.layer.is_empty()
        && let Ok(layer) = CallLayer::read(&patience(), None)
    {
        order.layer = layer;
    }
    let asked = order.targets.iter().map(|target| {
        let order = Order {
            id: super::new_id(),
            targets: vec![target.clone()],
            manner: Manner::Collected,
            ..order.clone()
        };
        collect(start(order), peer)
    });
    let mut lists = Vec::new();
    let mut first = None;
    for (mut call, answered) in join_all(asked).await {
        let status = match answered {
            Ok(body) => {
                lists.push(body);
                StatusCode::OK.as_u16()
            }
            Err(fault) => {
                let response = reply::failure(&call, &fault);
                let status = response.status().as_u16();
                first.get_or_insert(response);
                status
            }
        };
        call.times_mut().status = Some(status);
    }
    match first {
        Some(failed) if lists.is_empty() => failed,
        _ => reply::json(StatusCode::OK, joined(wire, &lists)),
    }
}

/// Returns how long a list is waited for: one upstream that hangs must not keep those of the others.
fn patience() -> Asked<'static> {
    Asked {
        wall_clock: Some("3s"),
        ..Asked::default()
    }
}

/// Takes the whole body of a call that passes as it comes, or ends the call with the gateway.
async fn collect(mut call: Call, peer: &Peer) -> (Call, Result<Bytes, Box<Fault>>) {
    let mut body = Vec::new();
    loop {
        let next = std::future::poll_fn(|cx| {
            if peer.stage() >= Stage::Ending && !call.has_ended() {
                return Poll::Ready(call.end_drained());
            }
            call.poll_next(cx)
        });
        match next.await {
            Item::Head => {}
            Item::Bytes(bytes) | Item::Whole(bytes) => body.extend_from_slice(&bytes),
            Item::Done => return (call, Ok(body.into())),
            Item::Failed(fault) => return (call, Err(fault)),
        }
    }
}

/// A list of models, each as its upstream wrote it.
#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
}

/// What is sent: what OpenAI's readers look for, and Anthropic's.
#[derive(Serialize)]
struct Joined<'a> {
    object: &'static str,
    data: Vec<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    has_more: Option<bool>,
}

/// Joins lists; of a model that several have the first entry stands.
fn joined(wire: Wire, lists: &[Bytes]) -> String {
    let mut seen = HashSet::new();
    let lists = lists
        .iter()
        .map(|list| serde_json::from_slice::<List<'_>>(list));
    let entries = lists.filter_map(Result::ok).flat_map(|list| list.data);
    let data = entries.filter(|entry| {
        let model = serde_json::from_str::<Model>(entry.get());
        model.is_ok_and(|model| seen.insert(model.id))
    });
    let joined = Joined {
        object: "list",
        data: data.collect(),
        has_more: (wire == Wire::ANTHROPIC).then_some(false),
    };
    // It holds text and JSON that was read as such, so that it can be written.
    serde_json::to_string(&joined).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_joined_and_of_a_model_twice_the_first_stands() {
        let lists = [
            Bytes::from(r#"{"object":"list","data":[{"id":"a","owned_by":"x"},{"id":"b"}]}"#),
            Bytes::from("no list"),
            Bytes::from(r#"{"data":[{"id":"a","owned_by":"y"},{"id": "c","n":1.0}]}"#),
        ];

        assert_eq!(
            joined(Wire::OPENAI_CHAT, &lists),
            r#"{"object":"list","data":[{"id":"a","owned_by":"x"},{"id":"b"},{"id": "c","n":1.0}]}"#
        );
        assert!(joined(Wire::ANTHROPIC, &lists).ends_with(r#","has_more":false}"#));
    }
}
