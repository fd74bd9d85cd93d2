//! What may be written in a policy file.

use crate::choice::OneOf;
use crate::form::Form;
use crate::model::{Asking, Deed, Effect, Expectation, Mode as RuleMode};
use crate::reader::{At, Reader, Written};
use crate::section::{Map, section};
use crate::tree::{Node, What};
use crate::words::{ClaimName, Condition, Glob, Id, Message, RuleName};
use serde_json::{Value, json};

section! { "policies/*.yaml"
    /// Rules of a tenant: who may do what. Deny beats approve beats allow, whatever their order; where no rule matches,
    /// the default holds.
    PolicyFile {
        /// What holds where no rule matches. Of several files of a tenant `deny` wins.
        "default" default: OneOf<Effect> = OneOf(Effect::Deny);
        /// The rules.
        "rules" rules: Vec<At<Rule>>, required;
        /// What the rules must say, for `portcullis policy test`.
        "tests" tests: Vec<At<Test>> = Vec::new();
    }
    refused {}
}

section! { "rules"
    /// One rule. It matches when everything that is written in it does; without `tools`, `prompts`, `resources` and
    /// `asks` it is about everything, or about all that has what its condition looks at: tools, if that is `tool`.
    Rule {
        /// Its name, once in a tenant. Records call it so.
        "name" name: RuleName, required;
        /// Whom it is about. Each list needs a match, and within a list one is enough.
        "principals" principals: Principals = Principals::default();
        /// Globs over the ids of upstreams.
        "upstreams" upstreams: Vec<At<Glob>>;
        /// Globs over the names of virtual servers.
        "servers" servers: Vec<At<Glob>>;
        /// What is done.
        "methods" methods: Vec<At<OneOf<Deed>>>;
        /// Globs over tools, as clients see them: `files__read_*`.
        "tools" tools: Vec<At<Glob>>;
        /// Globs over prompts, as clients see them.
        "prompts" prompts: Vec<At<Glob>>;
        /// Globs over the URIs of resources, as their server writes them: letter case of web hosts, default ports and
        /// escapes do not matter. What could be read as another URI is denied where rules keep anything from anybody.
        "resources" resources: Vec<At<Glob>>;
        /// What upstreams ask of clients.
        "asks" asks: Vec<At<OneOf<Asking>>>;
        /// A condition in CEL over `principal`, `claims`, `tool`, `resource`, `prompt`, `args`, `request`, `session` and
        /// `now`. Where it has no answer, the call is denied.
        "when" when: Condition;
        /// What it says.
        "effect" effect: OneOf<Effect>, required;
        /// What the model reads when the rule denies a call for its arguments.
        "message" message: Message;
        /// Whether it decides.
        "mode" mode: OneOf<RuleMode> = OneOf(RuleMode::Enforce);
        /// Who may say yes where the effect is `approve`.
        "approvers" approvers: Approvers;
    }
    refused {}
}

section! { "rules.principals"
    /// Whom a rule is about.
    Principals {
        /// Globs over names of principals.
        "ids" ids: Vec<At<Glob>>;
        /// Globs over their groups.
        "groups" groups: Vec<At<Glob>>;
        /// Globs over the scopes of their credential.
        "scopes" scopes: Vec<At<Glob>>;
        /// Globs over their issuers; `portcullis` are API keys and tokens of the gateway's own.
        "issuers" issuers: Vec<At<Glob>>;
        /// Globs over claims of their token, by name: of a text, or of one text of a list.
        "claims" claims: Map<ClaimName, Vec<At<Glob>>> = Map::default();
    }
    refused {}
}

section! { "rules.approvers"
    /// Who may say yes.
    Approvers {
        /// Globs over names of principals.
        "ids" ids: Vec<At<Glob>>;
        /// Globs over their groups.
        "groups" groups: Vec<At<Glob>>;
    }
    refused {}
}

section! { "tests"
    /// One thing that the rules must say.
    Test {
        /// Who asks.
        "principal" principal: Asker = Asker::default();
        /// A tool that is called, as clients see it.
        "call" call: Message;
        /// A resource that is read, by the URI its server writes.
        "read" read: Message;
        /// A prompt that is got, as clients see it.
        "prompt" prompt: Message;
        /// The arguments.
        "args" args: Json = Json("{}".to_owned());
        /// The virtual server.
        "server" server: Message = Message("default".to_owned());
        /// The upstream, where its id does not stand before `__` in the name: of a resource.
        "upstream" upstream: Id;
        /// What is known of the tool; of one that is not described the worst is assumed.
        "tool" tool: Facts = Facts::default();
        /// What must come of it.
        "expect" expect: OneOf<Expectation>, required;
    }
    refused {}
}

section! { "tests.principal"
    /// Who asks in a test.
    Asker {
        /// The name.
        "id" id: Message = Message("somebody".to_owned());
        /// The groups.
        "groups" groups: Vec<At<Message>> = Vec::new();
        /// The scopes of the credential.
        "scopes" scopes: Vec<At<Message>> = Vec::new();
        /// The claims of the token.
        "claims" claims: Json;
    }
    refused {}
}

section! { "tests.tool"
    /// What is known of a tool in a test.
    Facts {
        /// Whether it may destroy something.
        "destructive" destructive: bool = true;
        /// Whether it changes nothing.
        "readOnly" read_only: bool = false;
        /// Whether it carries data out.
        "egress" egress: bool = false;
        /// How far its upstream is trusted.
        "trust" trust: OneOf<crate::model::Trust> = OneOf(crate::model::Trust::Standard);
    }
    refused {}
}

/// Any value, as JSON text.
#[derive(Clone, Debug)]
pub(crate) struct Json(pub(crate) String);

impl Written for Json {
    fn form() -> Form {
        Form::Scalar { words: "a mapping of anything".to_owned(), schema: json!({ "type": "object" }) }
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Json> {
        if !matches!(node.what, What::Map(_)) {
            reader.wrong_type(node, &Json::form());
            return None;
        }
        let mut text = String::new();
        write_json(node, &mut text);
        Some(Json(text))
    }

    fn sample(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

/// A tree as JSON. Numbers stay as they are written, as far as JSON writes them so.
fn write_json(node: &Node, out: &mut String) {
    let quoted = |text: &str| Value::from(text).to_string();
    match &node.what {
        What::Broken => out.push_str("null"),
        What::Scalar { text, plain: true } => match node.kind() {
            "nothing" => out.push_str("null"),
            "true or false" => out.push_str(&text.to_lowercase()),
            "a number" if serde_json::from_str::<serde_json::Number>(text).is_ok() => out.push_str(text),
            _ => out.push_str(&quoted(text)),
        },
        What::Scalar { text, plain: false } => out.push_str(&quoted(text)),
        What::List(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        What::Map(entries) => {
            out.push('{');
            for (position, entry) in entries.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                out.push_str(&quoted(&entry.key));
                out.push(':');
                write_json(&entry.value, out);
            }
            out.push('}');
        }
    }
}
