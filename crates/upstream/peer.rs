//! What a seat talks to: a process on this machine, or a server over HTTP.

use crate::counters::Counters;
use crate::declared::Behalf;
use crate::link::Link;
use crate::probe::{self, Opened, Opening, Refused};
use crate::remote::{Remote, Site};
use crate::spec::{Reach, Spec};
use crate::stdio::Process;
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;

/// One start of one server, whatever it is.
pub(crate) enum Peer {
    /// A process of ours.
    Process(Box<Process>),
    /// A server over HTTP.
    Remote(Remote),
}

/// Why a server is no longer of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It exited, or closed its stdout, or ended the stream all its answers come by.
    Closed,
    /// It closed its stdin.
    Deaf,
    /// It wrote a message over the cap.
    LongLine,
    /// It answers nothing, not even when asked whether it is there.
    Hung,
    /// It forgot our session and gives us no other like it, or speaks another era by now.
    Forgetful,
    /// We do not want it any more.
    Unwanted,
}

/// The first fault of a server.
#[derive(Default)]
pub(crate) struct Faults {
    first: OnceLock<Fault>,
    raised: CancellationToken,
}

impl Faults {
    pub(crate) fn raise(&self, fault: Fault) {
        let _later = self.first.set(fault);
        self.raised.cancel();
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.raised.is_cancelled()
    }

    /// Returns when there is one. May be dropped at any await.
    pub(crate) async fn first(&self) -> Fault {
        self.raised.cancelled().await;
        // INVARIANT: it is set before it is raised.
        self.first.get().copied().unwrap_or(Fault::Closed)
    }
}

/// How a server ended: for clients, and for the operator.
pub(crate) struct Ending {
    pub(crate) why: String,
    pub(crate) detail: String,
}

/// What the handshake goes through, so that the peer can be watched meanwhile.
pub(crate) enum Door {
    Pipes(Arc<Link>),
    Web(Arc<Site>),
}

impl Door {
    /// Opens the conversation. The caller bounds the time in all and watches the peer.
    pub(crate) async fn open(self, opening: Opening, spec: &Spec) -> Result<Opened, Refused> {
        match self {
            Self::Pipes(link) => probe::open(&link, opening, spec).await,
            Self::Web(site) => site.open(opening).await,
        }
    }
}

impl Peer {
    /// Starts a process, or makes ready to talk over HTTP. The error says what cannot be done.
    pub(crate) fn start(spec: &Arc<Spec>, behalf: &Behalf, counters: &Arc<Counters>) -> Result<Self, String> {
        match &spec.reach {
            Reach::Stdio(launch) => {
                let started = Process::spawn(spec, launch, behalf, counters);
                let process = started.map_err(|error| format!("it cannot be started: {error}"))?;
                Ok(Self::Process(Box::new(process)))
            }
            Reach::Http(address) => Remote::start(spec, address, behalf, counters).map(Self::Remote),
        }
    }

    pub(crate) fn link(&self) -> &Arc<Link> {
        match self {
            Self::Process(process) => &process.link,
            Self::Remote(remote) => remote.link(),
        }
    }

    /// The process we started, if it is one.
    pub(crate) fn pid(&self) -> Option<u32> {
        match self {
            Self::Process(process) => Some(process.pid),
            Self::Remote(_) => None,
        }
    }

    pub(crate) fn door(&self) -> Door {
        match self {
            Self::Process(process) => Door::Pipes(Arc::clone(&process.link)),
            Self::Remote(remote) => Door::Web(Arc::clone(remote.site())),
        }
    }

    /// Returns when it is no longer of use. May be dropped at any await.
    pub(crate) async fn fault(&mut self) -> Fault {
        match self {
            Self::Process(process) => process.fault().await,
            Self::Remote(remote) => remote.fault().await,
        }
    }

    /// Ends it, waits until nothing is left of it here, and says how it ended. All open requests have failed by then.
    pub(crate) async fn end(self, fault: Fault) -> Ending {
        match self {
            Self::Process(process) => process.end(fault).await,
            Self::Remote(remote) => remote.end(fault).await,
        }
    }
}
