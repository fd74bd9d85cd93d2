"""Sends bytes as an item paces them, and reads what comes back without trusting any of it."""

import re
import socket
import time

from stand import Answer

QUIET_S = 0.3  # a response is over when nothing came for so long
LIMIT = 8 << 20


class Heard:
    """What came back on one connection: the final responses, the interim ones, whether the other side closed."""

    def __init__(self, data, closed, seconds):
        self.data, self.closed, self.seconds = data, closed, seconds
        every = responses(data)
        self.interim = [answer for answer in every if answer.status < 200]
        self.final = [answer for answer in every if answer.status >= 200]


def responses(data):
    """The responses in a byte stream, as far as they are whole."""
    found = []
    while data.startswith(b"HTTP/1") and b"\r\n\r\n" in data:
        head, rest = data.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        pairs = (line.split(":", 1) for line in lines[1:] if ":" in line)
        headers = {name.strip().lower(): value.strip() for name, value in pairs}
        status = int(lines[0].split(" ")[1])
        body, data = b"", rest
        if status >= 200 and status not in (204, 304):
            body, data = framed(headers, rest)
        found.append(Answer(status, headers, body))
    return found


def framed(headers, rest):
    """The body in front, and what follows it."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return chunked(rest)
    if "content-length" in headers:
        length = int(headers["content-length"])
        return rest[:length], rest[length:]
    return rest, b""


def chunked(rest):
    body = b""
    while size := re.match(rb"([0-9a-fA-F]+)[^\r\n]*\r\n", rest):
        length, start = int(size[1], 16), size.end()
        body, rest = body + rest[start : start + length], rest[start + length + 2 :]
        if length == 0:
            return body, rest
    return body, b""


def receive(connection, seconds, quiet=QUIET_S):
    """(bytes, closed): until it is closed, quiet after something came, or the time is up."""
    data, end = b"", time.monotonic() + seconds
    while len(data) < LIMIT:
        left = end - time.monotonic()
        if left <= 0:
            break
        connection.settimeout(min(left, quiet) if data else left)
        try:
            more = connection.recv(65536)
        except TimeoutError:
            break
        except OSError:
            return data, True
        if not more:
            return data, True
        data += more
    return data, False


def send(address, raw, pace, closed_within=None):
    """Sends an item in its pace; returns what was heard."""
    connection, began = socket.create_connection(address, timeout=5), time.monotonic()
    try:
        data, closed = PACES[(pace or {}).get("mode")](connection, raw, pace or {})
        if closed_within and not closed:
            more, closed = receive(connection, max(0.0, closed_within - (time.monotonic() - began)), quiet=60)
            data += more
    finally:
        connection.close()
    return Heard(data, closed, time.monotonic() - began)


def at_once(connection, raw, pace):
    gone = not written(connection, raw, 10)
    data, closed = receive(connection, 5)
    return data, closed or gone


def drip(connection, raw, pace, at=0):
    data, end = b"", time.monotonic() + pace["max_s"]
    while at < len(raw) and time.monotonic() < end:
        if not written(connection, raw[at : at + pace["bytes"]], 5):
            more, _ = receive(connection, 0.2)
            return data + more, True
        at += pace["bytes"]
        more, closed = receive(connection, pace["every_ms"] / 1000, quiet=0.05)
        data += more
        if closed:
            return data, True
    more, closed = receive(connection, 1)
    return data + more, closed


def drip_after_headers(connection, raw, pace):
    start = raw.index(b"\r\n\r\n") + 4
    written(connection, raw[:start], 5)
    return drip(connection, raw, pace, start)


def repeat_after_headers(connection, raw, pace):
    chunk = b"%x\r\n" % pace["chunk_bytes"] + b"a" * pace["chunk_bytes"] + b"\r\n"
    sent, going = 0, written(connection, raw, 5)
    while going and sent < pace["until_mb"] << 20:
        going = written(connection, chunk, 5)
        sent += len(chunk)
    data, closed = receive(connection, 3)
    return data, closed or not going


def no_read(connection, raw, pace):
    written(connection, raw, 5)
    time.sleep(pace["hold_s"])
    return receive(connection, 5)


def shutdown_write(connection, raw, pace):
    connection.sendall(raw)
    connection.shutdown(socket.SHUT_WR)
    return receive(connection, 5)


PACES = {
    None: at_once,
    "drip": drip,
    "drip_after_headers": drip_after_headers,
    "repeat_after_headers": repeat_after_headers,
    "no_read": no_read,
    "shutdown_write": shutdown_write,
}


def written(connection, data, seconds):
    """Did the other side take it?"""
    connection.settimeout(seconds)
    try:
        connection.sendall(data)
    except OSError:
        return False
    return True


class Http2:
    """Frames that came over HTTP/2, as far as the verdict needs them."""

    GOAWAY, RST_STREAM, HEADERS = 7, 3, 1

    def __init__(self, data):
        self.kinds, self.statuses = [], []
        while len(data) >= 9:
            length = int.from_bytes(data[:3], "big")
            self.kinds.append(data[3])
            if data[3] == self.HEADERS:
                self.statuses.append(static_status(data[9 : 9 + length]))
            data = data[9 + length :]


def static_status(block):
    """`:status` where it is an entry of HPACK's static table; it is the first field."""
    table = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}
    return table.get(block[0] & 0x7F) if block and block[0] & 0x80 else None
