//! What a condition looks at, and how much work that can be.

use std::collections::BTreeMap;

use crate::Sort;

/// The most work that looking at values may be, in bytes: of each value its text and so many more for each value within,
/// for every time that the condition looks at it. Bounds what searching, comparing and copying costs.
const WORK: usize = 4 << 20;

/// The most parts that a loop may compute, all elements together.
const STEPS: usize = 20_000;

/// How often a condition looks at something: so often each time it is computed, and so often for each element of its loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Uses {
    pub(super) once: usize,
    pub(super) each: usize,
}

impl Uses {
    const NONE: Uses = Uses { once: 0, each: 0 };

    pub(super) fn any(self) -> bool {
        self != Uses::NONE
    }

    fn add(&mut self, other: Uses) {
        self.once += other.once;
        self.each += other.each;
    }
}

/// What a condition looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reads {
    /// The members of the arguments that it names.
    pub(super) members: BTreeMap<Box<str>, Uses>,
    /// All of the arguments.
    pub(super) all: Uses,
    /// The claims of the token.
    pub(super) claims: Uses,
    /// The groups and scopes of the principal.
    pub(super) lists: Uses,
    /// Things that only calls of this sort have.
    pub(super) tool: bool,
    pub(super) prompt: bool,
    pub(super) resource: bool,
    /// How many parts its loops have; none without a loop.
    pub(super) body: usize,
}

impl Reads {
    /// Nothing.
    pub(super) const NOTHING: Reads = Reads {
        members: BTreeMap::new(),
        all: Uses::NONE,
        claims: Uses::NONE,
        lists: Uses::NONE,
        tool: false,
        prompt: false,
        resource: false,
        body: 0,
    };

    /// It looks at this too, so often.
    pub(super) fn note(&mut self, root: &str, field: Option<&str>, uses: Uses) {
        match (root, field) {
            ("args", Some(member)) => self.members.entry(member.into()).or_default().add(uses),
            ("args", None) => self.all.add(uses),
            ("claims", _) => self.claims.add(uses),
            ("principal", Some("groups" | "scopes")) => self.lists.add(uses),
            ("tool", _) => self.tool = true,
            ("prompt", _) => self.prompt = true,
            ("resource", _) => self.resource = true,
            _ => {}
        }
    }

    /// It looks at all of this too.
    pub(super) fn add(&mut self, other: &Reads) {
        for (name, uses) in &other.members {
            self.members.entry(name.clone()).or_default().add(*uses);
        }
        self.all.add(other.all);
        self.claims.add(other.claims);
        self.lists.add(other.lists);
        self.tool |= other.tool;
        self.prompt |= other.prompt;
        self.resource |= other.resource;
        self.body += other.body;
    }

    /// Whether it looks at the arguments of a call.
    pub(super) fn args(&self) -> bool {
        self.all.any() || !self.members.is_empty()
    }

    /// Whether it has an answer for things of this sort (questions of upstreams are of none): what only other sorts have
    /// is nothing it looks at, or there is something of this one too.
    pub(super) fn suits(&self, sort: Option<Sort>) -> bool {
        let things = self.tool || self.prompt || self.resource;
        match sort {
            Some(Sort::Tool) => self.tool || !things,
            Some(Sort::Prompt) => self.prompt || !things,
            Some(Sort::Resource) => self.resource || !(things || self.args()),
            None => !(things || self.args()),
        }
    }

    /// What it looks at that things of this sort have not.
    pub(super) fn foreign(&self, sort: Option<Sort>) -> Option<&'static str> {
        let is = |other| sort == Some(other);
        let roots = [
            ("tool", self.tool && !is(Sort::Tool)),
            ("prompt", self.prompt && !is(Sort::Prompt)),
            ("resource", self.resource && !is(Sort::Resource)),
            ("args", self.args() && !is(Sort::Tool) && !is(Sort::Prompt)),
        ];
        roots.into_iter().find(|(_, foreign)| *foreign).map(|(root, _)| root)
    }
}

/// How large something is that a condition looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// The work of looking at all of it, in bytes.
    pub(crate) work: usize,
    /// How many elements the longest list in it has.
    pub(crate) longest: usize,
}

impl Size {
    /// How much work a value within is, beside its text.
    pub(crate) const VALUE: usize = 32;
}

/// Whether a condition that looks at these so often ends soon.
pub(super) fn ends_soon(reads: &Reads, seen: &[(Uses, Size)]) -> bool {
    let turns = seen.iter().map(|(_, size)| size.longest).max().unwrap_or(0);
    let times = |uses: &Uses| uses.each.saturating_mul(turns).saturating_add(uses.once);
    let work = seen.iter().map(|(uses, size)| times(uses).saturating_mul(size.work));
    work.fold(0, usize::saturating_add) <= WORK && turns.saturating_mul(reads.body) <= STEPS
}
