//! Scripts as text.

use lifesign_standin::Script;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

fn printed(text: &str) -> String {
    text.parse::<Script>()
        .unwrap_or_else(|error| panic!("{text:?}: {error}"))
        .to_string()
}

fn refusal(text: &str) -> String {
    Script::parse(text).unwrap_err().to_string()
}

#[test]
fn a_script_prints_in_one_form_however_it_was_written() {
    for (written, expected) in [
        ("status 200 sse;hold", "status 200 sse; hold\n"),
        (
            "status 200 [A: b; c] sse # x\n\n+1.50 eof",
            "status 200 sse [a: b; c]; +1.5 eof\n",
        ),
        ("repeat 15 { ping } forever", "repeat 15 { ping } forever\n"),
        (
            "repeat 250ms { ping; +2m comment } \u{d7}3",
            "repeat 0.25 { ping; +120 comment } x3\n",
        ),
        ("repeat 1 { ping } xforever", "repeat 1 { ping } forever\n"),
        (
            "attempt 1\u{2013}2: cut / attempt 3: rst",
            "attempt 1-2: cut\nattempt 3: rst\n",
        ),
        (
            "attempt 1:\n  eof\nattempt 2+:\n  rst",
            "attempt 1: eof\nattempt 2-4294967295: rst\n",
        ),
        ("text \"\\x41\\u00e9\\n\\\"\"", "text \"A\u{e9}\\n\\\"\"\n"),
        (
            "bytes \"\\xE9\\0\\/\"*2",
            "bytes \"\\xE9\\x00/\\xE9\\x00/\"\n",
        ),
        (
            "tool {\"a\": 1} {\"b\":\n2}; finish stop",
            "tool {\"a\": 1} {\"b\": 2}; finish \"stop\"\n",
        ),
        (
            "m.block 0 tool_use t ls",
            "m.block 0 \"tool_use\" \"t\" \"ls\"\n",
        ),
        (
            "drip .5 { text a; comment }",
            "drip 0.5 { text \"a\"; comment }\n",
        ),
        ("h2.reset CANCEL; h2.goaway", "h2.reset 8; h2.goaway\n"),
        (
            "garbage; length none; eol cr; br",
            "garbage 256; length none; eol cr; br\n",
        ),
        (
            "unread; glue { bytes \"a\"; garbage 1 }",
            "unread; glue { bytes \"a\"; garbage 1 }\n",
        ),
    ] {
        assert_eq!(printed(written), expected);
    }
}

#[test]
fn scripts_of_all_kinds_of_faults_can_be_said() {
    for text in [
        "status 200 sse; m.start; +1 m.block 0 thinking; repeat 30 { ping } \u{d7}8; \
         m.think 0 \"\u{2026}\"; m.sig 0 \"s\"; m.blockend 0; m.block 1 text; m.text 1 \"42\"; \
         m.blockend 1; m.delta end_turn; m.stop; eof",
        "status 200 json; bytes \"{\\\"error\\\":{\\\"code\\\":400}}\"; eof",
        "status 200 [content-type: application/json; charset=utf-8]; bytes \"{}\"; eof",
        "attempt 1: status 429 [retry-after: <date+4>] json; bytes \"{}\"; eof / attempt 2: \
         answer \"ok\"",
        "attempt 1\u{2013}2: status 529 json; bytes \"{}\"; eof\nattempt 3: answer \"ok\"",
        "bytes \"data: {\\\"content\\\":\\\"\\xE9\"; bytes \"\\x82\\xA3\\\"}\\n\\n\"; done; eof",
        "status 200 sse; tool {\"id\":\"c\",\"function\":{\"arguments\":\"{\\\"x\\\":2}\"}}; \
         finish \"tool_calls\"; usage {\"prompt_tokens\":12}; done; hold",
        "status 200 sse; repeat 0.2 { text \"x\" } x500; finish \"stop\"; done; eof",
        "status 200 sse; repeat 1 { bytes \": UPSTREAM PROCESSING\\n\\n\" } \u{d7}3; answer \"ok\"",
        "+2 status 429 [retry-after: 7] json; bytes \"{\u{2026}}\"; eof",
        "r.created; r.inprogress; r.item c ls; r.args c \"{}\"; r.failed server_error; cut",
    ] {
        let script: Script = text
            .parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(script.to_string().parse::<Script>().unwrap(), script);
    }
}

