//! What the tests run as supervisor and as gateway: `__child -- PROGRAM ARGS` supervises, `hold PROGRAM ARGS` is a gateway with one
//! upstream that it never stops.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use upstream::{Declared, EraFound, EraMemory, Launch, Patience, Seat, Spec, Upstream, supervisor};

struct Forgetful;

impl EraMemory for Forgetful {
    fn recall(&self, _tenant: &str, _upstream: &str) -> Option<EraFound> {
        None
    }
    fn remember(&self, _tenant: &str, _upstream: &str, _found: EraFound) {}
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    match words.next().as_deref().and_then(|word| word.to_str()) {
        Some("__child") => supervisor::run(words.skip(1).collect()),
        Some("hold") => hold(words.collect()),
        _ => ExitCode::FAILURE,
    }
}

fn hold(command: Vec<OsString>) -> ExitCode {
    let mut words = command.into_iter().filter_map(|word| word.into_string().ok());
    let (Ok(supervisor), Some(program), Ok(runtime)) =
        (std::env::current_exe(), words.next(), tokio::runtime::Runtime::new())
    else {
        return ExitCode::FAILURE;
    };
    let (program, args) = (PathBuf::from(program), words.collect());
    let launch = Launch { supervisor, program, args, env: Vec::new(), dir: None };
    let spec = Arc::new(Spec::stdio("t".into(), "held".into(), launch, Patience::default(), 1 << 20));
    runtime.block_on(async {
        let (notices, mut told) = tokio::sync::mpsc::channel(8);
        let _upstream =
            Upstream::start(spec, Seat::Shared, Declared::nothing(), Arc::new(Forgetful), notices);
        while told.recv().await.is_some() {}
    });
    ExitCode::SUCCESS
}
