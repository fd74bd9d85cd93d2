//! Requests, one POST each, which their askers drive; and what is told without an answer, which waits in the queue.

use crate::error::UpstreamError;
use crate::hello::{self, Era};
use crate::link::{Asker, Manner, Outgoing};
use crate::peer::Fault;
use crate::remote::site::{Heard, Site, refusal};
use bytes::Bytes;
use http::StatusCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Notifications that were begun or wait for their turn. The queue fills up behind them.
const MOST: usize = 4096;
/// How long a notification may take.
const TELLING: Duration = Duration::from_secs(10);
/// How long a request waits until a new session holds what the old one held.
const RESTORING: Duration = Duration::from_secs(10);

/// Tells what is in the queue. Runs until the site stops and everything in there has found its end.
pub(crate) async fn carry(site: Arc<Site>, mut queue: mpsc::Receiver<Outgoing>) {
    let mut posts = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = site.stop.cancelled(), if !queue.is_closed() => queue.close(),
            Some(_ended) = posts.join_next(), if !posts.is_empty() => {}
            next = queue.recv(), if posts.len() < MOST => match next {
                Some(outgoing) => drop(posts.spawn(tell(Arc::clone(&site), outgoing))),
                None => break,
            },
        }
    }
    while posts.join_next().await.is_some() {}
}

/// One request to its end, which the link is told. Dropping it closes its connection, and that is how a modern server hears that
/// it is cancelled (spec H-25).
pub(crate) async fn request(site: Arc<Site>, outgoing: Outgoing, asker: Asker) {
    let _turn = match asker.manner {
        // Is it still there? That is asked when nothing comes back, so it must not wait behind what does not come back.
        Manner::Quiet | Manner::Listening => None,
        Manner::Cancellable | Manner::Listing | Manner::Aside => Some(site.requests.acquire().await),
    };
    let Some(line) = outgoing.begin() else { return };
    if site.endpoint.get().is_some() {
        // Boxed, as everything that is seldom needed: room for it would make every request larger.
        return Box::pin(post(&site, &asker, line)).await;
    }
    let mut renewed = false;
    let heard = loop {
        let session = site.session();
        let heard = site.ask(line.clone(), asker.number, outgoing.heads.as_ref(), &session).await;
        if !site.link.is_modern() && heard.as_ref().is_ok_and(|heard| is_of_another_era(&site, heard)) {
            // Nothing ran: the revision was refused. It is asked anew what it is (spec E-16).
            site.link.finish(asker.number, Err(UpstreamError::not_running("it speaks another era by now")));
            return site.faults.raise(Fault::Forgetful);
        }
        if session.id.is_none() || !heard.as_ref().is_ok_and(says_forgotten) {
            break heard.and_then(Heard::into_answer);
        }
        // spec H-15: 404 to a session says that the request was not processed, so it may go again.
        if std::mem::replace(&mut renewed, true) {
            break Err(UpstreamError::not_running("it forgets its sessions"));
        }
        if let Err(error) = site.renew_for(asker.number, session).await {
            break Err(error);
        }
        // What the old session held the new one holds too, before it serves anybody else (spec H-15).
        if asker.manner != Manner::Quiet {
            let _unsettled = Box::pin(timeout(RESTORING, site.link.behalf.wishes.settled())).await;
        }
    };
    match heard {
        Ok((answer, rest)) => {
            site.link.finish(asker.number, Ok(answer));
            if let Some(mut rest) = rest
                && !rest.is_over()
            {
                let stop = site.stop.clone();
                site.listeners.spawn(async move { stop.run_until_cancelled(rest.end()).await });
            }
        }
        Err(error) => {
            // Whether it is still there, and still what it was, is worth a question of its own.
            match error {
                UpstreamError::NotRunning { .. } | UpstreamError::Credential { .. } => site.link.suspect(),
                // A request to listen that ends is opened again.
                UpstreamError::Garbled { .. }
                    if site.link.is_modern() && asker.manner != Manner::Listening =>
                {
                    site.link.suspect()
                }
                _ => {}
            }
            site.link.finish(asker.number, Err(error));
        }
    }
}

/// Whether a server that was legacy refuses a request as only a modern one does.
fn is_of_another_era(site: &Site, heard: &Heard) -> bool {
    let refusal = heard.answer.as_ref().filter(|answer| answer.error().is_some());
    heard.status == StatusCode::BAD_REQUEST
        && refusal.is_some_and(|refusal| !matches!(hello::era(refusal, site.spec.modern), Era::Legacy))
}

/// 404 means the session. Some servers use it for a method they do not know, and say so; and what answers this
/// very request by its id was processed, unless its code is one that SDKs use for sessions.
fn says_forgotten(heard: &Heard) -> bool {
    let code = heard.answer.as_ref().and_then(hello::code);
    let by_id = heard.answer.as_ref().is_some_and(|answer| answer.id().is_some());
    let processed = by_id && !matches!(code, Some(-32001 | -32600 | -32000));
    heard.status == StatusCode::NOT_FOUND && !processed && code != Some(wire::code::METHOD_NOT_FOUND)
}

/// To a server of the oldest kind: the answer comes by its stream.
async fn post(site: &Site, asker: &Asker, line: Bytes) {
    let delivered = site.deliver(line, &site.session()).await;
    let error = match delivered {
        Ok(status) if status.is_success() => return,
        Ok(status) => refusal(status),
        Err(error) => error,
    };
    site.link.finish(asker.number, Err(error));
}

async fn tell(site: Arc<Site>, outgoing: Outgoing) {
    let Ok(_turn) = site.told.acquire().await else { return };
    let Some(line) = outgoing.begin() else { return };
    let delivered = timeout(TELLING, site.deliver(line, &site.session())).await;
    // There is nobody to tell about it; a lost session shows with the next request.
    if !matches!(delivered, Ok(Ok(status)) if status.is_success()) {
        site.link.counters.add(|counters| &counters.dropped);
    }
}
