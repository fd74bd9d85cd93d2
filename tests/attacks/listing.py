#!/usr/bin/env python3
"""A server on stdio that lists the tools and resources named in a JSON file: listing.py FILE."""

import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    named = json.load(file)
ANSWERS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "resources": {}},
        "serverInfo": {"name": "listing", "version": "1"},
    },
    "tools/list": {
        "tools": [{"name": name, "inputSchema": {"type": "object"}} for name in named["tools"]]
    },
    "resources/list": {"resources": [{"uri": uri, "name": "r"} for uri in named["resources"]]},
    "resources/templates/list": {"resourceTemplates": []},
    "ping": {},
}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    head = {"jsonrpc": "2.0", "id": message["id"]}
    result = ANSWERS.get(message["method"])
    unknown = {"error": {"code": -32601, "message": "no such method"}}
    print(json.dumps({**head, **({"result": result} if result is not None else unknown)}), flush=True)
