//! What may be written: every key of every file with its type, default and doc line.
//!
//! Keys of later versions stand here too, as refused: nothing that looks like a control is ignored.

use serde_json::{Value, json};

use crate::address::{Address, Endpoint, Host, HttpUrl, Network, Origin, ProxyUrl};
use crate::choice::{Mode, OneOf};
use crate::credential::Scope;
use crate::form::Form;
use crate::model::{Asks, Durability, ErrorStatus, Naming, Share, Sse, Trust};
use crate::quantity::{Count, Size, Time};
use crate::reader::{At, Reader, Written, nearest};
use crate::section::{Map, section};
use crate::tree::{Node, What};
use crate::words::{
    Argument, Command, Expression, FileGlob, FilePath, Folder, Glob, Held, Id, Label, Variable,
};

pub(crate) use identity::{Identity, Issuer};

pub(crate) mod credential;
pub(crate) mod identity;
pub(crate) mod limits;
pub(crate) mod policy;

const DAY_MS: u64 = 86_400_000;
const HOUR_MS: u64 = 3_600_000;
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Time limits of whole operations.
pub(crate) type Limit = Time<1, HOUR_MS>;
/// How long sessions live.
pub(crate) type Life = Time<100, { 30 * DAY_MS }>;

section! { "portcullis.yaml"
    /// The process: addresses, folders, limits, and where the tenants stand.
    Process {
        /// Where clients connect. An address that is not loopback needs `identity` in every tenant, and `public_url`.
        "listen" listen: Address = Address(([127, 0, 0, 1], 7420).into());
        /// The URL clients know the gateway by, and what tokens are issued for. Its host is accepted in `Host`.
        "public_url" public_url: HttpUrl;
        /// The certificate clients are answered with. Without it they are answered in the clear.
        "tls" tls: ServerTls;
        /// Whether clients may speak HTTP/2.
        "http2" http2: bool = false;
        /// Whether clients may speak HTTP+SSE, the transport of 2024-11-05: `/sse` beside `/mcp`, under the same prefixes.
        /// It is deprecated, and for clients that can do no better.
        "legacy_sse" legacy_sse: bool = false;
        /// Networks of proxies in front: `X-Forwarded-For` is read from them only.
        "trusted_proxies" trusted_proxies: Vec<At<Network>> = Vec::new();
        /// The operator's side: health, metrics, status.
        "admin" admin: Admin = Admin::default();
        /// `Host` values accepted beyond the loopback names. Everything else is refused, against DNS rebinding.
        "allowed_hosts" allowed_hosts: Vec<At<Host>> = Vec::new();
        /// `Origin` values of web pages that may call the gateway. No other page may, not even one from this machine.
        "allowed_origins" allowed_origins: Vec<At<Origin>> = Vec::new();
        /// The folder of everything that outlives a restart; made with mode 0700.
        "state_dir" state_dir: Folder = Folder("state".into());
        /// A folder with a file for each secret, named as the secret is, relative to this file. It is looked in first.
        "secrets_dir" secrets_dir: Folder;
        /// The tenant files, one tenant each. When this key is left out, files that do not exist are no problem.
        "tenants" tenants: FileGlob = FileGlob("tenants/*.yaml".into());
        /// Issuers of tokens for several tenants: each needs `claims.tenant`, which says for which one a token is.
        "shared_issuers" shared_issuers: Vec<At<Issuer>> = Vec::new();
        /// Bounds of client sessions.
        "session" session: Session = Session::default();
        /// The pause between keep-alive comments on an idle event stream.
        "keepalive" keepalive: Time<1000, 300_000> = Time::seconds(15);
        /// Names as clients see them.
        "names" names: Names = Names::default();
        /// Sizes and counts of the process.
        "limits" limits: Limits = Limits::default();
        /// Where records of calls go.
        "audit" audit: Audit = Audit::default();
        /// How long a list waits for upstreams in their first start; the rest is announced when it arrives.
        "list_timeout" list_timeout: Time<0, 60_000> = Time::seconds(2);
        /// How long running calls may take to finish at shutdown.
        "drain" drain: Time<0, 600_000> = Time::seconds(10);
        /// Traces and metrics to a collector.
        "telemetry" telemetry: Telemetry = Telemetry::default();
    }
    refused {
        "pins": "no definition would be pinned";
        "approval": "no person would be asked";
        "seal_keys": "the keys would not be used";
    }
}

