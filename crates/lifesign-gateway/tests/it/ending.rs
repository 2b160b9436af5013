//! How calls end with the gateway.

use lifesign_standin::Standin;
use lifesign_wire::Wire;

use crate::harness::{Ask, Gate, Raw, Setup, Talk, ms, sleep, upstream, wait_until};

async fn gate(wire: Wire, script: &str, more: &str, sets: &[&str]) -> (Standin, Gate) {
    let standin = Standin::script(script).unwrap().start().await.unwrap();
    let mut setup = Setup::new(&upstream("up", wire, &standin.url(), more));
    for set in sets {
        setup = setup.set(set);
    }
    (standin, setup.start().await)
}

#[tokio::test]
async fn a_stream_may_end_within_the_limit_of_a_drain() {
    for wire in Wire::ALL {
        let script = "status 200 sse; text \"a\"; +0.3 text \"b\"; finish \"stop\"; done; eof";
        let (_standin, mut gate) = gate(wire, script, "", &[]).await;
        let mut talk = gate.begin(&Ask::stream(wire)).await;
        talk.until("a").await;

        gate.stopper.drain(ms(5_000));

        let got = talk.rest().await;
        assert_eq!(got.answer(), "ab");
        assert!(got.is_whole);
        gate.stopped().await;
        assert!(gate.only_end().await.failure.is_none());
    }
}

#[tokio::test]
async fn what_outlasts_a_drain_is_told_so_in_its_own_dialect() {
    for wire in Wire::ALL {
        let script = "status 200 sse; text \"a\"; hold";
        let (standin, mut gate) = gate(wire, script, "concurrency = 1", &[]).await;
        let mut talk = gate.begin(&Ask::stream(wire)).await;
        talk.until("a").await;
        let waiting = gate.begin(&Ask::stream(wire)).await;
        sleep(ms(50)).await;

        gate.stopper.drain(ms(200));

        let (got, waited) = tokio::join!(talk.rest(), waiting.rest());
        assert_eq!(got.answer(), "a");
        let frame = got.error_frame(wire);
        assert!(frame["lifesign"].is_object(), "{frame}");
        assert!(frame.to_string().contains("stopping"), "{frame}");
        assert!(got.is_whole);
        // One that was not begun gets a status that sends it elsewhere.
        assert_eq!(waited.status, 503, "{}", waited.text());
        assert_eq!(waited.header("retry-after"), Some("1"));
        assert!(standin.wait_for_peer_closed(0, ms(500)).await.is_some());
        gate.stopped().await;
        assert_eq!(gate.ended(2).await.len(), 2);
    }
}

#[tokio::test]
async fn a_call_is_ended_through_the_admin_interface() {
    for wire in Wire::ALL {
        let script = "status 200 sse; text \"a\"; hold";
        let (standin, gate) = gate(wire, script, "", &[]).await;
        let mut talk = gate.begin(&Ask::stream(wire)).await;
        talk.until("a").await;
        let calls = gate.admin("calls").await;
        let call = &calls["calls"][0];
        assert_eq!(call["doing"], "attempting");
        assert_eq!(call["upstream"], "up");
        assert_eq!(call["model"], "m");
        assert!(call["clocks_ms"]["raw"].is_u64(), "{call}");
        let id = call["id"].as_str().unwrap();

        let cancel = Ask::post(&format!("/lifesign/calls/{id}/cancel"), "{}");
        assert_eq!(gate.ask(&cancel).await.status, 200);

        let got = talk.rest().await;
        let frame = got.error_frame(wire);
        assert_eq!(frame["lifesign"]["code"], "cancelled", "{frame}");
        assert!(standin.wait_for_peer_closed(0, ms(500)).await.is_some());
        assert_eq!(gate.ask(&cancel).await.status, 404);
    }
}

/// Every call ends in one record, at whatever stage its caller leaves.
#[tokio::test]
async fn a_caller_may_leave_at_any_stage() {
    let stages = [
        // Before the head, before content, in the middle, while waiting to repeat, while held.
        "hold",
        "status 200 sse; role; hold",
        "status 200 sse; text \"a\"; hold",
        "status 500 json; error server_error; eof",
        "status 429 json [retry-after-ms: 5000]; error rate_limit_error; eof",
    ];
    for script in stages {
        let (standin, gate) = gate(
            Wire::OPENAI_CHAT,
            script,
            "",
            &["retry.transport.first_delay=5s"],
        )
        .await;
        let talk = gate.begin(&Ask::stream(Wire::OPENAI_CHAT)).await;
        assert!(standin.wait_for_requests(1, ms(2_000)).await);
        sleep(ms(50)).await;

        drop(talk);

        let ended = gate.only_end().await;
        assert_eq!(ended.failure.unwrap().code.name(), "cancelled", "{script}");
        assert_eq!(ended.attempts.len(), 1, "{script}");
        assert_eq!(gate.admin("calls").await["calls"], serde_json::json!([]));
        let upstreams = gate.admin("upstreams").await;
        assert_eq!(upstreams["upstreams"][0]["in_flight"], 0);
        assert_eq!(standin.requests().len(), 1);
    }
}

