-- The few things that outlive a restart.

-- Keys for what clients carry for us (AES-256-GCM-SIV). Older keys stay, so that a restart voids nothing.
CREATE TABLE seal_keys (
    id      INTEGER PRIMARY KEY CHECK (id BETWEEN 1 AND 4294967295),
    key     BLOB    NOT NULL CHECK (length(key) = 32),
    current INTEGER NOT NULL CHECK (current IN (0, 1)),
    made    TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX one_current_seal_key ON seal_keys (current) WHERE current = 1;

-- Which era each upstream was found to speak.
CREATE TABLE eras (
    tenant   TEXT NOT NULL,
    upstream TEXT NOT NULL,
    era      TEXT NOT NULL,
    PRIMARY KEY (tenant, upstream)
) STRICT, WITHOUT ROWID;
