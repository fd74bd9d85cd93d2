//! The command line: what may be typed, and which part of the program answers it.

mod check;
mod connect;
mod operator;
mod output;
mod policy;
mod serve;
mod status;
mod token;
mod tools;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand, ValueEnum};

#[cfg(test)]
pub(crate) use serve::load;
pub(crate) use serve::read;

use crate::{admin, demo, failure::Failure, log};

/// Where the clients' and the operators' listeners are unless the configuration says otherwise.
const URL: &str = "http://127.0.0.1:7420/mcp";
const ADMIN: &str = "http://127.0.0.1:7421";

/// One door between a team's agents and its MCP servers.
#[derive(Debug, Parser)]
#[command(
    name = "portcullis",
    version,
    after_help = "Exit codes: 0 done, 1 the answer is no, 2 wrong arguments, 69 unavailable, 71 system, 78 configuration."
)]
struct Cli {
    /// What to log, such as `info` or `warn,gateway=debug` [default: $RUST_LOG, else by command]
    #[arg(long, global = true, value_name = "FILTER")]
    log: Option<String>,
    /// How log lines look
    #[arg(long, global = true, value_enum, default_value_t = log::Format::Text)]
    log_format: log::Format,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway
    Serve(ConfigFile),
    /// Run the gateway with two built-in MCP servers, to try it; nothing is kept
    Demo {
        /// The port for clients; the next one is for operators [default: 7420, or a free one]
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..=65534))]
        port: Option<u16>,
    },
    /// Read the configuration and list every problem in it
    Check(ConfigFile),
    /// See and call tools through a running gateway
    #[command(subcommand)]
    Tools(ToolsCommand),
    /// Try the rules of a configuration, without a gateway
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Make, list and revoke credentials of the gateway's own
    #[command(subcommand)]
    Token(TokenCommand),
    /// Be an MCP server on standard input and output that stands for the one at a URL
    Connect(ConnectArgs),
    /// Show how a running gateway is doing
    Status(StatusArgs),
    /// Print the version
    Version {
        #[command(flatten)]
        output: Output,
    },
    /// The supervisor of one upstream process
    #[command(name = "__child", hide = true)]
    Child {
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// The demo's notes, on standard input and output
    #[command(name = "__demo-notes", hide = true)]
    DemoNotes,
}

#[derive(Debug, Args)]
struct ConfigFile {
    /// The configuration file [default: ./portcullis.yaml, else /etc/portcullis/portcullis.yaml]
    #[arg(long, env = "PORTCULLIS_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum ToolsCommand {
    /// List the tools that are offered
    Ls {
        #[command(flatten)]
        server: Server,
        #[command(flatten)]
        output: Output,
    },
    /// Call a tool: `tools call clock__convert time=14:30 from=+02:00 to=-05:00`
    Call(CallArgs),
}

#[derive(Debug, Args)]
struct CallArgs {
    /// The exposed name
    name: String,
    /// Arguments; a value that is JSON is sent as JSON, any other as a string
    #[arg(value_name = "KEY=VALUE", conflicts_with = "args")]
    pairs: Vec<String>,
    /// All arguments as one JSON object
    #[arg(long, value_name = "JSON")]
    args: Option<String>,
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Make an API key: `token key --principal ann --group dev --expires-in 30d`
    Key(KeyArgs),
    /// Sign a JWT with the gateway's own key
    Jwt(JwtArgs),
    /// Revoke a key, a token, a principal or an issuer, from the next message on
    Revoke(RevokeArgs),
    /// List API keys and revocations
    Ls {
        #[command(flatten)]
        operator: Operator,
        #[command(flatten)]
        output: Output,
    },
}

#[derive(Debug, Args)]
struct KeyArgs {
    /// What people call it [default: the principal]
    #[arg(long)]
    name: Option<String>,
    /// A virtual server it is for; may be repeated [default: all]
    #[arg(long = "server", value_name = "NAME")]
    servers: Vec<String>,
    #[command(flatten)]
    holder: Holder,
}

#[derive(Debug, Args)]
struct JwtArgs {
    /// The URL of the endpoint it is for [default: the tenant's default endpoint]
    #[arg(long, value_name = "URL")]
    audience: Option<String>,
    #[command(flatten)]
    holder: Holder,
}

