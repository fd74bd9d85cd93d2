//! Tests of the metric list.

use std::time::Duration;

use super::{ALL, Metrics, Name, raise};

#[test]
fn every_metric_in_the_list_is_rendered_under_its_name() {
    let metrics = Metrics::new().unwrap();
    metrics.message("acme", None, ("allow", "ok"), Duration::from_millis(3));
    metrics.limited("acme", "limit:daily");
    metrics.upstream_up("acme", "files", true);
    metrics.upstream_restarted("acme", "files", 1);
    metrics.log_message_dropped("acme");
    let text = metrics.render();
    for Name(name, help) in ALL {
        assert!(text.contains(&format!("# HELP {name} {help}\n")), "{name} is missing in:\n{text}");
    }
    assert_eq!(text.matches("# TYPE").count(), ALL.len(), "rendered but not in the list:\n{text}");
}

#[test]
fn a_method_of_no_table_is_counted_as_other() {
    let metrics = Metrics::new().unwrap();
    metrics.message("acme", None, ("deny", "error"), Duration::ZERO);
    metrics.message("acme", wire::Method::named("tools/call"), ("allow", "ok"), Duration::ZERO);
    let text = metrics.render();
    for line in [
        r#"portcullis_messages_total{decision="deny",method="other",outcome="error",tenant="acme"} 1"#,
        r#"portcullis_messages_total{decision="allow",method="tools/call",outcome="ok",tenant="acme"} 1"#,
        r#"portcullis_message_duration_seconds_count{method="tools/call",tenant="acme"} 1"#,
    ] {
        assert!(text.contains(line), "{line} is missing in:\n{text}");
    }
}

#[test]
fn totals_counted_elsewhere_never_fall() {
    let counter = prometheus::IntCounter::new("x", "x").unwrap();
    let seen = [3, 7, 5].map(|total| {
        raise(&counter, total);
        counter.get()
    });
    assert_eq!(seen, [3, 7, 7]);
}

#[test]
fn the_process_is_measured() {
    let text = Metrics::new().unwrap().render();
    let value = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    };
    assert!(value("process_resident_memory_bytes ") > 1e5, "{text}");
    assert!(value("process_open_fds ") >= 3.0, "{text}");
    assert!(value("process_start_time_seconds ") > 1.7e9, "{text}");
}
