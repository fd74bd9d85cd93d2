//! What may be written about limits.

use std::time::Duration;

use serde_json::{Value, json};

use super::{DAY_MS, HOUR_MS};
use crate::choice::OneOf;
use crate::form::{Choice, Form};
use crate::model::{Counted, Per};
use crate::quantity::{Count, Time, parse_size};
use crate::reader::At;
use crate::section::{OrWord, WordOr, section};
use crate::word::{Mistake, Word};
use crate::words::{Glob, Id, RuleName};

/// How long a conversation stays tainted.
pub(crate) type TaintLife = Time<1000, { 30 * DAY_MS }>;
/// How far back a runaway is looked for.
pub(crate) type Window = Time<1000, HOUR_MS>;

section! { "limits"
    /// One limit: whose use is counted, of what, and how much there may be. Without `method`, everything that is about
    /// one tool, prompt or resource is counted; lists, handshakes and pings never are unless `method` names them.
    LimitRule {
        /// Its name, once in a tenant; records say `limit:NAME`. What is used up is kept under it when the file changes.
        "name" name: RuleName;
        /// Whose use is counted together.
        "per" per: OneOf<Per>, required;
        /// What is counted: a method or a class of methods.
        "method" method: OneOf<Counted>;
        /// Only what is for this upstream.
        "upstream" upstream: Id;
        /// Only tools that match this glob, as clients see them: `github__create_*`.
        "tool" tool: Glob;
        /// Only what comes in at this virtual server.
        "server" server: Id;
        /// So many in a time: `60/min`.
        "rate" rate: Flow;
        /// So many of `rate` at once. Without it a tenth of its number, and at least one.
        "burst" burst: Count<1, 1_000_000>;
        /// So many that run at a time.
        "concurrent" concurrent: Count<1, 8192>;
        /// Bytes of requests in a time: `100MiB/h`. What was let in may exceed it; then nothing is let in until it is paid.
        "bytes_in" bytes_in: Volume;
        /// Bytes of answers in a time, likewise.
        "bytes_out" bytes_out: Volume;
        /// So many in a day of UTC: `2000/day`. Kept in memory: a restart begins anew.
        "budget" budget: Flow;
        /// Sessions that a principal may have, where that is less than `session.per_principal`.
        "sessions" sessions: Count<1, 65_536>;
        /// Streams that a principal may have open.
        "streams" streams: Count<1, 65_536>;
    }
    refused {}
}

section! { "runaway"
    /// When an agent goes in circles. The call that is one too many is not made: its model reads what is going on. What
    /// comes after it is refused until the time is over; a call of something else begins anew.
    Runaway {
        /// The same call with the same arguments so often in a row.
        "repeats" repeats: Count<2, 100> = Count(10);
        /// Two calls in turn, each so often.
        "alternations" alternations: Count<2, 100> = Count(10);
        /// Failures of one tool in a row.
        "errors" errors: Count<2, 1000> = Count(20);
        /// So many different tools.
        "fan_out" fan_out: Count<2, 1000> = Count(100);
        /// Within this time.
        "within" within: Window = Time::seconds(60);
        /// Globs over tools of which nothing is counted, as clients see them.
        "except" except: Vec<At<Glob>> = Vec::new();
    }
    refused {}
}

section! { "taint"
    /// What a server of the tier `untrusted` says may steer the model. Rules can ask for it: `session.tainted`.
    Taint {
        /// For how long: the session, or the principal in the era without sessions.
        "for" lasts: TaintLife = Time::seconds(3600);
    }
    refused {}
}

/// The bounds of runaway detection, or none.
pub(crate) type RunawayOrOff = WordOr<Runaway>;

impl OrWord for Runaway {
    const WORD: &'static Choice = &Choice { word: "off", doc: "nobody looks", refused: None };
}

/// Units of time that a rate may be in, each with its spellings; the first is ours.
const TIMES: [(&[&str], u64); 4] = [
    (&["s", "sec", "second"], 1),
    (&["min", "m", "minute"], 60),
    (&["h", "hour"], 3600),
    (&["day", "d"], 86_400),
];
const MOST: u64 = 1_000_000_000;

/// So many in a time: `60/min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) count: u64,
    pub(crate) every: Duration,
}

/// So many bytes in a time: `100MiB/h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    pub(crate) bytes: u64,
    pub(crate) every: Duration,
}

fn time(unit: &str) -> Option<Duration> {
    let (_, seconds) = TIMES.iter().find(|(names, _)| names.contains(&unit))?;
    Some(Duration::from_secs(*seconds))
}

fn unit(every: Duration) -> &'static str {
    let row = TIMES.iter().find(|(_, seconds)| *seconds == every.as_secs());
    row.and_then(|(names, _)| names.first()).copied().unwrap_or("s")
}

impl Word for Flow {
    fn form() -> Form {
        Form::pattern("number in a time, `60/min`", "[0-9]+/(s|sec|second|min|m|minute|h|hour|day|d)")
    }

    fn parse(text: &str) -> Result<Flow, Mistake> {
        let wrong = || Mistake::new("is no rate").hint("write it like `60/min`: in `s`, `min`, `h` or `day`");
        let (count, every) = text.split_once('/').ok_or_else(wrong)?;
        let whole = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
        let every = time(every).filter(|_| whole).ok_or_else(wrong)?;
        match count.parse() {
            Ok(count @ 1..=MOST) => Ok(Flow { count, every }),
            Ok(0) => Err(Mistake::new("lets nothing through").hint("deny it with a rule of `policies`")),
            Ok(_) | Err(_) => Err(Mistake::new("is out of range").hint(format!("at most {MOST}"))),
        }
    }

    fn sample(&self) -> Value {
        json!(format!("{}/{}", self.count, unit(self.every)))
    }
}

impl Word for Volume {
    fn form() -> Form {
        let syntax = "[0-9]+([KMG]iB)?/(s|sec|second|min|m|minute|h|hour|day|d)";
        Form::pattern("size in a time, `100MiB/h`", syntax)
    }

    fn parse(text: &str) -> Result<Volume, Mistake> {
        let wrong =
            || Mistake::new("is no volume").hint("write it like `100MiB/h`: in `s`, `min`, `h` or `day`");
        let (size, every) = text.split_once('/').ok_or_else(wrong)?;
        let bytes = u64::try_from(parse_size(size)?).map_err(|_| wrong())?;
        let every = time(every).ok_or_else(wrong)?;
        if !(1024..=1 << 50).contains(&bytes) {
            return Err(Mistake::new("is out of range").hint("at least 1KiB"));
        }
        Ok(Volume { bytes, every })
    }

    fn sample(&self) -> Value {
        json!(format!("{}/{}", self.bytes, unit(self.every)))
    }
}
