//! Several messages in one body: only sessions of 2025-03-26 know them (spec B-07, B-08).
//!
//! Each element is a message of its own from here on: it passes the whole pipeline, is charged, decided and recorded, and
//! leaves alone. Only the answers come back together, and have together the room of one result.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use wire::{Budget, Frame, Method, Pieces, Revision};

use crate::{
    arrival::Reply,
    audit::Record,
    era,
    error::{EraError, Error, LimitError},
    gateway::Gateway,
    pipeline::{self, Failure, Place},
    router::Answered,
    running::{Bond, Out, Outbox, Reach, Running},
    session::Session,
};

/// Messages of one body. Each costs a place among running requests and in the log.
const MOST: usize = 64;

/// The session in which these bytes are several messages; none when they are one, or are refused as a batch.
pub(crate) fn session(gateway: &Gateway, place: &Place, bytes: &Bytes) -> Option<Arc<Session>> {
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'[') {
        return None;
    }
    era::classify_head(&place.head).ok()?;
    if place.head.revision.as_deref().and_then(Revision::parse).is_some_and(|named| !named.has_handshake()) {
        return None;
    }
    let session = gateway.sessions.find(&place.head, &place.asker, &place.server).ok()?;
    session.revision.has_batches().then_some(session)
}

/// Answers all messages of a body.
pub(crate) fn serve(
    gateway: &Arc<Gateway>,
    place: Place,
    session: Arc<Session>,
    bytes: &Bytes,
    mut record: Record,
) -> Reply {
    let budget = Budget { bytes: gateway.config.limits.body, ..Budget::CLIENT };
    let elements = match elements(bytes, &budget) {
        Ok(elements) => elements,
        Err(error) => {
            record.entered(&session.principal, Some(session.revision));
            return pipeline::close(record, Err(Failure::from(error)));
        }
    };
    let outbox = Arc::new(Outbox::new(Reach::of(&place.head)));
    let room = Arc::new(Room::new(gateway.config.limits.result));
    let mut first = Some(record);
    let all: FuturesUnordered<_> = elements
        .into_iter()
        .enumerate()
        .map(|(at, element)| {
            let ends = (Arc::clone(&outbox), Arc::clone(&room));
            let one = serve_one(Arc::clone(gateway), place.clone(), element, first.take(), ends);
            async move { Some((at, one.await?)) }
        })
        .collect();
    let work = Box::pin(gather(all, Arc::clone(&outbox)));
    Reply::Running(Running::new(outbox, work, Bond::Session(session), gateway.sessions.tracker.token()))
}

/// Takes one element through the pipeline. The first has the record of the body, each other one of its own.
///
/// Each waits for its record by itself: whoever has one goes on, so none is held by somebody who waits for another.
async fn serve_one(
    gateway: Arc<Gateway>,
    place: Place,
    element: Bytes,
    record: Option<Record>,
    (outbox, room): (Arc<Outbox>, Arc<Room>),
) -> Option<Pieces> {
    let record = match record {
        Some(record) => Ok(record),
        None => gateway.open_record(&place.head, &place.asker).await,
    };
    let reply = match record {
        Ok(mut record) => match gateway.enter(place, Ok(element), &mut record) {
            Err(failure) => pipeline::close(record, Err(failure)),
            Ok(entered) => {
                let tool = entered.method() == Some(Method::ToolsCall);
                let fit = move |answered| room.fit(answered, tool);
                if !entered.leaves() {
                    gateway.answer(entered, record, fit).await
                } else {
                    match gateway.work(entered, record, outbox, fit) {
                        Ok(work) => return work.await.map(|out| out.message),
                        Err(refused) => refused,
                    }
                }
            }
        },
        Err(failure) => pipeline::refusal(&failure.of(wire::readable_id(&element))),
    };
    match reply {
        Reply::Message { body, .. } => Some(body),
        Reply::Accepted | Reply::Ended | Reply::Running(_) | Reply::Listening(_) => None,
    }
}

/// The elements of a batch that is served. What is wrong with a single one is told in its place.
fn elements(bytes: &Bytes, budget: &Budget) -> Result<Vec<Bytes>, Error> {
    let refused = |why| Error::from(EraError::NoMessage(why));
    let elements = wire::split(bytes, budget).map_err(Error::from)?;
    if elements.is_empty() {
        return Err(refused("a batch without messages"));
    }
    if elements.len() > MOST {
        return Err(refused("a batch of more than 64 messages"));
    }
    let opens = |element: &Bytes| {
        Frame::parse(element.clone(), budget).is_ok_and(|frame| frame.method() == Some(Method::Initialize))
    };
    if elements.iter().any(opens) {
        return Err(refused("`initialize` stands alone, in no batch"));
    }
    Ok(elements)
}

/// What the answers of one body may still take, in bytes: one that waits for the others costs as much memory as one that
/// nobody reads.
struct Room {
    most: usize,
    left: AtomicUsize,
}

impl Room {
    fn new(most: usize) -> Room {
        Room { most, left: AtomicUsize::new(most) }
    }

    /// The answer, if there is room for it. Errors always have some: they are short.
    fn fit(&self, answered: Answered, tool: bool) -> Result<Answered, Error> {
        let length = match &answered {
            Answered::Message { body, .. } | Answered::Asked(body) => body.len(),
            Answered::Accepted | Answered::Ended | Answered::Listening(_) | Answered::GivenUp => 0,
        };
        let take = |left: usize| left.checked_sub(length);
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(answered),
            Err(_) => Err(LimitError::Batch { most: self.most, tool }.into()),
        }
    }
}

/// All answers as one array, in the order of the questions; on a stream that has begun, one by one as they come, since its
/// readers take single messages.
async fn gather(
    mut all: FuturesUnordered<impl Future<Output = Option<(usize, Pieces)>>>,
    outbox: Arc<Outbox>,
) -> Option<Out> {
    let mut answers: Vec<(usize, Pieces)> = Vec::new();
    while let Some(answer) = all.next().await {
        answers.extend(answer);
        if outbox.has_stream() {
            // The last one ends the stream.
            let last = answers.pop();
            answers.retain(|(_, answer)| !outbox.put(answer.clone()));
            answers.extend(last);
        }
    }
    if let [_] = answers.as_slice()
        && outbox.has_stream()
    {
        let message = answers.pop().map(|(_, answer)| answer)?;
        return Some(Out::said(message, true));
    }
    answers.sort_by_key(|(at, _)| *at);
    if answers.is_empty() {
        return None;
    }
    let message = array(answers.into_iter().map(|(_, answer)| answer));
    Some(Out::said(message, true))
}

fn array(answers: impl Iterator<Item = Pieces>) -> Pieces {
    let mut array = Pieces::default();
    let mut before = "[";
    for answer in answers {
        array.push(Bytes::from_static(before.as_bytes()));
        answer.into_iter().for_each(|piece| array.push(piece));
        before = ",";
    }
    array.push(Bytes::from_static(b"]"));
    array
}
