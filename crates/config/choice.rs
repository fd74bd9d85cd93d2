//! Words of a few: enumerations, with the words of later versions known and refused.

use serde_json::{Value, json};

use crate::form::{Choice, Form};
use crate::model::{
    self, Algorithm, Asking, Asks, Counted, Deed, Durability, Effect, ErrorStatus, Expectation, Naming, Per,
    Share, Signing, Sse, Trust,
};
use crate::reader::nearest;
use crate::word::{Mistake, Word};

/// An enumeration in the configuration.
pub(crate) trait Choices: Sized + Copy + PartialEq + 'static {
    /// Every word, with what it stands for; nothing for a word that is known only.
    const TABLE: &'static [(Choice, Option<Self>)];
    /// The words alone, for the description.
    const WORDS: &'static [Choice];
}

/// A value of an enumeration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OneOf<T>(pub(crate) T);

impl<T: Choices> Word for OneOf<T> {
    fn form() -> Form {
        Form::Choice(T::WORDS)
    }

    fn parse(text: &str) -> Result<OneOf<T>, Mistake> {
        match T::TABLE.iter().find(|(choice, _)| choice.word == text) {
            Some((_, Some(value))) => Ok(OneOf(*value)),
            Some((choice, None)) => {
                let why = choice.refused.unwrap_or_default();
                Err(Mistake::new(format!("is not available in this version: {why}"))
                    .hint("choose another word"))
            }
            None => {
                let available = || T::WORDS.iter().filter(|choice| choice.refused.is_none());
                let hint = match nearest(text, T::WORDS.iter().map(|choice| choice.word)) {
                    Some(word) => format!("did you mean `{word}`?"),
                    None => {
                        let words: Vec<String> =
                            available().map(|choice| format!("`{}`", choice.word)).collect();
                        format!("write {}", words.join(" or "))
                    }
                };
                Err(Mistake::new("is not known here").hint(hint))
            }
        }
    }

    fn sample(&self) -> Value {
        let row = T::TABLE.iter().find(|(_, value)| *value == Some(self.0));
        row.map_or(Value::Null, |(choice, _)| json!(choice.word))
    }
}

/// What happens to a call whose record cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It is refused.
    Strict,
}

/// One table for both constants of [`Choices`].
macro_rules! choices {
    ($type:ty { $($word:literal $doc:literal => $value:expr;)* } refused { $($later:literal $late_doc:literal : $why:literal;)* }) => {
        impl Choices for $type {
            const TABLE: &'static [(Choice, Option<Self>)] = &[
                $((Choice { word: $word, doc: $doc, refused: None }, Some($value)),)*
                $((Choice { word: $later, doc: $late_doc, refused: Some($why) }, None),)*
            ];
            const WORDS: &'static [Choice] = &[
                $(Choice { word: $word, doc: $doc, refused: None },)*
                $(Choice { word: $later, doc: $late_doc, refused: Some($why) },)*
            ];
        }
    };
}

choices! { Mode {
    "strict" "no record, no call" => Mode::Strict;
} refused {} }

choices! { Durability {
    "os" "handed to the operating system before the call leaves: survives a killed process" => Durability::Os;
} refused {
    "fsync" "on the disk before the call leaves: survives a power loss": "records would not be synced to the disk";
} }

choices! { Trust {
    "trusted" "run or reviewed by you" => Trust::Trusted;
    "standard" "the usual tier" => Trust::Standard;
    "untrusted" "nothing it says is taken on faith" => Trust::Untrusted;
} refused {} }

choices! { Share {
    "principal" "one for each principal" => Share::Principal;
    "tenant" "one for everybody of the tenant" => Share::Tenant;
    "session" "one for each session" => Share::Session;
} refused {} }

choices! { Asks {
    "sampling" "what the client's model says" => Asks::Sampling;
    "roots" "which folders the client works in, asked by programs on this machine" => Asks::Roots;
    "remote_roots" "the same, asked by servers over HTTP too" => Asks::RemoteRoots;
} refused {} }

choices! { Sse {
    "detect" "when the server does not understand Streamable HTTP" => Sse::Detect;
    "never" "Streamable HTTP only" => Sse::Never;
    "only" "HTTP+SSE only" => Sse::Only;
} refused {} }

choices! { Naming {
    "prefixed" "with the id of the upstream in front" => Naming::Prefixed;
    "bare" "as the upstream itself does" => Naming::Bare;
} refused {} }

