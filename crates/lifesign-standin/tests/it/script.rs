//! Scripts as text.

use lifesign_standin::Script;
use pretty_assertions::assert_eq;

fn refusal(text: &str) -> String {
    Script::parse(text).unwrap_err().to_string()
}

#[test]
fn a_wrong_word_is_named_with_its_place_and_what_was_meant() {
    let expected = "line 2, column 4: unknown word `txet`; did you mean `text`?";

    assert_eq!(refusal("status 200 sse\n   txet \"a\""), expected);
    assert_eq!(refusal("flurb"), "line 1, column 1: unknown word `flurb`");
}
