//! Tests: which connections requests go by, and when those are closed.

use crate::declared::Behalf;
use crate::fake::{
    Accept, Asked, Fake, Pen, Reply, event, events, fine, legacy, message, ready, silence, stream,
};
use crate::peer::Fault;
use crate::remote::Remote;
use crate::scripted::{CALM, LONG, answer, ask, call, meanwhile};
use crate::{Incoming, Reach, UpstreamError};
use futures_util::future::BoxFuture;
use serde_json::json;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The connections of a server.
#[derive(Clone, Default)]
struct Doors {
    /// How many there were, and how many are open.
    count: watch::Sender<(usize, usize)>,
    shut: Arc<Mutex<CancellationToken>>,
}

impl Doors {
    fn were(&self) -> usize {
        self.count.borrow().0
    }

    async fn until_open(&self, want: usize) {
        let mut count = self.count.subscribe();
        let reached = timeout(LONG, count.wait_for(|(_, open)| *open == want)).await;
        assert!(reached.is_ok(), "{:?} are open, not {want}", self.count.borrow());
    }

    /// Closes all that are open, and returns when they are.
    async fn shut(&self) {
        std::mem::take(&mut *self.shut.lock().unwrap()).cancel();
        self.until_open(0).await;
    }

    fn accept(&self) -> Accept<Door> {
        let doors = self.clone();
        Arc::new(move |tcp| {
            doors.count.send_modify(|(were, open)| (*were, *open) = (*were + 1, *open + 1));
            let shut = Box::pin(doors.shut.lock().unwrap().clone().cancelled_owned());
            let door = Door { tcp, shut, count: doors.count.clone() };
            Box::pin(async { Ok(door) })
        })
    }
}

/// One connection, as the server holds it.
struct Door {
    tcp: TcpStream,
    shut: Pin<Box<WaitForCancellationFutureOwned>>,
    count: watch::Sender<(usize, usize)>,
}

impl Drop for Door {
    fn drop(&mut self) {
        self.count.send_modify(|(_, open)| *open -= 1);
    }
}

impl AsyncRead for Door {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        match self.shut.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => Pin::new(&mut self.tcp).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Door {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(context, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(context)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }
}

/// Answers in ways that differ in where the answer ends; the pens of streams that do not end are kept.
fn in_every_way(pens: &Arc<Mutex<Vec<Pen>>>) -> impl Fn(Asked) -> BoxFuture<'static, Reply> + use<> {
    let pens = Arc::clone(pens);
    legacy(move |asked| -> BoxFuture<'static, Reply> {
        let answer = asked.result(json!({"ok": 1}));
        match asked.method() {
            "hold" => Box::pin(silence()),
            "events" => ready(events(event(&answer))),
            "chunks" | "open" => {
                let (pen, reply) = stream();
                pen.send(event(&answer).into()).unwrap();
                if asked.method() == "open" {
                    pens.lock().unwrap().push(pen);
                }
                ready(reply)
            }
            "bye" => ready(crate::fake::with(message(200, &answer), "connection", "close")),
            _ => Box::pin(fine(asked)),
        }
    })
}

async fn server() -> (Doors, Arc<Mutex<Vec<Pen>>>, Fake) {
    let (doors, pens) = (Doors::default(), Arc::default());
    let fake = Fake::over("http", doors.accept(), in_every_way(&pens)).await;
    (doors, pens, fake)
}

#[tokio::test]
async fn one_request_after_the_other_goes_by_one_connection() {
    let (doors, _, fake) = server().await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    // The stream beside the session is not to be had: its connection is as good as any.
    fake.until("GET", "", 1).await;
    call(&connection, "json", "ok").await;
    let before = doors.were();
    for method in ["json", "events", "chunks", "json", "chunks", "events", "json"] {
        assert_eq!(call(&connection, method, "ok").await, "1");
        assert_eq!(doors.were(), before, "{method}");
    }
    assert_eq!(call(&connection, "bye", "ok").await, "1");
    upstream.stop().await;
    doors.until_open(0).await;
}

#[tokio::test]
async fn an_asker_is_woken_once_a_call() {
    let (_doors, _, fake) = server().await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    fake.until("GET", "", 1).await;
    call(&connection, "json", "ok").await;
    for method in ["json", "events", "chunks", "json", "events", "chunks"] {
        let mut exchange = ask(&connection, method, "{}", CALM);
        let (mut next, mut polls) = (std::pin::pin!(exchange.next()), 0);
        let incoming = std::future::poll_fn(|context| {
            polls += 1;
            next.as_mut().poll(context)
        });
        assert!(matches!(incoming.await, Incoming::Answer(_)));
        assert_eq!(polls, 2, "{method}: once to send it, once to take the answer");
    }
    upstream.stop().await;
}