/// An answer that is whole stays so, however late its reader takes the last of it.
#[tokio::test]
async fn a_whole_answer_is_not_ended_by_a_drain_that_finds_its_reader_slow() {
    // The last event of this wire is as long as the answer.
    let script = "status 200 sse; text \"yyyyyyyyyy\"*300000; finish \"stop\"; done; eof";
    let (standin, mut gate) = gate(Wire::OPENAI_RESPONSES, script, "", &[]).await;
    let mut talk = Talk::begin_slow(gate.address, &Ask::stream(Wire::OPENAI_RESPONSES)).await;
    let direct = Talk::begin(standin.address(), &Ask::stream(Wire::OPENAI_RESPONSES)).await;
    let whole = direct.rest().await.body.len();
    // Into the last event, which is handed over as a whole.
    let mut taken = 0;
    while taken < whole - 2_500_000 {
        taken += talk.piece().await.unwrap().len();
    }
    sleep(ms(100)).await;

    gate.stopper.drain(ms(50));
    sleep(ms(200)).await;

    let got = talk.rest().await;
    assert!(got.is_whole);
    assert_eq!(got.answer().len(), 3_000_000);
    assert!(!got.text().contains("event: error"));
    gate.stopped().await;
    assert!(gate.only_end().await.failure.is_none());
}

#[tokio::test]
async fn a_list_of_models_that_outlasts_a_drain_is_left_out() {
    let (quick, slow) = (Raw::start().await, Raw::start().await);
    let mut gate = Setup::new(&format!(
        "{}{}",
        upstream("slow", Wire::OPENAI_CHAT, &slow.url(), ""),
        upstream("quick", Wire::OPENAI_CHAT, &quick.url(), ""),
    ))
    .start()
    .await;
    let list = r#"{"data":[{"id":"q"}]}"#;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    let len = list.len();
    let response = format!("{head}content-length: {len}\r\n\r\n{list}");
    quick.next(vec![(ms(0), response.into())]);
    let begun = format!("{head}content-length: {len}\r\n\r\n");
    slow.next(vec![(ms(0), begun.into()), (ms(8_000), list.into())]);
    let asking = gate.begin(&Ask::get("/v1/models")).await;
    wait_until(|| slow.requests().len() + quick.requests().len() == 2).await;

    gate.stopper.drain(ms(200));

    let got = asking.rest().await;
    assert_eq!(
        (got.status, got.text().as_str()),
        (200, r#"{"object":"list","data":[{"id":"q"}]}"#)
    );
    gate.stopped().await;
    let ended = gate.ended(2).await;
    let failed = ended.iter().find_map(|ended| ended.failure.as_ref());
    assert!(failed.unwrap().message.contains("stopping"), "{failed:?}");
}

/// Readers of chat take a finish reason for an end, whatever it says.
#[tokio::test]
async fn a_finish_that_is_a_failure_gets_an_error_frame() {
    let script = "status 200 sse; text \"a\"; finish \"error\"; done; eof";
    let (_standin, gate) = gate(Wire::OPENAI_CHAT, script, "", &[]).await;

    let got = gate.ask(&Ask::stream(Wire::OPENAI_CHAT)).await;

    assert_eq!(got.answer(), "a");
    let data = got.data();
    assert_eq!(data.last().unwrap(), "[DONE]");
    let error: serde_json::Value = serde_json::from_str(&data[data.len() - 2]).unwrap();
    assert_eq!(error["lifesign"]["code"], "provider_error");
}

#[tokio::test]
async fn an_error_of_ours_counts_on_from_what_was_passed_whoever_ended_the_call() {
    let script = "status 200 sse; text \"a\"; hold";
    let (_standin, gate) = gate(Wire::OPENAI_RESPONSES, script, "", &[]).await;
    let mut talk = gate.begin(&Ask::stream(Wire::OPENAI_RESPONSES)).await;
    talk.until("\"a\"").await;
    let call = gate.admin("calls").await["calls"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();

    let cancel = Ask::post(&format!("/lifesign/calls/{call}/cancel"), "{}");
    assert_eq!(gate.ask(&cancel).await.status, 200);

    let got = talk.rest().await;
    let numbers: Vec<_> = got
        .events()
        .iter()
        .filter_map(|event| event["sequence_number"].as_u64())
        .collect();
    assert!(numbers.len() > 2, "{numbers:?}");
    assert!(numbers.is_sorted_by(|a, b| a + 1 == *b), "{numbers:?}");
}

#[tokio::test]
async fn a_caller_whose_call_an_operator_ends_is_not_told_that_it_left() {
    let (standin, gate) = gate(Wire::OPENAI_CHAT, "hold", "", &[]).await;
    let talk = gate.begin(&Ask::stream(Wire::OPENAI_CHAT)).await;
    assert!(standin.wait_for_requests(1, ms(2_000)).await);
    let call = gate.admin("calls").await["calls"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();

    let cancel = Ask::post(&format!("/lifesign/calls/{call}/cancel"), "{}");
    assert_eq!(gate.ask(&cancel).await.status, 200);

    assert_eq!(talk.rest().await.status, 503);
}
