//! Playing a section of a script to one peer.

use std::{future::Future, time::Duration};

use tokio::time::Instant;

use super::{Shared, coding::Encoder};
use crate::{
    clock,
    dialect::{Asked, Dialect, Writer},
    log::{End, Ticket},
    script::{Action, Kind, Length, Saying, Schedule, Section, Status, Word},
};

/// The peer has left, or its connection is of no more use.
#[derive(Debug)]
pub(crate) struct Gone;

/// One response to be, over HTTP/1.1 or HTTP/2.
pub(crate) trait Peer: Send {
    /// Sends an interim head (below 200) or the final one.
    fn head(&mut self, head: Head) -> impl Future<Output = Result<(), Gone>> + Send;

    /// Sends a piece of the body in one write.
    fn write(&mut self, bytes: &[u8]) -> impl Future<Output = Result<(), Gone>> + Send;

    /// Sends bytes past all framing.
    fn raw(&mut self, bytes: &[u8]) -> impl Future<Output = Result<(), Gone>> + Send;

    /// Ends the body properly.
    fn finish(&mut self) -> impl Future<Output = Result<(), Gone>> + Send;

    /// Says that the connection will not be used again; with a code, at once.
    fn go_away(&mut self, code: Option<u32>) -> impl Future<Output = Result<(), Gone>> + Send;

    /// Closes the connection with the body unfinished.
    fn cut(&mut self) -> impl Future<Output = ()> + Send;

    /// Resets the stream, or the connection where there is no other stream on it.
    fn reset(&mut self, code: u32) -> impl Future<Output = ()> + Send;

    /// Waits until `until`, or without end, unless the peer leaves before.
    fn idle(&mut self, until: Option<Instant>) -> impl Future<Output = Result<(), Gone>> + Send;
}

/// A response head as the script wants it.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    /// What tells the end of the body, where the script says so.
    pub(crate) length: Option<Length>,
}

/// Plays `section` and enters what happened into `ticket`.
///
/// Returns how the response ended; what becomes of the connection is the peer's to know.
pub(crate) async fn play<P: Peer>(
    shared: &Shared,
    section: &Section,
    asked: &Asked,
    place: Place,
    peer: &mut P,
    ticket: &mut Ticket,
) -> End {
    let mut player = Player {
        shared,
        writer: Writer::new(place.dialect, &asked.model, place.serial),
        is_whole: place.is_request && !asked.stream && section.can_be_whole(),
        encoder: None,
        length: None,
        head: None,
        has_head: false,
        peer,
        ticket,
    };
    let end = match player.run(section).await {
        Ok(end) => end,
        Err(Gone) => End::PeerLeft,
    };
    ticket.ended(end);
    end
}

/// Where a response stands among the others of the stand-in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) dialect: Dialect,
    pub(crate) serial: u64,
    /// Whether the body was a request that could have asked for a stream.
    pub(crate) is_request: bool,
}

struct Player<'a, P> {
    shared: &'a Shared,
    writer: Writer,
    /// Whether the words become one JSON body instead of frames.
    is_whole: bool,
    encoder: Option<Encoder>,
    length: Option<Length>,
    /// The head of a whole body, kept until the body is there, as a provider does.
    head: Option<Status>,
    has_head: bool,
    peer: &'a mut P,
    ticket: &'a mut Ticket,
}

