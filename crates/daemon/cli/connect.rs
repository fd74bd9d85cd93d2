//! `portcullis connect`: an MCP server on standard input and output that stands for one behind a URL.
//!
//! Each line of the client goes to the server as it is, in either era; all that comes back is a line for the client.
//! Everything happens in one task: requests side by side, and what must keep its place before the next line is read.

mod answer;
mod login;
mod message;
mod pipes;
mod proof;
mod remote;
mod terminal;
mod trouble;

use std::{
    cell::{Cell, RefCell},
    pin::pin,
    time::Duration,
};

use futures_util::{
    FutureExt as _, StreamExt as _,
    future::{Fuse, LocalBoxFuture},
    stream::FuturesUnordered,
};
use http::Uri;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use url::Url;
use wire::{Era, Id, Method};

use self::{
    answer::{Events, LONGEST_PAUSE, PAUSE},
    message::{Message, unreadable},
    pipes::{LINE_BYTES, Line, Out},
    proof::Proof,
    remote::{Remote, Session},
    trouble::Trouble,
};
use crate::{cli::ConnectArgs, failure::Failure, run};

/// The end of `portcullis connect --help`.
pub(super) const HELP: &str = "\
Standard output carries MCP and nothing else; what is worth telling goes to the standard error. While the server cannot
be reached, or refuses the credential, each request is answered with an error that says so. Ends with the standard
input, after running requests have had 5 s; the exit code is then 0, or 69 when the server was out of reach to the last.

Without a key or token, a server that wants one is logged in to: the address of the login is printed to the standard
error and opened in the browser, requests wait for up to 50 s, and the login may take 5 min. The token is kept for the
next start, in $XDG_STATE_HOME/portcullis/logins or ~/.local/state/portcullis/logins, and renewed when it is over.";

/// Requests of the client that may run at once.
const MOST_OPEN: usize = 256;

/// How long a handshake, or what needs no answer, keeps the next line waiting.
const IN_ORDER: Duration = Duration::from_secs(60);

/// How long running requests may take when the client has nothing more to say.
const FAREWELL: Duration = Duration::from_secs(5);

/// How long ending the session, and writing the last lines, may take.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The client on one side, the server on the other.
struct Connect {
    remote: Remote,
    out: Out,
    open: RefCell<Vec<Open>>,
    /// The last serial number that was given.
    last: Cell<u64>,
    /// The client has said that it is ready, so there may be a stream beside its requests.
    ready: Cell<bool>,
    /// When a lost session is to be opened again, how long to wait if that fails, and why it failed last.
    renewal: Cell<Option<Instant>>,
    pause: Cell<Duration>,
    unrenewed: RefCell<Option<Trouble>>,
    /// What keeps every message from its answer at present.
    trouble: RefCell<Option<Trouble>>,
}

/// When a line is carried.
enum Turn {
    /// Beside others.
    Whenever,
    /// Before the next line is read.
    First,
    /// Beside others, once there is a session again or none can be had.
    AfterRenewal,
}

/// A line of the client with requests that run.
struct Open {
    serial: u64,
    asked: Vec<Id>,
    era: Era,
    cancelled: CancellationToken,
}

/// Runs until the client has nothing more to say.
pub(super) fn connect(args: ConnectArgs) -> Result<(), Failure> {
    let (uri, url) = address(&args.url)?;
    let (login, logout) = (args.login.login, args.login.logout);
    let proof = Proof::new(&url, args.token_file, args.login)?;
    if logout {
        return terminal::log_out(&url, &proof);
    }
    let remote = Remote::new(uri, proof)?;
    if login { terminal::log_in(&remote) } else { converse(remote) }
}

/// The URL of a server, as the HTTP library takes it and as it is compared.
fn address(text: &str) -> Result<(Uri, Url), Failure> {
    let wrong = || {
        let why = "write it in full, such as http://127.0.0.1:7420/mcp";
        Failure::usage(format!("url `{text}`: {why}"))
    };
    let uri = text.parse().map_err(|_| wrong())?;
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    Ok((uri, url.ok_or_else(wrong)?))
}

