//! Does every answer reach who asked? Eight tenants with tokens of their own, 64 connections, the ids 1 to 10 only, and
//! servers whose answers come late, twice, out of order, and unasked.

use std::{
    io::{self, Write as _},
    path::Path,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use crate::{failure::Failure, unruly::COUNT};

mod asker;
mod stand;
mod tally;

use asker::Asker;
use stand::{SERVERS, Stand, TENANTS};
use tally::Tally;

/// Connections in all.
const CONNECTIONS: usize = 64;

/// How long a server may take to be there.
const PATIENCE: Duration = Duration::from_secs(20);

/// Calls so many times and says what came of it.
///
/// # Errors
/// When one answer reached somebody else, or a call failed that should not have.
pub(crate) async fn run(program: &Path, calls: u64) -> Result<(), Failure> {
    let stand = Stand::start(program)?;
    let tally = Arc::new(Tally::new(calls));
    let (mut askers, mut counters) = (Vec::new(), Vec::new());
    for (tenant, site) in stand.sites.iter().enumerate() {
        askers.extend(Asker::all(tenant, site, CONNECTIONS / TENANTS).await?);
        counters.extend(Asker::all(tenant, site, 1).await?);
    }
    for counter in &mut counters {
        settled(counter).await.map_err(|failure| failure.of(&stand.log()))?;
    }
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for asker in askers {
        let tally = Arc::clone(&tally);
        tasks.spawn(async move { asker.ask_all(&tally).await });
    }
    while let Some(done) = tasks.join_next().await {
        done.map_err(|error| Failure::new(error.to_string()))?.map_err(|failure| failure.of(&stand.log()))?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let mut told = [0; 5];
    for counter in &mut counters {
        for server in SERVERS {
            for (sum, more) in told.iter_mut().zip(counter.count(server, COUNT).await?) {
                *sum += more;
            }
        }
    }
    report(&tally, calls, seconds, told)?;
    let (crossed, errors) = (tally.crossed.load(Relaxed), tally.errors.load(Relaxed));
    let answered = tally.own.load(Relaxed) + tally.late.load(Relaxed) + tally.hung_up.load(Relaxed);
    match (crossed, errors, answered == calls) {
        (0, 0, true) => Ok(()),
        _ => Err(Failure::new(format!("{crossed} crossed answers and {errors} errors\n{}", stand.log()))),
    }
}

/// Waits until all servers of a tenant answer.
async fn settled(counter: &mut Asker) -> Result<(), Failure> {
    for server in SERVERS {
        let end = Instant::now() + PATIENCE;
        while counter.count(server, COUNT).await?.is_empty() {
            if Instant::now() > end {
                return Err(Failure::new(format!("the server `{server}` is not there")));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

fn report(tally: &Tally, calls: u64, seconds: f64, told: [u64; 5]) -> Result<(), Failure> {
    let [heard, late, twice, again, strange] = told;
    let mut out = io::stdout();
    for line in tally.shown() {
        writeln!(out, "{line}")?;
    }
    writeln!(
        out,
        "servers heard {heard} calls, answered {twice} twice and {late} after the deadline, {again} once more after \
         later ones, and gave {strange} answers to what nobody asked"
    )?;
    writeln!(
        out,
        "{calls} calls: {} crossed, {} errors, {} own answers, {} past their deadline, {} hung up; {seconds:.1} s",
        tally.crossed.load(Relaxed),
        tally.errors.load(Relaxed),
        tally.own.load(Relaxed),
        tally.late.load(Relaxed),
        tally.hung_up.load(Relaxed),
    )?;
    Ok(())
}
