//! The table of every method of the five revisions, in both directions.

use crate::era::Revision;

/// What a list lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `tools/list`.
    Tools,
    /// `resources/list`.
    Resources,
    /// `resources/templates/list`.
    Templates,
    /// `prompts/list`.
    Prompts,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 4] = [Kind::Tools, Kind::Resources, Kind::Templates, Kind::Prompts];

    /// The member of the result that holds the list.
    pub const fn member(self) -> &'static str {
        match self {
            Kind::Tools => "tools",
            Kind::Resources => "resources",
            Kind::Templates => "resourceTemplates",
            Kind::Prompts => "prompts",
        }
    }

    /// The member of an item that names it.
    pub const fn key(self) -> &'static str {
        match self {
            Kind::Tools | Kind::Prompts => "name",
            Kind::Resources => "uri",
            Kind::Templates => "uriTemplate",
        }
    }

    /// The method that lists it.
    pub const fn list_method(self) -> Method {
        match self {
            Kind::Tools => Method::ToolsList,
            Kind::Resources => Method::ResourcesList,
            Kind::Templates => Method::TemplatesList,
            Kind::Prompts => Method::PromptsList,
        }
    }

    /// The notification that it changed; templates have none of their own.
    pub const fn changed(self) -> Method {
        match self {
            Kind::Tools => Method::ToolsChanged,
            Kind::Resources | Kind::Templates => Method::ResourcesChanged,
            Kind::Prompts => Method::PromptsChanged,
        }
    }
}

/// Who sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Only a client.
    Client,
    /// Only a server.
    Server,
    /// Either.
    Both,
}

/// Whether it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// It has an id and an answer.
    Request,
    /// It has neither.
    Notification,
}

/// What its params name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Names {
    /// Nothing.
    Nothing,
    /// A tool, in `name`.
    Tool,
    /// A prompt, in `name`.
    Prompt,
    /// A resource, in `uri`.
    Resource,
    /// A prompt or a resource template, in `ref`.
    Reference,
    /// A task, in `taskId`.
    Task,
    /// A request, in `requestId`.
    Request,
    /// A progress token, in `progressToken`.
    Token,
}

/// What the router does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Plan {
    /// Answered by the gateway itself.
    Answer,
    /// A page of the merged catalog.
    List(Kind),
    /// Sent to the one upstream that owns its target.
    Forward,
    /// Passed on to the peer of a running exchange.
    Relay,
    /// Kept with the session, and made known to the upstreams it concerns.
    Session,
    /// Goes on for as long as its client wants to be told of changes.
    Listen,
    /// About a task: answered by whoever runs it.
    Task,
}

impl Plan {
    /// Whether an upstream may hear of it: its intent is on record before that, and its client may have to wait.
    pub const fn leaves(self) -> bool {
        match self {
            Plan::Forward | Plan::Session | Plan::Listen | Plan::Task => true,
            Plan::Answer | Plan::List(_) | Plan::Relay => false,
        }
    }
}

/// The capability that a peer announces for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capability {
    /// `tools`.
    Tools,
    /// `resources`.
    Resources,
    /// `resources.subscribe`.
    ResourcesSubscribe,
    /// `prompts`.
    Prompts,
    /// `completions`.
    Completions,
    /// `logging`.
    Logging,
    /// `tasks`, or the extension of that name.
    Tasks,
    /// `tasks.list`.
    TasksList,
    /// `sampling`, of the client.
    Sampling,
    /// `roots`, of the client.
    Roots,
    /// `elicitation`, of the client.
    Elicitation,
    /// Any `listChanged` or `subscribe` of a modern server.
    Subscriptions,
}

/// What is known of one method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The method.
    pub method: Method,
    /// Its name on the wire.
    pub name: &'static str,
    /// Who sends it.
    pub side: Side,
    /// Whether it is answered.
    pub form: Form,
    /// What its params name.
    pub names: Names,
    /// What the router does with it.
    pub plan: Plan,
    /// The first revision that has it as a message of its own.
    pub first: Revision,
    /// The last one.
    pub last: Revision,
    /// The capability it depends on.
    pub capability: Option<Capability>,
}

impl Row {
    /// Whether `revision` has it.
    pub fn exists_in(&self, revision: Revision) -> bool {
        (self.first..=self.last).contains(&revision)
    }
}

impl Method {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        self.row().name
    }
}

