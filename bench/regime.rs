//! What a gateway has to apply to each call: the rules of a policy, and limits.

use std::fmt::Write as _;

/// Rules and limits of a gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Regime {
    /// Rules of its policy; with 0 it has no policy.
    pub(crate) rules: usize,
    /// Whether rates, bytes, places and a budget are counted.
    pub(crate) limits: bool,
}

/// The rules that can be about the called tool, in every policy: one lets it pass, one computes with its arguments.
const ABOUT_IT: [&str; 5] = [
    "{ name: developers, principals: { groups: [dev] }, tools: [\"echo__*\"], effect: allow }",
    "{ name: no-passwords, tools: [echo__echo], when: 'args.text.contains(\"password\")', effect: deny }",
    "{ name: no-contractors, principals: { groups: [contractors] }, effect: deny }",
    "{ name: only-echo, upstreams: [\"echo*\"], principals: { issuers: [\"https://other.example\"] }, effect: deny }",
    "{ name: nothing-big, principals: { groups: [guests] }, tools: [\"echo__*\"], effect: approve }",
];

/// Limits that count every call and are never reached.
const LIMITS: &str = "\
limits:
  - { per: principal, method: tools/call, rate: 1000000000/min, burst: 1000000 }
  - { per: tenant, rate: 1000000000/min, burst: 1000000 }
  - { per: principal, upstream: echo, tool: \"echo__*\", rate: 1000000000/min, burst: 1000000 }
  - { per: principal, upstream: echo, tool: \"echo__tool_*\", rate: 5/min, burst: 2 }
  - { per: principal, method: tools/call, concurrent: 256 }
  - { per: tenant, bytes_in: 1000GiB/h, bytes_out: 1000GiB/h }
  - { per: principal, method: tools/call, budget: 1000000000/day }
";

impl Regime {
    /// The file of its rules, if it has any.
    pub(crate) fn policy(self) -> Option<String> {
        if self.rules == 0 {
            return None;
        }
        let others = (ABOUT_IT.len()..self.rules).map(other);
        let rules = ABOUT_IT.iter().map(|rule| (*rule).to_owned()).chain(others).take(self.rules);
        let mut file = "default: deny\nrules:\n".to_owned();
        for rule in rules {
            // Writing to a `String` cannot fail.
            let _ = writeln!(file, "  - {rule}");
        }
        Some(file)
    }

    /// What the tenant's file says of it; the rules lie in the file `policy`.
    pub(crate) fn of_tenant(self, policy: &str) -> String {
        let rules = if self.rules == 0 { String::new() } else { format!("policies: [{policy}]\n") };
        rules + if self.limits { LIMITS } else { "" }
    }
}

/// A rule as a team writes them, by name, by the beginning of a name, for a group or on a condition. It is about a tool
/// that the server does not have, so that lists stay whole.
fn other(number: usize) -> String {
    let what = match number % 4 {
        0 => format!("tools: [echo__other_{number:04}]"),
        1 => format!("tools: [\"echo__other_{number:04}_*\"]"),
        2 => format!("principals: {{ groups: [team-{number}] }}, tools: [echo__other_{number:04}]"),
        _ => format!("tools: [echo__other_{number:04}], when: 'args.text.size() > {number}'"),
    };
    format!("{{ name: rule-{number}, {what}, effect: deny }}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_has_as_many_rules_as_it_should() {
        for rules in [1, 10, 1000] {
            let file = Regime { rules, limits: false }.policy().unwrap();
            assert_eq!(file.matches("\n  - { name: ").count(), rules);
        }
        assert_eq!(Regime::default().policy(), None);
        assert_eq!(Regime::default().of_tenant("p.yaml"), "");
    }
}
