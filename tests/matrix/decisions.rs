//! Every method × several identities × everything that can be decided about a name, in both eras: a list shows a thing if and
//! only if no call of it is refused for who asks, and what is hidden is told as what is missing, byte for byte apart from
//! the name (spec T-04). What is hidden never reaches a server.

mod stand;

use std::collections::HashSet;

use serde_json::{Value, json};
use testkit::{Answer, Asker, Daemon};
use wire::{Era, Kind, Method};

use self::stand::{able, daemon, exposed, params, tasks};
use crate::token;

/// What there is to decide about a thing. Its word is a part of the thing's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    /// A rule allows it to everybody.
    Open,
    /// Rules allow it to a group and to who has a scope.
    Private,
    /// A rule denies it with some arguments.
    Picky,
    /// A rule wants a person's yes, whom nobody can ask.
    Held,
    /// A rule that is tried out would deny it.
    Shadowed,
    /// No rule speaks of it, and the default denies.
    Unruled,
    /// A filter of the configuration leaves it out.
    Filtered,
    /// Its server is gone.
    Absent,
}

impl Decision {
    const ALL: [Decision; 8] = [
        Decision::Open,
        Decision::Private,
        Decision::Picky,
        Decision::Held,
        Decision::Shadowed,
        Decision::Unruled,
        Decision::Filtered,
        Decision::Absent,
    ];

    fn word(self) -> &'static str {
        match self {
            Decision::Open => "open",
            Decision::Private => "private",
            Decision::Picky => "picky",
            Decision::Held => "held",
            Decision::Shadowed => "shadowed",
            Decision::Unruled => "unruled",
            Decision::Filtered => "filtered",
            Decision::Absent => "absent",
        }
    }

    fn upstream(self) -> &'static str {
        match self {
            Decision::Absent => "gone",
            _ => "alpha",
        }
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Identity {
    /// An API key with the group.
    Insider,
    /// An API key without any.
    Outsider,
    /// A token with the scope.
    Scoped,
    /// A token with another scope.
    Narrow,
    /// An API key of another tenant.
    Stranger,
}

const IDENTITIES: [Identity; 5] =
    [Identity::Insider, Identity::Outsider, Identity::Scoped, Identity::Narrow, Identity::Stranger];

impl Identity {
    fn credential(self, daemon: &Daemon) -> String {
        let jwt = |scope: &str| {
            let wanted = ["jwt", "--tenant", "acme", "--principal", "sam", "--scope", scope, "-o", "json"];
            token(daemon, &wanted)["token"].as_str().unwrap().to_owned()
        };
        match self {
            Identity::Insider => daemon.api_key("acme", "ann", &["insiders"]),
            Identity::Outsider => daemon.api_key("acme", "bob", &["others"]),
            Identity::Scoped => jwt("deep"),
            Identity::Narrow => jwt("shallow"),
            Identity::Stranger => daemon.api_key("other", "ann", &["insiders"]),
        }
    }

    fn path(self) -> &'static str {
        match self {
            Identity::Stranger => "/t/other/mcp",
            _ => "/t/acme/mcp",
        }
    }

    /// Whether some call of a thing may be let through for them.
    fn sees(self, decision: Decision) -> bool {
        match decision {
            _ if self == Identity::Stranger => false,
            Decision::Open | Decision::Picky | Decision::Held | Decision::Shadowed | Decision::Absent => true,
            Decision::Private => matches!(self, Identity::Insider | Identity::Scoped),
            Decision::Unruled | Decision::Filtered => false,
        }
    }
}

/// How a method speaks of things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    /// It lists them.
    Lists(Kind),
    /// It names one of this kind.
    Names(Kind),
    /// It names one of these kinds in a reference.
    Refers(&'static [Kind]),
    /// It names several, and goes on.
    Listens,
    /// It names a task of one.
    Task,
    /// It names none.
    Nothing,
}

