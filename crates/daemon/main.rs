//! The portcullis process: arguments in, exit code out.

mod cli;
mod run;

mod reload;

mod admin;
mod credentials;
mod frames;
mod framing;
mod key;
mod lanes;
mod listen;
mod origin;
mod socket;
mod tls;
mod transport;

mod client;
mod demo;
mod descriptors;
mod failure;
mod files;
mod log;

use std::process::ExitCode;

/// Returns memory to the system after a burst of large messages, which the system's allocator does not.
#[cfg(all(feature = "mimalloc", not(test)))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
