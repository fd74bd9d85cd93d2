//! A session as its streams and its client see it.

use futures_util::FutureExt as _;
use wire::{Budget, Frame};

use super::{asked::AskError, event::Stamp, room::Room, store::Store, *};
use crate::{
    error::SessionError,
    running::{Outbox, Reach},
};

const LATEST: Revision = Revision::R2025_11_25;

/// A session of nobody in particular, whose tenant keeps so many bytes.
fn session_with(revision: Revision, bytes: usize) -> Arc<Session> {
    Arc::new(made("ada", "id", revision, bytes))
}

/// One of this principal.
pub(super) fn session_of(subject: &str, id: &str) -> Arc<Session> {
    Arc::new(made(subject, id, LATEST, 0))
}

fn made(subject: &str, id: &str, revision: Revision, bytes: usize) -> Session {
    let principal = Principal::named(admission::TenantId::new("acme".into()), Box::default(), subject.into());
    let store = Store::new(Room::new(bytes), Stamp::new().unwrap());
    Session::new(id.into(), Arc::new(principal), "default".into(), (revision, "{}"), store)
}

/// The same with room enough.
pub(crate) fn session(revision: Revision) -> Arc<Session> {
    session_with(revision, usize::MAX / 2)
}

#[test]
fn what_counts_is_the_credential_that_was_shown_last() {
    let session = session_of("ada", "1");
    let asker = |issuer: &str, group: &str| {
        let tenant = session.principal.tenant.clone();
        let groups = [group.into()].into();
        Arc::new(Principal { groups, ..Principal::named(tenant, issuer.into(), "ada".into()) })
    };
    session.spoken_by(&asker("", "nobody"));
    assert!(session.speaker().groups.is_empty());
    for group in ["leads", "guests"] {
        session.spoken_by(&asker("https://id.example", group));
        assert_eq!(*session.speaker().groups, [group.into()]);
    }
    assert!(session.principal.groups.is_empty(), "whose it is stays");
}

fn message(text: &str) -> Pieces {
    Pieces::one(text.to_owned().into())
}

/// What there is to read now: pairs of id and data, and whether the stream is over.
fn read(reader: &mut Reader) -> (Vec<(String, String)>, bool) {
    let mut events = Vec::new();
    loop {
        let Some(next) = reader.next_event().now_or_never() else { return (events, false) };
        let Some(event) = next else { return (events, true) };
        let text = String::from_utf8(event.join().to_vec()).unwrap();
        let field =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("").to_owned();
        events.push((field("id: "), field("data: ")));
    }
}

fn data(reader: &mut Reader) -> Vec<String> {
    read(reader).0.into_iter().map(|(_, data)| data).collect()
}

#[test]
fn only_the_newest_legacy_clients_are_told_where_to_come_back_to_before_anything_is_said() {
    for (revision, events) in [
        (Revision::R2024_11_05, 0),
        (Revision::R2025_03_26, 0),
        (Revision::R2025_06_18, 0),
        (Revision::R2025_11_25, 1),
    ] {
        let session = session(revision);
        let (primed, _) = read(&mut session.listen().unwrap());
        assert_eq!(primed.len(), events, "{revision:?}");
        assert!(primed.iter().all(|(id, data)| !id.is_empty() && data.is_empty()));
        let mut reader = session.listen().unwrap();
        session.tell(&message("a"));
        let (said, _) = read(&mut reader);
        let (id, text) = said.last().unwrap();
        assert_eq!((text.as_str(), id.is_empty()), ("a", revision == Revision::R2024_11_05), "{revision:?}");
        assert_eq!(session.begin().is_none(), revision == Revision::R2024_11_05);
    }
}

#[test]
fn a_client_reads_on_behind_any_event_it_has_seen() {
    let session = session(LATEST);
    let (stream, mut reader) = session.begin().unwrap();
    let (other, _reader) = session.begin().unwrap();
    for text in ["a", "b", "c"] {
        assert!(stream.say(message(text)));
        assert!(other.say(message("another call's")));
    }
    let (seen, over) = read(&mut reader);
    assert!(!over);
    drop(reader);
    // Nobody reads: it is kept.
    assert!(stream.say(message("d")));
    stream.answer(message("answer"));
    let all = ["", "a", "b", "c", "d", "answer"];
    for (index, (id, data)) in seen.iter().enumerate() {
        assert_eq!(data, all[index]);
        for _ in 0..2 {
            let (again, over) = read(&mut session.resume(id).unwrap());
            assert!(over, "it ends with the answer");
            assert_eq!(again.iter().map(|(_, data)| data.as_str()).collect::<Vec<_>>(), all[index + 1..]);
        }
    }
    // Ids stay what they were, and the last leads to nothing.
    let (again, _) = read(&mut session.resume(&seen[0].0).unwrap());
    assert_eq!(again[..3], seen[1..]);
    assert_eq!(read(&mut session.resume(&again[4].0).unwrap()), (vec![], true));
}

