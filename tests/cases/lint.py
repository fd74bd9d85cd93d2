#!/usr/bin/env python3
"""lint.py [--cases DIR] [ID...]: checks every case.json against FORMAT.md (gwcase/1). Exit 1 on any finding."""

import argparse, json, os, re, sys

CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "public")
KINDS = set(
    """schema-fidelity payload-fidelity text-encoding number-fidelity json-rpc-envelope parser-differential
naming name-collision filtering pagination notification-fanout capability-advertising resource-routing partial-failure
process-lifecycle stdio-framing upstream-transport upstream-session concurrency reverse-request-routing cancellation
retry-semantics session-lifecycle session-leak streaming content-negotiation version-negotiation url-and-proxy
auth-challenge token-validation token-refresh browser-cors credential-boundary secret-leak tenant-isolation egress-ssrf
audit-gap rate-limit approval-binding metrics-cardinality tracing tool-poisoning pin-coverage config-reload
env-expansion shutdown openapi-facade""".split()
)
TOP = set(
    "format id title source kind description basis requires timeout_s upstreams gateway idp clients steps".split()
)
REQ = set(
    """stdio http-upstream modern auth policy filters rate-limit approval audit metrics openapi pins reload process
logs tracing sanitize prompts resources reverse limits egress""".split()
)
UP = set(
    """transport tools resources templates prompts contents on_call capabilities instructions protocolVersion page_size
cursor_bug startup_ms list_delay_ms silent die_at_start refuse noise flood_bytes chunk grandchild id_as_string session
get_status reply_as ctype prelude redirect need_header tools_by_header env args""".split()
)
HTTP_ONLY = set(
    "refuse session get_status reply_as ctype prelude redirect need_header tools_by_header".split()
)
STDIO_ONLY = set("die_at_start noise flood_bytes grandchild env args".split())
BEH = set("delay_ms notify gap_ms ask hold_ms exit close error result raw_result pad_bytes".split())
GW = set(
    """auth allowed_origins allowed_hosts public_url upstreams policies rate_limits session_idle_s keepalive_s
max_message_bytes call_timeout_ms list_timeout_ms audit metrics openapi sanitize raw_env egress""".split()
)
GWUP = set("include includeRegex headers timeout_ms start_timeout_ms pin approve scope".split())
AUTH = set("audience required_scopes leeway_s".split())
CL = set("era version capabilities token headers accept".split())
OPS = set(
    """eq ne in exists missing len min_len max_len contains lacks matches not_matches lt le gt ge type superset unique
same""".split()
)
NOVAL = {"exists", "missing", "unique"}
ACT = {  # action: (must have, may have); None = not an object
    "init": ("", "raw"),
    "rpc": ("method", "params id meta headers"),
    "notify": ("method", "params"),
    "http": ("method path", "headers json body session"),
    "list_all": ("method key max_pages", ""),
    "listen": ("as", ""),
    "heard": ("as within_ms", "until"),
    "answer": ("to with within_ms", ""),
    "start": ("as step", ""),
    "join": ("as within_ms", ""),
    "drop": ("as", ""),
    "parallel": None,
    "repeat": ("times steps", ""),
    "sleep": None,
    "upstream": ("name do", "method params times patch"),
    "seen": ("name", ""),
    "process": ("", ""),
    "gateway": ("do", "within_ms patch"),
    "idp": ("do", ""),
    "logs": ("", ""),
    "metrics": ("", ""),
    "openapi": ("", "client"),
    "rest_call": ("upstream tool args", ""),
    "approve": ("decision tool", ""),
}
DO = {
    "upstream": {"emit", "set", "expire", "crash", "stop", "start"},
    "gateway": {"reload", "term", "ready"},
    "idp": {"rotate", "down", "up", "stats"},
}
PH = set("gw mcp ns uri var token up idp rand env".split())


