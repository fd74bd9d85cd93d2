//! The one open `subscriptions/listen` of a conversation with a modern server: replaced before it is given up, opened again when it
//! breaks (spec P-05, U-28, X-07).

use super::{WAIT, lets_follow, unfollowed};
use crate::backoff::jitter;
use crate::connection::Facts;
use crate::declared::Behind;
use crate::error::UpstreamError;
use crate::exchange::{Exchange, Incoming};
use crate::link::{Link, Manner};
use crate::remote::heads;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use wire::{Id, Kind, Method};

/// Before a request that broke, or was refused, is made again; growing.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Open for so long means that earlier breaks are over.
const STABLE: Duration = Duration::from_secs(30);

/// Lists that say when they change: the capability, its list, and the member of a request to listen.
const LISTS: [(&str, Kind, &str); 3] = [
    ("tools", Kind::Tools, "toolsListChanged"),
    ("prompts", Kind::Prompts, "promptsListChanged"),
    ("resources", Kind::Resources, "resourcesListChanged"),
];

type Uris = BTreeSet<Box<str>>;

/// What is listened for beside lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Topics {
    /// Resources.
    uris: Uris,
    /// Tasks, by the server's own ids.
    tasks: Uris,
}

impl Topics {
    /// What a server of these facts can be asked for, of all that is wanted.
    fn wanted(link: &Link, facts: &Facts) -> Topics {
        let wishes = &link.behalf.wishes;
        let tasks = if facts.takes_tasks() { wishes.tasks() } else { Uris::new() };
        Topics { uris: wishes.uris(), tasks }
    }

    /// What is in it and not in the other.
    fn beyond(&self, other: &Topics) -> Topics {
        let beyond = |all: &Uris, other: &Uris| all.difference(other).cloned().collect();
        Topics { uris: beyond(&self.uris, &other.uris), tasks: beyond(&self.tasks, &other.tasks) }
    }

    fn is_nothing(&self) -> bool {
        self.uris.is_empty() && self.tasks.is_empty()
    }
}

/// A request that the server took.
struct Open {
    exchange: Exchange,
    topics: Topics,
    since: Instant,
}

/// Why a request was not taken.
enum Refused {
    /// By an answer.
    Said(UpstreamError),
    /// There was none.
    Failed(UpstreamError),
}

