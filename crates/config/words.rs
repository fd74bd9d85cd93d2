//! Ids, names, paths, patterns and texts, each a type that cannot hold a wrong value.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::expand::is_variable;
use crate::filter::{Pattern, PatternError};
use crate::form::Form;
use crate::model::Secret;
use crate::schema::reference;
use crate::section::Name;
use crate::word::{Mistake, Secrets, Word};

/// The longest id, in bytes.
const ID_BYTES: usize = 24;

/// The path of a folder.
#[derive(Clone, Debug)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Word for Folder {
    fn form() -> Form {
        Form::text("folder")
    }

    fn parse(text: &str) -> Result<Folder, Mistake> {
        non_empty(text)?;
        Ok(Folder(PathBuf::from(text)))
    }

    fn sample(&self) -> Value {
        json!(self.0.to_string_lossy())
    }
}

/// The path of a file.
#[derive(Clone, Debug)]
pub(crate) struct FilePath(pub(crate) PathBuf);

impl Word for FilePath {
    fn form() -> Form {
        Form::text("file")
    }

    fn parse(text: &str) -> Result<FilePath, Mistake> {
        non_empty(text)?;
        if text.contains("-----BEGIN") {
            let hint = "put it into a file and write the path of that file";
            return Err(Mistake::new("is the content of a file, not a path").hint(hint));
        }
        Ok(FilePath(PathBuf::from(text)))
    }

    fn sample(&self) -> Value {
        json!(self.0.to_string_lossy())
    }
}

/// A glob over files.
#[derive(Clone, Debug)]
pub(crate) struct FileGlob(pub(crate) PathBuf);

impl Word for FileGlob {
    fn form() -> Form {
        Form::text("glob over files")
    }

    fn parse(text: &str) -> Result<FileGlob, Mistake> {
        non_empty(text)?;
        Ok(FileGlob(PathBuf::from(text)))
    }

    fn sample(&self) -> Value {
        json!(self.0.to_string_lossy())
    }
}

/// An id of a tenant, an upstream or a virtual server.
#[derive(Clone, Debug)]
pub(crate) struct Id(pub(crate) String);

impl Word for Id {
    fn form() -> Form {
        Form::pattern("id", "[a-z0-9]+([-_][a-z0-9]+)*")
    }

    fn parse(text: &str) -> Result<Id, Mistake> {
        let rule = "an id is made of a-z and 0-9, with single `-` or `_` between, at most 24 characters";
        let legal =
            text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || is_joint(byte));
        let joined = text.split(['-', '_']).all(|part| !part.is_empty());
        if text.len() > ID_BYTES {
            return Err(Mistake::new(format!("is longer than {ID_BYTES} characters")).hint(rule));
        }
        if text.contains("__") {
            // `__` parts the id from the name in what clients see: an id with it would make names ambiguous.
            return Err(Mistake::new("contains `__`, which is kept for exposed names").hint(rule));
        }
        if !legal || !joined {
            return Err(Mistake::new("is no id").hint(rule));
        }
        Ok(Id(text.to_owned()))
    }

    fn sample(&self) -> Value {
        json!(self.0)
    }
}

fn is_joint(byte: u8) -> bool {
    matches!(byte, b'-' | b'_')
}

impl Name for Id {
    const NAMES: &'static str = "id";
}

/// The longest label, in characters.
const LABEL_CHARS: usize = 64;

/// What people read as the name of an upstream.
#[derive(Clone, Debug)]
pub(crate) struct Label(pub(crate) String);

impl Word for Label {
    fn form() -> Form {
        Form::text("text")
    }

    fn parse(text: &str) -> Result<Label, Mistake> {
        non_empty(text)?;
        if text.chars().count() > LABEL_CHARS {
            return Err(Mistake::new(format!("is longer than {LABEL_CHARS} characters")));
        }
        // It stands between brackets, and what follows them is the server's own text.
        if text.contains(|c: char| c.is_control() || matches!(c, '[' | ']')) {
            return Err(Mistake::new("holds brackets or control characters").hint("write a plain name"));
        }
        Ok(Label(text.to_owned()))
    }

    fn sample(&self) -> Value {
        json!(self.0)
    }
}

/// The name of an environment variable.
#[derive(Clone, Debug)]
pub(crate) struct Variable(pub(crate) String);

impl Word for Variable {
    fn form() -> Form {
        Form::text("variable name")
    }

    fn parse(text: &str) -> Result<Variable, Mistake> {
        if !is_variable(text) {
            let hint = "letters, digits and `_`, and no digit first";
            return Err(Mistake::new("cannot be the name of an environment variable").hint(hint));
        }
        Ok(Variable(text.to_owned()))
    }

    fn sample(&self) -> Value {
        json!(self.0)
    }
}

impl Name for Variable {
    const NAMES: &'static str = "variable name";
}

/// The value of an environment variable, held as a secret.
#[derive(Clone, Debug)]
pub(crate) struct Held(pub(crate) Secret);

impl Word for Held {
    const SECRETS: Secrets = Secrets::Held;

    fn form() -> Form {
        Form::text("text")
    }

    fn parse(text: &str) -> Result<Held, Mistake> {
        no_nul(text)?;
        Ok(Held(Secret::new(text.to_owned())))
    }

    fn sample(&self) -> Value {
        Value::Null
    }
}

/// An argument of a command.
#[derive(Clone, Debug)]
pub(crate) struct Argument(pub(crate) String);

impl Word for Argument {
    const SECRETS: Secrets = Secrets::Exposed;

    fn form() -> Form {
        Form::text("text")
    }

    fn parse(text: &str) -> Result<Argument, Mistake> {
        no_nul(text)?;
        Ok(Argument(text.to_owned()))
    }

