//! The process table, as `/proc` shows it.

use std::{collections::HashMap, fs};

use rustix::process::{Pid, Signal, kill_process};

/// One process, told apart from a later one of the same number by its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    started: u64,
}

impl Process {
    /// The process that has this number now.
    pub fn of(pid: u32) -> Option<Process> {
        let stat = Stat::read(pid)?;
        Some(Process { pid, started: stat.started })
    }

    /// Whether it still runs. A process that has ended and was not waited for does not.
    pub fn is_alive(&self) -> bool {
        Stat::read(self.pid).is_some_and(|stat| stat.started == self.started && !stat.ended)
    }

    /// Whether it is in the table, be it as a zombie.
    pub fn exists(&self) -> bool {
        Stat::read(self.pid).is_some_and(|stat| stat.started == self.started)
    }
}

struct Stat {
    parent: u32,
    started: u64,
    ended: bool,
}

impl Stat {
    fn read(pid: u32) -> Option<Stat> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name stands in parentheses and may hold anything.
        let (_, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        Some(Stat {
            parent: fields.get(1)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
            ended: matches!(fields.first().copied(), Some("Z" | "X")),
        })
    }
}

/// Every process below this one.
pub fn descendants(pid: u32) -> Vec<Process> {
    let mut children: HashMap<u32, Vec<Process>> = HashMap::new();
    let numbers =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    for pid in numbers {
        if let Some(stat) = Stat::read(pid) {
            children.entry(stat.parent).or_default().push(Process { pid, started: stat.started });
        }
    }
    let mut found = Vec::new();
    let mut open = vec![pid];
    while let Some(parent) = open.pop() {
        let next = children.remove(&parent).unwrap_or_default();
        open.extend(next.iter().map(|process| process.pid));
        found.extend(next);
    }
    found
}

/// Resident memory now, and the most it ever was, in bytes.
pub fn memory(pid: u32) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// Asks a process to end.
pub fn terminate(pid: u32) {
    signal(pid, Signal::TERM);
}

/// Tells a process that its configuration may have changed.
pub fn hang_up(pid: u32) {
    signal(pid, Signal::HUP);
}

/// Ends a process without asking it.
pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}