fn converse(remote: Remote) -> Result<(), Failure> {
    run::on_one_thread(async {
        let (out, written) = pipes::output();
        let connect = Connect {
            remote,
            out,
            open: RefCell::default(),
            last: Cell::new(0),
            ready: Cell::new(false),
            renewal: Cell::new(None),
            pause: Cell::new(PAUSE),
            unrenewed: RefCell::default(),
            trouble: RefCell::default(),
        };
        let ended = connect.run().await;
        drop(connect);
        let _ = timeout(LAST_WORDS, written).await;
        ended
    })
}

impl Connect {
    async fn run(&self) -> Result<(), Failure> {
        let watch =
            |kind| signal(kind).map_err(|error| Failure::system(format!("cannot watch signals: {error}")));
        let (mut terminate, mut interrupt) =
            (watch(SignalKind::terminate())?, watch(SignalKind::interrupt())?);
        let mut lines = pipes::input();
        let mut in_order: FuturesUnordered<LocalBoxFuture<'_, ()>> = FuturesUnordered::new();
        let mut running: FuturesUnordered<LocalBoxFuture<'_, ()>> = FuturesUnordered::new();
        let mut listening = pin!(Fuse::terminated());
        let mut listened = None;
        let mut held = None;
        let mut logins = pin!(self.remote.proof().serve());
        let hurried = loop {
            if in_order.is_empty()
                && let Some(message) = held.take()
            {
                running.push(self.carry(message).boxed_local());
            }
            let (due, is_due) =
                (self.renewal.get().unwrap_or_else(Instant::now), self.renewal.get().is_some());
            let session =
                self.remote.session().filter(|session| self.ready.get() && session.may_have_stream());
            if let Some(session) = session
                && listened.as_ref() != Some(&session)
            {
                listening.set(self.listen(session.clone()).fuse());
                listened = Some(session);
            }
            tokio::select! {
                biased;
                _ = terminate.recv() => break true,
                _ = interrupt.recv() => break true,
                () = self.out.closed() => break true,
                Some(()) = in_order.next() => (),
                Some(()) = running.next() => (),
                () = &mut listening => (),
                () = &mut logins => (),
                () = sleep_until(due), if is_due && in_order.is_empty() => {
                    in_order.push(self.renew().boxed_local());
                }
                line = lines.recv(), if in_order.is_empty() => match line {
                    None => break false,
                    Some(line) => match self.read(line).await {
                        None => (),
                        Some((message, Turn::Whenever)) => running.push(self.carry(message).boxed_local()),
                        Some((message, Turn::First)) => {
                            in_order.push(self.carry_in_order(message).boxed_local());
                        }
                        Some((message, Turn::AfterRenewal)) => {
                            held = Some(message);
                            in_order.push(self.renew().boxed_local());
                        }
                    },
                },
            }
        };
        if !hurried {
            let rest = async { while running.next().await.is_some() {} };
            tokio::select! {
                _ = timeout(FAREWELL, rest) => (),
                () = &mut logins => (),
            }
        }
        drop(running);
        let _ = timeout(LAST_WORDS, self.remote.end()).await;
        match self.trouble.take() {
            Some(trouble) => Err(Failure::unavailable(trouble.sentence(self.remote.url()))),
            None => Ok(()),
        }
    }

