//! Tests: sharing, idle ends and the cap.

use crate::pool::Pool;
use crate::scripted::{CALM, LONG, Memory, Scripted, answer, ask, call};
use crate::{Declared, Seat, Spec, State, UpstreamError, What};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

fn pool(scripted: &Scripted, idle: Duration) -> Arc<Pool> {
    Pool::new(Arc::new(Memory::default()), scripted.notices.clone(), idle)
}

fn principal(name: &str) -> Seat {
    Seat::Principal(name.into())
}

async fn pid(pool: &Pool, spec: &Arc<Spec>, seat: Seat) -> String {
    let upstream = pool.seat(spec, seat, Declared::nothing(), 64).unwrap();
    call(&upstream.connection().await.unwrap(), "x", "pid").await
}

#[tokio::test]
async fn a_process_is_shared_within_a_seat_and_never_between_tenants() {
    let scripted = Scripted::new("serve()");
    let acme = Arc::new(scripted.spec.clone());
    let other = Arc::new(Spec { tenant: "other".into(), ..scripted.spec.clone() });
    let pool = pool(&scripted, LONG);
    let mut pids = Vec::new();
    for spec in [&acme, &other] {
        for seat in [Seat::Shared, principal("ann"), principal("bob"), Seat::Session("ann".into())] {
            pids.push(pid(&pool, spec, seat.clone()).await);
            assert_eq!(pids.last(), Some(&pid(&pool, spec, seat).await), "the same seat again");
        }
    }
    let count = pids.len();
    pids.sort();
    pids.dedup();
    assert_eq!((pids.len(), count), (8, 8));
    assert_eq!(pool.states().len(), 8);

    pool.release("acme", &principal("ann")).await;
    let left = pool.states();
    assert_eq!(left.len(), 7);
    assert!(left.iter().any(|(spec, seat, _)| &*spec.tenant == "other" && *seat == principal("ann")));
    assert!(left.iter().all(|(_, _, state)| matches!(state, State::Up { .. })));
    pool.stop_all().await;
    assert!(pool.states().is_empty());
    assert!(matches!(
        pool.seat(&acme, Seat::Shared, Declared::nothing(), 1),
        Err(UpstreamError::NotRunning { .. })
    ));
}

#[tokio::test]
async fn thirty_askers_at_once_start_one_process() {
    let scripted = Scripted::new("serve()");
    let spec = Arc::new(scripted.spec.clone());
    let pool = pool(&scripted, LONG);
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..30 {
        let (pool, spec) = (Arc::clone(&pool), Arc::clone(&spec));
        asking.spawn(async move { pid(&pool, &spec, principal("ann")).await });
    }
    let mut pids = asking.join_all().await;
    pids.dedup();
    assert_eq!((pids.len(), scripted.starts()), (1, 1));
    pool.stop_all().await;
}

#[tokio::test]
async fn a_tenant_has_only_so_many_processes_of_its_principals() {
    let scripted = Scripted::new("serve()");
    let acme = Arc::new(scripted.spec.clone());
    let other = Arc::new(Spec { tenant: "other".into(), ..scripted.spec.clone() });
    let pool = pool(&scripted, LONG);
    pool.seat(&acme, Seat::Shared, Declared::nothing(), 2).unwrap();
    pool.seat(&acme, principal("ann"), Declared::nothing(), 2).unwrap();
    pool.seat(&acme, Seat::Session("s".into()), Declared::nothing(), 2).unwrap();
    let third = pool.seat(&acme, principal("bob"), Declared::nothing(), 2).map(|_| ());
    assert_eq!(third, Err(UpstreamError::TooMany { limit: 2 }));
    assert!(pool.seat(&acme, principal("ann"), Declared::nothing(), 2).is_ok(), "a seat that is there stays");
    assert!(
        pool.seat(&other, principal("bob"), Declared::nothing(), 2).is_ok(),
        "another tenant has its own"
    );
    pool.release("acme", &principal("ann")).await;
    assert!(pool.seat(&acme, principal("bob"), Declared::nothing(), 2).is_ok());
    pool.stop_all().await;
}

#[tokio::test]
async fn only_principals_stop_when_idle() {
    let mut scripted = Scripted::new("serve()");
    let spec = Arc::new(scripted.spec.clone());
    let pool = pool(&scripted, Duration::from_millis(500));
    let idle = pid(&pool, &spec, principal("ann")).await;
    pid(&pool, &spec, Seat::Shared).await;
    pid(&pool, &spec, Seat::Session("s".into())).await;
    let stopped = async {
        loop {
            let notice = scripted.told.recv().await.unwrap();
            if let What::Down { .. } = notice.what {
                return notice.seat;
            }
        }
    };
    assert_eq!(timeout(LONG, stopped).await.unwrap(), principal("ann"));
    assert_eq!(pool.states().len(), 2);
    assert_ne!(pid(&pool, &spec, principal("ann")).await, idle, "it comes back when asked for");
    pool.stop_all().await;
}

