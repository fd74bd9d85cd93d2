"""Malformed and hostile messages in legal HTTP: what a broken or hostile client puts into the body."""

import base64
import json
import re
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import items as corpus
import judge
from stand import LEGACY, MODERN, Stand, Watch, in_our_names

SEQUENCE_MAX = 1000  # of the messages of a flood
ROUNDS, IDS = 1000, 10  # calls of each of two tenants that use the same few ids
MESSAGE_MAX = 100_000  # bytes of a message that is looked into
PLAIN = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


def run(items, report):
    with tempfile.TemporaryDirectory(prefix="portcullis-attacks-") as folder, Stand(folder) as stand:
        for item in items:
            report(item, *judged(item, stand))


def judged(item, stand):
    """(faults, remarks) of an item, sent twice when it is one message: what is chosen must be chosen again."""
    expect, mark = item["expect"], stand.mark()
    bodies = [in_our_names(body) for body in corpus.bodies(item)][:SEQUENCE_MAX]
    with Watch(stand.gateway) as watch:
        try:
            answers = sent(item, stand, bodies)
        except OSError as error:
            return [f"no answer: {error}"], []
    faults = judge.answered(expect, answers)
    faults += [] if item.get("upstream_ok") else judge.reached(expect, stand, mark, answers)
    faults += judge.recorded(stand, mark, *entries(answers))
    faults += judge.measured(expect, stand, mark, watch)
    faults += echoed(bodies, answers)
    faults += sentence(item, stand, mark, answers, bodies)
    if len(bodies) == 1 and "with_second" not in item:
        again = sent(item, stand, bodies)
        ways = [[(answer.status, answer.code) for answer in one] for one in (answers, again)]
        if ways[0] != ways[1]:
            faults.append(f"answered {ways[0]}, then {ways[1]}")
    after, remarks = judge.afterwards(stand)
    forbidden = {**expect, **{key: item[key] for key in ("log_must_not_contain",) if key in item}}
    faults += after + judge.written(forbidden, stand, mark) + judge.alive(stand)
    return faults, remarks + unchecked(item)


def sent(item, stand, bodies):
    """The answers: of the item's messages one after the other on one connection, and of its second one beside them."""
    token = stand.words["TOK_A"]
    with ThreadPoolExecutor(1) as beside:
        second = None
        if "with_second" in item:
            body = in_our_names(item["with_second"].encode())
            second = beside.submit(lambda: stand.post(body, headers(item, body, stand, token)))
        connection = stand.connection()
        try:
            answers = []
            for body in bodies:
                answers.append(stand.post(body, headers(item, body, stand, token), connection=connection))
        finally:
            connection.close()
        return answers + ([second.result()] if second else [])


def headers(item, body, stand, token):
    """What a client that believes in its body would send along."""
    if item.get("era") == "2025":
        return {**stand.headers(token, LEGACY), "mcp-session-id": stand.words["SID_A"]}
    return {**stand.headers(token, MODERN), **mirrored(body)}


def mirrored(body):
    """`Mcp-Method` and `Mcp-Name`, where the body is JSON that has them: the body is tested, not the mirror."""
    try:
        # Integers stay text: an item has one of a million digits.
        message = json.loads(body, parse_int=str)
        method, params = message["method"], message.get("params") or {}
        keys = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
        name = params.get(keys.get(method))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    found = {}
    if isinstance(method, str) and re.fullmatch(r"[\x21-\x7e]{1,256}", method):
        found["mcp-method"] = method
    if isinstance(name, str):
        found["mcp-name"] = spelled(name)[:8000]
    return found


def spelled(name):
    if PLAIN.fullmatch(name) and not name.startswith("=?base64?") and len(name) < 4096:
        return name
    return f"=?base64?{base64.b64encode(name.encode('utf-8', 'surrogatepass')).decode()}?="


def entries(answers):
    """(least, most) audit entries: one a message, but what is too large may be refused by its length alone."""
    known = [answer for answer in answers if answer.status != 401]
    return len([answer for answer in known if answer.status != 413]), len(known)


