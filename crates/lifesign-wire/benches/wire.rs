//! What a stream costs from its bytes to its meaning.
//!
//! Recorded streams are used where the corpus is, else a stream of chat deltas made here.

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lifesign_wire::{FrameLimits, SseFrame, SseFramer};
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
    if stream.is_empty() { made_up() } else { stream }
}

fn made_up() -> Vec<u8> {
    let deltas = (0..4000).map(|n| format!("data: {DELTA_HEAD}{n}{DELTA_TAIL}\n\n"));
    deltas.collect::<String>().into_bytes()
}

const DELTA_HEAD: &str = r#"{"id":"chatcmpl-B0J7p1yWkF7m3h2x9Qd4s8LzTnVc5","object":"chat.completion.chunk","created":1735689600,"model":"gpt-4o-mini-2024-07-18","service_tier":"default","system_fingerprint":"fp_0aa8d3e20b","choices":[{"index":0,"delta":{"content":" token "#;
const DELTA_TAIL: &str = r#""},"logprobs":null,"finish_reason":null}]}"#;

criterion_group!(benches, framing, long_line);
criterion_main!(benches);
