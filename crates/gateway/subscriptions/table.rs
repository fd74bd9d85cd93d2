//! One tenant's subscriptions: who follows what, and what its servers have been told of that.
//!
//! Nothing here waits. What is to be said to a server becomes a [`Job`]; there is at most one job for a resource at a
//! time, so a server never hears of the same resource twice, whatever followers come and go meanwhile (spec R-06).

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use tokio::sync::watch;
use upstream::{Declared, Seat};

use super::{Party, SubscribeError, Who};

/// Resources that one follower may follow.
pub(super) const PER_FOLLOWER: usize = 256;
/// Resources that all followers of one principal may follow.
const PER_PRINCIPAL: usize = 2048;
/// Resources that all followers of a tenant may follow.
const PER_TENANT: usize = 16_384;
/// The longest URI that may be followed, in bytes.
const LONGEST_URI: usize = 4096;
/// So many of its ancestors are asked for when a resource has changed.
const DEPTH: usize = 64;

/// A server's resource: whose server, which, and its own name for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Topic {
    pub(super) place: Place,
    pub(super) uri: Arc<str>,
}

/// One process of one upstream, or one conversation with it: a seat has one for each set of capabilities that is declared, and
/// what one of them tells is told to its own followers only (spec R-06, X-02).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) seat: Seat,
    pub(crate) declared: Declared,
    pub(crate) upstream: Arc<str>,
}

/// How a subscription at a server ended, or that it began; none while that is not known.
pub(super) type Outcome = Option<Result<(), SubscribeError>>;

/// One tenant's subscriptions. `U` is how a server is reached.
pub(super) struct Table<U> {
    topics: HashMap<Place, HashMap<Arc<str>, Following<U>>>,
    followed: HashMap<Who, HashSet<Topic>>,
    /// How many each principal follows, by its name; none that follows nothing.
    owned: HashMap<Arc<str>, usize>,
    size: usize,
    due: Vec<Topic>,
}

struct Following<U> {
    upstream: U,
    parties: HashMap<Who, Arc<Party>>,
    stage: Stage,
    outcome: watch::Sender<Outcome>,
}

/// What the server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing, and a job is due.
    New,
    /// It is being told.
    Opening,
    /// That somebody follows.
    Open,
    /// It is being told that nobody does any more.
    Closing,
}

/// Something to be said to a server.
pub(super) struct Job<U> {
    pub(super) topic: Topic,
    pub(super) upstream: U,
    pub(super) what: Errand,
}

/// What is to be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    Subscribe,
    Unsubscribe,
}

impl<U> Default for Table<U> {
    fn default() -> Table<U> {
        let (topics, followed, owned) = (HashMap::new(), HashMap::new(), HashMap::new());
        Table { topics, followed, owned, size: 0, due: Vec::new() }
    }
}

impl<U: Clone> Table<U> {
    /// Adds a follower, and returns where it learns whether the server agreed.
    ///
    /// # Errors
    /// `TooMany` above a bound, `TooLong` for a URI that is.
    pub(super) fn join(
        &mut self,
        topic: &Topic,
        upstream: &U,
        party: &Arc<Party>,
    ) -> Result<watch::Receiver<Outcome>, SubscribeError> {
        if topic.uri.len() > LONGEST_URI {
            return Err(SubscribeError::TooLong);
        }
        let followed = self.followed.get(&party.who);
        if !followed.is_some_and(|followed| followed.contains(topic)) {
            let followed = followed.map_or(0, HashSet::len);
            let owned = self.owned.get(&party.owner).copied().unwrap_or_default();
            let bounds = [(followed, PER_FOLLOWER), (owned, PER_PRINCIPAL), (self.size, PER_TENANT)];
            if let Some((_, most)) = bounds.into_iter().find(|(many, most)| many >= most) {
                return Err(SubscribeError::TooMany { most });
            }
        }
        let uris = self.topics.entry(topic.place.clone()).or_default();
        let following = uris.entry(Arc::clone(&topic.uri)).or_insert_with(|| {
            self.due.push(topic.clone());
            Following {
                upstream: upstream.clone(),
                parties: HashMap::new(),
                stage: Stage::New,
                outcome: watch::Sender::new(None),
            }
        });
        if following.parties.insert(party.who.clone(), Arc::clone(party)).is_none() {
            self.size += 1;
            *self.owned.entry(Arc::clone(&party.owner)).or_default() += 1;
        }
        self.followed.entry(party.who.clone()).or_default().insert(topic.clone());
        Ok(following.outcome.subscribe())
    }

