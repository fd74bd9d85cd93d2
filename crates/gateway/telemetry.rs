//! Every metric there is, in one list, and a typed function for each: no label is made up elsewhere.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use prometheus::{
    Gauge, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};
use wire::Method;

use crate::authn;

/// A metric's name and what it counts.
pub(crate) struct Name(pub(crate) &'static str, pub(crate) &'static str);

const MESSAGES: Name = Name(
    "portcullis_messages_total",
    "Messages of authenticated clients, by tenant, method, decision (allow, deny, hold) and outcome (ok, tool_error, error, denied, abandoned).",
);
const DURATION: Name = Name(
    "portcullis_message_duration_seconds",
    "From the complete head of a message to its last reply byte, by tenant and method.",
);
const LIMITED: Name = Name(
    "portcullis_limited_total",
    "Messages, streams and questions refused for a limit, by tenant and limit.",
);
const SESSIONS: Name = Name("portcullis_sessions", "Open legacy sessions.");
const PARKED_CALLS: Name =
    Name("portcullis_parked_calls", "Calls that wait until their clients come back with answers.");
const TASKS: Name = Name("portcullis_tasks", "Tasks of clients that are kept, those that are over included.");
const UPSTREAM_UP: Name = Name(
    "portcullis_upstream_up",
    "1 while the catalog connection of an upstream is up, by tenant and upstream.",
);
const UPSTREAM_RESTARTS: Name = Name(
    "portcullis_upstream_restarts_total",
    "Processes started after the first of an upstream, by tenant and upstream.",
);
const STDOUT_NOISE: Name =
    Name("portcullis_stdout_noise_total", "Lines on the stdout of upstreams that are no MCP message.");
const LATE_ANSWERS: Name =
    Name("portcullis_late_answers_total", "Answers of upstreams to requests that were no longer open.");
const LOG_MESSAGES_DROPPED: Name = Name(
    "portcullis_log_messages_dropped_total",
    "Log messages of upstreams outside of any request that no client was told, by tenant.",
);
const AUDIT_LINES: Name = Name("portcullis_audit_lines_total", "Audit lines handed to the operating system.");
const AUDIT_FAILURES: Name = Name(
    "portcullis_audit_failures_total",
    "Failed writes to an audit sink, and audit lines that could not be kept.",
);
const UNAUTHENTICATED: Name =
    Name("portcullis_unauthenticated_total", "Messages refused before their asker was known.");
const RELOADS: Name = Name(
    "portcullis_reloads_total",
    "Configurations that were taken, or refused, after the first, by result.",
);
const LAST_RELOAD: Name = Name(
    "portcullis_last_reload_success_timestamp_seconds",
    "When the configuration in force was taken, in seconds since the Unix epoch.",
);
const BUILD_INFO: Name = Name("portcullis_build_info", "Always 1; the label is the version.");
const RESIDENT_MEMORY: Name = Name("process_resident_memory_bytes", "Resident memory of the gateway itself.");
const OPEN_FDS: Name = Name("process_open_fds", "Open file descriptors of the gateway.");
const START_TIME: Name =
    Name("process_start_time_seconds", "Start of the gateway, in seconds since the Unix epoch.");

/// All of them, for whoever compares this list with the documentation.
#[cfg(test)]
pub(crate) const ALL: [Name; 20] = [
    MESSAGES,
    LIMITED,
    DURATION,
    SESSIONS,
    PARKED_CALLS,
    TASKS,
    UPSTREAM_UP,
    UPSTREAM_RESTARTS,
    STDOUT_NOISE,
    LATE_ANSWERS,
    LOG_MESSAGES_DROPPED,
    AUDIT_LINES,
    AUDIT_FAILURES,
    UNAUTHENTICATED,
    RELOADS,
    LAST_RELOAD,
    BUILD_INFO,
    RESIDENT_MEMORY,
    OPEN_FDS,
    START_TIME,
];

/// From a list served out of memory to a call that takes its ten minutes.
const BUCKETS: [f64; 15] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0];