#[test]
fn a_client_that_comes_back_takes_the_stream_from_who_read_it() {
    let session = session(LATEST);
    let (stream, mut lost) = session.begin().unwrap();
    let id = read(&mut lost).0[0].0.clone();
    let mut back = session.resume(&id).unwrap();
    stream.say(message("a"));
    assert_eq!(read(&mut lost), (vec![], true), "each message goes to one connection");
    drop(lost);
    assert_eq!(data(&mut back), ["a"]);
    stream.answer(message("answer"));
    let (rest, over) = read(&mut back);
    assert_eq!((rest[0].1.as_str(), over), ("answer", true));
}

#[test]
fn an_id_of_another_session_or_of_nobody_leads_nowhere() {
    let (ada, bob) = (session(LATEST), session(LATEST));
    let id = read(&mut ada.listen().unwrap()).0[0].0.clone();
    let _same_number = bob.listen().unwrap();
    assert!(matches!(bob.resume(&id), Err(SessionError::UnknownEvent)));
    for id in ["", "1", "1-0", "1-0-", "1-0-000000000000000000000000", "\u{1f}"] {
        assert!(matches!(ada.resume(id), Err(SessionError::UnknownEvent)), "{id}");
    }
    assert!(ada.resume(&id).is_ok());
}

#[test]
fn what_was_not_read_stays_and_what_was_makes_room() {
    let session = session(LATEST);
    let (stream, mut reader) = session.begin().unwrap();
    let first = read(&mut reader).0[0].0.clone();
    for number in 0..200 {
        assert!(stream.say(message(&number.to_string())));
        assert_eq!(data(&mut reader), [number.to_string()]);
    }
    assert!(matches!(session.resume(&first), Err(SessionError::UnknownEvent)), "evicted");
    assert!((0..16).all(|_| stream.say(message("x"))));
    assert!(!stream.say(message("x")), "a slow reader misses what may be lost");
    assert!(stream.put(message("question")), "and nothing else");
    assert_eq!(data(&mut reader).last().unwrap(), "question");
}

#[test]
fn a_stream_keeps_so_many_bytes_and_a_tenant_too() {
    let large = "x".repeat(100 * 1024);
    for (room, kept) in [(usize::MAX / 2, 2), (150 * 1024, 1), (0, 0)] {
        let session = session_with(LATEST, room);
        let (stream, mut reader) = session.begin().unwrap();
        let mut ids = vec![read(&mut reader).0[0].0.clone()];
        for _ in 0..4 {
            assert!(stream.say(message(&large)), "whoever listens hears it, kept or not");
            ids.push(read(&mut reader).0[0].0.clone());
        }
        drop(reader);
        let back = |id: &String| session.resume(id).map(|mut reader| data(&mut reader).len()).ok();
        let found: Vec<_> = ids.iter().map(back).collect();
        let replayed = found.iter().flatten().max().copied();
        assert_eq!(replayed, Some(kept), "{room} {found:?}");
        // With nobody there, a question that cannot be kept is not taken.
        assert_eq!(stream.put(message("q")), room > 0, "{room}");
    }
}

#[test]
fn what_is_kept_gives_its_room_back_with_its_session() {
    let room = Room::new(1000);
    let hold = |bytes| room.hold(bytes).is_some();
    let held = room.hold(900).unwrap();
    assert!(!hold(101) && hold(100));
    drop(held);
    assert!(hold(1000));
}

#[test]
fn an_answer_too_large_to_keep_reaches_who_listens_and_nobody_later() {
    let huge = "x".repeat(2 * 1024 * 1024);
    let session = session(LATEST);
    let (stream, mut reader) = session.begin().unwrap();
    let id = read(&mut reader).0[0].0.clone();
    stream.answer(message(&huge));
    assert_eq!(data(&mut reader), [huge.as_str()]);
    drop(reader);
    assert!(matches!(session.resume(&id), Err(SessionError::UnknownEvent)));

    let (stream, mut reader) = session.begin().unwrap();
    let id = read(&mut reader).0[0].0.clone();
    drop(reader);
    stream.answer(message(&huge));
    assert!(matches!(session.resume(&id), Err(SessionError::UnknownEvent)));
}