/// Whom a credential proves, and for how long.
#[derive(Debug, Args)]
struct Holder {
    /// Whom it proves
    #[arg(long)]
    principal: String,
    /// The tenant it is for [default: the only one]
    #[arg(long)]
    tenant: Option<String>,
    /// A group of the principal; may be repeated
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// A scope it carries; may be repeated
    #[arg(long = "scope", value_name = "NAME")]
    scopes: Vec<String>,
    /// How long it is valid, such as `12h` or `30d` [default: a key until revoked, a JWT an hour]
    #[arg(long, value_name = "TIME", value_parser = token::seconds)]
    expires_in: Option<u64>,
    #[command(flatten)]
    operator: Operator,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct RevokeArgs {
    /// What is revoked
    #[arg(value_enum)]
    kind: Revoked,
    /// The key's six characters, the token's credential as in records, the principal, or the issuer
    name: String,
    /// The tenant of the principal [default: the only one]
    #[arg(long)]
    tenant: Option<String>,
    /// Only what this issuer says of the principal
    #[arg(long)]
    issuer: Option<String>,
    /// Take the revocation back; a key stays revoked
    #[arg(long)]
    lift: bool,
    #[command(flatten)]
    operator: Operator,
}

/// What can be revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Revoked {
    /// One API key.
    Key,
    /// One token.
    Token,
    /// Every credential of a principal.
    Principal,
    /// Every token of an issuer.
    Issuer,
}

impl Revoked {
    /// As in the admin API.
    fn word(self) -> &'static str {
        match self {
            Revoked::Key => "key",
            Revoked::Token => "token",
            Revoked::Principal => "principal",
            Revoked::Issuer => "issuer",
        }
    }

    /// The member that names the one that is meant.
    fn member(self) -> &'static str {
        match self {
            Revoked::Key => "id",
            Revoked::Token => "credential",
            Revoked::Principal => "principal",
            Revoked::Issuer => "issuer",
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = connect::HELP)]
struct ConnectArgs {
    /// The MCP endpoint, http or https
    #[arg(env = "PORTCULLIS_URL", default_value = URL)]
    url: String,
    /// A file with the API key or token to show, read again when it is refused [default: $PORTCULLIS_TOKEN]
    #[arg(long, visible_alias = "key-file", value_name = "FILE")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    login: LoginArgs,
}

/// How to log in where no key or token is given.
#[derive(Debug, Args)]
#[command(next_help_heading = "Login")]
struct LoginArgs {
    /// Log in now and end: clients that are started later find the token
    #[arg(long, conflicts_with = "token_file")]
    login: bool,
    /// Give up the tokens of all logins to this server, and end
    #[arg(long, conflicts_with_all = ["login", "token_file"])]
    logout: bool,
    /// Open no browser: the address of the login is only printed
    #[arg(long)]
    no_browser: bool,
    /// The client that you registered with the authorization server [default: one registers itself]
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// A file with the secret of that client, if it has one
    #[arg(long, value_name = "FILE", requires = "client_id")]
    client_secret_file: Option<PathBuf>,
    /// The authorization server, if the server names several, or one of a private network [default: the first]
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    /// The port that the browser comes back to on 127.0.0.1 [default: the registered one, else a free one]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    callback_port: Option<u16>,
}

#[derive(Debug, Args)]
struct StatusArgs {
    #[command(flatten)]
    operator: Operator,
    #[command(flatten)]
    output: Output,
}

/// How an operator reaches a running gateway.
#[derive(Debug, Args)]
struct Operator {
    /// The operators' listener
    #[arg(long, env = "PORTCULLIS_ADMIN", value_name = "URL", default_value = ADMIN)]
    admin: String,
    /// The file of the operators' key [default: `admin.key` in the state folder]
    #[arg(long, env = "PORTCULLIS_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The state folder [default: as the configuration says]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    #[command(flatten)]
    file: ConfigFile,
}

#[derive(Debug, Args)]
struct Server {
    /// The MCP endpoint
    #[arg(long, env = "PORTCULLIS_URL", default_value = URL)]
    url: String,
    /// What proves you to it: an API key or another token
    #[arg(long, env = "PORTCULLIS_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

#[derive(Debug, Args)]
struct Output {
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    output: Form,
}

/// How a command prints what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people.
    Table,
    /// For programs: as it was received, on one line.
    Json,
}

/// Runs what the arguments ask for.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    // INVARIANT: the supervisor starts no thread and no runtime, so it can fork and wait safely.
    if let Command::Child { command } = cli.command {
        return gateway::supervisor::run(command);
    }
    match answer(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // What failed may quote somebody else.
            output::complain(&output::harmless(&failure.to_string()));
            failure.code()
        }
    }
}