section! { "tls"
    /// The certificate clients are answered with, in two PEM files. They are read again when they change.
    ServerTls {
        /// The certificate, followed by what links it to its authority.
        "cert" cert: FilePath, required;
        /// Its private key.
        "key" key: FilePath, required;
    }
    refused {
        "client_ca": "clients would not be asked for a certificate";
    }
}

section! { "admin"
    /// The operator's side.
    Admin {
        /// Where `/metrics`, `/livez`, `/readyz`, `/status`, `/version` and `/admin` are served; never the clients' port.
        "listen" listen: Address = Address(([127, 0, 0, 1], 7421).into());
    }
    refused {}
}

section! { "session"
    /// Bounds of client sessions.
    Session {
        /// A session nobody used for this long ends.
        "idle" idle: Life = Time::seconds(1800);
        /// No session lives longer than this.
        "absolute" absolute: Life = Time::seconds(86_400);
        /// Sessions one principal may hold at a time.
        "per_principal" per_principal: Count<1, 100_000> = Count(50);
    }
    refused {}
}

section! { "names"
    /// Names as clients see them.
    Names {
        /// The longest exposed name. What is longer is cut and ends in a hash.
        "max" max: Count<40, 128> = Count(64);
    }
    refused {}
}

section! { "limits"
    /// Sizes and counts of the process.
    Limits {
        /// The largest message a client may send.
        "body" body: Size<KIB, { 64 * MIB }> = Size(4 * MIB);
        /// The largest answer of an upstream; above it the call ends in an error result.
        "result" result: Size<KIB, { 256 * MIB }> = Size(16 * MIB);
        /// Connections from clients open at a time.
        "connections" connections: Count<1, 1_000_000> = Count(10_000);
    }
    refused {}
}

section! { "audit"
    /// Where records of calls go. Every sink gets every record.
    Audit {
        /// The sinks: `{ file: FOLDER }` (relative to `state_dir`) or `stdout`.
        "sinks" sinks: Vec<At<Sink>> = vec![At::nowhere(Sink::File(Folder("audit/".into())))];
        /// What happens to a call whose record cannot be written.
        "mode" mode: OneOf<Mode> = OneOf(Mode::Strict);
        /// What has happened to a record before its call leaves.
        "durability" durability: OneOf<Durability> = OneOf(Durability::Os);
    }
    refused {}
}

section! { "telemetry"
    /// Traces and metrics to a collector. Metrics for Prometheus are always on the admin address.
    Telemetry {}
    refused {
        "otlp" or null: "nothing would be sent to the collector";
    }
}

section! { "tenants/*.yaml"
    /// One tenant: its upstreams and what it offers of them.
    Tenant {
        /// The name of the tenant.
        "tenant" tenant: Id, required;
        /// Who may ask. Without it everybody may who reaches the gateway: on loopback only, and with one tenant only.
        "identity" identity: Identity;
        /// The MCP servers behind the gateway. Their ids begin the names that clients see: `files__read_file`.
        "upstreams" upstreams: Map<Id, Upstream>, required;
        /// Files of rules, relative to the main file: who may do what. Without any, everything that is shown may be called.
        "policies" policies: Vec<At<FilePath>>;
        /// Named selections of upstreams, each at `/mcp/NAME`. `default` is `/mcp` itself; when it is left out, it is
        /// all upstreams, provided that they are of one trust tier.
        "virtual_servers" virtual_servers: Map<Id, VirtualServer> = Map::default();
        /// Globs over the ids of protocol extensions that clients and upstreams may agree on.
        "extensions" extensions: Vec<At<Glob>> = Vec::new();
        /// The most upstream processes and connections that live for single principals at a time.
        "processes" processes: Count<1, 10_000> = Count(64);
        /// What upstreams may ask of clients beyond elicitation, which is always allowed.
        "allow" allow: Vec<At<OneOf<Asks>>> = Vec::new();
        /// The HTTP status of JSON-RPC errors from 2026-07-28 on. Some client libraries take any status but 200 for a
        /// lost connection; for them write `ok`. What HTTP itself refuses (401, 413, 429 …) keeps its status.
        "error_status" error_status: OneOf<ErrorStatus> = OneOf(ErrorStatus::Protocol);
        /// How much may be asked for. What matches a rule must pass it, and a call every rule that it matches.
        "limits" limits: Vec<At<limits::LimitRule>> = Vec::new();
        /// When an agent that goes in circles is told so, and then held up; `{}` for the bounds that suit most, `off` for never.
        "runaway" runaway: limits::RunawayOrOff = limits::RunawayOrOff::Word;
        /// For how long a conversation counts as tainted after it called a server of the tier `untrusted`.
        "taint" taint: limits::Taint = limits::Taint::default();
    }
    refused {
        "pins": "no definition would be pinned";
        "approval": "no person would be asked";
        "seal_keys": "the keys would not be used";
    }
}

