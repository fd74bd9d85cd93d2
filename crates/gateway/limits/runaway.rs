//! Agents that go in circles: the same call again and again, two in turn, one tool that fails whatever is asked, a sweep
//! through everything there is.
//!
//! The call that is one too many is not made and its model is told why. The next one like it is refused until the window
//! is over. A call of something else begins anew.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use config::Pattern;

use super::key::Key;

/// Conversations of one tenant that are watched. Beyond that newcomers are not: this is a help and no control.
const TRAILS: usize = 50_000;
/// Tools whose failures are counted in one conversation; the longest silent gives way.
const FAILING: usize = 16;

/// When it is a circle.
#[derive(Debug)]
pub(crate) struct Watch {
    repeats: usize,
    alternations: usize,
    errors: u32,
    fan_out: usize,
    /// In nanoseconds.
    within: u64,
    except: Vec<Pattern>,
}

impl Watch {
    pub(super) fn new(runaway: &config::Runaway) -> Watch {
        Watch {
            repeats: runaway.repeats,
            alternations: runaway.alternations,
            errors: runaway.errors,
            fan_out: runaway.fan_out,
            within: u64::try_from(runaway.within.as_nanos()).unwrap_or(u64::MAX),
            except: runaway.except.clone(),
        }
    }

    /// Whether calls of this tool count.
    pub(super) fn sees(&self, tool: &str) -> bool {
        !self.except.iter().any(|pattern| pattern.matches(tool))
    }
}

/// The kinds of circles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Circle {
    /// The same call.
    Repeat,
    /// Two in turn.
    Alternation,
    /// One tool that fails.
    Errors,
    /// One tool after another.
    FanOut,
}

impl Circle {
    /// The word for records and programs.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Circle::Repeat => "repeat",
            Circle::Alternation => "alternation",
            Circle::Errors => "errors",
            Circle::FanOut => "fan_out",
        }
    }
}

/// A call that was not made.
#[derive(Debug)]
pub(crate) struct Runaway {
    pub(crate) circle: Circle,
    /// How often.
    pub(crate) times: usize,
    pub(crate) within: Duration,
    /// Until such a call is made again; none for the first one, which only tells.
    pub(crate) after: Option<Duration>,
}

/// The conversations of one tenant.
#[derive(Debug, Default)]
pub(super) struct Trails(papaya::HashMap<Key, Arc<Mutex<Trail>>>);

impl Trails {
    pub(super) fn of(&self, key: Key) -> Arc<Mutex<Trail>> {
        let trails = self.0.pin();
        if let Some(trail) = trails.get(&key) {
            return Arc::clone(trail);
        }
        if trails.len() >= TRAILS {
            return Arc::default();
        }
        Arc::clone(trails.get_or_insert_with(key, Arc::default))
    }

    pub(super) fn sweep(&self, now: u64) {
        let trails = self.0.pin();
        trails.retain(|_, trail| Arc::strong_count(trail) > 1 || lock(trail).forgotten > now);
    }
}

/// What one conversation did of late.
#[derive(Debug, Default)]
pub(super) struct Trail {
    /// The calls since the last that fits no circle, each with its time: all the same, or two in turn.
    run: VecDeque<(u64, u64)>,
    /// Tools that fail.
    failing: Vec<Failing>,
    /// Tools and when each was called last.
    tools: VecDeque<(u64, u64)>,
    /// What the model was told of.
    told: Option<Circle>,
    /// When nothing of it matters any more.
    forgotten: u64,
}

#[derive(Debug)]
struct Failing {
    tool: u64,
    times: u32,
    since: u64,
}

/// A call that was made, until it has ended.
#[derive(Debug)]
pub(crate) struct Watched {
    trail: Arc<Mutex<Trail>>,
    tool: u64,
    within: u64,
}

