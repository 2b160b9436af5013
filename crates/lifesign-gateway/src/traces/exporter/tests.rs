//! What becomes of spans, in virtual time, with a collector that does as it is told.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Mutex;

use pretty_assertions::assert_eq;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::field::Field;
use tracing::{Metadata, Subscriber, span};

use super::*;
use crate::records::Records as _;
use crate::traces::{TracesHealth, TracesState, sample};

/// Does what stands at the front of its list, and takes everything once that is empty.
#[derive(Clone, Default)]
struct Told {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    /// When a request came, and how many spans it had.
    requests: Arc<Mutex<Vec<(Duration, usize)>>>,
    /// The bytes of each request.
    sizes: Arc<Mutex<Vec<usize>>>,
    began: Option<Instant>,
}

enum Answer {
    Now(Delivery),
    After(Duration),
}

impl Deliver for Told {
    async fn deliver(&mut self, request: Bytes) -> Delivery {
        self.sizes.lock().unwrap().push(request.len());
        let request = ExportRequest::decode(request).unwrap();
        let spans = request.resource_spans[0].scope_spans[0].spans.len();
        let at = clock::now() - self.began.unwrap();
        self.requests.lock().unwrap().push((at, spans));
        let answer = self.answers.lock().unwrap().pop_front();
        match answer {
            Some(Answer::Now(delivery)) => delivery,
            Some(Answer::After(wait)) => {
                sleep(wait).await;
                taken()
            }
            None => taken(),
        }
    }
}

fn taken() -> Delivery {
    Delivery::Taken {
        refused: 0,
        message: String::new(),
    }
}

fn failed() -> Answer {
    Answer::Now(Delivery::Failed {
        error: "nobody is there".to_owned(),
        retry_after: None,
    })
}

struct Running {
    records: mpsc::Sender<Box<Record>>,
    closing: watch::Sender<Option<Instant>>,
    collector: Told,
    health: Arc<Health>,
    exporter: JoinHandle<()>,
    began: Instant,
}

impl Running {
    fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let began = clock::now();
        let collector = Told {
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            requests: Arc::default(),
            sizes: Arc::default(),
            began: Some(began),
        };
        let (records, received) = mpsc::channel(BATCH * 4);
        let (closing, closed) = watch::channel(None);
        let health = Arc::new(Health::default());
        let resource = Resource::default();
        let exporter = Exporter::new(
            received,
            closed,
            collector.clone(),
            resource,
            Arc::clone(&health),
        );
        Self {
            records,
            closing,
            collector,
            health,
            exporter: tokio::spawn(exporter.run()),
            began,
        }
    }

    fn record(&self, count: usize) {
        for _ in 0..count {
            self.records.try_send(Box::new(ended())).unwrap();
        }
    }

    fn close(&self, limit: Duration) {
        self.closing.send_replace(Some(clock::now() + limit));
    }

    fn requests(&self) -> Vec<(Duration, usize)> {
        self.collector.requests.lock().unwrap().clone()
    }

    /// Returns what was exported, dropped and refused.
    fn counts(&self) -> (u64, u64, u64) {
        let TracesHealth {
            exported,
            dropped,
            refused,
            ..
        } = self.health.get();
        (exported, dropped, refused)
    }
}