fn answer(cli: Cli) -> Result<(), Failure> {
    let start_log = |otherwise| log::start(cli.log.as_deref(), cli.log_format, otherwise);
    match cli.command {
        Command::Serve(file) => {
            start_log("info")?;
            serve::serve(file.config)
        }
        Command::Demo { port } => {
            start_log("warn")?;
            demo::run(port, &output::print)
        }
        Command::Check(file) => check::check(file.config),
        Command::Tools(command) => {
            start_log("warn")?;
            tools::run(command)
        }
        Command::Policy(command) => policy::run(command),
        Command::Token(command) => {
            start_log("warn")?;
            token::run(command)
        }
        Command::Connect(args) => {
            start_log("warn")?;
            connect::connect(args)
        }
        Command::Status(args) => status::status(&args),
        Command::Version { output } => {
            version(output.output);
            Ok(())
        }
        Command::DemoNotes => {
            demo::serve_notes();
            Ok(())
        }
        // Answered by `main`.
        Command::Child { .. } => Ok(()),
    }
}

fn version(form: Form) {
    let version = admin::version();
    match form {
        Form::Json => output::print(&version.to_string()),
        Form::Table => output::print(concat!("portcullis ", env!("CARGO_PKG_VERSION"))),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(line: &str) -> Result<Command, String> {
        let words = line.split(' ').filter(|word| !word.is_empty());
        let cli = Cli::try_parse_from(["portcullis"].into_iter().chain(words));
        cli.map(|cli| cli.command).map_err(|error| error.kind().to_string())
    }

    #[test]
    fn the_grammar_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_is_understood() {
        for line in [
            "serve",
            "serve --config p.yaml --log debug --log-format json",
            "demo --port 9000",
            "check --config p.yaml",
            "tools ls --url http://localhost/mcp -o json",
            "tools call notes__add text=hello n=1",
            "tools call notes__add --args {} -o table",
            "tools ls --token pck_x",
            "policy test --config p.yaml -o json",
            "policy test --url http://127.0.0.1:7421 --key-file admin.key",
            "policy explain --tool notes__add --args {} --principal ann --group dev --fact readOnly=true",
            "policy explain --resource file:///etc --upstream files",
            "token key --principal ann --group dev --group ops --server default --expires-in 30d",
            "token jwt --principal ann --tenant acme --audience https://x/mcp -o json",
            "token revoke key abcdef",
            "token revoke principal ann --issuer https://id --lift",
            "token ls --config p.yaml",
            "status --admin http://localhost:7421",
            "status --state-dir state",
            "status --key-file admin.key --config p.yaml",
            "connect",
            "connect https://mcp.acme.example/mcp --key-file key",
            "connect http://localhost:7420/mcp --token-file token --log info",
            "connect https://mcp.acme.example/mcp --login --no-browser --issuer https://id.acme.example",
            "connect https://mcp.acme.example/mcp --client-id x --client-secret-file secret --callback-port 7000",
            "connect https://mcp.acme.example/mcp --logout",
            "version -o json",
            "__demo-notes",
        ] {
            assert!(parse(line).is_ok(), "{line}: {:?}", parse(line));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "",
            "serv",
            "demo --port 0",
            "demo --port 65535",
            "tools",
            "tools call",
            "tools call x a=1 --args {}",
            "tools ls -o yaml",
            "policy",
            "policy explain",
            "policy explain --tool a --prompt b",
            "policy explain --tool a --url http://localhost:7421 --fact readOnly=true",
            "policy test --key-file admin.key",
            "policy explain --tool a --fact readOnly=perhaps",
            "policy explain --tool a --fact nice=true",
            "token key",
            "token key --principal ann --expires-in soon",
            "token revoke ann",
            "connect http://localhost/mcp --token pck_x",
            "connect http://localhost/mcp --login --logout",
            "connect http://localhost/mcp --login --token-file token",
            "connect http://localhost/mcp --client-secret-file secret",
            "connect http://localhost/mcp --callback-port 0",
            "__child",
            "__demo-notes weather",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_child_command_is_taken_as_it_is() {
        let Ok(Command::Child { command }) = parse("__child -- sh -c --help --log") else { unreachable!() };
        assert_eq!(command, ["sh", "-c", "--help", "--log"]);
    }

    #[test]
    fn helpers_are_not_advertised() {
        let help = Cli::command().render_long_help().to_string();
        assert!(help.contains("tools") && !help.contains("__"), "{help}");
    }
}
