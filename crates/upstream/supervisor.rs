//! The process between us and a stdio server: whatever happens, nothing of the server is left behind.
//!
//! It starts the server in a process group of its own and adopts every descendant that loses its parent. It ends all of them when
//! the server exits, when the gateway asks, and when the gateway is gone, however it went (bug B39, security 47). It runs no
//! runtime and no thread: one `poll` over its signals and the pipe to the gateway.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// The hidden subcommand under which our executable becomes a supervisor.
pub(crate) const COMMAND: &str = "__child";
/// From the gateway: end everything now. SIGTERM asks first.
pub(crate) const KILL_NOW: Signal = Signal::QUIT;

/// After SIGTERM; the gateway sends [`KILL_NOW`] when its own, usually shorter patience ends.
const ASKED_GRACE: Duration = Duration::from_secs(10);
/// After the gateway is gone: all must be over within 3 s.
const ORPHANED_GRACE: Duration = Duration::from_millis(700);
/// A process that cannot be killed, because it belongs to someone else or hangs in the kernel, does not keep us for ever.
const KILL_LIMIT: Duration = Duration::from_secs(5);
/// How often the dead are looked for while killing; their signal usually wakes us earlier.
const KILL_STEP: Duration = Duration::from_millis(20);

/// Runs `command` (program and arguments) and returns when it and all its descendants are gone, with its status, or 128 plus the
/// number of the signal that ended it. Stdin and stdout become the server's; stderr is shared with it.
pub fn run(command: Vec<OsString>) -> ExitCode {
    match supervise(command) {
        Ok(code) => code,
        Err(error) => {
            complain(&error.what);
            ExitCode::from(error.code)
        }
    }
}

/// Why nothing was started.
struct Failure {
    what: String,
    code: u8,
}

impl Failure {
    fn of(step: &str) -> impl Fn(io::Error) -> Self {
        move |error| Self { what: format!("{step}: {error}"), code: 125 }
    }
}

/// Tells the log of the gateway, if it still reads.
fn complain(what: &str) {
    let _unheard = writeln!(io::stderr(), "portcullis: {what}");
}

fn supervise(command: Vec<OsString>) -> Result<ExitCode, Failure> {
    let mut words = command.into_iter();
    let program = words.next().ok_or_else(|| Failure { what: "no program given".to_owned(), code: 125 })?;

    // INVARIANT: signals are caught and orphans adopted before there is anything to lose.
    let mut signals = Signals::new().map_err(Failure::of("cannot catch signals"))?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| Failure::of("cannot adopt processes")(error.into()))?;
    // A core file of a server would hold its secrets.
    let _unlimited =
        rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });

    // The gateway raises its own limit of open files; servers get what programs are used to, and some break
    // when they get more (`select` takes no descriptor above 1023).
    let mut files = rustix::process::getrlimit(Resource::Nofile);
    files.current = files.current.map(|limit| limit.min(1024)).or(Some(1024));
    let _kept = rustix::process::setrlimit(Resource::Nofile, files);

    let child = Command::new(&program).args(words).process_group(0).spawn().map_err(|error| Failure {
        what: format!("cannot start {}: {error}", program.display()),
        code: if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 },
    })?;
    let server = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let server =
        server.ok_or_else(|| Failure { what: "the server has no process id".to_owned(), code: 125 })?;
    // The end of a pipe is seen only when nobody else holds it.
    let_go_of_stdio().map_err(Failure::of("cannot let go of stdin and stdout"))?;

    let mut family = Family { server, status: None, childless: false };
    watch(&mut signals, &mut family);
    kill_all(&mut signals, &mut family);
    Ok(family.exit_code())
}

fn let_go_of_stdio() -> io::Result<()> {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(())
}

/// Returns when the server has exited or the time of its family is over. Reaps whatever dies meanwhile.
fn watch(signals: &mut Signals, family: &mut Family) {
    let mut deadline: Option<Instant> = None;
    let mut orphaned = false;
    loop {
        family.reap();
        // A server that exits by itself has no more use for what it started. One that was asked to may be a wrapper, and what it
        // started may still be saving its work.
        let over = if deadline.is_some() { family.childless } else { family.status.is_some() };
        if over || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return;
        }
        let woken =
            signals.wait(deadline, if orphaned { Listen::Signals } else { Listen::SignalsAndGateway });
        if woken.kill {
            return;
        }
        let asked = woken.terminate && deadline.is_none();
        let newly_orphaned = woken.gateway_gone && !orphaned;
        if asked || newly_orphaned {
            family.signal_group(Signal::TERM);
        }
        if asked {
            deadline = Some(Instant::now() + ASKED_GRACE);
        }
        if newly_orphaned {
            orphaned = true;
            deadline = Some(Instant::now() + ORPHANED_GRACE);
        }
    }
}

