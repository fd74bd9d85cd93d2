//! How much is asked for: rate, volume and concurrency, charged once an attempt.
//!
//! Rules are compiled into the snapshot ([`Rules`]); what was used up is kept here, so that it outlives them. A call passes
//! all rules that count it or is charged by none.

mod bucket;
mod clock;
mod key;
mod meter;
mod rules;
mod runaway;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use admission::{Call, Checks, Principal, Sort, Standing, Target, TenantId};
use config::{Counted, Per};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::{Digest, Method};

use crate::{
    error::{LimitError, Spent, SpentOf, Told},
    visit::Visit,
};

use bucket::Quota;
use clock::{Clock, Moment};
pub(crate) use key::{Key, Keys};
use meter::{Kept, Meter};
use rules::Rule;
pub(crate) use rules::{Rules, TenantRules};
pub(crate) use runaway::{Circle, Runaway, Watched};

/// Requests one session may have running. Above it the model is told, nothing is queued.
const RUNNING_PER_SESSION: usize = 256;

/// Requests that may run in all. Each holds a place in the audit log until it ends; this leaves as many
/// places to everything that is answered at once.
const RUNNING: usize = 8_192;

/// A place is free again about so soon.
const PLACE: Duration = Duration::from_secs(1);

/// What may be used up, and what was.
#[derive(Debug)]
pub(crate) struct Limits {
    running: Arc<Semaphore>,
    // INVARIANT: tenants come from the configuration, so there are few.
    tenants: papaya::HashMap<TenantId, Arc<Kept>>,
    keys: Keys,
    clock: Clock,
}

/// What a running request has taken; what it held is given back when dropped.
#[derive(Debug, Default)]
#[must_use = "it is held until the call has ended"]
pub(crate) struct Charge {
    _place: Option<OwnedSemaphorePermit>,
    running: Vec<Arc<Meter>>,
    /// Who pays for the answer.
    answer: Vec<(Arc<Meter>, Quota)>,
}

/// A stream that counts; given back when dropped.
#[derive(Debug, Default)]
pub(crate) struct StreamCharge(Vec<Arc<Meter>>);

impl Drop for Charge {
    fn drop(&mut self) {
        self.running.iter().for_each(|meter| meter.running.leave());
    }
}

impl Drop for StreamCharge {
    fn drop(&mut self) {
        self.0.iter().for_each(|meter| meter.streams.leave());
    }
}

/// What was taken of one rule, to be given back when a later one refuses.
struct Taken<'a> {
    rule: &'a Rule,
    meter: Arc<Meter>,
    rate: bool,
    budget: bool,
    place: bool,
}

impl Limits {
    /// Nothing is used up yet.
    pub(crate) fn new() -> Limits {
        Limits {
            running: Arc::new(Semaphore::new(RUNNING)),
            tenants: papaya::HashMap::new(),
            keys: Keys::default(),
            clock: Clock::new(),
        }
    }

    /// Charges one attempt. Lists, handshakes and pings cost nothing unless a rule names them.
    ///
    /// INVARIANT: what is hidden from this asker is charged as what does not exist: by the rules that select no upstream
    /// and no tool. What is left afterwards tells nobody what there is (spec T-04).
    ///
    /// # Errors
    /// When a bound is reached; nothing was sent anywhere then, and nothing is charged.
    pub(crate) fn charge(
        &self,
        (rules, checks): (&Rules, &Checks),
        call: &Call,
        visit: &Visit,
    ) -> Result<Charge, LimitError> {
        let tool = call.method == Method::ToolsCall;
        let refused = |most| LimitError::Concurrency { most, tool };
        let mut charge = Charge::default();
        match &call.target {
            Target::Ourselves | Target::Listing(_) => (),
            Target::Thing(_) | Target::Missing(..) if visit.running() > RUNNING_PER_SESSION => {
                return Err(refused(RUNNING_PER_SESSION));
            }
            Target::Thing(_) | Target::Missing(..) => {
                let place = Arc::clone(&self.running).try_acquire_owned();
                charge._place = Some(place.map_err(|_| refused(RUNNING))?);
            }
        }
        if let Some((rules, kept)) = self.of(rules, &call.principal.tenant) {
            let mut taken = Vec::with_capacity(rules.rules.len());
            let now = self.clock.now();
            let mut principal = None;
            let mut shown = None;
            for rule in rules.rules.iter().filter(|rule| rule.counts_calls() && rule.counts(call)) {
                if rule.is_selective() && !*shown.get_or_insert_with(|| is_shown(checks, call)) {
                    continue;
                }
                let key = self.key(rule.per, call, &mut principal);
                let meter = rule.subjects(kept).of(key);
                match take(rule, meter, now) {
                    Ok(one) => taken.push(one),
                    Err(short) => {
                        taken.iter().for_each(|taken| taken.give_back(now));
                        return Err(spent(rule, short, Told::of(call.method)));
                    }
                }
            }
            for Taken { rule, meter, place, .. } in taken {
                if let Some(quota) = &rule.bytes_in {
                    meter.bytes_in.owe(quota, size(call.frame.bytes().len()), now.at);
                }
                if let Some(quota) = rule.bytes_out {
                    charge.answer.push((Arc::clone(&meter), quota));
                }
                if place {
                    charge.running.push(meter);
                }
            }
        }
        Ok(charge)
    }

