//! What a condition may be made of: names that exist, functions that are cheap, loops that end soon.

use std::collections::HashMap;

use cel::{
    IdedExpr,
    common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, SelectExpr, operators},
};
use regex::{Regex, RegexBuilder};

use super::{
    reads::{Reads, Uses},
    roots,
};
use crate::Flaw;

/// The most parts of a condition.
const NODES: usize = 500;

/// The most parts of what a loop does with each element.
const BODY: usize = 64;

/// How deep a condition may go.
const DEPTH: usize = 64;

/// The most `+`: each may copy as much as the arguments are long.
const SUMS: usize = 8;

/// The most memory a compiled pattern may take, in bytes: it bounds the time a search takes too.
const REGEX: usize = 64 * 1024;

/// Functions that may be called, beyond operators and macros.
const FUNCTIONS: [&str; 26] = [
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "int",
    "uint",
    "double",
    "string",
    "bool",
    "dyn",
    "timestamp",
    "duration",
    "getFullYear",
    "getMonth",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getHours",
    "getMinutes",
    "getSeconds",
    "hasValue",
    "value",
    "orValue",
    "or",
];

/// What looking at an expression gave.
#[derive(Default)]
pub(super) struct Found {
    pub(super) reads: Reads,
    pub(super) regexes: HashMap<String, Regex>,
}

/// Checks an expression.
///
/// # Errors
/// With every flaw.
pub(super) fn check(source: &str, expression: &IdedExpr) -> Result<Found, Vec<Flaw>> {
    let mut walk = Walk {
        source,
        found: Found::default(),
        flaws: Vec::new(),
        nodes: 0,
        sums: 0,
        adding: 0,
        turning: None,
    };
    walk.expression(expression, 0);
    if walk.sums > SUMS {
        walk.flaw(Flaw::new(format!("adds more than {SUMS} times")).hint("compare the parts instead"));
    }
    if walk.flaws.is_empty() { Ok(walk.found) } else { Err(walk.flaws) }
}

struct Walk<'s> {
    source: &'s str,
    found: Found,
    flaws: Vec<Flaw>,
    nodes: usize,
    sums: usize,
    /// How many additions are around: each copies what the ones within it made.
    adding: usize,
    /// The loop that is looked at.
    turning: Option<Turning>,
}

/// A loop: its variable, and what it goes through.
struct Turning {
    variable: String,
    through: Reads,
}

