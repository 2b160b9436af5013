//! Official clients, unmodified, get through the gateway what they get from the upstream itself.
//!
//! Each test starts one client (`tools/sdk`), scripted providers, a real llama.cpp server and a gateway
//! in front of them. The client asks everything twice, with nothing but another base URL, and what it
//! hands back is compared: events, answer, usage, and errors with their types. Likewise other people's
//! receivers of traces (`collector`) read what the gateway sends.
//!
//! `cargo xtask test` sets the clients up, and so does `eval "$(cargo xtask sdks)"`. Without them these
//! tests are skipped, or fail where `LIFESIGN_REQUIRE_SDKS` is set. The same goes for the server.

// What the tests share may panic as they do.
#[cfg(test)]
mod beats;
#[cfg(test)]
mod case;
#[cfg(test)]
mod client;
#[cfg(test)]
mod collector;
#[cfg(test)]
mod compare;
#[cfg(test)]
mod process;
#[cfg(test)]
mod traces;
#[cfg(test)]
mod upstreams;

#[cfg(test)]
use case::{Api, check};
#[cfg(test)]
use client::Client;

#[test]
fn the_openai_client_for_python_sees_no_difference() {
    let Some(client) = Client::python("openai_client.py") else {
        return;
    };

    check(client.obeys_should_retry(), &[Api::Chat, Api::Responses]);
}

#[test]
fn the_openai_client_for_node_sees_no_difference() {
    let Some(client) = Client::node("openai_client.mjs") else {
        return;
    };

    check(client.obeys_should_retry(), &[Api::Chat, Api::Responses]);
}

#[test]
fn the_anthropic_client_for_python_sees_no_difference() {
    let Some(client) = Client::python("anthropic_client.py") else {
        return;
    };

    check(client.obeys_should_retry(), &[Api::Messages]);
}

#[test]
fn the_anthropic_client_for_node_sees_no_difference() {
    let Some(client) = Client::node("anthropic_client.mjs") else {
        return;
    };

    check(client.obeys_should_retry(), &[Api::Messages]);
}

#[test]
fn the_ai_sdk_sees_no_difference() {
    let Some(client) = Client::node("ai_sdk_client.mjs") else {
        return;
    };

    let apis = [Api::Chat, Api::Compatible, Api::Responses, Api::Messages];
    check(client, &apis);
}

#[test]
fn langchain_sees_no_difference() {
    let Some(client) = Client::python("langchain_client.py") else {
        return;
    };

    check(client.obeys_should_retry(), &[Api::Chat, Api::Responses]);
}
