//! What the calls of a gateway share, and what outlives a reload.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use lifesign::Upstream;
use lifesign::clock::CallClock;
use lifesign::transport::TransportConfig;
use lifesign_core::{Limit, SettingError};

use crate::breaker::BreakerPolicy;
use crate::config::{CallerKey, GatewayConfig, GatewayUpstream};
use crate::guest::{GuestRules, KeyHash, KeyTable};
use crate::holds::Holds;
use crate::journal::Journal;
use crate::lane::Lane;
use crate::live::Live;
use crate::metrics::Metrics;
use crate::queue::{KeyName, QueueLimits};
use crate::rate::{CallCount, CountedCall, Rate};
use crate::records::Records;
use crate::registry::Registry;
use crate::room::Room;
use crate::server::Pulse;
use crate::target::{Target, Ways};
use crate::traces::Traces;

/// What calls share.
pub(crate) struct Hub {
    pub(crate) clock: CallClock,
    pub(crate) holds: Arc<Holds>,
    pub(crate) registry: Registry,
    pub(crate) records: Arc<dyn Records>,
    /// Whether calls have a place in a trace.
    pub(crate) wants_traces: bool,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) live: Arc<Live>,
    /// The signs of life of the workers, once there are some.
    pulse: OnceLock<Pulse>,
    pub(crate) beside: Beside,
    plan: ArcSwap<Plan>,
    /// By name, so that a reload finds them again.
    lanes: Mutex<BTreeMap<String, Arc<Lane>>>,
    callers: Mutex<BTreeMap<String, Arc<Caller>>>,
    workers: usize,
    replay_len: AtomicUsize,
    /// For what is kept of answers.
    pub(crate) room: Arc<Room>,
}

/// What is written down beside the calls because the settings ask for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside {
    pub(crate) journal: Option<Arc<Journal>>,
    pub(crate) traces: Option<Arc<Traces>>,
}

/// The settings that calls run by; a call keeps the plan of its admission.
pub(crate) struct Plan {
    pub(crate) config: GatewayConfig,
    pub(crate) rules: GuestRules,
    /// In the order of the configured upstreams.
    pub(crate) targets: Vec<Arc<Target>>,
    /// In the order of the configured keys.
    pub(crate) callers: Vec<Arc<Caller>>,
    /// Where no keys are configured: everybody.
    pub(crate) anyone: Arc<Caller>,
    pub(crate) admin_key: Option<KeyHash>,
}

/// Whoever calls with one key.
pub(crate) struct Caller {
    pub(crate) name: KeyName,
    count: Arc<CallCount>,
    rate: Mutex<Option<Rate>>,
}

/// Why a caller may not call now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spent {
    /// So many calls run already.
    Concurrency,
    /// So many were made in this minute; the next may come after so long.
    Rate(Duration),
}

impl Caller {
    fn new(name: &str) -> Arc<Self> {
        Arc::new(Self {
            name: KeyName::new(name),
            count: Arc::new(CallCount::new(None)),
            rate: Mutex::new(None),
        })
    }

    fn configure(&self, key: &CallerKey) {
        let concurrency = key.concurrency.map(|limit| limit as usize);
        self.count.set_limit(concurrency);
        let mut rate = self.rate();
        match (key.per_minute.and_then(NonZeroU32::new), rate.as_mut()) {
            (Some(per_minute), Some(rate)) => rate.set_per_minute(per_minute),
            (Some(per_minute), None) => *rate = Some(Rate::new(per_minute)),
            (None, _) => *rate = None,
        }
    }

    /// Counts one call.
    pub(crate) fn enter(&self, now: Duration) -> Result<CountedCall, Spent> {
        let counted = self.count.enter().ok_or(Spent::Concurrency)?;
        if let Some(rate) = self.rate().as_mut() {
            rate.allow(now).map_err(Spent::Rate)?;
        }
        Ok(counted)
    }