impl Walk<'_> {
    /// Each flaw is told once.
    fn flaw(&mut self, flaw: Flaw) {
        if !self.flaws.contains(&flaw) {
            self.flaws.push(flaw);
        }
    }

    fn expression(&mut self, expression: &IdedExpr, depth: usize) {
        self.nodes += 1;
        if self.nodes > NODES {
            return self.flaw(Flaw::new(format!("has more than {NODES} parts")).hint("split the rule"));
        }
        if depth > DEPTH {
            return self.flaw(Flaw::new(format!("is nested deeper than {DEPTH}")).hint("split the rule"));
        }
        match &expression.expr {
            Expr::Unspecified => {
                self.flaw(Flaw::new("is empty").hint("write a condition, or remove the key"))
            }
            Expr::Literal(_) => (),
            Expr::Ident(name) => self.root(name, None),
            Expr::Select(select) => self.select(select, depth),
            Expr::Call(call) => self.call(call, depth),
            Expr::List(list) => list.elements.iter().for_each(|element| self.expression(element, depth + 1)),
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.expression(&entry.key, depth + 1);
                        self.expression(&entry.value, depth + 1);
                    }
                }
            }
            Expr::Struct(_) => self.flaw(Flaw::new("builds a message").hint("rules only compare")),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, depth),
        }
    }

    /// A name that stands for something, and what is selected of it.
    fn root(&mut self, name: &str, field: Option<&str>) {
        if name == "@result" {
            return;
        }
        if let Some(Turning { variable, through }) = &self.turning
            && variable == name
        {
            // All elements together are what the loop goes through.
            return self.found.reads.add(through);
        }
        let times = 1 + self.adding;
        let uses = match self.turning {
            Some(_) => Uses { once: 0, each: times },
            None => Uses { once: times, each: 0 },
        };
        self.found.reads.note(name, field, uses);
        if let Err(flaw) = roots::exists(name, field) {
            let word = if roots::is_root(name) { field.unwrap_or(name) } else { name };
            let flaw = flaw.at_word(self.source, word);
            self.flaw(flaw);
        }
    }

    fn select(&mut self, select: &SelectExpr, depth: usize) {
        match &select.operand.expr {
            Expr::Ident(name) => {
                self.nodes += 1;
                self.root(name, Some(&select.field));
            }
            _ => self.expression(&select.operand, depth + 1),
        }
    }

    fn call(&mut self, call: &CallExpr, depth: usize) {
        let name = call.func_name.as_str();
        match (name, call.target.as_deref(), call.args.as_slice()) {
            // `claims.?x`, which is one name and a member.
            (operators::OPT_SELECT, None, [operand, field]) => {
                return match (&operand.expr, text(field)) {
                    (Expr::Ident(root), Some(field)) => self.root(root, Some(field)),
                    _ => self.expression(operand, depth + 1),
                };
            }
            // `args["x"]` is `args.x`.
            (operators::INDEX | operators::OPT_INDEX, None, [operand, index]) => {
                if let (Expr::Ident(root), Some(field)) = (&operand.expr, text(index)) {
                    self.nodes += 2;
                    return self.root(root, Some(field));
                }
                // `args.m[key]` finds one value, so a loop over keys looks at each value once.
                if let (Expr::Select(select), Some(_)) = (&operand.expr, &self.turning)
                    && let Expr::Ident(root) = &select.operand.expr
                {
                    self.nodes += 2;
                    self.expression(index, depth + 1);
                    let turning = self.turning.take();
                    self.root(root, Some(&select.field));
                    self.turning = turning;
                    return;
                }
            }
            ("matches", Some(_), [pattern]) | ("matches", None, [_, pattern]) => self.pattern(pattern),
            ("matches", ..) => self.flaw(Flaw::new("calls `matches` without a pattern")),
            (operators::ADD, ..) => self.sums += 1,
            _ => {}
        }
        if !is_operator(name) && !FUNCTIONS.contains(&name) {
            let near =
                crate::nearest(name, FUNCTIONS.into_iter().chain(["all", "exists", "exists_one", "has"]));
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None if name == "map" || name == "filter" => LISTS.to_owned(),
                None => format!("functions that exist: {}", FUNCTIONS.join(", ")),
            };
            self.flaw(
                Flaw::new(format!("calls `{name}`, which does not exist"))
                    .hint(hint)
                    .at_word(self.source, name),
            );
        }
        let adds = usize::from(name == operators::ADD);
        self.adding += adds;
        if let Some(target) = &call.target {
            self.expression(target, depth + 1);
        }
        call.args.iter().for_each(|argument| self.expression(argument, depth + 1));
        self.adding -= adds;
    }

    fn pattern(&mut self, pattern: &IdedExpr) {
        let Some(written) = text(pattern) else {
            let hint = "write the pattern as a text; it is compiled when the rule is loaded";
            return self.flaw(Flaw::new("matches a pattern that is not written out").hint(hint));
        };
        match RegexBuilder::new(written).size_limit(REGEX).build() {
            Ok(regex) => {
                self.found.regexes.insert(written.to_owned(), regex);
            }
            Err(regex::Error::CompiledTooBig(_)) => {
                let hint = "shorten it; counted repetitions are what costs most";
                self.flaw(
                    Flaw::new("has a pattern that is too large").hint(hint).at_word(self.source, written),
                );
            }
            Err(error) => {
                let text = error.to_string();
                let why = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
                self.flaw(Flaw::new(format!("has a pattern that is no regular expression: {why}")));
            }
        }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr, depth: usize) {
        let ComprehensionExpr { iter_range, iter_var, accu_init, loop_step, loop_cond, .. } = comprehension;
        if matches!(&accu_init.expr, Expr::List(_) | Expr::Map(_)) {
            return self.flaw(Flaw::new("builds a list").hint(LISTS));
        }
        if self.turning.is_some() || has_loop(iter_range) {
            let hint = "one loop at a time: what loops in loops cost grows with the arguments";
            return self.flaw(Flaw::new("has a loop within a loop").hint(hint));
        }
        if roots::is_root(iter_var) {
            let hint = "call the variable something else";
            let flaw =
                Flaw::new(format!("names a variable `{iter_var}`, which is something else")).hint(hint);
            return self.flaw(flaw.at_word(self.source, iter_var));
        }
        let around = std::mem::take(&mut self.found.reads);
        self.expression(iter_range, depth + 1);
        let through = self.found.reads.clone();
        self.found.reads.add(&around);
        let (before, sums) = (self.nodes, self.sums);
        self.turning = Some(Turning { variable: iter_var.clone(), through });
        self.expression(loop_cond, depth + 1);
        self.expression(loop_step, depth + 1);
        self.turning = None;
        let body = self.nodes - before;
        self.found.reads.body += body;
        if body > BODY {
            let hint = "split the rule";
            self.flaw(Flaw::new(format!("does more than {BODY} things with each element")).hint(hint));
        }
        // Counting, as `exists_one` does, is an addition of the macro's own.
        let counts = usize::from(matches!(&accu_init.expr, Expr::Literal(LiteralValue::Int(_))));
        if self.sums > sums + counts {
            let hint = "compare the parts instead";
            self.flaw(Flaw::new("adds within a loop").hint(hint));
        }
        self.sums = sums;
    }
}

const LISTS: &str = "a rule asks and builds nothing: write `exists`, `all` or `exists_one`";

fn is_operator(name: &str) -> bool {
    name.starts_with(['_', '@', '!', '-'])
}

fn text(expression: &IdedExpr) -> Option<&str> {
    match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

fn has_loop(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Comprehension(_) => true,
        Expr::Select(select) => has_loop(&select.operand),
        Expr::Call(call) => call.target.as_deref().is_some_and(has_loop) || call.args.iter().any(has_loop),
        Expr::List(list) => list.elements.iter().any(has_loop),
        Expr::Map(map) => map.entries.iter().any(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => has_loop(&entry.key) || has_loop(&entry.value),
            EntryExpr::StructField(_) => false,
        }),
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) => false,
    }
}
