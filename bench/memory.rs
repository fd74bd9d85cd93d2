//! Rows without turns: how long a start takes, and what stays in memory.

use std::time::Duration;

use tokio::time::sleep;

use crate::{
    ask::Work,
    connection::Connection,
    failure::{Failure, within},
    gateway::Gateway,
    load::{Asker, Closed, Demand},
    process,
    row::{Row, count, median, megabytes},
    rows::LEGACY,
    service::Era,
    session,
    stage::Stage,
};

/// The names of the long rows.
pub(crate) const SESSIONS: &str = "idle-sessions-10k";
pub(crate) const STREAMS: &str = "idle-streams-10k";
pub(crate) const LOADED: &str = "memory-after-load";

/// Sessions, or streams, that are open and say nothing.
const IDLE: usize = 10_000;

/// A load that should leave nothing behind, and how long after it memory is read.
const LOAD: Duration = Duration::from_secs(30);
const REST: Duration = Duration::from_secs(60);

/// Connections of that load, and calls of everybody before memory is first read.
const CONNECTIONS: usize = 32;

/// Readings of memory, and the pause before each: freed pages go back with a delay.
const READINGS: usize = 5;
const PAUSE: Duration = Duration::from_millis(300);

/// From the start of the process until it takes messages.
pub(crate) async fn startup(stage: &Stage, times: usize) -> Result<Row, Failure> {
    let mut millis = Vec::new();
    let mut resident = None;
    for _ in 0..times {
        let gateway = stage.gateway(LEGACY)?;
        millis.push(gateway.started.as_secs_f64() * 1000.0);
        gateway.settled(Era::Legacy, LEGACY.tools()).await?;
        resident = Some(process::resident(&[gateway.pid()])?);
    }
    let more = median(millis).map(|millis| ("ready_ms", millis)).into_iter().collect();
    Ok(Row { name: "startup".to_owned(), more, resident, ..Row::default() })
}

/// What so many sessions cost that nobody uses.
pub(crate) async fn idle_sessions(stage: &Stage) -> Result<Row, Failure> {
    let gateway = fresh(stage).await?;
    let before = settled(&gateway).await?;
    drop(sessions(&gateway).await?);
    grown(SESSIONS, &gateway, before).await
}

/// What so many sessions cost, each with an open stream.
pub(crate) async fn idle_streams(stage: &Stage) -> Result<Row, Failure> {
    let gateway = fresh(stage).await?;
    let before = settled(&gateway).await?;
    let mut streams = Vec::with_capacity(IDLE);
    for session in sessions(&gateway).await? {
        streams.push(session::listen(gateway.site(), &session).await?);
    }
    let row = grown(STREAMS, &gateway, before).await;
    drop(streams);
    row
}

/// What a load leaves behind a minute after it.
pub(crate) async fn after_load(stage: &Stage) -> Result<Row, Failure> {
    let gateway = fresh(stage).await?;
    let before = settled(&gateway).await?;
    let demand =
        Demand { era: Era::Legacy, work: Work::Echo, connections: CONNECTIONS, sessions: CONNECTIONS };
    within(LOAD + REST, Closed::open(gateway.site(), demand).await?.run(LOAD)).await?;
    sleep(REST).await;
    grown(LOADED, &gateway, before).await
}

/// A gateway that has done everything once, so that what is made once is made before memory is read.
async fn fresh(stage: &Stage) -> Result<Gateway, Failure> {
    let gateway = stage.gateway(LEGACY)?;
    gateway.settled(Era::Legacy, LEGACY.tools()).await?;
    let demand = Demand { era: Era::Legacy, work: Work::Echo, connections: 1, sessions: 1 };
    for mut asker in Asker::all(gateway.site(), demand).await? {
        asker.ask_once().await?;
    }
    Ok(gateway)
}

/// Opens them all over one connection, which is closed then.
async fn sessions(gateway: &Gateway) -> Result<Vec<String>, Failure> {
    let site = gateway.site();
    let mut connection = Connection::open(site.address).await?;
    let mut sessions = Vec::with_capacity(IDLE);
    for _ in 0..IDLE {
        let session = session::open(&mut connection, site, Era::Legacy).await?;
        sessions.push(session.ok_or_else(|| Failure::new("`initialize` opened no session"))?);
    }
    Ok(sessions)
}

async fn grown(name: &str, gateway: &Gateway, before: u64) -> Result<Row, Failure> {
    let after = settled(gateway).await?;
    let more = vec![("start_mb", megabytes(before)), ("mb_over_start", (count(after) - count(before)) / 1e6)];
    Ok(Row { name: name.to_owned(), more, resident: Some(after), ..Row::default() })
}

/// The lowest of a few readings, in bytes.
async fn settled(gateway: &Gateway) -> Result<u64, Failure> {
    let mut lowest = u64::MAX;
    for _ in 0..READINGS {
        sleep(PAUSE).await;
        lowest = lowest.min(process::resident(&[gateway.pid()])?);
    }
    Ok(lowest)
}