impl<P: Peer> Player<'_, P> {
    async fn run(&mut self, section: &Section) -> Result<End, Gone> {
        let clock = self.shared.clock;
        // Waits follow each other, not the timer's lateness, so that long scripts do not drift.
        let mut due = clock.elapsed();
        for (wait, action) in Schedule::new(&section.steps) {
            if wait.is_zero() {
                tokio::task::consume_budget().await;
            } else {
                due = due.saturating_add(self.shared.scaled(wait));
                self.peer.idle(clock.at(due)).await?;
            }
            if let Some(end) = self.act(action, &mut due).await? {
                return Ok(end);
            }
            // What took long (a peer that reads slowly) is not made up for.
            let now = clock.elapsed();
            if now > due.saturating_add(LATE) {
                due = now;
            }
        }
        self.peer.idle(None).await?;
        Ok(End::Stopped)
    }

    async fn act(&mut self, action: &Action, due: &mut Duration) -> Result<Option<End>, Gone> {
        match action {
            Action::Bytes(_) | Action::Garbage(_) | Action::Glue(_) => {
                let bytes = self.bytes_of(action);
                self.write(&bytes).await?;
            }
            Action::Coding(coding) => self.encoder = Encoder::new(*coding).ok(),
            Action::Cut => {
                self.spill().await?;
                self.ticket.ended(End::Cut);
                self.peer.cut().await;
                return Ok(Some(End::Cut));
            }
            Action::Drip { every, what } => {
                let bytes: Vec<u8> = what
                    .iter()
                    .flat_map(|action| self.bytes_of(action))
                    .collect();
                for byte in bytes {
                    if every.is_zero() {
                        // Lets the byte before leave on its own.
                        self.peer
                            .idle(self.shared.clock.at(self.shared.clock.elapsed()))
                            .await?;
                    } else {
                        *due = due.saturating_add(self.shared.scaled(*every));
                        self.peer.idle(self.shared.clock.at(*due)).await?;
                    }
                    self.write(&[byte]).await?;
                }
            }
            Action::Eof => {
                self.finish().await?;
                return Ok(Some(End::Eof));
            }
            Action::Eol(eol) => self.writer.end_lines_with(*eol),
            Action::GoAway(code) => {
                self.peer.go_away(*code).await?;
                if code.is_some() {
                    return Ok(Some(End::Cut));
                }
            }
            Action::Hold => {
                if let Some(head) = self.head.take() {
                    self.send_head(&head).await?;
                }
                self.peer.idle(None).await?;
            }
            Action::Length(length) => self.length = Some(*length),
            Action::Raw(bytes) => {
                self.has_head = true;
                self.peer.raw(bytes).await?;
                self.ticket.wrote(bytes.len());
            }
            // A schedule unrolls repetitions.
            Action::Repeat { .. } | Action::Unread => {}
            Action::ResetStream(code) => {
                self.spill().await?;
                self.ticket.ended(End::Reset);
                self.peer.reset(*code).await;
                return Ok(Some(End::Reset));
            }
            Action::Rst => {
                self.spill().await?;
                self.ticket.ended(End::Reset);
                self.peer.reset(INTERNAL_ERROR).await;
                return Ok(Some(End::Reset));
            }
            Action::Say(saying) => return self.say(saying).await,
            Action::Status(status) => self.status(status).await?,
        }
        Ok(None)
    }

    async fn say(&mut self, saying: &Saying) -> Result<Option<End>, Gone> {
        let is_answer = saying.word == Word::Answer;
        if self.is_whole {
            if matches!(saying.word, Word::Comment | Word::Ping) {
                self.write(b"\n").await?;
            } else {
                self.writer.hear(saying);
            }
        } else if is_answer {
            for frame in self.writer.answer(saying.text(0)) {
                self.write(&frame).await?;
            }
        } else {
            let frame = self.writer.frames(saying);
            self.write(&frame).await?;
        }
        if is_answer {
            self.finish().await?;
            return Ok(Some(End::Eof));
        }
        Ok(None)
    }

    async fn status(&mut self, status: &Status) -> Result<(), Gone> {
        if self.is_whole && status.kind == Some(Kind::Sse) {
            let status = Status {
                kind: Some(Kind::Json),
                ..status.clone()
            };
            self.head = Some(status);
            return Ok(());
        }
        // Words behind an explicit JSON head become its body, whatever was asked for.
        self.is_whole |= status.kind == Some(Kind::Json);
        self.send_head(status).await
    }

    async fn send_head(&mut self, status: &Status) -> Result<(), Gone> {
        let mut headers = Vec::with_capacity(status.headers.len() + 1);
        let is_typed = status
            .headers
            .iter()
            .any(|(name, _)| name == "content-type");
        if let Some(kind) = status.kind.filter(|_| !is_typed) {
            headers.push(("content-type".to_owned(), kind.content_type().to_owned()));
        }
        for (name, value) in &status.headers {
            headers.push((name.clone(), self.filled(value)));
        }
        let is_final = status.code >= 200;
        let length = if is_final { self.length.take() } else { None };
        self.has_head |= is_final;
        self.peer
            .head(Head {
                status: status.code,
                headers,
                length,
            })
            .await?;
        self.ticket.status(status.code);
        Ok(())
    }

    /// Sends the head that words imply, if none was sent.
    async fn need_head(&mut self) -> Result<(), Gone> {
        if self.has_head {
            return Ok(());
        }
        let kind = if self.is_whole { Kind::Json } else { Kind::Sse };
        let implied = Status {
            code: 200,
            kind: Some(kind),
            headers: Vec::new(),
        };
        let status = self.head.take().unwrap_or(implied);
        self.send_head(&status).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        self.need_head().await?;
        if bytes.is_empty() {
            return Ok(());
        }
        match &mut self.encoder {
            // Writing to memory cannot fail.
            Some(encoder) => {
                let encoded = encoder.encode(bytes).unwrap_or_default();
                self.peer.write(&encoded).await?;
            }
            None => self.peer.write(bytes).await?,
        }
        self.ticket.wrote(bytes.len());
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), Gone> {
        if self.is_whole && self.writer.has_said() {
            let body = self.writer.whole();
            if !self.has_head && self.length.is_none() && self.encoder.is_none() {
                self.length = Some(Length::Bytes(body.len() as u64));
            }
            self.write(body.as_bytes()).await?;
        }
        self.need_head().await?;
        if let Some(encoder) = self.encoder.take() {
            let rest = encoder.finish().unwrap_or_default();
            if !rest.is_empty() {
                self.peer.write(&rest).await?;
            }
        }
        self.peer.finish().await
    }

    /// Sends what a whole body would have got to when its connection was lost.
    async fn spill(&mut self) -> Result<(), Gone> {
        if !self.is_whole {
            return Ok(());
        }
        if let Some(head) = self.head.take() {
            self.send_head(&head).await?;
        }
        if self.writer.has_said() {
            let body = self.writer.whole().into_bytes();
            self.write(body.get(..body.len() / 2).unwrap_or_default())
                .await?;
        }
        Ok(())
    }

    fn bytes_of(&mut self, action: &Action) -> Vec<u8> {
        match action {
            Action::Bytes(bytes) => bytes.clone(),
            Action::Garbage(len) => garbage(*len),
            Action::Glue(what) => what
                .iter()
                .flat_map(|action| self.bytes_of(action))
                .collect(),
            Action::Say(saying) => self.writer.frames(saying),
            _ => Vec::new(),
        }
    }

    /// Puts the times into a header's value.
    fn filled(&self, value: &str) -> String {
        let mut filled = String::new();
        let mut rest = value;
        while let Some((before, behind)) = rest.split_once('<') {
            filled.push_str(before);
            let named = behind.split_once('>');
            let time = named.and_then(|(name, behind)| Some((self.time(name)?, behind)));
            if let Some((time, behind)) = time {
                filled.push_str(&time);
                rest = behind;
            } else {
                filled.push('<');
                rest = behind;
            }
        }
        filled.push_str(rest);
        filled
    }

    fn time(&self, name: &str) -> Option<String> {
        let (kind, seconds) = name.split_once('+').or_else(|| name.split_once('-'))?;
        let seconds: u32 = seconds.parse().ok()?;
        let scaled = self.shared.scaled(Duration::from_secs(u64::from(seconds)));
        match kind {
            "date" => {
                let ahead = i64::from(seconds) * if name.contains('-') { -1 } else { 1 };
                Some(httpdate::fmt_http_date(clock::wall_time_in(ahead)))
            }
            "ms" => Some(scaled.as_millis().to_string()),
            "seconds" => Some(scaled.as_millis().div_ceil(1000).to_string()),
            _ => None,
        }
    }
}

/// Bytes that are neither UTF-8 nor a line: a xorshift sequence with the high bit set.
fn garbage(len: usize) -> Vec<u8> {
    let mut state = 0x2545_F491_u32;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        0x80 | (state & 0x7F) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// How long what was written gets to reach the peer before the connection or stream is torn down.
pub(crate) const SETTLE: Duration = Duration::from_millis(20);
/// How late a step may be before the steps behind it are moved along.
const LATE: Duration = Duration::from_millis(50);
/// RFC 9113, section 7.
const INTERNAL_ERROR: u32 = 2;