/// The counts of the process.
///
/// Handles without labels are held here. Those with labels are looked up in their vector: a hash of
/// borrowed words under a read lock, no allocation, which is cheaper than any map of our own before it.
pub(crate) struct Metrics {
    registry: Registry,
    messages: IntCounterVec,
    limited: IntCounterVec,
    duration: HistogramVec,
    sessions: IntGauge,
    parked_calls: IntGauge,
    tasks: IntGauge,
    upstream_up: IntGaugeVec,
    upstream_restarts: IntCounterVec,
    stdout_noise: IntCounter,
    late_answers: IntCounter,
    log_messages_dropped: IntCounterVec,
    audit_lines: IntCounter,
    audit_failures: IntCounter,
    unauthenticated: IntCounter,
    reloads: IntCounterVec,
    last_reload: IntGauge,
    resident_memory: IntGauge,
    open_fds: IntGauge,
}

impl Metrics {
    /// Registers every metric.
    pub(crate) fn new() -> Result<Arc<Metrics>, prometheus::Error> {
        let registry = Registry::new();
        let build = gauges(&registry, BUILD_INFO, &["version"])?;
        build.get_metric_with_label_values(&[env!("CARGO_PKG_VERSION")])?.set(1);
        if let Some(seconds) = process::started() {
            let start = Gauge::new(START_TIME.0, START_TIME.1)?;
            registry.register(Box::new(start.clone()))?;
            start.set(seconds);
        }
        Ok(Arc::new(Metrics {
            messages: counters(&registry, MESSAGES, &["tenant", "method", "decision", "outcome"])?,
            limited: counters(&registry, LIMITED, &["tenant", "limit"])?,
            duration: histograms(&registry, DURATION, &["tenant", "method"])?,
            sessions: gauge(&registry, SESSIONS)?,
            parked_calls: gauge(&registry, PARKED_CALLS)?,
            tasks: gauge(&registry, TASKS)?,
            upstream_up: gauges(&registry, UPSTREAM_UP, &["tenant", "upstream"])?,
            upstream_restarts: counters(&registry, UPSTREAM_RESTARTS, &["tenant", "upstream"])?,
            stdout_noise: counter(&registry, STDOUT_NOISE)?,
            late_answers: counter(&registry, LATE_ANSWERS)?,
            log_messages_dropped: counters(&registry, LOG_MESSAGES_DROPPED, &["tenant"])?,
            audit_lines: counter(&registry, AUDIT_LINES)?,
            audit_failures: counter(&registry, AUDIT_FAILURES)?,
            unauthenticated: counter(&registry, UNAUTHENTICATED)?,
            reloads: counters(&registry, RELOADS, &["result"])?,
            last_reload: gauge(&registry, LAST_RELOAD)?,
            resident_memory: gauge(&registry, RESIDENT_MEMORY)?,
            open_fds: gauge(&registry, OPEN_FDS)?,
            registry,
        }))
    }

    /// A limit, of which there are as many as were configured, refused a message.
    pub(crate) fn limited(&self, tenant: &str, limit: &str) {
        self.limited.with_label_values(&[tenant, limit]).inc();
    }

    /// One message ended. A method that is in no table counts as `other`, so that clients cannot make labels.
    pub(crate) fn message(
        &self,
        tenant: &str,
        method: Option<Method>,
        (decision, outcome): (&'static str, &'static str),
        took: Duration,
    ) {
        let method = method.map_or("other", Method::name);
        // INVARIANT: the number of labels is right, so neither look-up fails.
        if let Ok(messages) = self.messages.get_metric_with_label_values(&[tenant, method, decision, outcome])
        {
            messages.inc();
        }
        if let Ok(duration) = self.duration.get_metric_with_label_values(&[tenant, method]) {
            duration.observe(took.as_secs_f64());
        }
    }

    /// A log message of an upstream that no client was told.
    pub(crate) fn log_message_dropped(&self, tenant: &str) {
        if let Ok(counter) = self.log_messages_dropped.get_metric_with_label_values(&[tenant]) {
            counter.inc();
        }
    }

    /// Somebody asked whom we do not know.
    pub(crate) fn unauthenticated(&self) {
        self.unauthenticated.inc();
    }

