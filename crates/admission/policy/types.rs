//! Conditions that cannot hold, whatever they are asked about: a text where a yes or no belongs, things compared that are
//! never equal, words that do not exist. What the caller sends may be anything, so it is never wrong here.

use cel::{
    IdedExpr,
    common::ast::{CallExpr, ComprehensionExpr, Expr, LiteralValue, operators},
};
use wire::Method;

use crate::{Flaw, Trust};

/// What a part of a condition comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    /// Only the call tells.
    Any,
    Bool,
    Number,
    Text,
    Texts,
    List,
    Map,
    Time,
    Span,
    Null,
}

impl Type {
    fn word(self) -> &'static str {
        match self {
            Type::Any => "anything",
            Type::Bool => "a yes or no",
            Type::Number => "a number",
            Type::Text => "a text",
            Type::Texts => "a list of texts",
            Type::List => "a list",
            Type::Map => "a mapping",
            Type::Time => "a time",
            Type::Span => "a duration",
            Type::Null => "nothing",
        }
    }

    /// Whether it may be one of these.
    fn may_be(self, types: &[Type]) -> bool {
        self == Type::Any || types.contains(&self)
    }

    /// Whether two may be equal.
    fn may_equal(self, other: Type) -> bool {
        let lists = [Type::List, Type::Texts];
        self == other
            || self == Type::Any
            || other == Type::Any
            || (lists.contains(&self) && lists.contains(&other))
    }
}

/// Checks an expression of known names and functions.
///
/// # Errors
/// With every flaw.
pub(super) fn check(source: &str, expression: &IdedExpr) -> Result<(), Vec<Flaw>> {
    let mut typing = Typing { source, flaws: Vec::new(), variable: None };
    typing.yes_or_no(expression);
    if typing.flaws.is_empty() { Ok(()) } else { Err(typing.flaws) }
}

struct Typing<'s> {
    source: &'s str,
    flaws: Vec<Flaw>,
    /// The variable of the loop around, and what it stands for.
    variable: Option<(String, Type)>,
}

