//! The few things that outlive a restart: keys, credentials, and what is known about upstreams.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use sqlx::{
    SqlSafeStr as _, SqlitePool,
    migrate::{MigrateError, Migration, MigrationType, Migrator},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use upstream::EraFound;

pub(crate) use crate::seal::SealKey;
pub(crate) use eras::Eras;

mod credentials;
mod directory;
mod eras;

/// The database within `state_dir`.
const FILE: &str = "portcullis.db";

/// How long a statement waits for another process that looks into the database.
const BUSY: Duration = Duration::from_secs(5);

/// How long anyone waits for the connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why the store does not open or does not answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// `state_dir` does not exist and cannot be made, or is no directory of ours.
    #[error(
        "state_dir `{path}` cannot be used: {why}; let `state_dir` name a directory that this user owns, or may create"
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the operating system says.
        #[source]
        why: io::Error,
    },
    /// Another process has it.
    #[error(
        "state_dir `{path}` is in use by another portcullis; stop that one, or give this one its own `state_dir`"
    )]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The database is there and cannot be opened or brought up to date.
    #[error("the store `{path}` cannot be opened: {why}")]
    Open {
        /// The database file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        why: MigrateError,
    },
    /// A statement failed.
    #[error("the store failed: {0}")]
    Query(#[from] sqlx::Error),
    /// No randomness for a new key.
    #[error("no sealing key could be made: the random generator of the operating system failed")]
    Random,
    /// A key in the database is none of ours.
    #[error(
        "a sealing key in the store is damaged; restore `{FILE}` from a backup, or remove it to begin anew"
    )]
    DamagedKey,
    /// A credential or a revocation in the database is none of ours.
    #[error("a credential in the store is damaged; restore `{FILE}` from a backup")]
    DamagedRow,
}

/// The store of one gateway. No other process opens the same `state_dir` while this exists.
#[derive(Debug)]
pub(crate) struct Store {
    pool: SqlitePool,
    /// Held, never read: the lock goes with the file.
    _lock: File,
}

impl Store {
    /// Opens or makes the store within `state_dir`, and brings it up to date.
    pub(crate) async fn open(state_dir: &Path) -> Result<Store, StoreError> {
        let in_directory = |why| StoreError::Directory { path: state_dir.to_owned(), why };
        directory::prepare(state_dir).map_err(in_directory)?;
        let lock = directory::lock(state_dir).map_err(in_directory)?;
        let lock = lock.ok_or_else(|| StoreError::InUse { path: state_dir.to_owned() })?;
        let path = state_dir.join(FILE);
        // SQLite gives its journal files the mode of the database, so that one must exist before it is opened.
        directory::private_file(&path).map_err(in_directory)?;

        let options = SqliteConnectOptions::new()
            .filename(&path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY)
            .foreign_keys(true);
        // One connection: SQLite has one writer, and nothing here is read on the path of a message.
        let pool =
            SqlitePoolOptions::new().max_connections(1).acquire_timeout(PATIENCE).connect_with(options);
        let in_database = |why| StoreError::Open { path: path.clone(), why };
        let pool = pool.await.map_err(|why| in_database(why.into()))?;
        migrations().run(&pool).await.map_err(in_database)?;
        Ok(Store { pool, _lock: lock })
    }

    /// All sealing keys, the current one among them; makes the first.
    pub(crate) async fn seal_keys(&self) -> Result<Vec<SealKey>, StoreError> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|_| StoreError::Random)?;
        sqlx::query(
            "INSERT INTO seal_keys (id, key, current, made)
             SELECT 1 + coalesce((SELECT max(id) FROM seal_keys), 0), $1, 1, datetime('now')
             WHERE NOT EXISTS (SELECT 1 FROM seal_keys WHERE current = 1)",
        )
        .bind(key.as_slice())
        .execute(&self.pool)
        .await?;

        let rows: Vec<(u32, Vec<u8>, bool)> =
            sqlx::query_as("SELECT id, key, current FROM seal_keys ORDER BY id")
                .fetch_all(&self.pool)
                .await?;
        rows.into_iter()
            .map(|(id, key, current)| {
                let key = key.try_into().map_err(|_| StoreError::DamagedKey)?;
                Ok(SealKey { id, key, current })
            })
            .collect()
    }

    /// What probes of upstreams found, as (tenant, upstream, era).
    pub(crate) async fn eras(&self) -> Result<Vec<(String, String, EraFound)>, StoreError> {
        let rows: Vec<(String, String, String)> =
            sqlx::query_as("SELECT tenant, upstream, era FROM eras ORDER BY tenant, upstream")
                .fetch_all(&self.pool)
                .await?;
        let known = rows.into_iter().filter_map(|(tenant, upstream, word)| {
            // A word of a later release is as good as none: the upstream is probed again.
            Some((tenant, upstream, eras::from_word(&word)?))
        });
        Ok(known.collect())
    }

    /// Keeps what probes found: all of it, or nothing.
    pub(crate) async fn remember_eras(&self, found: &[(String, String, EraFound)]) -> Result<(), StoreError> {
        if found.is_empty() {
            return Ok(());
        }
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await?;
        for (tenant, upstream, era) in found {
            sqlx::query(
                "INSERT INTO eras (tenant, upstream, era) VALUES ($1, $2, $3)
                 ON CONFLICT (tenant, upstream) DO UPDATE SET era = excluded.era",
            )
            .bind(tenant)
            .bind(upstream)
            .bind(eras::word(*era))
            .execute(&mut *transaction)
            .await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Finishes what runs and closes the database; later calls fail.
    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }
}

/// The schema's history. A released file is never edited: its checksum is in every database.
fn migrations() -> Migrator {
    let migration = |version, name: &'static str, sql: &'static str| {
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(vec![
        migration(1, "first", include_str!("migrations/0001_first.sql")),
        migration(2, "identity", include_str!("migrations/0002_identity.sql")),
    ])
}

#[cfg(test)]
mod tests;
