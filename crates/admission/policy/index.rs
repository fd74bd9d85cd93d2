//! Which rules can be about a thing, found by its name: of a thousand few are looked at.

use std::collections::HashMap;

use regex::{RegexSet, RegexSetBuilder};

use super::rule::{Glob, Rule, Subject};
use crate::Sort;

/// The most memory the patterns of one kind may take together, in bytes. Above it every rule with patterns is looked
/// at.
const SET: usize = 16 << 20;

/// The rules of a tenant by what they are about. Positions are those in the list of rules.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// About everything: looked at always.
    always: Vec<usize>,
    tools: Names,
    prompts: Names,
    resources: Names,
    /// About questions of upstreams.
    asks: Vec<usize>,
}

/// The rules of one kind of thing.
#[derive(Debug, Default)]
struct Names {
    exact: HashMap<Box<str>, Vec<usize>>,
    /// The globs of all rules, and whose each is; none when they are too large together.
    set: Option<RegexSet>,
    owners: Vec<usize>,
}

impl Index {
    pub(super) fn of(rules: &[Rule]) -> Index {
        let mut index = Index::default();
        for (position, rule) in rules.iter().enumerate() {
            let what = &rule.what;
            match (&what.tools, &what.prompts, &what.resources, &what.asks) {
                (None, None, None, None) => index.always.push(position),
                (_, _, _, Some(_)) => index.asks.push(position),
                _ => {}
            }
        }
        index.tools = Names::of(rules, |rule| rule.what.tools.as_deref());
        index.prompts = Names::of(rules, |rule| rule.what.prompts.as_deref());
        index.resources = Names::of(rules, |rule| rule.what.resources.as_deref());
        index
    }

    /// Calls `look` with each rule that can be about this, in their order, each once.
    pub(super) fn each(&self, subject: Subject<'_>, look: impl FnMut(usize)) {
        let (names, name) = match subject {
            Subject::Thing(Sort::Tool, name) => (&self.tools, name),
            Subject::Thing(Sort::Prompt, name) => (&self.prompts, name),
            Subject::Thing(Sort::Resource, name) => (&self.resources, name),
            Subject::Ask(_) => return merged(&self.always, &self.asks, look),
        };
        let exact = names.exact.get(name).map(Vec::as_slice).unwrap_or_default();
        if names.owners.is_empty() {
            return merged(&self.always, exact, look);
        }
        let mut found = exact.to_vec();
        match &names.set {
            Some(set) => {
                let globs = set.matches(name);
                found.extend(globs.iter().filter_map(|glob| names.owners.get(glob)));
            }
            None => found.extend(&names.owners),
        }
        found.sort_unstable();
        found.dedup();
        merged(&self.always, &found, look);
    }
}

impl Names {
    fn of(rules: &[Rule], globs: impl Fn(&Rule) -> Option<&[Glob]>) -> Names {
        let mut names = Names::default();
        let mut patterns = Vec::new();
        for (position, rule) in rules.iter().enumerate() {
            for glob in globs(rule).unwrap_or_default() {
                match glob.literal() {
                    Some(name) => names.exact.entry(name.into()).or_default().push(position),
                    None => {
                        patterns.push(glob.expression());
                        names.owners.push(position);
                    }
                }
            }
        }
        names.set = RegexSetBuilder::new(&patterns).size_limit(SET).build().ok();
        names
    }
}

/// Two ascending lists as one.
fn merged(one: &[usize], other: &[usize], mut look: impl FnMut(usize)) {
    let (mut one, mut other) = (one.iter().copied().peekable(), other.iter().copied().peekable());
    loop {
        let next = match (one.peek(), other.peek()) {
            (Some(a), Some(b)) if a == b => {
                other.next();
                one.next()
            }
            (Some(a), Some(b)) if a > b => other.next(),
            (Some(_), _) => one.next(),
            (None, _) => other.next(),
        };
        match next {
            Some(position) => look(position),
            None => return,
        }
    }
}
