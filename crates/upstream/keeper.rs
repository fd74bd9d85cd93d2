//! Keeps one server up: start or connect, handshake, serve, and again after a pause that grows.

use crate::backoff::Backoff;
use crate::connection::{Connection, Wait};
use crate::counters::Counters;
use crate::declared::Behalf;
use crate::error::UpstreamError;
use crate::exchange::{Exchange, Incoming};
use crate::hello::{self, Era};
use crate::link::{Link, Manner};
use crate::notice::{Inbox, Notice, Voice, What};
use crate::peer::{Ending, Fault, Peer};
use crate::probe::{Opening, Refused};
use crate::remote::heads;
use crate::spec::{EraFound, EraMemory, Reach, Spec};
use crate::tending;
use crate::upstream::Status;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use wire::{Method, Shape};

/// Silence after a ping until a server counts as hung (spec P-12).
const PING_PATIENCE: Duration = Duration::from_secs(10);
/// How long a server may take to be told what the last one knew.
const PREPARING: Duration = Duration::from_secs(10);
/// How long a full queue to the gateway may hold us up.
const TELL_PATIENCE: Duration = Duration::from_secs(1);

/// The task behind one seat.
pub(crate) struct Keeper {
    spec: Arc<Spec>,
    voice: Voice,
    behalf: Behalf,
    memory: Arc<dyn EraMemory>,
    status: watch::Sender<Status>,
    counters: Arc<Counters>,
    backoff: Backoff,
    starts: u64,
    opening: Choice,
    /// Why it is of no use to us, in case it refuses the handshake on an unprobed process too.
    modern: Option<UpstreamError>,
}

/// How the next handshake begins, beyond what the memory says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// As remembered.
    Remembered,
    /// It did not survive the probe just now (spec E-13).
    NoProbe,
    /// What is remembered was contradicted (spec E-16).
    Probe,
}

/// How one process or session went.
enum Life {
    /// We were told to stop.
    Stopped,
    /// The probe cost it its life, or its willingness; try again without.
    OnceMoreUnprobed,
    Failed {
        /// Up for how long, if ever.
        up: Option<Duration>,
        error: UpstreamError,
        detail: String,
    },
}

impl Keeper {
    pub(crate) fn new(
        voice: Voice,
        behalf: Behalf,
        memory: Arc<dyn EraMemory>,
        status: watch::Sender<Status>,
        counters: Arc<Counters>,
    ) -> Self {
        let spec = Arc::clone(&voice.spec);
        let backoff = Backoff::of(&spec.reach);
        Self {
            spec,
            voice,
            behalf,
            memory,
            status,
            counters,
            backoff,
            starts: 0,
            opening: Choice::Remembered,
            modern: None,
        }
    }

