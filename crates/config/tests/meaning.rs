//! What a written configuration means.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Memory;
use crate::{AuditSink, Durability, Filter, Loaded, Pattern, Share, Tenant, Transport, Trust};

fn tenant(text: &str) -> Tenant {
    loaded(text).config.tenants.remove(0)
}

fn loaded(text: &str) -> Loaded {
    Memory::of(&[("portcullis.yaml", "keepalive: 15s\n"), ("tenants/a.yaml", text)]).loaded()
}

fn tools(filter: &str) -> Filter {
    let text = format!("tenant: a\nupstreams: {{ x: {{ command: npx, tools: {filter} }} }}\n");
    tenant(&text).upstreams.remove(0).tools
}

/// The model is shared by threads.
const _: fn() = || {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Loaded>();
    shared::<crate::Problem>();
};

#[test]
fn what_is_not_written_has_its_default() {
    let config = loaded("tenant: a\nupstreams: { x: { command: npx } }\n").config;
    assert_eq!(config.listen.to_string(), "127.0.0.1:7420");
    assert_eq!(config.admin.to_string(), "127.0.0.1:7421");
    assert_eq!(config.state_dir, Path::new("state"));
    assert_eq!(config.session.idle, Duration::from_secs(1800));
    assert_eq!(config.limits.result, 16 << 20);
    assert_eq!(config.audit.sinks, [AuditSink::File(PathBuf::from("state/audit"))]);
    assert_eq!(config.audit.durability, Durability::Os);
    assert_eq!((config.list_timeout, config.drain), (Duration::from_secs(2), Duration::from_secs(10)));
    let tenant = &config.tenants[0];
    assert_eq!((&*tenant.name, tenant.processes), ("a", 64));
    let upstream = &tenant.upstreams[0];
    assert_eq!((upstream.share, upstream.trust), (Share::Principal, Trust::Standard));
    assert_eq!((upstream.timeouts.call_max, upstream.max_tools), (Duration::from_secs(600), 2000));
    assert!(upstream.tools.is_open());
}

#[test]
fn relative_paths_begin_at_their_file() {
    let tenant = "tenant: a\nupstreams: { x: { command: npx, dir: ../servers/ } }\n";
    let main = "state_dir: ../state\naudit: { sinks: [stdout, { file: /var/log/audit/ }] }\n";
    let files = Memory::of(&[("etc/main.yaml", main), ("etc/tenants/a.yaml", tenant)]);
    let config = crate::load(Path::new("etc/main.yaml"), &files).unwrap().config;
    assert_eq!(config.state_dir, Path::new("etc/../state"));
    assert_eq!(config.audit.sinks, [AuditSink::Stdout, AuditSink::File(PathBuf::from("/var/log/audit"))]);
    let Transport::Stdio { program, dir, .. } = &config.tenants[0].upstreams[0].transport else {
        panic!("a program")
    };
    assert_eq!(program, Path::new("/usr/bin/npx"));
    assert_eq!(dir.as_deref(), Some(Path::new("etc/tenants/../servers")));
}

#[test]
fn the_only_tenant_file_is_found_without_a_key() {
    let loaded = Memory::of(&[("portcullis.yaml", "keepalive: 15s\n")]).loaded();
    assert_eq!(&*loaded.config.tenants[0].name, "default");
    assert_eq!(&*loaded.config.tenants[0].virtual_servers[0].name, "default");
    assert!(loaded.warnings[0].message.contains("no tenant file"));
}

#[test]
fn the_default_virtual_server_is_always_there() {
    let upstreams = "tenant: a\nupstreams: { x: { command: npx }, y: { command: uvx } }\n";
    let all = tenant(upstreams);
    assert_eq!(&*all.virtual_servers[0].name, "default");
    assert_eq!(all.virtual_servers[0].upstreams.iter().map(|id| &**id).collect::<Vec<_>>(), ["x", "y"]);

    let written = tenant(&format!(
        "{upstreams}virtual_servers: {{ b: {{ upstreams: [y] }}, default: {{ upstreams: [x] }} }}"
    ));
    let names: Vec<&str> = written.virtual_servers.iter().map(|server| &*server.name).collect();
    assert_eq!(names, ["b", "default"]);
    assert_eq!(&*written.virtual_servers[1].upstreams[0], "x");
}

