//! Child processes: started, ended, and what `/proc` says of them.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::failure::Failure;

/// How long a process may take to end after a signal.
const GRACE: Duration = Duration::from_secs(15);

/// Microseconds of one unit of processor time in `/proc`: `USER_HZ` is 100 wherever Linux runs today.
const TICK: u64 = 10_000;

/// A pause between two looks.
const PAUSE: Duration = Duration::from_millis(1);

/// A process of ours: asked to end when dropped, and made to end when it does not.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    /// Starts a program.
    pub(crate) fn start(command: &mut Command) -> Result<Process, Failure> {
        let program = command.get_program().to_string_lossy().into_owned();
        command.spawn().map(Process).map_err(|error| Failure::from(error).of(&program))
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// The first line it writes.
    pub(crate) fn line(&mut self) -> Result<String, Failure> {
        let output = self.0.stdout.take().ok_or_else(|| Failure::new("a process without an output"))?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    /// Looks until something is there, or the process or the patience has ended.
    pub(crate) fn until<T>(
        &mut self,
        what: &str,
        patience: Duration,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T, Failure> {
        let end = Instant::now() + patience;
        while Instant::now() < end {
            if let Some(found) = look() {
                return Ok(found);
            }
            if let Some(status) = self.0.try_wait()? {
                return Err(Failure::new(format!("instead of {what} came the end of the process: {status}")));
            }
            sleep(PAUSE);
        }
        Err(Failure::new(format!("{what} did not come within {} s", patience.as_secs())))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        if let (Some(pid), Ok(None)) = (pid, self.0.try_wait()) {
            // It may have ended in between, which is what is wanted.
            let _ = kill_process(pid, Signal::TERM);
        }
        let end = Instant::now() + GRACE;
        while Instant::now() < end {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            sleep(Duration::from_millis(5));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The echo of this program, as a process of its own, and its port.
pub(crate) fn echo(program: &Path) -> Result<(Process, u16), Failure> {
    let mut command = Command::new(program);
    served(command.arg("__echo"))
}

/// A server of ours that says its port first, and ends with its standard input.
pub(crate) fn served(command: &mut Command) -> Result<(Process, u16), Failure> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = Process::start(command)?;
    let line = process.line()?;
    let port =
        line.parse().map_err(|_| Failure::new(format!("instead of its port the server said `{line}`")))?;
    Ok((process, port))
}

/// Time on the processor, user and system, of processes with all their threads.
pub(crate) fn cpu(pids: &[u32]) -> Result<Duration, Failure> {
    let mut ticks = 0;
    for pid in pids {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        ticks += ticks_of(&stat).ok_or_else(|| Failure::new(format!("/proc/{pid}/stat says `{stat}`")))?;
    }
    Ok(Duration::from_micros(ticks * TICK))
}

/// `utime` and `stime`, the 14th and 15th field; the second is a name that may hold anything.
fn ticks_of(stat: &str) -> Option<u64> {
    let (_, after) = stat.rsplit_once(") ")?;
    let mut fields = after.split(' ').skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Resident memory of processes, in bytes.
pub(crate) fn resident(pids: &[u32]) -> Result<u64, Failure> {
    let mut kilobytes = 0;
    for pid in pids {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kilobytes += number.ok_or_else(|| Failure::new(format!("/proc/{pid}/status has no VmRSS")))?;
    }
    Ok(kilobytes * 1024)
}

/// The processes that this one has started and that still run.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit_once(") ").map(|(_, after)| after).unwrap_or_default();
        fields.split(' ').nth(1).and_then(|field| field.parse().ok()) == Some(parent)
    };
    pids.filter(is_child).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 4 0 100 1000 10";
        assert_eq!(ticks_of(stat), Some(300));
        assert_eq!(ticks_of("7 (a) S 1"), None);
    }

    #[test]
    fn this_process_has_memory() {
        let pid = std::process::id();
        assert!(resident(&[pid]).unwrap() > 100_000);
        assert!(cpu(&[pid]).is_ok());
    }
}