#[tokio::test]
async fn a_connection_that_the_server_closed_while_idle_fails_nobody() {
    let (doors, _, fake) = server().await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    for _ in 0..5 {
        assert_eq!(call(&connection, "json", "ok").await, "1");
        let before = doors.were();
        doors.shut().await;
        assert_eq!(call(&connection, "json", "ok").await, "1");
        assert!(doors.were() > before);
    }
    assert_eq!(fake.count("POST", "json"), 10, "and none was sent twice");
    upstream.stop().await;
}

#[tokio::test]
async fn an_exchange_dropped_half_way_closes_its_connection() {
    let (doors, _, fake) = server().await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    fake.until("GET", "", 1).await;
    let mut held: Vec<_> = (0..3).map(|_| ask(&connection, "hold", "{}", CALM)).collect();
    for (exchange, n) in held.iter_mut().zip(1..) {
        meanwhile(exchange, fake.until("POST", "hold", n)).await;
    }
    let open = doors.count.borrow().1;
    drop(held);
    // Three are closed; what tells the server about it may open others, each of which stays.
    fake.until("POST", "notifications/cancelled", 3).await;
    let mut count = doors.count.subscribe();
    let after = count.wait_for(|(were, now)| *were - *now >= 3 && *now <= open);
    timeout(LONG, after).await.unwrap().unwrap();
    assert_eq!(call(&connection, "json", "ok").await, "1");
    upstream.stop().await;
}

#[tokio::test]
async fn a_stream_that_stays_open_after_its_answer_is_given_up_and_delays_nothing() {
    let (_doors, pens, fake) = server().await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    assert_eq!(call(&connection, "open", "ok").await, "1");
    let pen = pens.lock().unwrap().pop().unwrap();
    assert!(!pen.is_closed());
    timeout(LONG, pen.closed()).await.unwrap();
    // And not waited for when the conversation ends.
    assert_eq!(call(&connection, "open", "ok").await, "1");
    upstream.stop().await;
}

#[tokio::test]
async fn idle_connections_are_closed_in_time() {
    let (doors, _, fake) = server().await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    fake.until("GET", "", 1).await;
    assert_eq!(call(&connection, "json", "ok").await, "1");
    assert!(doors.count.borrow().1 > 0);
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let mut count = doors.count.subscribe();
    count.wait_for(|(_, open)| *open == 0).await.unwrap();
    let took = began.elapsed();
    assert!((Duration::from_secs(20)..Duration::from_secs(45)).contains(&took), "{took:?}");
    tokio::time::resume();
    assert_eq!(call(&connection, "json", "ok").await, "1");
    upstream.stop().await;
}

#[tokio::test]
async fn the_end_of_a_conversation_ends_what_is_on_its_way() {
    let (doors, _, fake) = server().await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    let mut exchange = ask(&connection, "hold", "{}", CALM);
    meanwhile(&mut exchange, fake.until("POST", "hold", 1)).await;
    let mut unsent = ask(&connection, "hold", "{}", CALM);
    let (last, ()) = tokio::join!(answer(&mut exchange), upstream.stop());
    let gone = |sent| UpstreamError::Exited { why: "it was stopped".into(), sent };
    assert_eq!(last.unwrap_err(), gone(true));
    assert!(matches!(unsent.next().await, Incoming::Failed(error) if error == gone(false)));
    assert!(matches!(connection.send(&|_| "{}".into(), CALM), Err(UpstreamError::NotRunning { .. })));
    doors.until_open(0).await;
    assert_eq!(fake.count("POST", "hold"), 1);
    upstream.stop().await;
}

#[tokio::test]
async fn nothing_is_left_of_a_server_that_was_let_go() {
    let (doors, pens, fake) = server().await;
    let Reach::Http(address) = &fake.spec.reach else { panic!() };
    let remote =
        Remote::start(&Arc::new(fake.spec.clone()), address, &Behalf::default(), &Arc::default()).unwrap();
    let site = Arc::downgrade(remote.site());
    Arc::clone(remote.site()).open(crate::probe::Opening::Initialize).await.unwrap();
    let link = Arc::clone(remote.link());
    let connection = crate::Connection::new(link, site.upgrade().unwrap().facts.get().unwrap().clone(), None);
    assert_eq!(call(&connection, "open", "ok").await, "1");
    connection.tell(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#.into()).unwrap();
    remote.end(Fault::Unwanted).await;
    assert!(site.upgrade().is_none(), "a task still holds it");
    drop(pens.lock().unwrap().pop());
    doors.until_open(0).await;
    assert_eq!(fake.count("POST", "notifications/x"), 1, "what was to be told was told");
}
