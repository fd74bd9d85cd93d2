"""Where metadata may lead the gateway: each address is the token endpoint of an issuer that the operator names."""

import http.server
import json
import os
import re
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from daemon import Daemon, binary

REFUSED = "lead where we do not go"
UNREACHABLE = ("cannot be reached", "did not answer in time")
ELSEWHERE = ("leads where we do not go",)
PATIENCE_S = 12  # one asking may take five seconds, twice
DRIP_BYTES, BIG_BYTES, ANY_MORE = 40, 1 << 30, 16 << 20
NAMES = ("rebind.example", "cname.example")  # resolved to this machine, where the test may say so


def run(items, report):
    canary = Canary()
    with Issuer(canary.port) as issuer, tempfile.TemporaryDirectory(prefix="portcullis-attacks-") as folder:
        cases = {item["id"]: variants(item, issuer, canary.port) for item in items}
        upstreams = {}
        for identity, endpoints in cases.items():
            for number, endpoint in enumerate(endpoints):
                name = upstream_id(identity, number)
                issuer.endpoints[name] = endpoint
                upstreams[name] = {
                    "url": f"http://127.0.0.1:{canary.port}/mcp",
                    "credential": {"client": issuer.client(name)},
                    "timeouts": {"start": "20s"},
                }
        rooms = Rooms(folder)
        with rooms, Daemon(folder, upstreams) as gateway:
            states = settled(gateway, upstreams)
        log = gateway.log_text()
        common = [f"{canary.connections} connections to the canary"] * bool(canary.connections)
        common += ["a secret is in the log"] * (issuer.SECRET in log)
        taken = max(issuer.written.values(), default=0)
        common += [f"{taken} bytes of an endless answer were read"] * (taken > ANY_MORE)
    for item in items:
        if item["class"] == "dynamic" and named(item) and not rooms.works:
            report.skip(item, "needs a host name of its own, which this machine does not let us make")
        else:
            report(item, [*judged(item, cases[item["id"]], states), *common])


def named(item):
    return any(name in item["url"] for name in NAMES)


def upstream_id(identity, number):
    return f"{identity.lower()[:20]}-{number}"


def variants(item, issuer, port):
    """The token endpoints to try: as written, behind https, and with the port that somebody listens on."""
    url = item["url"]
    if item["class"] != "dynamic":
        secure = re.sub(r"^(\s*)http:", r"\1https:", url)
        found = [url, secure]
        if item["expect"] == "refuse" and re.match(r"https?://[^/@\\]+/", url):
            found += [re.sub(r"^(https?://[^/]+)/", rf"\1:{port}/", one) for one in (url, secure)]
        return list(dict.fromkeys(found))
    if "302" in url:
        return [f"{issuer.url}/redirect"]
    if "drip" in url:
        return [f"{issuer.url}/drip"]
    if "1 GB" in url:
        return [f"{issuer.url}/big"]
    host = next(name for name in NAMES if name in url)
    return [f"https://{host}:{port}/token"]


def settled(gateway, upstreams):
    """Why each upstream is not up, once all of them have tried."""
    end = time.monotonic() + PATIENCE_S
    while True:
        states = {one["id"]: json.dumps(one) for one in gateway.upstreams()}
        if all("token" in states[name] or REFUSED in states[name] for name in upstreams):
            return states
        if time.monotonic() > end:
            return states
        time.sleep(0.1)


def judged(item, endpoints, states):
    faults = []
    for number, endpoint in enumerate(endpoints):
        state = states[upstream_id(item["id"], number)]
        if item["class"] == "dynamic":
            wanted = wanted_of(item["url"])
        else:
            wanted = (REFUSED,) if item["expect"] == "refuse" else UNREACHABLE
        if not any(words in state for words in wanted):
            faults.append(f"{endpoint!r}: {state[-300:]}")
    return faults


def wanted_of(url):
    if "302" in url:
        return ("gave no token",)
    if "drip" in url:
        return ("did not answer in time",)
    if "1 GB" in url:
        return ("answered too much",)
    return ELSEWHERE


class Canary:
    """Listens on every address of this machine and counts who comes."""

    def __init__(self):
        self.socket = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        self.port, self.connections = self.socket.getsockname()[1], 0
        threading.Thread(target=self._count, daemon=True).start()

    def _count(self):
        while True:
            peer, _ = self.socket.accept()
            self.connections += 1
            peer.close()


class Issuer:
    """One issuer a path: its metadata name the token endpoint that is tried."""

    SECRET = "cli3nt-s3cret-c4nary"

    def __init__(self, trap):
        self.endpoints, self.written, self.trap = {}, {}, trap
        issuer = self

        class Answers(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                name = self.path.rsplit("/", 1)[1]
                endpoint = issuer.endpoints.get(name)
                if endpoint is None or not self.path.startswith("/.well-known/oauth-authorization-server/"):
                    return self.whole(404, b"{}")
                metadata = {"issuer": f"{issuer.url}/{name}", "token_endpoint": endpoint}
                return self.whole(200, json.dumps(metadata).encode())

            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                if self.path == "/redirect":
                    place = f"http://127.0.0.1:{issuer.trap}/"
                    return self.whole(302, b"", {"location": place})
                return self.slowly(b"x", 1.0, DRIP_BYTES) if self.path == "/drip" else self.endless()

            def whole(self, status, body, more=None):
                self.send_response(status)
                for name, value in {"content-length": str(len(body)), **(more or {})}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def endless(self):
                self.slowly(b"x" * 65536, 0, BIG_BYTES // 65536)

            def slowly(self, piece, pause, times):
                self.send_response(200)
                self.end_headers()
                self.close_connection = True
                for number in range(times):
                    try:
                        self.wfile.write(piece)
                    except OSError:
                        return
                    written = len(piece) * (number + 1)
                    issuer.written[self.path] = max(issuer.written.get(self.path, 0), written)
                    time.sleep(pause)

            def log_message(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def client(self, name):
        return {"issuer": f"{self.url}/{name}", "client_id": "gate", "client_secret": self.SECRET}

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 512  # all upstreams ask at once

    def handle_error(self, *_):
        """The gateway does not wait for ever."""


class Rooms:
    """Runs the gateway with a hosts file of its own, in which public names lead to this machine."""

    def __init__(self, folder):
        self.folder, self.before = Path(folder), os.environ.get("PORTCULLIS_BIN")
        hosts = self.folder / "hosts"
        hosts.write_text(f"127.0.0.1 localhost {' '.join(NAMES)}\n")
        enter = f"mount --bind {hosts} /etc/hosts"
        self.works = subprocess.run(["unshare", "-rm", "sh", "-c", enter], capture_output=True).returncode == 0
        self.program = self.folder / "portcullis-with-hosts"
        self.program.write_text(
            f"#!/bin/sh\nexec unshare -rm sh -c '{enter} && exec {binary()} \"$@\"' sh \"$@\"\n"
        )
        self.program.chmod(0o755)

    def __enter__(self):
        if self.works:
            os.environ["PORTCULLIS_BIN"] = str(self.program)

    def __exit__(self, *_):
        os.environ.pop("PORTCULLIS_BIN", None)
        if self.before is not None:
            os.environ["PORTCULLIS_BIN"] = self.before