/// Kills the server's group, then whatever we have adopted, until we have no child left.
fn kill_all(signals: &mut Signals, family: &mut Family) {
    family.signal_group(Signal::KILL);
    let limit = Instant::now() + KILL_LIMIT;
    let mut look = Instant::now() + KILL_STEP;
    loop {
        family.reap();
        if family.childless || Instant::now() >= limit {
            return;
        }
        signals.wait(Some(look), Listen::Signals);
        if Instant::now() < look {
            continue;
        }
        look = Instant::now() + KILL_STEP;
        // Only our own unreaped children, so that no number can have been given to somebody else. When one dies its children
        // become ours, so the whole tree goes, however it was daemonized.
        for child in children_of(rustix::process::getpid()) {
            let _foreign = rustix::process::kill_process(child, Signal::KILL);
        }
    }
}

/// The server and what it left.
struct Family {
    server: Pid,
    /// Set when the server itself has been reaped.
    status: Option<WaitStatus>,
    childless: bool,
}

impl Family {
    /// Takes the status of every child that has died.
    fn reap(&mut self) {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.server => self.status = Some(status),
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => {
                    self.childless = true;
                    return;
                }
            }
        }
    }

    /// Signals the server's group. Its number is held by the server until it is reaped and by any member after that.
    fn signal_group(&self, signal: Signal) {
        let _empty = rustix::process::kill_process_group(self.server, signal);
    }

    fn exit_code(&self) -> ExitCode {
        let code = self.status.and_then(|status| {
            status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal))
        });
        ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
    }
}

/// What woke us.
#[derive(Default)]
struct Woken {
    terminate: bool,
    kill: bool,
    gateway_gone: bool,
}

#[derive(Clone, Copy)]
enum Listen {
    Signals,
    SignalsAndGateway,
}

/// Signals as bytes in sockets, so that one `poll` waits for everything.
struct Signals {
    terminate: UnixStream,
    kill: UnixStream,
    child: UnixStream,
}

impl Signals {
    fn new() -> io::Result<Self> {
        use signal_hook::consts::{SIGCHLD, SIGQUIT, SIGTERM};
        Ok(Self { terminate: caught(SIGTERM)?, kill: caught(SIGQUIT)?, child: caught(SIGCHLD)? })
    }

    /// Waits for a signal, the end of the gateway, or the deadline.
    fn wait(&mut self, deadline: Option<Instant>, listen: Listen) -> Woken {
        let timeout = deadline
            .and_then(|deadline| Timespec::try_from(deadline.saturating_duration_since(Instant::now())).ok());
        let stderr = io::stderr();
        let mut fds = vec![
            PollFd::new(&self.terminate, PollFlags::IN),
            PollFd::new(&self.kill, PollFlags::IN),
            PollFd::new(&self.child, PollFlags::IN),
        ];
        if matches!(listen, Listen::SignalsAndGateway) {
            // Only the gateway reads our stderr: when it is gone the write end reports an error, nothing else does.
            fds.push(PollFd::new(&stderr, PollFlags::empty()));
        }
        // Interrupted or not, the sockets say what happened.
        let _count = rustix::event::poll(&mut fds, timeout.as_ref());
        let gateway_gone =
            fds.get(3).is_some_and(|fd| fd.revents().intersects(PollFlags::ERR | PollFlags::HUP));
        drop(fds);
        // A death only wakes: who died is what `reap` finds out.
        drained(&mut self.child);
        Woken { terminate: drained(&mut self.terminate), kill: drained(&mut self.kill), gateway_gone }
    }
}

fn caught(signal: i32) -> io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(signal, writer)?;
    Ok(reader)
}

/// Empties a socket and says whether anything was in it.
fn drained(socket: &mut UnixStream) -> bool {
    let mut any = false;
    let mut bytes = [0_u8; 64];
    while let Ok(1..) = socket.read(&mut bytes) {
        any = true;
    }
    any
}

/// For the gateway, when a supervisor does not do its work: kills all descendants of `supervisor`. False: none is alive.
pub(crate) fn kill_descendants(supervisor: u32) -> bool {
    let Some(root) = i32::try_from(supervisor).ok().and_then(Pid::from_raw) else { return false };
    let mut unplaced = parents();
    let mut found = vec![root];
    loop {
        let before = found.len();
        unplaced.retain(|(child, parent)| {
            let ours = found.contains(parent);
            if ours {
                found.push(*child);
            }
            !ours
        });
        if found.len() == before {
            break;
        }
    }
    for pid in found.iter().skip(1) {
        let _gone = rustix::process::kill_process(*pid, Signal::KILL);
    }
    found.len() > 1
}

fn children_of(parent: Pid) -> Vec<Pid> {
    parents().into_iter().filter(|(_, of)| *of == parent).map(|(child, _)| child).collect()
}

/// Every living process with its parent. Empty without `/proc`: then the process group is all we can reach.
fn parents() -> Vec<(Pid, Pid)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| parent_of(&entry.path())).collect()
}

fn parent_of(dir: &Path) -> Option<(Pid, Pid)> {
    let pid = Pid::from_raw(dir.file_name()?.to_str()?.parse().ok()?)?;
    let stat = std::fs::read_to_string(dir.join("stat")).ok()?;
    // The name in brackets may itself hold brackets and spaces; state and parent follow the last one.
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_ascii_whitespace();
    let alive = !matches!(fields.next()?, "Z" | "X");
    let parent = Pid::from_raw(fields.next()?.parse().ok()?)?;
    alive.then_some((pid, parent))
}

#[cfg(test)]
mod tests;
