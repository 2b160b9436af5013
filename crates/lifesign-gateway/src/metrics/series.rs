//! The series that nearly every call counts in, of each upstream, looked up once.
//!
//! To find a series by its labels takes longer than to count in it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use lifesign_core::Clock;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::Histogram;

use super::REASONS;
use super::names::Name;

/// The series of every upstream that was counted for.
#[derive(Debug, Default)]
pub(super) struct SeriesOfUpstreams(RwLock<BTreeMap<Name, Arc<Series>>>);

/// What is counted of one upstream.
#[derive(Debug, Default)]
pub(super) struct Series {
    pub(super) completed_calls: Cell<Counter>,
    pub(super) waits: [Cell<Histogram>; REASONS.len()],
    pub(super) completed_attempts: Cell<Counter>,
    pub(super) received_bytes: Cell<Counter>,
    pub(super) first_content: Cell<Histogram>,
    pub(super) gaps: [Cell<Histogram>; Clock::ALL.len()],
}

/// A series that is there once something is counted in it.
#[derive(Debug)]
pub(super) struct Cell<M>(OnceLock<M>);

impl SeriesOfUpstreams {
    pub(super) fn of(&self, name: &Name) -> Arc<Series> {
        // Each change is an insertion.
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(series) = known.get(name) {
            return Arc::clone(series);
        }
        drop(known);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(name.clone()).or_default())
    }
}

impl<M: Clone> Cell<M> {
    /// Returns the series of `family` that has these labels, which are the same each time.
    pub(super) fn of<L, C>(&self, family: &Family<L, M, C>, labels: impl FnOnce() -> L) -> &M
    where
        L: Clone + Debug + Eq + Hash,
        C: MetricConstructor<M>,
    {
        self.0
            .get_or_init(|| family.get_or_create(&labels()).clone())
    }
}

impl<M> Default for Cell<M> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_in_a_series_is_counted_in_its_family() {
        let family = Family::<String, Counter>::default();
        let all = SeriesOfUpstreams::default();
        let count = |name: &str| {
            let series = all.of(&name.into());
            let counter = series.completed_calls.of(&family, || name.to_owned());
            counter.inc();
        };

        count("a");
        count("b");
        count("a");

        let counted = |name: &str| family.get_or_create(&name.to_owned()).get();
        assert_eq!((counted("a"), counted("b")), (2, 1));
    }
}