    /// What is to be done with a line: a message to carry, and when.
    async fn read(&self, line: Line) -> Option<(Message, Turn)> {
        let message = match line {
            Line::Whole(text) => Message::read(text),
            Line::TooLong => Err(wire::FrameError::TooLarge { limit: LINE_BYTES as usize }),
        };
        let message = match message {
            Ok(message) => message,
            Err(error) => {
                tracing::warn!(%error, "the client wrote what is no message");
                self.out.say(unreadable(&error)).await;
                return None;
            }
        };
        if message.cancels().is_some_and(|id| self.cancel(&id)) {
            return None;
        }
        let opens = message.asks_for(Method::Initialize).is_some();
        let turn = if self.remote.has_lost_session() && !opens && self.era(&message) == Era::Legacy {
            Turn::AfterRenewal
        } else if opens || message.asked().next().is_none() {
            Turn::First
        } else {
            Turn::Whenever
        };
        Some((message, turn))
    }

    fn era(&self, message: &Message) -> Era {
        message.era(self.remote.session().is_some())
    }

    /// Ends a request of the modern era by closing its stream (spec H-25). False when the cancellation goes to the server.
    fn cancel(&self, id: &Id) -> bool {
        let open = self.open.borrow();
        let found = open.iter().find(|open| open.asked.contains(id));
        if let Some(open) = found {
            open.cancelled.cancel();
        }
        // What is unknown and belongs to no session concerns nobody any more.
        found.map_or(self.remote.session().is_none(), |open| open.era == Era::Modern)
    }

    /// Carries a message that the next line waits for, but not for ever.
    async fn carry_in_order(&self, message: Message) {
        let asked: Vec<Id> = message.asked().cloned().collect();
        if timeout(IN_ORDER, self.carry(message)).await.is_err() {
            let why = format!("no answer within {} s", IN_ORDER.as_secs());
            self.answer_all(&asked, &Trouble::Broken(why)).await;
            // What is asked for in order is a handshake.
            if !asked.is_empty() {
                self.remote.forget_handshake();
            }
        }
    }

    /// Takes a message to the server, and what comes back to the client.
    async fn carry(&self, message: Message) {
        let mut waiting: Vec<Id> = message.asked().cloned().collect();
        let Some(open) = self.enter(&message) else {
            self.answer_all(&waiting, &Trouble::Broken(format!("more than {MOST_OPEN} requests at once")))
                .await;
            return;
        };
        let (era, cancelled) = (self.era(&message), open.cancelled.clone());
        let opens = message.asks_for(Method::Initialize).is_some();
        let done = tokio::select! {
            done = self.converse(&message, &mut waiting) => done,
            () = cancelled.cancelled(), if era == Era::Modern => return,
        };
        match done {
            Ok(()) if waiting.is_empty() || cancelled.is_cancelled() => (),
            Ok(()) => self.answer_all(&waiting, &Trouble::Broken("there was no answer".to_owned())).await,
            Err(trouble) => {
                if waiting.is_empty() {
                    tracing::warn!("a message was not taken: {}", trouble.sentence(self.remote.url()));
                }
                self.answer_all(&waiting, &trouble).await;
                if opens {
                    self.remote.forget_handshake();
                }
            }
        }
    }

    async fn converse(&self, message: &Message, waiting: &mut Vec<Id>) -> Result<(), Trouble> {
        let opens = message.asks_for(Method::Initialize).is_some();
        if self.remote.has_lost_session() && !opens && self.era(message) == Era::Legacy {
            return Err(self.unrenewed.borrow().clone().unwrap_or(Trouble::Lost));
        }
        if opens {
            self.ready.set(false);
        }
        let session = self.remote.session();
        let failed = |trouble| self.note_in(session.as_ref(), trouble);
        let mut answer = self.remote.post(message).await.map_err(failed)?;
        self.well();
        if message.only().is_some_and(|frame| frame.method() == Some(Method::Initialized)) {
            self.ready.set(true);
        }
        while !waiting.is_empty() {
            let Some(heard) = answer.next().await.map_err(failed)? else { return Ok(()) };
            for frame in heard.answers() {
                waiting.retain(|id| frame.id() != Some(id));
                self.remote.overhear(message, frame);
            }
            self.out.say(heard.text).await;
        }
        Ok(())
    }