    /// Takes a follower out.
    pub(super) fn leave(&mut self, topic: &Topic, who: &Who) {
        if let Some(followed) = self.followed.get_mut(who) {
            followed.remove(topic);
            if followed.is_empty() {
                self.followed.remove(who);
            }
        }
        self.take_out(topic, who);
    }

    /// Takes a follower out of all it follows.
    pub(super) fn leave_all(&mut self, who: &Who) {
        for topic in self.followed.remove(who).unwrap_or_default() {
            self.take_out(&topic, who);
        }
    }

    fn take_out(&mut self, topic: &Topic, who: &Who) {
        let Some(following) = self.following(topic) else { return };
        let (gone, empty) = (following.parties.remove(who), following.parties.is_empty());
        let stage = following.stage;
        if let Some(party) = gone {
            self.size -= 1;
            if let Some(owned) = self.owned.get_mut(&party.owner) {
                *owned -= 1;
                if *owned == 0 {
                    self.owned.remove(&party.owner);
                }
            }
        }
        match stage {
            // Nothing was said yet, so there is nothing to take back.
            Stage::New if empty => self.forget(topic),
            Stage::Open if empty => self.due.push(topic.clone()),
            Stage::New | Stage::Opening | Stage::Open | Stage::Closing => (),
        }
    }

    /// The next thing to say to a server.
    pub(super) fn next_job(&mut self) -> Option<Job<U>> {
        while let Some(topic) = self.due.pop() {
            let Some(following) = self.following(&topic) else { continue };
            let what = match (following.stage, following.parties.is_empty()) {
                (Stage::New, false) => Errand::Subscribe,
                (Stage::Open, true) => Errand::Unsubscribe,
                (Stage::New | Stage::Open | Stage::Opening | Stage::Closing, _) => continue,
            };
            following.stage = match what {
                Errand::Subscribe => Stage::Opening,
                Errand::Unsubscribe => {
                    following.outcome.send_replace(None);
                    Stage::Closing
                }
            };
            let upstream = following.upstream.clone();
            return Some(Job { topic, upstream, what });
        }
        None
    }

    /// A server has answered a subscription. Those who followed a resource it refuses do so no more.
    pub(super) fn opened(&mut self, topic: &Topic, done: Result<(), SubscribeError>) {
        let refused = done.is_err();
        let Some(following) = self.following(topic) else { return };
        following.outcome.send_replace(Some(done));
        if refused {
            let parties: Vec<Who> = following.parties.keys().cloned().collect();
            following.stage = Stage::New;
            parties.iter().for_each(|who| self.leave(topic, who));
            return self.forget(topic);
        }
        following.stage = Stage::Open;
        if following.parties.is_empty() {
            self.due.push(topic.clone());
        }
    }

    /// A server knows that nobody follows any more; somebody may have come meanwhile.
    pub(super) fn closed(&mut self, topic: &Topic) {
        let Some(following) = self.following(topic) else { return };
        following.stage = Stage::New;
        if following.parties.is_empty() {
            self.forget(topic);
        } else {
            self.due.push(topic.clone());
        }
    }

