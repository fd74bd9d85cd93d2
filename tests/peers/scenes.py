"""Two principals at once, with real clients of both eras: what concerns one never reaches the other (spec V-02).

Each has a marker; each client keeps all that it heard, and the marker of the other must not be in it.
"""

import contextlib
import json
import os
import re
import subprocess
import threading
import time
from pathlib import Path

import servers
from client import MODERN
from daemon import ROOT, Daemon, free_port, stdio

HERE = Path(__file__).resolve().parent
FIXTURE = ROOT / "target/debug/conformance-fixture"
MARKERS = {"ann": "marker-of-ann", "bob": "marker-of-bob"}
# Era of a client -> (command, what follows the steps).
CLIENTS = {
    "legacy": (["node", str(HERE / "scene_typescript.mjs")], []),
    "modern": (["node", str(HERE / "scene_typescript2.mjs")], [MODERN]),
}
# The same, of those that only talk: no call is given up, nothing is followed.
TALKERS = {
    "legacy": ([str(servers.venv("client") / "python"), str(HERE / "scene_python.py")], []),
    "modern": ([str(servers.venv("modern") / "python"), str(HERE / "scene_python.py")], [MODERN]),
}
PATIENCE = 60
# What a legacy server logs on the stream of its session belongs to its only call while that runs, and then to nobody: a modern
# client hears what of it comes in time (spec X-12).
IN_TIME = ("modern", "legacy", "http")
LOG_LEVEL = {"io.modelcontextprotocol/logLevel": "debug"}
PROGRESS, LOG = "notifications/progress", "notifications/message"
UPDATED, TOOLS = "notifications/resources/updated", "notifications/tools/list_changed"


