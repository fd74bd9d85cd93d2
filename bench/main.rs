//! Measures the gateway beside nginx and beside no proxy at all, and prints medians and ratios. Begun by `bench/run`.

mod affinity;
mod against;
mod ask;
mod chance;
mod connection;
mod crossed;
mod echo;
mod failure;
mod gateway;
mod http;
mod json;
mod latency;
mod load;
mod measure;
mod memory;
mod nginx;
mod open;
mod pipe;
mod process;
mod regime;
mod request;
mod row;
mod rows;
mod service;
mod session;
mod stage;
mod suite;
mod token;
mod unruly;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use tokio::signal::{
    ctrl_c,
    unix::{SignalKind, signal},
};

use crate::{against::Against, failure::Failure, suite::Extent};

/// Measures the gateway beside nginx and beside no proxy at all.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Options {
    /// The main rows only, in under a minute
    #[arg(long, conflicts_with = "long")]
    quick: bool,
    /// All rows, and those that show what stays in memory
    #[arg(long)]
    long: bool,
    /// One JSON object a row
    #[arg(long)]
    json: bool,
    /// The rows whose names begin like this, whatever run they belong to; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// A further proxy in front of the same echo: NAME=URL[,pid=N][,token=TEXT]. Start the echo for it with
    /// `bench __echo --port N`; its URLs are http://127.0.0.1:N/legacy/json/10 and /modern/json/10
    #[arg(long, value_name = "NAME=URL")]
    against: Vec<Against>,
    /// The gateway's program
    #[arg(long, env = "PORTCULLIS_BIN", default_value = "target/release/portcullis")]
    program: PathBuf,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// The upstream, as a process of its own
    #[command(name = "__echo", hide = true)]
    Echo {
        /// On stdin and stdout, not over HTTP
        #[arg(long)]
        stdio: bool,
        /// Tools of the stdio server
        #[arg(long, default_value_t = 10)]
        tools: usize,
        /// Where to listen; 0 is any
        #[arg(long, default_value_t = 0)]
        port: u16,
    },
    /// The upstream of `crossed`, as a process of its own
    #[command(name = "__unruly", hide = true)]
    Unruly {
        /// What it calls itself, on stdin and stdout; over HTTP without a name
        name: Option<String>,
    },
    /// Counts answers that reach somebody else: 8 tenants, 64 connections, the ids 1 to 10 only, unruly upstreams
    Crossed {
        /// How many calls
        #[arg(long, default_value_t = 20_000)]
        calls: u64,
    },
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match options.role {
        Some(Role::Echo { stdio: true, tools, .. }) => echo::over_stdio(tools),
        Some(Role::Echo { stdio: false, port, .. }) => echo::over_http(port),
        Some(Role::Unruly { name: Some(name) }) => unruly::pipe::serve(&name),
        Some(Role::Unruly { name: None }) => unruly::web::serve(),
        Some(Role::Crossed { calls }) => alone(crossed::run(&options.program, calls)),
        None => measure(options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // With stderr closed there is nobody to tell.
            let _ = writeln!(io::stderr(), "bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: Options) -> Result<(), Failure> {
    let extent = match (options.quick, options.long) {
        (true, _) => Extent::Quick,
        (false, false) => Extent::Full,
        (false, true) => Extent::Long,
    };
    let form = if options.json { row::Form::Json } else { row::Form::Table };
    let suite = suite::Suite { extent, form, only: options.only, against: options.against };
    alone(suite.run(options.program))
}

/// Runs this to its end, unless somebody has seen enough.
fn alone(what: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    // One thread: the machine is also the echo's and the proxy's.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        // Processes end as they are dropped, also when somebody has seen enough.
        tokio::select! {
            done = what => done,
            _ = ctrl_c() => Err(Failure::new("interrupted")),
            _ = terminate.recv() => Err(Failure::new("terminated")),
        }
    })
}