/// INVARIANT: without a wildcard, so that a new method does not compile before somebody has said how it names things.
fn row(method: Method) -> Row {
    match method {
        Method::ToolsList => Row::Lists(Kind::Tools),
        Method::ResourcesList => Row::Lists(Kind::Resources),
        Method::TemplatesList => Row::Lists(Kind::Templates),
        Method::PromptsList => Row::Lists(Kind::Prompts),
        Method::ToolsCall => Row::Names(Kind::Tools),
        Method::PromptsGet => Row::Names(Kind::Prompts),
        Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
            Row::Names(Kind::Resources)
        }
        Method::Complete => Row::Refers(&[Kind::Prompts, Kind::Templates]),
        Method::SubscriptionsListen => Row::Listens,
        Method::TasksGet | Method::TasksResult | Method::TasksCancel | Method::TasksUpdate => Row::Task,
        // What it lists is judged as its tools are: see `tests/tasks/withdrawn.rs`.
        Method::TasksList => Row::Nothing,
        Method::Initialize | Method::Initialized | Method::Ping | Method::Discover | Method::SetLevel => {
            Row::Nothing
        }
        // Said by servers, or about what runs already.
        Method::Progress
        | Method::Cancelled
        | Method::LogMessage
        | Method::ToolsChanged
        | Method::ResourcesChanged
        | Method::PromptsChanged
        | Method::ResourceUpdated
        | Method::RootsList
        | Method::RootsChanged
        | Method::SamplingCreate
        | Method::ElicitationCreate
        | Method::ElicitationComplete
        | Method::TaskStatus
        | Method::TaskChanged
        | Method::SubscriptionsAcknowledged => Row::Nothing,
    }
}

// ---------------------------------------------------------------- one identity, in one era

struct Run<'a> {
    daemon: &'a Daemon,
    identity: Identity,
    asker: Asker,
    /// What lists show, by the names of things.
    shown: HashSet<String>,
    cells: usize,
    /// Marks of messages that no server may hear of.
    kept: Vec<String>,
    wrong: Vec<String>,
}

impl Run<'_> {
    fn new(daemon: &Daemon, identity: Identity, era: Era) -> Run<'_> {
        let asker = Asker::new(daemon, identity.path(), &identity.credential(daemon), era, able());
        let mut shown = HashSet::new();
        for method in Method::ALL {
            if let Row::Lists(kind) = row(*method) {
                let list = asker.result(method.name(), &json!({}))[kind.member()].as_array().unwrap().clone();
                shown.extend(list.iter().map(|item| item[kind.key()].as_str().unwrap().to_owned()));
            }
        }
        Run { daemon, identity, asker, shown, cells: 0, kept: Vec::new(), wrong: Vec::new() }
    }

    fn play(&mut self, method: Method, tasks: &[String]) {
        let row = row(method);
        let kinds: &[Kind] = match row {
            Row::Names(Kind::Tools) => &[Kind::Tools],
            Row::Names(Kind::Prompts) => &[Kind::Prompts],
            Row::Names(_) | Row::Listens => &[Kind::Resources],
            Row::Refers(kinds) => kinds,
            Row::Task => return self.task_of_another(method, tasks),
            Row::Lists(_) | Row::Nothing => return,
        };
        if row == Row::Names(Kind::Resources) {
            // What lies below a template is in no list, and has an owner all the same.
            for decision in Decision::ALL {
                self.cells += 1;
                self.ask(method, Kind::Resources, (decision, "/7"));
            }
        }
        for kind in kinds {
            for decision in Decision::ALL {
                self.cells += 1;
                match row {
                    Row::Listens => self.listen(decision),
                    _ => self.ask(method, *kind, (decision, "")),
                }
            }
        }
    }

    fn ask(&mut self, method: Method, kind: Kind, (decision, below): (Decision, &str)) {
        let row = row(method);
        let word = format!("{}{below}", decision.word());
        let marker = format!("cell-{:?}-{}-{kind:?}-{word}.", self.identity, method.name());
        let name = exposed(kind, decision.upstream(), &word);
        // Of its server, and of a server that nobody has.
        let missing = ["alpha", "zeta"].map(|upstream| exposed(kind, upstream, "nothing"));
        let told = |name: &str| self.asker.told(method.name(), &params(row, kind, name, &marker), &[name]);
        let answer = told(&name);
        let [beside, beyond] = missing.each_ref().map(|name| told(name));
        let (is_hidden, sees) = (answer == beside, self.identity.sees(decision));
        let is_listed = self.shown.contains(&name);
        let lists = sees && decision != Decision::Absent && below.is_empty();
        let reason = reason(&answer);
        let faults = [
            (beside != beyond).then(|| format!("two that are missing differ: {beside:?} {beyond:?}")),
            (is_hidden == sees).then(|| format!("seen: {sees}, but hidden: {is_hidden}: {answer:?}")),
            (is_listed != lists).then(|| format!("listed: {is_listed}, and seen: {sees}")),
            (sees && !fits(method, decision, &reason)).then(|| format!("`{reason}`: {answer:?}")),
        ];
        let faults = faults.into_iter().flatten().map(|why| format!("{marker} {why}"));
        self.wrong.extend(faults);
        if !sees || reason != "ok" {
            self.kept.push(marker);
        }
    }

    /// What may not be followed is left out, as what is missing is.
    fn listen(&mut self, decision: Decision) {
        let name = exposed(Kind::Resources, decision.upstream(), decision.word());
        let asked = params(Row::Listens, Kind::Resources, &name, "");
        let mut stream = self.asker.begin("subscriptions/listen", &asked);
        let first = stream.next_message().unwrap();
        let honoured = &first["params"]["notifications"]["resourceSubscriptions"];
        let follows = match decision {
            Decision::Held | Decision::Absent => false,
            _ => self.identity.sees(decision),
        };
        let expected = if follows { json!([name]) } else { Value::Null };
        if *honoured != expected {
            self.wrong.push(format!("{:?} listens to {name}: {first}", self.identity));
        }
    }

    /// Of tasks that are somebody else's, nobody can be told from one that does not exist.
    fn task_of_another(&mut self, method: Method, tasks: &[String]) {
        for id in tasks {
            self.cells += 1;
            let nobodys = "x".repeat(id.len());
            let [theirs, missing] = [id.as_str(), &nobodys]
                .map(|id| self.asker.told(method.name(), &params(Row::Task, Kind::Tools, id, ""), &[id]));
            if theirs != missing || reason(&missing) != "unknown_task" {
                self.wrong.push(format!("{:?} {}: {theirs:?} {missing:?}", self.identity, method.name()));
            }
        }
    }

    /// No server heard of what was kept from it, nor of any name that this one must not know.
    fn look_upstream(&mut self) {
        for upstream in ["alpha", "gone", "beta"] {
            let heard = self.daemon.journal(upstream).entries();
            let heard: Vec<&str> = heard.iter().filter_map(|entry| entry["got"].as_str()).collect();
            let kept = |text: &&&str| self.kept.iter().any(|marker| text.contains(marker.as_str()));
            self.wrong.extend(heard.iter().filter(kept).map(|text| format!("{upstream} heard {text}")));
            for word in ["nothing", "unruled", "filtered"] {
                let of_it = heard.iter().filter(|text| text.contains(word));
                self.wrong.extend(of_it.map(|text| format!("{upstream} heard {text}")));
            }
        }
    }
}

