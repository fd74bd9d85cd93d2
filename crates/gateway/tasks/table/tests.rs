//! Tests: whose tasks are found, how many there may be, and what is kept of them.

use std::time::Duration;

use admission::{Facts, Sort, Standing, Thing};
use bytes::Bytes;

use super::*;

fn principal(subject: &str) -> Principal {
    Principal::named(TenantId::new("acme".into()), "idp".into(), subject.into())
}

fn tasks() -> Arc<Tasks> {
    Tasks::new(Metrics::new().expect("metrics"))
}

fn begin(tasks: &Arc<Tasks>, subject: &str, ttl: u64) -> Arc<Task> {
    let slot = tasks.reserve(&principal(subject)).expect("a place");
    let task =
        Task::new(&slot, (&"default".into(), &Arc::new(tool("hub", "act"))), Some(ttl), Place::Nowhere);
    slot.put(task)
}

fn tool(upstream: &str, native: &str) -> Thing {
    Thing {
        upstream: upstream.into(),
        sort: Sort::Tool,
        exposed: "hub__act".into(),
        native: native.into(),
        digest: None,
        standing: Standing::Offered,
        mirrors: Arc::default(),
        tasks: Default::default(),
        facts: Arc::new(Facts::unknown("hub__act")),
    }
}

#[test]
fn a_task_is_found_by_its_principal_at_its_endpoint_until_it_is_too_old() {
    let tasks = tasks();
    let task = begin(&tasks, "ann", 60_000);
    let found = |subject, server| tasks.find(&principal(subject), server, &task.id).is_some();
    assert!(found("ann", "default"));
    assert!(!found("bob", "default") && !found("ann", "other"));
    assert_eq!(tasks.tool(&principal("ann"), "default", &task.id).as_deref(), Some("hub__act"));
    let old = begin(&tasks, "ann", 0);
    assert!(tasks.find(&principal("ann"), "default", &old.id).is_none());
    tasks.sweep();
    assert_eq!(tasks.of(&principal("ann"), "default").len(), 1);
    tasks.forget_all(&principal("ann"));
    assert!(!found("ann", "default"));
}

#[test]
fn a_name_that_means_another_tool_by_now_is_not_that_of_a_task() {
    let tasks = tasks();
    let task = begin(&tasks, "ann", 60_000);
    assert!(task.is_of(&tool("hub", "act")));
    assert!(!task.is_of(&tool("hub", "Act")) && !task.is_of(&tool("hut", "act")));
}

#[test]
fn a_place_that_is_not_used_is_given_back_and_one_that_is_over_is_none() {
    let tasks = tasks();
    for _ in 0..2 * LIVE {
        drop(tasks.reserve(&principal("ann")).expect("a place"));
    }
    let kept: Vec<_> = (0..LIVE).map(|_| begin(&tasks, "ann", 60_000)).collect();
    assert!(tasks.reserve(&principal("ann")).is_err());
    assert!(tasks.reserve(&principal("bob")).is_ok());
    tasks.finish(&kept[0], Ending::Failed(TaskError::Cancelled));
    assert!(tasks.reserve(&principal("ann")).is_ok());
}

#[test]
fn results_beyond_what_a_tenant_may_keep_are_not_kept_and_that_is_said() {
    let tasks = tasks();
    let large = || Ending::Result(Bytes::from(vec![b' '; BYTES / 2]));
    let ends: Vec<_> = (0..3)
        .map(|_| {
            let task = begin(&tasks, "ann", 60_000);
            tasks.finish(&task, large());
            (Arc::clone(&task), matches!(task.ending(), Some(Ending::Result(_))))
        })
        .collect();
    assert_eq!(ends.iter().map(|(_, kept)| *kept).collect::<Vec<_>>(), [true, true, false]);
    // The first ending stands, and its room comes back.
    tasks.finish(&ends[0].0, Ending::Failed(TaskError::Cancelled));
    assert!(matches!(ends[0].0.ending(), Some(Ending::Result(_))));
    tasks.forget(&ends[0].0);
    // An answer that comes when its task is forgotten takes no room.
    let late = begin(&tasks, "ann", 60_000);
    tasks.forget(&late);
    tasks.finish(&late, Ending::Result(Bytes::from(vec![b' '; BYTES / 2])));
    let task = begin(&tasks, "ann", 60_000);
    tasks.finish(&task, Ending::Result(Bytes::from(vec![b' '; BYTES / 4])));
    assert!(matches!(task.ending(), Some(Ending::Result(_))));
}

#[test]
fn nobody_looks_at_a_task_more_often_than_it_changes() {
    let tasks = tasks();
    let task = begin(&tasks, "ann", 60_000);
    let looks = (0..1000).filter(|_| task.look()).count();
    assert!((40..100).contains(&looks), "{looks}");
    assert!(task.left() <= Duration::from_secs(60));
}

#[test]
fn calls_that_run_here_as_tasks_have_places_of_their_own_and_give_them_back() {
    let tasks = tasks();
    let place = |subject: &str| tasks.reserve(&principal(subject)).expect("a place").hosted();
    let mut held: Vec<_> = (0..HOSTED).map(|_| place("ann").expect("a place")).collect();
    assert!(place("ann").is_none());
    held.pop();
    held.push(place("ann").expect("a place"));
    for n in 1..HOSTED_OF_TENANT / HOSTED {
        held.extend((0..HOSTED).map(|_| place(&n.to_string()).expect("a place")));
    }
    assert!(place("bob").is_none());
    held.pop();
    assert!(place("bob").is_some());
}

#[test]
fn what_is_said_of_a_task_is_kept_short_and_its_questions_are_counted() {
    use wire::task::Status;
    let tasks = tasks();
    let task = begin(&tasks, "ann", 60_000);
    let message = |said: &str| {
        task.heard(Status::Working, Some(said), None);
        task.state().message.clone()
    };
    assert_eq!(message(r#""half \u0007way""#).as_deref(), Some(r#""half way""#));
    assert_eq!(message(r#"{"not":"a text"}"#), None);
    let long = message(&format!("\"{}\"", "é".repeat(1 << 16))).expect("a message");
    assert!((1000..=1026).contains(&long.len()), "{}", long.len());
    for n in 0..3_000_u32 {
        let mut digest = [0; 32];
        digest[..4].copy_from_slice(&n.to_be_bytes());
        task.show(digest);
    }
    assert_eq!(task.state().shown.len(), crate::tasks::SHOWN);
}
