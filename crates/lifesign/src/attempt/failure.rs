//! What ended an attempt, in the words of the closed set of failures.

use lifesign_core::{Failure, FailureCode, Phase};
use lifesign_wire::{Incomplete, ProviderError, ReadError};

use super::end::Cause;
use crate::transport::{ConnectError, EncodingError, TransportError, TransportErrorKind};

/// Returns the failure that `cause` is to an attempt that stood in `phase`.
pub fn failure_of(cause: &Cause, phase: Phase) -> Failure {
    match cause {
        Cause::Cancelled => Failure::new(FailureCode::Cancelled, phase),
        Cause::Connect(error) => of_connect(error),
        Cause::Cut(cut) => Failure::of_cut(cut),
        Cause::Encoding(error) => of_encoding(error, phase),
        Cause::Incomplete(Incomplete::Empty) => Failure::new(FailureCode::Empty, phase),
        Cause::Incomplete(Incomplete::Truncated) => Failure::new(FailureCode::Truncated, phase),
        Cause::Provider(error) => of_provider(error, phase),
        Cause::Read(error) => of_read(error, phase),
        Cause::Transport(error) => of_transport(error, phase),
    }
}

fn of_connect(error: &ConnectError) -> Failure {
    let mut failure = Failure::new(FailureCode::Connect, Phase::Connecting);
    failure.stage = Some(error.stage);
    failure.detail = Some(with_cause(error.to_string(), error.detail()));
    failure.advice = error.hint().map(str::to_owned);
    failure.futile = error.is_futile();
    failure
}

fn of_encoding(error: &EncodingError, phase: Phase) -> Failure {
    let code = match error {
        EncodingError::Truncated { .. } => FailureCode::Truncated,
        _ => FailureCode::Unreadable,
    };
    let mut failure = Failure::new(code, phase);
    failure.detail = Some(error.to_string());
    failure
}

fn of_provider(error: &ProviderError, phase: Phase) -> Failure {
    let mut failure = Failure::new(error.code, phase);
    failure.provider_message = Some(error.message.clone());
    failure.stated_status = error.status;
    failure
}

fn of_read(error: &ReadError, phase: Phase) -> Failure {
    let code = match error {
        ReadError::TooLarge(_) => FailureCode::TooLarge,
        ReadError::Unreadable { .. } => FailureCode::Unreadable,
    };
    let mut failure = Failure::new(code, phase);
    failure.detail = Some(error.to_string());
    if let ReadError::TooLarge(cap) = error {
        failure.named_setting = Some(format!("limits.{}", cap.what));
    }
    failure
}

fn of_transport(error: &TransportError, phase: Phase) -> Failure {
    let code = match error.kind {
        // Before the headers it is no HTTP server that answers; after them the stream was torn.
        TransportErrorKind::Unreadable if phase < Phase::BeforeContent => FailureCode::Unreadable,
        TransportErrorKind::NotHttp2 { .. } => FailureCode::Unreadable,
        TransportErrorKind::Unsendable => FailureCode::RefusedSetting,
        _ => FailureCode::ConnectionLost,
    };
    let cause = match error.kind {
        // What lies below says the same in the words of a parser, and blames lengths.
        TransportErrorKind::Closed | TransportErrorKind::ClosedInBody => None,
        _ => error.detail(),
    };
    let mut failure = Failure::new(code, phase);
    failure.detail = Some(with_cause(error.to_string(), cause));
    failure.advice = error.hint().map(str::to_owned);
    failure
}

/// Appends the deepest cause, unless the text says it already.
fn with_cause(text: String, cause: Option<String>) -> String {
    match cause {
        Some(cause) if !text.contains(&cause) => format!("{text} ({cause})"),
        _ => text,
    }
}
