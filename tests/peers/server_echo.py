"""A small legacy server that answers every request with an event stream, in several spellings: server_echo.py PORT."""

import itertools
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SCHEMA = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
LISTS = {
    "tools": [{"name": "echo", "title": "Écho", "description": "Says it again", "inputSchema": SCHEMA}],
    "resources": [{"uri": "echo://last", "name": "last", "mimeType": "text/plain"}],
    "resourceTemplates": [{"uriTemplate": "echo://said/{word}", "name": "said"}],
    "prompts": [{"name": "again", "arguments": [{"name": "what", "required": True}]}],
}
METHODS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
# How an event may be written, as far as the clients read it that ask this server directly: line ends, a space after the
# colon or none, comments, any order of fields.
SPELLINGS = itertools.cycle(
    (
        "event: message\ndata: {}\n\n",
        ": a comment\r\nevent: message\r\ndata:{}\r\n\r\n",
        "data: {}\nevent: message\n\n",
    )
)
PROGRESS = {"method": "notifications/message", "params": {"level": "debug", "data": "asked"}}


def result(method, params):
    """The result of a request, or None."""
    if method == "initialize":
        server, capabilities = {"name": "echo", "version": "1"}, {"tools": {}, "resources": {}, "prompts": {}}
        version = params["protocolVersion"] if params["protocolVersion"] < "2026" else "2025-11-25"
        return {"protocolVersion": version, "capabilities": capabilities, "serverInfo": server}
    if method in METHODS:
        return {METHODS[method]: LISTS[METHODS[method]]}
    if method == "tools/call" and params["name"] == "echo":
        return {"content": [{"type": "text", "text": params["arguments"]["message"]}]}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": "echo"}]}
    if method == "prompts/get":
        what = {"type": "text", "text": f"Say again: {params['arguments']['what']}"}
        return {"messages": [{"role": "user", "content": what}]}
    return {} if method == "ping" else None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message or "method" not in message:
            return self.plain(202)
        found = result(message["method"], message.get("params") or {})
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": found}
        if found is None:
            answer = {**answer, "error": {"code": -32601, "message": "Method not found"}}
            answer.pop("result")
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        if message["method"] == "tools/call":
            self.event({"jsonrpc": "2.0", **PROGRESS})
        self.event(answer)
        self.wfile.write(b"0\r\n\r\n")

    def event(self, message):
        """An event in the next spelling, torn in two."""
        text = next(SPELLINGS).format(json.dumps(message, ensure_ascii=False, separators=(",", ":"))).encode()
        for part in (text[:17], text[17:]):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.flush()

    def do_GET(self):
        self.plain(405)

    do_DELETE = do_GET

    def plain(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