    /// Runs until told to stop, and returns when nothing of the server is left here.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            match self.live(&stop).await {
                Life::Stopped => break,
                Life::OnceMoreUnprobed => {}
                Life::Failed { up, error, detail } => {
                    let pause = self.backoff.pause(up, &error);
                    self.rest(pause, error, detail, &stop).await;
                }
            }
        }
        self.status.send_replace(Status::Stopped);
        // Nobody may be listening any more, and stopping never waits for the gateway.
        let _full =
            self.voice.notices.try_send(self.voice.notice(What::Down { why: "it was stopped".to_owned() }));
    }

    /// One process or session from start to end.
    async fn live(&mut self, stop: &CancellationToken) -> Life {
        let mut peer = match self.start() {
            Ok(peer) => peer,
            Err(why) => {
                let error = UpstreamError::not_running(why.as_str());
                return Life::Failed { up: None, error, detail: why };
            }
        };
        let opening = self.opening();
        let handshake = timeout(self.spec.patience.start, peer.door().open(opening, &self.spec));
        let opened = tokio::select! {
            // What it answered before it died is looked at first.
            biased;
            opened = handshake => opened.unwrap_or(Err(Refused::Silent)),
            fault = peer.fault() => return self.died_early(peer, opening, fault).await,
            () = stop.cancelled() => {
                self.finish(peer, Fault::Unwanted).await;
                return Life::Stopped;
            }
        };
        match opened {
            Ok(opened) => {
                self.remember(opened.found);
                let since = Instant::now();
                peer.link().settle(opened.facts.revision.era());
                let connection = Connection::new(Arc::clone(peer.link()), opened.facts, peer.pid());
                let fault = match self.prepare(&mut peer, &connection, stop).await {
                    Some(fault) => fault,
                    None => {
                        self.status.send_replace(Status::Up { connection: Arc::clone(&connection), since });
                        self.serve(&mut peer, &connection, stop).await
                    }
                };
                if fault == Fault::Forgetful {
                    self.opening = Choice::Probe;
                }
                self.behalf.wishes.begin();
                let ending = self.finish(peer, fault).await;
                if stop.is_cancelled() {
                    return Life::Stopped;
                }
                let error = UpstreamError::not_running(ending.why);
                Life::Failed { up: Some(since.elapsed()), error, detail: ending.detail }
            }
            Err(Refused::Gone) => {
                let fault = peer.fault().await;
                self.died_early(peer, opening, fault).await
            }
            Err(refused) => self.refused(peer, opening, refused).await,
        }
    }

    fn start(&mut self) -> Result<Peer, String> {
        self.starts += 1;
        self.behalf.speaker.heard();
        if self.starts > 1 {
            self.counters.add(|counters| &counters.restarts);
        }
        let peer = Peer::start(&self.spec, &self.behalf, &self.counters)?;
        let (tenant, upstream) = (&*self.spec.tenant, &*self.spec.id);
        let (seat, start) = (&self.voice.seat, self.starts);
        // spec P-14: every start is on record.
        match &self.spec.reach {
            Reach::Stdio(launch) => {
                let (pid, program) = (peer.pid(), launch.program.display());
                tracing::info!(tenant, upstream, ?seat, pid, %program, start, "started");
            }
            Reach::Http(_) => tracing::info!(tenant, upstream, ?seat, start, "connecting"),
        }
        Ok(peer)
    }

    async fn finish(&self, peer: Peer, fault: Fault) -> Ending {
        let pid = peer.pid();
        let ending = peer.end(fault).await;
        let (tenant, upstream) = (&*self.spec.tenant, &*self.spec.id);
        tracing::info!(tenant, upstream, pid, "ended: {}", ending.detail);
        ending
    }

    fn opening(&self) -> Opening {
        match (self.opening, self.memory.recall(&self.spec.tenant, &self.spec.id)) {
            (Choice::NoProbe, _) => Opening::Initialize,
            (Choice::Probe, _) => Opening::Discover,
            (Choice::Remembered, Some(EraFound::Legacy | EraFound::DiesWhenProbed)) => Opening::Initialize,
            (Choice::Remembered, Some(EraFound::Modern) | None) => Opening::Discover,
        }
    }

    fn remember(&mut self, found: EraFound) {
        let found = if self.opening == Choice::NoProbe { EraFound::DiesWhenProbed } else { found };
        let known = self.memory.recall(&self.spec.tenant, &self.spec.id);
        // Without a probe, "legacy" is only what we remembered anyway.
        let nothing_new = known == Some(EraFound::DiesWhenProbed) && self.opening == Choice::Remembered;
        if known != Some(found) && !nothing_new {
            self.memory.remember(&self.spec.tenant, &self.spec.id, found);
        }
        self.opening = Choice::Remembered;
    }

    /// It went away during the handshake.
    async fn died_early(&mut self, peer: Peer, opening: Opening, fault: Fault) -> Life {
        let ending = self.finish(peer, fault).await;
        if opening == Opening::Discover {
            let before = std::mem::replace(&mut self.opening, Choice::NoProbe);
            // At once, but only once: a server that dies anyway must not start twice as often (bug B38).
            if before == Choice::Remembered {
                return Life::OnceMoreUnprobed;
            }
        }
        Life::Failed { up: None, error: UpstreamError::not_running(ending.why), detail: ending.detail }
    }

    /// It stayed, but there is no agreement.
    async fn refused(&mut self, peer: Peer, opening: Opening, refused: Refused) -> Life {
        let error = match refused {
            // Over HTTP silence says nothing about the era (spec E-15).
            Refused::Silent if opening == Opening::Discover && matches!(peer, Peer::Process(_)) => {
                // It may be wedged by the probe (spec E-13): the next try goes without.
                self.opening = Choice::NoProbe;
                UpstreamError::not_running("it does not answer initialize")
            }
            Refused::Silent | Refused::Gone => UpstreamError::not_running(match peer {
                Peer::Process(_) => "it does not answer initialize",
                Peer::Remote(_) => "it does not answer",
            }),
            // What proves nothing about the era leaves what is remembered as it is (spec E-15).
            Refused::By(
                error @ (UpstreamError::NotRunning { .. }
                | UpstreamError::Exited { .. }
                | UpstreamError::TimedOut { .. }
                | UpstreamError::Credential { .. }
                | UpstreamError::Busy),
            ) => error,
            // Some servers settle on the era of the first message: a new process may take the handshake yet.
            Refused::Modern(error) if self.opening == Choice::Remembered => {
                self.opening = Choice::NoProbe;
                self.modern = Some(error);
                self.finish(peer, Fault::Unwanted).await;
                return Life::OnceMoreUnprobed;
            }
            Refused::By(error) | Refused::Modern(error) => {
                self.opening = Choice::Probe;
                // It was asked in both ways; what it said to the first is the better reason.
                self.modern.take().unwrap_or(error)
            }
        };
        let ending = self.finish(peer, Fault::Unwanted).await;
        let last = ending.detail.strip_prefix(&ending.why).unwrap_or_default();
        let detail = match &error {
            UpstreamError::NotRunning { why } => format!("{why}{last}"),
            other => format!("{other}{last}"),
        };
        Life::Failed { up: None, error, detail }
    }

    /// Tells a server that was started again what the last one knew, before anybody talks to it (spec P-06). Returns early with what
    /// ends it.
    async fn prepare(
        &self,
        peer: &mut Peer,
        connection: &Connection,
        stop: &CancellationToken,
    ) -> Option<Fault> {
        self.behalf.wishes.begin();
        let link = Arc::clone(peer.link());
        tokio::select! {
            biased;
            // What is not told by then is told beside the first requests.
            _told_or_late = timeout(PREPARING, tending::catch_up(&link, connection.facts())) => None,
            fault = peer.fault() => Some(fault),
            () = stop.cancelled() => Some(Fault::Unwanted),
        }
    }

    /// Serves an open connection until its server is of no use any more.
    async fn serve(&self, peer: &mut Peer, connection: &Arc<Connection>, stop: &CancellationToken) -> Fault {
        let link = Arc::clone(peer.link());
        let mut announced = false;
        let mut check: Option<Check> = None;
        let mut tending = pin!(tending::tend(&link, connection.facts()));
        loop {
            tokio::select! {
                never = &mut tending => match never {},
                () = stop.cancelled() => return Fault::Unwanted,
                fault = peer.fault() => return fault,
                () = link.suspected(), if check.is_none() => check = Some(Check::begin(&link)),
                verdict = verdict(&mut check, &link), if check.is_some() => match verdict {
                    Ok(()) => check = None,
                    Err(fault) => return fault,
                },
                permit = self.wanted(&link.inbox, announced), if !self.voice.notices.is_closed() => {
                    let Some(permit) = permit else { continue };
                    if !announced {
                        announced = true;
                        permit.send(self.voice.notice(What::Up(Arc::clone(connection))));
                    } else if let Some(frame) = link.inbox.pop() {
                        permit.send(self.voice.notice(match frame.shape() {
                            Shape::Request => What::Request(Arc::clone(connection), frame),
                            Shape::Notification | Shape::Result | Shape::Failure => What::Notification(frame),
                        }));
                    }
                }
            }
        }
    }

    /// A place in the gateway's queue, once there is something to put there. `None`: the gateway is gone.
    async fn wanted(&self, inbox: &Inbox, announced: bool) -> Option<mpsc::Permit<'_, Notice>> {
        if announced {
            inbox.ready().await;
        }
        self.voice.notices.reserve().await.ok()
    }

    /// Says that it is down, and leaves it alone for a while.
    async fn rest(&self, pause: Duration, error: UpstreamError, detail: String, stop: &CancellationToken) {
        let (tenant, upstream) = (&*self.spec.tenant, &*self.spec.id);
        tracing::warn!(tenant, upstream, failures = self.backoff.failures(), ?pause, "down: {detail}");
        let told = self.voice.notice(What::Down { why: detail.clone() });
        let until = Instant::now() + pause;
        let may_help = matches!(error, UpstreamError::Credential { .. });
        self.status.send_replace(if pause.is_zero() {
            Status::Starting { since: until }
        } else {
            Status::Waiting { until, detail, error, failures: self.backoff.failures() }
        });
        let rest = async {
            // A gateway that does not listen delays no restart for long.
            if self.voice.notices.send_timeout(told, TELL_PATIENCE).await.is_err() {
                self.counters.add(|counters| &counters.dropped);
            }
            sleep_until(until).await;
        };
        tokio::select! {
            () = rest => {}
            // What another caller brings along may be taken: that is worth a try at once.
            () = self.behalf.speaker.another(), if may_help => {}
            () = stop.cancelled() => {}
        }
        if may_help && self.behalf.speaker.is_news() {
            self.status.send_replace(Status::Starting { since: Instant::now() });
        }
    }
}