impl Typing<'_> {
    fn flaw(&mut self, why: String, hint: &str, near: &[&IdedExpr]) {
        let flaw = Flaw::new(why);
        let flaw = if hint.is_empty() { flaw } else { flaw.hint(hint) };
        let flaw = match near.iter().find_map(|expression| written(expression)) {
            Some(word) => flaw.at_word(self.source, word),
            None => flaw,
        };
        if !self.flaws.contains(&flaw) {
            self.flaws.push(flaw);
        }
    }

    fn yes_or_no(&mut self, expression: &IdedExpr) {
        let found = self.of(expression);
        if !found.may_be(&[Type::Bool]) {
            self.flaw(
                format!("takes {} for a yes or no", found.word()),
                "compare it with something",
                &[expression],
            );
        }
    }

    fn of(&mut self, expression: &IdedExpr) -> Type {
        match &expression.expr {
            Expr::Literal(literal) => of_literal(literal),
            Expr::Ident(name) => match &self.variable {
                Some((variable, found)) if variable == name => *found,
                _ if name == "now" => Type::Time,
                _ => Type::Any,
            },
            Expr::Select(select) if select.test => Type::Bool,
            Expr::Select(select) => match &select.operand.expr {
                Expr::Ident(root) => of_field(root, &select.field),
                _ => Type::Any,
            },
            Expr::List(list) => {
                let elements: Vec<Type> = list.elements.iter().map(|element| self.of(element)).collect();
                let texts = !elements.is_empty() && elements.iter().all(|element| *element == Type::Text);
                if texts { Type::Texts } else { Type::List }
            }
            Expr::Map(_) => Type::Map,
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Call(call) => self.call(call),
            Expr::Unspecified | Expr::Struct(_) => Type::Any,
        }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Type {
        let ComprehensionExpr { iter_range, iter_var, loop_step, .. } = comprehension;
        let element = match self.of(iter_range) {
            Type::Texts => Type::Text,
            Type::Any | Type::List | Type::Map => Type::Any,
            other => {
                self.flaw(
                    format!("goes through {}", other.word()),
                    "a loop goes through a list",
                    &[iter_range],
                );
                Type::Any
            }
        };
        let around = self.variable.replace((iter_var.clone(), element));
        self.of(loop_step);
        self.variable = around;
        Type::Bool
    }

    fn call(&mut self, call: &CallExpr) -> Type {
        let name = call.func_name.as_str();
        match (name, call.target.as_deref(), call.args.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT, None, parts) => {
                parts.iter().for_each(|part| self.yes_or_no(part));
                Type::Bool
            }
            (operators::EQUALS | operators::NOT_EQUALS, None, [one, other]) => self.equality(one, other),
            (
                operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS,
                None,
                [one, other],
            ) => self.order(one, other),
            (operators::IN, None, [one, list]) => self.membership(one, list),
            (operators::CONDITIONAL, None, [condition, yes, no]) => {
                self.yes_or_no(condition);
                let (yes, no) = (self.of(yes), self.of(no));
                if yes == no { yes } else { Type::Any }
            }
            (operators::INDEX, None, [list, index]) => {
                self.of(index);
                if self.of(list) == Type::Texts { Type::Text } else { Type::Any }
            }
            (operators::ADD | operators::SUBSTRACT, None, [one, other]) => {
                let (one, other) = (self.of(one), self.of(other));
                let numbers = one == Type::Number && other == Type::Number;
                if numbers || (one == Type::Text && other == Type::Text) { one } else { Type::Any }
            }
            ("contains" | "startsWith" | "endsWith" | "matches", Some(target), [part]) => {
                self.searched(name, target, part)
            }
            (_, target, parts) => {
                target.into_iter().chain(parts).for_each(|part| {
                    self.of(part);
                });
                of_function(name)
            }
        }
    }

    fn equality(&mut self, one: &IdedExpr, other: &IdedExpr) -> Type {
        let (left, right) = (self.of(one), self.of(other));
        if !left.may_equal(right) {
            let hint = match (left, right) {
                (Type::Texts, Type::Text) | (Type::Text, Type::Texts) => "write `TEXT in LIST`",
                (Type::Time, Type::Text) | (Type::Text, Type::Time) => "write `timestamp(\"…\")`",
                _ => "",
            };
            let why = format!("compares {} with {}, which are never equal", left.word(), right.word());
            self.flaw(why, hint, &[one, other]);
        }
        self.words(one, other);
        self.words(other, one);
        Type::Bool
    }

    fn order(&mut self, one: &IdedExpr, other: &IdedExpr) -> Type {
        let ordered = [Type::Number, Type::Text, Type::Time, Type::Span];
        let (left, right) = (self.of(one), self.of(other));
        if let Some(odd) = [left, right].into_iter().find(|found| !found.may_be(&ordered)) {
            self.flaw(
                format!("asks whether {} is more or less than something", odd.word()),
                "",
                &[one, other],
            );
        } else if !left.may_equal(right) {
            let times = left == Type::Time || right == Type::Time;
            let hint = if times { "write `timestamp(\"…\")`" } else { "" };
            let why = format!("asks whether {} is more or less than {}", left.word(), right.word());
            self.flaw(why, hint, &[one, other]);
        }
        Type::Bool
    }

    fn membership(&mut self, one: &IdedExpr, list: &IdedExpr) -> Type {
        let (left, right) = (self.of(one), self.of(list));
        if !right.may_be(&[Type::List, Type::Texts, Type::Map]) {
            let hint = if right == Type::Text { "write `TEXT.contains(PART)`" } else { "" };
            self.flaw(format!("looks for something in {}", right.word()), hint, &[list, one]);
        } else if right == Type::Texts && !left.may_be(&[Type::Text]) {
            self.flaw(format!("looks for {} in {}", left.word(), right.word()), "", &[one, list]);
        }
        if let Expr::List(list) = &list.expr {
            list.elements.iter().for_each(|element| self.words(one, element));
        }
        Type::Bool
    }

    fn searched(&mut self, name: &str, target: &IdedExpr, part: &IdedExpr) -> Type {
        let (text, sought) = (self.of(target), self.of(part));
        if !text.may_be(&[Type::Text]) {
            let hint = match (text, name) {
                (Type::Texts, "contains") => "write `TEXT in LIST`".to_owned(),
                (Type::Texts, _) => format!("write `LIST.exists(one, one.{name}(…))`"),
                _ => String::new(),
            };
            self.flaw(format!("calls `{name}` of {}", text.word()), &hint, &[target]);
        }
        if !sought.may_be(&[Type::Text]) {
            self.flaw(format!("calls `{name}` with {}", sought.word()), "", &[part, target]);
        }
        Type::Bool
    }

    /// A word that something never is.
    fn words(&mut self, field: &IdedExpr, literal: &IdedExpr) {
        let (Expr::Select(select), Expr::Literal(LiteralValue::String(word))) = (&field.expr, &literal.expr)
        else {
            return;
        };
        let Expr::Ident(root) = &select.operand.expr else { return };
        let known: Vec<&str> = match (root.as_str(), select.field.as_str()) {
            ("tool" | "prompt" | "resource", "trust") => {
                [Trust::Untrusted, Trust::Standard, Trust::Trusted].map(Trust::word).to_vec()
            }
            ("request", "method") => Method::ALL.iter().map(|method| method.name()).collect(),
            _ => return,
        };
        let word = word.inner();
        if known.contains(&word) {
            return;
        }
        let hint = match crate::nearest(word, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.len() < 9 => format!("it is one of {}", known.join(", ")),
            None => "write a method of MCP".to_owned(),
        };
        let flaw = Flaw::new(format!("`{root}.{}` is never `{word}`", select.field)).hint(hint);
        self.flaws.push(flaw.at_word(self.source, word));
    }
}