/// Listens for as long as the conversation goes on. May be dropped at any await.
pub(super) async fn listen(link: &Arc<Link>, facts: &Facts) -> Infallible {
    let wishes = &link.behalf.wishes;
    let lists = lists(link, facts);
    let mut changes = wishes.watch();
    let (mut open, mut pause, mut broke) = (None::<Open>, SHORTEST_PAUSE, false);
    loop {
        changes.mark_unchanged();
        let wanted = Topics::wanted(link, facts);
        if !wanted.uris.is_empty() && !lets_follow(facts) {
            wishes.refuse(wanted.uris.into_iter(), &unfollowed());
            continue;
        }
        let is_right = match &open {
            Some(open) => open.topics == wanted,
            None => wanted.is_nothing() && lists.is_empty(),
        };
        if is_right {
            tokio::select! {
                () = ended(&mut open) => {}
                changed = changes.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => std::future::pending().await,
                },
            }
        } else if wanted.is_nothing() && lists.is_empty() {
            open = None;
            wishes.listened(&wanted.uris, Uris::new(), &unheard());
            continue;
        } else {
            let was_open = open.is_some();
            match begin(link, &lists, &wanted, &mut open).await {
                Ok((exchange, honoured)) => {
                    // Nobody says what was missed (spec U-28).
                    if std::mem::take(&mut broke) || (was_open && open.is_none()) {
                        missed(link, &lists);
                    }
                    // INVARIANT: what is not honoured is refused from here on, so that what is wanted is what is open.
                    wishes.listened(&wanted.uris, honoured.uris.clone(), &unheard());
                    wishes.untold(wanted.beyond(&honoured).tasks.into_iter());
                    open = Some(Open { exchange, topics: honoured, since: Instant::now() });
                    continue;
                }
                Err(refused) => {
                    let (error, is_final) = match refused {
                        Refused::Said(error) => (error, true),
                        Refused::Failed(error) => (error, open.is_some()),
                    };
                    if pause == SHORTEST_PAUSE {
                        tracing::warn!(%error, "a server does not let us listen");
                    }
                    // Those that are new may be why; without them all stays as it is.
                    if is_final {
                        let new =
                            wanted.beyond(&open.as_ref().map(|open| open.topics.clone()).unwrap_or_default());
                        if !new.is_nothing() {
                            wishes.untold(new.tasks.into_iter());
                            wishes.refuse(new.uris.into_iter(), &error);
                            continue;
                        }
                    }
                }
            }
        }
        // It broke, or was not taken.
        if let Some(over) = open.take() {
            broke = true;
            if over.since.elapsed() >= STABLE {
                pause = SHORTEST_PAUSE;
            }
        }
        sleep(jitter(pause)).await;
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

/// The lists that this server announces and this seat is the one to hear of: the catalog is read by the shared one.
fn lists(link: &Link, facts: &Facts) -> Vec<(Kind, &'static str)> {
    let announced =
        |capability: &str| wire::meta::member(facts.capability(capability), "listChanged") == Some("true");
    match link.behalf.behind {
        Behind::Many => LISTS
            .iter()
            .filter(|(capability, ..)| announced(capability))
            .map(|(_, kind, member)| (*kind, *member))
            .collect(),
        Behind::One(_) => Vec::new(),
    }
}

/// Begins to listen to these, and returns when the server has said which of the resources it honours. What was open before stays so
/// meanwhile.
async fn begin(
    link: &Arc<Link>,
    lists: &[(Kind, &'static str)],
    wanted: &Topics,
    before: &mut Option<Open>,
) -> Result<(Exchange, Topics), Refused> {
    let heads = match link.is_modern_over_http() {
        true => Some(heads::modern(Method::SubscriptionsListen, None, &[]).map_err(Refused::Failed)?),
        false => None,
    };
    let build = |id: &Id| request(id, lists, wanted).into();
    let mut exchange = link.send(&build, heads, WAIT, Manner::Listening).map_err(Refused::Failed)?;
    let told = loop {
        tokio::select! {
            // What came by the earlier one came first.
            biased;
            () = ended(before) => *before = None,
            told = acknowledged(&mut exchange) => break told?,
        }
    };
    exchange.pause();
    let honoured = |key, asked: &Uris| -> Uris {
        let said = wire::meta::member(told.param("notifications"), key);
        let said: Uris = said.and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default();
        said.intersection(asked).cloned().collect()
    };
    let uris = honoured("resourceSubscriptions", &wanted.uris);
    Ok((exchange, Topics { uris, tasks: honoured("taskIds", &wanted.tasks) }))
}

async fn acknowledged(exchange: &mut Exchange) -> Result<wire::Frame, Refused> {
    loop {
        match exchange.next().await {
            Incoming::Told(frame) => return Ok(frame),
            Incoming::Answer(answer) => {
                let refusal = super::refusal(&answer).err();
                return Err(refusal.map_or_else(|| Refused::Failed(unheard()), Refused::Said));
            }
            Incoming::Failed(error) => return Err(Refused::Failed(error)),
            Incoming::Progress(_) | Incoming::Question(_) | Incoming::Later => {}
        }
    }
}

/// Returns when it is over; never, when there is none.
async fn ended(open: &mut Option<Open>) {
    let Some(open) = open else { return std::future::pending().await };
    loop {
        match open.exchange.next().await {
            Incoming::Answer(_) | Incoming::Failed(_) => return,
            Incoming::Progress(_) | Incoming::Question(_) | Incoming::Told(_) | Incoming::Later => {}
        }
    }
}

fn request(id: &Id, lists: &[(Kind, &'static str)], topics: &Topics) -> String {
    let mut wanted: Vec<String> = lists.iter().map(|(_, member)| format!("\"{member}\":true")).collect();
    for (key, all) in [("resourceSubscriptions", &topics.uris), ("taskIds", &topics.tasks)] {
        if !all.is_empty() {
            let all: Vec<String> = all.iter().map(|one| wire::code::quote(one)).collect();
            wanted.push(format!("\"{key}\":[{}]", all.join(",")));
        }
    }
    // Whoever asks about tasks has to take them (spec U-29).
    let capabilities = match topics.tasks.is_empty() {
        true => "{}".into(),
        false => wire::task::declared("{}"),
    };
    format!(
        r#"{{"jsonrpc":"2.0","id":{},"method":"{}","params":{{"notifications":{{{}}},"_meta":{}}}}}"#,
        id.raw(),
        Method::SubscriptionsListen.name(),
        wanted.join(","),
        wire::client_meta(None, None, &capabilities),
    )
}

/// As if the server had said that its lists changed.
fn missed(link: &Link, lists: &[(Kind, &'static str)]) {
    for (kind, _) in lists {
        let _unread = link.receive(wire::code::notification(kind.changed().name()));
    }
}

fn unheard() -> UpstreamError {
    UpstreamError::incompatible("it does not say when that changes")
}
