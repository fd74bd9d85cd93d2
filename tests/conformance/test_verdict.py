"""What counts as lost, and what exceptions may say."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import verdict

FIRST = "- { revision: 2026-07-28, wiring: modern-legacy-http, scenario: one, spec: X-11, reason: it cannot be }"


def scenario(*statuses, schema=False):
    checks = [{"id": f"check-{status.lower()}", "status": status, "errorMessage": "why"} for status in statuses]
    return checks + [{"id": verdict.SCHEMA, "status": "SUCCESS"}] * schema


PASS, WARN, FAIL = scenario("INFO", "SUCCESS"), scenario("SUCCESS", "WARNING"), scenario("WARNING", "FAILURE")
SKIP = scenario("INFO", "SKIPPED")


class Outcome(unittest.TestCase):
    def test_the_worst_check_decides(self):
        found = {"a": PASS, "b": WARN, "c": FAIL, "d": SKIP, "e": []}
        self.assertEqual(
            [verdict.outcome(checks) for checks in found.values()], ["pass", "warn", "fail", "skip", "skip"]
        )
        self.assertEqual(verdict.counts(found), {"pass": 1, "warn": 1, "fail": 1})


class Lost(unittest.TestCase):
    def test_what_goes_worse_through_the_gateway_is_lost(self):
        for direct, through, is_lost in [
            (PASS, PASS, False),
            (PASS, WARN, True),
            (PASS, FAIL, True),
            (PASS, SKIP, True),
            (PASS, [], True),
            (PASS, None, True),
            (WARN, PASS, False),
            (WARN, WARN, False),
            (WARN, FAIL, True),
            (FAIL, FAIL, False),
            (FAIL, SKIP, False),
            (SKIP, SKIP, False),
            (SKIP, None, False),
        ]:
            came = {} if through is None else {"one": through}
            found = verdict.lost({"one": direct}, came)
            self.assertEqual(bool(found), is_lost, (direct, through, found))
            self.assertTrue(all(found.values()), "each loss says why")

    def test_what_is_not_compared_with_the_schema_is_lost(self):
        checked, unchecked = {"one": scenario("SUCCESS", schema=True)}, {"one": PASS}
        self.assertEqual(list(verdict.lost(checked, unchecked)), ["one"])
        self.assertEqual(verdict.lost(unchecked, checked), {})

    def test_a_loss_says_what_failed(self):
        self.assertEqual(verdict.lost({"one": PASS}, {"one": FAIL}), {"one": ["check-failure: why"]})
        self.assertEqual(verdict.lost({"one": PASS}, {"one": WARN}), {"one": ["check-warning: why"]})


class Flaws(unittest.TestCase):
    def test_a_fixture_passes_everything_and_all_that_is_required(self):
        fine = scenario("SUCCESS", schema=True)
        self.assertEqual(verdict.flaws({"one": fine, "more": SKIP}, {"one"}), [])
        missing = verdict.flaws({"one": fine}, {"one", "two"})
        self.assertEqual(missing, ["two: is required, and nothing of it was checked"])
        self.assertEqual(len(verdict.flaws({"one": fine, "two": SKIP}, {"one", "two"})), 1)
        self.assertEqual(verdict.flaws({"one": fine, "two": WARN}, {"one"}), ["two: check-warning: why"])
        self.assertEqual(len(verdict.flaws({"one": fine, "two": FAIL}, {"one"})), 2)

    def test_a_run_without_the_schema_proves_nothing(self):
        self.assertEqual(verdict.flaws({"one": PASS}, {"one"}), ["no message was compared with the schema"])
        self.assertEqual(verdict.flaws({"one": PASS}, set()), [])


class Exceptions(unittest.TestCase):
    def test_an_entry_is_read(self):
        found = verdict.exceptions(f"# a comment\n\n{FIRST}\n")
        self.assertEqual(
            found, {("2026-07-28", "modern-legacy-http"): {"one": {"spec": "X-11", "reason": "it cannot be"}}}
        )

    def test_what_breaks_the_rules_is_refused(self):
        seven = "\n".join(FIRST.replace("one", f"one-{index}") for index in range(7))
        for text, why in [
            ("whatever", "not an entry"),
            (FIRST.replace("X-11", "soon"), "not an entry"),
            (FIRST.replace(", reason: it cannot be", ""), "not an entry"),
            (FIRST.replace("revision: 2026-07-28, ", ""), "not an entry"),
            (FIRST.replace("modern-legacy", "modern-modern"), "straight"),
            (FIRST.replace("modern-legacy", "legacy-legacy").replace("2026-07-28", "2025-11-25"), "straight"),
            (FIRST.replace("modern-legacy", "legacy-modern"), "no legacy client"),
            (f"{FIRST}\n{FIRST}", "twice"),
            (seven, "more than 6"),
        ]:
            with self.assertRaisesRegex(ValueError, why):
                verdict.exceptions(text)
        self.assertEqual(len(verdict.exceptions(seven.rsplit("\n", 1)[0])["2026-07-28", "modern-legacy-http"]), 6)


class Judge(unittest.TestCase):
    def test_losses_are_listed_and_entries_are_needed(self):
        excepted = verdict.exceptions(FIRST)
        for lost, wiring, says in [
            ({}, "legacy-legacy-http", []),
            ({"one": ["why"]}, "modern-legacy-http", []),
            ({"one": ["why"]}, "modern-legacy-stdio", ["one: lost: why"]),
            ({"one": ["why"], "two": ["why"]}, "modern-legacy-http", ["two: lost: why"]),
            ({}, "modern-legacy-http", ["one: is not lost, so its exception is stale"]),
        ]:
            wrong = verdict.judge({"2026-07-28": {wiring: {"lost": lost}}}, excepted)
            self.assertEqual(wrong, [f"2026-07-28 {wiring} {each}" for each in says])
        self.assertEqual(verdict.judge({"2025-11-25": {}}, excepted), [], "what did not run is not judged")


if __name__ == "__main__":
    unittest.main()
