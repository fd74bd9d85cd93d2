//! The command line: what may be typed, and which part of the program answers it.

mod check;
mod output;
mod serve;
mod status;
mod tools;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use serve::load;

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
    /// One of the demo's MCP servers, on standard input and output
    #[command(name = "__demo-server", hide = true)]
    DemoServer { name: demo::Which },
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

#[derive(Debug, Args)]
struct StatusArgs {
    /// The operators' listener
    #[arg(long, env = "PORTCULLIS_ADMIN", value_name = "URL", default_value = ADMIN)]
    admin: String,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct Server {
    /// The MCP endpoint
    #[arg(long, env = "PORTCULLIS_URL", default_value = URL)]
    url: String,
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
        Command::Status(args) => status::status(&args),
        Command::Version { output } => {
            version(output.output);
            Ok(())
        }
        Command::DemoServer { name } => demo::serve(name),
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
            "status --admin http://localhost:7421",
            "version -o json",
            "__demo-server clock",
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
            "__child",
            "__demo-server weather",
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
