"""An MCP server that plays a script, on standard input and output or over HTTP: `scripted.py SCRIPT.json [http]`.

The script's folder is where it leaves its journal (every line it received) and looks for cues and gates, which are
empty files. Texts that begin with `raw` are written as they stand, after `${id}`, `${token}`, `${pid}`, `${params}` and
`${answer}`. Over HTTP each session counts as a process, and the port is left in the folder too.
"""

import json
import os
import subprocess
import sys
import threading
import time

PATH = sys.argv[1]
HOME = os.path.dirname(PATH)
SCRIPT = json.load(open(PATH, encoding="utf-8"))
LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
pages = SCRIPT["lists"]
writing = threading.Lock()
# What was asked of the client and is not answered yet, by session and raw id.
asked = {}
# Over HTTP, what the running thread serves: its session, the session's number, and where it writes.
here = threading.local()


def pid():
    return getattr(here, "number", os.getpid())


def note(**entry):
    """Leaves one line in the journal."""
    line = json.dumps({"pid": pid(), **entry}, ensure_ascii=False) + "\n"
    journal = os.open(HOME + "/journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(journal, line.encode("utf-8", "surrogateescape"))
    os.close(journal)


def write(data):
    sink = getattr(here, "sink", None)
    if sink:
        return sink(data)
    with writing:
        out = sys.stdout.buffer
        out.write(data)
        out.flush()


def send(text):
    write(text.encode("utf-8", "surrogateescape") + b"\n")


def answer(message, result):
    send('{"jsonrpc":"2.0","id":%s,"result":%s}' % (json.dumps(message["id"]), result))


def refuse(message, code, text):
    send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": text}}))


def fill(raw, message, answered=None):
    params = message.get("params", {}) if message else {}
    meta = params.get("_meta", {})
    for key, value in (
        ("params", json.dumps(params)),
        ("answer", json.dumps(answered)),
        ("id", json.dumps(message.get("id") if message else None)),
        ("token", json.dumps(meta.get("progressToken"))),
        ("pid", str(pid())),
    ):
        raw = raw.replace("${%s}" % key, value)
    return raw


def await_file(name):
    path = HOME + "/" + name
    while not os.path.exists(path):
        time.sleep(0.005)


def ask(question):
    """Asks the client, and waits for what it says."""
    slot = asked[getattr(here, "session", None), question["id"]] = {"heard": threading.Event()}
    send('{"jsonrpc":"2.0","id":%s,"method":"%s","params":%s}' % (question["id"], question["method"], question["params"]))
    slot["heard"].wait()
    return {key: value for key, value in slot["said"].items() if key in ("result", "error")}


def play(steps, message=None):
    """Plays steps one after the other."""
    answered = None
    for step in steps:
        (what, value), = step.items()
        if what == "result":
            answer(message, fill(value, message, answered))
        elif what == "ask":
            answered = ask({key: fill(raw, message) for key, raw in value.items()})
        elif what == "rounds":
            params = message["params"]
            again = "inputResponses" in params or "requestState" in params
            play(value["then" if again else "first"], message)
        elif what == "when":
            is_open = os.path.exists(HOME + "/gate-" + value["gate"])
            play(value["then" if is_open else "before"], message)
        elif what == "error":
            send('{"jsonrpc":"2.0","id":%s,"error":%s}' % (json.dumps(message["id"]), value))
        elif what == "send":
            send(fill(value, message))
        elif what == "bytes":
            write(bytes(value))
        elif what == "big":
            text = '{"content":[{"type":"text","text":"%s"}]}' % ("x" * value)
            answer(message, text)
        elif what == "gate":
            note(event="waits", gate=value)
            await_file("gate-" + value)
        elif what == "exit":
            os._exit(value)
        elif what == "silent":
            while True:
                time.sleep(3600)
        elif what == "stderr":
            sys.stderr.write("".join("noise %d on the error stream\n" % n for n in range(value)))
            sys.stderr.flush()
        elif what == "complains":
            sys.stderr.write(value + "\n")
            sys.stderr.flush()
        elif what == "noise":
            write(b"".join(b"noise %d, no JSON at all\n" % n for n in range(value)))
        elif what == "list":
            pages[value["method"]] = value["pages"]
        elif what == "copy":
            data = open(os.path.join(HOME, "../..", value), "rb").read()
            open(HOME + "/copied", "wb").write(data)
        elif what == "note":
            note(event=value)
        else:
            raise SystemExit("unknown step " + what)


def hello(message):
    result = {
        "protocolVersion": SCRIPT.get("revision") or message["params"]["protocolVersion"],
        "serverInfo": {"name": "scripted", "version": "1"},
    }
    if SCRIPT.get("instructions"):
        result["instructions"] = SCRIPT["instructions"]
    text = json.dumps(result)
    answer(message, text[:-1] + ',"capabilities":' + SCRIPT["capabilities"] + "}")


def listed(message, method):
    if method not in pages:
        return refuse(message, -32601, "no such list")
    cursor = message.get("params", {}).get("cursor")
    page = next((page for page in pages[method] if page["at"] == cursor), None)
    if page is None:
        return refuse(message, -32602, "no such cursor")
    after = ',"nextCursor":' + page["next"] if page["next"] is not None else ""
    answer(message, '{"%s":[%s]%s}' % (LISTS[method], ",".join(page["items"]), after))


def otherwise(message, method):
    """What a plain server would answer."""
    params = message.get("params", {})
    if method == "tools/call":
        told = {"pid": pid(), "params": params}
        answer(message, json.dumps({"content": [{"type": "text", "text": params["name"]}], "structuredContent": told}))
    elif method == "resources/read":
        answer(message, json.dumps({"contents": [{"uri": params["uri"], "text": SCRIPT["id"]}]}))
    elif method == "prompts/get":
        content = {"type": "text", "text": "%s of %s" % (params["name"], SCRIPT["id"])}
        answer(message, json.dumps({"messages": [{"role": "user", "content": content}]}))
    elif method == "completion/complete":
        answer(message, json.dumps({"completion": {"values": [json.dumps(params["ref"])]}}))
    elif method == "ping":
        answer(message, "{}")
    else:
        refuse(message, -32601, "unknown method")


def receive(message):
    method = message.get("method")
    answered = getattr(here, "session", None), json.dumps(message.get("id"))
    if method is None and answered in asked:
        slot = asked.pop(answered)
        slot["said"] = message
        slot["heard"].set()
    if method is None or "id" not in message:
        return
    params = message.get("params", {})
    steps = SCRIPT["calls"].get(params.get("name")) if method == "tools/call" else None
    steps = steps or SCRIPT["methods"].get(method)
    if steps is not None and getattr(here, "sink", None):
        # The thread of its connection.
        play(steps, message)
    elif steps is not None:
        # Each on its own: a script that waits holds up nothing else.
        threading.Thread(target=play, args=(steps, message), daemon=True).start()
    elif method == "initialize":
        hello(message)
    elif method == "server/discover" and SCRIPT.get("modern"):
        more = ',"instructions":' + json.dumps(SCRIPT["instructions"]) if SCRIPT.get("instructions") else ""
        told = SCRIPT["capabilities"] + more
        answer(message, '{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":%s}' % told)
    elif method in LISTS:
        listed(message, method)
    else:
        otherwise(message, method)


def wait_for_cue(name, steps, sink):
    here.sink = sink
    await_file("cue-" + name)
    play(steps)


def speaks(handler, session, number):
    """This thread serves a message of this session from now on."""
    here.session, here.number, here.sink = session, number, None


def sink(write):
    here.sink = write


def over_http():
    """The HTTP side of this server, with a port that is known once it listens."""
    # Isolated, so that nothing beside this file is found by itself; and nothing is left there.
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import scripted_http

    functions = {"note": note, "receive": receive, "speaks": speaks, "sink": sink, "modern": SCRIPT.get("modern")}
    server, port = scripted_http.listen(functions)
    with open(HOME + "/port.new", "w") as file:
        file.write(str(port))
    os.rename(HOME + "/port.new", HOME + "/port")
    return server, scripted_http.everywhere


def main():
    note(event="start")
    if SCRIPT["child"]:
        # A wrapper's child and, in a session of its own, a grandchild that ignores what it is told.
        forever = "import os, signal, time; signal.signal(15, 1); signal.signal(1, 1); print(os.getpid(), flush=True); time.sleep(3600)"
        for detached in (False, True):
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", forever],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=detached,
            )
            note(event="child", child=int(child.stdout.readline()))
    play(SCRIPT["start"])
    server, everywhere = over_http() if sys.argv[2:] == ["http"] else (None, None)
    for name, steps in SCRIPT["cues"].items():
        threading.Thread(target=wait_for_cue, args=(name, steps, everywhere), daemon=True).start()
    if server:
        return server.serve_forever()
    for line in sys.stdin.buffer:
        text = line.decode("utf-8", "surrogateescape").rstrip("\n")
        note(got=text)
        receive(json.loads(text))
    note(event="end")


main()