fn lock(trail: &Mutex<Trail>) -> MutexGuard<'_, Trail> {
    trail.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watched {
    /// Notes a call, unless it is one too many.
    pub(super) fn begin(
        trail: Arc<Mutex<Trail>>,
        watch: &Watch,
        call: (u64, u64),
        now: u64,
    ) -> Result<Watched, Runaway> {
        lock(&trail).called(watch, call, now)?;
        Ok(Watched { trail, tool: call.0, within: watch.within })
    }

    /// Notes how it ended.
    pub(super) fn ended(&self, failed: bool, now: u64) {
        let Watched { tool, within, .. } = *self;
        let mut trail = lock(&self.trail);
        let place = trail.failing.iter().position(|failing| failing.tool == tool);
        match (place, failed) {
            (Some(place), false) => {
                trail.failing.swap_remove(place);
            }
            (Some(place), true) => {
                if let Some(failing) = trail.failing.get_mut(place) {
                    if now.saturating_sub(failing.since) >= within {
                        *failing = Failing { tool, times: 0, since: now };
                    }
                    failing.times = failing.times.saturating_add(1);
                }
            }
            (None, true) => {
                if trail.failing.len() >= FAILING {
                    trail.failing.remove(0);
                }
                trail.failing.push(Failing { tool, times: 1, since: now });
            }
            (None, false) => (),
        }
    }
}

impl Trail {
    fn called(&mut self, watch: &Watch, (tool, print): (u64, u64), now: u64) -> Result<(), Runaway> {
        let is_old = |(_, at): &(u64, u64)| now.saturating_sub(*at) >= watch.within;
        while self.run.front().is_some_and(is_old) {
            self.run.pop_front();
        }
        while self.tools.front().is_some_and(is_old) {
            self.tools.pop_front();
        }
        self.forgotten = now.saturating_add(watch.within);
        if let Some((circle, times, since)) = self.circle(watch, (tool, print), now) {
            let within = Duration::from_nanos(watch.within);
            let left = since.saturating_add(watch.within).saturating_sub(now);
            let after = (self.told == Some(circle)).then(|| Duration::from_nanos(left));
            self.told = Some(circle);
            return Err(Runaway { circle, times, within, after });
        }
        self.told = None;
        self.went_on(print, now);
        if self.run.len() > 2 * watch.repeats.max(watch.alternations) {
            self.run.pop_front();
        }
        match self.tools.iter().position(|(known, _)| *known == tool) {
            Some(place) => drop(self.tools.remove(place)),
            None if self.tools.len() >= watch.fan_out => drop(self.tools.pop_front()),
            None => (),
        }
        self.tools.push_back((tool, now));
        Ok(())
    }

    /// Keeps the longest end that is all the same or two in turn.
    fn went_on(&mut self, print: u64, now: u64) {
        let before_last = self.run.len().checked_sub(2).and_then(|place| self.run.get(place));
        if before_last.is_some_and(|(earlier, _)| *earlier != print) {
            let last = self.run.pop_back();
            self.run.clear();
            self.run.extend(last);
        }
        self.run.push_back((print, now));
    }

    /// Which circle this call would go on with, how often it was gone through, and since when.
    fn circle(&self, watch: &Watch, (tool, print): (u64, u64), now: u64) -> Option<(Circle, usize, u64)> {
        let failing = self.failing.iter().find(|failing| failing.tool == tool);
        if let Some(failing) = failing
            && failing.times >= watch.errors
            && now.saturating_sub(failing.since) < watch.within
        {
            return Some((
                Circle::Errors,
                usize::try_from(failing.times).unwrap_or(usize::MAX),
                failing.since,
            ));
        }
        let same = self.run.iter().rev().take_while(|(earlier, _)| *earlier == print).count();
        if same >= watch.repeats {
            return Some((Circle::Repeat, same, self.since(watch.repeats)));
        }
        let both = 2 * watch.alternations;
        let before_last = self.run.len().checked_sub(2).and_then(|place| self.run.get(place));
        let goes_on = before_last.is_some_and(|(earlier, _)| *earlier == print);
        if same == 0 && goes_on && self.run.len() >= both {
            return Some((Circle::Alternation, watch.alternations, self.since(both)));
        }
        let is_new = !self.tools.iter().any(|(known, _)| *known == tool);
        if is_new && self.tools.len() >= watch.fan_out {
            let since = self.tools.front().map_or(now, |(_, at)| *at);
            return Some((Circle::FanOut, self.tools.len(), since));
        }
        None
    }

    /// When the last so many of the run began.
    fn since(&self, many: usize) -> u64 {
        let place = self.run.len().saturating_sub(many);
        self.run.get(place).map_or(0, |(_, at)| *at)
    }
}

#[cfg(test)]
mod tests;
