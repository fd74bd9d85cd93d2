"""How the suite reaches the fixture: directly, or through a gateway that asks for a credential."""

import contextlib
import re
import socket
import subprocess
import sys
import time

import suite
from bearer import Bearer
from daemon import Daemon, free_port, stdio

FIXTURE = suite.ROOT / "target/debug/conformance-fixture"
UPSTREAM = "fixture"
ERAS = {"legacy": suite.LEGACY, "modern": suite.MODERN}


def build():
    """The fixture, unless it is built already."""
    command = ["cargo", "build", "--quiet", "--package", "conformance-fixture"]
    subprocess.run(command, cwd=suite.ROOT, check=True, stdout=sys.stderr)


@contextlib.contextmanager
def fixture(era):
    """The URL of a fixture over HTTP."""
    port = free_port()
    process = subprocess.Popen([str(FIXTURE), "--era", era, "--http", str(port)], stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def gateway(folder, upstream, bare=True):
    """The URL of a gateway before one upstream, behind the proxy that adds the credential."""
    offered = {"upstreams": [UPSTREAM], **({"names": "bare"} if bare else {})}
    tenant = {
        "identity": {"keys": True},
        "virtual_servers": {"default": offered},
        "extensions": ["*"],
        # The suite asks for all that a client can be asked.
        "allow": ["sampling", "roots", "remote_roots"],
    }
    port = free_port()
    # The suite also plays a web page of this machine, which no gateway lets in unasked.
    settings = {"allowed_origins": [f"http://127.0.0.1:{port}"]}
    with Daemon(folder, {UPSTREAM: upstream}, settings, tenant) as daemon:
        if daemon.process.poll() is not None:
            raise RuntimeError(f"the gateway did not start:\n{daemon.log_text()[-2000:]}")
        with Bearer(port, daemon.port, key(daemon)):
            yield f"http://127.0.0.1:{port}/mcp"


def key(daemon):
    asked = {"tenant": "default", "name": "conformance", "principal": "conformance"}
    return re.search(r"pck_\w+", daemon.fetch("/admin/v1/keys", asked))[0]


@contextlib.contextmanager
def through(folder, client, era, transport, bare):
    """The URL of a gateway, for clients of one era, before the fixture of an era, over stdio or HTTP."""
    with contextlib.ExitStack() as stack:
        if transport == "stdio":
            # In the modern era lists are the same for all (T-08), so it is one process whose lists change. In the
            # legacy era what a process logs has to be somebody's (U-16).
            share = "tenant" if client == era == "modern" else "principal"
            upstream = stdio([str(FIXTURE), "--era", era], share=share)
        else:
            upstream = {"url": stack.enter_context(fixture(era))}
        yield stack.enter_context(gateway(folder, upstream, bare))


def wait_for(port, patience=20):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on {port}")
