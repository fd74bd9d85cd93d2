"""Tokens of an issuer: which are accepted, and where the others are refused."""

import json
import tempfile
from pathlib import Path

import exchange
import judge
from stand import MODERN, Stand, Watch

REPEAT_MAX = 200  # tokens of an item that asks for thousands
HEAD_MAX = 16 << 10  # bytes of a token above which its head may be refused as too large
ISSUER = "https://issuer.example/a"
AUDIENCE, OTHER = "http://localhost:7420/t/tenant-a/mcp", "http://localhost:7420/t/tenant-b/mcp"
PATH = "/t/tenant-a/mcp"


def run(items, report):
    import tokens  # needs `cryptography`, which no other part does

    keys = tokens.Keys()
    issuer = tokens.Issuer(keys, ISSUER, AUDIENCE, OTHER)
    with tempfile.TemporaryDirectory(prefix="portcullis-attacks-") as folder:
        jwks = Path(folder) / "jwks.json"
        jwks.write_text(json.dumps(keys.jwks()))
        identity = {"issuers": [{"issuer": ISSUER, "jwks": str(jwks), "audience": AUDIENCE}]}
        with Stand(folder, identity=identity) as stand:
            for item in items:
                why = undecidable(item["recipe"])
                if why:
                    report.skip(item, why)
                else:
                    report(item, *judged(item, issuer, stand))


def undecidable(recipe):
    """Why an item cannot be judged yet, or None."""
    claims = {**recipe.get("payload", {}), **{dropped.split(".")[1]: 0 for dropped in recipe.get("drop", [])}}
    if "tenant" in claims:
        return "needs `claims.tenant`: the tenant follows from the issuer alone yet"
    if set(recipe.get("idp", [])) - {"ok"}:
        return "needs an issuer whose keys are read again: they are read at start only yet"
    if "clock" in recipe:
        return "needs a clock of its own"
    return None


def judged(item, issuer, stand):
    expect, mark, faults = item["expect"], stand.mark(), []
    repeat = min(item["recipe"].get("repeat", 1), REPEAT_MAX)
    with Watch(stand.gateway) as watch:
        for number in range(repeat):
            token = issuer.token(item["recipe"], number)
            answers = shown(token, stand)
            faults += verdict(expect, answers, token, stand, mark)
    faults += judge.measured(expect, stand, mark, watch)
    after, remarks = judge.afterwards(stand)
    known = f"not checked: {expect['property']}" if "property" in expect else None
    faults = list(dict.fromkeys(faults))[:5]
    return faults + after + judge.written(expect, stand, mark) + judge.alive(stand), remarks + [known] * bool(
        known
    )


def shown(token, stand):
    """The responses to a request with this token, whatever bytes it has."""
    body = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":'
        b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        b'"io.modelcontextprotocol/clientCapabilities":{}}}}'
    )
    head = {
        **stand.headers("", MODERN),
        "host": stand.words["HOST"],
        "mcp-method": "tools/list",
        "content-length": str(len(body)),
    }
    head.pop("authorization")
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items()).encode()
    line = b"authorization: Bearer " + token.encode("utf-8", "surrogatepass") + b"\r\n"
    raw = f"POST {PATH} HTTP/1.1\r\n".encode() + lines + line + b"\r\n" + body
    return exchange.send(("127.0.0.1", stand.gateway.port), raw, None).final


def verdict(expect, answers, token, stand, mark):
    if not answers:
        return ["no response"]
    answer, faults = answers[0], []
    allowed = expect["http_any_of"]
    # Bytes that no header may hold are refused as HTTP, before anyone looks at the token.
    if any(character in token for character in "\0\r\n"):
        allowed = [*allowed, 400]
    if len(token) > HEAD_MAX:
        allowed = [*allowed, 400, 431]
    if answer.status not in allowed:
        faults.append(f"status {answer.status}, expected {allowed}: {answer.body[:200]}")
    if expect["result"] == "accept" and answer.status == 200 and answer.result is None:
        faults.append(f"no result: {answer.body[:200]}")
    if answer.status == 401 and not answer.headers.get("www-authenticate", "").startswith("Bearer"):
        faults.append("401 without a challenge")
    if len(token) > 32 and token in json.dumps([stand.gateway.log_text()[mark.log :], *stand.audit(mark)]):
        faults.append("the token is in log or audit")
    return faults
