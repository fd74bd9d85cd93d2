"""Streamable HTTP for `scripted.py`: who it was that spoke, and on which stream what is said goes out."""

import itertools
import json
import select
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODERN = "2026-07-28"
# What a modern server says with a status of its own.
STATUSES = {-32601: 404, -32020: 400, -32021: 400, -32022: 400}
# Session -> the number by which the script knows it, in place of a process of its own.
sessions = {}
numbers = itertools.count(1)
# The streams that belong to no request.
listening = {}


class Stream:
    """The answer to a request: JSON when the answer comes first, or else an event stream that ends with it."""

    def __init__(self, handler, request, modern):
        self.handler, self.request, self.modern = handler, request, modern
        self.lock, self.begun, self.ended = threading.Lock(), False, False

    def write(self, data):
        for line in data.split(b"\n"):
            if line.strip():
                self.message(line)

    def message(self, line):
        try:
            said = json.loads(line)
        except ValueError:
            said = {}
        last = self.request is not None and "method" not in said and said.get("id") == self.request["id"]
        with self.lock:
            if self.ended:
                return
            try:
                if last and not self.begun:
                    self.plain(said, line)
                else:
                    self.event(line, last)
            except OSError:
                last = True
            self.ended = last

    def plain(self, said, line):
        code = said.get("error", {}).get("code")
        self.handler.head(STATUSES.get(code, 200) if self.modern else 200, "application/json", len(line))
        self.handler.wfile.write(line)

    def event(self, line, last):
        self.open()
        self.chunk(b"event: message\ndata: " + line + b"\n\n")
        if last:
            self.chunk(b"")

    def open(self):
        if not self.begun:
            self.begun = True
            self.handler.head(200, "text/event-stream")
            self.handler.wfile.flush()

    def chunk(self, data):
        self.handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.handler.wfile.flush()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    player = None

    def do_POST(self):
        text = self.rfile.read(int(self.headers["content-length"])).decode("utf-8", "surrogateescape")
        message, player = json.loads(text), self.player
        modern = bool(player["modern"])
        session = None if modern else self.headers.get("mcp-session-id")
        if message.get("method") == "initialize" and not modern:
            session = "session-%d" % next(numbers)
            sessions[session] = len(sessions) + 1
        player["speaks"](self, session, sessions.get(session, 0))
        player["note"](got=text)
        if not modern and session not in sessions:
            return self.plain(404 if session else 400, b"no session")
        if "id" not in message or "method" not in message:
            player["receive"](message)
            return self.plain(202)
        self.session = session
        stream = Stream(self, message, modern)
        player["sink"](stream.write)
        if modern:
            threading.Thread(target=self.watch, args=(stream,), daemon=True).start()
        player["receive"](message)

    def watch(self, stream):
        """A modern client gives up a request by closing its stream."""
        while not stream.ended:
            readable, _, _ = select.select([self.connection], [], [], 0.02)
            try:
                if readable and not self.connection.recv(1, socket.MSG_PEEK):
                    return self.player["note"](event="closed " + stream.request["method"])
            except OSError:
                return self.player["note"](event="closed " + stream.request["method"])
            if readable:
                time.sleep(0.02)

    def do_GET(self):
        session = self.headers.get("mcp-session-id")
        if session not in sessions:
            return self.plain(405)
        stream = Stream(self, None, False)
        stream.open()
        listening[session] = stream
        while session in sessions and not stream.ended:
            time.sleep(0.05)
        self.close_connection = True

    def do_DELETE(self):
        gone = sessions.pop(self.headers.get("mcp-session-id"), None)
        self.plain(405 if gone is None else 204)

    def plain(self, status, body=b""):
        self.head(status, "text/plain", len(body))
        self.wfile.write(body)

    def head(self, status, kind, length=None):
        self.send_response(status)
        self.send_header("content-type", kind)
        if getattr(self, "session", None):
            self.send_header("mcp-session-id", self.session)
        if length is None:
            self.send_header("transfer-encoding", "chunked")
        else:
            self.send_header("content-length", str(length))
        self.end_headers()

    def log_message(self, *_):
        pass


def everywhere(data):
    """What belongs to no request is told to every session, once one listens."""
    while not listening:
        time.sleep(0.005)
    for stream in list(listening.values()):
        stream.write(data)


def listen(player):
    """A server on a port that is free, and the port."""
    Handler.player = player
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    return server, server.server_address[1]