    /// The stream of a session for what belongs to no request, for as long as there is one (spec H-39).
    async fn listen(&self, session: Session) {
        let mut pause = PAUSE;
        let mut last = None;
        while self.remote.session().as_ref() == Some(&session) {
            let mut wanted = pause;
            match self.remote.get(last.as_deref()).await {
                Ok(response) => {
                    self.well();
                    pause = PAUSE;
                    let mut events = Events::new(response.into_body(), last.take());
                    // However it ends, it is opened again.
                    while let Ok(Some(heard)) = events.next().await {
                        self.out.say(heard.text).await;
                    }
                    last = events.last();
                    wanted = events.pause(PAUSE);
                }
                Err(Trouble::Refused(http::StatusCode::METHOD_NOT_ALLOWED, _)) => return,
                Err(trouble) => {
                    // What was heard last may be forgotten there; then it begins anew.
                    last = last.filter(|_| !matches!(trouble, Trouble::Refused(..)));
                    self.note_in(Some(&session), trouble);
                }
            }
            sleep(wanted).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Opens a lost session again, if none has done so meanwhile; tries again later when that fails.
    async fn renew(&self) {
        self.renewal.set(None);
        if !self.remote.has_lost_session() {
            return;
        }
        let slow = |_| Trouble::Broken(format!("no new session within {} s", IN_ORDER.as_secs()));
        let renewed = timeout(IN_ORDER, self.remote.renew()).await.map_err(slow).flatten();
        let pause = self.pause.get();
        match renewed {
            Ok(()) => {
                tracing::warn!("a new session is open");
                self.ready.set(true);
                self.pause.set(PAUSE);
            }
            Err(trouble) => {
                tracing::warn!("no new session yet: {}", trouble.sentence(self.remote.url()));
                // A login waits for the client's next request: nobody is asked to log in for nothing.
                let again = self.remote.has_lost_session() && !matches!(trouble, Trouble::Login(_));
                self.renewal.set(again.then(|| Instant::now() + pause));
                self.pause.set((pause * 2).min(LONGEST_PAUSE));
                self.unrenewed.replace(Some(self.note(trouble)));
            }
        }
    }

    /// Notes what went wrong with a message of a session.
    fn note_in(&self, session: Option<&Session>, trouble: Trouble) -> Trouble {
        if let (Trouble::Lost, Some(session)) = (&trouble, session)
            && self.remote.forget(session)
        {
            tracing::warn!("the server has lost the session: opening a new one");
            self.renewal.set(Some(Instant::now()));
        }
        self.note(trouble)
    }

    /// Says once what keeps all messages from being answered.
    fn note(&self, trouble: Trouble) -> Trouble {
        if trouble.concerns_all() {
            let before = self.trouble.replace(Some(trouble.clone()));
            if before.is_none() {
                tracing::warn!("{}", trouble.sentence(self.remote.url()));
            }
        }
        trouble
    }

    /// The server takes messages.
    fn well(&self) {
        if self.trouble.take().is_some() {
            tracing::warn!("{} answers again", self.remote.url());
        }
    }

    async fn answer_all(&self, asked: &[Id], trouble: &Trouble) {
        for id in asked {
            self.out.say(trouble.answer(self.remote.url(), id)).await;
        }
    }

    fn enter(&self, message: &Message) -> Option<Place<'_>> {
        let mut open = self.open.borrow_mut();
        if open.len() >= MOST_OPEN {
            return None;
        }
        let serial = self.last.get() + 1;
        self.last.set(serial);
        let cancelled = CancellationToken::new();
        let asked = message.asked().cloned().collect();
        open.push(Open { serial, asked, era: self.era(message), cancelled: cancelled.clone() });
        Some(Place { open: &self.open, serial, cancelled })
    }
}

/// A place among the open lines; given back when dropped.
struct Place<'a> {
    open: &'a RefCell<Vec<Open>>,
    serial: u64,
    cancelled: CancellationToken,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.open.borrow_mut().retain(|open| open.serial != self.serial);
    }
}
