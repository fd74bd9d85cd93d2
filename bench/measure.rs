//! Contestants in turn, A B C A B C: what disturbs the machine for a while disturbs all of them.

use std::time::Duration;

use crate::{
    affinity::Pinned,
    failure::{Failure, within},
    load::{Closed, Run},
    open::Open,
    pipe::Pipe,
    process,
};

/// How long each is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Turns of each.
    pub(crate) slices: usize,
    /// One turn.
    pub(crate) slice: Duration,
    /// Before the first turn.
    pub(crate) warm_up: Duration,
}

/// How long the last answers of a turn may take. The open loop may have many to wait for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A load, ready to be put on.
#[derive(Debug)]
pub(crate) enum Load {
    Closed(Closed),
    Open(Open),
    Pipe(Box<Pipe>),
}

/// One way to the same server.
#[derive(Debug)]
pub(crate) struct Contestant {
    pub(crate) name: String,
    pub(crate) load: Load,
    /// The processes between client and server; empty when there are none, or when they are not known.
    pub(crate) pids: Vec<u32>,
}

/// What was seen of one contestant.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) name: String,
    pub(crate) runs: Vec<Run>,
    /// Time on the processor in all turns. `/proc` counts in hundredths of a second, too coarse for one turn; over all
    /// of them the remainders add up to what they should, since a process rests between its turns.
    pub(crate) cpu: Option<Duration>,
    /// Resident memory after the last turn, in bytes.
    pub(crate) resident: Option<u64>,
}

impl Load {
    /// Ends soon after this time, answered or not.
    async fn run(&mut self, time: Duration) -> Result<Run, Failure> {
        let run = async {
            match self {
                Load::Closed(load) => load.run(time).await,
                Load::Open(load) => load.run(time).await,
                Load::Pipe(load) => load.run(time).await,
            }
        };
        within(time + PATIENCE, run).await
    }
}

impl Tally {
    /// Answers in all turns.
    pub(crate) fn calls(&self) -> u64 {
        self.runs.iter().map(|run| run.latency.count()).sum()
    }
}

/// Measures all of them in turn.
pub(crate) async fn pair(contestants: &mut [Contestant], pace: Pace) -> Result<Vec<Tally>, Failure> {
    // Everything that this process starts was started before: a child would inherit it.
    let _pinned = Pinned::to_first()?;
    let mut tallies = Vec::new();
    for contestant in contestants.iter_mut() {
        contestant.load.run(pace.warm_up).await.map_err(|failure| failure.of(&contestant.name))?;
        let cpu = (!contestant.pids.is_empty()).then_some(Duration::ZERO);
        tallies.push(Tally { name: contestant.name.clone(), runs: Vec::new(), cpu, resident: None });
    }
    for _ in 0..pace.slices {
        for (contestant, tally) in contestants.iter_mut().zip(&mut tallies) {
            let before = process::cpu(&contestant.pids)?;
            let run =
                contestant.load.run(pace.slice).await.map_err(|failure| failure.of(&contestant.name))?;
            let spent = process::cpu(&contestant.pids)?.saturating_sub(before);
            tally.cpu = tally.cpu.map(|cpu| cpu + spent);
            tally.runs.push(run);
        }
    }
    for (contestant, tally) in contestants.iter().zip(&mut tallies) {
        if !contestant.pids.is_empty() {
            tally.resident = Some(process::resident(&contestant.pids)?);
        }
    }
    Ok(tallies)
}
