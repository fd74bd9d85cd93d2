"""Paths and assertions of gwcase/1."""

import re

from up import J


class Fail(Exception):
    pass


MISSING = object()


def get(doc, path):
    if path in ("", "/"):
        return doc
    segs = re.findall(r"/((?:\[[^\]]*\]|[^/\[])*)", path)

    def walk(v, i):
        if i == len(segs):
            return v
        g = segs[i]
        if g == "*":
            if isinstance(v, dict):
                v = list(v.values())
            if not isinstance(v, list):
                return MISSING
            return [x for x in (walk(e, i + 1) for e in v) if x is not MISSING]
        if g.startswith("["):
            k, _, x = g[1:-1].partition("=")
            x = x.replace("~1", "/").replace("~0", "~")
            if not isinstance(v, list):
                return MISSING
            for e in v:
                if isinstance(e, dict) and str(e.get(k, MISSING)) == x:
                    return walk(e, i + 1)
            return MISSING
        g = g.replace("~1", "/").replace("~0", "~")
        if isinstance(v, dict):
            return walk(v[g], i + 1) if g in v else MISSING
        if isinstance(v, list):
            try:
                return walk(v[int(g)], i + 1)
            except (ValueError, IndexError):
                return MISSING
        return MISSING

    return walk(doc, 0)


def deq(a, b):
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return type(a) == type(b) and a == b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(deq(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(deq, a, b))
    return type(a) == type(b) and a == b


def sup(a, b):
    if isinstance(b, dict):
        return isinstance(a, dict) and all(k in a and sup(a[k], v) for k, v in b.items())
    return deq(a, b)


def check(a, doc):
    if "any" in a:
        errs = []
        for alt in a["any"]:
            e = [x for x in (check(y, doc) for y in alt) if x]
            if not e:
                return None
            errs.append(e[0])
        return "none of: " + " / ".join(errs)
    v = get(doc, a["at"])
    op = a["op"]
    x = a.get("value")

    def has(c, i):
        return (
            (i in c)
            if isinstance(c, str) and isinstance(i, str)
            else any(deq(e, i) for e in c) if isinstance(c, list) else False
        )

    num = isinstance(v, (int, float)) and not isinstance(v, bool)
    if op == "missing":
        ok = v is MISSING
    elif op == "exists":
        ok = v is not MISSING
    elif op == "ne":
        ok = v is MISSING or not deq(v, x)
    elif op == "lacks":
        ok = v is MISSING or not has(v, x)
    elif op == "not_matches":
        ok = v is MISSING or (isinstance(v, str) and not re.search(x, v))
    elif v is MISSING:
        ok = False
    elif op == "eq":
        ok = deq(v, x)
    elif op == "in":
        ok = any(deq(v, y) for y in x)
    elif op == "len":
        ok = hasattr(v, "__len__") and len(v) == x
    elif op == "min_len":
        ok = hasattr(v, "__len__") and len(v) >= x
    elif op == "max_len":
        ok = hasattr(v, "__len__") and len(v) <= x
    elif op == "contains":
        ok = has(v, x)
    elif op == "matches":
        ok = isinstance(v, str) and bool(re.search(x, v))
    elif op in ("lt", "le", "gt", "ge"):
        ok = num and {"lt": v < x, "le": v <= x, "gt": v > x, "ge": v >= x}[op]
    elif op == "type":
        ok = {
            "object": isinstance(v, dict),
            "array": isinstance(v, list),
            "string": isinstance(v, str),
            "integer": isinstance(v, int) and not isinstance(v, bool),
            "number": num,
            "boolean": isinstance(v, bool),
            "null": v is None,
        }[x]
    elif op == "superset":
        ok = sup(v, x)
    elif op == "unique":
        ok = isinstance(v, list) and len({J(e) for e in v}) == len(v)
    elif op == "same":
        ok = deq(v, get(doc, x))
    else:
        raise Fail("unknown op " + op)
    if ok:
        return None
    s = "missing" if v is MISSING else J(v)
    return f"{a['at']} {op} {J(x) if 'value' in a else ''}: got {s[:300]}"
