//! A turn told to a person: the answer on standard output, and nothing else there.

use crate::harness::{Program, Provider};
use crate::run::Place;

#[test]
fn the_answer_is_all_that_stands_on_standard_output() {
    let provider = Provider::script("answer \"The tide turns at six.\"");

    let ran = Program::turn(&provider.url())
        .args(&[
            "--prompt",
            "When?",
            "--system",
            "Be brief.",
            "--max-tokens",
            "50",
        ])
        .run();

    ran.assert_code(0).assert_told("The tide turns at six.\n");
    let sent = provider.request().json();
    assert_eq!(sent["messages"][0]["content"], "Be brief.");
    assert_eq!(sent["messages"][1]["content"], "When?");
    assert_eq!(sent["model"], "m");
}

#[test]
fn the_task_comes_from_a_flag_a_file_or_standard_input() {
    let provider = Provider::script("answer \"ok\"");
    let place = Place::new();
    let task = place.write("task.md", "from a file");
    let system = place.write("system.md", "from another");
    let turn = || Program::turn(&provider.url());

    turn()
        .args(&["--prompt", "from a flag"])
        .run()
        .assert_code(0);
    turn()
        .args(&["--task".as_ref(), task.as_os_str()])
        .args(&["--system-file".as_ref(), system.as_os_str()])
        .run()
        .assert_code(0);
    turn()
        .args(&["--task", "-"])
        .input(b"from a dash")
        .run()
        .assert_code(0);
    turn().input(b"from a pipe").run().assert_code(0);

    let said: Vec<_> = provider
        .requests()
        .iter()
        .map(|request| {
            let sent = request.json();
            let messages = sent["messages"].as_array().unwrap();
            let texts = messages.iter().map(|it| it["content"].as_str().unwrap());
            texts.collect::<Vec<_>>().join(" | ")
        })
        .collect();
    assert_eq!(
        said,
        [
            "from a flag",
            "from another | from a file",
            "from a dash",
            "from a pipe"
        ]
    );
}

#[test]
fn an_answer_that_breaks_off_is_gone_on_with_and_written_once() {
    let provider = Provider::script(
        "attempt 1: status 200 sse; text \"The tide \"; rst\nattempt 2: answer \"turns.\"",
    );

    let ran = Program::turn(&provider.url())
        .args(&["--prompt", "When?"])
        .run();

    ran.assert_code(0)
        .assert_said("the answer broke off after 9 bytes of text");
    assert_eq!(ran.stdout, "The tide turns.\n");
    assert!(!provider.requests()[1].json().to_string().contains("reset"));
}

#[test]
fn a_failure_is_told_in_a_sentence_with_what_was_seen() {
    let provider = Provider::script("status 500 json; error server_error \"Out of cheese\"; eof");

    let ran = Program::turn(&provider.url())
        .args(&["--prompt", "When?"])
        .run();

    ran.assert_code(4)
        .assert_said("provider_failed: The model's server had a fault of its own")
        .assert_said("what was seen: ");
    assert_eq!(ran.stdout, "");
    assert_eq!(provider.requests().len(), 3);
}

#[test]
fn a_turn_ends_when_nobody_reads_on() {
    let provider =
        Provider::script("status 200 sse; role; repeat 0.02 { text \"and so on \" } forever");

    let ran = Program::turn(&provider.url())
        .args(&["--prompt", "Go on."])
        .start_without_reader()
        .wait();

    ran.assert_code(130).assert_said(
        "cancelled: The answer was given up because nobody was taking it any more; what had come is \
         kept.\n",
    );
    provider.assert_left();
}

#[cfg(unix)]
#[test]
fn a_result_that_standard_output_cannot_take_exits_1() {
    let provider = Provider::script("answer \"ok\"");
    for json in [&["--json"][..], &[]] {
        let turn = Program::turn(&provider.url())
            .args(&["--prompt", "go"])
            .args(json);
        let Some(ran) = turn.run_on_a_full_disk() else {
            println!("skipped: there is no /dev/full");
            return;
        };

        assert_eq!(
            (ran.code, ran.stderr.lines().last().unwrap_or_default()),
            (
                1,
                "error: standard output cannot be written: No space left on device (os error 28)"
            )
        );
    }
}

#[test]
fn an_upstream_of_the_file_is_asked_with_its_key_and_settings() {
    let provider = Provider::script("attempt 1-2: hold\nattempt 3: answer \"ok\"");
    let place = Place::new();
    let config = place.write(
        "lifesign.toml",
        &format!(
            "[[upstream]]\nname = \"house\"\nwire = \"anthropic\"\nbase_url = {:?}\n\
             api_key = {{ env = \"HOUSE_KEY\" }}\nbounds = {{ raw_silence = \"150ms\" }}\n\
             retry = {{ attempts = 3 }}\n",
            provider.url()
        ),
    );

    let ran = Program::new(&["run", "--upstream", "house", "--prompt", "go", "--config"])
        .args(&[&config])
        .env("HOUSE_KEY", "s3cret")
        .run();

    ran.assert_code(0);
    assert_eq!(ran.stdout, "ok\n");
    let asked = &provider.requests()[2];
    assert!(format!("{asked:?}").contains("s3cret"));
    assert!(!ran.stderr.contains("s3cret"), "{ran:?}");
}

#[test]
fn every_wire_has_turns() {
    for wire in ["openai-chat", "openai-responses", "anthropic"] {
        let provider = Provider::script("answer \"ok\"");

        let ran = Program::turn_over(&provider.url(), wire)
            .args(&["--prompt", "go"])
            .run();

        ran.assert_code(0).assert_told("ok\n");
    }
}
