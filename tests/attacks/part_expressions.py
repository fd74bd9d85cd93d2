"""Regular expressions in filters: which are loaded, what they match, and what that costs."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import client
from daemon import Daemon, binary, literal

FAULTY = 78
LOAD_S, LOAD_MIB, MATCH_S = 2, 256, 0.5
SERVER = Path(__file__).resolve().parent / "listing.py"


def run(items, report):
    for item in items:
        with tempfile.TemporaryDirectory(prefix="portcullis-attacks-") as folder:
            report(item, [fault for fault in judged(item, Path(folder)) if fault])


def judged(item, folder):
    pattern, identity = item["pattern"], item["id"]
    checked = Checked(folder, pattern)
    yield checked.cost()
    if item["class"] in ("size", "feature") or identity in REFUSED:
        yield checked.code != FAULTY and f"it is loaded: {checked.said[:300]}"
        yield checked.code == FAULTY and pattern[:40] not in checked.said and "the pattern is not named"
        return
    yield checked.code and f"it is not loaded: {checked.said[:300]}"
    told = TOLD.get(identity)
    yield told and told not in checked.said and f"`{told}` is not told: {checked.said[:300]}"
    if item["class"] == "backtrack":
        text, times, end = item["probe"]
        yield from matched(folder, pattern, [], [], [text * times + end])
    elif identity in NAMES:
        yield from matched(folder, pattern, *NAMES[identity], [])


def matched(folder, pattern, visible, hidden, probes):
    """Lists of a server with these names, and with a resource for each probe, which no rule for names keeps out."""
    names = [*visible, *hidden]
    listing = folder / "listing.json"
    listing.write_text(json.dumps({"tools": names, "resources": [*names, *probes]}))
    filters = {"includeRegex": [literal(pattern)]}
    server = {"command": sys.executable, "args": ["-S", "-E", str(SERVER), str(listing)]}
    upstream = {**server, "tools": filters, "resources": filters}
    with Daemon(folder / "run", {"x": upstream}) as gateway:
        before = time.monotonic()
        found = [tool["name"] for tool in listed(gateway, "tools/list", "tools")]
        seconds = time.monotonic() - before
        yield gateway.process.poll() is not None and "it is gone"
    shown = [name for name in names if f"x__{name}" in found]
    yield shown != visible and f"visible: {found}, expected {visible}"
    yield seconds > MATCH_S + 2 and f"the list took {seconds:.1f} s"


def listed(gateway, method, key):
    return json.loads(client.Modern(gateway.url + "/mcp").open().result(method))[key]


class Checked:
    """What `portcullis check` says of one pattern, and what it took."""

    def __init__(self, folder, pattern):
        (folder / "tenants").mkdir()
        upstream = {"command": "/bin/cat", "tools": {"includeRegex": [literal(pattern)]}}
        (folder / "portcullis.yaml").write_text("keepalive: 15s\n")
        document = {"tenant": "acme", "upstreams": {"x": upstream}}
        (folder / "tenants/acme.yaml").write_text(json.dumps(document))
        said = folder / "said"
        with open(said, "wb") as out:
            command = [binary(), "check", "--config", str(folder / "portcullis.yaml")]
            began = time.monotonic()
            process = subprocess.Popen(command, stdout=out, stderr=out)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.code, self.said = process.returncode, said.read_text(errors="replace")
        self.seconds, self.mib = time.monotonic() - began, usage.ru_maxrss / 1024

    def cost(self):
        if self.seconds > LOAD_S or self.mib > LOAD_MIB:
            return f"it took {self.seconds:.1f} s and {self.mib:.0f} MiB"
        return None


REFUSED = {"R-SEMANTICS-001", "R-SEMANTICS-012", "R-SEMANTICS-014"}
TOLD = {"R-SEMANTICS-007": "not recursion"}
# What is visible and what is not. Every pattern is about whole names.
NAMES = {
    "R-SEMANTICS-003": (["delete", "drop"], ["delete_all", "table_drop"]),
    "R-SEMANTICS-004": (["read_file"], ["spread_file_x", "read_file_x"]),
    "R-SEMANTICS-006": (["read_"], ["xread_"]),
    "R-SEMANTICS-007": (["read"], ["reads"]),
    "R-SEMANTICS-009": (["read"], ["read\n", "xread"]),
    "R-SEMANTICS-010": (["anything"], []),
}
