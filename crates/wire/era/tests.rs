//! Tests: the table of revisions.

use std::fmt::Write as _;

use expect_test::expect;

use super::*;

type Predicate = fn(Revision) -> bool;

#[test]
fn each_revision_has_what_the_sheet_says() {
    let has: [(&str, Predicate); 16] = [
        ("handshake", Revision::has_handshake),
        ("sessions", Revision::has_sessions),
        ("batches", Revision::has_batches),
        ("audio", Revision::has_audio),
        ("progress message", Revision::has_progress_message),
        ("completions capability", Revision::has_completions_capability),
        ("structured content", Revision::has_structured_content),
        ("any structured content", Revision::has_any_structured_content),
        ("resource links", Revision::has_resource_links),
        ("completion context", Revision::has_completion_context),
        ("version header", Revision::has_version_header),
        ("elicitation", Revision::has_elicitation),
        ("icons", Revision::has_icons),
        ("core tasks", Revision::has_core_tasks),
        ("stream priming", Revision::has_stream_priming),
        ("result type", Revision::has_result_type),
    ];
    let mut table = String::new();
    for (name, has) in has {
        let row: Vec<&str> =
            Revision::ALL.into_iter().map(|revision| if has(revision) { "yes" } else { "-" }).collect();
        writeln!(table, "{name:<23} {}", row.join("\t")).unwrap();
    }
    expect![[r#"
        handshake               yes	yes	yes	yes	-
        sessions                -	yes	yes	yes	-
        batches                 -	yes	-	-	-
        audio                   -	yes	yes	yes	yes
        progress message        -	yes	yes	yes	yes
        completions capability  -	yes	yes	yes	yes
        structured content      -	-	yes	yes	yes
        any structured content  -	-	-	-	yes
        resource links          -	-	yes	yes	yes
        completion context      -	-	yes	yes	yes
        version header          -	-	yes	yes	yes
        elicitation             -	-	yes	yes	yes
        icons                   -	-	-	yes	yes
        core tasks              -	-	-	yes	-
        stream priming          -	-	-	yes	-
        result type             -	-	-	-	yes
    "#]]
    .assert_eq(&table);
}

#[test]
fn a_revision_is_read_as_it_is_written() {
    for revision in Revision::ALL {
        assert_eq!(Revision::parse(revision.text()), Some(revision));
        assert_eq!(Revision::LEGACY.contains(&revision), revision.era() == Era::Legacy);
    }
    assert!(Revision::ALL.is_sorted() && Revision::LEGACY.last() == Some(&Revision::LATEST_LEGACY));
    for text in ["", "2025-11-25 ", "1999-01-01", "2025-11-2", "v999", "DRAFT-2026-v1"] {
        assert_eq!(Revision::parse(text), None);
    }
}