    fn rate(&self) -> MutexGuard<'_, Option<Rate>> {
        // Its changes are assignments.
        self.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hub {
    /// Returns the hub of a gateway with these settings.
    pub(crate) fn new(
        config: GatewayConfig,
        records: Arc<dyn Records>,
        beside: Beside,
        workers: usize,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, SettingError> {
        let lanes = Mutex::default();
        let callers = Mutex::default();
        let room = Room::new(config.limits.buffered_total.value);
        let metrics = Arc::new(Metrics::new(&config));
        let live = Arc::new(Live::new());
        let mut records: Vec<Arc<dyn Records>> =
            vec![Arc::clone(&metrics) as _, Arc::clone(&live) as _, records];
        let Beside { journal, traces } = beside.clone();
        records.extend(journal.map(|it| it as Arc<dyn Records>));
        records.extend(traces.map(|it| it as Arc<dyn Records>));
        let plan = Plan::new(config, None, workers, &lanes, &callers, variable)?;
        Ok(Self {
            clock: CallClock::start(),
            holds: Holds::new(),
            registry: Registry::default(),
            wants_traces: records.wants_traces(),
            records: Arc::new(records),
            metrics,
            live,
            pulse: OnceLock::new(),
            beside,
            plan: ArcSwap::from_pointee(plan),
            lanes,
            callers,
            workers,
            replay_len: AtomicUsize::new(0),
            room,
        })
    }

    /// Puts other settings in force, all of them or none.
    pub(crate) fn reload(
        &self,
        config: GatewayConfig,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<(), SettingError> {
        let before = self.plan();
        let plan = Plan::new(
            config,
            Some(&before),
            self.workers,
            &self.lanes,
            &self.callers,
            variable,
        )?;
        self.room.set_limit(plan.config.limits.buffered_total.value);
        self.metrics.configure(&plan.config);
        self.plan.store(Arc::new(plan));
        drop(before);
        self.forget_unused();
        Ok(())
    }

    /// Forgets the lanes and callers that are in no plan, neither in force nor of a call under way.
    fn forget_unused(&self) {
        // Nobody gets at one but through its table, or by what has it already.
        lock(&self.lanes).retain(|_, lane| {
            let load = lane.load();
            Arc::strong_count(lane) > 1 || load.in_flight + load.waiting > 0
        });
        lock(&self.callers).retain(|_, caller| Arc::strong_count(caller) > 1);
    }

    /// Returns the settings in force.
    pub(crate) fn plan(&self) -> Arc<Plan> {
        self.plan.load_full()
    }

    /// Returns how a new attempt at `target` is authorised: with the key that is in force now, which
    /// a call that was admitted under another may not know.
    pub(crate) fn upstream_now(&self, target: &Target) -> Arc<Upstream> {
        let plan = self.plan.load();
        let now = plan
            .targets
            .iter()
            .find(|known| known.shares_key_with(target));
        Arc::clone(&now.map_or(target, |known| known).upstream)
    }

    /// Notes where the signs of life of the workers are.
    pub(crate) fn set_pulse(&self, pulse: Pulse) {
        // There is one server to a hub.
        let _is_first = self.pulse.set(pulse).is_ok();
    }

    /// Returns the signs of life of the workers.
    pub(crate) fn pulse(&self) -> Option<&Pulse> {
        self.pulse.get()
    }

    /// Notes that a request body is kept for further attempts.
    pub(crate) fn keep_replay(&self, len: usize) {
        self.replay_len.fetch_add(len, Ordering::Relaxed);
    }

    pub(crate) fn free_replay(&self, len: usize) {
        self.replay_len.fetch_sub(len, Ordering::Relaxed);
    }

    /// Returns whether the bodies that are kept leave room for another attempt of each call.
    pub(crate) fn may_replay(&self) -> bool {
        let limit = self.plan.load().config.limits.replay_total.value;
        self.replay_len.load(Ordering::Relaxed) <= limit
    }

    /// Returns every lane there is, by name.
    pub(crate) fn lanes(&self) -> Vec<Arc<Lane>> {
        lock(&self.lanes).values().cloned().collect()
    }
}

impl Plan {
    fn new(
        config: GatewayConfig,
        before: Option<&Self>,
        workers: usize,
        lanes: &Mutex<BTreeMap<String, Arc<Lane>>>,
        callers: &Mutex<BTreeMap<String, Arc<Caller>>>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, SettingError> {
        // Everything that can be refused comes before anything changes.
        let mut ways = Vec::new();
        for upstream in &config.upstreams {
            let key = upstream.read_key(&variable)?;
            let roots = upstream.client.read_extra_roots()?;
            let transport = TransportConfig {
                extra_roots: roots.into_iter().collect(),
                pool_idle: upstream.client.pool_idle,
                ..TransportConfig::default()
            };
            let mut known = before.into_iter().flat_map(|before| &before.targets);
            let kept = known.find_map(|target| target.ways_to(upstream, &transport));
            ways.push((key, kept.unwrap_or_else(|| Ways::new(transport, workers))));
        }
        let admin_key = config.read_admin_key(&variable)?;
        let admin_key = admin_key.map(|key| {
            use secrecy::ExposeSecret;
            KeyHash::of(key.expose_secret().as_bytes())
        });

        let targets = config
            .upstreams
            .iter()
            .zip(ways)
            .map(|(upstream, (key, ways))| {
                let lane = lane(upstream, &config, lanes);
                let client = upstream.client.to_upstream(key);
                Arc::new(Target::new(Arc::clone(upstream), client, lane, ways))
            })
            .collect();
        let mut known = lock(callers);
        let of_key = |key: &CallerKey| {
            let caller = known
                .entry(key.name.clone())
                .or_insert_with(|| Caller::new(&key.name));
            caller.configure(key);
            Arc::clone(caller)
        };
        let callers = config.keys.iter().map(of_key).collect();
        let rules = GuestRules {
            hosts: config.serve.hosts.value.clone(),
            keys: KeyTable::new(config.keys.iter().map(|key| KeyHash::of_digest(key.sha256))),
        };
        Ok(Self {
            rules,
            targets,
            callers,
            anyone: Caller::new(""),
            admin_key,
            config,
        })
    }

    /// Returns the target of an upstream.
    pub(crate) fn target(&self, upstream: &Arc<GatewayUpstream>) -> Option<&Arc<Target>> {
        self.targets
            .iter()
            .find(|target| Arc::ptr_eq(&target.config, upstream))
    }
}

/// Returns the lane of an upstream, with the limits that are in force now.
fn lane(
    upstream: &GatewayUpstream,
    config: &GatewayConfig,
    lanes: &Mutex<BTreeMap<String, Arc<Lane>>>,
) -> Arc<Lane> {
    let limits = QueueLimits {
        concurrency: upstream.concurrency.value as usize,
        queue: upstream.queue.value,
        share_keys: config.keys.len() > 1,
    };
    let breaker = BreakerPolicy {
        failures: config.breaker.failures.value,
        slow_after: config.breaker.slow_after.value,
        open_for: config.breaker.open_for.value,
    };
    let mut lanes = lock(lanes);
    if let Some(lane) = lanes.get(&upstream.lane) {
        lane.set_limits(limits);
        lane.set_breaker(breaker);
        return Arc::clone(lane);
    }
    let lane = Lane::new(upstream.lane.clone(), limits, breaker);
    lanes.insert(upstream.lane.clone(), Arc::clone(&lane));
    lane
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change behind these is one insertion.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a limit as the time that it is, if it is on.
pub(crate) const fn time_of(limit: Limit) -> Option<Duration> {
    match limit {
        Limit::After(time) => Some(time),
        Limit::Off => None,
    }
}

#[cfg(test)]
mod tests;
