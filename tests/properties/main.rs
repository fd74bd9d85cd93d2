//! Looks at many made-up cases of one subject, for so many cases or seconds, and makes the first that fails small.

#![allow(clippy::print_stdout, reason = "a program that is read by people")]

use std::{
    env,
    process::ExitCode,
    time::{Duration, Instant},
};

use properties::{TARGETS, cases::fault, target};

/// So many cases between two looks at the clock.
const TURN: u32 = 10_000;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match *words {
        [] => {
            TARGETS.iter().for_each(|target| println!("{}", target.name));
            ExitCode::SUCCESS
        }
        [name, "cases", count] => run(name, count.parse().ok(), None),
        [name, "seconds", count] => run(name, None, count.parse().ok()),
        _ => {
            println!("usage: properties [SUBJECT cases|seconds NUMBER]");
            ExitCode::from(64)
        }
    }
}

fn run(name: &str, count: Option<u64>, seconds: Option<u64>) -> ExitCode {
    let Some(target) = target(name) else {
        println!("there is no subject `{name}`");
        return ExitCode::from(64);
    };
    let (begun, mut done) = (Instant::now(), 0);
    let more = |done: u64| match (count, seconds) {
        (Some(count), _) => done < count,
        (None, seconds) => begun.elapsed() < Duration::from_secs(seconds.unwrap_or_default()),
    };
    while more(done) {
        if let Some(fault) = fault(target, TURN) {
            println!("{fault}");
            return ExitCode::FAILURE;
        }
        done += u64::from(TURN);
    }
    println!("{name}: {done} cases, {:.1} s", begun.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}
