"""What a run proves: scenarios against direct ones, and the exceptions that are written down."""

import re

import suite

MOST_EXCEPTIONS = 6
WIRING = "((?:legacy|modern)-(?:legacy|modern)-(?:stdio|http))"
ENTRY = re.compile(rf"- {{ wiring: {WIRING}, scenario: ([\w-]+), spec: ([A-Z]-\d\d), why: (.+) }}")


def outcome(checks):
    """pass, warn, fail, or skip: nothing was checked."""
    met = {check["status"] for check in checks}
    for status, word in (("FAILURE", "fail"), ("WARNING", "warn"), ("SUCCESS", "pass")):
        if status in met:
            return word
    return "skip"


def counts(found):
    words = [outcome(checks) for checks in found.values()]
    return {word: words.count(word) for word in ("pass", "warn", "fail")}


def lost(direct, through):
    """Scenario -> why it passes directly and not through the gateway."""
    found = {}
    for scenario, checks in direct.items():
        came = through.get(scenario, [])
        if outcome(checks) in ("pass", "warn") and outcome(came) in ("fail", "skip"):
            found[scenario] = reasons(came) or ["skipped"]
    return found


def reasons(checks, status="FAILURE"):
    return [f"{check['id']}: {check.get('errorMessage', '')}" for check in checks if check["status"] == status]


def exceptions(file):
    """Wiring -> scenario -> the entry; raises where the file breaks its own rules."""
    found = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        entry = ENTRY.fullmatch(line)
        if entry is None:
            raise ValueError(f"{file.name}:{number}: not an entry as the first lines describe it")
        wiring, scenario, spec, why = entry.groups()
        client, upstream, _ = wiring.split("-")
        if client == upstream:
            raise ValueError(f"{file.name}:{number}: {wiring} is straight, and has no exceptions")
        found.setdefault(wiring, {})[scenario] = {"spec": spec, "why": why}
        if len(found[wiring]) > MOST_EXCEPTIONS:
            raise ValueError(f"{file.name}:{number}: {wiring} has more than {MOST_EXCEPTIONS} exceptions")
    return found


def judge(results, excepted):
    """What is wrong with a run: losses that nobody listed, and entries that nothing needs."""
    wrong = []
    for wiring in {wiring for wirings in results.values() for wiring in wirings}:
        ran = {revision: wirings[wiring] for revision, wirings in results.items() if wiring in wirings}
        listed = excepted.get(wiring, {})
        whole = len(suite.LEGACY if wiring.startswith("legacy") else suite.MODERN)
        for revision, result in ran.items():
            for scenario in result["lost"].keys() - listed.keys():
                wrong += [f"{revision} {wiring} {scenario}: {why}" for why in result["lost"][scenario]]
        for scenario in listed:
            asked = any(scenario in result["asked"] for result in ran.values()) or len(ran) == whole
            if asked and not any(scenario in result["lost"] for result in ran.values()):
                wrong.append(f"{wiring} {scenario}: is not lost, so its exception is stale")
    return sorted(wrong)
