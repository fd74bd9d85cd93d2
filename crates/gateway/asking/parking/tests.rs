//! Who finds a parked call again, and how often. What its server hears of it is tested with real ones.

use super::*;

fn acme() -> TenantId {
    TenantId::new("acme".into())
}

fn parking() -> Arc<Parking> {
    Parking::new(Metrics::new().unwrap())
}

/// Parks what nobody watches over, with one form to fill in.
fn enter(parking: &Parking, handle: Handle) -> oneshot::Receiver<oneshot::Sender<Parked>> {
    let (taker, taken) = oneshot::channel();
    let asked = Arc::new([("question-1".into(), Method::ElicitationCreate)]);
    parking.enter(&acme(), handle, Waiting { round: handle.round, asked, taker });
    taken
}

fn take(parking: &Parking, tenant: &str, handle: Handle, fits: bool) -> Result<(), Missed> {
    let tenant = TenantId::new(tenant.into());
    parking.judge(&tenant, handle, |_| fits).and_then(|()| parking.take_out(&tenant, handle)).map(|_| ())
}

fn gauge(parking: &Parking) -> bool {
    parking.metrics.render().contains("portcullis_parked_calls 1")
}

#[test]
fn a_round_is_taken_once() {
    let parking = parking();
    let first = parking.handle().next();
    let _watcher = enter(&parking, first);
    assert!(gauge(&parking));
    assert_eq!(take(&parking, "acme", first, true), Ok(()));
    assert_eq!(take(&parking, "acme", first, true), Err(Missed::Gone));
    assert!(!gauge(&parking) && parking.waiting().is_empty());

    // The same call, parked again: what was given out before is of no use any more.
    let _watcher = enter(&parking, first.next());
    assert_eq!(take(&parking, "acme", first, true), Err(Missed::Gone));
    assert_eq!(take(&parking, "acme", first.next(), true), Ok(()));
}

#[test]
fn a_call_is_found_by_its_own_handle_in_its_own_tenant() {
    let parking = parking();
    let handle = parking.handle().next();
    let _watcher = enter(&parking, handle);
    let missed = Err(Missed::Gone);
    assert_eq!(take(&parking, "globex", handle, true), missed);
    assert_eq!(take(&parking, "acme", Handle { call: handle.call + 1, ..handle }, true), missed);
    assert_eq!(take(&parking, "acme", Handle { replica: !handle.replica, ..handle }, true), missed);
    assert_ne!(parking.handle().call, handle.call);
    assert_eq!(take(&parking, "acme", handle, true), Ok(()));
}

#[test]
fn answers_that_fit_nothing_leave_the_call_where_it_is() {
    let parking = parking();
    let handle = parking.handle().next();
    let mut watcher = enter(&parking, handle);
    assert_eq!(take(&parking, "acme", handle, false), Err(Missed::Malformed));
    assert!(watcher.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
    assert_eq!(take(&parking, "acme", handle, true), Ok(()));
}

#[tokio::test]
async fn a_call_that_was_given_up_is_not_found() {
    let parking = parking();
    let handle = parking.handle().next();
    drop(enter(&parking, handle));
    assert!(parking.take(&acme(), handle, |_| true).await.is_err_and(|missed| missed == Missed::Gone));
}

#[tokio::test]
async fn a_gateway_that_stops_parks_nothing() {
    let parking = parking();
    assert!(parking.place(&acme(), &"ada".into()).is_some());
    parking.close().await;
    assert!(parking.place(&acme(), &"ada".into()).is_none());
}

#[test]
fn a_handle_is_read_as_it_was_written_and_nothing_else_is_one() {
    let handle = Handle { replica: u64::MAX - 1, call: 7, round: 300 };
    let bytes = handle.to_bytes();
    assert_eq!(Handle::from_bytes(&bytes), Some(handle));
    assert_eq!(Handle::from_bytes(&bytes[1..]), None);
    assert_eq!(Handle::from_bytes(&[&bytes[..], &[0]].concat()), None);
}
