//! Who is told when a resource changes: one subscription upstream for all who follow it (spec ).

mod listen;
mod requests;
mod table;
mod telling;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use admission::{Call, Principal, TenantId};
use tokio::{sync::Notify, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;
use upstream::{Upstream, UpstreamError};

use crate::{router::seat_key, session::Session};
pub(crate) use listen::listen;
use listen::{Listens, Mailbox};
pub(crate) use requests::serve;
pub(crate) use table::Place;
use table::{Errand, Job, Table, Topic};
pub(crate) use telling::updated;

/// How long a server may take to agree that it is subscribed to.
const AGREED: Duration = Duration::from_secs(30);

/// All subscriptions, by tenant first.
pub(crate) struct Subscriptions {
    tenants: Mutex<HashMap<TenantId, Table<Arc<Upstream>>>>,
    /// Servers are to be told something.
    due: Notify,
    listens: Listens,
    /// Every listen stream ends, with a result (spec U-27).
    closing: CancellationToken,
    numbers: AtomicU64,
}

/// One that follows resources.
#[derive(Debug)]
pub(crate) struct Party {
    who: Who,
    principal: Arc<Principal>,
    /// The principal's name within its tenant.
    owner: Arc<str>,
    /// The virtual server through which it sees resources.
    server: Arc<str>,
    mouth: Mouth,
}

impl Party {
    /// Whoever makes this call follows what it asks for, at this virtual server.
    fn new(who: Who, call: &Call, server: &Arc<str>, mouth: Mouth) -> Arc<Party> {
        let (principal, owner) = (Arc::clone(&call.principal), seat_key(&call.principal));
        Arc::new(Party { who, principal, owner, server: Arc::clone(server), mouth })
    }
}

/// Its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Who {
    /// A session's name.
    Session(Arc<str>),
    /// The number of a listen stream.
    Listen(u64),
}

/// How it is told.
#[derive(Debug)]
enum Mouth {
    /// On the session's own stream.
    Session(Arc<Session>),
    /// On its listen stream.
    Listen(Arc<Mailbox>),
}

/// Why a resource is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SubscribeError {
    /// Its server tells nobody of changes (spec R-08).
    NotOffered,
    /// A bound was reached.
    TooMany {
        /// Which.
        most: usize,
    },
    /// Its URI is longer than any that may be followed.
    TooLong,
    /// The server did not agree.
    Upstream(UpstreamError),
}

impl Subscriptions {
    /// Nobody follows anything.
    pub(crate) fn new() -> Arc<Subscriptions> {
        Arc::new(Subscriptions {
            tenants: Mutex::default(),
            due: Notify::new(),
            listens: Listens::default(),
            closing: CancellationToken::new(),
            numbers: AtomicU64::new(0),
        })
    }

    /// Has `party` follow a server's resource, and returns when the server has agreed (spec X-07). Dropped before
    /// that, or refused, it follows nothing.
    async fn follow(
        &self,
        upstream: &Arc<Upstream>,
        uri: &str,
        party: &Arc<Party>,
        patience: Duration,
    ) -> Result<(), SubscribeError> {
        let topic = Topic { place: Place::of(upstream), uri: uri.into() };
        let tenant = &party.principal.tenant;
        let mut outcome = self.table(tenant, |table| table.join(&topic, upstream, party))?;
        self.due.notify_one();
        let mut joined = Joined { all: self, tenant, topic: &topic, who: &party.who, stays: false };
        let done = match timeout(patience, outcome.wait_for(Option::is_some)).await {
            Ok(Ok(done)) => done.clone().unwrap_or(Err(SubscribeError::NotOffered)),
            // The sender goes with the last follower, and this is one until here.
            Ok(Err(_)) => Err(SubscribeError::NotOffered),
            Err(_) => Err(SubscribeError::Upstream(UpstreamError::TimedOut { sent: true })),
        };
        joined.stays = done.is_ok();
        done
    }

    fn unfollow(&self, upstream: &Upstream, uri: &str, (tenant, who): (&TenantId, &Who)) {
        let topic = Topic { place: Place::of(upstream), uri: uri.into() };
        self.table(tenant, |table| table.leave(&topic, who));
        self.due.notify_one();
    }

