//! What a stream costs from its bytes to its meaning.
//!
//! Recorded streams are used where the corpus is, else a stream of chat deltas made here.

use std::hint::black_box;
use std::path::Path;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use lifesign_core::{Progress, Sign};
use lifesign_wire::{
    Classifier, Event, Expect, FrameLimits, ReadLimits, Reader, Sink, SseEvent, SseFrame,
    SseFramer, State, Wire,
};
use memchr::memchr_iter;

/// Framing against the least that any reader of lines must do: find the line ends, keep what
/// straddles two reads.
fn framing(c: &mut Criterion) {
    let stream = recorded(&["anthropic-messages", "openai-chat", "openai-responses"]);
    let mut group = c.benchmark_group("framing");
    group.throughput(Throughput::Bytes(stream.len() as u64));
    for read in [64, 1400, 16 << 10] {
        group.bench_function(format!("sse/{read}"), |b| {
            b.iter(|| {
                let mut framer = SseFramer::new(FrameLimits::default());
                let mut total = 0;
                for chunk in stream.chunks(read) {
                    let pushed = framer.push(chunk, |frame| total += length(black_box(frame)));
                    assert_eq!(pushed, Ok(()));
                }
                total
            });
        });
        group.bench_function(format!("lines/{read}"), |b| {
            b.iter(|| {
                let mut carry = Vec::new();
                let mut total = 0;
                for chunk in stream.chunks(read) {
                    scan_lines(chunk, &mut carry, |line| total += black_box(line).len());
                }
                total
            });
        });
    }
    group.finish();
}

/// One line of 16 MiB in reads of 64 bytes: linear, or it would take minutes.
fn long_line(c: &mut Criterion) {
    let mut line = b"data: ".to_vec();
    line.resize(16 << 20, b'x');
    let mut group = c.benchmark_group("long_line");
    group.sample_size(10);
    group.throughput(Throughput::Bytes(line.len() as u64));
    group.bench_function("sse/64", |b| {
        b.iter(|| {
            let mut framer = SseFramer::new(FrameLimits::default());
            for chunk in line.chunks(64) {
                assert_eq!(framer.push(chunk, |_| {}), Ok(()));
            }
            framer.pending()
        });
    });
    group.finish();
}

/// One delta of 250 bytes: decoded in full, and judged for its progress alone.
fn delta(c: &mut Criterion) {
    for (name, wire, progress, data) in DELTAS {
        let frame = SseFrame::Event(SseEvent {
            name: None,
            data: data.as_bytes(),
            error: None,
            terminated: true,
        });
        let mut group = c.benchmark_group(format!("delta/{name}"));
        group.throughput(Throughput::Bytes(data.len() as u64));
        group.bench_function("classify", |b| {
            let mut classifier = Classifier::new(wire);
            let sign = classifier.classify(frame);
            assert_eq!(sign.map(|sign| sign.progress), Some(progress));
            b.iter(|| classifier.classify(black_box(frame)));
        });
        // Through the reader: framing, decoding, and putting the answer together. A reader serves
        // for a thousand deltas, or its text would grow without end.
        group.throughput(Throughput::Elements(1000));
        group.bench_function("read/1000", |b| {
            let stream = format!("data: {data}\n\n");
            b.iter_batched_ref(
                || reader(wire),
                |reader| {
                    for _ in 0..1000 {
                        assert_eq!(
                            reader.read(black_box(stream.as_bytes()), &mut Count(0)),
                            Ok(())
                        );
                    }
                },
                BatchSize::LargeInput,
            );
        });
        group.finish();
    }
}

/// Every frame of the recorded streams of a wire, for its progress alone.
fn classifying(c: &mut Criterion) {
    for (wire, folder) in FOLDERS {
        let stream = recorded(&[folder]);
        let mut group = c.benchmark_group(format!("classifying/{wire}"));
        group.throughput(Throughput::Bytes(stream.len() as u64));
        group.bench_function("16384", |b| {
            b.iter(|| {
                let mut classifier = Classifier::new(wire);
                let mut framer = SseFramer::new(FrameLimits::default());
                let mut signs = 0;
                for chunk in stream.chunks(16 << 10) {
                    let pushed = framer.push(chunk, |frame| {
                        signs += usize::from(classifier.classify(frame).is_some());
                    });
                    assert_eq!(pushed, Ok(()));
                }
                signs
            });
        });
        group.finish();
    }
}

/// A whole answer of a thousand deltas, from its bytes to its assembled text.
fn answer(c: &mut Criterion) {
    let mut stream = made_up(1000);
    stream.push_str("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n");
    stream.push_str("data: [DONE]\n\n");
    let mut group = c.benchmark_group("answer");
    group.throughput(Throughput::Bytes(stream.len() as u64));
    group.bench_function("openai-chat/1400", |b| {
        b.iter(|| {
            let mut reader = reader(Wire::OPENAI_CHAT);
            for chunk in stream.as_bytes().chunks(1400) {
                assert_eq!(reader.read(chunk, &mut Count(0)), Ok(()));
            }
            assert_eq!(reader.state(), State::Ended);
            reader.into_answer(true)
        });
    });
    group.finish();
}

