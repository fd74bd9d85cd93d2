"""Raw HTTP requests: what hostile clients and middle boxes send."""

import re
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

import exchange
import judge
import upstream
from stand import UPSTREAM, Stand, Watch, in_our_names

FANOUT = 20  # connections of an item that asks for many; the long form opens them all
SLOW = ("drip", "drip_after_headers")


def run(items, report):
    plain = [item for item in items if item.get("needs") != "http2" and pace(item) not in SLOW]
    slow = [item for item in items if item.get("needs") != "http2" and pace(item) in SLOW]
    http2 = [item for item in items if item.get("needs") == "http2"]
    if plain or slow:
        with tempfile.TemporaryDirectory(prefix="portcullis-attacks-") as folder, Stand(folder) as stand:
            for item in plain:
                report(item, *judged(item, stand))
            with ThreadPoolExecutor(max(1, len(slow))) as together:
                for item, verdict in zip(slow, together.map(lambda item: dripped(item, stand), slow)):
                    report(item, *verdict)
    if http2:
        with tempfile.TemporaryDirectory(prefix="portcullis-attacks-") as folder:
            with Stand(folder, {"http2": True}) as stand:
                for item in http2:
                    report(item, *framed(item, stand))


def pace(item):
    return (item.get("pace") or {}).get("mode")


def raw(item, stand):
    """The bytes of an item, with the words of this stand filled in."""
    data = (item["folder"] / item["raw"]).read_bytes()
    if item.get("needs") == "http2":
        return data
    data = named(data)
    words = {**stand.words, "RAND": f"{time.monotonic_ns():016x}"}
    for word, value in words.items():
        data = data.replace(f"@@{word}@@".encode(), value.encode())
    return data


def named(data):
    """One whole request whose tools have the names that they have here. Anything else stays as it is."""
    head, found, body = data.partition(b"\r\n\r\n")
    lengths = re.findall(rb"(?im)^content-length:[ ]*(\d+)\r?$", head)
    if not found or len(lengths) != 1 or int(lengths[0]) != len(body):
        return data
    ours = in_our_names(body)
    head = re.sub(rb"(?im)^(content-length:[ ]*)\d+", lambda m: m[1] + str(len(ours)).encode(), head)
    return re.sub(rb"(?im)^(mcp-name:[ ]*)([^\r\n]*)", name_line, head) + found + ours


def name_line(found):
    name = unquote(found[2].decode("latin-1"))
    return found[1] + (UPSTREAM.encode() + b"__" if name in upstream.TOOLS else b"") + found[2]


def judged(item, stand):
    """(faults, remarks) of an item that is sent at once, twice: whatever is chosen must be chosen again."""
    expect, mark, address = item["expect"], stand.mark(), ("127.0.0.1", stand.gateway.port)
    files = stand.files()
    with Watch(stand.gateway) as watch:
        heard = exchange.send(
            address, raw(item, stand), item.get("pace"), expect.get("connection_closed_within_s")
        )
    faults = judge.answered(expect, heard.final) + connected(expect, heard)
    faults += judge.reached(expect, stand, mark, heard.final)
    faults += judge.recorded(stand, mark, *entries(expect, heard))
    faults += judge.measured(expect, stand, mark, watch)
    faults += sentence(item, stand, heard, files)
    after, remarks = judge.afterwards(stand)
    if not pace(item):
        again = exchange.send(address, raw(item, stand), None)
        ways = [[(answer.status, answer.code) for answer in one.final] for one in (heard, again)]
        if ways[0] != ways[1]:
            faults.append(f"answered {ways[0]}, then {ways[1]}")
    faults += after + judge.written(expect, stand, mark) + judge.alive(stand)
    return faults, remarks + unchecked(item)


def dripped(item, stand):
    """The same for a slow client, of which there are many."""
    expect, address = item["expect"], ("127.0.0.1", stand.gateway.port)

    def one(_):
        return exchange.send(
            address, raw(item, stand), item["pace"], expect.get("connection_closed_within_s")
        )

    with ThreadPoolExecutor(FANOUT) as clients:
        every = list(clients.map(one, range(min(FANOUT, item.get("fanout", 1)))))
    faults = []
    for heard in every:
        faults += judge.answered(expect, heard.final) + connected(expect, heard)
    after, remarks = judge.afterwards(stand)
    return sorted(set(faults)) + after + judge.alive(stand), remarks + unchecked(item)


def entries(expect, heard):
    """(least, most) audit entries: one for each request that was known to come from somebody.

    What is refused for its HTTP alone is refused before anybody asks from whom it came.
    """
    known = [answer for answer in heard.final if answer.status != 401]
    served = [answer for answer in known if answer.result is not None]
    read = len(known) if "rpc_code" in expect else len(served)
    return read, len(known)


