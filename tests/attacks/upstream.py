#!/usr/bin/env python3
"""An honest fake upstream that writes down what reaches it: upstream.py JOURNAL [TOOL...] on stdio; `serve` over HTTP."""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOOLS = ("echo", "slow", "delete_all", "pay", "hidden_tool", "echo_big", "read_doc")
EMPTY = {
    "ping": {},
    "resources/list": {"resources": [{"uri": "fake://one", "name": "one"}]},
    "resources/templates/list": {"resourceTemplates": []},
    "prompts/list": {"prompts": []},
}
# What an upstream may hear although no client asked for it.
QUIET = {
    *("initialize", "server/discover", "ping"),
    *("tools/list", "resources/list", "resources/templates/list", "prompts/list"),
    *("notifications/initialized", "notifications/cancelled", "notifications/roots/list_changed"),
}


class Journal:
    """One JSON line a message: its method, its text as it came, and the headers when it came over HTTP."""

    def __init__(self, path):
        self.file, self.lock = open(path, "a", encoding="utf-8"), threading.Lock()

    def note(self, text, headers=None):
        try:
            method = parsed(text).get("method")
        except (ValueError, AttributeError):
            method = None
        line = json.dumps({"method": method, "text": text, "headers": headers})
        with self.lock:
            self.file.write(line + "\n")
            self.file.flush()


def answers(message, tools):
    """Every message that a request is answered with; none for what is no request."""
    method, identity, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method is None or identity is None:
        return
    head = {"jsonrpc": "2.0", "id": identity}
    if method == "initialize":
        server = {"name": "fake", "version": "1"}
        version = params.get("protocolVersion", "2025-11-25")
        capabilities = {"tools": {}, "resources": {}, "prompts": {}}
        result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": server}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]}
    elif method == "tools/call" and params.get("name") in tools:
        arguments = params.get("arguments") or {}
        yield from progress(params, arguments)
        text = json.dumps(arguments)
        if params["name"] == "echo_big":
            text = "x" * int(arguments.get("bytes", 0))
        result = {"content": [{"type": "text", "text": text}]}
    elif method in EMPTY:
        result = EMPTY[method]
    else:
        yield {**head, "error": {"code": -32601, "message": "no such method"}}
        return
    yield {**head, "result": result}


def parsed(text):
    """A message. An integer with more digits than Python reads stays text."""
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(text, parse_int=str)


def progress(params, arguments):
    time.sleep(min(arguments.get("sleep_ms", 0), 60_000) / 1000)
    token, steps = (params.get("_meta") or {}).get("progressToken"), arguments.get("progress", 0)
    for step in range(steps if token is not None else 0):
        told = {"progressToken": token, "progress": step, "total": steps}
        yield {"jsonrpc": "2.0", "method": "notifications/progress", "params": told}


def stdio(journal, tools):
    speaking = threading.Lock()

    def handle(line):
        for message in answers(parsed(line), tools):
            with speaking:
                sys.stdout.write(json.dumps(message) + "\n")
                sys.stdout.flush()

    for line in sys.stdin:
        journal.note(line.strip())
        threading.Thread(target=handle, args=(line,), daemon=True).start()


def serve(journal, tools=TOOLS):
    """Starts the HTTP form in threads of this process; returns its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            text = self.rfile.read(int(self.headers["content-length"])).decode()
            journal.note(text, {name.lower(): value for name, value in self.headers.items()})
            said = list(answers(parsed(text), tools))
            body = json.dumps(said[-1]).encode() if said else b""
            self.send_response(200 if said else 202)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            self.send_response(405)
            self.send_header("content-length", "0")
            self.end_headers()

        do_DELETE = do_GET

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}/mcp"


if __name__ == "__main__":
    stdio(Journal(sys.argv[1]), sys.argv[2:] or TOOLS)
