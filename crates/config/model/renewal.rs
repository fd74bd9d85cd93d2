//! What of a new configuration can hold while the process runs.

use super::Config;

impl Config {
    /// The keys of the main file that are others in `fresh` and hold from the next start on only: what listens, and what
    /// was opened, stays as it is while the process runs.
    pub fn needs_restart(&self, fresh: &Config) -> Vec<&'static str> {
        let Config {
            listen,
            public_url,
            tls,
            http2,
            legacy_sse,
            trusted_proxies,
            admin,
            allowed_hosts,
            allowed_origins,
            state_dir,
            session,
            keepalive,
            names_max: _,
            limits,
            audit,
            list_timeout: _,
            drain: _,
            tenants: _,
            shared_issuers: _,
        } = self;
        let others = [
            ("listen", *listen != fresh.listen),
            ("public_url", *public_url != fresh.public_url),
            ("tls", *tls != fresh.tls),
            ("http2", *http2 != fresh.http2),
            ("legacy_sse", *legacy_sse != fresh.legacy_sse),
            ("trusted_proxies", *trusted_proxies != fresh.trusted_proxies),
            ("admin.listen", *admin != fresh.admin),
            ("allowed_hosts", *allowed_hosts != fresh.allowed_hosts),
            ("allowed_origins", *allowed_origins != fresh.allowed_origins),
            ("state_dir", *state_dir != fresh.state_dir),
            ("session", *session != fresh.session),
            ("keepalive", *keepalive != fresh.keepalive),
            ("limits", *limits != fresh.limits),
            ("audit", *audit != fresh.audit),
        ];
        others.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }

    /// This configuration with all of `fresh` that can hold at once: the tenants, and what is asked anew each time.
    pub fn taking(&self, fresh: Config) -> Config {
        let Config { names_max, list_timeout, drain, tenants, shared_issuers, .. } = fresh;
        Config { names_max, list_timeout, drain, tenants, shared_issuers, ..self.clone() }
    }
}