    /// An answer of so many bytes goes to the client.
    pub(crate) fn answered(&self, charge: &Charge, bytes: usize) {
        if charge.answer.is_empty() {
            return;
        }
        let now = self.clock.now().at;
        charge.answer.iter().for_each(|(meter, quota)| meter.bytes_out.owe(quota, size(bytes), now));
    }

    /// Charges a stream.
    ///
    /// # Errors
    /// When the principal has as many as it may.
    pub(crate) fn stream(&self, rules: &Rules, principal: &Principal) -> Result<StreamCharge, LimitError> {
        let mut charge = StreamCharge::default();
        let Some((rules, kept)) = self.of(rules, &principal.tenant) else { return Ok(charge) };
        for rule in &rules.rules {
            let Some(most) = rule.streams else { continue };
            let meter = rule.subjects(kept).of(self.keys.principal(principal));
            if !meter.streams.take(most) {
                return Err(spent(rule, (SpentOf::Streams, PLACE), Told::Transport));
            }
            charge.0.push(meter);
        }
        Ok(charge)
    }

    /// Charges what an upstream asks of a client (spec Q-09).
    ///
    /// # Errors
    /// When a bound is reached; nobody is asked then.
    pub(crate) fn question(
        &self,
        rules: &Rules,
        principal: &Principal,
        (method, upstream): (Counted, &str),
    ) -> Result<(), LimitError> {
        let Some((rules, kept)) = self.of(rules, &principal.tenant) else { return Ok(()) };
        let now = self.clock.now();
        let mut taken: Vec<(Arc<Meter>, Quota)> = Vec::new();
        for rule in rules.rules.iter().filter(|rule| rule.counts_question(method, upstream)) {
            let Some(quota) = rule.rate else { continue };
            let key = match rule.per {
                Per::Principal => self.keys.principal(principal),
                Per::Upstream => self.keys.of(upstream),
                Per::Tenant | Per::Tool | Per::Server => self.keys.everybody,
            };
            let meter = rule.subjects(kept).of(key);
            if let Err(after) = meter.rate.take(&quota, 1, now.at) {
                taken.iter().for_each(|(meter, quota)| meter.rate.give_back(quota, 1));
                return Err(spent(rule, (SpentOf::Rate, Duration::from_nanos(after)), Told::Caller));
            }
            taken.push((meter, quota));
        }
        Ok(())
    }

    /// Looks whether an agent goes in circles.
    ///
    /// # Errors
    /// When it does: what the model is told instead of the call.
    pub(crate) fn watch(
        &self,
        rules: &Rules,
        call: &Call,
        (visit, arguments): (&Visit, Option<&Digest>),
    ) -> Result<Option<Watched>, LimitError> {
        let name = match &call.target {
            Target::Thing(thing) => &thing.exposed,
            Target::Missing(Sort::Tool, name) => name,
            Target::Missing(..) | Target::Ourselves | Target::Listing(_) => return Ok(None),
        };
        if call.method != Method::ToolsCall {
            return Ok(None);
        }
        let Some((rules, kept)) = self.of(rules, &call.principal.tenant) else { return Ok(None) };
        let Some(watch) = rules.watch.as_ref().filter(|watch| watch.sees(name)) else {
            return Ok(None);
        };
        let tool = self.keys.short(name);
        // Another round of a call is no repetition: what its server gave it differs.
        let round = call.frame.param(wire::input::STATE);
        let print = self.keys.short((tool, arguments.map(|digest| digest.0), round));
        let trail = kept.trails.of(self.keys.conversation(visit));
        let now = self.clock.now().at;
        let watched = Watched::begin(trail, watch, (tool, print), now);
        watched.map(Some).map_err(|runaway| LimitError::Runaway(Box::new(runaway)))
    }

    /// How a call ended that was watched.
    pub(crate) fn watched(&self, watched: &Watched, failed: bool) {
        watched.ended(failed, self.clock.now().at);
    }