choices! { ErrorStatus {
    "protocol" "the one MCP names: 400 or 404 with some errors" => ErrorStatus::Protocol;
    "ok" "always 200" => ErrorStatus::Ok;
} refused {} }

choices! { Effect {
    "allow" "the call may leave" => Effect::Allow;
    "approve" "a person must say yes first; until somebody can be asked it is denied" => Effect::Approve;
    "deny" "it may not" => Effect::Deny;
} refused {} }

choices! { model::Mode {
    "enforce" "it decides" => model::Mode::Enforce;
    "shadow" "it only records what it would have said" => model::Mode::Shadow;
} refused {} }

choices! { Asking {
    "sampling" "what the client's model says" => Asking::Sampling;
    "elicitation" "what the client's user says" => Asking::Elicitation;
    "roots" "which folders the client works in" => Asking::Roots;
} refused {} }

choices! { Deed {
    "tools/call" "a tool is called" => Deed::Call;
    "prompts/get" "a prompt is got" => Deed::Get;
    "resources/read" "a resource is read" => Deed::Read;
    "resources/subscribe" "a resource is followed" => Deed::Subscribe;
    "completion/complete" "an argument is completed" => Deed::Complete;
} refused {} }

choices! { Per {
    "tenant" "everybody of the tenant" => Per::Tenant;
    "principal" "each principal" => Per::Principal;
    "upstream" "each upstream" => Per::Upstream;
    "tool" "each tool, prompt or resource" => Per::Tool;
    "server" "each virtual server" => Per::Server;
} refused {} }

choices! { Counted {
    "calls" "`tools/call`, `prompts/get` and `completion/complete`" => Counted::Calls;
    "reads" "`resources/read` and `resources/subscribe`" => Counted::Reads;
    "lists" "`tools/list` and the other lists" => Counted::Lists;
    "tools/call" "a tool is called" => Counted::ToolsCall;
    "prompts/get" "a prompt is got" => Counted::PromptsGet;
    "resources/read" "a resource is read" => Counted::ResourcesRead;
    "resources/subscribe" "a resource is followed" => Counted::ResourcesSubscribe;
    "completion/complete" "an argument is completed" => Counted::Complete;
    "initialize" "a session is opened" => Counted::Initialize;
    "sampling/createMessage" "an upstream asks the client's model" => Counted::Sampling;
    "elicitation/create" "an upstream asks the client's user" => Counted::Elicitation;
    "roots/list" "an upstream asks for the client's folders" => Counted::Roots;
} refused {} }

choices! { Expectation {
    "allow" "it may leave" => Expectation::Allow;
    "approve" "a person must say yes first" => Expectation::Approve;
    "deny" "it may not, hidden or not" => Expectation::Deny;
    "hide" "it may not, and is not shown" => Expectation::Hide;
} refused {} }

choices! { Signing {
    "ES256" "ECDSA on P-256" => Signing::Es256;
    "RS256" "RSA with SHA-256" => Signing::Rs256;
    "EdDSA" "Ed25519" => Signing::EdDsa;
} refused {} }

choices! { Algorithm {
    "RS256" "RSA with SHA-256" => Algorithm::RS256;
    "RS384" "RSA with SHA-384" => Algorithm::RS384;
    "RS512" "RSA with SHA-512" => Algorithm::RS512;
    "PS256" "RSA-PSS with SHA-256" => Algorithm::PS256;
    "PS384" "RSA-PSS with SHA-384" => Algorithm::PS384;
    "PS512" "RSA-PSS with SHA-512" => Algorithm::PS512;
    "ES256" "ECDSA on P-256" => Algorithm::ES256;
    "ES384" "ECDSA on P-384" => Algorithm::ES384;
    "EdDSA" "Ed25519" => Algorithm::EdDSA;
} refused {} }

/// A way to sign tokens. Those with a shared key or none are told apart from typing mistakes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature(pub(crate) Algorithm);

impl Word for Signature {
    fn form() -> Form {
        Form::Choice(Algorithm::WORDS)
    }

    fn parse(text: &str) -> Result<Signature, Mistake> {
        let word = text.to_ascii_uppercase();
        if word == "NONE" || word.starts_with("HS") {
            let hint =
                "tokens are checked with public keys: write what the issuer signs with, such as `RS256`";
            return Err(
                Mistake::new("is never accepted: who can check such a token can also forge it").hint(hint)
            );
        }
        OneOf::parse(text).map(|OneOf(algorithm)| Signature(algorithm))
    }

    fn sample(&self) -> Value {
        Word::sample(&OneOf(self.0))
    }
}
