"""A proxy on loopback that adds a credential: the suite cannot send one. Everything else passes byte for byte."""

import contextlib
import socket
import socketserver
import threading

PIECE = 64 * 1024


class Bearer(socketserver.ThreadingTCPServer):
    """Listens on `port` while it is entered, before what listens on `target`."""

    daemon_threads, block_on_close, allow_reuse_address = True, False, True

    def __init__(self, port, target, token):
        super().__init__(("127.0.0.1", port), Connection)
        self.target, self.line = ("127.0.0.1", target), f"Authorization: Bearer {token}\r\n".encode()

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        """A client that breaks off is no problem of the proxy."""


class Connection(socketserver.StreamRequestHandler):
    def handle(self):
        with socket.create_connection(self.server.target) as away:
            threading.Thread(target=self.answer, args=(away,), daemon=True).start()
            while start := self.rfile.readline(PIECE):
                away.sendall(start + self.server.line)
                self.send_rest(away)

    def send_rest(self, away):
        """The header lines of a request, and the body that they announce."""
        length, chunked, line = 0, False, b""
        while line != b"\r\n":
            line = self.rfile.readline(PIECE)
            name, _, value = line.lower().partition(b":")
            length = int(value) if name == b"content-length" else length
            chunked = chunked or (name == b"transfer-encoding" and b"chunked" in value)
            away.sendall(line)
        away.sendall(self.rfile.read(length))
        while chunked:
            line = self.rfile.readline(PIECE)
            size = int(line.split(b";")[0], 16)
            away.sendall(line + self.rfile.read(size + 2))
            chunked = size > 0

    def answer(self, away):
        """Passes answers on as they come: they may be streams."""
        with contextlib.suppress(OSError):
            while piece := away.recv(PIECE):
                self.request.sendall(piece)
            self.request.shutdown(socket.SHUT_RDWR)
