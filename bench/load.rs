//! The closed loop over HTTP: each connection asks again as soon as it was answered.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::{
    ask::{Query, Work},
    connection::Connection,
    failure::{Failure, within},
    latency::Latency,
    request::{FIRST, Site},
    service::Era,
    session,
};

/// No single answer takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Numbers of one connection; the next connection has those after.
const NUMBERS: u64 = 10_000_000;

/// What is asked, and by how many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub(crate) era: Era,
    pub(crate) work: Work,
    pub(crate) connections: usize,
    /// Sessions in all, spread over the connections; connections share them when there are fewer.
    pub(crate) sessions: usize,
}

/// What one stretch of load has shown.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) time: Duration,
    pub(crate) latency: Latency,
}

/// One connection and what it asks, each session in its turn.
#[derive(Debug)]
pub(crate) struct Asker {
    connection: Connection,
    queries: Vec<Query>,
    turn: usize,
    number: u64,
}

/// A load that can be put on again and again.
#[derive(Debug)]
pub(crate) struct Closed {
    askers: Vec<Asker>,
}

impl Asker {
    /// Opens connections and sessions.
    pub(crate) async fn all(site: &Site, demand: Demand) -> Result<Vec<Asker>, Failure> {
        let mut connection = Connection::open(site.address).await?;
        let mut sessions = Vec::with_capacity(demand.sessions);
        for _ in 0..demand.sessions {
            sessions.push(session::open(&mut connection, site, demand.era).await?);
        }
        let mut askers = Vec::with_capacity(demand.connections);
        let mut number = FIRST;
        for place in 0..demand.connections {
            let first = place % demand.sessions.max(1);
            let mine = sessions.iter().skip(first).step_by(demand.connections.max(1));
            let queries = mine.map(|session| Query::new(site, demand.era, demand.work, session.as_deref()));
            let queries = queries.collect();
            askers.push(Asker {
                connection: Connection::open(site.address).await?,
                queries,
                turn: 0,
                number,
            });
            number += NUMBERS;
        }
        Ok(askers)
    }

    /// The same, for a caller who does not bound the time.
    pub(crate) async fn ask_once(&mut self) -> Result<(), Failure> {
        within(PATIENCE, self.ask()).await
    }

    /// Asks once. The caller bounds the time.
    pub(crate) async fn ask(&mut self) -> Result<(), Failure> {
        self.turn = (self.turn + 1) % self.queries.len().max(1);
        let query = self.queries.get_mut(self.turn).ok_or_else(|| Failure::new("nothing to ask"))?;
        self.number += 1;
        query.ask(&mut self.connection, self.number).await
    }

    async fn until(mut self, end: Instant) -> Result<(Asker, Latency), Failure> {
        let mut latency = Latency::new()?;
        let mut now = Instant::now();
        while now < end {
            self.ask().await?;
            let then = Instant::now();
            latency.record(then - now);
            now = then;
        }
        Ok((self, latency))
    }
}

impl Closed {
    /// Opens what it needs.
    pub(crate) async fn open(site: &Site, demand: Demand) -> Result<Closed, Failure> {
        Ok(Closed { askers: Asker::all(site, demand).await? })
    }

    /// Asks for this long. The caller bounds the time.
    pub(crate) async fn run(&mut self, time: Duration) -> Result<Run, Failure> {
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for asker in self.askers.drain(..) {
            tasks.spawn(asker.until(begun + time));
        }
        let mut latency = Latency::new()?;
        while let Some(done) = tasks.join_next().await {
            let (asker, heard) = done.map_err(|error| Failure::new(error.to_string()))??;
            latency.add(&heard);
            self.askers.push(asker);
        }
        Ok(Run { time: begun.elapsed(), latency })
    }
}