#[test]
fn a_refusal_names_the_place_the_word_and_what_is_accepted() {
    for (text, expected) in [
        (
            "status 200 sse\n   txet \"a\"",
            "line 2, column 4: unknown word `txet`; did you mean `text`?",
        ),
        ("flurb", "line 1, column 1: unknown word `flurb`"),
        ("", "line 1, column 1: a script needs at least one step"),
        (
            "attempt 1:",
            "line 1, column 11: a script needs at least one step",
        ),
        (
            "attempt 2-1: eof",
            "line 1, column 9: the range of attempts is `2-1`; accepted: N or N-M with 1 <= N <= M",
        ),
        (
            "atempt 3: eof",
            "line 1, column 1: unknown word `atempt`; did you mean `attempt`?",
        ),
        (
            "repeat 1 { ping } 4",
            "line 1, column 19: expected `xN` or `forever`, found `4`",
        ),
        (
            "attempt x: eof",
            "line 1, column 9: expected an attempt, counted from 1, found `x:`",
        ),
        (
            "status 20",
            "line 1, column 8: the status is `20`; accepted: 100 to 999",
        ),
        (
            "status 200 xml",
            "line 1, column 12: expected `sse`, `json`, `text` or `[name: value]`, found `xml`",
        ),
        (
            "status 200 [a: b",
            "line 1, column 12: the header is never closed",
        ),
        (
            "status 200 [a b: c]",
            "line 1, column 12: the header is `a b: c`; accepted: name: value, printable ASCII",
        ),
        ("text \"a", "line 1, column 6: the string is never closed"),
        (
            "text \"\\q\"",
            "line 1, column 7: unknown escape `\\q`; strings know \\n \\r \\t \\0 \\\" \\\\ \\/ \\xHH \
             \\uHHHH",
        ),
        (
            "text \"\\xE9\"",
            "line 1, column 6: the text is `\"\\xE9\"`; accepted: UTF-8 (`bytes` takes any bytes)",
        ),
        ("text", "line 1, column 5: expected a text, found the end"),
        (
            "usage 5",
            "line 1, column 7: expected a JSON object, found `5`",
        ),
        (
            "m.text x \"a\"",
            "line 1, column 8: expected a whole number, found `x`",
        ),
        (
            "eof eof",
            "line 1, column 5: expected `;` or a new line behind the step, found `eof`",
        ),
        (
            "repeat 0 { ping } forever",
            "line 1, column 8: the time of an endless `repeat` is `0`; accepted: more than 0",
        ),
        (
            "repeat 1 { ping",
            "line 1, column 10: the block is never closed",
        ),
        (
            "repeat 1 { ping }",
            "line 1, column 18: expected `xN` or `forever`, found the end",
        ),
        (
            "+1y eof",
            "line 1, column 2: the time is `1y`; accepted: seconds as in `1.5`, or a number with \
             ms, s, m or h, up to 100 years",
        ),
        (
            "drip 1 { hold }",
            "line 1, column 8: `hold` cannot stand in `drip`",
        ),
        (
            "glue { +1 ping }",
            "line 1, column 6: `+T` cannot stand in `glue`",
        ),
        (
            "eof; unread",
            "line 1, column 6: `unread` cannot stand behind another step",
        ),
        (
            "eol lfcr",
            "line 1, column 5: expected `crlf`, `cr` or `lf`, found `lfcr`",
        ),
        ("}", "line 1, column 1: expected a word, found `}`"),
        (
            "attempt 1: cut\nattempt 1: eof",
            "line 2, column 9: the range of attempts is `1`; accepted: attempts that no section \
             before has",
        ),
        (
            "attempt 1-2: cut\nattempt 3+: rst\nattempt 2-9: eof",
            "line 3, column 9: the range of attempts is `2-9`; accepted: attempts that no section \
             before has",
        ),
        (
            "eof\nattempt 2: eof",
            "line 2, column 9: the range of attempts is `2`; accepted: attempts that no section \
             before has",
        ),
        (
            "status 200 sse\neof\n+1 text \"a\"",
            "line 3, column 1: `text` cannot stand behind `eof`, which ends the response",
        ),
        (
            "attempt 1: cut\nattempt 2: rst; hold",
            "line 2, column 17: `hold` cannot stand behind `rst`, which ends the response",
        ),
        (
            "repeat 1 {\n ping; cut\n ping\n} x2",
            "line 3, column 2: `ping` cannot stand behind `cut`, which ends the response",
        ),
    ] {
        assert_eq!(refusal(text), expected, "{text}");
    }
}

