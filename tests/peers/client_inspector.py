"""The official inspector on its command line, one run a request: lists everything and carries out a plan.

client_inspector.py TARGET PLAN, with the command of the inspector in $PEERS_INSPECTOR.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "kit"))
from lists import LISTS


def asked(url, method, *more):
    """What one run prints, as compact JSON; None where the server has no such method."""
    command = [
        *json.loads(os.environ["PEERS_INSPECTOR"]),
        "--cli",
        url,
        "--transport",
        "http",
        "--method",
        method,
    ]
    done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=60)
    if done.returncode:
        if "-32601" in done.stderr or "not support" in done.stderr:
            return None
        raise RuntimeError(f"{method} {more}: {done.returncode} {done.stderr[-600:]} {done.stdout[-300:]}")
    return json.loads(done.stdout)


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def pairs(option, arguments):
    """`key=value` arguments. The inspector reads a value as JSON where it can."""
    shown = [
        f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in arguments.items()
    ]
    return [part for pair in shown for part in (option, pair)]


def answer(url, method, params):
    match method:
        case "tools/call":
            more = ["--tool-name", params["name"], *pairs("--tool-arg", params["arguments"])]
        case "resources/read":
            more = ["--uri", params["uri"]]
        case "prompts/get":
            more = ["--prompt-name", params["name"], *pairs("--prompt-args", params.get("arguments", {}))]
    return compact(asked(url, method, *more))


def main():
    target, plan = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    url = target["url"]
    with ThreadPoolExecutor(2) as runs:
        pages = runs.map(lambda member: asked(url, LISTS[member][0]), LISTS)
        lists = {
            member: [compact(item) for item in (page or {}).get(member, [])]
            for member, page in zip(LISTS, pages)
        }
        answers = list(runs.map(lambda request: answer(url, *request), plan))
    print(json.dumps({"revision": None, "lists": lists, "answers": answers}))


main()