fn ended() -> Record {
    Record::Ended(Box::new(sample::ended(sample::trace(sample::PARENT), None)))
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[tokio::test(start_paused = true)]
async fn spans_of_one_second_go_together_and_a_full_batch_at_once() {
    let running = Running::start([]);

    running.record(3);
    sleep(secs(3)).await;
    running.record(BATCH + 1);
    sleep(secs(5)).await;

    let [first, full, rest] = running.requests().try_into().unwrap();
    assert_eq!(first, (secs(1), 3));
    assert_eq!(full, (secs(3), BATCH));
    assert_eq!(rest, (secs(4), 1));
    assert_eq!(running.counts(), (BATCH as u64 + 4, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn large_spans_go_in_requests_that_any_collector_takes() {
    let running = Running::start([]);
    let mut large = sample::ended(sample::trace(sample::PARENT), None);
    let wait = large.waits[0].clone();
    large.waits = vec![wait; 200];
    for _ in 0..300 {
        let record = Record::Ended(Box::new(large.clone()));
        running.records.try_send(Box::new(record)).unwrap();
    }

    sleep(secs(3)).await;

    let requests = running.requests();
    let spans: usize = requests.iter().map(|(_, spans)| spans).sum();
    assert!(requests.len() > 2, "{requests:?}");
    assert_eq!(spans, 300);
    for bytes in running.collector.sizes.lock().unwrap().iter() {
        assert!(*bytes < 3 << 20, "{bytes}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_sent_again_after_growing_pauses_until_it_is_taken() {
    let running = Running::start([failed(), failed(), failed()]);

    running.record(2);
    sleep(secs(2)).await;
    assert_eq!(running.health.get().state, TracesState::Failing);
    assert_eq!(
        running.health.get().error.as_deref(),
        Some("nobody is there")
    );
    sleep(secs(60)).await;

    let at: Vec<_> = running.requests().iter().map(|(at, _)| *at).collect();
    for (pair, pause) in at.windows(2).zip([1.0, 2.0, 4.0]) {
        let waited = pair[1].saturating_sub(pair[0]).as_secs_f64();
        assert!(
            waited >= pause * 0.5 && waited <= pause * 1.5 + 0.01,
            "{at:?}"
        );
    }
    assert_eq!(at.len(), 4);
    assert_eq!(running.counts(), (2, 0, 0));
    assert_eq!(running.health.get().state, TracesState::Exporting);
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_asks_for_a_wait_gets_it() {
    let asks = Answer::Now(Delivery::Failed {
        error: "full".to_owned(),
        retry_after: Some(secs(7)),
    });
    let running = Running::start([asks]);

    running.record(1);
    sleep(secs(30)).await;

    assert_eq!(running.requests(), [(secs(1), 1), (secs(8), 1)]);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_takes_for_minutes_is_dropped_and_counted() {
    let running = Running::start((0..1_000).map(|_| failed()));

    running.record(3);
    sleep(PATIENCE + secs(2)).await;

    assert_eq!(running.counts(), (0, 3, 0));
    let last = running.requests().last().unwrap().0;
    assert!(last > PATIENCE / 2 && last < PATIENCE + secs(1), "{last:?}");
    assert_eq!(running.health.get().state, TracesState::Failing);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_not_sent_again() {
    let refused = Answer::Now(Delivery::Refused("no".to_owned()));
    let some = Answer::Now(Delivery::Taken {
        refused: 2,
        message: "some".to_owned(),
    });
    let running = Running::start([refused, some]);

    running.record(3);
    sleep(secs(2)).await;
    assert_eq!(running.counts(), (0, 0, 3));
    running.record(5);
    sleep(secs(2)).await;

    assert_eq!(running.requests().len(), 2);
    assert_eq!(running.counts(), (3, 0, 5));
    assert_eq!(running.health.get().error.as_deref(), Some("some"));
}

#[tokio::test(start_paused = true)]
async fn at_the_end_everything_that_waits_is_sent_at_once() {
    let running = Running::start([]);
    running.record(BATCH + 7);

    running.close(secs(5));
    running.exporter.await.unwrap();

    let requests = running.collector.requests.lock().unwrap().clone();
    assert_eq!(requests, [(Duration::ZERO, BATCH), (Duration::ZERO, 7)]);
    assert_eq!(running.health.get().exported, BATCH as u64 + 7);
}

#[tokio::test(start_paused = true)]
async fn at_the_end_nothing_is_sent_twice_to_a_collector_that_is_gone() {
    let running = Running::start((0..10).map(|_| failed()));
    running.record(BATCH + 7);

    running.close(secs(5));
    running.exporter.await.unwrap();

    assert_eq!(running.collector.requests.lock().unwrap().len(), 1);
    assert_eq!(running.health.get().dropped, BATCH as u64 + 7);
    assert_eq!(clock::now() - running.began, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_end_waits_for_a_slow_collector_as_long_as_it_may() {
    let running = Running::start([Answer::After(secs(60))]);
    running.record(BATCH + 7);
    sleep(secs(1)).await;

    running.close(secs(5));
    running.exporter.await.unwrap();

    assert_eq!(clock::now() - running.began, secs(6));
    assert_eq!(running.health.get().dropped, BATCH as u64 + 7);
}

#[tokio::test(start_paused = true)]
async fn a_pause_before_another_try_ends_with_the_end() {
    let running = Running::start([failed()]);
    running.record(1);
    sleep(Duration::from_millis(1_010)).await;
    assert_eq!(running.requests().len(), 1);

    running.close(secs(5));
    running.exporter.await.unwrap();

    assert!(clock::now() - running.began < Duration::from_millis(1_100));
    assert_eq!(running.health.get().exported, 1);
}

#[tokio::test(start_paused = true)]
async fn it_ends_once_nobody_is_left_who_could_record() {
    let Running {
        records,
        exporter,
        health,
        closing: _closing,
        ..
    } = Running::start([]);
    records.try_send(Box::new(ended())).unwrap();

    drop(records);
    exporter.await.unwrap();

    assert_eq!(health.get().exported, 1);
}

/// Writes down the message of each line of the log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("lifesign_gateway::traces")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut |field: &Field, value: &dyn Debug| {
            if field.name() == "message" {
                self.0.lock().unwrap().push(format!("{value:?}"));
            }
        });
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn each_change_is_told_once_and_a_collector_that_always_refuses_some_is_none() {
    let lines = Lines::default();
    let _told = tracing::subscriber::set_default(lines.clone());
    let some = || {
        Answer::Now(Delivery::Taken {
            refused: 1,
            message: "some".to_owned(),
        })
    };
    let running = Running::start([failed(), failed(), some(), some(), some()]);

    for _ in 0..4 {
        running.record(3);
        sleep(secs(30)).await;
    }

    assert_eq!(running.counts(), (9, 0, 3));
    let fails = "spans cannot be exported; calls go on, and spans that find no place are dropped";
    assert_eq!(
        *lines.0.lock().unwrap(),
        [fails, "spans are exported again"]
    );
}

#[tokio::test(start_paused = true)]
async fn dropping_ends_once_few_spans_wait() {
    let slow = || Answer::After(secs(5));
    let running = Running::start([slow(), slow(), slow()]);
    running.record(BATCH * 3);
    running.health.note_full();
    let state = || running.health.get().state;

    // Of three batches the first two are taken while another waits.
    sleep(secs(11)).await;
    assert_eq!(running.health.get().exported, 2 * BATCH as u64);
    assert_eq!(state(), TracesState::Dropping);
    sleep(secs(5)).await;
    assert_eq!(state(), TracesState::Exporting);
}

#[test]
fn spans_that_find_no_place_are_counted_and_nobody_waits() {
    let (records, mut received) = mpsc::channel(1);
    let (_ends, hung_up) = std::sync::mpsc::sync_channel(0);
    let traces = crate::traces::Traces {
        records,
        closing: watch::channel(None).0,
        health: Arc::new(Health::default()),
        ended: Mutex::new(hung_up),
    };

    for _ in 0..3 {
        traces.record(&ended());
    }

    let health = traces.health();
    assert_eq!((health.dropped, health.state), (2, TracesState::Dropping));
    assert!(received.try_recv().is_ok());
    assert!(received.try_recv().is_err());
}
