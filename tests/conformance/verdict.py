"""What a run proves: scenarios against direct ones, and the exceptions that are written down."""

import re

import suite

MOST_EXCEPTIONS = 6
REVISION = "|".join(suite.REVISIONS)
WIRING = "(?:legacy|modern)-(?:legacy|modern)-(?:stdio|http)"
ENTRY = re.compile(
    rf"- {{ revision: ({REVISION}), wiring: ({WIRING}), scenario: ([\w-]+), spec: ([A-Z]-\d\d), reason: (\S.*) }}"
)
# From worst to best. Nothing was checked in a scenario that was skipped.
WORDS = ["skip", "fail", "warn", "pass"]
# The suite compares all that it hears with the schema of the revision, and says so with this check.
SCHEMA = "wire-schema-valid"


def outcome(checks):
    """One of WORDS."""
    met = {check["status"] for check in checks}
    for status, word in (("FAILURE", "fail"), ("WARNING", "warn"), ("SUCCESS", "pass")):
        if status in met:
            return word
    return "skip"


def counts(found):
    words = [outcome(checks) for checks in found.values()]
    return {word: words.count(word) for word in ("pass", "warn", "fail")}


def lost(direct, through):
    """Scenario -> why it does not go as well through the gateway as it does directly."""
    found = {}
    for scenario, checks in direct.items():
        came = through.get(scenario)
        if outcome(checks) not in ("pass", "warn"):
            continue
        if came is None:
            found[scenario] = ["did not run"]
        elif WORDS.index(outcome(came)) < WORDS.index(outcome(checks)):
            found[scenario] = reasons(came) or reasons(came, "WARNING") or ["was skipped: nothing was checked"]
        elif is_schema_checked(checks) and not is_schema_checked(came):
            found[scenario] = ["its messages were not compared with the schema"]
    return found


def is_schema_checked(checks):
    return any(check["id"] == SCHEMA for check in checks)


def reasons(checks, status="FAILURE"):
    return [f"{check['id']}: {check.get('errorMessage', '')}" for check in checks if check["status"] == status]


def flaws(direct, required):
    """What is wrong with a fixture, or with how it was asked: it must pass all there is, and miss nothing required."""
    found = [
        f"{scenario}: {why}"
        for scenario, checks in sorted(direct.items())
        for status in ("FAILURE", "WARNING")
        for why in reasons(checks, status)
    ]
    found += [
        f"{scenario}: is required, and nothing of it was checked"
        for scenario in sorted(required)
        if outcome(direct.get(scenario, [])) == "skip"
    ]
    if required and not any(is_schema_checked(checks) for checks in direct.values()):
        found.append("no message was compared with the schema")
    return found


def exceptions(text):
    """(revision, wiring) -> scenario -> the entry; raises where the text breaks its own rules."""
    found, most = {}, {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        entry = ENTRY.fullmatch(line)
        if entry is None:
            raise ValueError(f"exceptions.yaml:{number}: not an entry as the first lines describe it")
        revision, wiring, scenario, spec, reason = entry.groups()
        client, upstream, _ = wiring.split("-")
        if client == upstream:
            raise ValueError(f"exceptions.yaml:{number}: {wiring} is straight, and has no exceptions")
        if (client == "modern") != (revision in suite.MODERN):
            raise ValueError(f"exceptions.yaml:{number}: no {client} client speaks {revision}")
        listed = found.setdefault((revision, wiring), {})
        if scenario in listed:
            raise ValueError(f"exceptions.yaml:{number}: {scenario} stands there twice for {wiring}")
        listed[scenario] = {"spec": spec, "reason": reason}
        most[wiring] = most.get(wiring, 0) + 1
        if most[wiring] > MOST_EXCEPTIONS:
            raise ValueError(f"exceptions.yaml:{number}: {wiring} has more than {MOST_EXCEPTIONS} exceptions")
    return found


def judge(results, excepted):
    """What is wrong with a run: losses that nobody listed, and entries that nothing needs. Only what ran is judged."""
    wrong = []
    for revision, wirings in results.items():
        for wiring, result in wirings.items():
            listed = excepted.get((revision, wiring), {})
            for scenario, why in result["lost"].items():
                if scenario not in listed:
                    wrong += [f"{revision} {wiring} {scenario}: lost: {each}" for each in why]
            wrong += [
                f"{revision} {wiring} {scenario}: is not lost, so its exception is stale"
                for scenario in listed.keys() - result["lost"].keys()
            ]
    return sorted(wrong)