    /// A configuration was taken, or refused.
    pub(crate) fn reloaded(&self, taken: bool) {
        if let Ok(counter) =
            self.reloads.get_metric_with_label_values(&[if taken { "taken" } else { "refused" }])
        {
            counter.inc();
        }
        if taken {
            self.configured();
        }
    }

    /// A configuration is in force from now on.
    pub(crate) fn configured(&self) {
        self.last_reload.set(i64::try_from(authn::now()).unwrap_or(i64::MAX));
    }

    /// Sessions were opened (`change` above zero) or ended (below).
    pub(crate) fn sessions(&self, change: i64) {
        self.sessions.add(change);
    }

    /// Calls were parked (`change` above zero), or taken and given up (below).
    pub(crate) fn parked(&self, change: i64) {
        self.parked_calls.add(change);
    }

    /// Calls became tasks (`change` above zero), or tasks were forgotten (below).
    pub(crate) fn tasks(&self, change: i64) {
        self.tasks.add(change);
    }

    /// The catalog connection of an upstream came up or went down.
    pub(crate) fn upstream_up(&self, tenant: &str, upstream: &str, up: bool) {
        if let Ok(gauge) = self.upstream_up.get_metric_with_label_values(&[tenant, upstream]) {
            gauge.set(i64::from(up));
        }
    }

    /// The total of restarts that an upstream's seats counted so far. Called before `render`.
    pub(crate) fn upstream_restarted(&self, tenant: &str, upstream: &str, total: u64) {
        if let Ok(counter) = self.upstream_restarts.get_metric_with_label_values(&[tenant, upstream]) {
            raise(&counter, total);
        }
    }

    /// Lines reached the operating system.
    pub(crate) fn audit_lines(&self, lines: u64) {
        self.audit_lines.inc_by(lines);
    }

    /// A sink failed, or lines were lost.
    pub(crate) fn audit_failures(&self, failures: u64) {
        self.audit_failures.inc_by(failures);
    }

    /// Everything in the text format of Prometheus.
    pub(crate) fn render(&self) -> String {
        let upstreams = upstream::counters();
        raise(&self.stdout_noise, upstreams.noise.load(Ordering::Relaxed));
        raise(&self.late_answers, upstreams.late.load(Ordering::Relaxed));
        if let Some(bytes) = process::resident_memory() {
            self.resident_memory.set(bytes);
        }
        if let Some(count) = process::open_files() {
            self.open_fds.set(count);
        }
        // Only a family without a name cannot be encoded, and ours have names.
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap_or_default()
    }
}

/// Brings a counter up to a total that is counted elsewhere; a counter never falls.
fn raise(counter: &IntCounter, total: u64) {
    counter.inc_by(total.saturating_sub(counter.get()));
}

fn counter(registry: &Registry, name: Name) -> Result<IntCounter, prometheus::Error> {
    let counter = IntCounter::new(name.0, name.1)?;
    registry.register(Box::new(counter.clone()))?;
    Ok(counter)
}

fn counters(registry: &Registry, name: Name, labels: &[&str]) -> Result<IntCounterVec, prometheus::Error> {
    let counters = IntCounterVec::new(Opts::new(name.0, name.1), labels)?;
    registry.register(Box::new(counters.clone()))?;
    Ok(counters)
}

fn gauge(registry: &Registry, name: Name) -> Result<IntGauge, prometheus::Error> {
    let gauge = IntGauge::new(name.0, name.1)?;
    registry.register(Box::new(gauge.clone()))?;
    Ok(gauge)
}

fn gauges(registry: &Registry, name: Name, labels: &[&str]) -> Result<IntGaugeVec, prometheus::Error> {
    let gauges = IntGaugeVec::new(Opts::new(name.0, name.1), labels)?;
    registry.register(Box::new(gauges.clone()))?;
    Ok(gauges)
}

fn histograms(registry: &Registry, name: Name, labels: &[&str]) -> Result<HistogramVec, prometheus::Error> {
    let histograms = HistogramVec::new(HistogramOpts::new(name.0, name.1).buckets(BUCKETS.to_vec()), labels)?;
    registry.register(Box::new(histograms.clone()))?;
    Ok(histograms)
}

mod process;

#[cfg(test)]
mod tests;