#[test]
fn tiers_may_mix_when_the_operator_says_so() {
    let text = "tenant: a
upstreams: { x: { command: npx, trust: trusted }, y: { command: npx, trust: untrusted } }
virtual_servers: { default: { upstreams: [x, y], mixed_trust: true } }
";
    assert!(tenant(text).virtual_servers[0].mixed_trust);
}

#[test]
fn patterns_match_the_whole_native_name() {
    // bug B25
    let filter = tools(r#"{ includeRegex: ["get_.*"] }"#);
    let names = ["get_a", "forget_get_b", "get/c", "GET_d"];
    assert_eq!(names.map(|name| filter.admits(name)), [true, false, false, false]);

    let filter = tools(r#"{ includeRegex: ["a|ab", "(?x) long # comment"] }"#);
    assert_eq!(
        ["a", "ab", "abc", "long", "longer"].map(|name| filter.admits(name)),
        [true, true, false, true, false]
    );
}

#[test]
fn a_star_crosses_slashes_and_nothing_else_is_special() {
    // bug B25
    let filter = tools(r#"{ include: ["fs*x", "file:///{path}", "a.b", "?"] }"#);
    let admitted = ["fsx", "fs/a/b/x", "fs\nx", "file:///{path}", "a.b", "é"];
    assert!(admitted.iter().all(|name| filter.admits(name)));
    assert!(!["afsx", "fsxa", "file:///etc", "aXb", "ab", ""].iter().any(|name| filter.admits(name)));
}

#[test]
fn deny_wins() {
    let filter = tools(r#"{ include: ["*"], exclude: [get_secret], excludeRegex: ["rm_.+"] }"#);
    assert_eq!(
        ["get_a", "get_secret", "rm_x", "rm_"].map(|name| filter.admits(name)),
        [true, false, false, true]
    );
    let filter = tools(r#"{ exclude: [get_secret] }"#);
    assert!(filter.admits("anything") && !filter.admits("get_secret") && !filter.is_open());
    let patterns: Vec<(&str, usize)> =
        filter.patterns().map(|pattern| (pattern.text.as_str(), pattern.line)).collect();
    assert_eq!(patterns, [("get_secret", 2)]);
}

#[test]
fn a_pattern_has_bounds() {
    assert!(Pattern::glob(&"a".repeat(4096)).is_ok());
    assert!(Pattern::glob(&"a".repeat(4097)).is_err());
    assert!(Pattern::regex(&"a".repeat(4097)).is_err());
    assert!(Pattern::regex(&"(".repeat(2000)).is_err());
    // A linear engine answers this at once.
    let pattern = Pattern::regex("(a+)+b").unwrap();
    assert!(!pattern.matches(&"a".repeat(10_000)));
}

#[test]
fn aliases_and_merged_mappings_are_read() {
    let text = "tenant: a
upstreams:
  x: &x { command: npx, args: [one], timeouts: &t { call: 5s } }
  y: { <<: *x, args: [two] }
  z: { command: uvx, timeouts: *t }
";
    let tenant = tenant(text);
    let Transport::Stdio { program, args, .. } = &tenant.upstreams[1].transport else { panic!("a program") };
    assert_eq!(
        (program.as_path(), args.as_slice()),
        (Path::new("/usr/bin/npx"), ["two".to_owned()].as_slice())
    );
    assert_eq!(tenant.upstreams[2].timeouts.call, Duration::from_secs(5));
}

#[test]
fn hosts_and_origins_are_normalised() {
    let main = "allowed_hosts: [MCP.acme.example, \"[::1]:8080\"]
allowed_origins: [\"HTTPS://Chat.acme.example:443\", \"chrome-extension://AbC\"]
trusted_proxies: []
";
    let tenant = "tenant: a\nupstreams: { x: { command: npx } }\n";
    let config = Memory::of(&[("portcullis.yaml", main), ("tenants/a.yaml", tenant)]).loaded().config;
    assert_eq!(config.allowed_hosts, ["mcp.acme.example", "[::1]:8080"]);
    assert_eq!(config.allowed_origins, ["https://chat.acme.example", "chrome-extension://abc"]);
}

#[test]
fn warnings_do_not_stop_the_start() {
    let text = r#"tenant: a
upstreams:
  gamma: { command: npx, tools: { include: [gamma__q] } }
  shell: { command: /usr/bin/env, args: [sh, -lc, "npx -y x"] }
  token: { command: npx, args: ["--token=${secret:TOKEN}"] }
"#;
    let text = text.replace("/usr/bin/env", "env");
    let told: Vec<(usize, String)> =
        loaded(&text).warnings.into_iter().map(|warning| (warning.line, warning.message)).collect();
    let expected = [
        (1, "has no `policies`"),
        (3, "`gamma__q` is an exposed name"),
        (4, "a shell runs this upstream"), // spec P-10
        (5, "a secret in `args`"),
    ];
    assert_eq!(told.len(), expected.len(), "{told:?}");
    for ((line, message), (expected_line, part)) in told.iter().zip(expected) {
        assert!(*line == expected_line && message.contains(part), "{line}: {message}");
    }
}

#[test]
fn what_mcp_gives_up_is_carried_with_a_warning() {
    let upstreams = "upstreams: { x: { command: npx } }";
    let told = |allow: &str| {
        let warnings = loaded(&format!("tenant: a\n{upstreams}\n{allow}\n")).warnings.into_iter();
        let told = warnings.filter(|warning| warning.message.contains("deprecates"));
        told.map(|warning| (warning.line, warning.column, warning.message)).collect::<Vec<_>>()
    };
    let warnings = told("allow: [sampling, roots]");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].2.contains("sampling") && warnings[1].2.contains("roots"), "{warnings:?}");
    assert_eq!(
        warnings.iter().map(|(line, column, _)| (*line, *column)).collect::<Vec<_>>(),
        [(3, 9), (3, 19)]
    );
    assert!(told("allow: []").is_empty() && told("").is_empty());
}

#[test]
fn the_oldest_transport_is_off_and_who_turns_it_on_is_told_that_it_is_deprecated() {
    let told = |main: &str| {
        let tenant = "tenant: a\nupstreams: { x: { command: npx } }\n";
        let loaded = Memory::of(&[("portcullis.yaml", main), ("tenants/a.yaml", tenant)]).loaded();
        let deprecated = loaded.warnings.iter().filter(|warning| warning.message.contains("deprecated"));
        (loaded.config.legacy_sse, deprecated.map(|warning| warning.line).collect::<Vec<_>>())
    };
    assert_eq!(told("keepalive: 15s\n"), (false, vec![]));
    assert_eq!(told("legacy_sse: false\n"), (false, vec![]));
    assert_eq!(told("keepalive: 15s\nlegacy_sse: true\n"), (true, vec![2]));
}

#[test]
fn a_program_called_with_a_flag_is_no_shell() {
    let text = "tenant: a\nupstreams: { x: { command: npx, args: [\"-c\", x] }, y: { command: sh, args: [run.sh] } }\n";
    assert!(!loaded(text).warnings.iter().any(|warning| warning.message.contains("shell")));
}

#[test]
fn a_limit_without_a_name_is_called_by_what_it_says() {
    let limits = "limits: [{ per: principal, method: tools/call, rate: 60/min }, { per: tenant, rate: 5/s }, \
                  { per: tenant, rate: 1000/h, burst: 7 }, { name: mine, per: upstream, upstream: x, bytes_in: 1MiB/h }]";
    let text = format!("tenant: a\nupstreams: {{ x: {{ command: npx }} }}\n{limits}\n");
    let rules = tenant(&text).limits.rules;
    let names: Vec<&str> = rules.iter().map(|rule| &*rule.name).collect();
    assert_eq!(names, ["principal:tools/call:rate", "tenant:rate", "tenant:rate:2", "mine"]);
    let bursts: Vec<Option<u64>> = rules.iter().map(|rule| rule.rate.map(|rate| rate.burst)).collect();
    assert_eq!(bursts, [Some(6), Some(1), Some(7), None]);
    assert_eq!(rules[3].bytes_in.unwrap().count, 1 << 20);
    let off =
        tenant("tenant: a\nupstreams: { x: { command: npx } }\nrunaway: off\ntaint: { for: 2h }\n").limits;
    assert!(off.runaway.is_none() && off.taint == Duration::from_secs(7200));
}
