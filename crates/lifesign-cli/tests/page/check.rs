//! A check, run where the browser is driven.

use std::path::PathBuf;
use std::process::Command;

/// Runs the check of this name; says why and returns where there is no browser.
#[track_caller]
pub(crate) fn run(name: &str) {
    let variables = [
        "LIFESIGN_PAGE_NODE",
        "LIFESIGN_PAGE_MODULES",
        "LIFESIGN_CHROMIUM",
    ];
    let [Some(node), Some(modules), Some(chromium)] = variables.map(std::env::var_os) else {
        assert!(
            std::env::var_os("LIFESIGN_REQUIRE_BROWSER").is_none(),
            "one of {variables:?} is not set"
        );
        println!("skipped: no browser; see `cargo xtask page`");
        return;
    };
    let tools = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tools/page");
    let mut check = Command::new(node);
    check
        .arg(tools.join("checks.mjs"))
        .arg(name)
        .env("LIFESIGN_PROGRAM", env!("CARGO_BIN_EXE_lifesign"))
        .env("LIFESIGN_PAGE_MODULES", modules)
        .env("LIFESIGN_CHROMIUM", chromium);

    let ran = check.output().unwrap();

    let told = [ran.stdout, ran.stderr].concat();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&told));
}
