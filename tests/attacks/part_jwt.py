"""Tokens of an issuer: which are accepted, and where the others are refused."""

import json
import tempfile
from pathlib import Path

import exchange
import judge
from issuer import Provider
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
        identity = identified(ISSUER, jwks=str(jwks))
        with Stand(folder, identity=identity) as stand:
            for item in items:
                if "idp" in item["recipe"]:
                    continue
                if "clock" in item["recipe"]:
                    report.skip(item, "needs a clock of its own")
                else:
                    report(item, *judged(item, issuer, stand))
    for item in items:
        if "idp" in item["recipe"]:
            by_provider(item, keys, report)


def identified(issuer, **more):
    return {"issuers": [{"issuer": issuer, "audience": AUDIENCE, "claims": {"tenant": "tenant"}, **more}]}


def by_provider(item, keys, report):
    """An item about an issuer that is read while the gateway runs: its script says how that goes."""
    import tokens

    script = item["recipe"]["idp"]
    unknown = [word for word in script if word.rstrip("*").partition(":")[0] not in Provider.WORDS]
    if unknown or "clock" in item["recipe"]:
        return report.skip(item, f"no provider does this: {unknown or 'clock'}")
    folder = tempfile.TemporaryDirectory(prefix="portcullis-attacks-")
    with folder as place, Provider(keys) as provider:
        issuer = tokens.Issuer(keys, provider.url, AUDIENCE, OTHER)
        provider.state = script[0]
        with Stand(place, identity=identified(provider.url)) as stand:
            for word in script[1:]:
                # A key that nobody knows has the keys read again.
                provider.state, before = word, provider.fetched
                shown(issuer.token({"sign": {"alg": "RS256", "key": "rsa_att"}}), stand)
                if provider.fetched == before:
                    raise RuntimeError(f"{item['id']}: the keys were not read again")
            report(item, *judged(item, issuer, stand))


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
