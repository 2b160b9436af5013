//! The program as a person, a script or a pipe meets it.

// What the tests share may panic as they do.
#[cfg(test)]
mod cancel;
#[cfg(test)]
mod demo;
#[cfg(test)]
mod exit_codes;
#[cfg(test)]
mod explain;
#[cfg(test)]
mod gateway_config;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod help;
#[cfg(test)]
mod journaled;
#[cfg(test)]
mod json;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod llama;
#[cfg(test)]
mod plain;
#[cfg(test)]
mod prompt;
#[cfg(test)]
mod record;
#[cfg(test)]
mod refused;
#[cfg(test)]
mod run;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod screen;
// It looks into `/proc`.
#[cfg(target_os = "linux")]
#[cfg(test)]
mod serve;
#[cfg(test)]
mod standin;
#[cfg(test)]
mod terminal;