/// Writes the enum and the lookups from one table. Letters A to D and N stand for the revisions, as in the
/// requirement sheet.
macro_rules! table {
    ($(
        $method:ident $name:literal $side:ident $form:ident $names:ident
        [$($plan:tt)+] $first:ident-$last:ident $capability:tt;
    )+) => {
        /// A method of MCP.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Method {
            $(#[doc = concat!("`", $name, "`.")] $method,)+
        }

        impl Method {
            /// Every method.
            pub const ALL: &'static [Method] = &[$(Method::$method),+];

            /// What is known of it.
            pub fn row(self) -> &'static Row {
                match self {
                    $(Method::$method => {
                        const ROW: Row = Row {
                            method: Method::$method,
                            name: $name,
                            side: Side::$side,
                            form: Form::$form,
                            names: Names::$names,
                            plan: Plan::$($plan)+,
                            first: revision::$first,
                            last: revision::$last,
                            capability: table!(@capability $capability),
                        };
                        &ROW
                    })+
                }
            }

            /// The method of that name, spelled exactly so.
            pub fn named(name: &str) -> Option<Method> {
                match name {
                    $($name => Some(Method::$method),)+
                    _ => None,
                }
            }
        }
    };
    (@capability -) => { None };
    (@capability $capability:ident) => { Some(Capability::$capability) };
}

mod revision {
    use crate::era::Revision;

    pub(super) const A: Revision = Revision::R2024_11_05;
    pub(super) const C: Revision = Revision::R2025_06_18;
    pub(super) const D: Revision = Revision::R2025_11_25;
    pub(super) const N: Revision = Revision::R2026_07_28;
}

// Roots, sampling and elicitation still exist in N, but inside results that ask for input, not as messages
// (spec X-01). Tasks left the core in N and became an extension (spec U-30).
table! {
    Initialize "initialize" Client Request Nothing [Answer] A-D -;
    Initialized "notifications/initialized" Client Notification Nothing [Answer] A-D -;
    Ping "ping" Both Request Nothing [Answer] A-D -;
    Discover "server/discover" Client Request Nothing [Answer] N-N -;
    ToolsList "tools/list" Client Request Nothing [List(Kind::Tools)] A-N Tools;
    ToolsCall "tools/call" Client Request Tool [Forward] A-N Tools;
    ResourcesList "resources/list" Client Request Nothing [List(Kind::Resources)] A-N Resources;
    TemplatesList "resources/templates/list" Client Request Nothing [List(Kind::Templates)] A-N Resources;
    ResourcesRead "resources/read" Client Request Resource [Forward] A-N Resources;
    ResourcesSubscribe "resources/subscribe" Client Request Resource [Session] A-D ResourcesSubscribe;
    ResourcesUnsubscribe "resources/unsubscribe" Client Request Resource [Session] A-D ResourcesSubscribe;
    PromptsList "prompts/list" Client Request Nothing [List(Kind::Prompts)] A-N Prompts;
    PromptsGet "prompts/get" Client Request Prompt [Forward] A-N Prompts;
    Complete "completion/complete" Client Request Reference [Forward] A-N Completions;
    SetLevel "logging/setLevel" Client Request Nothing [Session] A-D Logging;
    Progress "notifications/progress" Both Notification Token [Relay] A-N -;
    Cancelled "notifications/cancelled" Both Notification Request [Relay] A-N -;
    LogMessage "notifications/message" Server Notification Nothing [Relay] A-N Logging;
    ToolsChanged "notifications/tools/list_changed" Server Notification Nothing [Relay] A-N Tools;
    ResourcesChanged "notifications/resources/list_changed" Server Notification Nothing [Relay] A-N Resources;
    PromptsChanged "notifications/prompts/list_changed" Server Notification Nothing [Relay] A-N Prompts;
    ResourceUpdated "notifications/resources/updated" Server Notification Resource [Relay] A-N ResourcesSubscribe;
    RootsList "roots/list" Server Request Nothing [Relay] A-D Roots;
    RootsChanged "notifications/roots/list_changed" Client Notification Nothing [Relay] A-D Roots;
    SamplingCreate "sampling/createMessage" Server Request Nothing [Relay] A-D Sampling;
    ElicitationCreate "elicitation/create" Server Request Nothing [Relay] C-D Elicitation;
    ElicitationComplete "notifications/elicitation/complete" Server Notification Nothing [Relay] D-D Elicitation;
    TasksGet "tasks/get" Both Request Task [Task] D-N Tasks;
    TasksResult "tasks/result" Both Request Task [Task] D-D Tasks;
    TasksList "tasks/list" Both Request Nothing [Answer] D-D TasksList;
    TasksCancel "tasks/cancel" Both Request Task [Task] D-N Tasks;
    TasksUpdate "tasks/update" Client Request Task [Task] N-N Tasks;
    TaskStatus "notifications/tasks/status" Both Notification Task [Relay] D-D Tasks;
    TaskChanged "notifications/tasks" Server Notification Task [Relay] N-N Tasks;
    SubscriptionsListen "subscriptions/listen" Client Request Nothing [Listen] N-N Subscriptions;
    SubscriptionsAcknowledged "notifications/subscriptions/acknowledged" Server Notification Nothing [Relay] N-N Subscriptions;
}

#[cfg(test)]
mod tests;