    /// The followers of a resource that has changed, or of one above it (spec R-07), each once.
    pub(super) fn concerned(&self, place: &Place, uri: &str) -> Vec<Arc<Party>> {
        let Some(uris) = self.topics.get(place).filter(|_| uri.len() <= LONGEST_URI) else {
            return Vec::new();
        };
        let mut parties: HashMap<&Who, &Arc<Party>> = HashMap::new();
        for above in ancestors(uri) {
            if let Some(following) = uris.get(above) {
                parties.extend(&following.parties);
            }
        }
        parties.into_values().cloned().collect()
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    fn following(&mut self, topic: &Topic) -> Option<&mut Following<U>> {
        self.topics.get_mut(&topic.place)?.get_mut(&topic.uri)
    }

    fn forget(&mut self, topic: &Topic) {
        if let Some(uris) = self.topics.get_mut(&topic.place) {
            uris.remove(&topic.uri);
            if uris.is_empty() {
                self.topics.remove(&topic.place);
            }
        }
    }
}

/// The URI itself and those it lies below: every start of it that ends before or with a separator.
fn ancestors(uri: &str) -> impl Iterator<Item = &str> {
    let separators = uri.match_indices(['/', '?', '#']).take(DEPTH);
    let cuts = separators.flat_map(|(at, _)| [at, at + 1]).filter(move |cut| *cut < uri.len());
    cuts.filter_map(|cut| uri.get(..cut)).chain([uri])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscriptions::{party, party_of};

    fn topic(uri: &str) -> Topic {
        let declared = Declared::nothing();
        Topic { place: Place { seat: Seat::Shared, declared, upstream: "alpha".into() }, uri: uri.into() }
    }

    /// What would be said to the server now.
    fn said(table: &mut Table<()>) -> Vec<(String, Errand)> {
        let mut jobs: Vec<_> = std::iter::from_fn(|| table.next_job())
            .map(|job| (job.topic.uri.to_string(), job.what))
            .collect();
        jobs.sort_by(|one, other| one.0.cmp(&other.0));
        jobs
    }

    #[test]
    fn the_first_follower_subscribes_and_the_last_one_unsubscribes() {
        let mut table = Table::default();
        let (one, two) = (party(1), party(2));
        let here = topic("mem://a");
        let first = table.join(&here, &(), &one).unwrap();
        let second = table.join(&here, &(), &two).unwrap();
        assert_eq!(said(&mut table), [("mem://a".into(), Errand::Subscribe)]);
        assert!(first.borrow().is_none());
        table.opened(&here, Ok(()));
        assert!(matches!(*first.borrow(), Some(Ok(()))) && matches!(*second.borrow(), Some(Ok(()))));
        table.leave(&here, &one.who);
        assert_eq!(said(&mut table), []);
        assert_eq!(table.concerned(&here.place, "mem://a").len(), 1);
        table.leave_all(&two.who);
        assert_eq!(said(&mut table), [("mem://a".into(), Errand::Unsubscribe)]);
        table.closed(&here);
        assert!(table.is_empty() && table.followed.is_empty() && table.size == 0);
    }

    #[test]
    fn who_joins_twice_counts_once() {
        let mut table = Table::default();
        let one = party(1);
        let here = topic("mem://a");
        for _ in 0..2 {
            table.join(&here, &(), &one).unwrap();
        }
        assert_eq!(table.size, 1);
        table.leave(&here, &one.who);
        assert_eq!((said(&mut table), table.is_empty()), (vec![], true));
    }

    #[test]
    fn who_comes_while_the_server_is_told_of_the_end_is_subscribed_again() {
        let mut table = Table::default();
        let (one, two) = (party(1), party(2));
        let here = topic("mem://a");
        table.join(&here, &(), &one).unwrap();
        said(&mut table);
        table.opened(&here, Ok(()));
        table.leave(&here, &one.who);
        assert_eq!(said(&mut table), [("mem://a".into(), Errand::Unsubscribe)]);
        let outcome = table.join(&here, &(), &two).unwrap();
        assert!(outcome.borrow().is_none() && said(&mut table).is_empty());
        table.closed(&here);
        assert_eq!(said(&mut table), [("mem://a".into(), Errand::Subscribe)]);
    }

    #[test]
    fn who_goes_while_the_server_is_told_leaves_nothing_behind() {
        let mut table = Table::default();
        let one = party(1);
        let here = topic("mem://a");
        table.join(&here, &(), &one).unwrap();
        assert_eq!(said(&mut table), [("mem://a".into(), Errand::Subscribe)]);
        table.leave(&here, &one.who);
        assert_eq!(said(&mut table), []);
        table.opened(&here, Ok(()));
        assert_eq!(said(&mut table), [("mem://a".into(), Errand::Unsubscribe)]);
        table.closed(&here);
        assert!(table.is_empty());
    }

    #[test]
    fn a_refusal_reaches_all_who_wait_and_is_forgotten() {
        let mut table = Table::default();
        let (one, two) = (party(1), party(2));
        let here = topic("mem://a");
        let first = table.join(&here, &(), &one).unwrap();
        let second = table.join(&here, &(), &two).unwrap();
        said(&mut table);
        table.opened(&here, Err(SubscribeError::NotOffered));
        for outcome in [first, second] {
            assert!(matches!(*outcome.borrow(), Some(Err(SubscribeError::NotOffered))));
        }
        assert!(table.is_empty() && table.followed.is_empty() && table.size == 0);
        assert_eq!(said(&mut table), []);
    }

    #[test]
    fn a_change_below_concerns_who_follows_above_and_nobody_beside() {
        let mut table = Table::default();
        let one = party(1);
        for uri in ["mem:///d", "mem:///d/f", "mem:///e/"] {
            table.join(&topic(uri), &(), &one).unwrap();
        }
        let place = topic("").place;
        for (uri, told) in [
            ("mem:///d", 1),
            ("mem:///d/f", 1),
            ("mem:///d/f/g", 1),
            ("mem:///d?x", 1),
            ("mem:///dd", 0),
            ("mem:///", 0),
            ("mem:///e", 0),
            ("mem:///e/", 1),
            ("mem:///e/x", 1),
        ] {
            assert_eq!(table.concerned(&place, uri).len(), told, "{uri}");
        }
        let other = Place { seat: Seat::Principal("p".into()), ..place.clone() };
        assert!(table.concerned(&other, "mem:///d").is_empty());
        let other = Place { declared: Declared::of(r#"{"roots":{}}"#), ..place };
        assert!(table.concerned(&other, "mem:///d").is_empty());
    }

    #[test]
    fn nobody_follows_more_than_the_bound() {
        let mut table = Table::default();
        let one = party(1);
        for n in 0..PER_FOLLOWER {
            table.join(&topic(&format!("mem://{n}")), &(), &one).unwrap();
        }
        let refused = table.join(&topic("mem://more"), &(), &one);
        assert!(matches!(refused, Err(SubscribeError::TooMany { most: PER_FOLLOWER })));
        assert!(table.join(&topic("mem://0"), &(), &one).is_ok(), "it follows that already");
        assert!(table.join(&topic("mem://more"), &(), &party(2)).is_ok());
        let long = table.join(&topic(&"x".repeat(LONGEST_URI + 1)), &(), &party(3));
        assert!(matches!(long, Err(SubscribeError::TooLong)));
        table.leave_all(&one.who);
        assert_eq!(table.size, 1);
    }

    #[test]
    fn one_principal_follows_no_more_than_the_bound_by_however_many_followers() {
        let mut table = Table::default();
        let followers: Vec<_> = (0..=PER_PRINCIPAL / PER_FOLLOWER).map(|n| party(n as u64)).collect();
        let joined = followers.iter().flat_map(|one| (0..PER_FOLLOWER).map(move |n| (one, n)));
        let refused: Vec<_> =
            joined.filter_map(|(one, n)| table.join(&topic(&format!("mem://{n}")), &(), one).err()).collect();
        assert_eq!(refused, vec![SubscribeError::TooMany { most: PER_PRINCIPAL }; PER_FOLLOWER]);
        let other = party_of("other", 9999);
        assert!(table.join(&topic("mem://0"), &(), &other).is_ok());
        followers.iter().for_each(|one| table.leave_all(&one.who));
        assert_eq!((table.size, table.owned.len()), (1, 1));
        assert!(table.join(&topic("mem://0"), &(), &followers[0]).is_ok());
    }
}
