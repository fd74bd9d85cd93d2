//! One server process: started clean, read and written by separate tasks, ended without remains.

use crate::burst::Burst;
use crate::counters::Counters;
use crate::declared::Behalf;
use crate::lines::Lines;
use crate::link::{self, Carrier, Link, Outgoing};
use crate::peer::{Ending, Fault, Faults};
use crate::spec::{Launch, Spec};
use crate::stderr::{self, LastLine};
use crate::supervisor;
use bytes::{Buf, Bytes};
use rustix::process::{Pid, Signal};
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// What a server inherits from us; everything else, and so every secret of ours, stays behind (spec P-10, security 46).
const INHERITED: [&str; 10] =
    ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL", "TERM"];
/// How long a process that closed its stdout may take to exit by itself.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long the supervisor may take to kill everything.
const KILL_GRACE: Duration = Duration::from_secs(2);
const KILL_STEP: Duration = Duration::from_millis(20);
/// How long a reader may take to reach the end of a pipe that nobody writes to any more.
const DRAIN_GRACE: Duration = Duration::from_millis(500);
/// Noise on stdout is told once in so long (bug B40).
const NOISE_WINDOW: Duration = Duration::from_secs(10);

/// A running process and the tasks that serve its pipes.
pub(crate) struct Process {
    pub(crate) link: Arc<Link>,
    pub(crate) pid: u32,
    spec: Arc<Spec>,
    child: Child,
    faults: Arc<Faults>,
    /// Asks the writer to write what waits and close the pipe.
    finish: CancellationToken,
    writer: JoinHandle<()>,
    readers: Vec<JoinHandle<()>>,
    last_line: LastLine,
}

impl Process {
    /// Starts the server behind its supervisor.
    pub(crate) fn spawn(
        spec: &Arc<Spec>,
        launch: &Launch,
        behalf: &Behalf,
        counters: &Arc<Counters>,
    ) -> io::Result<Self> {
        let mut child = command(launch).spawn()?;
        let pid = child.id().ok_or_else(|| io::Error::other("it ended while starting"))?;
        let pipes = child.stdin.take().zip(child.stdout.take()).zip(child.stderr.take());
        let ((stdin, stdout), stderr) = pipes.ok_or_else(|| io::Error::other("a pipe is missing"))?;
        let stdin = pipe::Sender::from_owned_fd(stdin.into_owned_fd()?)?;
        let stdout = pipe::Receiver::from_owned_fd(stdout.into_owned_fd()?)?;

        let (link, queue) = Link::new(Arc::clone(counters), Carrier::Pipe, spec.line_cap, behalf.clone());
        let faults = Arc::new(Faults::default());
        let finish = CancellationToken::new();
        let last_line = LastLine::default();
        let reader = read(stdout, Arc::clone(spec), Arc::clone(&link), Arc::clone(&faults));
        let drain = stderr::drain(stderr, Arc::clone(spec), Arc::clone(counters), last_line.clone());
        let writer = tokio::spawn(write(stdin, queue, finish.clone(), Arc::clone(&faults)));
        let readers = vec![tokio::spawn(reader), tokio::spawn(drain)];
        Ok(Self { link, pid, spec: Arc::clone(spec), child, faults, finish, writer, readers, last_line })
    }

    /// Returns when the process is no longer of use. May be dropped at any await.
    pub(crate) async fn fault(&mut self) -> Fault {
        tokio::select! {
            fault = self.faults.first() => fault,
            _ = self.child.wait() => {
                // What it wrote before it died is still in the pipe: answers first.
                timeout(DRAIN_GRACE, self.faults.first()).await.unwrap_or(Fault::Closed)
            }
        }
    }

    /// Ends the process, waits until nothing is left of it, and says how it ended. All open requests have failed by then.
    pub(crate) async fn end(mut self, fault: Fault) -> Ending {
        let why = match fault {
            Fault::Closed | Fault::Forgetful => self.farewell("it closed its output").await,
            Fault::Deaf => self.farewell("it closed its input").await,
            Fault::LongLine => format!("it wrote a line of more than {} bytes", self.spec.line_cap),
            Fault::Hung => "it stopped answering".to_owned(),
            Fault::Unwanted => "it was stopped".to_owned(),
        };
        // Told before the ladder, which takes its time.
        self.link.close(&why);
        self.descend(fault).await;
        self.collect().await;
        let detail = match self.last_line.clean(&self.spec) {
            Some(line) => format!("{why}; last on stderr: {line}"),
            None => why.clone(),
        };
        Ending { why, detail }
    }

    /// A process that closed a pipe is most likely exiting; its status says more than the pipe.
    async fn farewell(&mut self, otherwise: &str) -> String {
        match timeout(FAREWELL, self.child.wait()).await {
            Ok(Ok(status)) => describe(status),
            Ok(Err(_)) | Err(_) => otherwise.to_owned(),
        }
    }

