"""Addresses, commands and expressions that a configuration, or somebody it names, leads the gateway to."""

import part_commands
import part_expressions
import part_addresses


def run(items, report):
    kinds = {"S": part_addresses.run, "C": part_commands.run, "R": part_expressions.run, "A": approvals}
    for kind, runner in kinds.items():
        some = [item for item in items if item["id"].split("-")[0] == kind]
        if some:
            runner(some, report)


def approvals(items, report):
    for item in items:
        report.skip(item, "needs approvals: no person is asked yet")