/// The word for programs of an answer of ours; `ok` of any that is none.
fn reason((_, text): &(u16, String)) -> String {
    let answer = Answer { status: 200, headers: Vec::new(), body: text.clone().into_bytes() };
    let message = answer.messages().pop().unwrap_or_default();
    let said =
        [&message["error"]["data"]["reason"], &message["result"]["_meta"]["portcullis/error"]["reason"]];
    said.into_iter().find_map(Value::as_str).unwrap_or("ok").to_owned()
}

/// Whether it is what must be told of a thing that may be seen.
fn fits(method: Method, decision: Decision, reason: &str) -> bool {
    let asks = matches!(row(method), Row::Refers(_));
    match decision {
        Decision::Picky if matches!(method, Method::ToolsCall | Method::PromptsGet) => reason == "denied",
        Decision::Held if !asks => reason == "approval_unavailable",
        // What is not followed is not followed.
        Decision::Absent => reason.starts_with("upstream_") || method == Method::ResourcesUnsubscribe,
        Decision::Open | Decision::Private | Decision::Picky | Decision::Held | Decision::Shadowed => {
            reason == "ok"
        }
        Decision::Unruled | Decision::Filtered => false,
    }
}

fn play(client: Era, server: Era) {
    let daemon = daemon(server);
    let tasks = tasks(&daemon);
    let revision = match client {
        Era::Legacy => wire::Revision::LATEST_LEGACY,
        Era::Modern => wire::Revision::R2026_07_28,
    };
    let (mut cells, mut wrong) = (0, Vec::new());
    for identity in IDENTITIES {
        let mut run = Run::new(&daemon, identity, client);
        for method in Method::ALL.iter().filter(|method| method.row().exists_in(revision)) {
            run.play(*method, &tasks);
        }
        run.look_upstream();
        cells += run.cells;
        wrong.append(&mut run.wrong);
    }
    assert!(wrong.is_empty(), "{} of {cells} cells:\n{}", wrong.len(), wrong.join("\n"));
    assert!(cells >= 200, "{cells} cells");
}

#[test]
fn lists_and_calls_agree_in_sessions_with_legacy_servers() {
    play(Era::Legacy, Era::Legacy);
}

#[test]
fn lists_and_calls_agree_in_sessions_with_modern_servers() {
    play(Era::Legacy, Era::Modern);
}

#[test]
fn lists_and_calls_agree_without_sessions_with_legacy_servers() {
    play(Era::Modern, Era::Legacy);
}

#[test]
fn lists_and_calls_agree_without_sessions_with_modern_servers() {
    play(Era::Modern, Era::Modern);
}