class Pair:
    """Two clients, one for each principal, that wait for each other where a step says so."""

    def __init__(self, client, url, keys, steps, wiring, has_begun):
        self.gate, self.told, self.has_begun = threading.Barrier(2, timeout=PATIENCE), {}, has_begun
        environment = {**os.environ, "PEERS_MODULES": str(servers.NPM)}
        command, more = client
        self.clients = {
            name: subprocess.Popen(
                [*command, url, keys[name], marker, json.dumps(steps(name, marker, wiring)), *more],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for name, marker in MARKERS.items()
        }

    def heard(self):
        """Principal -> what its client heard."""
        listeners = [threading.Thread(target=self.follow, args=pair) for pair in self.clients.items()]
        end = threading.Timer(2 * PATIENCE, self.kill)
        end.start()
        for thread in listeners:
            thread.start()
        for thread in listeners:
            thread.join()
        end.cancel()
        for name, client in self.clients.items():
            if name not in self.told:
                raise RuntimeError(f"the client of {name} failed: {client.stderr.read().strip()[-600:]}")
        return self.told

    def follow(self, name, client):
        try:
            for line in client.stdout:
                if line.startswith("meet"):
                    if line.split()[1:]:
                        await_true(self.has_begun)
                    self.gate.wait()
                    client.stdin.write("\n")
                    client.stdin.flush()
                elif line.startswith("{"):
                    self.told[name] = json.loads(line)
        except (threading.BrokenBarrierError, OSError):
            pass
        finally:
            # Whoever ends leaves nobody waiting.
            if name not in self.told:
                self.gate.abort()
            client.kill() if self.gate.broken else client.wait()

    def kill(self):
        for client in self.clients.values():
            client.kill()


def await_true(reached):
    """Waits for it, and says whether it came."""
    end = time.monotonic() + PATIENCE
    while not (found := reached()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def call(name, /, **more):
    return {"do": "call", "name": name, "arguments": {}, **more}


# ---------------------------------------------------------------- what happens


def talk_steps(_, marker, wiring):
    """Questions, progress and logs; what a server says of its session may come after the answer."""
    logs = {"do": "await", "method": LOG, "count": 0 if wiring == IN_TIME else 3}
    return [
        {"do": "level", "level": "debug"},
        call("fixture__test_elicitation", arguments={"message": marker}),
        call("fixture__test_sampling", arguments={"prompt": marker}),
        call("fixture__test_tool_with_progress", progress=True),
        call("fixture__test_tool_with_logging", meta=LOG_LEVEL),
        logs,
        {"do": "meet"},
    ]


def fixture_steps(name, marker, wiring):
    """The same, a call that is given up, and a list that changes."""
    slow = {"name": "fixture__slow_compute", "arguments": {"label": marker, "seconds": 30}}
    waits = name == "ann" and changes_are_told(*wiring[1:])
    return [
        *talk_steps(name, marker, wiring),
        {"do": "cancel", **slow},
        *([{"do": "follow"}] if name == "ann" else []),
        {"do": "meet"},
        *([call("fixture__test_trigger_tool_change")] if name == "bob" else []),
        *([{"do": "await", "method": TOOLS, "count": 1}] if waits else []),
        {"do": "meet"},
    ]


def everything_steps(name, marker, _):
    """A resource each, followed; progress, and what the server logs of the session itself."""
    number = {"ann": 1, "bob": 2}[name]
    operation = {"duration": 1, "steps": 4}
    return [
        {"do": "level", "level": "debug"},
        call("everything__echo", arguments={"message": marker}),
        {"do": "follow", "uri": f"everything+demo://resource/dynamic/text/{number}"},
        {"do": "meet"},
        call("everything__toggle-subscriber-updates"),
        {"do": "await", "method": UPDATED, "count": 1},
        call("everything__trigger-long-running-operation", arguments=operation, progress=True),
        call("everything__toggle-simulated-logging", meta=LOG_LEVEL),
        {"do": "meet"},
        call("everything__trigger-elicitation-request"),
        call("everything__trigger-sampling-request", arguments={"prompt": marker}),
        call("everything__toggle-subscriber-updates"),
        call("everything__toggle-simulated-logging"),
    ]


# ---------------------------------------------------------------- what must come of it


def crossed(told):
    """Where the marker of one stands in what the other heard."""
    for name, heard in told.items():
        for other, marker in MARKERS.items():
            if other != name and marker in json.dumps(heard):
                yield f"{name} heard {marker}"


def messages(heard, method):
    return [message for message in heard["messages"] if message.get("method") == method]


def changes_are_told(server, transport):
    """What the connection hears that feeds the catalog: over stdio each principal has a process, and a legacy server
    tells the one session whose call it was (spec X-16)."""
    return server == "modern" and transport == "http"


def talk_faults(told, client, server, transport):
    for name, heard in told.items():
        marker, answers = MARKERS[name], [json.dumps(answer) for answer in heard["answers"]]
        for answer, start in ((answers[0], "User response: action=accept"), (answers[1], "LLM response: ")):
            if start not in answer or marker not in answer:
                yield f"{name}: not asked: {answer[:300]}"
        tokens = {message["params"]["progressToken"] for message in messages(heard, PROGRESS)}
        reached = [message["params"]["progress"] for message in messages(heard, PROGRESS)]
        if reached != [0, 50, 100] or len(tokens) != 1:
            yield f"{name}: progress {reached} of {tokens}"
        logs = [message["params"]["data"] for message in messages(heard, LOG)]
        if len(logs) > 3 or (len(logs) < 3 and (client, server, transport) != IN_TIME):
            yield f"{name}: logs {logs}"


def fixture_faults(told, client, server, transport):
    yield from talk_faults(told, client, server, transport)
    for name, heard in told.items():
        if "failed" not in heard["answers"][4]:
            yield f"{name}: a call that was given up was answered: {json.dumps(heard['answers'][4])[:300]}"
        # A session hears of every list; a modern client, of what it asked for.
        wanted = changes_are_told(server, transport) and (client == "legacy" or name == "ann")
        if bool(messages(heard, TOOLS)) != wanted:
            yield f"{name}: told of changed tools {len(messages(heard, TOOLS))} times"
        requests = [message for message in heard["messages"] if "id" in message and "method" in message]
        if client == "modern" and requests:
            yield f"{name}: a request on a stream: {requests[0]}"


def everything_faults(told, *_):
    sessions = set()
    for name, heard in told.items():
        number = {"ann": 1, "bob": 2}[name]
        uris = {message["params"]["uri"] for message in messages(heard, UPDATED)}
        if uris != {f"everything+demo://resource/dynamic/text/{number}"}:
            yield f"{name}: told of {uris}"
        reached = [message["params"]["progress"] for message in messages(heard, PROGRESS)]
        if reached != [1, 2, 3, 4]:
            yield f"{name}: progress {reached}"
        logs = " ".join(str(message["params"]["data"]) for message in messages(heard, LOG))
        found = set(re.findall(r"[Ss]ession(?:Id)? ([0-9a-f-]{36})", logs))
        if len(found) > 1 or found & sessions:
            yield f"{name}: logs of sessions {found}, of the other's {sessions}"
        sessions |= found
        # The server shows these to clients that can be asked only, and the catalog declares nothing in anybody's name
        # (spec ).
        for answer in heard["answers"][4:6]:
            if answer.get("failed") != -32602:
                yield f"{name}: a tool that no list shows: {json.dumps(answer)[:300]}"


class Slow:
    """The calls that are given up, as far as the record and the server know of them."""

    def __init__(self, gateway, heard):
        self.gateway, self.heard = gateway, heard

    def recorded(self, word):
        lines = self.gateway.audit_lines()
        return len([line for line in lines if f'"{word}"' in line and "slow_compute" in line])

    def seen(self):
        """The ids of the calls that the server got, and those that were cancelled there."""
        text = self.heard.read_text() if self.heard.exists() else ""
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        calls = {line["id"] for line in lines if line.get("params", {}).get("name") == "slow_compute"}
        ended = [line for line in lines if line.get("method") == "notifications/cancelled"]
        return calls, {line["params"]["requestId"] for line in ended}

    def have_begun(self):
        return len(self.seen()[0]) == 2 if self.heard.exists() else self.recorded("intent") == 2

    def faults(self):
        """Calls that were given up are given up at the server, and on record; and what was said is nowhere kept."""
        if not await_true(lambda: self.recorded("abandoned") == 2):
            yield f"{self.recorded('abandoned')} calls on record as given up"
        if self.heard.exists() and not await_true(lambda: self.seen()[0] <= self.seen()[1]):
            yield f"calls that the server got, and those cancelled there: {self.seen()}"
        kept = self.gateway.log_text() + "".join(self.gateway.audit_lines())
        if any(marker in kept for marker in MARKERS.values()):
            yield "the log or the record holds what was said"


# ---------------------------------------------------------------- where


@contextlib.contextmanager
def gateway(folder, name, upstream):
    """A gateway before one server, and the keys of the two principals."""
    tenant = {"identity": {"keys": True}, "allow": ["sampling", "roots", "remote_roots"]}
    with Daemon(folder, {name: upstream}, None, tenant) as daemon:
        asked = {name: {"tenant": "default", "name": name, "principal": name} for name in MARKERS}
        yield (
            daemon,
            {name: re.search(r"pck_\w+", daemon.fetch("/admin/v1/keys", key))[0] for name, key in asked.items()},
        )


@contextlib.contextmanager
def fixture(era, transport, heard):
    """The fixture as an upstream; over stdio, all that it hears is kept in a file."""
    command = [str(FIXTURE), "--era", era]
    if transport == "stdio":
        yield stdio(["sh", "-c", f"tee -a '{heard}' | '{FIXTURE}' --era {era}"])
        return
    port = free_port()
    with servers.running({"fixture": ([*command, "--http", str(port)], {}, port)}) as urls:
        yield {"url": urls["fixture"]}


@contextlib.contextmanager
def everything(transport):
    command = ["node", str(servers.MODULES / "server-everything/dist/index.js")]
    if transport == "stdio":
        yield stdio([*command, "stdio"])
        return
    port = free_port()
    with servers.running({"everything": ([*command, "streamableHttp"], {"PORT": str(port)}, port)}) as urls:
        yield {"url": urls["everything"]}


def perform(folder, tell):
    """Every scene; `tell` hears what went wrong."""
    subprocess.run(["cargo", "build", "--quiet", "--package", "conformance-fixture"], cwd=ROOT, check=True)
    for transport in ("stdio", "http"):
        for server in ("legacy", "modern"):
            for client in CLIENTS:
                name = f"scene-{client}-{server}-{transport}"
                tell(name, with_fixture(folder / name, (client, server, transport)))
                tell(name.replace("scene", "talk"), with_talkers(folder / f"{name}-talk", (client, server, transport)))
        for client in CLIENTS:
            name = f"scene-{client}-everything-{transport}"
            tell(name, with_everything(folder / name, (client, "legacy", transport)))


def with_fixture(folder, wiring):
    folder.mkdir(parents=True)
    heard, (_, *server) = folder / "heard", wiring
    with fixture(*server, heard) as upstream, gateway(folder, "fixture", upstream) as place:
        slow = Slow(place[0], heard)
        scene = CLIENTS, fixture_steps, fixture_faults
        return [*faults(wiring, place, scene, slow.have_begun), *slow.faults()]


def with_talkers(folder, wiring):
    folder.mkdir(parents=True)
    with fixture(*wiring[1:], folder / "heard") as upstream, gateway(folder, "fixture", upstream) as place:
        return faults(wiring, place, (TALKERS, talk_steps, talk_faults), lambda: True)


def with_everything(folder, wiring):
    with everything(wiring[2]) as upstream, gateway(folder, "everything", upstream) as place:
        return faults(wiring, place, (CLIENTS, everything_steps, everything_faults), lambda: True)


def faults(wiring, place, scene, has_begun):
    (daemon, keys), (clients, steps, judged) = place, scene
    pair = Pair(clients[wiring[0]], daemon.url + "/mcp", keys, steps, wiring, has_begun)
    try:
        told = pair.heard()
    except RuntimeError as error:
        return [str(error)]
    return [*crossed(told), *judged(told, *wiring)]