#[tokio::test]
async fn a_seat_whose_configuration_changed_starts_anew() {
    let mut scripted = Scripted::new("serve()");
    let before = Arc::new(scripted.spec.clone());
    scripted.launch().args.push("changed".to_owned());
    let after = std::mem::replace(&mut scripted.spec, (*before).clone());
    let pool = pool(&scripted, LONG);
    let first = pid(&pool, &before, Seat::Shared).await;
    assert_eq!(
        pid(&pool, &Arc::new(scripted.spec.clone()), Seat::Shared).await,
        first,
        "equal is not changed"
    );
    assert_ne!(pid(&pool, &Arc::new(after), Seat::Shared).await, first);
    pool.stop_all().await;
}

#[test]
fn a_seat_in_a_log_does_not_give_its_session_away() {
    for (seat, want) in [
        (Seat::Session("0123456789abcdef".into()), r#"Session("01234567…")"#),
        (Seat::Session("ééééééééé".into()), r#"Session("éééééééé…")"#),
        (Seat::Session("01234567".into()), r#"Session("01234567")"#),
        (principal("somebody@example.com"), r#"Principal("somebody@example.com")"#),
        (Seat::Shared, "Shared"),
    ] {
        assert_eq!(format!("{seat:?}"), want);
    }
}

#[tokio::test]
async fn restarts_are_counted_over_all_seats_and_never_fall() {
    let scripted = Scripted::new(
        "
def on(m):
    if m['method'] == 'die': os._exit(1)
    result(m, {'pid': os.getpid()})
serve(on)",
    );
    let acme = Arc::new(scripted.spec.clone());
    let other = Arc::new(Spec { tenant: "other".into(), ..scripted.spec.clone() });
    let pool = pool(&scripted, LONG);
    let counts = || -> Vec<(String, u64)> {
        let rows = pool.restarts().into_iter();
        rows.map(|(tenant, upstream, count)| (format!("{tenant}/{upstream}"), count)).collect()
    };
    let rows = |acme: u64| vec![("acme/files".to_owned(), acme), ("other/files".to_owned(), 0)];
    assert_eq!(counts(), []);
    pid(&pool, &other, Seat::Shared).await;
    for seat in [Seat::Shared, principal("ann")] {
        pid(&pool, &acme, seat.clone()).await;
        let connection =
            pool.seat(&acme, seat.clone(), Declared::nothing(), 64).unwrap().connection().await.unwrap();
        assert!(answer(&mut ask(&connection, "die", "{}", CALM)).await.is_err());
        pid(&pool, &acme, seat).await;
    }
    assert_eq!(counts(), rows(2));
    pool.release("acme", &principal("ann")).await;
    assert_eq!(counts(), rows(2), "a seat that left still counts");
    pid(&pool, &acme, principal("ann")).await;
    let changed = Arc::new(Spec { line_cap: 1 << 20, ..scripted.spec.clone() });
    pid(&pool, &changed, Seat::Shared).await;
    assert_eq!(counts(), rows(2), "so does one that was replaced");
    pool.stop_all().await;
    assert_eq!(counts(), rows(2));
}

#[tokio::test]
async fn a_principal_has_one_process_for_each_set_of_capabilities() {
    let scripted = Scripted::new("serve()");
    let spec = Arc::new(scripted.spec.clone());
    let pool = pool(&scripted, LONG);
    let can = [Declared::nothing(), Declared::of(r#"{"elicitation":{}}"#)];
    let mut seats = Vec::new();
    for _ in 0..25 {
        for declared in &can {
            seats.push(pool.seat(&spec, principal("ann"), declared.clone(), 2).unwrap());
        }
    }
    assert_eq!(pool.states().len(), 2, "spec X-02");
    assert!(seats.chunks(2).all(|two| two[0].declared() == &can[0] && two[1].declared() == &can[1]));
    let third = pool.seat(&spec, principal("ann"), Declared::of(r#"{"roots":{}}"#), 2).map(|_| ());
    assert_eq!(third, Err(UpstreamError::TooMany { limit: 2 }));
    let shared = pool.seat(&spec, Seat::Shared, can[1].clone(), 2).unwrap();
    assert_eq!(*shared.declared(), Declared::nothing(), "nobody is asked on behalf of all (spec Q-01)");
    pool.release("acme", &principal("ann")).await;
    assert_eq!(pool.states().len(), 1);
    pool.stop_all().await;
}
