//! How much a tenant lets be asked for, and what it calls a runaway.

use std::sync::Arc;
use std::time::Duration;

use crate::filter::Pattern;

/// The bounds of a tenant.
#[derive(Clone, Debug)]
pub struct TenantLimits {
    /// The rules, in the order they are written.
    pub rules: Vec<LimitRule>,
    /// What an agent that goes in circles is told for; none when nobody looks.
    pub runaway: Option<Runaway>,
    /// For how long a conversation is tainted once it called an untrusted server.
    pub taint: Duration,
}

/// One rule: whose use is counted, of what, and how much there may be.
#[derive(Clone, Debug)]
pub struct LimitRule {
    /// The name, unique in the tenant; what is used up is kept under it from one configuration to the next.
    pub name: Arc<str>,
    /// Whose use is counted together.
    pub per: Per,
    /// What is counted.
    pub method: Counted,
    /// Of this upstream only.
    pub upstream: Option<Arc<str>>,
    /// Of tools with such names only, as clients see them.
    pub tool: Option<Pattern>,
    /// At this virtual server only.
    pub server: Option<Arc<str>>,
    /// So many in a time, and so many at once.
    pub rate: Option<Rate>,
    /// So many running at a time.
    pub concurrent: Option<u32>,
    /// Bytes of requests.
    pub bytes_in: Option<Rate>,
    /// Bytes of answers.
    pub bytes_out: Option<Rate>,
    /// So many in a day of UTC.
    pub budget: Option<u32>,
    /// Sessions of a principal.
    pub sessions: Option<usize>,
    /// Streams of a principal.
    pub streams: Option<u32>,
}

/// Whose use is counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Per {
    /// Everybody of the tenant.
    Tenant,
    /// Each principal.
    Principal,
    /// Each upstream.
    Upstream,
    /// Each tool, prompt or resource.
    Tool,
    /// Each virtual server.
    Server,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counted {
    /// Everything about one tool, prompt or resource.
    Things,
    /// Tools that are called, prompts that are got, arguments that are completed.
    Calls,
    /// Resources that are read or followed.
    Reads,
    /// Pages of lists.
    Lists,
    /// `tools/call`
    ToolsCall,
    /// `prompts/get`
    PromptsGet,
    /// `resources/read`
    ResourcesRead,
    /// `resources/subscribe`
    ResourcesSubscribe,
    /// `completion/complete`
    Complete,
    /// `initialize`
    Initialize,
    /// `sampling/createMessage`, of an upstream.
    Sampling,
    /// `elicitation/create`, of an upstream.
    Elicitation,
    /// `roots/list`, of an upstream.
    Roots,
}

impl Counted {
    /// Whether upstreams ask for it, and not clients.
    pub fn is_asked(self) -> bool {
        matches!(self, Counted::Sampling | Counted::Elicitation | Counted::Roots)
    }

    /// Whether it is about one tool, prompt or resource of an upstream.
    pub fn has_thing(self) -> bool {
        !self.is_asked() && !matches!(self, Counted::Lists | Counted::Initialize)
    }
}

/// So much in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How much, at least 1.
    pub count: u64,
    /// In which time.
    pub every: Duration,
    /// How much of it at once, at least 1.
    pub burst: u64,
}

/// When an agent goes in circles.
#[derive(Clone, Debug)]
pub struct Runaway {
    /// The same call so often in a row.
    pub repeats: usize,
    /// Two calls in turn, each so often.
    pub alternations: usize,
    /// Failures of one tool in a row.
    pub errors: u32,
    /// So many different tools.
    pub fan_out: usize,
    /// Within this time.
    pub within: Duration,
    /// Of these tools nothing is counted.
    pub except: Vec<Pattern>,
}
