"""Two minimal MCP clients (stdio and streamable HTTP) that keep every answer as the text that came."""

import http.client
import json
import queue
import subprocess
import threading
import time
from urllib.parse import urlsplit

import raw
from lists import LISTS

REVISION = "2025-11-25"
MODERN = "2026-07-28"
# What `Mcp-Name` must repeat, by method.
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Failure(Exception):
    """The peer answered with a JSON-RPC error."""

    def __init__(self, method, error):
        super().__init__(f"{method}: {error}")
        self.code = json.loads(error).get("code")


class Client:
    """What both have in common. `ask` sends a request and returns the text of its answer."""

    last = 0

    def open(self, revision=REVISION):
        hello = {
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "portcullis-tests", "version": "1"},
        }
        self.hello = self.ask("initialize", hello)
        self.revision = json.loads(self.hello)["result"]["protocolVersion"]
        self.tell("notifications/initialized")
        return self

    def request(self, method, params):
        self.last += 1
        return {"jsonrpc": "2.0", "id": self.last, "method": method, "params": params or {}}

    def result(self, method, params=None):
        """The text of the result, or Failure."""
        answer = self.ask(method, params)
        error = raw.value(answer, "error")
        if error is not None:
            raise Failure(method, error)
        return raw.value(answer, "result")

    def pages(self, method):
        """The answers of all pages of a list, as they came."""
        answers, cursor = [], None
        while True:
            answer = self.ask(method, {} if cursor is None else {"cursor": cursor})
            error = raw.value(answer, "error")
            if error is not None:
                raise Failure(method, error)
            answers.append(answer)
            cursor = json.loads(answer)["result"].get("nextCursor")
            if cursor is None:
                return answers

    def pages_or_none(self, method):
        """The same; None where the peer has no such list."""
        try:
            return self.pages(method)
        except Failure as failure:
            if failure.code == -32601:
                return None
            raise

    def items(self, member):
        """All items of a list, each as it was written; empty where the peer has no such list."""
        answers = self.pages_or_none(LISTS[member][0]) or []
        return [item for answer in answers for item in raw.elements(raw.value(answer, "result", member))]


class Stdio(Client):
    """A server as our own child."""

    def __init__(self, command, env=None, cwd=None, patience=60):
        self.patience = patience
        self.process = subprocess.Popen(
            command,
            env=env,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.decode())
        self.lines.put(None)

    def tell(self, method, params=None):
        self._write({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def ask(self, method, params=None):
        message = self.request(method, params)
        self._write(message)
        end = time.monotonic() + self.patience
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise TimeoutError(method) from None
            if line is None:
                raise EOFError(f"{method}: the server ended")
            try:
                reply = json.loads(line)
            except ValueError:
                continue
            if isinstance(reply, dict) and reply.get("id") == message["id"] and "method" not in reply:
                return line.strip()

    def _write(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Http(Client):
    """A streamable HTTP endpoint; one connection, kept open."""

    session = revision = None

    def __init__(self, url, patience=60, token=None):
        address = urlsplit(url)
        self.path, self.token = address.path, token
        self.connection = http.client.HTTPConnection(address.hostname, address.port, timeout=patience)

    def tell(self, method, params=None):
        self._post({"jsonrpc": "2.0", "method": method, "params": params or {}}).read()

    def ask(self, method, params=None):
        message = self.request(method, params)
        answer = self._post(message)
        if "text/event-stream" not in answer.headers.get("content-type", "").lower():
            text = answer.read().decode()
            if "jsonrpc" not in text:
                raise ConnectionError(f"{method}: HTTP {answer.status} {text[:200]}")
            return text
        found = None
        for line in answer:
            if line.startswith(b"data:") and line[5:].strip():
                text = line[5:].strip().decode()
                reply = json.loads(text)
                if reply.get("id") == message["id"] and "method" not in reply:
                    found = text
        if found is None:
            raise ConnectionError(f"{method}: the stream ended without an answer")
        return found

    def _post(self, message):
        headers = {**self._headers(), **self._routing(message)}
        self.connection.request("POST", self.path, json.dumps(message).encode(), headers)
        answer = self.connection.getresponse()
        self.session = answer.headers.get("mcp-session-id") or self.session
        return answer

    def _headers(self):
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        if self.session:
            headers["mcp-session-id"] = self.session
        if self.revision:
            headers["mcp-protocol-version"] = self.revision
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        return headers

    def _routing(self, message):
        """Headers that repeat what the message says: the modern era has some."""
        return {}

    def close(self):
        if self.session:
            self.connection.request("DELETE", self.path, headers=self._headers())
            self.connection.getresponse().read()
        self.connection.close()


class Modern(Http):
    """The same in the modern era: no handshake, every request says who asks."""

    revision = MODERN

    def open(self, revision=MODERN):
        self.hello = self.ask("server/discover")
        return self

    def request(self, method, params):
        envelope = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "portcullis-tests", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = params or {}
        return super().request(method, {**params, "_meta": {**params.get("_meta", {}), **envelope}})

    def _routing(self, message):
        found = {"mcp-method": message["method"]}
        if message["method"] in NAMED:
            found["mcp-name"] = message["params"][NAMED[message["method"]]]
        return found