#[test]
fn a_session_keeps_so_many_streams_and_first_forgets_those_that_are_over() {
    let session = session(LATEST);
    let mut open = session.listen().unwrap();
    let (_waits, mut reader) = session.begin().unwrap();
    let awaited = read(&mut reader).0[0].0.clone();
    drop(reader);
    let mut ids = Vec::new();
    for _ in 0..20 {
        let (stream, mut reader) = session.begin().unwrap();
        stream.answer(message("answer"));
        ids.push(read(&mut reader).0[0].0.clone());
    }
    let found = ids.iter().filter(|id| session.resume(id).is_ok()).count();
    assert_eq!(found, 6);
    assert!(session.resume(&awaited).is_ok(), "its answer is still to come");
    read(&mut open);
    session.tell(&message("a"));
    assert_eq!(data(&mut open), ["a"]);
}

#[test]
fn what_belongs_to_no_request_waits_for_a_client_that_comes_back() {
    let session = session(LATEST);
    let mut reader = session.listen().unwrap();
    let id = read(&mut reader).0[0].0.clone();
    assert!(session.tell(&message("a")));
    drop(reader);
    assert!(!session.tell(&message("b")), "nobody reads it now");
    let mut back = session.resume(&id).unwrap();
    assert_eq!(data(&mut back), ["a", "b"]);
    assert!(session.tell(&message("c")));
    assert_eq!(data(&mut back), ["c"]);
    drop(back);
    assert_eq!(data(&mut session.listen().unwrap()), [""], "a new stream is a new one");
}

#[test]
fn coming_back_counts_as_one_more_open_stream() {
    let session = session(LATEST);
    let mut reader = session.listen().unwrap();
    let id = read(&mut reader).0[0].0.clone();
    let others: Vec<_> = (0..3).map(|_| session.listen().unwrap()).collect();
    assert!(session.resume(&id).is_ok(), "it takes its own place");
    drop(reader);
    let _fourth = session.listen().unwrap();
    assert!(matches!(session.resume(&id), Err(SessionError::TooManyStreams)));
    assert!(matches!(session.listen(), Err(SessionError::TooManyStreams)));
    drop(others);
    assert!(session.resume(&id).is_ok());
}

#[test]
fn the_end_of_a_session_ends_what_is_read() {
    let session = session(LATEST);
    let mut reader = session.listen().unwrap();
    session.end();
    assert!(read(&mut reader).1);
}

// ---------------------------------------------------------------- questions

fn frame(text: &str) -> Frame {
    Frame::parse(text.to_owned().into(), &Budget::CLIENT).unwrap()
}

/// A stream of a running request, and the outbox that writes to it.
fn outbox(session: &Arc<Session>) -> (Arc<Outbox>, Reader) {
    let (stream, mut reader) = session.begin().unwrap();
    read(&mut reader);
    (Arc::new(Outbox::new(Reach::Stream(stream))), reader)
}

