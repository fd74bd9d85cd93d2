//! `when`: one CEL expression, bounded when it is loaded, so that no rule can cost a call much.
//!
//! CEL's interpreter has no budget of its own, and says nothing of names it does not know before they are evaluated.
//! So what may be written is checked here, on the parsed expression (`bounds.rs`), and regular expressions are
//! compiled once.

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use cel::{
    Context, Env, ExecutionError, IdedExpr, Value, common::types::CelBool, context::VariableResolver,
    extractors::This, parser::PrattParser,
};
use regex::Regex;

use super::{bounds, reads::Reads, types};
use crate::{Flaw, Sort};

/// The longest condition, in bytes.
const SOURCE: usize = 4096;

/// How deep parentheses may go, in the parser; what is parsed has a bound of its own.
const NESTING: u16 = 64;

/// Bytes of text that regular expressions look at in one evaluation.
const SEARCHED: usize = 16 * 1024;

/// A compiled condition.
pub(super) struct Condition {
    expression: IdedExpr,
    regexes: Arc<HashMap<String, Regex>>,
    /// What it looks at.
    pub(super) reads: Reads,
}

/// Why a condition has no answer. It denies.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(Box<str>);

impl RuleError {
    /// The most of it that is kept: a record is no place for what a caller sends.
    const LONGEST: usize = 160;

    /// For this reason.
    pub fn new(why: impl Into<Box<str>>) -> RuleError {
        RuleError(why.into())
    }

    /// The library's words, without the values in them: they are the caller's.
    fn of(error: &ExecutionError) -> RuleError {
        let why = match error {
            ExecutionError::NoSuchKey(key) => format!("there is no `{key}`"),
            ExecutionError::UndeclaredReference(name) => format!("there is no `{name}`"),
            ExecutionError::NoSuchOverload(overload) => overload.to_string(),
            ExecutionError::UnexpectedType { got, want } => format!("got {got} where {want} belongs"),
            ExecutionError::ValuesNotComparable(..) => "values that cannot be compared".to_owned(),
            ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
                "a division by zero".to_owned()
            }
            ExecutionError::Overflow(..) => "a number too large".to_owned(),
            ExecutionError::IndexOutOfBounds(_) => "an index beyond the end".to_owned(),
            ExecutionError::FunctionError { function, message } => format!("{function}: {message}"),
            _ => "it cannot be computed".to_owned(),
        };
        RuleError(why.chars().take(RuleError::LONGEST).collect())
    }
}

fn environment() -> &'static Arc<Env> {
    static ENVIRONMENT: OnceLock<Arc<Env>> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| Arc::new(Env::stdlib()))
}

impl Condition {
    /// Compiles an expression.
    ///
    /// # Errors
    /// With everything that is wrong with it: grammar, names that do not exist, what could cost too much.
    pub(super) fn compile(source: &str) -> Result<Condition, Vec<Flaw>> {
        if source.len() > SOURCE {
            return Err(vec![Flaw::new(format!("is longer than {SOURCE} bytes")).hint("split the rule")]);
        }
        let parser = PrattParser::new().max_recursion_depth(NESTING).enable_optional_syntax(true);
        let expression = parser.parse(source).map_err(|errors| {
            errors.errors.iter().take(3).map(|error| Flaw::syntax(source, error)).collect::<Vec<_>>()
        })?;
        let found = bounds::check(source, &expression)?;
        types::check(source, &expression)?;
        let regexes = Arc::new(found.regexes);
        Ok(Condition { expression, regexes, reads: found.reads })
    }

    /// Compiles one of a rule about these sorts of things; `None` among them is for questions of upstreams.
    ///
    /// # Errors
    /// As [`Condition::compile`], and when it looks at what such things have not.
    pub(super) fn about(source: &str, sorts: &[Option<Sort>]) -> Result<Condition, Vec<Flaw>> {
        let condition = Condition::compile(source)?;
        let foreign = sorts.iter().find_map(|sort| Some((sort, condition.reads.foreign(*sort)?)));
        let Some((sort, root)) = foreign else { return Ok(condition) };
        let thing = match sort {
            Some(Sort::Tool) => "a tool",
            Some(Sort::Prompt) => "a prompt",
            Some(Sort::Resource) => "a resource",
            None => "a question of an upstream",
        };
        let flaw = Flaw::new(format!("names `{root}`, and {thing} has none"));
        Err(vec![flaw.hint("write a rule for each kind of thing").at_word(source, root)])
    }

    /// Whether it holds.
    ///
    /// # Errors
    /// When it has no answer: a value it reads is not there, or of another type.
    pub(super) fn holds(&self, roots: &dyn VariableResolver) -> Result<bool, RuleError> {
        let mut context = Context::with_env(Arc::clone(environment()));
        if !self.regexes.is_empty() {
            self.add_matches(&mut context)?;
        }
        context.set_variable_resolver(roots);
        let value = Value::resolve_val(&self.expression, &context).map_err(|error| RuleError::of(&error))?;
        match value.downcast_ref::<CelBool>() {
            Some(answer) => Ok(*answer.inner()),
            None => Err(RuleError::new("it is neither true nor false")),
        }
    }

    /// `matches` over what was compiled at load: the library's own compiles at every call.
    fn add_matches(&self, context: &mut Context<'_, '_>) -> Result<(), RuleError> {
        let regexes = Arc::clone(&self.regexes);
        let left = AtomicUsize::new(SEARCHED);
        let matches = move |This(text): This<Arc<String>>, pattern: Arc<String>| {
            let failed = |message: &str| ExecutionError::FunctionError {
                function: "matches".to_owned(),
                message: message.to_owned(),
            };
            let spend = |left: usize| left.checked_sub(text.len());
            if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_err() {
                return Err(failed("more text than a rule may search"));
            }
            // INVARIANT: `bounds.rs` compiled every pattern that is written.
            let regex = regexes.get(&**pattern).ok_or_else(|| failed("an unknown pattern"))?;
            Ok(regex.is_match(&text))
        };
        context.add_function("matches", matches).map_err(|_| RuleError::new("`matches` is not available"))
    }
}

impl std::fmt::Debug for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Condition").field("reads", &self.reads).finish_non_exhaustive()
    }
}
