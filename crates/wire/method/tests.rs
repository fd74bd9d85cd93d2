//! Tests: the golden copy of the method table.

use std::fmt::Write as _;

use expect_test::expect;

use super::*;

#[test]
fn the_table_is_as_agreed() {
    let mut table = String::new();
    for method in Method::ALL {
        let Row { name, side, form, names, plan, first, last, capability, .. } = method.row();
        let revisions = format!("{}..{}", first.text(), last.text());
        let capability = capability.map_or("-".into(), |capability| format!("{capability:?}"));
        writeln!(table, "{name:<40} {side:?} {form:?} {names:?} {plan:?} {revisions} {capability}").unwrap();
    }
    expect![[r#"
        initialize                               Client Request Nothing Answer 2024-11-05..2025-11-25 -
        notifications/initialized                Client Notification Nothing Answer 2024-11-05..2025-11-25 -
        ping                                     Both Request Nothing Answer 2024-11-05..2025-11-25 -
        server/discover                          Client Request Nothing Answer 2026-07-28..2026-07-28 -
        tools/list                               Client Request Nothing List(Tools) 2024-11-05..2026-07-28 Tools
        tools/call                               Client Request Tool Forward 2024-11-05..2026-07-28 Tools
        resources/list                           Client Request Nothing List(Resources) 2024-11-05..2026-07-28 Resources
        resources/templates/list                 Client Request Nothing List(Templates) 2024-11-05..2026-07-28 Resources
        resources/read                           Client Request Resource Forward 2024-11-05..2026-07-28 Resources
        resources/subscribe                      Client Request Resource Session 2024-11-05..2025-11-25 ResourcesSubscribe
        resources/unsubscribe                    Client Request Resource Session 2024-11-05..2025-11-25 ResourcesSubscribe
        prompts/list                             Client Request Nothing List(Prompts) 2024-11-05..2026-07-28 Prompts
        prompts/get                              Client Request Prompt Forward 2024-11-05..2026-07-28 Prompts
        completion/complete                      Client Request Reference Forward 2024-11-05..2026-07-28 Completions
        logging/setLevel                         Client Request Nothing Session 2024-11-05..2025-11-25 Logging
        notifications/progress                   Both Notification Token Relay 2024-11-05..2026-07-28 -
        notifications/cancelled                  Both Notification Request Relay 2024-11-05..2026-07-28 -
        notifications/message                    Server Notification Nothing Relay 2024-11-05..2026-07-28 Logging
        notifications/tools/list_changed         Server Notification Nothing Relay 2024-11-05..2026-07-28 Tools
        notifications/resources/list_changed     Server Notification Nothing Relay 2024-11-05..2026-07-28 Resources
        notifications/prompts/list_changed       Server Notification Nothing Relay 2024-11-05..2026-07-28 Prompts
        notifications/resources/updated          Server Notification Resource Relay 2024-11-05..2026-07-28 ResourcesSubscribe
        roots/list                               Server Request Nothing Relay 2024-11-05..2025-11-25 Roots
        notifications/roots/list_changed         Client Notification Nothing Relay 2024-11-05..2025-11-25 Roots
        sampling/createMessage                   Server Request Nothing Relay 2024-11-05..2025-11-25 Sampling
        elicitation/create                       Server Request Nothing Relay 2025-06-18..2025-11-25 Elicitation
        notifications/elicitation/complete       Server Notification Nothing Relay 2025-11-25..2025-11-25 Elicitation
        tasks/get                                Both Request Task Task 2025-11-25..2026-07-28 Tasks
        tasks/result                             Both Request Task Task 2025-11-25..2025-11-25 Tasks
        tasks/list                               Both Request Nothing Answer 2025-11-25..2025-11-25 TasksList
        tasks/cancel                             Both Request Task Task 2025-11-25..2026-07-28 Tasks
        tasks/update                             Client Request Task Task 2026-07-28..2026-07-28 Tasks
        notifications/tasks/status               Both Notification Task Relay 2025-11-25..2025-11-25 Tasks
        notifications/tasks                      Server Notification Task Relay 2026-07-28..2026-07-28 Tasks
        subscriptions/listen                     Client Request Nothing Listen 2026-07-28..2026-07-28 Subscriptions
        notifications/subscriptions/acknowledged Server Notification Nothing Relay 2026-07-28..2026-07-28 Subscriptions
    "#]].assert_eq(&table);
}

#[test]
fn a_method_is_found_by_its_exact_name() {
    for method in Method::ALL {
        assert_eq!((Method::named(method.name()), method.row().method), (Some(*method), *method));
    }
    for name in ["", "tools/call ", "Tools/call", "tools", "rpc.discover", "__proto__"] {
        assert_eq!(Method::named(name), None);
    }
}

#[test]
fn what_a_modern_envelope_may_not_ask_is_known() {
    let modern: Vec<&str> = Method::ALL
        .iter()
        .filter(|method| method.row().side != Side::Server && !method.row().exists_in(Revision::R2026_07_28))
        .map(|method| method.name())
        .collect();
    expect![[r#"
        initialize
        notifications/initialized
        ping
        resources/subscribe
        resources/unsubscribe
        logging/setLevel
        notifications/roots/list_changed
        tasks/result
        tasks/list
        notifications/tasks/status"#]]
    .assert_eq(&modern.join("\n"));
}

#[test]
fn notifications_are_those_whose_name_says_so() {
    for method in Method::ALL {
        let row = method.row();
        assert_eq!(row.form == Form::Notification, row.name.starts_with("notifications/"), "{}", row.name);
        assert!(row.first <= row.last);
    }
}

#[test]
fn a_kind_and_its_list_agree() {
    for kind in Kind::ALL {
        assert_eq!(kind.list_method().row().plan, Plan::List(kind));
        assert_eq!(kind.changed().row().form, Form::Notification);
    }
}
