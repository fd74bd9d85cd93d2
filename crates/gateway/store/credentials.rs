//! API keys, revocations and the signing key, as rows.

use sqlx::{Row as _, sqlite::SqliteRow};

use super::{Store, StoreError};
use crate::tokens::{ApiKey, Revocation};

impl Store {
    /// All API keys and the hash of each, in the order they were made.
    pub(crate) async fn api_keys(&self) -> Result<Vec<(ApiKey, [u8; 32])>, StoreError> {
        let rows = sqlx::query("SELECT * FROM api_keys ORDER BY made, rowid").fetch_all(&self.pool).await?;
        rows.iter().map(api_key).collect()
    }

    /// Adds a key; false when its id is taken.
    pub(crate) async fn add_api_key(&self, key: &ApiKey, digest: &[u8; 32]) -> Result<bool, StoreError> {
        let list = |texts: &[String]| serde_json::Value::from(texts).to_string();
        let done = sqlx::query(
            "INSERT INTO api_keys
                 (id, digest, tenant, name, principal, group_list, scopes, servers, made, expires, revoked)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, NULL) ON CONFLICT (id) DO NOTHING",
        )
        .bind(&key.id)
        .bind(digest.as_slice())
        .bind(&key.tenant)
        .bind(&key.name)
        .bind(&key.principal)
        .bind(list(&key.groups))
        .bind(list(&key.scopes))
        .bind(key.servers.as_deref().map(list))
        .bind(signed(key.made))
        .bind(key.expires.map(signed))
        .execute(&self.pool)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Keeps a revocation, the first time of it; false for a key that does not exist.
    pub(crate) async fn revoke(&self, revocation: &Revocation, now: u64) -> Result<bool, StoreError> {
        let Some([kind, tenant, issuer, subject]) = columns(revocation) else {
            let Revocation::Key { id } = revocation else { return Ok(false) };
            let done = sqlx::query("UPDATE api_keys SET revoked = coalesce(revoked, $2) WHERE id = $1")
                .bind(id)
                .bind(signed(now))
                .execute(&self.pool)
                .await?;
            return Ok(done.rows_affected() == 1);
        };
        sqlx::query("INSERT INTO revocations VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING")
            .bind(kind)
            .bind(tenant)
            .bind(issuer)
            .bind(subject)
            .bind(signed(now))
            .execute(&self.pool)
            .await?;
        Ok(true)
    }

    /// Forgets a revocation; false when there is none.
    pub(crate) async fn lift(&self, revocation: &Revocation) -> Result<bool, StoreError> {
        let Some([kind, tenant, issuer, subject]) = columns(revocation) else { return Ok(false) };
        let done = sqlx::query(
            "DELETE FROM revocations WHERE kind = $1 AND tenant = $2 AND issuer = $3 AND subject = $4",
        )
        .bind(kind)
        .bind(tenant)
        .bind(issuer)
        .bind(subject)
        .execute(&self.pool)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// All revocations but those of keys, and when each was made.
    pub(crate) async fn revocations(&self) -> Result<Vec<(Revocation, u64)>, StoreError> {
        let rows: Vec<(String, String, String, String, i64)> = sqlx::query_as(
            "SELECT kind, tenant, issuer, subject, made FROM revocations
             ORDER BY made, kind, tenant, issuer, subject",
        )
        .fetch_all(&self.pool)
        .await?;
        rows.into_iter()
            .map(|(kind, tenant, issuer, subject, made)| {
                let revocation = match kind.as_str() {
                    "token" => Revocation::Token { credential: subject },
                    "issuer" => Revocation::Issuer { issuer },
                    "principal" => Revocation::Principal {
                        tenant,
                        principal: subject,
                        issuer: Some(issuer).filter(|issuer| !issuer.is_empty()),
                    },
                    _ => return Err(StoreError::DamagedRow),
                };
                Ok((revocation, unsigned(made)))
            })
            .collect()
    }

    /// The seed of the signing key, when there is one.
    pub(crate) async fn signing_key(&self) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(sqlx::query_scalar("SELECT seed FROM signing_key").fetch_optional(&self.pool).await?)
    }

    /// Keeps this seed if there is none yet; gives the one that is kept.
    pub(crate) async fn first_signing_key(&self, seed: &[u8; 32]) -> Result<Vec<u8>, StoreError> {
        sqlx::query("INSERT INTO signing_key VALUES (1, $1, datetime('now')) ON CONFLICT DO NOTHING")
            .bind(seed.as_slice())
            .execute(&self.pool)
            .await?;
        self.signing_key().await?.ok_or(StoreError::DamagedRow)
    }
}

/// A row that cannot be read is an error, not a key less: it may be one somebody counts on being revoked.
fn api_key(row: &SqliteRow) -> Result<(ApiKey, [u8; 32]), StoreError> {
    let list = |text: &str| serde_json::from_str(text).map_err(|_| StoreError::DamagedRow);
    let servers: Option<String> = row.try_get("servers")?;
    let digest: Vec<u8> = row.try_get("digest")?;
    let key = ApiKey {
        id: row.try_get("id")?,
        tenant: row.try_get("tenant")?,
        name: row.try_get("name")?,
        principal: row.try_get("principal")?,
        groups: list(row.try_get("group_list")?)?,
        scopes: list(row.try_get("scopes")?)?,
        servers: servers.as_deref().map(list).transpose()?,
        made: unsigned(row.try_get("made")?),
        expires: row.try_get::<Option<i64>, _>("expires")?.map(unsigned),
        revoked: row.try_get::<Option<i64>, _>("revoked")?.map(unsigned),
    };
    Ok((key, digest.try_into().map_err(|_| StoreError::DamagedRow)?))
}

/// Kind, tenant, issuer and subject; none for a key, which has its own table.
fn columns(revocation: &Revocation) -> Option<[&str; 4]> {
    match revocation {
        Revocation::Key { .. } => None,
        Revocation::Token { credential } => Some(["token", "", "", credential]),
        Revocation::Issuer { issuer } => Some(["issuer", "", issuer, ""]),
        Revocation::Principal { tenant, principal, issuer } => {
            Some(["principal", tenant, issuer.as_deref().unwrap_or_default(), principal])
        }
    }
}

fn signed(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// A time before 1970 is long past.
fn unsigned(seconds: i64) -> u64 {
    u64::try_from(seconds).unwrap_or_default()
}