section! { "upstreams.ID"
    /// One MCP server: a program that speaks MCP on its standard input and output (`command`), or a server that
    /// speaks HTTP (`url`). A program gets an environment of its own: a few harmless variables and what `env` says,
    /// nothing of the gateway's. A server gets what `credential` says, nothing of the client's.
    Upstream {
        /// The program, without arguments and without a shell. It is looked up once, at load.
        "command" command: Command, required or "url";
        /// The arguments of the program.
        "args" args: Vec<At<Argument>> = Vec::new();
        /// Variables added to the environment of the program. They are held as secrets.
        "env" env: Map<Variable, Held> = Map::default();
        /// The working directory of the program, relative to this file.
        "dir" dir: Folder;
        /// The endpoint of the server, over Streamable HTTP or HTTP+SSE. Off this machine it must be https, unless
        /// `insecure` says otherwise.
        "url" url: Endpoint;
        /// Accept that `url` is http off this machine: everything can be read and changed on the way.
        "insecure" insecure: bool = false;
        /// What proves the gateway to the server.
        "credential" credential: credential::Shown;
        /// Certificates of the connection, beyond the authorities of the system.
        "tls" tls: UpstreamTls = UpstreamTls::default();
        /// The proxy that the server is reached through, such as `http://proxy.example.com:3128`.
        "proxy" proxy: ProxyUrl;
        /// When HTTP+SSE is spoken, the transport of 2024-11-05.
        "sse" sse: OneOf<Sse> = OneOf(Sse::Detect);
        /// Who shares one process or connection.
        "share" share: OneOf<Share> = OneOf(Share::Principal);
        /// What users are told the server is called when it asks them something. When it is left out, that is the id,
        /// and nothing where a virtual server has no other upstream.
        "label" label: Label;
        /// How far the server is trusted. A virtual server is made of one tier.
        "trust" trust: OneOf<Trust> = OneOf(Trust::Standard);
        /// Which tools are visible.
        "tools" tools: Selection = Selection::default();
        /// Globs over the native names of tools that carry data out, for rules: `tool.egress`.
        "egress" egress: Vec<At<Glob>> = Vec::new();
        /// The scopes that a token must carry for whatever the server offers. Without one the answer is 403, and names them.
        "scopes" scopes: Vec<At<Scope>> = Vec::new();
        /// The same for single tools, by globs over their native names. What matches several needs the scopes of all.
        "tool_scopes" tool_scopes: Map<Glob, Vec<At<Scope>>> = Map::default();
        /// Which prompts are visible.
        "prompts" prompts: Selection = Selection::default();
        /// Which resources and templates are visible, by their URI as the server writes it.
        "resources" resources: Selection = Selection::default();
        /// How long the server may take.
        "timeouts" timeouts: Timeouts = Timeouts::default();
        /// Tools beyond this many are dropped, and the log says so.
        "max_tools" max_tools: Count<1, 100_000> = Count(2000);
    }
    refused {
        "catalog": "lists would not differ between principals";
        "pins": "no definition would be pinned";
        "approval": "no person would be asked";
    }
}

section! { "upstreams.ID.tls"
    /// Certificates of the connection to the server, in PEM files. Its own certificate is always checked.
    UpstreamTls {
        /// Authorities accepted beside those of the system.
        "ca" ca: FilePath;
        /// The certificate the gateway shows; only together with `key`.
        "cert" cert: FilePath;
        /// Its private key.
        "key" key: FilePath;
    }
    refused {}
}

