//! Sinks that fail: what left is on record, and what is not on record did not leave.

use std::{fs, os::unix::fs::symlink, sync::Arc};

use super::{Audit, AuditError, Memory, Outcome, ada, audit_in, audit_over, count, kinds, read};

/// Five messages; true for each that was let through.
async fn script(audit: &Arc<Audit>) -> Vec<bool> {
    let mut through = Vec::new();
    for commits in [true, false, true, true, false] {
        let mut record = audit.open().await.unwrap();
        record.identified(&ada());
        if commits {
            through.push(record.commit().await.is_ok());
        }
        record.close(Outcome::Ok, None, 1);
    }
    audit.stop().await;
    through
}

#[tokio::test]
async fn whichever_write_fails_no_call_goes_unrecorded_and_no_entry_is_lost() {
    for swift in [false, true] {
        for lasting in [1, 2] {
            for part in [0, 5, 10] {
                fail_each_write(swift, lasting, part).await;
            }
        }
    }
}

/// Fails so many writes after each other, each after that part of its bytes: the first, the second, and so on.
async fn fail_each_write(swift: bool, lasting: usize, part: usize) {
    for fail_at in 1.. {
        let fails = move |number| (fail_at..fail_at + lasting).contains(&number);
        let memory = Memory::failing(move |number, size| fails(number).then_some(size * part / 11));
        let memory = memory.swift(swift);
        let (audit, metrics) = audit_over(vec![Box::new(memory.clone())]);
        let through = script(&audit).await;

        let entries = read(&memory.text());
        let let_through = through.iter().filter(|ok| **ok).count();
        assert_eq!(entries.len(), 5, "write {fail_at}");
        assert_eq!(kinds(&entries).0, let_through, "write {fail_at}");
        if memory.kept().writes < fail_at {
            assert_eq!(count(&metrics, "portcullis_audit_failures_total "), 0);
            assert_eq!(let_through, 3);
            break;
        }
        assert!(count(&metrics, "portcullis_audit_failures_total ") > 0);
    }
}

#[tokio::test]
async fn one_sink_that_confirms_is_enough() {
    let (good, bad) = (Memory::default(), Memory::failing(|_, _| Some(0)));
    let (audit, metrics) = audit_over(vec![Box::new(bad.clone()), Box::new(good.clone())]);
    assert_eq!(script(&audit).await, [true; 3]);
    assert_eq!(kinds(&read(&good.text())), (3, 2));
    assert_eq!(bad.text(), "");
    assert!(count(&metrics, "portcullis_audit_failures_total ") > 0);
}

#[tokio::test]
async fn a_full_disk_refuses_calls_until_space_returns() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("audit.jsonl");
    symlink("/dev/full", &file).unwrap();
    let (audit, metrics) = audit_in(place.path());
    for _ in 0..3 {
        let mut record = audit.open().await.unwrap();
        record.identified(&ada());
        assert_eq!(record.commit().await, Err(AuditError::Unwritable));
        record.close(Outcome::Error, Some("unrecorded"), 1);
    }
    assert!(count(&metrics, "portcullis_audit_failures_total ") >= 3);

    fs::remove_file(&file).unwrap();
    let mut record = audit.open().await.unwrap();
    record.identified(&ada());
    assert_eq!(record.commit().await, Ok(()));
    record.close(Outcome::Ok, None, 1);
    audit.stop().await;
    // The refused calls were recorded late, and none of them as one that left.
    assert_eq!(kinds(&read(&fs::read_to_string(&file).unwrap())), (1, 3));
}

#[tokio::test]
async fn an_outcome_waits_for_a_directory_that_went_away() {
    let place = tempfile::tempdir().unwrap();
    let (here, away) = (place.path().join("audit"), place.path().join("away"));
    let (audit, _) = audit_in(&here);
    let mut running = audit.open().await.unwrap();
    running.identified(&ada());
    running.commit().await.unwrap();

    fs::rename(&here, &away).unwrap();
    running.close(Outcome::Ok, None, 1);
    let mut refused = audit.open().await.unwrap();
    refused.identified(&ada());
    assert_eq!(refused.commit().await, Err(AuditError::Unwritable));
    drop(refused);
    assert!(!here.exists(), "the lost directory was made anew");

    fs::rename(&away, &here).unwrap();
    let mut record = audit.open().await.unwrap();
    record.identified(&ada());
    record.commit().await.unwrap();
    record.close(Outcome::Ok, None, 1);
    audit.stop().await;
    assert_eq!(kinds(&read(&fs::read_to_string(here.join("audit.jsonl")).unwrap())), (2, 1));
}