    /// The ladder: stdin closed, SIGTERM, SIGKILL, each after the last had its time (spec P-04).
    async fn descend(&mut self, fault: Fault) {
        self.finish.cancel();
        // It may write without end: no courtesy.
        if fault != Fault::LongLine {
            if self.exits_within(self.spec.patience.eof_grace).await {
                return;
            }
            // A server that reads nothing keeps the writer waiting, and so its stdin open.
            self.writer.abort();
            self.signal(Signal::TERM);
            if self.exits_within(self.spec.patience.term_grace).await {
                return;
            }
        }
        self.signal(supervisor::KILL_NOW);
        if self.exits_within(KILL_GRACE).await {
            return;
        }
        // The supervisor does not do its work (stopped by its own server?): do it ourselves.
        let limit = Instant::now() + KILL_GRACE;
        while supervisor::kill_descendants(self.pid) && Instant::now() < limit {
            tokio::time::sleep(KILL_STEP).await;
        }
        self.signal(Signal::KILL);
        if !self.exits_within(KILL_GRACE).await {
            let (tenant, upstream) = (&*self.spec.tenant, &*self.spec.id);
            tracing::error!(tenant, upstream, pid = self.pid, "a process could not be killed");
        }
    }

    async fn exits_within(&mut self, grace: Duration) -> bool {
        timeout(grace, self.child.wait()).await.is_ok()
    }

    fn signal(&self, signal: Signal) {
        // INVARIANT: `id` is there only until the child is reaped, so the number is still ours.
        let pid = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(pid) = pid {
            // It may have exited just now.
            let _gone = rustix::process::kill_process(pid, signal);
        }
    }

    /// Waits for the tasks; the pipes are at their end unless something outlived the supervisor.
    async fn collect(&mut self) {
        self.writer.abort();
        let _cancelled = (&mut self.writer).await;
        for reader in &mut self.readers {
            if timeout(DRAIN_GRACE, &mut *reader).await.is_err() {
                reader.abort();
                let _cancelled = reader.await;
            }
        }
    }
}

fn command(launch: &Launch) -> Command {
    let mut command = Command::new(&launch.supervisor);
    command.arg(supervisor::COMMAND).arg("--").arg(&launch.program).args(&launch.args).env_clear();
    for name in INHERITED {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(launch.env.iter().map(|(name, value)| (name, value)));
    if let Some(dir) = &launch.dir {
        command.current_dir(dir);
    }
    // Its own group: ctrl-C at a terminal reaches us, and we stop it in order.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What an exit means, in words for anyone.
fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code @ 129..=192), _) => format!("the process was ended by signal {}", code - 128),
        (Some(code), _) => format!("the process exited with status {code}"),
        (None, Some(signal)) => format!("the process was ended by signal {signal}"),
        (None, None) => "the process ended".to_owned(),
    }
}

async fn write(
    mut pipe: pipe::Sender,
    mut queue: mpsc::Receiver<Outgoing>,
    finish: CancellationToken,
    faults: Arc<Faults>,
) {
    loop {
        let next = tokio::select! {
            biased;
            () = finish.cancelled(), if !queue.is_closed() => {
                // What waits is still written; then `recv` ends.
                queue.close();
                continue;
            }
            next = queue.recv() => next,
        };
        let Some(outgoing) = next else { return };
        let Some(line) = outgoing.begin() else { continue };
        if pipe.write_all_buf(&mut line.chain(&b"\n"[..])).await.is_err() {
            faults.raise(Fault::Deaf);
            return;
        }
    }
}

async fn read(pipe: pipe::Receiver, spec: Arc<Spec>, link: Arc<Link>, faults: Arc<Faults>) {
    let mut lines = Lines::new(spec.line_cap);
    let mut noise = Noise { spec, burst: Burst::new(1, NOISE_WINDOW) };
    let fault = loop {
        // Waiting costs no buffer.
        if pipe.readable().await.is_err() {
            break Fault::Closed;
        }
        match pipe.try_read_buf(lines.room()) {
            Ok(0) => break Fault::Closed,
            Ok(_) => link.hear(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => break Fault::Closed,
        }
        if take_lines(&mut lines, &link, &mut noise).is_err() {
            break Fault::LongLine;
        }
        // A server that writes without pause must not starve the others on this thread.
        tokio::task::consume_budget().await;
    };
    faults.raise(fault);
}

fn take_lines(lines: &mut Lines, link: &Link, noise: &mut Noise) -> Result<(), crate::lines::TooLong> {
    while let Some(line) = lines.next()? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        if let Err(error) = link.receive(line.clone()) {
            noise.log(&line, &error);
        }
    }
    Ok(())
}

/// Lines on stdout that are no messages.
struct Noise {
    spec: Arc<Spec>,
    burst: Burst,
}

impl Noise {
    fn log(&mut self, line: &Bytes, why: &wire::FrameError) {
        let Some(dropped) = self.burst.admit() else { return };
        let (tenant, upstream) = (&*self.spec.tenant, &*self.spec.id);
        let text = stderr::clean(line, &self.spec);
        let why = link::fault(why);
        tracing::warn!(tenant, upstream, dropped, %why, "skipped a line on stdout that is no message: {text}");
    }
}

#[cfg(test)]
mod tests;
