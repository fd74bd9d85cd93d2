"""What must be true whatever was sent: of the responses, the journal, the audit, the log, memory and time."""

import json
import re
import time

SOON_S, SOFT_S = 0.2, 2.0
LINE_MAX = 16 << 10
HANDLED = {
    *("status_any_of", "rpc_code", "rpc_code_any_of", "responses_max", "connection", "max_time_s"),
    *("connection_closed_within_s", "or_close_without_bytes", "header_absent", "body_must_not_match"),
    *("upstream_calls_max", "no_status_from_path", "upgrade", "rss_growth_mb_max", "cpu_s_max"),
    *("log_must_not_contain", "log_lines_max", "property"),
}


def afterwards(stand):
    """(faults, remarks) of a normal request on a new connection."""
    try:
        answer = stand.modern("tools/list", {}, stand.words["TOK_A"])
    except OSError as error:
        return [f"a normal request afterwards: {error}"], []
    if answer.status != 200 or answer.result is None:
        return [f"a normal request afterwards: {answer.status} {answer.body[:200]}"], []
    if answer.seconds > SOFT_S:
        return [f"a normal request afterwards took {answer.seconds:.2f} s"], []
    return [], [f"a normal request afterwards took {answer.seconds:.2f} s"] if answer.seconds > SOON_S else []


def answered(expect, answers):
    """Faults of the responses themselves."""
    faults, first = [], answers[0] if answers else None
    allowed = expect.get("status_any_of")
    if first and allowed and first.status not in allowed:
        faults.append(f"status {first.status}, expected {allowed}")
    codes = [expect["rpc_code"]] if "rpc_code" in expect else expect.get("rpc_code_any_of")
    if first and codes and first.error is not None and first.code not in codes:
        faults.append(f"code {first.code}, expected {codes}")
    if first and "rpc_code" in expect and first.error is None:
        faults.append(f"no error, expected {codes}")
    for answer in answers:
        if answer.status >= 500 and answer.status not in (allowed or []):
            faults.append(f"status {answer.status}")
        absent = expect.get("header_absent", "").lower()
        if absent and absent in answer.headers:
            faults.append(f"header {absent}: {answer.headers[absent]}")
        forbidden = expect.get("body_must_not_match")
        if forbidden and re.search(forbidden.encode(), answer.body):
            faults.append(f"the body matches {forbidden}")
    return faults


def refused(answers):
    """Was the request turned down, or not answered with a result at all?"""
    return not any(answer.status == 200 and answer.result is not None for answer in answers)


def reached(expect, stand, mark, answers):
    """Faults of what upstreams received: nothing at all, unless the request was served or calls are allowed."""
    most = expect.get("upstream_calls_max", 0 if refused(answers) else None)
    if most is None:
        return []
    calls = settled(lambda: stand.calls(mark), lambda found: len(found) > most)
    shown = [call["text"][:200] for call in calls]
    return [f"{len(calls)} messages reached an upstream: {shown}"] if len(calls) > most else []


def settled(look, wrong, seconds=0.05):
    """What is seen in the end: at once when it is wrong already, else after a moment in which it may go wrong."""
    end = time.monotonic() + seconds
    while not wrong(found := look()) and time.monotonic() < end:
        time.sleep(0.01)
    return found


def recorded(stand, mark, least, most):
    """Faults of the audit: its entries are counted, and every line is JSON."""
    end = time.monotonic() + 2
    while True:
        lines, entries, faults = stand.audit(mark), set(), []
        for line in lines:
            try:
                entries.add(json.loads(line)["entry"])
            except (ValueError, KeyError, TypeError):
                faults.append(f"an audit line is no record: {line[:200]}")
            if len(line) > LINE_MAX:
                faults.append(f"an audit line has {len(line)} characters")
        if faults or len(entries) >= least or time.monotonic() > end:
            break
        time.sleep(0.02)
    if not least <= len(entries) <= most:
        expected = str(least) if least == most else f"{least} to {most}"
        faults.append(f"{len(entries)} audit entries, expected {expected}")
    return faults


def written(expect, stand, mark):
    """Faults of what stands in log and audit since."""
    log = stand.gateway.log_text()[mark.log :]
    text = "\n".join([log, *stand.audit(mark)])
    faults = [f"`{secret[:12]}…` is in log or audit" for secret in stand.secrets if secret in text]
    if "panicked" in log:
        faults.append(f"a panic: {log[log.index('panicked') :][:300]}")
    forbidden = expect.get("log_must_not_contain")
    if forbidden and (found := re.search(forbidden, text)):
        faults.append(f"log or audit holds {found[0]!r}")
    if len(log.splitlines()) > expect.get("log_lines_max", 1000):
        faults.append(f"{len(log.splitlines())} lines of log")
    return faults


def measured(expect, stand, mark, watch):
    """Faults of what it took."""
    faults = []
    if watch.megabytes > expect.get("rss_growth_mb_max", float("inf")):
        faults.append(f"{watch.megabytes:.1f} MB of memory more, expected {expect['rss_growth_mb_max']}")
    used = stand.cpu() - mark.cpu
    if used > expect.get("cpu_s_max", float("inf")):
        faults.append(f"{used:.2f} s of processor time, expected {expect['cpu_s_max']}")
    return faults


def alive(stand):
    code = stand.gateway.process.poll()
    return [] if code is None else [f"the gateway ended with {code}"]
