-- Credentials of our own, and what is not accepted any more. Times are seconds since 1970.

-- API keys. Only a SHA-256 of each is here; the key itself was shown once.
CREATE TABLE api_keys (
    id         TEXT    PRIMARY KEY CHECK (length(id) = 6),
    digest     BLOB    NOT NULL CHECK (length(digest) = 32),
    tenant     TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    principal  TEXT    NOT NULL,
    group_list TEXT    NOT NULL, -- a JSON array, as the two below
    scopes     TEXT    NOT NULL,
    servers    TEXT,             -- none is all
    made       INTEGER NOT NULL,
    expires    INTEGER,
    revoked    INTEGER
) STRICT;

-- Tokens, principals and issuers that are locked out. An empty text stands for what the kind has no use for.
CREATE TABLE revocations (
    kind    TEXT    NOT NULL CHECK (kind IN ('token', 'principal', 'issuer')),
    tenant  TEXT    NOT NULL,
    issuer  TEXT    NOT NULL,
    subject TEXT    NOT NULL,
    made    INTEGER NOT NULL,
    PRIMARY KEY (kind, tenant, issuer, subject)
) STRICT, WITHOUT ROWID;

-- The Ed25519 key that our own tokens are signed with, as its seed.
CREATE TABLE signing_key (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    seed BLOB    NOT NULL CHECK (length(seed) = 32),
    made TEXT    NOT NULL
) STRICT;
