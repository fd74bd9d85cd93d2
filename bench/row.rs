//! Rows: figures of the gateway, ratios to what it is compared with, as a table or as JSON.

use std::io::{self, Write as _};

use serde_json::{Map, Value, json};

use crate::{failure::Failure, load::Run, measure::Tally};

/// The names of contestants that ratios are made with.
pub(crate) const GATEWAY: &str = "portcullis";
/// No proxy at all.
pub(crate) const DIRECT: &str = "direct";
/// The plain proxy.
pub(crate) const NGINX: &str = "nginx";

/// Bytes of a megabyte.
const MEGABYTE: f64 = 1_000_000.0;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Table,
    Json,
}

/// One row of the results.
#[derive(Debug, Default)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// What was measured in turn; none for rows of a single figure.
    pub(crate) tallies: Vec<Tally>,
    /// What one answer is called, when it is no call.
    pub(crate) rate: Option<&'static str>,
    /// Figures of this row alone.
    pub(crate) more: Vec<(&'static str, f64)>,
    /// Resident memory of the gateway in bytes, when nothing was measured in turn.
    pub(crate) resident: Option<u64>,
}

/// The middle of some figures; of two, their mean.
pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    let upper = *figures.get(middle)?;
    match figures.len() % 2 {
        1 => Some(upper),
        _ => Some(f64::midpoint(*figures.get(middle - 1)?, upper)),
    }
}

fn per_second(run: &Run) -> f64 {
    count(run.latency.count()) / run.time.as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "no count of ours has more digits than a double")]
pub(crate) fn count(number: u64) -> f64 {
    number as f64
}

/// Resident memory in megabytes.
pub(crate) fn megabytes(bytes: u64) -> f64 {
    count(bytes) / MEGABYTE
}

/// The median over turns of one figure.
fn over_turns(tally: &Tally, figure: impl Fn(&Run) -> f64) -> Option<f64> {
    median(tally.runs.iter().map(figure))
}

/// The median over pairs of turns.
fn paired(one: &Tally, other: Option<&Tally>, figure: impl Fn(&Run, &Run) -> f64) -> Option<f64> {
    median(one.runs.iter().zip(&other?.runs).map(|(one, other)| figure(one, other)))
}

/// Microseconds on the processor for each answer.
pub(crate) fn cpu_per_call(tally: &Tally) -> Option<f64> {
    Some(tally.cpu?.as_secs_f64() * 1e6 / count(tally.calls()))
}

impl Row {
    /// A row of what was measured in turn.
    pub(crate) fn of(name: &str, tallies: Vec<Tally>) -> Row {
        Row { name: name.to_owned(), tallies, ..Row::default() }
    }

    /// The contestant of this name.
    pub(crate) fn tally(&self, name: &str) -> Option<&Tally> {
        self.tallies.iter().find(|tally| tally.name == name)
    }

    /// Writes it to stdout.
    pub(crate) fn write(&self, form: Form) -> Result<(), Failure> {
        let text = match form {
            Form::Json => Value::Object(self.json()).to_string(),
            Form::Table => self.table(),
        };
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")?;
        Ok(out.flush()?)
    }