fn of_literal(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Double(_) | LiteralValue::Int(_) | LiteralValue::UInt(_) => Type::Number,
        LiteralValue::String(_) => Type::Text,
        LiteralValue::Null => Type::Null,
        LiteralValue::Bytes(_) => Type::Any,
    }
}

fn of_field(root: &str, field: &str) -> Type {
    match (root, field) {
        ("principal", "groups" | "scopes") => Type::Texts,
        ("tool", "destructive" | "readOnly" | "egress") | ("session", "tainted") => Type::Bool,
        ("tool", "annotations") => Type::Map,
        ("principal" | "tool" | "prompt" | "resource" | "request" | "session", _) => Type::Text,
        _ => Type::Any,
    }
}

fn of_function(name: &str) -> Type {
    match name {
        "size" | "int" | "uint" | "double" => Type::Number,
        "string" => Type::Text,
        "bool" | "hasValue" => Type::Bool,
        "timestamp" => Type::Time,
        "duration" => Type::Span,
        name if name.starts_with("get") => Type::Number,
        _ => Type::Any,
    }
}

/// How a part is written, when it is one word.
fn written(expression: &IdedExpr) -> Option<&str> {
    match &expression.expr {
        Expr::Ident(name) => Some(name),
        Expr::Select(select) => Some(&select.field),
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::condition::Condition;

    #[test]
    fn what_could_never_hold_is_refused_when_it_is_loaded() {
        for (when, why, hint) in [
            ("principal.id", "takes a text for a yes or no", "compare it"),
            ("tool.destructive && 'x'", "takes a text for a yes or no", ""),
            ("args.x == 1 || now", "takes a time for a yes or no", ""),
            ("!principal.groups", "takes a list of texts for a yes or no", ""),
            (
                "principal.groups == 'eng'",
                "compares a list of texts with a text, which are never",
                "write `TEXT in",
            ),
            ("principal.id == 7", "compares a text with a number, which are never equal", ""),
            ("tool.destructive == 'yes'", "compares a yes or no with a text, which are never equal", ""),
            ("now > '2026-01-01'", "asks whether a time is more or less than a text", "write `timestamp("),
            ("'a' in principal.id", "looks for something in a text", "write `TEXT.contains"),
            ("7 in principal.groups", "looks for a number in a list of texts", ""),
            (
                "principal.groups.startsWith('x')",
                "calls `startsWith` of a list of texts",
                "write `LIST.exists",
            ),
            ("principal.groups.contains('x')", "calls `contains` of a list of texts", "write `TEXT in LIST`"),
            ("args.x.contains(7)", "calls `contains` with a number", ""),
            (
                "principal.groups.exists(g, g == 7)",
                "compares a text with a number, which are never equal",
                "",
            ),
            ("principal.id.all(c, c == 'x')", "goes through a text", "a loop goes through a list"),
            ("tool.trust == 'trused'", "`tool.trust` is never `trused`", "did you mean `trusted`?"),
            ("tool.trust in ['trusted', 'some']", "`tool.trust` is never `some`", "it is one of untrusted"),
            (
                "request.method != 'tool/call'",
                "`request.method` is never `tool/call`",
                "did you mean `tools/call`?",
            ),
        ] {
            let flaws = Condition::compile(when).err().unwrap_or_else(|| panic!("`{when}` compiles"));
            let flaw = &flaws[0];
            assert!(flaw.why.starts_with(why) && flaw.at.is_some(), "`{when}`: {flaws:?}");
            assert!(flaw.hint.as_deref().unwrap_or_default().starts_with(hint), "`{when}`: {flaws:?}");
        }
    }

    #[test]
    fn what_the_caller_sends_may_be_anything() {
        for when in [
            "args.x",
            "args.x == 1 && args.x == 'one'",
            "claims.groups.contains('x') || 'x' in claims.groups",
            "size(args.list) > 2 && args.list[0] == 'x'",
            "args.x == null || args.x in [1, 'one']",
            "tool.annotations.title == 'x' && has(tool.annotations.title)",
            "now - timestamp('2026-01-01T00:00:00Z') > duration('1h')",
            "now.getHours() >= 8 && now.getDayOfWeek() in [1, 2, 3, 4, 5]",
            "(tool.destructive ? 'a' : 'b') == principal.id",
            "principal.groups.exists_one(g, g.startsWith('eng-'))",
            "[principal.id, tool.name].exists(n, n.endsWith('x'))",
            "claims.?level.orValue(0) > 2",
            "principal.groups == ['eng']",
            "principal.groups[0] == 'eng'",
            "true",
        ] {
            assert!(Condition::compile(when).is_ok(), "`{when}`: {:?}", Condition::compile(when).err());
        }
    }
}