def connected(expect, heard):
    """Faults of the connection."""
    faults = []
    if "status_any_of" in expect and not heard.final:
        if not (expect.get("or_close_without_bytes") and heard.closed):
            faults.append("no response" + (", closed" if heard.closed else ""))
    if len(heard.final) > expect.get("responses_max", len(heard.final)):
        faults.append(f"{len(heard.final)} responses: {[answer.status for answer in heard.final]}")
    if expect.get("connection") == "must_close" and not heard.closed:
        faults.append("the connection was left open")
    if heard.seconds > expect.get("max_time_s", float("inf")) + exchange.QUIET_S:
        faults.append(f"took {heard.seconds:.1f} s")
    within = expect.get("connection_closed_within_s")
    if within and not (heard.closed and heard.seconds <= within):
        faults.append(f"not closed after {heard.seconds:.0f} s")
    if any(answer.status == 101 for answer in heard.interim):
        faults.append("the connection was upgraded")
    if any(answer.status == 100 for answer in heard.interim) and refused_early(heard):
        faults.append("100 Continue for a body that is refused")
    if "no_status_from_path" in expect:
        status = int(expect["no_status_from_path"].rsplit(" ", 1)[1])
        faults += [f"a second response {status}" for answer in heard.final[1:] if answer.status == status]
    return faults


def refused_early(heard):
    return any(answer.status in (413, 417) for answer in heard.final)


def sentence(item, stand, heard, files):
    """Faults by the sentence of an item, where it is a sentence that is understood here."""
    text = item["expect"].get("property")
    return SENTENCES[text](stand, heard, files) if text in SENTENCES else []


def session_answers(stand, heard, files):
    return [] if stand.ping(stand.words["SID_A"], stand.words["TOK_A"]) else ["A's session is gone"]


def no_session_of_a(stand, heard, files):
    return ["answered with A's session"] if stand.words["SID_A"].encode() in heard.data else []


def no_event(stand, heard, files):
    return (
        ["an event was delivered"]
        if any(answer.messages for answer in heard.final if not answer.error)
        else []
    )


def own_view(stand, heard, files):
    return ["tenant B's tools are shown"] if b"tenantb__" in heard.data else []


def nothing_forwarded(stand, heard, files):
    """The item's own headers, on a call that goes out over HTTP."""
    mark = stand.mark()
    sent = {"mcp-init-host": "internal", "router-key": "guess", "x-gateway-internal": "true"}
    answer = stand.modern("tools/call", {"name": "web__echo", "arguments": {}}, stand.words["TOK_A"], sent)
    seen = [name for call in stand.journal(mark.journal) for name in call["headers"] or {} if name in sent]
    faults = [f"forwarded: {sorted(set(seen))}"] if seen else []
    return faults + ([] if answer.result else [f"a call over HTTP: {answer.status} {answer.body[:200]}"])


def in_order(stand, heard, files):
    """Every one of them has the same question, so order shows only in that none is torn or missing its end."""
    strange = [answer.status for answer in heard.final if answer.status == 200 and answer.result is None]
    return [f"{len(strange)} responses are torn"] if strange else []


def no_task_left(stand, heard, files):
    end = time.monotonic() + 5
    while stand.files() > files and time.monotonic() < end:
        time.sleep(0.05)
    return [f"{stand.files()} open files, {files} before"] if stand.files() > files else []


SENTENCES = {
    "A's session still answers afterwards": session_answers,
    "never answered with A's session state; 200 only in stateless mode with B's own view": no_session_of_a,
    "no event of A is delivered": no_event,
    "served as the token's tenant or refused; never tenant-b's view": own_view,
    "no behaviour change; headers are not forwarded upstream": nothing_forwarded,
    "responses in order, in-flight per connection bounded": in_order,
    "no task left after 5 s": no_task_left,
}


def unchecked(item):
    """What an item asks for and nothing here looks at."""
    text = item["expect"].get("property")
    left = sorted(set(item["expect"]) - judge.HANDLED)
    return ([f"not checked: {text}"] if text and text not in SENTENCES else []) + (
        [f"not checked: {', '.join(left)}"] if left else []
    )


def framed(item, stand):
    """(faults, remarks) of an item that speaks HTTP/2."""
    expect, mark = item["expect"], stand.mark()
    with Watch(stand.gateway) as watch:
        heard = exchange.send(("127.0.0.1", stand.gateway.port), raw(item, stand), item.get("pace"))
    frames, wanted, faults = exchange.Http2(heard.data), expect.get("connection"), []
    away = heard.closed or frames.GOAWAY in frames.kinds
    if heard.data.startswith(b"HTTP/1"):
        faults.append(f"no HTTP/2: {heard.data[:60]}")
    if wanted == "must_close_or_goaway" and not away:
        faults.append(f"left open; frames {frames.kinds[:20]}")
    if wanted == "stream_error_or_400" and not (
        away or frames.RST_STREAM in frames.kinds or 400 in frames.statuses
    ):
        faults.append(
            f"neither a stream error nor 400; frames {frames.kinds[:20]}, statuses {frames.statuses}"
        )
    faults += judge.reached(expect, stand, mark, [])
    faults += judge.recorded(stand, mark, 0, 0)
    faults += judge.measured(expect, stand, mark, watch)
    after, remarks = judge.afterwards(stand)
    return faults + after + judge.written(expect, stand, mark) + judge.alive(stand), remarks + unchecked(item)