    fn json(&self) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("row".to_owned(), json!(self.name));
        match self.tally(GATEWAY) {
            Some(gateway) => object.extend(self.figures(gateway)),
            None => {
                for key in ["cpu_us_per_call", "cpu_vs_nginx", "rps_vs_direct", "added_p50_ms"] {
                    object.insert(key.to_owned(), Value::Null);
                }
                object.insert("rss_mb".to_owned(), figure(self.resident.map(megabytes)));
            }
        }
        object.extend(self.more.iter().map(|(key, value)| ((*key).to_owned(), figure(Some(*value)))));
        for tally in self.tallies.iter().filter(|tally| tally.name != GATEWAY) {
            object.insert(tally.name.clone(), Value::Object(self.figures(tally)));
        }
        object
    }

    /// All figures of one contestant. Those that cannot be had are null.
    fn figures(&self, tally: &Tally) -> Map<String, Value> {
        let (direct, nginx) = (self.tally(DIRECT), self.tally(NGINX));
        let cpu = cpu_per_call(tally);
        let cpu_vs_nginx = cpu.zip(nginx.and_then(cpu_per_call)).map(|(cpu, nginx)| cpu / nginx);
        let rate = |one: &Run, other: &Run| per_second(one) / per_second(other);
        let figures = [
            ("cpu_us_per_call", cpu),
            ("cpu_vs_nginx", cpu_vs_nginx),
            (self.rate.unwrap_or("rps"), over_turns(tally, per_second)),
            ("rps_vs_direct", paired(tally, direct, rate)),
            ("rps_vs_nginx", paired(tally, nginx, rate)),
            ("added_p50_ms", paired(tally, direct, |one, other| one.latency.at(0.5) - other.latency.at(0.5))),
            ("p50_ms", over_turns(tally, |run| run.latency.at(0.5))),
            ("p90_ms", over_turns(tally, |run| run.latency.at(0.9))),
            ("p99_ms", over_turns(tally, |run| run.latency.at(0.99))),
            ("p999_ms", over_turns(tally, |run| run.latency.at(0.999))),
            ("rss_mb", tally.resident.map(megabytes)),
        ];
        figures.into_iter().map(|(key, value)| (key.to_owned(), figure(value))).collect()
    }

    fn table(&self) -> String {
        let mut lines = Vec::new();
        for tally in &self.tallies {
            let figures = self.figures(tally);
            let cells = figures.iter().map(|(_, value)| match value.as_f64() {
                Some(value) => format!("{:>13}", short(value)),
                None => format!("{:>13}", ""),
            });
            lines.push(format!("{:<27}{:<12}{}", self.name, tally.name, cells.collect::<String>()));
        }
        let resident = self.resident.map(|bytes| ("rss_mb", megabytes(bytes)));
        for (key, value) in self.more.iter().copied().chain(resident) {
            lines.push(format!("{:<27}{key} {}", self.name, short(value)));
        }
        lines.join("\n")
    }
}

/// The line above the rows of a table.
pub(crate) fn heading() -> String {
    let names = [
        "CPU us/call",
        "vs nginx",
        "per second",
        "vs direct",
        "vs nginx",
        "added p50 ms",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "p99.9 ms",
        "RSS MB",
    ];
    let cells = names.map(|name| format!("{name:>13}")).concat();
    format!("{:<27}{:<12}{cells}", "row", "way")
}

/// With as many digits as mean something.
fn short(value: f64) -> String {
    match value.abs() {
        1000.0.. => format!("{value:.0}"),
        100.0.. => format!("{value:.1}"),
        10.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn figure(value: Option<f64>) -> Value {
    let rounded = value.filter(|value| value.is_finite()).and_then(|value| short(value).parse::<f64>().ok());
    rounded.map_or(Value::Null, |value| json!(value))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::latency::Latency;

    fn tally(name: &str, cpu: Option<u64>, turns: &[(u64, u64)]) -> Tally {
        let runs = turns.iter().map(|(calls, millis)| {
            let mut latency = Latency::new().unwrap();
            (0..*calls).for_each(|_| latency.record(Duration::from_millis(*millis)));
            Run { time: Duration::from_secs(1), latency }
        });
        let runs = runs.collect();
        Tally { name: name.to_owned(), runs, cpu: cpu.map(Duration::from_micros), resident: Some(3_000_000) }
    }

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn ratios_are_medians_over_pairs_of_turns() {
        let direct = tally(DIRECT, None, &[(100, 1), (10, 10), (200, 1)]);
        let nginx = tally(NGINX, Some(600), &[(100, 1), (100, 1), (100, 1)]);
        let gateway = tally(GATEWAY, Some(900), &[(50, 2), (5, 12), (20, 3)]);
        let row = Row::of("x", vec![direct, nginx, gateway]).json();
        assert_eq!(row["rps_vs_direct"], 0.5);
        let added = row["added_p50_ms"].as_f64().unwrap();
        assert!((added - 2.0).abs() < 0.01, "{added}");
        assert_eq!(row["cpu_us_per_call"], 12.0);
        assert_eq!(row["cpu_vs_nginx"], 6.0);
        assert_eq!(row["direct"]["rps"], 100.0);
        assert_eq!(row["direct"]["cpu_us_per_call"], Value::Null);
        assert_eq!(row["rss_mb"], 3.0);
    }

    #[test]
    fn every_row_has_the_figures_that_are_asked_for() {
        let row = Row { name: "startup".to_owned(), more: vec![("ready_ms", 12.0)], ..Row::default() }.json();
        for key in ["row", "cpu_us_per_call", "cpu_vs_nginx", "rps_vs_direct", "added_p50_ms", "rss_mb"] {
            assert!(row.contains_key(key), "{key}");
        }
        assert_eq!(row["ready_ms"], 12.0);
    }
}
