"""The gateway under attack: two tenants with a key each, upstreams that keep a journal, and what can be measured."""

import http.client
import json
import os
import re
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "kit"))
import upstream
from daemon import Daemon, stdio

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
UPSTREAM = "fake"  # the id of the honest upstream in both tenants: what stands before the names of its tools
NAMED = re.compile(rb'("name"\s*:\s*")(' + "|".join(upstream.TOOLS).encode() + rb')(")', re.IGNORECASE)
PATIENCE_S = 10


class Stand:
    """Tenant `tenant-a` has the honest upstream and one over HTTP, `tenant-b` the honest one and one of its own."""

    def __init__(self, folder, settings=None, identity=None):
        self.folder = Path(folder)
        self.journal_path = self.folder / "journal.jsonl"
        journal = upstream.Journal(self.journal_path)
        honest = stdio([sys.executable, "-S", "-E", str(HERE / "upstream.py"), str(self.journal_path)])
        honest = {**honest, "share": "tenant", "tools": {"exclude": ["hidden_tool"]}}
        private = stdio([*self.command(honest), "secret"])
        web = {"url": upstream.serve(journal), "share": "tenant"}
        tenant_a = {"tenant": "tenant-a", "identity": identity or {}}
        self.gateway = Daemon(folder, {UPSTREAM: honest, "web": web}, settings, tenant_a)
        self.gateway.add(
            {"tenant": "tenant-b", "upstreams": {UPSTREAM: honest, "tenantb": private}, "identity": {}}
        )

    def command(self, server):
        return [server["command"], *server["args"]]

    def __enter__(self):
        self.gateway.start()
        if self.gateway.process.poll() is not None:
            raise RuntimeError(f"the gateway did not start:\n{self.gateway.log_text()[-2000:]}")
        self.words = {"HOST": f"127.0.0.1:{self.gateway.port}", "PORT": str(self.gateway.port)}
        self.words["TOK_A"], self.words["TOK_B"] = self.key("tenant-a", "a1"), self.key("tenant-b", "b1")
        self.words["SID_A"], self.words["LAST_EVENT_A"] = self.session("TOK_A"), "1-1"
        self.words["ADMIN_COOKIE"] = "portcullis=CANARY-COOKIE"
        self.secrets = [self.words["TOK_A"], self.words["TOK_B"], self.words["SID_A"], "CANARY"]
        for key in ("TOK_A", "TOK_B"):
            for tool in ("echo", "echo"):
                self.modern("tools/call", {"name": f"{UPSTREAM}__{tool}", "arguments": {}}, self.words[key])
        return self

    def __exit__(self, *_):
        self.gateway.stop()

    def key(self, tenant, principal):
        """A new API key of a tenant."""
        asked = {"tenant": tenant, "name": principal, "principal": principal}
        return re.search(r"pck_\w+", self.gateway.fetch("/admin/v1/keys", asked))[0]

    def session(self, key):
        """The id of a legacy session."""
        hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
        answer = self.post(json.dumps(message).encode(), self.headers(self.words[key], LEGACY))
        if answer.status != 200:
            raise RuntimeError(f"initialize: {answer.status} {answer.body[:300]}")
        return answer.headers["mcp-session-id"]

    # Requests in good order.

    def headers(self, token, version=MODERN):
        return {
            "authorization": f"Bearer {token}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": version,
        }

    def post(self, body, headers, path="/mcp", patience=PATIENCE_S, connection=None):
        """One request; on a connection of its own unless one is given."""
        mine = connection is None
        connection = connection or self.connection(patience)
        try:
            began = time.monotonic()
            try:
                connection.request("POST", path, body, headers)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused while we were still sending: the answer is there
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read(), time.monotonic() - began)
        finally:
            if mine:
                connection.close()

    def connection(self, patience=PATIENCE_S):
        return http.client.HTTPConnection("127.0.0.1", self.gateway.port, timeout=patience)

    def modern(self, method, params, token, more=None):
        """A request of the modern era, in good order."""
        envelope = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": method,
            "params": {**params, "_meta": envelope},
        }
        named = {"mcp-name": params["name"]} if "name" in params else {}
        headers = {**self.headers(token), "mcp-method": method, **named, **(more or {})}
        return self.post(json.dumps(message).encode(), headers)

    def ping(self, session, token):
        """Does a legacy session answer?"""
        headers = {**self.headers(token, LEGACY), "mcp-session-id": session}
        return self.post(b'{"jsonrpc":"2.0","id":"alive","method":"ping"}', headers).status == 200

    # What is measured.

    def journal(self, since=0):
        """Every message that any upstream received."""
        text = self.journal_path.read_text(encoding="utf-8")[since:]
        return [json.loads(line) for line in text.splitlines()]

    def mark(self):
        """Where logs, audit and journal are, once nothing is added to the audit: its lines come after the answers."""
        before, end = None, time.monotonic() + 1
        while (now := len(self.gateway.audit_lines())) != before and time.monotonic() < end:
            before = now
            time.sleep(0.02)
        return Mark(
            log=len(self.gateway.log_text()),
            journal=self.journal_path.stat().st_size,
            audit=len(self.gateway.audit_lines()),
            cpu=self.cpu(),
        )

    def calls(self, mark):
        """What an upstream received since, that it hears only when a client asks for something."""
        return [message for message in self.journal(mark.journal) if message["method"] not in upstream.QUIET]

    def audit(self, mark):
        return self.gateway.audit_lines()[mark.audit :]

    def cpu(self):
        """Seconds of processor time of the gateway so far."""
        words = Path(f"/proc/{self.gateway.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def files(self):
        """File descriptors that the gateway has open."""
        return len(os.listdir(f"/proc/{self.gateway.process.pid}/fd"))


class Mark:
    """A moment, by the ends of what is written."""

    def __init__(self, log, journal, audit, cpu):
        self.log, self.journal, self.audit, self.cpu = log, journal, audit, cpu


class Answer:
    """An HTTP response. `error` is the JSON-RPC error in it, `result` the result."""

    def __init__(self, status, headers, body, seconds=0.0):
        self.status, self.body, self.seconds = status, body, seconds
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.messages = messages(self.headers.get("content-type", ""), body)
        last = self.messages[-1] if self.messages else {}
        self.error, self.result = last.get("error"), last.get("result")

    @property
    def code(self):
        return self.error.get("code") if isinstance(self.error, dict) else None


def messages(kind, body):
    """The JSON-RPC messages of a response body."""
    text = body.decode("utf-8", "replace")
    texts = [text]
    if "text/event-stream" in kind:
        texts = [line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()]
    found = []
    for one in texts:
        try:
            message = json.loads(one)
        except ValueError:
            continue
        if isinstance(message, dict):
            found.append(message)
    return found


class Watch:
    """The most memory that the gateway has while something runs, in bytes over what it had."""

    def __init__(self, gateway):
        self.gateway, self.over = gateway, threading.Event()

    def __enter__(self):
        self.before = self.most = self.gateway.memory()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()
        return self

    def _look(self):
        while not self.over.wait(0.03):
            try:
                self.most = max(self.most, self.gateway.memory())
            except (OSError, ValueError):
                return

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    @property
    def megabytes(self):
        return (self.most - self.before) / (1 << 20)


def limited(stand, tenant, limits):
    """Adds limits to the file of a tenant; the gateway is started later."""
    path = stand.folder / f"tenants/{tenant}.yaml"
    stand.gateway.add({**json.loads(path.read_text(encoding="utf-8")), "limits": limits})


def in_our_names(body):
    """A body whose tools have the names that the gateway gives them."""
    return NAMED.sub(lambda found: found[1] + UPSTREAM.encode() + b"__" + found[2] + found[3], body)
