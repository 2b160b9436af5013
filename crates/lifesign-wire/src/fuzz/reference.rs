//! An event stream read the slow way, as the standard words it: the framer is held against it.

use crate::SseFrame;

/// A frame that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A blank line.
    Blank,
    /// A comment.
    Comment(Vec<u8>),
    /// An event.
    Event(Event),
}

/// An event that owns its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The last `event` field.
    pub name: Option<Vec<u8>>,
    /// The `data` fields.
    pub data: Vec<u8>,
    /// The `error` field.
    pub error: Option<Vec<u8>>,
    /// Whether a blank line closed it.
    pub terminated: bool,
}

impl From<SseFrame<'_>> for Frame {
    fn from(frame: SseFrame<'_>) -> Self {
        match frame {
            SseFrame::Blank => Self::Blank,
            SseFrame::Comment(text) => Self::Comment(text.to_vec()),
            SseFrame::Event(event) => Self::Event(Event {
                name: event.name.map(<[u8]>::to_vec),
                data: event.data.to_vec(),
                error: event.error.map(<[u8]>::to_vec),
                terminated: event.terminated,
            }),
        }
    }
}

/// Reads a whole stream.
pub fn frames(stream: &[u8]) -> Vec<Frame> {
    let stream = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    let mut frames = Vec::new();
    let mut fields = Vec::new();
    let mut is_commented = false;
    let (lines, last) = lines(stream);
    for line in lines {
        match line.first() {
            None => {
                match event(&fields, true) {
                    Some(event) => frames.push(Frame::Event(event)),
                    None if is_commented => {}
                    None => frames.push(Frame::Blank),
                }
                fields.clear();
                is_commented = false;
            }
            Some(b':') => {
                frames.push(Frame::Comment(field(&line).1));
                is_commented = true;
            }
            Some(_) => fields.push(field(&line)),
        }
    }
    match last.first() {
        None => {}
        Some(b':') => frames.push(Frame::Comment(field(&last).1)),
        Some(_) => fields.push(field(&last)),
    }
    frames.extend(event(&fields, false).map(Frame::Event));
    frames
}

type Field = (Vec<u8>, Vec<u8>);

fn event(fields: &[Field], terminated: bool) -> Option<Event> {
    let values = |name: &[u8]| -> Vec<Vec<u8>> {
        let same = fields.iter().filter(|field| field.0 == name);
        same.map(|field| field.1.clone()).collect()
    };
    let data = values(b"data");
    let error = values(b"error")
        .into_iter()
        .find(|value| value.first() == Some(&b'{'));
    if data.is_empty() && error.is_none() {
        return None;
    }
    Some(Event {
        name: values(b"event").pop().filter(|name| !name.is_empty()),
        data: data.join(&b'\n'),
        error,
        terminated,
    })
}

fn field(line: &[u8]) -> Field {
    let colon = line
        .iter()
        .position(|byte| *byte == b':')
        .unwrap_or(line.len());
    let value = line.get(colon + 1..).unwrap_or_default();
    let value = value.strip_prefix(b" ").unwrap_or(value);
    (line[..colon].to_vec(), value.to_vec())
}

/// Returns the lines of `stream` and what follows the last line end.
fn lines(stream: &[u8]) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut lines = Vec::new();
    let mut line = Vec::new();
    let mut bytes = stream.iter().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\r' => {
                bytes.next_if(|next| **next == b'\n');
                lines.push(std::mem::take(&mut line));
            }
            b'\n' => lines.push(std::mem::take(&mut line)),
            _ => line.push(*byte),
        }
    }
    (lines, line)
}
