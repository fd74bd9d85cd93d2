//! What is measured, in which order.

use crate::{ask::Work, regime::Regime, service::Era};

/// What stands behind the proxies of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The server of this path, over HTTP.
    Http(&'static str),
    /// A stdio server with [`STDIO_TOOLS`] tools. It has no proxy but the gateway.
    Stdio,
}

/// How requests follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loop {
    Closed,
    /// So many requests a second.
    Open(u32),
}

/// One row that is measured in turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) name: &'static str,
    pub(crate) place: Place,
    pub(crate) era: Era,
    pub(crate) work: Work,
    pub(crate) connections: usize,
    pub(crate) sessions: usize,
    pub(crate) pace: Loop,
    /// It belongs to the quick run.
    pub(crate) quick: bool,
}

impl Place {
    /// The number of its tools.
    pub(crate) fn tools(self) -> usize {
        let path = match self {
            Place::Http(path) => path,
            Place::Stdio => return STDIO_TOOLS,
        };
        path.rsplit('/').next().and_then(|tools| tools.parse().ok()).unwrap_or_default()
    }
}

impl Plan {
    /// The usual: calls of a legacy client in a closed loop, one session a connection.
    const fn calls(name: &'static str, place: Place, connections: usize) -> Plan {
        let (era, work, pace) = (Era::Legacy, Work::Echo, Loop::Closed);
        Plan { name, place, era, work, connections, sessions: connections, pace, quick: false }
    }

    /// It asks for lists and not for calls.
    pub(crate) fn lists(&self) -> bool {
        matches!(self.work, Work::List(_))
    }

    const fn quick(self) -> Plan {
        Plan { quick: true, ..self }
    }

    const fn modern(self) -> Plan {
        Plan { era: Era::Modern, ..self }
    }

    const fn sessions(self, sessions: usize) -> Plan {
        Plan { sessions, ..self }
    }

    const fn work(self, work: Work) -> Plan {
        Plan { work, ..self }
    }

    const fn open(self, rate: u32) -> Plan {
        Plan { pace: Loop::Open(rate), ..self }
    }
}

/// Tools of the stdio server.
const STDIO_TOOLS: usize = 10;

/// The legacy server over HTTP that most rows use.
pub(crate) const LEGACY: Place = Place::Http("/legacy/json/10");
const MODERN: Place = Place::Http("/modern/json/10");
const EVENTS: Place = Place::Http("/legacy/sse/10");
const LIST_600: Place = Place::Http("/legacy/json/600");
const LIST_2000: Place = Place::Http("/legacy/json/2000");

/// Connections of the open loop: more than are busy at any moment, unless a proxy falls behind.
const WAITING: usize = 64;

/// Connections that ask for lists.
const LISTING: usize = 8;

/// The rows, those of one gateway after another.
pub(crate) const PLANS: [Plan; 16] = [
    Plan::calls("http-legacy-c1", LEGACY, 1).quick(),
    Plan::calls("http-legacy-c32", LEGACY, 32).quick(),
    Plan::calls("open-1k", LEGACY, WAITING).open(1_000),
    Plan::calls("open-5k", LEGACY, WAITING).open(5_000),
    Plan::calls("big-1mib-c1", LEGACY, 1).work(Work::Big),
    Plan::calls("sessions-1-c32", LEGACY, 32).sessions(1),
    Plan::calls("sessions-100-c32", LEGACY, 32).sessions(100),
    Plan::calls("sessions-2000-c32", LEGACY, 32).sessions(2_000),
    Plan::calls("list-10", LEGACY, LISTING).work(Work::List(10)),
    Plan::calls("http-modern-c1", MODERN, 1).modern(),
    Plan::calls("http-modern-c32", MODERN, 32).modern().quick(),
    Plan::calls("sse-legacy-c32", EVENTS, 32).quick(),
    Plan::calls("stdio-legacy-c1", Place::Stdio, 1).quick(),
    Plan::calls("stdio-legacy-c32", Place::Stdio, 32).quick(),
    Plan::calls("list-600", LIST_600, LISTING).work(Work::List(600)).quick(),
    Plan::calls("list-2000", LIST_2000, LISTING).work(Work::List(2_000)),
];

/// Rows that are measured in turn with each other, and not only with what they are compared with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// What the ratio of their processor time to that of the first is called.
    pub(crate) ratio: &'static str,
    pub(crate) rows: &'static [(Plan, Regime)],
}

/// Calls with few tools in the catalog and with many; under few rules, under many, and under limits.
pub(crate) const GROUPS: [Group; 2] = [
    Group {
        ratio: "cpu_vs_10_tools",
        rows: &[
            (Plan::calls("tools-10-c32", LEGACY, 32).quick(), Regime { rules: 0, limits: false }),
            (Plan::calls("tools-2000-c32", LIST_2000, 32).quick(), Regime { rules: 0, limits: false }),
        ],
    },
    Group {
        ratio: "cpu_vs_10_rules",
        rows: &[
            (Plan::calls("http-legacy-c32-rules10", LEGACY, 32), Regime { rules: 10, limits: false }),
            (Plan::calls("http-legacy-c32-rules50", LEGACY, 32), Regime { rules: 50, limits: false }),
            (Plan::calls("http-legacy-c32-rules1000", LEGACY, 32), Regime { rules: 1000, limits: false }),
            (Plan::calls("http-legacy-c32-limits", LEGACY, 32), Regime { rules: 50, limits: true }),
        ],
    },
];