def lint(d, text, folder):
    bad = []
    add = bad.append

    def keys(where, o, allowed):
        for k in sorted(set(o) - allowed):
            add(f"{where}: unknown key {k!r}")

    keys("top", d, TOP | {"set"})
    for k in TOP - {"gateway", "idp", "clients"}:
        if k not in d:
            add(f"top: {k} is missing")
    if bad and any("missing" in b for b in bad):
        return bad
    if d["format"] != "gwcase/1":
        add("format is not gwcase/1")
    if d["id"] != folder:
        add(f'id {d["id"]} in folder {folder}')
    if d["kind"] not in KINDS:
        add("kind: " + d["kind"])
    if d["basis"] not in ("spec", "product"):
        add("basis: " + d["basis"])
    if not d["source"]:
        add("no source")
    for s in d["source"]:
        keys("source", s, {"ref", "url", "date"})
        if not re.fullmatch(r"https://\S+", s.get("url", "")):
            add(f'source url {s.get("url")!r}')
        if s.get("date") and not re.fullmatch(r"\d{4}-\d\d-\d\d|not shown", s["date"]):
            add(f'source date {s["date"]!r}')
    for r in d["requires"]:
        if r not in REQ:
            add(f"requires: {r!r}")
    need = set()
    ups = set(d["upstreams"])
    toks = set((d.get("idp") or {}).get("tokens", {}))
    saved = set()
    bg = set()
    ls = set()

    def one_up(n, u, partial=False):
        keys(f"upstream {n}", u, UP)
        t = u.get("transport", "stdio")
        if not partial:
            if t not in ("stdio", "http"):
                add(f"upstream {n}: transport {t!r}")
            need.add("stdio" if t == "stdio" else "http-upstream")
            for k in set(u) & (HTTP_ONLY if t == "stdio" else STDIO_ONLY):
                add(f"upstream {n}: {k} does not fit {t}")
        if u.get("prompts"):
            need.add("prompts")
        if u.get("resources") or u.get("templates"):
            need.add("resources")
        for t, b in u.get("on_call", {}).items():
            keys(f"on_call {t}", b, BEH)
            if "ask" in b:
                need.add("reverse")
            if len(set(b) & {"exit", "close", "error", "result", "raw_result", "pad_bytes"}) > 1:
                add(f"on_call {t}: two endings")

    for n, u in d["upstreams"].items():
        one_up(n, u)

    def one_gw(g):
        keys("gateway", g, GW)
        for n, u in (g.get("upstreams") or {}).items():
            if u is not None:
                keys(f"gateway.upstreams {n}", u, GWUP)
            if u and ({"include", "includeRegex"} & set(u)):
                need.add("filters")
            if u and "pin" in u:
                need.add("pins")
            if u and "approve" in u:
                need.add("approval")
        keys("auth", g.get("auth", {}), AUTH)
        for k, r in {
            "auth": "auth",
            "policies": "policy",
            "rate_limits": "rate-limit",
            "audit": "audit",
            "metrics": "metrics",
            "openapi": "openapi",
            "sanitize": "sanitize",
            "egress": "egress",
        }.items():
            if k in g:
                need.add(r)
        for p in g.get("policies", []):
            keys("policy", p, {"effect", "users", "upstream", "tools"})
        for p in g.get("rate_limits", []):
            keys("rate_limit", p, {"by", "method", "limit", "per_s"})

    one_gw(d.get("gateway", {}))
    for n in d.get("gateway", {}).get("upstreams", {}):
        if n not in ups:
            add(f"gateway.upstreams: {n} is not an upstream of the case")
    if "idp" in d:
        keys("idp", d["idp"], {"tokens"})
        if "auth" not in d.get("gateway", {}):
            add("idp without gateway.auth")
    elif "auth" in d.get("gateway", {}):
        add("gateway.auth without idp")
    for n, c in d.get("clients", {}).items():
        keys(f"client {n}", c, CL)
        if c.get("era") == "modern":
            need.add("modern")
        if "token" in c and c["token"] not in toks:
            add(f'client {n}: token {c["token"]!r} not in idp')

    def assertion(x, where):
        if "any" in x:
            keys(where, x, {"any"})
            for l in x["any"]:
                for y in l:
                    assertion(y, where)
            return
        keys(where, x, {"at", "op", "value"})
        if x.get("op") not in OPS:
            return add(f'{where}: op {x.get("op")!r}')
        if not isinstance(x.get("at"), str) or (x["at"] and not x["at"].startswith("/")):
            add(f'{where}: at {x.get("at")!r}')
        if x["op"] not in NOVAL and "value" not in x:
            add(f'{where}: {x["op"]} without value')
        if x["op"] in ("matches", "not_matches") and "${" not in str(x["value"]):
            try:
                re.compile(x["value"])
            except (re.error, TypeError) as e:
                add(f'{where}: bad regex {x["value"]!r}: {e}')

    n_exp = 0

    def step(s, where):
        nonlocal n_exp
        a = [k for k in s if k not in ("client", "expect", "save", "note")]
        if len(a) != 1:
            return add(f"{where}: {len(a)} actions {a}")
        a = a[0]
        v = s[a]
        n_exp += len(s.get("expect", []))
        if a not in ACT:
            return add(f"{where}: unknown action {a!r}")
        if ACT[a]:
            must, may = [set(q.split()) for q in ACT[a]]
            keys(f"{where} {a}", v, must | may)
            for k in must - set(v):
                add(f"{where} {a}: {k} is missing")
        if a in DO and v.get("do") not in DO[a]:
            add(f'{where} {a}: do {v.get("do")!r}')
        if a == "http" and "json" in v and "body" in v:
            add(f"{where}: json and body")
        if a in ("upstream", "seen") and v.get("name") not in ups:
            add(f'{where}: upstream {v.get("name")!r}')
        if a == "upstream" and v.get("do") == "set":
            one_up(v["name"], v.get("patch", {}), True)
        if a == "gateway" and v.get("do") == "reload":
            need.add("reload")
            p = dict(v.get("patch", {}))
            for n, u in (p.pop("upstreams", None) or {}).items():
                if u is not None:
                    one_up(n, {k: q for k, q in u.items() if k not in GWUP}, n in ups)
                ups.add(n)
            one_gw(p)
        if a == "start":
            bg.add(v["as"])
            step(v["step"], where + ".start")
        if a in ("join", "drop") and v.get("as") not in bg:
            add(f'{where}: {a} of unknown {v.get("as")!r}')
        if a == "listen":
            ls.add(v["as"])
        if a == "heard":
            if v.get("as") not in ls:
                add(f'{where}: heard of unknown {v.get("as")!r}')
            if "until" in v:
                assertion(v["until"], where)
        if a == "parallel":
            for i, x in enumerate(v):
                step(x, f"{where}.{i}")
        if a == "repeat":
            for i, x in enumerate(v["steps"]):
                step(x, f"{where}.{i}")
        need.update(
            {
                "process": {"process"},
                "logs": set(),
                "metrics": {"metrics"},
                "openapi": {"openapi"},
                "rest_call": {"openapi"},
                "approve": {"approval"},
            }.get(a, set())
        )
        if a == "answer":
            need.add("reverse")
        m = v.get("method", "") if isinstance(v, dict) else ""
        if a == "rpc" and m == "prompts/get":
            need.add("prompts")
        if a == "rpc" and m == "resources/read":
            need.add("resources")
        saved.update(s.get("save", {}))
        for i, x in enumerate(s.get("expect", [])):
            assertion(x, f"{where} expect {i}")

    for i, s in enumerate(d["steps"]):
        step(s, f"step {i}")
    if not n_exp:
        add("asserts nothing")
    for k, b in re.findall(r"\$\{([a-z]+)(?::([^}]*))?\}", text):
        if k not in PH:
            add(f"unknown placeholder {k}")
        if k == "var" and b not in saved:
            add(f"${{var:{b}}} is never saved")
        if k == "token" and b not in toks:
            add(f"${{token:{b}}} is not in idp")
        if k in ("ns", "up") and b.split(":")[0] not in ups and "$" not in b:
            add(f"${{{k}:{b}}}: no such upstream")
    for r in sorted(need - set(d["requires"])):
        add(f"requires lacks {r!r}")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default=CASES, metavar="DIR")
    parser.add_argument("ids", nargs="*", metavar="ID")
    options = parser.parse_args()
    count = findings = 0
    for folder in sorted(os.listdir(options.cases)):
        path = os.path.join(options.cases, folder, "case.json")
        if not os.path.isfile(path) or (options.ids and folder not in options.ids):
            continue
        text = open(path, encoding="utf-8").read()
        count += 1
        try:
            found = lint(json.loads(text), text, folder)
        except ValueError as error:
            found = [f"not JSON: {error}"]
        findings += len(found)
        for finding in found:
            print(f"{folder}: {finding}")
    print(f"{count} cases, {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