#[test]
fn sections_may_overlap_where_each_has_an_attempt_of_its_own() {
    let script: Script = "attempt 2: cut\nattempt 1-3: eof\nattempt 3+: rst"
        .parse()
        .unwrap();
    let first = |attempt| *script.section_for(attempt).unwrap().attempts().start();

    assert_eq!([1, 2, 3, 4].map(first), [1, 2, 1, 3]);
}

#[test]
fn a_request_between_sections_gets_the_one_before() {
    let script: Script = "attempt 2: cut\nattempt 5: rst".parse().unwrap();
    let first = |attempt| *script.section_for(attempt).unwrap().attempts().start();

    assert_eq!([1, 2, 3, 5, 9].map(first), [2, 2, 2, 5, 5]);
}

fn word() -> impl Strategy<Value = String> {
    let text =
        "[ -~\u{e9}\n]{0,8}".prop_map(|text| format!("{text:?}").replace("\\u{e9}", "\u{e9}"));
    let time = (0..5000_u32).prop_map(|ms| format!("{ms}ms"));
    let plain = prop::sample::select(vec![
        "role",
        "done",
        "ping",
        "comment",
        "m.start 3",
        "m.block 1 text",
        "r.created",
        "usage {\"a\":[1,null]}",
        "tool {\"index\":0} {}",
        "garbage 5",
        "bytes \"\\xFF\\\\\"",
    ]);
    let writing = prop_oneof![
        plain.prop_map(str::to_owned),
        text.clone().prop_map(|text| format!("text {text}")),
    ];
    let other = prop::sample::select(vec![
        "status 429 json [a: b]",
        "hold",
        "h2.reset 7",
        "length 5",
        "gzip",
        "eol crlf",
        "answer \"x\"",
    ]);
    let leaf = prop_oneof![writing.clone(), other.prop_map(str::to_owned)];
    let step = (prop::option::of(time.clone()), leaf)
        .prop_map(|(wait, leaf)| wait.map(|wait| format!("+{wait} ")).unwrap_or_default() + &leaf);
    prop_oneof![
        4 => step.clone(),
        1 => (time.clone(), writing).prop_map(|(every, what)| format!("drip {every} {{ {what} }}")),
        1 => (time, prop::collection::vec(step, 1..3), 0..9_u8)
            .prop_map(|(every, steps, times)| {
                format!("repeat {every} {{ {} }} x{times}", steps.join("; "))
            }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn any_text_is_a_script_or_an_error_in_its_lines(text in ".{0,60}") {
        if let Err(error) = Script::parse(&text) {
            prop_assert!(error.line <= text.matches('\n').count() + 1);
        }
    }

    #[test]
    fn words_in_any_order_never_panic(
        words in prop::collection::vec(prop::sample::select(vec![
            "attempt", "1", "-", ":", "status", "200", "[", "]", "{", "}", "\"", "\\", "x", "*9",
            "+", "repeat", "drip", "text", "tool", ";", "\n", "#", "forever", "eof", "\u{e9}",
        ]), 0..20)
    ) {
        let glued = Script::parse(&words.concat());
        let apart = Script::parse(&words.join(" "));
        prop_assert!(glued.is_ok() || glued.is_err_and(|error| error.column > 0));
        prop_assert!(apart.is_ok() || apart.is_err_and(|error| error.line > 0));
    }

    #[test]
    fn what_is_printed_reads_the_same(
        words in prop::collection::vec(word(), 1..6),
        end in prop::sample::select(vec!["eof", "cut", "rst", "hold"]),
    ) {
        let script: Script = format!("{}\n{end}", words.join("\n")).parse().unwrap();

        prop_assert_eq!(Script::parse(&script.to_string()).unwrap(), script);
    }
}
