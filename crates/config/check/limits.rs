//! The limits of a tenant.

use std::sync::Arc;
use std::time::Duration;

use super::Checker;
use crate::choice::{Choices, OneOf};
use crate::model::{Counted, LimitRule, Per, Rate, Runaway, TenantLimits, Upstream};
use crate::problem::Place;
use crate::raw;
use crate::raw::limits::{LimitRule as Rule, RunawayOrOff, Volume};
use crate::reader::{At, nearest};
use crate::word::Word as _;

/// The most rules of a tenant: each call is held against all that speak of its method.
const MOST: usize = 1000;

/// What holds beside the rules.
pub(super) fn of(raw: &raw::Tenant) -> TenantLimits {
    let runaway = match raw.runaway() {
        RunawayOrOff::Word => None,
        RunawayOrOff::This(raw) => Some(Runaway {
            repeats: raw.repeats().0,
            alternations: raw.alternations().0,
            errors: u32::try_from(raw.errors().0).unwrap_or(u32::MAX),
            fan_out: raw.fan_out().0,
            within: raw.within().0,
            except: raw.except().into_iter().map(|glob| glob.value.0).collect(),
        }),
    };
    TenantLimits { rules: Vec::new(), runaway, taint: raw.taint().lasts().0 }
}

impl Checker<'_> {
    /// The limits, those of others included that nobody wrote.
    pub(super) fn limits(&mut self, raw: &At<raw::Tenant>, upstreams: &[Upstream]) -> TenantLimits {
        let mut limits = of(raw);
        let written = raw.limits();
        if let Some(At { place, value }) = raw.limits.as_ref().filter(|list| list.value.len() > MOST) {
            let message = format!("{} limits are more than a tenant may have", value.len());
            self.error(place, message, &format!("at most {MOST}"));
        }
        let servers: Vec<String> =
            raw.virtual_servers().entries.into_iter().map(|(name, _)| name.value.0).collect();
        for rule in &written {
            self.measures(rule);
            self.selectors(rule, upstreams, &servers);
            limits.rules.extend(self.limit(rule, &limits.rules));
        }
        limits
    }

    fn limit(&mut self, raw: &At<Rule>, earlier: &[LimitRule]) -> Option<LimitRule> {
        let taken = |name: &str| earlier.iter().any(|rule| &*rule.name == name);
        let name = match &raw.name {
            Some(name) if taken(&name.value.0) => {
                let message = format!("duplicate limit `{}`", name.value.0);
                self.error(&name.place, message, "what is used up is kept by name: give it another one");
                return None;
            }
            Some(name) => name.value.0.clone(),
            None => {
                let derived = derived(raw);
                let more = (2..).map(|number| format!("{derived}:{number}"));
                std::iter::once(derived.clone()).chain(more).find(|name| !taken(name))?
            }
        };
        let flow = |burst: Option<usize>, (count, every): (u64, Duration)| {
            let burst = burst.and_then(|burst| u64::try_from(burst).ok()).unwrap_or(count / 10);
            Rate { count, every, burst: burst.max(1) }
        };
        let bytes = |written: &Option<At<Volume>>| {
            written.as_ref().map(|volume| flow(None, (volume.value.bytes, volume.value.every)))
        };
        let burst = raw.burst.as_ref().map(|burst| burst.value.0);
        Some(LimitRule {
            name: Arc::from(name),
            per: raw.per.as_ref()?.value.0,
            method: raw.method.as_ref().map_or(Counted::Things, |method| method.value.0),
            upstream: raw.upstream.as_ref().map(|id| Arc::from(id.value.0.as_str())),
            tool: raw.tool.as_ref().map(|glob| glob.value.0.clone()),
            server: raw.server.as_ref().map(|id| Arc::from(id.value.0.as_str())),
            rate: raw.rate.as_ref().map(|rate| flow(burst, (rate.value.count, rate.value.every))),
            concurrent: raw.concurrent.as_ref().and_then(|count| u32::try_from(count.value.0).ok()),
            bytes_in: bytes(&raw.bytes_in),
            bytes_out: bytes(&raw.bytes_out),
            budget: raw.budget.as_ref().and_then(|budget| u32::try_from(budget.value.count).ok()),
            sessions: raw.sessions.as_ref().map(|count| count.value.0),
            streams: raw.streams.as_ref().and_then(|count| u32::try_from(count.value.0).ok()),
        })
    }

    /// How much there may be: something, and nothing that is not counted where the rule counts.
    fn measures(&mut self, raw: &At<Rule>) {
        let measures = raw.measures();
        // What is written and wrong is told already.
        if measures.is_empty() && !self.told(&raw.place, &raw.place.path) {
            let hint =
                "write `rate`, `concurrent`, `bytes_in`, `bytes_out`, `budget`, `sessions` or `streams`";
            self.error(&raw.place, "a limit that limits nothing".to_owned(), hint);
        }
        if let (Some(burst), None) = (&raw.burst, &raw.rate) {
            self.error(&burst.place, "`burst` without `rate`".to_owned(), "write `rate: 60/min`");
        }
        if let Some(budget) = &raw.budget
            && budget.value.every != Duration::from_secs(86_400)
        {
            let hint = format!("write `{}/day`; `rate` is for other times", budget.value.count);
            self.error(&budget.place, "a budget is for a day".to_owned(), &hint);
        }
        let per = raw.per.as_ref().map(|per| per.value.0);
        for (key, place) in &measures {
            let own = matches!(*key, "sessions" | "streams");
            let selects = raw.method.is_some() || raw.selectors().next().is_some();
            if own && per.is_some_and(|per| per != Per::Principal || selects) {
                let hint = "write it in a rule of its own: `{ per: principal, sessions: 10 }`";
                self.error(place, format!("`{key}` are counted for each principal, whatever for"), hint);
            }
            let counted = raw.method.as_ref().map(|method| method.value.0);
            let only_rates = counted.is_some_and(|counted| counted.is_asked() || !counted.has_thing());
            if only_rates && !own && *key != "rate" {
                let hint = "write `rate`: it is all that is counted of this method";
                self.error(place, format!("`{key}` of a method that has no calls"), hint);
            }
        }
    }

    /// What is counted must exist, and the rule must be able to see it.
    fn selectors(&mut self, raw: &At<Rule>, upstreams: &[Upstream], servers: &[String]) {
        let counted = raw.method.as_ref().map_or(Counted::Things, |method| method.value.0);
        if let (Some(tool), false) = (&raw.tool, counted.has_thing()) {
            let hint = "remove `tool`, or write `method: tools/call`";
            self.error(&tool.place, "this method is about no tool".to_owned(), hint);
        }
        if let (Some(upstream), Counted::Lists | Counted::Initialize) = (&raw.upstream, counted) {
            let hint = "remove `upstream`: a list is of all upstreams";
            self.error(&upstream.place, "this method is about no upstream".to_owned(), hint);
        }
        if let Some(per) = &raw.per {
            let blind = match per.value.0 {
                Per::Tool => !counted.has_thing(),
                Per::Upstream => matches!(counted, Counted::Lists | Counted::Initialize),
                Per::Tenant | Per::Principal | Per::Server => false,
            };
            if blind {
                let hint = "write `per: principal` or `per: tenant`";
                self.error(&per.place, "this method has nothing of that kind to count by".to_owned(), hint);
            }
        }
        if let (Some(server), true) = (&raw.server, counted.is_asked()) {
            let hint = "remove `server`";
            self.error(&server.place, "what an upstream asks is counted wherever it goes".to_owned(), hint);
        }
        let ids = || upstreams.iter().map(|upstream| &*upstream.id);
        let known: Vec<&str> = ids().collect();
        if let Some(id) = &raw.upstream {
            self.named((&id.value.0, &id.place), "upstream", &known);
        }
        if let Some(glob) = &raw.tool {
            let text = glob.value.0.text.as_str();
            let id = text.split_once("__").map_or("*", |(id, _)| id);
            if !id.contains(['*', '?']) {
                self.named((id, &glob.place), "upstream", &known);
            }
        }
        if let Some(id) = &raw.server {
            let mut known: Vec<&str> = servers.iter().map(String::as_str).collect();
            known.push("default");
            self.named((&id.value.0, &id.place), "virtual server", &known);
        }
    }

    fn named(&mut self, (id, place): (&str, &Place), what: &str, known: &[&str]) {
        if known.contains(&id) {
            return;
        }
        let hint = match nearest(id, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("those of this tenant: {}", known.join(", ")),
        };
        self.warn(place, format!("nothing is counted: there is no {what} `{id}`"), &hint);
    }
}

