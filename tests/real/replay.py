"""A stdio MCP server that answers from a recorded file: replay.py FILE. What was recorded as text goes out as it was."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "kit"))
import raw
from lists import LISTS

UNKNOWN = {"error": {"code": -32601, "message": "Method not found"}}


def pages(recording, member):
    """The texts of the results of a recorded list, page by page; None for a list the server does not have."""
    items = recording.get(member)
    if not isinstance(items, list):
        return None
    texts = (recording.get("raw") or {}).get(LISTS[member][0]) or []
    results = [raw.value(text, "result") for text in texts]
    if results and all(results):
        return results
    return [json.dumps({member: items}, ensure_ascii=False)]


def introduction(recording):
    """The text of the initialize result; made up where none was recorded."""
    text = (recording.get("raw") or {}).get("initialize")
    if text and raw.value(text, "result"):
        return raw.value(text, "result")
    if "protocolVersion" in (recording.get("initialize") or {}):
        return json.dumps(recording["initialize"], ensure_ascii=False)
    offered = {
        "tools": "tools",
        "resources": "resources",
        "resourceTemplates": "resources",
        "prompts": "prompts",
    }
    capabilities = {name: {} for member, name in offered.items() if isinstance(recording.get(member), list)}
    server = {"name": "recorded", "version": "1"}
    return json.dumps({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": server})


def answers(recording):
    """(method, cursor) -> the text of a result."""
    found = {("initialize", None): introduction(recording), ("ping", None): "{}"}
    for member, (method, _) in LISTS.items():
        cursor = None
        for page in pages(recording, member) or []:
            found[method, cursor] = page
            cursor = json.loads(page).get("nextCursor")
    return found


def discovery(recording):
    """What it said to server/discover: an answer, nothing (null), or never asked."""
    asked = [value for key, value in recording.items() if key.startswith("server_discover")]
    return asked[0] if asked else UNKNOWN


def main():
    recording = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    known, discovered = answers(recording), discovery(recording)

    def say(text):
        sys.stdout.buffer.write(text.encode() + b"\n")
        sys.stdout.buffer.flush()

    for line in recording.get("stdout_noise") or []:
        say(line)
    for line in sys.stdin.buffer:
        message = json.loads(line)
        method, identity = message.get("method"), message.get("id")
        if method is None or identity is None:
            continue
        head = f'{{"jsonrpc":"2.0","id":{json.dumps(identity)},'
        result = known.get((method, (message.get("params") or {}).get("cursor")))
        if result is not None:
            say(f'{head}"result":{result}}}')
        elif method != "server/discover":
            say(f'{head}"error":{json.dumps(UNKNOWN["error"])}}}')
        elif discovered is not None:
            outcome = "result" if "result" in discovered else "error"
            say(f'{head}"{outcome}":{json.dumps(discovered[outcome], ensure_ascii=False)}}}')


if __name__ == "__main__":
    main()
