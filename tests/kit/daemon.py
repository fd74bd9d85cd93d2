"""Runs the gateway under test: finds the binary, writes its files, starts it, waits, ends it."""

import json
import os
import random
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def binary():
    """$PORTCULLIS_BIN, else the release build, else the debug build."""
    named = os.environ.get("PORTCULLIS_BIN")
    candidates = (
        [Path(named)] if named else [ROOT / "target" / kind / "portcullis" for kind in ("release", "debug")]
    )
    for candidate in candidates:
        if candidate.is_file():
            return str(candidate.resolve())
    raise FileNotFoundError("no portcullis binary: run `cargo build --release` or set PORTCULLIS_BIN")


def free_port():
    """A port below the ephemeral range, so that no outgoing connection takes it meanwhile."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def literal(text):
    """Text that the configuration must not expand."""
    return text.replace("$", "$$")


def stdio(command, env=None, **more):
    """A stdio upstream of a tenant file."""
    return {
        "command": literal(command[0]),
        "args": [literal(arg) for arg in command[1:]],
        "env": {name: literal(value) for name, value in (env or {}).items()},
        **more,
    }


class Daemon:
    """One gateway with one tenant, and those that are added. All its files lie in `folder`."""

    def __init__(self, folder, upstreams, settings=None, tenant=None, env=None):
        self.folder, self.env = Path(folder), {**os.environ, **(env or {})}
        self.port, self.admin_port = free_port(), free_port()
        self.url, self.admin = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.admin_port}"
        self.config = self.folder / "portcullis.yaml"
        self.log = self.folder / "gateway.log"
        self.process = self.started = None
        self.write(upstreams, settings, tenant)

    def write(self, upstreams, settings=None, tenant=None):
        """Writes both files. JSON is YAML."""
        base = {
            "listen": f"127.0.0.1:{self.port}",
            "admin": {"listen": f"127.0.0.1:{self.admin_port}"},
            "state_dir": str(self.folder / "state"),
            "tenants": "tenants/*.yaml",
        }
        self._file(self.config, {**base, **(settings or {})})
        self.add({"tenant": "default", "upstreams": upstreams, **(tenant or {})})

    def add(self, tenant):
        """Writes the file of a tenant."""
        self._file(self.folder / f"tenants/{tenant['tenant']}.yaml", tenant)

    def policy(self, name, rules):
        """Writes a file of rules."""
        self._file(self.folder / f"policies/{name}.yaml", rules)

    def _file(self, path, document):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    def start(self, patience=15, settle=30):
        """Returns once the MCP port accepts and no upstream is in its first start, or the process ended."""
        with open(self.log, "ab") as log:
            command = [binary(), "serve", "--config", str(self.config)]
            self.started = time.monotonic()
            self.process = subprocess.Popen(
                command, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._wait(self.accepts, patience)
        self._wait(self.settled, settle)
        return self

    def _wait(self, reached, patience):
        end = time.monotonic() + patience
        while self.process.poll() is None and time.monotonic() < end and not reached():
            time.sleep(0.02)

    def accepts(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def settled(self):
        """Is every upstream past its first start, whichever way it went?"""
        try:
            return all(upstream["state"] != "starting" for upstream in self.upstreams())
        except (OSError, ValueError):
            return False

    def wait_settled(self, patience=10):
        self._wait(self.settled, patience)

    def upstreams(self):
        tenants = json.loads(self.fetch("/status"))["tenants"]
        return [upstream for tenant in tenants for upstream in tenant["upstreams"]]

    def fetch(self, path, document=None):
        """A page of the admin port; with a document, what is answered when it is posted."""
        headers, key, body = {}, self.folder / "state/admin.key", None
        if key.exists():
            headers["authorization"] = f"Bearer {key.read_text().strip()}"
        if document is not None:
            headers["content-type"], body = "application/json", json.dumps(document).encode()
        request = urllib.request.Request(self.admin + path, body, headers)
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.read().decode()

    def memory(self):
        """Resident bytes of the gateway itself."""
        pages = (Path("/proc") / str(self.process.pid) / "statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def children(self):
        """Processes below the gateway."""
        parents = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
        found, more = set(), {self.process.pid}
        while more:
            more = {pid for pid, parent in parents.items() if parent in more} - found
            found |= more
        return found

    def log_text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def audit_lines(self):
        files = sorted((self.folder / "state/audit").glob("**/*.jsonl"))
        return [line for file in files for line in file.read_text().splitlines() if line.strip()]

    def stop(self, patience=3):
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()
