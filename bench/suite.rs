//! One run: its rows in order, the pace of each, and what is said of the machine at the end.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    against::Against,
    failure::Failure,
    measure::{Pace, pair},
    memory, nginx,
    row::{self, DIRECT, Form, GATEWAY, NGINX, Row, cpu_per_call},
    rows::{CATALOGS, LEGACY, PLANS, Plan},
    service::Era,
    stage::{self, Stage},
};

/// What the gateway with the larger catalog is called while both are measured in turn.
const MANY: &str = "many";

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The main rows, in short turns.
    Quick,
    /// All but the next.
    Full,
    /// Also what takes minutes to see.
    Long,
}

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Suite {
    pub(crate) extent: Extent,
    pub(crate) form: Form,
    /// How the names of wanted rows begin; empty for all.
    pub(crate) only: Vec<String>,
    pub(crate) against: Vec<Against>,
}

impl Suite {
    /// Measures and writes row by row.
    pub(crate) async fn run(&self, program: PathBuf) -> Result<(), Failure> {
        let stage = Stage::set(program)?;
        if self.form == Form::Table {
            say(&row::heading())?;
        }
        self.check(&stage).await?;
        for plan in PLANS.iter().filter(|plan| self.wants(plan.name, plan.quick)) {
            self.turns(&stage, plan).await.map_err(|failure| failure.of(plan.name))?;
        }
        if CATALOGS.iter().any(|plan| self.wants(plan.name, plan.quick)) {
            self.catalogs(&stage).await?;
        }
        self.alone(&stage).await?;
        if self.form == Form::Table {
            say(&machine(stage.gateway_program()))?;
        }
        Ok(())
    }

    fn wants(&self, name: &str, quick: bool) -> bool {
        match self.only.as_slice() {
            [] => quick || self.extent != Extent::Quick,
            only => only.iter().any(|only| name.starts_with(only.as_str())),
        }
    }

    fn wants_long(&self, name: &str) -> bool {
        self.wants(name, false) && (self.extent == Extent::Long || !self.only.is_empty())
    }

    fn pace(&self) -> Pace {
        match self.extent {
            Extent::Quick => {
                Pace { slices: 3, slice: Duration::from_millis(600), warm_up: Duration::from_millis(150) }
            }
            Extent::Full | Extent::Long => {
                Pace { slices: 5, slice: Duration::from_secs(3), warm_up: Duration::from_secs(1) }
            }
        }
    }

    /// What is measured is what is said.
    async fn check(&self, stage: &Stage) -> Result<(), Failure> {
        let gateway = stage.gateway(LEGACY)?;
        gateway.settled(Era::Legacy, LEGACY.tools()).await?;
        gateway.checked(Era::Legacy).await
    }

    /// One row, with a gateway of its own: its memory is of this row, and its audit files go with it.
    async fn turns(&self, stage: &Stage, plan: &Plan) -> Result<(), Failure> {
        let gateway = stage.controlled(plan.place, plan.controls)?;
        let mut contestants = stage.without(plan, &gateway.site().token).await?;
        contestants.push(stage::through(&gateway, plan).await?);
        for against in &self.against {
            contestants.extend(stage::other(against, plan).await?);
        }
        let tallies = pair(&mut contestants, self.pace()).await?;
        let rate = plan.lists().then_some("lists_per_s");
        Row { rate, ..Row::of(plan.name, tallies) }.write(self.form)
    }

    /// Calls with few and with many tools in the catalog, all in turn.
    async fn catalogs(&self, stage: &Stage) -> Result<(), Failure> {
        let [few, many] = &CATALOGS;
        let gateways = (stage.gateway(few.place)?, stage.gateway(many.place)?);
        let mut contestants = stage.without(few, &gateways.0.site().token).await?;
        contestants.push(stage::through(&gateways.0, few).await?);
        let mut other = stage::through(&gateways.1, many).await?;
        MANY.clone_into(&mut other.name);
        contestants.push(other);
        let tallies = pair(&mut contestants, self.pace()).await?;
        let chosen = |names: [&str; 3]| {
            let chosen = tallies.iter().filter(|tally| names.contains(&tally.name.as_str()));
            chosen.cloned().collect::<Vec<_>>()
        };
        let mut rows = [
            Row::of(few.name, chosen([DIRECT, NGINX, GATEWAY])),
            Row::of(many.name, chosen([DIRECT, NGINX, MANY])),
        ];
        let cpu = |name: &str| tallies.iter().find(|tally| tally.name == name).and_then(cpu_per_call);
        if let ([_, row], Some(few), Some(many)) = (&mut rows, cpu(GATEWAY), cpu(MANY)) {
            row.more.push(("cpu_vs_10_tools", many / few));
            row.tallies
                .iter_mut()
                .filter(|tally| tally.name == MANY)
                .for_each(|tally| GATEWAY.clone_into(&mut tally.name));
        }
        rows.iter().try_for_each(|row| row.write(self.form))
    }

    /// The rows that are not measured in turn.
    async fn alone(&self, stage: &Stage) -> Result<(), Failure> {
        if self.wants("startup", true) {
            let times = if self.extent == Extent::Quick { 3 } else { 9 };
            memory::startup(stage, times).await?.write(self.form)?;
        }
        if self.wants_long(memory::SESSIONS) {
            memory::idle_sessions(stage).await?.write(self.form)?;
        }
        if self.wants_long(memory::STREAMS) {
            memory::idle_streams(stage).await?.write(self.form)?;
        }
        if self.wants_long(memory::LOADED) {
            memory::after_load(stage).await?.write(self.form)?;
        }
        Ok(())
    }
}

fn say(text: &str) -> Result<(), Failure> {
    Ok(writeln!(io::stdout(), "{text}")?)
}

/// What the figures were taken on, and of what.
fn machine(gateway: &Path) -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown", |(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    let version =
        Command::new(gateway).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    format!(
        "\n{model}, {cores} cores, Linux {}; {}; {}",
        kernel.trim(),
        nginx::version(),
        String::from_utf8_lossy(&version).trim()
    )
}
