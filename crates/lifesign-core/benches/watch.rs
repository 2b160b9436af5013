//! What the watch costs a stream: one frame observed, one deadline worked out.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use lifesign_core::{
    Block, Bounds, CallShape, HeartbeatOrigin, Progress, Sign, Watch, WireDefaults,
};

fn observe(c: &mut Criterion) {
    let mut group = c.benchmark_group("observe");
    let signs = [
        ("output", Sign::of(Progress::Output)),
        ("filling_output", filling(Progress::Output)),
        ("reasoning", Sign::of(Progress::Reasoning)),
        ("lifecycle", Sign::of(Progress::Lifecycle)),
        ("heartbeat", Sign::heartbeat(HeartbeatOrigin::Comment)),
    ];
    for (name, sign) in signs {
        let mut watch = streaming();
        let mut at = Duration::from_secs(2);
        group.bench_function(name, |b| {
            b.iter(|| {
                at += Duration::from_micros(1);
                watch.handle_frame(black_box(sign), black_box(at));
            });
        });
        black_box(watch.tally());
    }
    let mut watch = streaming();
    let mut at = Duration::from_secs(2);
    group.bench_function("bytes", |b| {
        b.iter(|| {
            at += Duration::from_micros(1);
            watch.handle_bytes(black_box(250), black_box(at));
        });
    });
    black_box(watch.tally());
    group.finish();
}

fn deadline(c: &mut Criterion) {
    let watch = streaming();
    c.bench_function("poll_deadline", |b| {
        b.iter(|| black_box(&watch).poll_deadline());
    });
}

fn filling(progress: Progress) -> Sign {
    Sign {
        block: Some(Block::Fills),
        ..Sign::of(progress)
    }
}

/// Returns a watch in the middle of an answer, under the default bounds.
fn streaming() -> Watch {
    let shape = CallShape {
        streamed: true,
        max_tokens: Some(4_096),
        wire: WireDefaults {
            name: "anthropic",
            raw_silence: Duration::from_mins(3),
            shows_work: true,
            between_events: true,
        },
    };
    let mut watch = Watch::new(&Bounds::default(), &shape, Duration::ZERO, Duration::ZERO);
    watch.handle_sending(Duration::ZERO);
    watch.handle_sent(Duration::ZERO);
    watch.handle_headers(Duration::from_secs(1));
    watch.handle_bytes(250, Duration::from_secs(1));
    watch.handle_frame(Sign::of(Progress::Output), Duration::from_secs(1));
    watch
}

criterion_group!(benches, observe, deadline);
criterion_main!(benches);