/// A question that waits for any sign of life.
struct Check {
    heard: u64,
    until: Instant,
    exchange: Option<Exchange>,
}

impl Check {
    fn begin(link: &Arc<Link>) -> Self {
        let heard = link.heard();
        let wait = Wait { first: PING_PATIENCE, most: PING_PATIENCE, progress: false };
        // spec P-12: there is no ping in the modern era.
        let asked = if link.is_modern() {
            let heads = link.is_modern_over_http().then(|| heads::modern(Method::Discover, None, &[]).ok());
            link.send(&hello::discover, heads.flatten(), wait, Manner::Quiet)
        } else {
            link.send(&hello::ping, None, wait, Manner::Quiet)
        };
        // With its queue full it cannot be asked; silence says the same then.
        Self { heard, until: Instant::now() + PING_PATIENCE, exchange: asked.ok() }
    }
}

/// Whether the server lives: it answered, or sent anything at all since it was asked. May be dropped at any await.
async fn verdict(check: &mut Option<Check>, link: &Link) -> Result<(), Fault> {
    let Some(check) = check else { return Ok(()) };
    let Some(exchange) = &mut check.exchange else {
        sleep_until(check.until).await;
        return if link.heard() == check.heard { Err(Fault::Hung) } else { Ok(()) };
    };
    match exchange.next().await {
        Incoming::Failed(UpstreamError::TimedOut { .. }) if link.heard() == check.heard => Err(Fault::Hung),
        Incoming::Failed(UpstreamError::NotRunning { .. }) => Err(Fault::Hung),
        // What does not understand a modern question is a modern server no more (spec E-16).
        Incoming::Failed(UpstreamError::Garbled { .. }) if link.is_modern() => Err(Fault::Forgetful),
        Incoming::Answer(frame) if link.is_modern() && matches!(hello::era(&frame, true), Era::Legacy) => {
            Err(Fault::Forgetful)
        }
        Incoming::Answer(_)
        | Incoming::Progress(_)
        | Incoming::Question(_)
        | Incoming::Told(_)
        | Incoming::Later
        | Incoming::Failed(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