#[test]
fn a_question_has_an_id_of_ours_and_one_answer() {
    let session = session(LATEST);
    let (outbox, mut reader) = outbox(&session);
    let mut asked =
        [1, 2].map(|_| session.ask(&outbox, Method::ElicitationCreate, r#"{"message":"?"}"#).unwrap());
    let expected = |id| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"elicitation/create","params":{{"message":"?"}}}}"#)
    };
    assert_eq!(data(&mut reader), [expected(1), expected(2)]);
    assert!(asked[1].answer().now_or_never().is_none());
    let reply = frame(r#"{"jsonrpc":"2.0","id":2,"result":{"action":"decline"}}"#);
    assert!(session.answered(&reply));
    assert!(!session.answered(&reply), "once");
    let answer = asked[1].answer().now_or_never().unwrap();
    assert_eq!(answer.result(), Some(r#"{"action":"decline"}"#));
    assert!(asked[0].answer().now_or_never().is_none());
}

#[test]
fn an_answer_to_nothing_or_of_another_session_changes_nothing() {
    let (ada, bob) = (session(LATEST), session(LATEST));
    let (outbox, _reader) = outbox(&ada);
    let mut asked = ada.ask(&outbox, Method::ElicitationCreate, "{}").unwrap();
    let result = |id: &str| frame(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    assert!(!bob.answered(&result("1")));
    for id in ["0", "2", "-1", r#""x""#, "18446744073709551616"] {
        assert!(!ada.answered(&result(id)), "{id}");
    }
    assert!(!ada.answered(&frame(r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"no id"}}"#)));
    assert!(asked.answer().now_or_never().is_none());
    assert!(ada.answered(&result(r#""1""#)), "some clients answer every id as text (bug B13)");
    assert!(asked.answer().now_or_never().is_some());
}

#[test]
fn a_question_nobody_waits_for_is_taken_back_and_an_answered_one_is_not() {
    let session = session(LATEST);
    let (outbox, mut reader) = outbox(&session);
    let answered = session.ask(&outbox, Method::ElicitationCreate, "{}").unwrap();
    let given_up = session.ask(&outbox, Method::ElicitationCreate, "{}").unwrap();
    assert!(session.answered(&frame(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)));
    drop(answered);
    drop(given_up);
    let said = data(&mut reader);
    let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#;
    assert_eq!(said[2..], [cancelled]);
    assert!(!session.answered(&frame(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#)), "too late");
}

#[test]
fn a_client_that_cannot_hear_is_not_asked() {
    let session = session(LATEST);
    for reach in [Reach::AnswerOnly, Reach::Nobody] {
        let outbox = Arc::new(Outbox::new(reach));
        let asked = session.ask(&outbox, Method::ElicitationCreate, "{}");
        assert_eq!(asked.err(), Some(AskError::Unheard));
    }
    assert!(!session.answered(&frame(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)), "nothing waits");
}

#[test]
fn so_many_questions_wait_and_no_more() {
    let session = session(LATEST);
    let (outbox, _reader) = outbox(&session);
    let ask = || session.ask(&outbox, Method::ElicitationCreate, "{}");
    let mut waiting: Vec<_> = (0..64).map(|_| ask().unwrap()).collect();
    assert_eq!(ask().err(), Some(AskError::TooMany));
    waiting.pop();
    assert!(ask().is_ok());
}

/// A connection of HTTP+SSE, and a session on it.
fn carried() -> (Arc<Session>, Arc<Stream>, u64) {
    let stream = Stream::of_line();
    let turn = stream.enter();
    let store = Store::new(Room::new(0), Stamp::new().unwrap()).on(Some(Arc::clone(&stream)));
    let principal = Arc::clone(&session(LATEST).principal);
    let name = ("id".into(), principal, "default".into());
    (Arc::new(Session::new(name.0, name.1, name.2, (LATEST, "{}"), store)), stream, turn)
}

/// What there is to read now, and whether it is over.
fn heard(stream: &Stream, turn: u64) -> (usize, bool) {
    let mut heard = 0;
    loop {
        match std::future::poll_fn(|cx| stream.poll_next(turn, cx)).now_or_never() {
            Some(Some(_)) => heard += 1,
            Some(None) => return (heard, true),
            None => return (heard, false),
        }
    }
}

#[test]
fn one_connection_carries_all_that_its_session_says_and_ends_with_it() {
    let (session, stream, turn) = carried();
    assert!(session.is_busy(), "it does not age while its client listens");
    assert!(session.tell(&message("a")));
    stream.carry(message("b"), 10);
    session.announce(|_| 7);
    assert_eq!(heard(&stream, turn), (5, false));
    session.close_streams();
    assert_eq!(heard(&stream, turn), (0, false), "a drain lets it go on");
    stream.carry(message("c"), 10);
    session.end();
    stream.carry(message("d"), 10);
    assert_eq!(heard(&stream, turn), (1, true));
    stream.leave(turn);
    assert!(!session.is_busy());
}

#[test]
fn a_connection_that_is_not_read_holds_so_much_and_then_ends() {
    let (session, stream, turn) = carried();
    let told = (0..100).filter(|_| session.tell(&message("a"))).count();
    assert_eq!(told, 64, "what may be lost is");
    assert!(stream.put(message("question")));
    let mut answers = 0;
    while stream.is_open() {
        stream.carry(message("answer"), usize::MAX);
        answers += 1;
    }
    assert_eq!(answers + 65, 1025, "answers wait beyond that");
    assert_eq!(heard(&stream, turn), (0, true), "and nothing is kept of what nobody reads");

    let (_session, stream, turn) = carried();
    for _ in 0..2 {
        stream.carry(message("large"), 4);
        assert!(stream.is_open());
        assert_eq!(heard(&stream, turn), (1, false));
    }
    stream.carry(message("large"), 4);
    stream.carry(message("large"), 4);
    assert_eq!(heard(&stream, turn), (0, true));
}
