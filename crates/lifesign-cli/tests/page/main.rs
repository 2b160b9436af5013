//! The gateway's page in a real browser, before real processes of this program.
//!
//! What it has to do is written where the browser is driven, in `tools/page/checks.mjs`; each test runs
//! one check of it.
//!
//! `cargo xtask test` sets the browser up, and so does `eval "$(cargo xtask page)"`. Without it these
//! tests are skipped, or fail where `LIFESIGN_REQUIRE_BROWSER` is set.

#[cfg(test)]
mod check;

#[cfg(test)]
use check::run;

#[test]
fn calls_appear_and_their_clocks_move() {
    run("calls_appear_and_their_clocks_move");
}

#[test]
fn a_cut_call_shows_the_bound_and_whose_setting_it_is() {
    run("a_cut_call_shows_the_bound_and_whose_setting_it_is");
}

#[test]
fn a_call_is_cancelled_with_the_mouse() {
    run("a_call_is_cancelled_with_the_mouse");
}

#[test]
fn the_keyboard_alone_is_enough() {
    run("the_keyboard_alone_is_enough");
}

#[test]
fn axe_finds_nothing_serious() {
    run("axe_finds_nothing_serious");
}

#[test]
fn where_streams_are_blocked_it_asks_again_and_again() {
    run("where_streams_are_blocked_it_asks_again_and_again");
}

#[test]
fn what_happens_to_the_gateway_is_said() {
    run("what_happens_to_the_gateway_is_said");
}

#[test]
fn an_admin_key_opens_it() {
    run("an_admin_key_opens_it");
}

#[test]
fn what_callers_name_is_text() {
    run("what_callers_name_is_text");
}

#[test]
fn without_its_script_it_is_a_page_to_read() {
    run("without_its_script_it_is_a_page_to_read");
}