/// A sink that looks at what it gets as little as it can.
struct Count(usize);

impl Sink for Count {
    fn sign(&mut self, sign: Sign) {
        self.0 += black_box(sign).progress as usize;
    }

    fn event(&mut self, event: &Event<'_>) {
        self.0 += usize::from(black_box(event).is_content());
    }
}

fn reader(wire: Wire) -> Reader {
    Reader::new(wire, Expect::Stream, &ReadLimits::default())
}

fn length(frame: SseFrame<'_>) -> usize {
    match frame {
        SseFrame::Blank => 0,
        SseFrame::Comment(text) => text.len(),
        SseFrame::Event(event) => event.data.len(),
    }
}

fn scan_lines(chunk: &[u8], carry: &mut Vec<u8>, mut each: impl FnMut(&[u8])) {
    let mut start = 0;
    for end in memchr_iter(b'\n', chunk) {
        let line = &chunk[start..end];
        if carry.is_empty() {
            each(line);
        } else {
            carry.extend_from_slice(line);
            each(carry);
            carry.clear();
        }
        start = end + 1;
    }
    carry.extend_from_slice(&chunk[start..]);
}

/// Returns the recorded streams of `folders` one after the other.
fn recorded(folders: &[&str]) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let root = std::env::var_os("LIFESIGN_CORPUS").map_or(root, Into::into);
    let mut stream = Vec::new();
    for folder in folders {
        let Ok(files) = std::fs::read_dir(root.join(folder)) else {
            continue;
        };
        let mut files: Vec<_> = files.flatten().map(|file| file.path()).collect();
        files.sort_unstable();
        for file in files {
            stream.extend(std::fs::read(file).unwrap_or_default());
            stream.extend_from_slice(b"\n\n");
        }
    }
    if stream.is_empty() {
        made_up(4000).into_bytes()
    } else {
        stream
    }
}

/// Makes a stream of chat deltas.
fn made_up(deltas: usize) -> String {
    let frame = |n| format!("data: {DELTA_HEAD}{n}{DELTA_TAIL}\n\n");
    (0..deltas).map(frame).collect()
}

const DELTA_HEAD: &str = r#"{"id":"chatcmpl-B0J7p1yWkF7m3h2x9Qd4s8LzTnVc5","object":"chat.completion.chunk","created":1735689600,"model":"gpt-4o-mini-2024-07-18","service_tier":"default","system_fingerprint":"fp_0aa8d3e20b","choices":[{"index":0,"delta":{"content":" token "#;
const DELTA_TAIL: &str = r#""},"logprobs":null,"finish_reason":null}]}"#;

/// A delta of each wire that is 250 bytes long, and what it proves.
const DELTAS: [(&str, Wire, Progress, &str); 4] = [
    (
        "openai-chat",
        Wire::OPENAI_CHAT,
        Progress::Output,
        r#"{"id":"chatcmpl-DuLdOuviL2tiVxMim6HmX4YMnCorK","object":"chat.completion.chunk","created":1782321902,"model":"gpt-4o-mini-2024-07-18","system_fingerprint":"fp_bbc23ca3d7","choices":[{"index":0,"delta":{"content":" of"},"logprobs":null,"finish_reason":null}]}"#,
    ),
    (
        "openai-chat-reasoning",
        Wire::OPENAI_CHAT,
        Progress::Reasoning,
        r#"{"id":"40d2a894-d042-4d70-b9ce-358f668fafd2","object":"chat.completion.chunk","created":1778109594,"model":"some-reasoner","choices":[{"index":0,"delta":{"content":null,"reasoning_content":" need to think"},"logprobs":null,"finish_reason":null}],"usage":null}"#,
    ),
    (
        "openai-responses",
        Wire::OPENAI_RESPONSES,
        Progress::Output,
        r#"{"type":"response.output_text.delta","sequence_number":1042,"item_id":"msg_68b1f1c0a5a081a2b7d3e4c95f6a7b8c9d0e1f2a3b4c5d6e","output_index":1,"content_index":0,"delta":" of the answer","logprobs":[],"obfuscation":"aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeF01"}"#,
    ),
    (
        "anthropic",
        Wire::ANTHROPIC,
        Progress::Output,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" a piece of text as long as Anthropic's often are, since it sends several tokens at once and pads its events with spaces before the last bracket of all"}               }"#,
    ),
];

/// The wires and where the corpus keeps their streams.
const FOLDERS: [(Wire, &str); 3] = [
    (Wire::OPENAI_CHAT, "openai-chat"),
    (Wire::OPENAI_RESPONSES, "openai-responses"),
    (Wire::ANTHROPIC, "anthropic-messages"),
];

criterion_group!(benches, framing, long_line, delta, classifying, answer);
criterion_main!(benches);
