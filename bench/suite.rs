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
    row::{self, Form, GATEWAY, Row, cpu_per_call},
    rows::{GROUPS, Group, LEGACY, PLANS, Plan},
    service::Era,
    stage::{self, Stage},
};

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
        for group in &GROUPS {
            if group.rows.iter().any(|(plan, _)| self.wants(plan.name, plan.quick)) {
                self.together(&stage, group).await?;
            }
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
        let gateway = stage.gateway(plan.place)?;
        let mut contestants = stage.without(plan, &gateway.site().token).await?;
        contestants.push(stage::through(&gateway, plan).await?);
        for against in &self.against {
            contestants.extend(stage::other(against, plan).await?);
        }
        let tallies = pair(&mut contestants, self.pace()).await?;
        let rate = plan.lists().then_some("lists_per_s");
        Row { rate, ..Row::of(plan.name, tallies) }.write(self.form)
    }

    /// The rows of a group in turn, each with a gateway of its own; the first is there to be compared with.
    async fn together(&self, stage: &Stage, group: &Group) -> Result<(), Failure> {
        let mut gateways = Vec::new();
        for (plan, regime) in group.rows {
            if gateways.is_empty() || self.wants(plan.name, plan.quick) {
                gateways.push((plan, stage.gateway_under(plan.place, *regime)?));
            }
        }
        let mut contestants = Vec::new();
        for (plan, gateway) in &gateways {
            if contestants.is_empty() {
                contestants = stage.without(plan, &gateway.site().token).await?;
            }
            let mut through = stage::through(gateway, plan).await?;
            plan.name.clone_into(&mut through.name);
            contestants.push(through);
        }
        let mut tallies = pair(&mut contestants, self.pace()).await?;
        let rows = tallies.split_off(tallies.len().saturating_sub(gateways.len()));
        let first = rows.first().and_then(cpu_per_call);
        for (place, mut own) in rows.into_iter().enumerate() {
            let name = std::mem::replace(&mut own.name, GATEWAY.to_owned());
            let ratio = cpu_per_call(&own).zip(first.filter(|_| place > 0)).map(|(own, first)| own / first);
            let mut row = Row::of(&name, tallies.iter().cloned().chain([own]).collect());
            row.more.extend(ratio.map(|ratio| (group.ratio, ratio)));
            row.write(self.form)?;
        }
        Ok(())
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