/// What a rule without a name is called.
fn derived(raw: &Rule) -> String {
    let per = raw.per.as_ref().map(|per| word(&per.value)).unwrap_or_default();
    let method = raw.method.as_ref().map(|method| word(&method.value));
    let mut parts = vec![per];
    parts.extend(method);
    parts.extend(raw.selectors());
    parts.extend(raw.measures().first().map(|(key, _)| (*key).to_owned()));
    parts.join(":")
}

/// A word of a choice, as it is written.
fn word<T: Choices>(choice: &OneOf<T>) -> String {
    choice.sample().as_str().unwrap_or_default().to_owned()
}

impl Rule {
    /// The measures that are written.
    fn measures(&self) -> Vec<(&'static str, &Place)> {
        [
            ("rate", self.rate.as_ref().map(|written| &written.place)),
            ("concurrent", self.concurrent.as_ref().map(|written| &written.place)),
            ("bytes_in", self.bytes_in.as_ref().map(|written| &written.place)),
            ("bytes_out", self.bytes_out.as_ref().map(|written| &written.place)),
            ("budget", self.budget.as_ref().map(|written| &written.place)),
            ("sessions", self.sessions.as_ref().map(|written| &written.place)),
            ("streams", self.streams.as_ref().map(|written| &written.place)),
        ]
        .into_iter()
        .filter_map(|(key, place)| Some((key, place?)))
        .collect()
    }

    /// The selectors that are written, beside the method.
    fn selectors(&self) -> impl Iterator<Item = String> {
        let tool = self.tool.as_ref().map(|glob| glob.value.0.text.clone());
        let upstream = self.upstream.as_ref().map(|id| id.value.0.clone());
        let server = self.server.as_ref().map(|id| id.value.0.clone());
        [upstream, tool, server].into_iter().flatten()
    }
}