    /// Whether what an untrusted server said may steer this conversation.
    pub(crate) fn is_tainted(&self, rules: &Rules, visit: &Visit) -> bool {
        let Some((_, kept)) = self.of(rules, &visit.principal().tenant) else { return false };
        kept.taints.has(|| self.keys.conversation(visit), self.clock.now().at)
    }

    /// An untrusted server is about to be heard in this conversation.
    pub(crate) fn taint(&self, rules: &Rules, visit: &Visit) {
        let Some((rules, kept)) = self.of(rules, &visit.principal().tenant) else { return };
        let now = self.clock.now().at;
        let lasts = u64::try_from(rules.taint.as_nanos()).unwrap_or(u64::MAX);
        kept.taints.add(self.keys.conversation(visit), now, now.saturating_add(lasts));
    }

    /// Forgets whoever has used up nothing.
    pub(crate) fn sweep(&self) {
        let now = self.clock.now();
        self.tenants.pin().values().for_each(|kept| kept.sweep(now));
    }

    /// The rules of a tenant, with what was used up.
    fn of<'a>(&self, rules: &'a Rules, tenant: &TenantId) -> Option<(&'a TenantRules, &'a Kept)> {
        let rules = rules.of(tenant)?;
        let kept: &OnceLock<Arc<Kept>> = &rules.kept;
        let look_up = || Arc::clone(self.tenants.pin().get_or_insert_with(tenant.clone(), Arc::default));
        Some((rules, kept.get_or_init(look_up)))
    }

    /// Under which key a rule counts a call.
    fn key(&self, per: Per, call: &Call, principal: &mut Option<Key>) -> Key {
        match (per, &call.target) {
            (Per::Principal, _) => *principal.get_or_insert_with(|| self.keys.principal(&call.principal)),
            (Per::Upstream, Target::Thing(thing)) => self.keys.of(&thing.upstream),
            (Per::Tool, Target::Thing(thing)) => self.keys.of((&thing.upstream, thing.sort, &thing.exposed)),
            (Per::Server, _) => self.keys.of(&call.scene.server),
            (Per::Tenant | Per::Upstream | Per::Tool, _) => self.keys.everybody,
        }
    }
}

impl Taken<'_> {
    fn give_back(&self, now: Moment) {
        if let (Some(quota), true) = (&self.rule.rate, self.rate) {
            self.meter.rate.give_back(quota, 1);
        }
        if self.budget {
            self.meter.budget.give_back(now.day);
        }
        if self.place {
            self.meter.running.leave();
        }
    }
}

/// Takes what one rule wants for one call: of its rate, of its budget, a place. All or nothing.
fn take<'a>(rule: &'a Rule, meter: Arc<Meter>, now: Moment) -> Result<Taken<'a>, (SpentOf, Duration)> {
    let volumes = [(&rule.bytes_in, &meter.bytes_in), (&rule.bytes_out, &meter.bytes_out)];
    for (quota, bucket) in volumes {
        let Some(quota) = quota else { continue };
        bucket.open(quota, now.at).map_err(|after| (SpentOf::Bytes, Duration::from_nanos(after)))?;
    }
    let mut taken = Taken { rule, meter, rate: false, budget: false, place: false };
    if let Some(most) = rule.concurrent {
        if !taken.meter.running.take(most) {
            return Err((SpentOf::Places, PLACE));
        }
        taken.place = true;
    }
    if let Some(most) = rule.budget {
        if !taken.meter.budget.take(most, now.day) {
            taken.give_back(now);
            return Err((SpentOf::Budget, now.left));
        }
        taken.budget = true;
    }
    if let Some(quota) = &rule.rate {
        if let Err(after) = taken.meter.rate.take(quota, 1, now.at) {
            taken.give_back(now);
            return Err((SpentOf::Rate, Duration::from_nanos(after)));
        }
        taken.rate = true;
    }
    Ok(taken)
}

/// Whether its asker may know that there is what the call is about.
fn is_shown(checks: &Checks, call: &Call) -> bool {
    match &call.target {
        Target::Thing(thing) => {
            let shown = || checks.policy.shows(&call.principal, &call.scene.server, thing);
            thing.standing == Standing::Offered && shown()
        }
        Target::Missing(..) | Target::Ourselves | Target::Listing(_) => false,
    }
}

fn spent(rule: &Rule, (of, after): (SpentOf, Duration), told: Told) -> LimitError {
    LimitError::Spent(Box::new(Spent { rule: Arc::clone(&rule.name), of, after, told }))
}

fn size(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
