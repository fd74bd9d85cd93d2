"""A stdio server with one tool, `echo`, that answers at once."""

import json
import sys

TOOL = {"name": "echo", "description": "Says it again", "inputSchema": {"type": "object"}}


def answer(message):
    params = message.get("params") or {}
    match message["method"]:
        case "initialize":
            revision = params["protocolVersion"]
            server = {"name": "echo", "version": "1"}
            return {"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": server}
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            return {"content": [{"type": "text", "text": json.dumps(params.get("arguments"))}]}
        case "ping":
            return {}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    result = answer(message)
    told = {"result": result} if result is not None else {"error": {"code": -32601, "message": "unknown"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **told}), flush=True)
