"""Our own minimal client: lists everything and carries out a plan. client_raw.py TARGET PLAN [modern]."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "kit"))
from client import Http, Modern, Stdio
from lists import LISTS


def main():
    target, plan = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    if "url" in target:
        client = (Modern if sys.argv[3:] == ["modern"] else Http)(target["url"])
    else:
        client = Stdio(target["command"], target["env"])
    client.open()
    lists = {member: client.items(member) for member in LISTS}
    answers = [client.result(method, params) for method, params in plan]
    client.close()
    print(json.dumps({"revision": client.revision, "lists": lists, "answers": answers}))


main()