    fn sample(&self) -> Value {
        json!(self.0)
    }
}

/// The program of a stdio upstream, as written.
#[derive(Clone, Debug)]
pub(crate) struct Command(pub(crate) String);

impl Word for Command {
    fn form() -> Form {
        Form::text("program")
    }

    fn parse(text: &str) -> Result<Command, Mistake> {
        non_empty(text)?;
        no_nul(text)?;
        Ok(Command(text.to_owned()))
    }

    fn sample(&self) -> Value {
        json!(self.0)
    }
}

/// A compiled glob over native names.
#[derive(Clone, Debug)]
pub(crate) struct Glob(pub(crate) Pattern);

impl Word for Glob {
    fn form() -> Form {
        Form::text("glob")
    }

    fn parse(text: &str) -> Result<Glob, Mistake> {
        let hint = "`*` is any text and `?` one character; write regular expressions under `includeRegex` or `excludeRegex`";
        Pattern::glob(text).map(Glob).map_err(|error| pattern_mistake("glob", error, hint))
    }

    fn sample(&self) -> Value {
        json!(self.0.text)
    }
}

impl Name for Glob {
    const NAMES: &'static str = "globs";
}

/// A compiled regular expression over native names.
#[derive(Clone, Debug)]
pub(crate) struct Expression(pub(crate) Pattern);

impl Word for Expression {
    fn form() -> Form {
        Form::text("regular expression")
    }

    fn parse(text: &str) -> Result<Expression, Mistake> {
        let hint = "the syntax is that of Rust's `regex`: no look-around, no back-references; the whole name must match";
        Pattern::regex(text)
            .map(Expression)
            .map_err(|error| pattern_mistake("regular expression", error, hint))
    }

    fn sample(&self) -> Value {
        json!(self.0.text)
    }
}

fn pattern_mistake(what: &str, error: PatternError, hint: &str) -> Mistake {
    Mistake { why: format!("is no valid {what}: {}", error.why), hint: Some(hint.to_owned()), at: error.at }
}

impl Word for bool {
    const PLAIN: &'static [&'static str] = &["true or false"];
    const QUOTED: bool = false;

    fn form() -> Form {
        let schema = json!({ "anyOf": [{ "type": "boolean" }, reference()] });
        Form::Scalar { words: "true or false".to_owned(), schema }
    }

    fn parse(text: &str) -> Result<bool, Mistake> {
        text.parse().map_err(|_| Mistake::new("is neither true nor false").hint("write `true` or `false`"))
    }

    fn sample(&self) -> Value {
        json!(self)
    }
}

/// The longest name of a rule, in bytes.
const RULE_BYTES: usize = 64;

/// The name of a rule.
#[derive(Clone, Debug)]
pub(crate) struct RuleName(pub(crate) String);

impl Word for RuleName {
    fn form() -> Form {
        Form::pattern("name", "[A-Za-z0-9][A-Za-z0-9._-]*")
    }

    fn parse(text: &str) -> Result<RuleName, Mistake> {
        let hint = "letters, digits, `-`, `_` and `.`, at most 64, and a letter or digit first";
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if !first || text.len() > RULE_BYTES || !text.bytes().all(legal) {
            return Err(Mistake::new("is no name of a rule").hint(hint));
        }
        // Records use these words where no rule spoke.
        if ["default", "uri_form"].contains(&text) {
            return Err(Mistake::new("is kept for what no rule says").hint("call the rule something else"));
        }
        Ok(RuleName(text.to_owned()))
    }

    fn sample(&self) -> Value {
        json!(self.0)
    }
}

/// The name of a claim in a rule.
#[derive(Clone, Debug)]
pub(crate) struct ClaimName(pub(crate) String);

impl Word for ClaimName {
    fn form() -> Form {
        Form::text("claim")
    }

    fn parse(text: &str) -> Result<ClaimName, Mistake> {
        non_empty(text)?;
        Ok(ClaimName(text.to_owned()))
    }

    fn sample(&self) -> Value {
        json!(self.0)
    }
}

impl Name for ClaimName {
    const NAMES: &'static str = "claim";
}

/// A condition in CEL. Whether it compiles is asked later: here it is a text.
#[derive(Clone, Debug)]
pub(crate) struct Condition(pub(crate) String);

impl Word for Condition {
    fn form() -> Form {
        Form::text("condition in CEL")
    }

    fn parse(text: &str) -> Result<Condition, Mistake> {
        non_empty(text)?;
        Ok(Condition(text.to_owned()))
    }

    fn sample(&self) -> Value {
        json!(self.0)
    }
}

/// The longest message, in characters.
const MESSAGE_CHARS: usize = 500;

/// A text that is passed on as it stands.
#[derive(Clone, Debug)]
pub(crate) struct Message(pub(crate) String);

impl Word for Message {
    fn form() -> Form {
        Form::text("text")
    }

    fn parse(text: &str) -> Result<Message, Mistake> {
        non_empty(text)?;
        if text.chars().count() > MESSAGE_CHARS {
            return Err(Mistake::new(format!("is longer than {MESSAGE_CHARS} characters")));
        }
        if text.contains(|c: char| c.is_control() && c != '\n') {
            return Err(Mistake::new("holds control characters").hint("write plain text"));
        }
        Ok(Message(text.to_owned()))
    }

    fn sample(&self) -> Value {
        json!(self.0)
    }
}

fn non_empty(text: &str) -> Result<(), Mistake> {
    if text.trim().is_empty() { Err(Mistake::new("is empty").hint("give it a value")) } else { Ok(()) }
}

fn no_nul(text: &str) -> Result<(), Mistake> {
    if text.contains('\0') { Err(Mistake::new("contains a NUL character").hint("remove it")) } else { Ok(()) }
}
