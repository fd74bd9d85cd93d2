//! Tests of the store, each in a directory of its own.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use tempfile::TempDir;
use upstream::{EraFound, EraMemory};

use super::{Eras, FILE, Store, StoreError};

fn place() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn found(all: &[(&str, &str, EraFound)]) -> Vec<(String, String, EraFound)> {
    all.iter().map(|(tenant, upstream, era)| ((*tenant).to_owned(), (*upstream).to_owned(), *era)).collect()
}

#[tokio::test]
async fn only_the_owner_can_look_in() {
    let place = place();
    let state_dir = place.path().join("a/b");
    let store = Store::open(&state_dir).await.unwrap();
    store.seal_keys().await.unwrap();
    assert_eq!(mode(&state_dir), 0o700);
    let files: Vec<_> = fs::read_dir(&state_dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 2, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn what_stood_open_is_tightened() {
    let place = place();
    Store::open(place.path()).await.unwrap().close().await;
    let database = place.path().join(FILE);
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&database, fs::Permissions::from_mode(0o644)).unwrap();
    let _store = Store::open(place.path()).await.unwrap();
    assert_eq!((mode(place.path()), mode(&database)), (0o700, 0o600));
}

#[tokio::test]
async fn a_directory_shared_with_others_is_refused_and_left_alone() {
    let place = place();
    fs::write(place.path().join("theirs"), "").unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let error = Store::open(place.path()).await.unwrap_err();
    assert!(error.to_string().contains("it is no directory of its own"), "{error}");
    assert_eq!(mode(place.path()), 0o755);
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_named_with_its_mend() {
    let place = place();
    let file = place.path().join("file");
    fs::write(&file, "").unwrap();
    symlink(place.path().join("nowhere"), place.path().join("dangling")).unwrap();
    for state_dir in [file.clone(), file.join("below"), place.path().join("dangling")] {
        let error = Store::open(&state_dir).await.unwrap_err();
        assert!(matches!(error, StoreError::Directory { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&format!("state_dir `{}` cannot be used: ", state_dir.display())), "{text}");
        assert!(text.contains("let `state_dir` name a directory that this user owns"), "{text}");
    }
}

#[tokio::test]
async fn a_second_gateway_is_turned_away_until_the_first_ends() {
    let place = place();
    let first = Store::open(place.path()).await.unwrap();
    let error = Store::open(place.path()).await.unwrap_err();
    assert!(matches!(error, StoreError::InUse { .. }), "{error:?}");
    assert!(error.to_string().contains(&place.path().display().to_string()), "{error}");
    first.close().await;
    drop(first);
    Store::open(place.path()).await.unwrap();
}

#[tokio::test]
async fn the_sealing_key_is_made_once_and_stays() {
    let place = place();
    let store = Store::open(place.path()).await.unwrap();
    let keys = store.seal_keys().await.unwrap();
    assert_eq!(keys.len(), 1);
    assert!(keys[0].current && keys[0].id == 1 && keys[0].key != [0; 32]);
    assert_eq!(store.seal_keys().await.unwrap(), keys);
    store.close().await;
    drop(store);
    let store = Store::open(place.path()).await.unwrap();
    assert_eq!(store.seal_keys().await.unwrap(), keys);
}

#[tokio::test]
async fn an_older_key_stays_beside_a_new_current_one() {
    let place = place();
    let store = Store::open(place.path()).await.unwrap();
    let before = store.seal_keys().await.unwrap();
    sqlx::query("UPDATE seal_keys SET current = 0").execute(&store.pool).await.unwrap();
    let after = store.seal_keys().await.unwrap();
    let ids: Vec<_> = after.iter().map(|key| (key.id, key.current)).collect();
    assert_eq!(ids, [(1, false), (2, true)]);
    assert_eq!(after[0].key, before[0].key);
    assert_ne!(after[1].key, before[0].key);
}

#[tokio::test]
async fn what_probes_found_outlives_a_restart() {
    let place = place();
    let store = Store::open(place.path()).await.unwrap();
    store.remember_eras(&[]).await.unwrap();
    store
        .remember_eras(&found(&[
            ("acme", "files", EraFound::Modern),
            ("acme", "git", EraFound::Legacy),
            ("beta", "files", EraFound::DiesWhenProbed),
        ]))
        .await
        .unwrap();
    store.remember_eras(&found(&[("acme", "files", EraFound::Legacy)])).await.unwrap();
    store.close().await;
    drop(store);
    let store = Store::open(place.path()).await.unwrap();
    let expected = found(&[
        ("acme", "files", EraFound::Legacy),
        ("acme", "git", EraFound::Legacy),
        ("beta", "files", EraFound::DiesWhenProbed),
    ]);
    assert_eq!(store.eras().await.unwrap(), expected);
}

#[tokio::test]
async fn an_era_of_a_later_release_counts_as_unknown() {
    let place = place();
    let store = Store::open(place.path()).await.unwrap();
    sqlx::query("INSERT INTO eras VALUES ('acme', 'files', 'postmodern')")
        .execute(&store.pool)
        .await
        .unwrap();
    assert_eq!(store.eras().await.unwrap(), found(&[]));
}

#[tokio::test]
async fn a_file_that_is_no_database_is_an_error_with_its_name() {
    let place = place();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let file = place.path().join(FILE);
    fs::write(&file, "not a database, and longer than a header would be".repeat(50)).unwrap();
    let error = Store::open(place.path()).await.unwrap_err();
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    assert!(error.to_string().contains(&file.display().to_string()), "{error}");
}

#[test]
fn only_what_is_new_is_handed_out_for_saving_and_once() {
    let eras = Eras::new(found(&[("acme", "files", EraFound::Legacy)]));
    assert_eq!(eras.recall("acme", "files"), Some(EraFound::Legacy));
    assert_eq!(eras.recall("beta", "files"), None);
    eras.remember("acme", "files", EraFound::Legacy);
    assert_eq!(eras.unsaved(), found(&[]));
    eras.remember("acme", "files", EraFound::Modern);
    eras.remember("beta", "files", EraFound::Legacy);
    eras.remember("acme", "files", EraFound::DiesWhenProbed);
    assert_eq!(
        eras.unsaved(),
        found(&[("beta", "files", EraFound::Legacy), ("acme", "files", EraFound::DiesWhenProbed)])
    );
    assert_eq!(eras.unsaved(), found(&[]));
    assert_eq!(eras.recall("acme", "files"), Some(EraFound::DiesWhenProbed));
}