section! { "tools, prompts, resources"
    /// A filter over **native** names: as the server writes them, without `ID__`. Every pattern must match the whole
    /// name, letter case counts, and what is excluded stays excluded. Without an include, everything is visible that
    /// is not excluded.
    Selection {
        /// Globs: visible is what matches. `*` is any text, also across `/`; `?` is one character.
        "include" include: Vec<At<Glob>>;
        /// Regular expressions: visible is what matches.
        "includeRegex" include_regex: Vec<At<Expression>>;
        /// Globs: what matches is not visible, whatever the includes say.
        "exclude" exclude: Vec<At<Glob>> = Vec::new();
        /// Regular expressions: what matches is not visible, whatever the includes say.
        "excludeRegex" exclude_regex: Vec<At<Expression>> = Vec::new();
    }
    refused {}
}

section! { "timeouts"
    /// How long a server may take.
    Timeouts {
        /// From the start of the program, or the first connection, to a finished handshake.
        "start" start: Limit = Time::seconds(30);
        /// A call without any sign of progress.
        "call" call: Limit = Time::seconds(60);
        /// A call, whatever progress it reports.
        "call_max" call_max: Time<1, DAY_MS> = Time::seconds(600);
        /// One page of a list.
        "list" list: Limit = Time::seconds(15);
        /// A user, or a model, that the server asks something. A call does not age meanwhile.
        "answer" answer: Limit = Time::seconds(600);
    }
    refused {}
}

section! { "virtual_servers.NAME"
    /// A selection of upstreams at an address of its own.
    VirtualServer {
        /// The ids of the upstreams it is made of.
        "upstreams" upstreams: Vec<At<Id>>, required;
        /// Which of their tools are visible here, beyond the filters of the upstreams.
        "tools" tools: Selection = Selection::default();
        /// Which of their prompts are visible here.
        "prompts" prompts: Selection = Selection::default();
        /// Which of their resources are visible here.
        "resources" resources: Selection = Selection::default();
        /// Accept that upstreams of different trust stand side by side: an untrusted server can then steer what the
        /// model does with a trusted one.
        "mixed_trust" mixed_trust: bool = false;
        /// How tools, prompts and resources are called here. Only a virtual server of one upstream may be `bare`.
        "names" names: OneOf<Naming> = OneOf(Naming::Prefixed);
    }
    refused {}
}

/// One audit sink: `stdout` or a mapping with one key.
#[derive(Clone, Debug)]
pub(crate) enum Sink {
    File(Folder),
    Stdout,
}

section! { "audit.sinks"
    /// A sink in files.
    FileSink {
        /// The folder, relative to `state_dir`.
        "file" file: Folder, required;
    }
    refused {
        "webhook": "no record would be sent";
        "otlp": "no record would be sent";
    }
}

impl Written for Sink {
    fn form() -> Form {
        let file = json!({
            "type": "object",
            "properties": { "file": { "type": "string" } },
            "required": ["file"],
            "additionalProperties": false,
        });
        let schema = json!({ "anyOf": [{ "const": "stdout" }, file] });
        Form::Scalar { words: "`stdout` or `{ file: FOLDER }`".to_owned(), schema }
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Sink> {
        match &node.what {
            What::Scalar { text, .. } if text == "stdout" => Some(Sink::Stdout),
            What::Scalar { text, .. } => {
                let hint = match nearest(text, ["stdout"].into_iter()) {
                    Some(word) => format!("did you mean `{word}`?"),
                    None => "write `stdout` or `{ file: FOLDER }`".to_owned(),
                };
                reader.note(node.span, format!("`{text}` is no sink"), Some(hint));
                None
            }
            What::Map(entries)
                if entries.iter().any(|entry| ["webhook", "otlp"].contains(&entry.key.as_str())) =>
            {
                reader.keys(entries, FileSink::KEYS, FileSink::REFUSED);
                None
            }
            What::Map(_) => Some(Sink::File(FileSink::read(node, reader)?.file?.value)),
            What::List(_) | What::Broken => {
                reader.wrong_type(node, &Sink::form());
                None
            }
        }
    }

    fn sample(&self) -> Value {
        match self {
            Sink::File(folder) => json!({ "file": folder.0.to_string_lossy() }),
            Sink::Stdout => json!("stdout"),
        }
    }
}