    /// A session follows nothing any more.
    pub(crate) fn ended(&self, session: &Session) {
        self.leave_all(&session.principal.tenant, &Who::Session(Arc::clone(&session.name)));
    }

    fn leave_all(&self, tenant: &TenantId, who: &Who) {
        self.table(tenant, |table| table.leave_all(who));
        self.due.notify_one();
    }

    /// Every listen stream ends, with a result (spec U-27).
    pub(crate) fn close(&self) {
        self.closing.cancel();
    }

    /// Tells servers what they are to be told, for ever.
    pub(crate) async fn keep(self: Arc<Self>) {
        let mut errands = JoinSet::new();
        loop {
            while let Some((tenant, job)) = self.next_job() {
                let all = Arc::clone(&self);
                errands.spawn(async move { all.run(&tenant, job).await });
            }
            tokio::select! {
                () = self.due.notified() => (),
                Some(_) = errands.join_next() => (),
            }
        }
    }

    fn next_job(&self) -> Option<(TenantId, Job<Arc<Upstream>>)> {
        let mut tenants = self.tenants();
        tenants.iter_mut().find_map(|(tenant, table)| Some((tenant.clone(), table.next_job()?)))
    }

    async fn run(&self, tenant: &TenantId, job: Job<Arc<Upstream>>) {
        let Job { topic, upstream, what } = job;
        match what {
            Errand::Subscribe => {
                let late = Err(SubscribeError::Upstream(UpstreamError::TimedOut { sent: true }));
                let done = timeout(AGREED, subscribe(&upstream, &topic.uri)).await.unwrap_or(late);
                if let Err(why) = &done {
                    tracing::debug!(%tenant, upstream = %topic.place.upstream, ?why, "not subscribed");
                }
                self.table(tenant, |table| table.opened(&topic, done));
            }
            Errand::Unsubscribe => {
                // A server that does not take it tells of changes that nobody is told of then.
                let _ = timeout(AGREED, upstream.unsubscribe(&topic.uri)).await;
                self.table(tenant, |table| table.closed(&topic));
            }
        }
        self.due.notify_one();
    }

    fn table<T>(&self, tenant: &TenantId, work: impl FnOnce(&mut Table<Arc<Upstream>>) -> T) -> T {
        work(self.tenants().entry(tenant.clone()).or_default())
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<TenantId, Table<Arc<Upstream>>>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}

impl Place {
    /// Where this server stands.
    pub(crate) fn of(upstream: &Upstream) -> Place {
        Place {
            seat: upstream.seat().clone(),
            declared: upstream.declared().clone(),
            upstream: Arc::clone(&upstream.spec().id),
        }
    }
}

async fn subscribe(upstream: &Upstream, uri: &str) -> Result<(), SubscribeError> {
    let connection = upstream.connection().await.map_err(SubscribeError::Upstream)?;
    let resources = connection.facts().capability("resources");
    if wire::meta::member(resources, "subscribe") != Some("true") {
        return Err(SubscribeError::NotOffered);
    }
    upstream.subscribe(uri).await.map_err(SubscribeError::Upstream)
}

/// A place among the followers that is given back unless the server agrees.
struct Joined<'a> {
    all: &'a Subscriptions,
    tenant: &'a TenantId,
    topic: &'a Topic,
    who: &'a Who,
    stays: bool,
}

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        if !self.stays {
            self.all.table(self.tenant, |table| table.leave(self.topic, self.who));
            self.all.due.notify_one();
        }
    }
}

/// A follower that nobody hears.
#[cfg(test)]
fn party(number: u64) -> Arc<Party> {
    party_of("somebody", number)
}

/// The same of this principal.
#[cfg(test)]
fn party_of(subject: &str, number: u64) -> Arc<Party> {
    let principal = Principal::named(TenantId::new("acme".into()), Box::default(), subject.into());
    let mailbox = Arc::new(Mailbox::new("1"));
    Arc::new(Party {
        who: Who::Listen(number),
        owner: seat_key(&principal),
        principal: Arc::new(principal),
        server: "default".into(),
        mouth: Mouth::Listen(mailbox),
    })
}