def echoed(bodies, answers):
    """An error must carry the id of its request wherever that can be read (spec Z-02)."""
    try:
        identity = json.loads(bodies[0][:MESSAGE_MAX])["id"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    if len(bodies) > 1 or isinstance(identity, (bool, float)) or not isinstance(identity, (int, str)):
        return []
    wrong = [
        message.get("id") for answer in answers[:1] for message in answer.messages if "method" not in message
    ]
    return [f"id {wrong[0]!r}, expected {identity!r}"] if wrong and wrong[0] not in (identity, None) else []


def sentence(item, stand, mark, answers, bodies):
    """Faults by the sentence of an item, where it is a sentence that is understood here."""
    text = item["expect"].get("property")
    if text in SENTENCES:
        return SENTENCES[text](stand, mark, answers, bodies)
    return with_other_tenant(stand, mark, answers, bodies) if item.get("parallel_as") else []


def served(answers):
    return [answer for answer in answers if answer.status == 200 and answer.result is not None]


def dropped(stand, mark, answers, bodies):
    strays = [message["text"][:200] for message in stand.journal(mark.journal) if message["method"] is None]
    return [f"reached an upstream: {strays}"] if strays else []


def id_unchanged(stand, mark, answers, bodies):
    digits = re.search(rb'"id":(\d+)', bodies[0])[1]
    wrong = [answer.body[:200] for answer in served(answers) if b'"id":' + digits not in answer.body]
    return [f"the id came back changed: {wrong}"] if wrong else []


def each_its_own(stand, mark, answers, bodies):
    """Two requests at a time: each has an answer with its own content, or is refused."""
    tags = [re.search(r'\\"tag\\": *\\"(\w+)', answer.body.decode())[1] for answer in served(answers)]
    return [f"two answers with the content {tags}"] if len(tags) != len(set(tags)) else []


def with_other_tenant(stand, mark, answers, bodies):
    """Two tenants use the same ids at the same time; neither may see what the other one said."""

    def calls(word):
        token, connection, crossed = stand.words[word], stand.connection(), []
        try:
            for number in range(ROUNDS):
                body = tagged(bodies[0], word, number % IDS)
                known = {**stand.headers(token), **mirrored(body)}
                answer = stand.post(body, known, connection=connection)
                if f"{word}-{number % IDS}" not in answer.body.decode() or answer.result is None:
                    crossed.append(answer.body[:200])
        finally:
            connection.close()
        return crossed

    with ThreadPoolExecutor(2) as tenants:
        crossed = [one for found in tenants.map(calls, ("TOK_A", "TOK_B")) for one in found]
    return [f"{len(crossed)} answers of somebody else, such as {crossed[0]}"] if crossed else []


def tagged(body, word, number):
    message = json.loads(body)
    message["id"] = number
    message["params"]["arguments"]["tag"] = f"{word}-{number}"
    return json.dumps(message).encode()


def own_progress(stand, mark, answers, bodies):
    """Both tenants ask under one progress token; upstreams must see two of them, clients their own."""

    def call(word):
        token = stand.words[word]
        return stand.post(bodies[0], {**stand.headers(token), **mirrored(bodies[0])})

    mark = stand.mark()
    with ThreadPoolExecutor(2) as tenants:
        both = list(tenants.map(call, ("TOK_A", "TOK_B")))
    asked = json.loads(bodies[0])["params"]
    faults, wanted = [], asked["arguments"]["progress"]
    for answer in both:
        told = [
            message["params"]
            for message in answer.messages
            if message.get("method") == "notifications/progress"
        ]
        tokens = {str(one["progressToken"]) for one in told}
        if len(told) > wanted or tokens - {asked["_meta"]["progressToken"]}:
            faults.append(f"{len(told)} progress messages under {tokens}")
    seen = [
        json.loads(call["text"])["params"].get("_meta", {}).get("progressToken") for call in stand.calls(mark)
    ]
    if asked["_meta"]["progressToken"] in seen:
        faults.append(f"the client's progress token reached an upstream: {seen}")
    return faults


def digits_unchanged(stand, mark, answers, bodies):
    """What is served reached the upstream as it was written."""
    arguments = re.search(rb'"arguments":(\{.*?\}),"_meta"', bodies[0])[1].decode()
    arrived = [call["text"] for call in stand.calls(mark)]
    if served(answers) and not any(arguments in text for text in arrived):
        return [f"{arguments} arrived as {arrived}"]
    return []


def line_short(stand, mark, answers, bodies):
    return []  # every audit line of every item is measured


def not_executed(stand, mark, answers, bodies):
    time.sleep(0.1)
    calls = stand.calls(mark)
    return [f"executed: {[call['text'][:200] for call in calls]}"] if calls else []


SENTENCES = {
    "dropped; never delivered to another client or upstream": dropped,
    "if answered the id is echoed digit for digit": id_unchanged,
    "two answers, each with its own content, or the second refused": each_its_own,
    "not confused": each_its_own,
    "each tenant gets only its own tag; 1 000 rounds, ids 1..10": with_other_tenant,
    "each client sees only its own progress; upstream tokens are rewritten": own_progress,
    "arrives upstream as the same OBJECT, or is refused; never turned into the number 7": digits_unchanged,
    "arrives digit for digit or refused; default serde_json gives 1.8446744073709552e+19": digits_unchanged,
    "6 bytes on the wire become 1 byte and again 6 upstream; audit line stays under its cap": line_short,
    "upstream receives the literal 0.1000000000000000055511151231257827 unchanged, or the call is refused; "
    "the approval hash covers what upstream receives": digits_unchanged,
    "not executed: a call without id must not run a tool": not_executed,
}


def unchecked(item):
    """What an item asks for and nothing here looks at."""
    text = item["expect"].get("property")
    known = text in SENTENCES or text is None or bool(item.get("parallel_as"))
    left = sorted(set(item["expect"]) - judge.HANDLED)
    return ([] if known else [f"not checked: {text}"]) + ([f"not checked: {', '.join(left)}"] if left else [])
