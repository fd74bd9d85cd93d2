//! Rules and limits of a tenant, as many as a row asks for.

use std::fmt::Write as _;

use crate::rows::Controls;

/// What the tenant's file says of them. Every row turns off what holds up agents that repeat themselves: the load does.
pub(crate) fn tenant(controls: Controls) -> String {
    let policies = if policy(controls).is_some() { "policies: [policy.yaml]\n" } else { "" };
    let limits = match controls {
        Controls::Open | Controls::Rules(_) => "",
        // None of them is ever reached.
        Controls::Limits(_) => LIMITS,
    };
    format!("runaway: off\n{policies}{limits}")
}

const LIMITS: &str = "limits:\n\
    \x20 - { per: principal, method: tools/call, rate: 1000000/s, burst: 1000000 }\n\
    \x20 - { per: tenant, rate: 1000000/s, burst: 1000000 }\n\
    \x20 - { per: upstream, method: calls, rate: 1000000/s, burst: 1000000 }\n\
    \x20 - { per: principal, upstream: echo, tool: \"echo__*\", rate: 1000000/s, burst: 1000000 }\n\
    \x20 - { per: principal, tool: \"echo__other_*\", rate: 1/s }\n\
    \x20 - { per: principal, concurrent: 4096 }\n\
    \x20 - { per: tenant, bytes_in: 1024GiB/h, bytes_out: 1024GiB/h }\n\
    \x20 - { per: principal, method: tools/call, budget: 1000000000/day }\n\
    \x20 - { per: principal, sessions: 65536, streams: 65536 }\n";

/// The file of rules: one allows everything, the others speak of tools, groups and arguments that never come.
pub(crate) fn policy(controls: Controls) -> Option<String> {
    let (Controls::Rules(rules) | Controls::Limits(rules)) = controls else { return None };
    let mut text = "rules:\n  - { name: all, effect: allow }\n".to_owned();
    for number in 1..rules {
        let about = match number % 4 {
            0 => format!("tools: [\"echo__other_{number}_*\"]"),
            1 => format!("tools: [echo__other_{number}], when: args.n == {number}"),
            2 => format!("tools: [echo__other_{number}], principals: {{ groups: [group-{number}] }}"),
            _ => format!("resources: [\"file:///other/{number}/*\"]"),
        };
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "  - {{ name: rule-{number}, effect: deny, {about} }}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_rules_as_asked_for() {
        assert_eq!(policy(Controls::Open), None);
        for controls in [Controls::Rules(1000), Controls::Limits(1000)] {
            assert_eq!(policy(controls).unwrap().matches("name:").count(), 1000);
        }
        assert!(
            tenant(Controls::Limits(50)).contains("limits:")
                && !tenant(Controls::Rules(50)).contains("limits:")
        );
    }
}
